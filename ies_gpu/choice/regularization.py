"""The regularization path, the leave-one-out regret, and the choice of zeta (algorithm ReguParamSearch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import at_home, backend_of
from ..validation import check_real_array
from .criterion import check_subsets, penalties, score_pass
from .criterion import log_volumes as volumes_of

TOLERANCE = 1e-10  # a percentile of the regret up to here counts as not positive


@dataclass(frozen=True)
class Segment:
    """A piece of the path: between two values of zeta one set is the best.

    Attributes
    ----------
    subset : tuple of int
        0-based.
    low, high : float
        The set is optimal for ``low <= zeta <= high``; the first segment of a path has ``high = inf``.
    score : float
        ``R(S)``, the value of its line at zeta = 0.
    penalty : float
        ``sum_{k in S} lambda_k``, minus the slope.
    """

    subset: tuple[int, ...]
    low: float
    high: float
    score: float
    penalty: float

    @property
    def middle(self) -> float:
        """The arithmetic middle; for ``[a, inf)`` it is ``2 a``."""
        return 2 * self.low if np.isinf(self.high) else 0.5 * (self.low + self.high)


@at_home
def regularization_path(scores: Any, subsets: Any, eigenvalues: Any) -> tuple[Segment, ...]:
    """The sets that maximise ``R(S) - zeta sum_{k in S} lambda_k`` for some zeta >= 0, from zeta = inf down to 0.

    An upper envelope of straight lines, exactly: from each line the next one is where it is first overtaken.

    Parameters
    ----------
    scores : array (q,)
        Mean scores R(S).
    subsets : array (q, s) of int
    eigenvalues : array (m,)
        Of the unscaled Laplacian.
    """
    values = check_real_array("eigenvalues", _host(eigenvalues), 1)
    sets = check_subsets(_host(subsets), len(values))
    heights = check_real_array("scores", _host(scores), 1)
    if len(heights) != len(sets):
        raise ValueError(f"scores has {len(heights)} entries for {len(sets)} subsets")
    slopes = penalties(sets, values)
    # the best at zeta = 0; among equal ones the smallest penalty, then the first
    current = int(np.lexsort((slopes, -heights))[0])
    segments, low = [], 0.0
    while True:
        behind = np.flatnonzero(slopes < slopes[current])
        if len(behind) == 0:
            high = np.inf
        else:
            crossing = (heights[current] - heights[behind]) / (slopes[current] - slopes[behind])
            high = max(low, float(crossing.min()))
        chosen = tuple(int(k) for k in sets[current])
        segments.append(Segment(chosen, low, high, float(heights[current]), float(slopes[current])))
        if high == np.inf:
            return tuple(reversed(segments))
        # where several cross at once the flattest goes on
        meeting = behind[crossing <= crossing.min()]
        current, low = int(meeting[np.argmin(slopes[meeting])]), high


@at_home
def leave_one_out_regret(bases: Any, subsets: Any, *, candidates: Any) -> Any:
    """The regret ``D(S, i) = R(S_*^i; [n] - i) - R(S; [n] - i)`` of sets at every point.

    ``S_*^i`` is the best candidate at point i alone, the first among equal ones. Where most regrets are positive, most
    points would have the others choose another set.

    Parameters
    ----------
    bases : array (n, m, d)
    subsets : array (q, s) of int
        The sets whose regret is wanted.
    candidates : array (c, s) of int
        The sets among which points choose, in lexicographic order.

    Returns
    -------
    array (n, q)
    """
    bases = check_real_array("bases", bases, 3)
    sets = check_subsets(subsets, bases.shape[1])
    return regret_of(bases, sets, score_pass(bases, check_subsets(candidates, bases.shape[1])))


def regret_of(bases: Any, subsets: np.ndarray, scores: Any) -> Any:
    """The same from a finished pass over the candidates."""
    own = volumes_of(bases, subsets)
    best_elsewhere = scores.totals[scores.best] - scores.best_scores
    return (best_elsewhere[:, None] - (own.sum(axis=0) - own)) / (len(bases) - 1)


def first_acceptable(path: tuple[Segment, ...], percentiles: np.ndarray) -> int | None:
    """The first segment, coming from zeta = inf, whose percentile of the regret is not positive."""
    passing = np.flatnonzero(np.asarray(percentiles) <= TOLERANCE)
    return int(passing[0]) if len(passing) else None


def segment_at(path: tuple[Segment, ...], zeta: float) -> int:
    """The segment that holds zeta; at a breakpoint the one with the smaller penalty."""
    return next(i for i, segment in enumerate(path) if segment.low <= zeta)


def _host(array: Any) -> Any:
    return backend_of(array).to_host(array)
