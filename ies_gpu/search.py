"""Searching for the best set of coordinates (algorithm IndEigenSearch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .backend import backend_of
from .criterion import Scores, candidate_subsets, penalties, score_pass
from .path import Segment, first_acceptable, regret_of, regularization_path, segment_at
from .validation import check_choice, check_integer, check_number, check_real_array

METHODS = ("exhaustive",)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    subset : tuple of int
        S*, 0-based, rising.
    zeta, zeta_interval : float, (float, float or None)
        zeta* and the interval on which S* is optimal; None for no upper end.
    path : tuple of Segment
        From zeta = inf down.
    chosen : int
        The path's segment that was taken.
    passed : bool
        Whether the regret of S* passed the percentile (always, for a given zeta).
    subsets, scores : array (q, s), (q,)
        All sets evaluated, in lexicographic order, and their mean scores R(S).
    regrets : array (n, len(path))
        Leave-one-out regret of each set of the path.
    percentiles : array (len(path),)
    """

    subset: tuple[int, ...]
    zeta: float
    zeta_interval: tuple[float, float | None]
    path: tuple[Segment, ...]
    chosen: int
    passed: bool
    subsets: np.ndarray
    scores: np.ndarray
    regrets: Any
    percentiles: np.ndarray


def check_zeta(zeta: Any) -> float | None:
    """A number, 0 or more, or ``"auto"`` (None)."""
    if isinstance(zeta, str):
        check_choice("zeta", zeta, ("auto",))
        return None
    return check_number("zeta", zeta, closed=True)


def search_exhaustive(
    bases: Any, eigenvalues: Any, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75
) -> SearchResult:
    """Score every set of ``subset_size`` coordinates that holds the first, and choose one.

    Parameters
    ----------
    bases : array (n, m, d)
        Tangent bases.
    eigenvalues : array (m,)
        Of the unscaled Laplacian, rising.
    subset_size : int
        s, between d and m.
    zeta : float or "auto"
        Weight of the penalty ``sum_{k in S} lambda_k``. ``"auto"`` walks the path from infinity down and takes the
        first set whose regret has a ``percentile`` that is not positive.
    percentile : float
        alpha of the paper.
    """
    bases = check_real_array("bases", bases, 3)
    _, m, d = bases.shape
    s = check_integer("subset_size", subset_size, low=d, high=m, why=f" (intrinsic_dim is {d}, n_components is {m})")
    values = check_real_array("eigenvalues", backend_of(eigenvalues).to_host(eigenvalues), 1)
    if len(values) != m:
        raise ValueError(f"eigenvalues must have one entry for each of {m} coordinates, got {len(values)}")
    subsets = candidate_subsets(m, s)
    return choose(bases, values, subsets, score_pass(bases, subsets), check_zeta(zeta), check_percentile(percentile))


def check_percentile(percentile: Any) -> float:
    """alpha, from 0 to 100."""
    return check_number("percentile", percentile, low=0.0, high=100.0, closed=True)


def choose(
    bases: Any,
    eigenvalues: np.ndarray,
    subsets: np.ndarray,
    passed_over: Scores,
    zeta: float | None,
    percentile: float,
    progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Path, regret and choice from a finished pass over all sets."""
    backend = backend_of(bases)
    scores = backend.to_host(passed_over.totals) / len(bases)
    path = regularization_path(scores, subsets, eigenvalues)
    on_path = np.array([segment.subset for segment in path], dtype=np.int32)
    regrets = regret_of(bases, on_path, passed_over)
    percentiles = backend.to_host(backend.xp.percentile(regrets, percentile, axis=0))
    found = first_acceptable(path, percentiles) if zeta is None else segment_at(path, zeta)
    index = len(path) - 1 if found is None else found
    segment = path[index]
    value = zeta if zeta is not None else 0.0 if found is None else segment.middle
    return SearchResult(
        subset=segment.subset,
        zeta=value,
        zeta_interval=(segment.low, None if np.isinf(segment.high) else segment.high),
        path=path,
        chosen=index,
        passed=found is not None,
        subsets=subsets,
        scores=scores,
        regrets=regrets,
        percentiles=percentiles,
    )


def ranked(subsets: np.ndarray, scores: np.ndarray, eigenvalues: np.ndarray, zeta: float) -> np.ndarray:
    """Numbers of the sets by falling ``R(S) - zeta sum lambda_k``; equal ones in lexicographic order."""
    return np.argsort(-(scores - zeta * penalties(subsets, eigenvalues)), kind="stable")
