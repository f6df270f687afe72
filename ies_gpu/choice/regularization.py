"""The regularization path, the leave-one-out regret, and the choice of zeta (algorithm ReguParamSearch)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Backend, at_home, backend_of, to_host
from ..backend.array import Array, column_sums
from ..findings import refusal
from ..validation import check_real_array
from .criterion import Scores, check_bases, check_spanning, check_subsets, log_volumes, penalties, score_pass

TOLERANCE = 1e-10  # a percentile of the regret up to here counts as not positive


@dataclass(frozen=True)
class Segment:
    """A piece of the regularization path: a range of zeta on which one set is the best.

    Attributes
    ----------
    subset : tuple of int
        The set, counted from 0.
    low, high : float
        The set is the best for ``low <= zeta <= high``. The first segment of a path has ``high = inf``.
    score : float
        The score ``R(S)``, the value of the set's line at ``zeta = 0``.
    penalty : float
        The sum of the set's eigenvalues, which is minus the slope of its line.
    """

    subset: tuple[int, ...]
    low: float
    high: float
    score: float
    penalty: float

    @property
    def middle(self) -> float:
        """The middle of the range; for a range without an upper end, twice the lower one."""
        return 2 * self.low if np.isinf(self.high) else 0.5 * (self.low + self.high)


@at_home
def regularization_path(scores: Array, subsets: Array, eigenvalues: Array) -> tuple[Segment, ...]:
    """Return the sets that maximise ``R(S) - zeta sum_{k in S} lambda_k`` for some ``zeta >= 0``.

    The maximum is the upper envelope of straight lines, and is computed exactly: from each line, the next is the one
    that overtakes it first.

    Parameters
    ----------
    scores : ndarray of shape (n_subsets,)
        The mean scores ``R(S)``.
    subsets : array-like of shape (n_subsets, subset_size)
        The sets, counted from 0.
    eigenvalues : ndarray of shape (n_components,)
        The eigenvalues of the unscaled Laplacian.

    Returns
    -------
    tuple of Segment
        One segment per set on the path, from ``zeta = inf`` down to 0.

    Examples
    --------
    >>> import ies_gpu
    >>> path = ies_gpu.regularization_path([-3.0, -1.0], [[0, 1], [0, 2]], [0.1, 0.2, 0.6])
    >>> [segment.subset for segment in path]
    [(0, 1), (0, 2)]
    >>> round(path[0].low, 6)
    5.0
    """
    values = to_host(check_real_array("eigenvalues", eigenvalues, 1))
    sets = check_subsets(to_host(subsets) if hasattr(subsets, "shape") else subsets, len(values))
    heights = to_host(check_real_array("scores", scores, 1))
    if len(heights) != len(sets):
        raise refusal("scores.number", f"scores has {len(heights)} entries for {len(sets)} subsets")
    slopes = penalties(sets, values)
    # the best at zeta = 0; among equal ones the smallest penalty, then the first
    current = int(np.lexsort((slopes, -heights))[0])
    segments, low = [], 0.0
    while True:
        behind = np.flatnonzero(slopes < slopes[current])
        crossing = (heights[current] - heights[behind]) / (slopes[current] - slopes[behind])
        high = max(low, float(crossing.min(initial=np.inf)))
        chosen = tuple(int(k) for k in sets[current])
        segments.append(Segment(chosen, low, high, float(heights[current]), float(slopes[current])))
        if len(behind) == 0:
            return tuple(reversed(segments))
        # where several cross at once the flattest goes on
        meeting = behind[crossing <= crossing.min()]
        current, low = int(meeting[np.argmin(slopes[meeting])]), high


@at_home
def leave_one_out_regret(bases: Array, subsets: Array, *, candidates: Any) -> Array:
    """Return the regret ``D(S, i) = R(S_*^i; [n] - i) - R(S; [n] - i)`` of sets at every point.

    ``S_*^i`` is the best candidate at point i alone. If most regrets of a set are positive, the choice that most points
    would make is better for the other points too.

    Parameters
    ----------
    bases : ndarray of shape (n_samples, n_components, intrinsic_dim)
        The tangent bases, from :func:`tangent_bases`.
    subsets : array-like of shape (n_subsets, subset_size)
        The sets whose regret is wanted, counted from 0.
    candidates : array-like of shape (n_candidates, subset_size)
        The sets among which each point chooses, in lexicographic order. The first of equally good ones is taken.

    Returns
    -------
    ndarray of shape (n_samples, n_subsets)
        The regret of each set at each point.

    Examples
    --------
    >>> import ies_gpu
    >>> X = ies_gpu.datasets.load("D1", n_samples=400).X
    >>> strip = ies_gpu.select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.8, n_components=10)
    >>> candidates = [(0, k) for k in range(1, 10)]
    >>> ies_gpu.leave_one_out_regret(strip.bases, [[0, 6]], candidates=candidates).shape
    (400, 1)
    """
    bases = check_bases(bases, 2)  # one is left out
    sets, among = check_spanning(subsets, bases), check_spanning(candidates, bases, "candidates")
    if sets.shape[1] != among.shape[1]:
        text = f"candidates must have {sets.shape[1]} members like subsets, got {among.shape[1]}"
        raise refusal("candidates.size", text)
    return regret_of(bases, sets, among, score_pass(bases, among))


def regret_of(bases: Array, subsets: np.ndarray, candidates: np.ndarray, scores: Scores) -> Array:
    """Return the regret of sets at every point, given the scores of all candidates.

    Of a candidate the sum of its scores is taken, not one of volumes that were computed again: in float32 the two
    differ, and the regret would not be 0 where the set is the best.
    """
    n, backend = len(bases), backend_of(bases)
    own, totals, every = log_volumes(bases, subsets), backend.to_host(scores.totals), np.sort(candidates, axis=1)
    found = [np.flatnonzero((every == subset).all(axis=1)) for subset in np.sort(subsets, axis=1)]
    places = np.array([rows[0] if len(rows) else -1 for rows in found])  # -1: it is no candidate
    sums = totals[places]
    limits: dict[str, Any] = {"bytes_per_row": 32.0 * len(subsets), "stage": "search"}
    if (places < 0).any():
        (added,) = backend.sweep(lambda _, own: (column_sums(own),), own, sums=1, **limits)
        sums = np.where(places >= 0, sums, backend.to_host(added))

    def regrets(backend: Backend, own: Array, best: Array, best_scores: Array) -> tuple[Array]:
        at, where, known = map(backend.asarray, (sums, places, totals))
        best_elsewhere = known[best] - best_scores
        regret = (best_elsewhere[:, None] - (at - own)) / (n - 1)
        return (backend.xp.where(best[:, None] == where, 0.0, regret),)

    return backend.sweep(regrets, own, scores.best, scores.best_scores, rows=1, **limits)[0]


def first_acceptable(percentiles: np.ndarray) -> int | None:
    """Return the first segment of a path, coming from zeta = inf, whose percentile of the regret is not positive."""
    passing = np.flatnonzero(np.asarray(percentiles) <= TOLERANCE)
    return int(passing[0]) if len(passing) else None


def segment_at(path: tuple[Segment, ...], zeta: float) -> int:
    """Return the segment that holds zeta; at a breakpoint the one with the smaller penalty."""
    return next(i for i, segment in enumerate(path) if segment.low <= zeta)
