"""Branch and bound: the best set with a proof, or how far from the best it can be at most."""

from __future__ import annotations

import heapq
import time
from itertools import combinations
from math import comb, inf

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from .bounds import Bounds
from .criterion import CandidateSets, log_volumes
from .local import exchanged, grown
from .pool import Pool, Subset, mean_scores, random_sets

NODES = 20_000
ROUNDING = 1e-9  # a bound that is not higher than this above the best set's loss proves it
SHARES = (64, 32, 16, 8, 4, 2, 1)  # sets are scored on n/64 of the points first, and on the others if need be
SAMPLE = 64  # random sets that say at which points sets lose most
BATCH = 512  # sets scored side by side


def branch_sets(
    bases: Array,
    eigenvalues: np.ndarray,
    s: int,
    zeta: float | None,
    node_limit: int = NODES,
    time_limit: float | None = None,
) -> CandidateSets:
    """Name all sets that are scored to the end, at zeta or (for None) along the path, with what is proved."""
    n, m, _ = bases.shape
    sample = random_sets(m, s, SAMPLE, np.random.default_rng(0))
    tree = Tree(hardest_first(bases, sample), eigenvalues, s, node_limit, time_limit)
    asked = tree.pool.trace(tree.search, zeta)
    exact = tree.gap <= ROUNDING
    if not exact:
        guarantee = f"proved gap {tree.gap:.3g}: no set's loss is higher by more"
    else:
        guarantee = "exact" if zeta is not None else "exact path; regret exact over the pool only"
    touched = len(tree.pool.scores.keys() | tree.ceilings.keys())
    total = comb(m - 1, s - 1)
    work = len(tree.pool.scores) + tree.points_abandoned / n
    return tree.pool.named(
        method="branch_and_bound", guarantee=guarantee, path_exact=exact and zeta is None, zetas_asked=asked,
        gap=0.0 if exact else tree.gap, nodes=tree.nodes, sets_scored=touched, sets_abandoned=len(tree.ceilings),
        share_of_sets=touched / total, share_of_scores=work / total,
    )  # fmt: skip


class Tree:
    """The search: nodes are sets A with the coordinates that may still join, and an upper bound of the loss."""

    def __init__(
        self, bases: Array, eigenvalues: np.ndarray, s: int, node_limit: int, time_limit: float | None
    ) -> None:
        bases = bases.astype(np.float64, copy=False)  # as bounds are: scores in float32 pass them by more than ROUNDING
        self.pool, self.bounds, self.s = Pool(bases, eigenvalues, s), Bounds(bases, s), s
        self.node_limit, self.deadline = node_limit, inf if time_limit is None else time.monotonic() + time_limit
        self.nodes, self.gap, self.points_abandoned = 0, 0.0, 0
        self.ceilings: dict[Subset, float] = {}  # upper bounds of R of sets that were not scored to the end

    def search(self, zeta: float) -> None:
        """Prove the best set at zeta, or note the gap."""
        pool, m = self.pool, self.bounds.bases.shape[1]
        if self.s == 1:  # the first coordinate is the only set
            return
        pool.add([grown(pool, zeta)])
        best = pool.loss(exchanged(pool, pool.best(pool.scores, zeta), zeta), zeta)
        root = (0,)
        heap: list[tuple[float, Subset, Subset]] = [(-inf, root, tuple(range(1, m)))]
        while heap and -heap[0][0] > best + ROUNDING:
            if self.nodes >= self.node_limit or time.monotonic() > self.deadline:
                highest = -heap[0][0] if heap[0][0] > -inf else self.bound(root, heap[0][2], zeta)[0]
                self.gap = max(self.gap, highest - best)
                return
            negative, members, candidates = heapq.heappop(heap)
            self.nodes += 1
            bound, net, level = self.bound(members, candidates, zeta)
            if min(bound, -negative) <= best + ROUNDING:
                continue
            if self.s - len(members) <= 2:
                best = self.complete(members, candidates, net, level, zeta, best)
                continue
            for child in self.children(members, candidates, zeta, min(bound, -negative), best):
                heapq.heappush(heap, child)

    def bound(self, members: Subset, candidates: Subset, zeta: float) -> tuple[float, np.ndarray, float]:
        """The bound of the loss over all completions, the net weight of each candidate, and the level without them."""
        height, weights = self.bounds.of(members)
        values, r = self.pool.eigenvalues, self.s - len(members)
        level = height - zeta * self.pool.penalty(members)
        net = weights[list(candidates)] - zeta * values[list(candidates)]
        if len(candidates) < r:
            return -inf, net, level
        return level + float(np.sort(net)[len(net) - r :].sum()), net, level

    def children(
        self, members: Subset, candidates: Subset, zeta: float, above: float, best: float
    ) -> list[tuple[float, Subset, Subset]]:
        """One node for each candidate, which may be joined by those after it: each set is reached once.

        The candidates with the lowest bounds come first: what such a node closes is every set that holds it.
        """
        bound, net, _ = self.bound(members, candidates, zeta)
        last = np.sort(net)[-(self.s - len(members)) :][0]  # a candidate outside the best r takes the place of the last
        candidates = tuple(
            k for k, w in zip(candidates, net, strict=True) if bound + min(0.0, w - last) > best + ROUNDING
        )
        heights = {}
        for k in candidates:
            others = tuple(c for c in candidates if c != k)
            heights[k] = self.bound(tuple(sorted((*members, k))), others, zeta)[0]
        order = sorted(candidates, key=lambda k: (heights[k], k))
        nodes = []
        for place, k in enumerate(order):
            rest = tuple(order[place + 1 :])
            child = tuple(sorted((*members, k)))
            height = min(above, self.bound(child, rest, zeta)[0])
            if height > best + ROUNDING:
                nodes.append((-height, child, rest))
        return nodes

    def complete(
        self, members: Subset, candidates: Subset, net: np.ndarray, level: float, zeta: float, best: float
    ) -> float:
        """Score the sets with the last one or two coordinates, best bounds first; the best loss afterwards."""
        places = list(combinations(range(len(candidates)), self.s - len(members)))
        heights = level + net[np.array(places)].sum(axis=1)
        order = np.argsort(-heights, kind="stable")
        for start in range(0, len(order), BATCH):
            batch = [i for i in order[start : start + BATCH] if heights[i] > best + ROUNDING]
            if not batch:
                break
            sets = [tuple(sorted((*members, *(candidates[p] for p in places[i])))) for i in batch]
            best = max(best, self.score(sets, zeta, best))
        return best

    def score(self, sets: list[Subset], zeta: float, best: float) -> float:
        """The highest loss among sets, each scored until it can no longer exceed ``best``."""
        pool, n = self.pool, len(self.bounds.bases)
        known = [pool.loss(subset, zeta) for subset in sets if subset in pool.scores]
        new = [
            subset for subset in sets
            if subset not in pool.scores and self.ceilings.get(subset, 0.0) - zeta * pool.penalty(subset) > best
        ]  # fmt: skip
        needed = np.array([best + zeta * pool.penalty(subset) for subset in new])
        totals, alive, done = np.zeros(len(new)), np.arange(len(new)), 0
        for share in SHARES:
            if not len(alive) or done == n:
                break
            part = self.bounds.bases[done : max(done + 1, n // share)]
            totals[alive] += len(part) * mean_scores(part, [new[i] for i in alive])
            done += len(part)
            lost = alive[totals[alive] / n < needed[alive] - ROUNDING] if done < n else alive[:0]
            self.points_abandoned += done * len(lost)
            self.ceilings.update({new[i]: totals[i] / n for i in lost})
            alive = np.setdiff1d(alive, lost)
        for i in alive:
            pool.scores[new[i]] = totals[i] / n
            self.ceilings.pop(new[i], None)
            known.append(pool.loss(new[i], zeta))
        return max(known, default=-inf)


def hardest_first(bases: Array, sets: list[Subset]) -> Array:
    """The bases, with the points first at which some sets score lowest: there a bad set loses soonest."""
    xp = backend_of(bases).xp
    return bases[xp.argsort(log_volumes(bases, np.array(sets, dtype=np.int32)).mean(axis=1))]
