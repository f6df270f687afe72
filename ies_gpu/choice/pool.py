"""Searches that do not score every set: greedy, exchanges from several starts, and branch and bound.

The score is a difference of two functions that are submodular where a set has full rank. For a single one, adding the
best member and exchanging single members are the classical heuristics (Nemhauser, Wolsey, Fisher 1978). Branch and
bound finds the best set with a proof, or how far from the best it can be at most.

With ``G = sum_{k in A} u_k u_k'`` at a point (u_k is row k of U(i)) the score of a set A is ``R1 - R2``:
``R1 = 1/2 log det G`` and ``R2 = 1/2 sum_c log a_c`` with the diagonal a of G. A stands for all sets S that contain it,
with r coordinates more. R1 is submodular: it gains no more than the members of S - A gain one by one. The logarithm is
concave: R2 gains at least the mean of what it would if each of them came r times (Jensen). So at every point ::

    R(S; i) <= R(A; i) + sum_{k in S - A} [ 1/2 log(1 + u_k' G^-1 u_k) - 1/(2r) sum_c log(1 + r u_kc^2 / a_c) ]

A point counts 0 instead where A is singular, or where its own best r coordinates would bring the right-hand side above
0: R <= 0. The mean over points is taken before coordinates are chosen, which is tighter than choosing at every point.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations
from math import comb, inf, log
from typing import Any

import numpy as np

from ..backend import Backend, backend_of, to_host
from ..backend.array import Array
from ..backend.kernels.plain import FLOOR
from .criterion import CandidateSets, all_sets, candidate_subsets, penalties, score_pass
from .regularization import regularization_path

Subset = tuple[int, ...]
Node = tuple[float, Subset, Subset]  # minus the bound, the members, the coordinates that may still join
STARTS = 6  # random ones, beside the best set known and a grown one
ROUNDING = 1e-9  # a bound that is not higher than this above the best set's loss proves it
BATCH = 512  # sets scored side by side
CACHE = 4  # blocks are this much shorter than memory allows: then they stay in a cache, which halves the time
SOUND = 0.25 * log(FLOOR)  # half the lowest score: a set that scores less at a point is singular up to rounding


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

    def named(self, method: str, zetas: int, guarantee: str = "exact over the pool only", **more: Any) -> CandidateSets:
        size, total = len(self.scores), comb(len(self.eigenvalues) - 1, self.s - 1)
        counts = {"pool_size": size, "sets_scored": size, "sets_total": total, "path_exact": False}
        how = {"method": method, "guarantee": guarantee, "zetas_asked": zetas}
        return CandidateSets(self.subsets(), counts | how | more)


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

    return pool.named("greedy", pool.trace(oracle, zeta))._replace(orders=orders)


def submodular_sets(bases: Array, eigenvalues: Array, s: int, zeta: float | None, random_state: int) -> CandidateSets:
    """Name all sets that exchanges from several starts score, at zeta or (for None) along the path."""
    pool, m, rng = Pool(bases, eigenvalues, s), bases.shape[1], np.random.default_rng(random_state)
    # random starts where the search begins; from there on the pool knows better ones than chance does
    starts = [tuple(sorted([0, *(1 + rng.permutation(m - 1)[: s - 1]).tolist()])) for _ in range(STARTS)]

    def oracle(at: float) -> None:
        for start in dict.fromkeys([grown(pool, at), pool.best(pool.scores, at), *starts]):
            exchanged(pool, start, at)
        starts.clear()
        exchanged(pool, pool.best(pool.scores, at), at)

    return pool.named("submodular", pool.trace(oracle if s > 1 else lambda at: None, zeta), starts=STARTS + 2)


def branch_sets(
    bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None, node_limit: int = 20_000
) -> CandidateSets:
    """Name all sets that are scored, at zeta or (for None) along the path, with what is proved."""
    tree = Tree(bases, eigenvalues, s, node_limit)
    asked, exact = tree.pool.trace(tree.search, zeta), tree.gap <= ROUNDING
    guarantee = "exact" if zeta is not None else "exact path; regret exact over the pool only"
    if not exact:
        guarantee = f"proved gap {tree.gap:.3g}: no set's loss is higher by more"
    counts = {"nodes": tree.nodes, "gap": 0.0 if exact else tree.gap}
    return tree.pool.named("branch_and_bound", asked, guarantee, path_exact=exact and zeta is None, **counts)


class Tree:
    """The search: nodes are sets A with the coordinates that may still join, and an upper bound of the loss."""

    def __init__(self, bases: Array, eigenvalues: np.ndarray, s: int, node_limit: int) -> None:
        bases = bases.astype(np.float64, copy=False)  # as bounds are: scores in float32 pass them by more than ROUNDING
        self.pool, self.s, self.node_limit = Pool(bases, eigenvalues, s), s, node_limit
        self.nodes, self.gap = 0, 0.0
        # bounds of scores, which do not depend on zeta
        self.bound_of = cache(lambda members: bound_of(bases, members, s - len(members)))

    def search(self, zeta: float) -> None:
        """Prove the best set at zeta, or note the gap."""
        pool, m = self.pool, self.pool.bases.shape[1]
        if self.s == 1:  # the first coordinate is the only set
            return
        pool.add([grown(pool, zeta)])
        best = pool.loss(exchanged(pool, pool.best(pool.scores, zeta), zeta), zeta)
        rest = tuple(range(1, m))
        heap: list[Node] = [(-self.bound((0,), rest, zeta)[0], (0,), rest)]
        while heap and -heap[0][0] > best + ROUNDING:
            if self.nodes >= self.node_limit:
                self.gap = max(self.gap, -heap[0][0] - best)
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
        """Bound the loss over all completions; return also each candidate's net weight, and the level without them."""
        height, weights = self.bound_of(members)
        values, r = self.pool.eigenvalues, self.s - len(members)
        level = height - zeta * self.pool.penalty(members)
        net = weights[list(candidates)] - zeta * values[list(candidates)]
        bound = level + float(np.sort(net)[len(net) - r :].sum()) if len(candidates) >= r else -inf
        return bound, net, level

    def children(self, members: Subset, candidates: Subset, zeta: float, above: float, best: float) -> list[Node]:
        """One node for each candidate, which may be joined by those after it: each set is reached once.

        Those that add least come first: what such a node closes is every set that holds it.
        """
        bound, net, _ = self.bound(members, candidates, zeta)
        last = np.sort(net)[-(self.s - len(members)) :][0]  # a candidate outside the best r takes the place of the last
        rising = sorted(zip(net, candidates, strict=True))
        order = [k for weight, k in rising if bound + min(0.0, weight - last) > best + ROUNDING]
        nodes = [(tuple(sorted((*members, k))), tuple(order[place + 1 :])) for place, k in enumerate(order)]
        heights = [min(above, self.bound(*node, zeta)[0]) for node in nodes]
        return [(-height, *node) for height, node in zip(heights, nodes, strict=True) if height > best + ROUNDING]

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


def bound_of(bases: Array, members: Subset, r: int) -> tuple[float, np.ndarray]:
    """Return a level and a weight for each coordinate (m,), so that ``R(S) <= level + sum of the weights of S - A``.

    A are the ``members``, S any set that holds them and r coordinates more.
    """
    (n, m, d), backend = bases.shape, backend_of(bases)
    if len(members) < d:  # R <= 0
        return 0.0, np.zeros(m)
    xp, others = backend.xp, backend.asarray(np.setdiff1d(np.arange(m), members))

    def summed(_: Backend, U: Array) -> tuple[Array]:
        """Sum the bound at the head of this module over a block of points, without those that count 0."""
        score, quadratic, ratios = parts_of(U, members)
        gains = 0.5 * xp.log1p(quadratic)
        for ratio in ratios:
            gains -= xp.log1p(r * ratio) / (2 * r)
        gains = xp.maximum(gains, SOUND / r)  # with a score above SOUND, r of them stay above the floor, 2 SOUND
        highest = xp.sort(gains[:, others], axis=1)[:, -r:].sum(axis=1)
        counts = ((score > SOUND) & (score + highest < 0)).astype(xp.float64)
        return (xp.concatenate([(counts @ score)[None], counts @ gains]),)

    (sums,) = backend.sweep(summed, bases, bytes_per_row=CACHE * 8.0 * m * (4 * d + 8), stage="search", sums=1)
    means = backend.to_host(sums) / n
    return float(means[0]), means[1:]


def parts_of(U: Array, members: Subset) -> tuple[Array, Array, list[Array]]:
    """Return R (b,) of a set of d members or more at b points, ``u_k' G^-1 u_k`` (b, m) and each ``u_kc^2 / a_c``."""
    backend = backend_of(U)
    xp, chosen = backend.xp, backend.asarray(np.array(members))
    columns = xp.ascontiguousarray(U.transpose(2, 0, 1), dtype=xp.float64)
    first, second, quadratic = xp.zeros(len(U)), xp.zeros(len(U)), xp.zeros(U.shape[:2])
    # Gram-Schmidt on the columns of the set, and the same steps on the rows of all coordinates: afterwards these are
    # R^-T u_k of G = R'R. Small pivots stay accurate, which those of G itself would not.
    units, whitened, ratios = list[Array](), list[Array](), list[Array]()
    for column in columns:
        rest = column[:, chosen]
        length = xp.maximum((rest * rest).sum(axis=1), FLOOR)
        ratios.append(column * column / length[:, None])
        for unit, done in zip(units, whitened, strict=True):
            share = (unit * rest).sum(axis=1)[:, None]
            rest, column = rest - share * unit, column - share * done
        pivot = xp.maximum((rest * rest).sum(axis=1), FLOOR * length)
        scale = 1 / xp.sqrt(pivot)[:, None]
        units.append(rest * scale)
        whitened.append(column * scale)
        quadratic += whitened[-1] * whitened[-1]
        first += 0.5 * xp.log(pivot)
        second += 0.5 * xp.log(length)
    return first - second, quadratic, ratios
