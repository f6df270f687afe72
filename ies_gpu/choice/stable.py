"""Whether another sample would choose the same set, by the scores at the points, and which sets count as the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .criterion import log_volumes, penalties, ranked

if TYPE_CHECKING:
    from .search import SearchResult

NEAR = 0.05  # relative difference of eigenvalues whose eigenvectors a sample mixes
RIVALS = 30  # best sets among which another sample chooses
DRAWS = 400  # of other samples


class NearPair(NamedTuple):
    """Two neighbouring coordinates, 0-based, whose eigenvalues nearly coincide, and their relative difference."""

    first: int
    second: int
    difference: float


def near_pairs(eigenvalues: np.ndarray, near: float = NEAR) -> tuple[NearPair, ...]:
    """Neighbours with ``(larger - smaller) / larger <= near``."""
    values = np.asarray(eigenvalues, dtype=float)
    differences = np.diff(values) / np.maximum(np.abs(values[1:]), 1e-300)
    return tuple(NearPair(int(k), int(k) + 1, float(differences[k])) for k in np.flatnonzero(differences <= near))


def same_up_to_twins(one: tuple[int, ...], other: tuple[int, ...], pairs: tuple[NearPair, ...]) -> bool:
    """Whether two sets take as many members from each run of nearly equal eigenvalues."""
    group = {k: k for k in (*one, *other)}
    for pair in pairs:  # rising, so that runs of three and more are joined too
        group[pair.second] = group.get(pair.first, pair.first)
    return sorted(group.get(k, k) for k in one) == sorted(group.get(k, k) for k in other)


def recurrence(bases: np.ndarray, n: int, found: SearchResult, eigenvalues: np.ndarray) -> float:
    """Return the share of other samples of n points that would choose the same set up to twins, of the best ones.

    Eigenvectors and zeta are kept. This sample and another each have their own error, so that the difference between
    the scores of two sets varies with twice the variance that the mean over n points has; the tangent bases of some of
    the points (q, m, d) tell it.
    """
    best = ranked(found.subsets, found.scores, eigenvalues, found.zeta)[:RIVALS]
    sets = found.subsets[best]
    losses = found.scores[best] - found.zeta * penalties(sets, eigenvalues)
    scores = log_volumes(bases, sets)
    values, axes = np.linalg.eigh(2 / n * np.cov(scores.T).reshape(len(sets), -1))
    drawn = np.random.default_rng(0).normal(size=(DRAWS, len(sets))) * np.sqrt(np.maximum(values, 0))
    winners, times = np.unique((losses + drawn @ axes.T).argmax(axis=1), return_counts=True)
    pairs = near_pairs(eigenvalues)
    same = [same_up_to_twins(found.subset, tuple(sets[k].tolist()), pairs) for k in winners]
    return float(times @ same) / DRAWS
