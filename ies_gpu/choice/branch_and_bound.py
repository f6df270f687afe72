"""Branch and bound: the best set with a proof, or how far from the best it can be at most.

For a set A there are a level and a weight for each coordinate, so that ``R(S) <= level + sum of the weights of S - A``.
With r coordinates to come, submodularity of R1 and, since the logarithm is concave, Jensen's inequality for
``a_c + sum_k u_kc^2`` in R2 give at every point ::

    R(S; i) <= R(A; i) + sum_{k in S - A} [ 1/2 log(1 + u_k' G_A^-1 u_k) - 1/(2r) sum_c log(1 + r u_kc^2 / a_c) ]

The second term is what R2 gains at least; without it this is the plain bound by the gains of R1. A point counts 0
instead where A is singular or where its own best r coordinates would bring the right-hand side above 0: R <= 0. The
mean over points is taken before coordinates are chosen, which bounds all sets more tightly than choosing at every
point.
"""

from __future__ import annotations

import heapq
from itertools import combinations
from math import inf, log

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.plain import FLOOR
from .criterion import CandidateSets
from .heuristics import Pool, Subset, block_sums, exchanged, grown, increments

NODES = 20_000
ROUNDING = 1e-9  # a bound that is not higher than this above the best set's loss proves it
BATCH = 512  # sets scored side by side
SOUND = 0.25 * log(FLOOR)  # half the lowest score: a set that scores less at a point is singular up to rounding


def branch_sets(
    bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None, node_limit: int = NODES
) -> CandidateSets:
    """Name all sets that are scored, at zeta or (for None) along the path, with what is proved."""
    tree = Tree(bases, eigenvalues, s, node_limit)
    asked = tree.pool.trace(tree.search, zeta)
    exact = tree.gap <= ROUNDING
    if not exact:
        guarantee = f"proved gap {tree.gap:.3g}: no set's loss is higher by more"
    else:
        guarantee = "exact" if zeta is not None else "exact path; regret exact over the pool only"
    return tree.pool.named(
        method="branch_and_bound", guarantee=guarantee, path_exact=exact and zeta is None, zetas_asked=asked,
        gap=0.0 if exact else tree.gap, nodes=tree.nodes,
    )  # fmt: skip


class Tree:
    """The search: nodes are sets A with the coordinates that may still join, and an upper bound of the loss."""

    def __init__(self, bases: Array, eigenvalues: np.ndarray, s: int, node_limit: int) -> None:
        bases = bases.astype(np.float64, copy=False)  # as bounds are: scores in float32 pass them by more than ROUNDING
        self.pool, self.s, self.node_limit = Pool(bases, eigenvalues, s), s, node_limit
        self.nodes, self.gap = 0, 0.0
        self.known: dict[Subset, tuple[float, np.ndarray]] = {}  # levels and weights, which do not depend on zeta

    def search(self, zeta: float) -> None:
        """Prove the best set at zeta, or note the gap."""
        pool, m = self.pool, self.pool.bases.shape[1]
        if self.s == 1:  # the first coordinate is the only set
            return
        pool.add([grown(pool, zeta)])
        best = pool.loss(exchanged(pool, pool.best(pool.scores, zeta), zeta), zeta)
        root = (0,)
        heap: list[tuple[float, Subset, Subset]] = [(-inf, root, tuple(range(1, m)))]
        while heap and -heap[0][0] > best + ROUNDING:
            if self.nodes >= self.node_limit:
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
        height, weights = self.weights_of(members)
        values, r = self.pool.eigenvalues, self.s - len(members)
        level = height - zeta * self.pool.penalty(members)
        net = weights[list(candidates)] - zeta * values[list(candidates)]
        if len(candidates) < r:
            return -inf, net, level
        return level + float(np.sort(net)[len(net) - r :].sum()), net, level

    def weights_of(self, members: Subset) -> tuple[float, np.ndarray]:
        """Level and weights (m,) of a set."""
        bases = self.pool.bases
        (_, m, d), xp, r = bases.shape, backend_of(bases).xp, self.s - len(members)
        if len(members) < d:
            return 0.0, np.zeros(m)
        others = backend_of(bases).asarray(np.setdiff1d(np.arange(m), members))

        def level_and_weights(U: Array) -> Array:
            found = increments(U, members)
            score = found.first - found.second
            gains = 0.5 * xp.log1p(found.quadratic)
            for ratio in found.ratios:
                gains -= xp.log1p(r * ratio) / (2 * r)
            gains = xp.maximum(gains, SOUND / r)  # with a score above SOUND, r of them stay above the floor, 2 SOUND
            highest = xp.sort(gains[:, others], axis=1)[:, -r:].sum(axis=1)
            counts = ((score > SOUND) & (score + highest < 0)).astype(xp.float64)
            return xp.concatenate([(counts @ score)[None], counts @ gains])

        if members not in self.known:
            means = block_sums(bases, level_and_weights) / len(bases)
            self.known[members] = float(means[0]), means[1:]
        return self.known[members]

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
            self.pool.add(sets)
            best = max(best, *(self.pool.loss(subset, zeta) for subset in sets))
        return best
