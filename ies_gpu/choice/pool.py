"""The sets that a search without enumeration has scored so far, and the path traced through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import comb
from typing import Any

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from .criterion import CandidateSets, score_pass
from .regularization import regularization_path

Subset = tuple[int, ...]


class Pool:
    """Sets of s coordinates with their mean scores R(S), each scored once over all points.

    Scores do not depend on zeta: what was scored for one zeta costs nothing for the next.
    """

    def __init__(self, bases: Array, eigenvalues: np.ndarray, subset_size: int) -> None:
        self.bases, self.eigenvalues, self.s = bases, eigenvalues, subset_size
        self.scores: dict[Subset, float] = {}
        self.penalties: dict[Subset, float] = {}
        self.orders: dict[Subset, Subset] = {}
        self.first: Subset = tuple(range(subset_size))
        rest = (1 + np.argsort(eigenvalues[1:], kind="stable")[: subset_size - 1]).tolist()
        self.lightest: Subset = tuple(sorted([0, *rest]))  # the first coordinates, where the eigenvalues rise

    def add(self, sets: Iterable[Subset]) -> None:
        """Score those that are not known yet."""
        new = sorted(subset for subset in set(sets) if subset not in self.scores)  # "-" would walk the whole pool
        if new:
            self.scores.update(zip(new, mean_scores(self.bases, new).tolist(), strict=True))

    def loss(self, subset: Subset, zeta: float) -> float:
        """``R(S) - zeta sum_{k in S} lambda_k`` of a set that was scored."""
        return self.scores[subset] - zeta * self.penalty(subset)

    def penalty(self, subset: Subset) -> float:
        """``sum_{k in S} lambda_k``, added up once."""
        if subset not in self.penalties:
            self.penalties[subset] = float(self.eigenvalues[list(subset)].sum())
        return self.penalties[subset]

    def best(self, sets: Iterable[Subset], zeta: float) -> Subset:
        """The set with the highest loss among some that were scored; the first among equal ones."""
        return min(sets, key=lambda subset: (-self.loss(subset, zeta), subset))

    def subsets(self) -> np.ndarray:
        """All of them (q, s), in lexicographic order."""
        return np.array(sorted(self.scores), dtype=np.int32).reshape(-1, self.s)

    def corners(self) -> list[float]:
        """The lower ends of the segments of the envelope, 0 first."""
        sets = self.subsets()
        scores = [self.scores[tuple(subset)] for subset in sets.tolist()]
        return [segment.low for segment in reversed(regularization_path(scores, sets, self.eigenvalues))]

    def trace(self, oracle: Callable[[float], None], zeta: float | None) -> int:
        """Let an oracle add sets that are good at zeta, or (for None) good anywhere; how often it was asked.

        For zeta = inf the set with the smallest penalty is the best. From there the oracle is asked at 0 and then
        wherever the envelope of the sets known so far has a corner, until nothing new appears there. If its answers are
        the best sets, the envelope is then exact.
        """
        self.add([self.first, self.lightest])
        if zeta is not None:
            oracle(zeta)
            return 1
        asked: set[float] = set()
        while new := [corner for corner in self.corners() if corner not in asked]:
            oracle(new[0])
            asked.add(new[0])
        return len(asked)

    def named(self, **details: Any) -> CandidateSets:
        """The finished pool."""
        total = comb(len(self.eigenvalues) - 1, self.s - 1)
        counts = {"pool_size": len(self.scores), "sets_scored": len(self.scores), "sets_total": total}
        return CandidateSets(self.subsets(), counts | details, self.orders)


def mean_scores(bases: Array, sets: Iterable[Subset]) -> np.ndarray:
    """R(S) of sets of equal size, on the host."""
    backend = backend_of(bases)
    totals = score_pass(bases, np.array(list(sets), dtype=np.int32)).totals
    return backend.to_host(totals) / len(bases)


def random_sets(m: int, s: int, count: int, rng: np.random.Generator) -> list[Subset]:
    """Sets that hold the first coordinate; the same may come twice."""
    return [tuple(sorted([0, *(1 + rng.permutation(m - 1)[: s - 1]).tolist()])) for _ in range(count)]
