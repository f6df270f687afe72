"""What every search hands over, and how a set and zeta are chosen from it (algorithm IndEigenSearch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...backend import backend_of, to_host
from ...backend.array import Array
from ...constraints import Percentile
from ...validation import check_choice, check_integer, check_number, check_real_array
from ..criterion import Scores, penalties, score_pass
from ..regularization import Segment, first_acceptable, regret_of, regularization_path, segment_at


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    subset : tuple of int
        The chosen set, counted from 0, ascending.
    zeta : float
        The weight of the penalty, given or found.
    zeta_interval : tuple of (float, float or None)
        The range of zeta on which the set is the best; None for no upper end.
    path : tuple of Segment
        The regularization path over the sets that were scored, from ``zeta = inf`` down.
    chosen : int
        The index of the chosen segment of the path.
    passed : bool
        Whether the chosen set passed the percentile of the regret. Always True if zeta was given.
    subsets : ndarray of shape (n_subsets, subset_size)
        All sets that were scored, in lexicographic order.
    scores : ndarray of shape (n_subsets,)
        Their mean scores ``R(S)``.
    regrets : ndarray of shape (n_samples, n_segments)
        The leave-one-out regret of each set on the path, with respect to the sets that were scored.
    percentiles : ndarray of shape (n_segments,)
        The percentile of the regret of each set on the path.
    search_order : tuple of int
        The chosen set in the order in which the search added its members.
    details : dict
        Which ``method`` ran, its ``guarantee`` in words, whether the path is the one that enumeration gives
        (``path_exact``), ``pool_size``, ``sets_scored`` of ``sets_total``, and other counts of the method.
    """

    subset: tuple[int, ...]
    zeta: float
    zeta_interval: tuple[float, float | None]
    path: tuple[Segment, ...]
    chosen: int
    passed: bool
    subsets: np.ndarray
    scores: np.ndarray
    regrets: Array
    percentiles: np.ndarray
    search_order: tuple[int, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def renumbered(self, numbers: Sequence[int]) -> SearchResult:
        """Return the same result with other numbers for the coordinates.

        Parameters
        ----------
        numbers : sequence of int
            What to call coordinate k: ``numbers[k]``.

        Returns
        -------
        SearchResult
            The result with every set renumbered.
        """

        def named(subset: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(numbers[k] for k in subset)

        return replace(
            self,
            subset=named(self.subset),
            path=tuple(replace(segment, subset=named(segment.subset)) for segment in self.path),
            subsets=np.asarray(numbers, dtype=self.subsets.dtype)[self.subsets],
            search_order=named(self.search_order),
        )


class Evaluated(NamedTuple):
    """The sets (q, s) that a search has scored, how it went, and the order in which sets were built, where known."""

    subsets: np.ndarray
    details: dict[str, Any]
    orders: Mapping[tuple[int, ...], tuple[int, ...]] = {}


def check_zeta(zeta: Any) -> float | None:
    """A number, 0 or more, or ``"auto"`` (None)."""
    if isinstance(zeta, str):
        check_choice("zeta", zeta, ("auto",))
        return None
    return check_number("zeta", zeta, closed=True)


def check_problem(bases: Array, eigenvalues: Array) -> tuple[Array, np.ndarray]:
    """Tangent bases (n, m, d) where they are, and as many eigenvalues on the host."""
    bases = check_real_array("bases", bases, 3)
    n, m, d = bases.shape
    if n < 2 or not 1 <= d <= m:
        raise ValueError(f"bases must have shape (n, m, d) with n >= 2 and 1 <= d <= m, got {bases.shape}")
    values = to_host(check_real_array("eigenvalues", eigenvalues, 1))
    if len(values) != m:
        raise ValueError(f"eigenvalues must have one entry per coordinate ({m}), got {len(values)}")
    return bases, values


def check_size(bases: Array, subset_size: Any, name: str = "subset_size") -> int:
    """s, between d and m."""
    _, m, d = bases.shape
    return check_integer(name, subset_size, low=d, high=m, why=f" (intrinsic_dim is {d}, n_components is {m})")


def searched(
    find: Callable[[Array, np.ndarray, int, float | None], Evaluated],
    bases: Array,
    eigenvalues: Array,
    subset_size: Any,
    zeta: Any,
    percentile: Any,
) -> SearchResult:
    """Check what a search was given, let ``find(bases, eigenvalues, s, zeta)`` name sets, score them and choose."""
    bases, values = check_problem(bases, eigenvalues)
    s, weight = check_size(bases, subset_size), check_zeta(zeta)
    alpha = Percentile().check("percentile", percentile)
    with backend_of(bases).active():
        sets = find(bases, values, s, weight)
        return choose(bases, values, sets, score_pass(bases, sets.subsets), weight, alpha)


def choose(
    bases: Array,
    eigenvalues: np.ndarray,
    evaluated: Evaluated,
    passed_over: Scores,
    zeta: float | None,
    percentile: float,
) -> SearchResult:
    """Path, regret and choice from a finished pass over all sets evaluated."""
    backend = backend_of(bases)
    scores = backend.to_host(passed_over.totals) / len(bases)
    path = regularization_path(scores, evaluated.subsets, eigenvalues)
    on_path = np.array([segment.subset for segment in path], dtype=np.int32)
    regrets = regret_of(bases, on_path, passed_over)
    percentiles = backend.to_host(backend.xp.percentile(regrets, percentile, axis=0))
    return decided(path, percentiles, zeta, evaluated, scores, regrets)


def decided(
    path: tuple[Segment, ...],
    percentiles: np.ndarray,
    zeta: float | None,
    evaluated: Evaluated,
    scores: np.ndarray,
    regrets: Array,
) -> SearchResult:
    """The segment at zeta, or for None the first whose percentile of the regret is not positive."""
    found = first_acceptable(percentiles) if zeta is None else segment_at(path, zeta)
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
        subsets=evaluated.subsets,
        scores=scores,
        regrets=regrets,
        percentiles=percentiles,
        search_order=evaluated.orders.get(segment.subset, segment.subset),
        details=evaluated.details,
    )


def ranked(subsets: np.ndarray, scores: np.ndarray, eigenvalues: np.ndarray, zeta: float) -> np.ndarray:
    """Numbers of the sets by falling ``R(S) - zeta sum lambda_k``; equal ones in lexicographic order."""
    return np.argsort(-(scores - zeta * penalties(subsets, eigenvalues)), kind="stable")
