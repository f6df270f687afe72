"""The paper's greedy search (algorithm GreedyIndEigenSearch): the best d coordinates, then one more at a time."""

from __future__ import annotations

import numpy as np

from ..backend import at_home, backend_of
from ..backend.array import Array
from ..validation import check_number
from .criterion import CandidateSets, all_sets, candidate_subsets, check_problem, check_size, penalties
from .pool import Pool, Subset, mean_scores


@at_home
def greedy_order(bases: Array, eigenvalues: Array, *, zeta: float, size: int | None = None) -> tuple[int, ...]:
    """Return the order in which the greedy search adds coordinates.

    Parameters
    ----------
    bases, eigenvalues, zeta : as in :func:`search_exhaustive`
        Tangent bases, eigenvalues and the weight of the penalty, a number.
    size : int, optional
        How many coordinates to add, by default all.

    Returns
    -------
    tuple of int
        The coordinates, counted from 0, the most significant first. The first d are the best d together, in ascending
        order.
    """
    bases, values = check_problem(bases, eigenvalues)
    zeta = check_number("zeta", zeta, closed=True)
    size = check_size(bases, bases.shape[1] if size is None else size, "size")
    with backend_of(bases).active():
        return Steps(bases, values).order(zeta, size)


class Steps:
    """Scores of the starting sets and of the additions to a set: they do not depend on zeta, so each is kept."""

    def __init__(self, bases: Array, eigenvalues: np.ndarray) -> None:
        _, self.m, self.d = bases.shape
        self.bases, self.eigenvalues = bases, eigenvalues
        self.starts = candidate_subsets(self.m, self.d)
        self.start_scores = mean_scores(bases, map(tuple, self.starts.tolist()))
        self.known: dict[Subset, np.ndarray] = {}

    def order(self, zeta: float, size: int) -> Subset:
        """The greedy order for one zeta; equal losses go to the first."""
        losses = self.start_scores - zeta * penalties(self.starts, self.eigenvalues)
        chosen = tuple(int(k) for k in self.starts[losses.argmax()])
        while len(chosen) < size:
            rest = self.rest(chosen)
            gains = self.additions(chosen) - zeta * self.eigenvalues[rest]
            chosen = (*chosen, rest[int(gains.argmax())])
        return chosen

    def rest(self, chosen: Subset) -> list[int]:
        return [k for k in range(self.m) if k not in chosen]

    def additions(self, chosen: Subset) -> np.ndarray:
        """R of the set with each of the other coordinates added."""
        key = tuple(sorted(chosen))
        if key not in self.known:
            self.known[key] = mean_scores(self.bases, [tuple(sorted((*key, k))) for k in self.rest(key)])
        return self.known[key]


def greedy_sets(bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None) -> CandidateSets:
    """Name all sets of the final size that the search scores, at zeta or (for None) along the path."""
    _, m, d = bases.shape
    if s == d:
        return all_sets(m, s, "greedy")
    pool, steps = Pool(bases, eigenvalues, s), Steps(bases, eigenvalues)

    def oracle(at: float) -> None:
        before = steps.order(at, s - 1)
        for k, score in zip(steps.rest(before), steps.additions(before).tolist(), strict=True):
            subset = tuple(sorted((*before, k)))
            pool.scores[subset] = score
            pool.orders.setdefault(subset, (*before, k))

    asked = pool.trace(oracle, zeta)
    return pool.named(method="greedy", guarantee="exact over the pool only", path_exact=False, zetas_asked=asked)
