"""Searches that do not enumerate: the sets scored so far, the paper's greedy search, and exchanges from several starts.

The score is a difference of two functions that are submodular where a set has full rank. For a single one, adding the
best member and exchanging single members are the classical heuristics (Nemhauser, Wolsey, Fisher 1978).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from math import comb
from typing import Any

import numpy as np

from ..backend import backend_of, to_host
from ..backend.array import Array
from .criterion import CandidateSets, all_sets, candidate_subsets, penalties, score_pass
from .regularization import regularization_path

Subset = tuple[int, ...]
STARTS = 6  # random ones, beside the best set known and a grown one


class Pool:
    """Sets of s coordinates with their mean scores R(S), each scored once: scores do not depend on zeta."""

    def __init__(self, bases: Array, eigenvalues: np.ndarray, subset_size: int) -> None:
        self.bases, self.eigenvalues, self.s = bases, eigenvalues, subset_size
        self.scores: dict[Subset, float] = {}
        self.penalty = cache(lambda subset: float(eigenvalues[list(subset)].sum()))

    def add(self, sets: Iterable[Subset]) -> None:
        """Score those that are not known yet."""
        new = sorted(subset for subset in set(sets) if subset not in self.scores)  # "-" would walk the whole pool
        if new:
            self.scores.update(zip(new, mean_scores(self.bases, new).tolist(), strict=True))

    def loss(self, subset: Subset, zeta: float) -> float:
        """``R(S) - zeta sum_{k in S} lambda_k`` of a set that was scored."""
        return self.scores[subset] - zeta * self.penalty(subset)

    def best(self, sets: Iterable[Subset], zeta: float) -> Subset:
        """The set with the highest loss among some that were scored; the first among equal ones."""
        return min(sets, key=lambda subset: (-self.loss(subset, zeta), subset))

    def subsets(self) -> np.ndarray:
        return np.array(sorted(self.scores), dtype=np.int32).reshape(-1, self.s)

    def trace(self, oracle: Callable[[float], None], zeta: float | None) -> int:
        """Let an oracle add sets that are good at zeta, or (for None) good anywhere; how often it was asked.

        For zeta = inf the set with the smallest penalty is the best. The oracle is asked at 0 and then wherever the
        envelope of the sets known so far has a corner: the envelope is exact if its answers are the best sets.
        """
        lightest = 1 + np.argsort(self.eigenvalues[1:], kind="stable")[: self.s - 1]
        self.add([tuple(range(self.s)), tuple(sorted([0, *lightest.tolist()]))])
        if zeta is not None:
            oracle(zeta)
            return 1
        asked: set[float] = set()
        while True:
            sets = self.subsets()
            path = regularization_path([self.scores[tuple(S)] for S in sets.tolist()], sets, self.eigenvalues)
            new = [segment.low for segment in reversed(path) if segment.low not in asked]
            if not new:
                return len(asked)
            oracle(new[0])
            asked.add(new[0])

    def named(self, **details: Any) -> CandidateSets:
        total = comb(len(self.eigenvalues) - 1, self.s - 1)
        counts = {"pool_size": len(self.scores), "sets_scored": len(self.scores), "sets_total": total}
        return CandidateSets(self.subsets(), counts | details)


def mean_scores(bases: Array, sets: Iterable[Subset]) -> np.ndarray:
    return to_host(score_pass(bases, np.array(list(sets), dtype=np.int32)).totals) / len(bases)


def grown(pool: Pool, zeta: float) -> Subset:
    """A set of s coordinates, grown from the first by the best addition each time, without any enumeration.

    While there are fewer than d members, the volume is that of as many leading tangent directions.
    """
    bases, xp = pool.bases, backend_of(pool.bases).xp
    _, m, d = bases.shape
    chosen: Subset = (0,)
    while len(chosen) < pool.s:
        rest = [k for k in range(m) if k not in chosen]
        sets = [tuple(sorted((*chosen, k))) for k in rest]
        leading = min(len(chosen) + 1, d)
        scores = mean_scores(bases if leading == d else xp.ascontiguousarray(bases[:, :, :leading]), sets)
        chosen = sets[int((scores - zeta * pool.eigenvalues[rest]).argmax())]
    return chosen


def exchanged(pool: Pool, subset: Subset, zeta: float) -> Subset:
    """A set that no exchange of one member improves: each in turn gives way to the coordinate that is best there."""
    pool.add([subset])
    unchanged = turn = 0
    while unchanged < pool.s - 1:
        member = subset[1 + turn % (pool.s - 1)]
        kept = [k for k in subset if k != member]
        sets = [tuple(sorted((*kept, k))) for k in range(pool.bases.shape[1]) if k not in kept]
        pool.add(sets)
        better = pool.best(sets, zeta)
        unchanged = unchanged + 1 if pool.loss(better, zeta) <= pool.loss(subset, zeta) else 0
        subset = better if unchanged == 0 else subset
        turn += 1
    return subset


def greedy_sets(bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None) -> CandidateSets:
    """Name all sets of s coordinates that the paper's greedy search scores, at zeta or (for None) along the path."""
    _, m, d = bases.shape
    if s == d:
        return all_sets(m, s, "greedy")
    pool, starts, orders = Pool(bases, eigenvalues, s), candidate_subsets(m, d), dict[Subset, Subset]()
    start_scores = mean_scores(bases, map(tuple, starts.tolist()))

    @cache
    def additions(chosen: Subset) -> tuple[list[int], np.ndarray]:  # with their scores, which do not depend on zeta
        rest = [k for k in range(m) if k not in chosen]
        return rest, mean_scores(bases, [tuple(sorted((*chosen, k))) for k in rest])

    def oracle(at: float) -> None:
        order: Subset = tuple(starts[(start_scores - at * penalties(starts, eigenvalues)).argmax()].tolist())
        while len(order) < s - 1:
            rest, scores = additions(tuple(sorted(order)))
            order = (*order, rest[int((scores - at * eigenvalues[rest]).argmax())])
        for k, score in zip(*additions(tuple(sorted(order))), strict=True):
            subset = tuple(sorted((*order, k)))
            pool.scores[subset] = float(score)
            orders.setdefault(subset, (*order, k))

    asked = pool.trace(oracle, zeta)
    found = pool.named(method="greedy", guarantee="exact over the pool only", path_exact=False, zetas_asked=asked)
    return found._replace(orders=orders)


def submodular_sets(
    bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None, random_state: int = 0
) -> CandidateSets:
    """Name all sets that exchanges from several starts score, at zeta or (for None) along the path."""
    pool, m, rng = Pool(bases, eigenvalues, s), bases.shape[1], np.random.default_rng(random_state)
    # random starts where the search begins; from there on the pool knows better ones than chance does
    starts = [tuple(sorted([0, *(1 + rng.permutation(m - 1)[: s - 1]).tolist()])) for _ in range(STARTS)]

    def oracle(at: float) -> None:
        for start in dict.fromkeys([grown(pool, at), pool.best(pool.scores, at), *starts]):
            exchanged(pool, start, at)
        starts.clear()
        exchanged(pool, pool.best(pool.scores, at), at)

    asked = pool.trace(oracle if s > 1 else lambda at: None, zeta)
    return pool.named(
        method="submodular", guarantee="exact over the pool only", path_exact=False, zetas_asked=asked,
        starts=STARTS + 2,
    )  # fmt: skip
