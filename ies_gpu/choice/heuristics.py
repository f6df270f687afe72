"""Searches without enumeration: the sets scored so far, the paper's greedy search, and a climb for many coordinates.

With ``G(i) = sum_{k in A} u_k u_k'`` (u_k is row k of U(i)) the score of A is ``R1 - R2``: ``R1 = 1/2 log det G`` and
``R2 = 1/2 sum_c log a_c`` with the diagonal a of G. Coordinate k adds the rank-one matrix ``u_k u_k'``, so R1 gains
``1/2 log(1 + u_k' G^-1 u_k)`` and R2 gains ``1/2 sum_c log(1 + u_kc^2 / a_c)``. Both parts are monotone, and submodular
on the sets that contain A, where A has full rank.

The loss ``R1(S) - [R2(S) + zeta sum lambda_k]`` is a difference of submodular functions. The modular-modular procedure
of Iyer and Bilmes (2012) bounds it from below, tight at S: R1 by its gains along an order of the coordinates in which S
comes first, R2 by its tangent. The set of s coordinates with the highest bound can be read off, among those that keep a
base of S, where R1 is finite. Such bounds are cautious: from most sets the procedure does not move, and exchanges of
single members do most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import comb
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.plain import FLOOR
from .criterion import CandidateSets, all_sets, candidate_subsets, penalties, score_pass
from .regularization import regularization_path

Subset = tuple[int, ...]
STARTS = 6  # random ones, beside the best set known and a grown one
ROUNDS = 4  # of the procedure from one start: exchanges go on from there, and faster
CACHE = 4  # blocks are this much shorter than memory allows: then they stay in a cache, which halves the time


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


def grown(pool: Pool, zeta: float) -> Subset:
    """A set of s coordinates, grown from the first by the best addition each time.

    While there are fewer than d members, the volume is that of as many leading tangent directions: nothing has to be
    enumerated, as it has for the paper's greedy search.
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
    unchanged, turn = 0, 0
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
    pool, starts = Pool(bases, eigenvalues, s), candidate_subsets(m, d)
    start_scores = mean_scores(bases, map(tuple, starts.tolist()))

    @cache
    def additions(chosen: Subset) -> tuple[list[int], np.ndarray]:
        """The other coordinates, and R with each of them added, which does not depend on zeta."""
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
            pool.orders.setdefault(subset, (*order, k))

    asked = pool.trace(oracle, zeta)
    return pool.named(method="greedy", guarantee="exact over the pool only", path_exact=False, zetas_asked=asked)


def submodular_sets(
    bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None, random_state: int = 0
) -> CandidateSets:
    """Name all sets that the search scores, at zeta or (for None) along the path."""
    pool, m = Pool(bases, eigenvalues, s), bases.shape[1]
    rng = np.random.default_rng(random_state)
    drawn = random_sets(m, s, STARTS, rng)

    def oracle(at: float) -> None:
        # all starts where the search begins; from there on the pool knows better ones than chance does
        starts = [grown(pool, at), pool.best(pool.scores, at), *drawn]
        drawn.clear()
        for top in {climb(pool, start, at, rng): None for start in starts}:
            exchanged(pool, top, at)
        exchanged(pool, pool.best(pool.scores, at), at)

    asked = pool.trace(oracle if s > 1 else lambda at: None, zeta)
    return pool.named(
        method="submodular", guarantee="exact over the pool only", path_exact=False, zetas_asked=asked,
        starts=STARTS + 2,
    )  # fmt: skip


def climb(pool: Pool, subset: Subset, zeta: float, rng: np.random.Generator) -> Subset:
    """Return the set with the highest bound, from set to set while that improves the loss."""
    pool.add([subset])
    for _ in range(ROUNDS if pool.s > pool.bases.shape[2] else 0):  # with s = d the base is the whole set
        gains, base = minorant(pool, subset, zeta, rng)
        worth = gains - length_slopes(pool.bases, subset) - zeta * pool.eigenvalues
        others = [k for k in np.argsort(-worth, kind="stable").tolist() if k not in base]
        better = tuple(sorted((*base, *others[: pool.s - len(base)])))
        pool.add([better])
        if pool.loss(better, zeta) <= pool.loss(subset, zeta):
            break
        subset = better
    return subset


def minorant(pool: Pool, subset: Subset, zeta: float, rng: np.random.Generator) -> tuple[np.ndarray, Subset]:
    """Return gains (m,) of R1 along an order that begins with the set, and the base, the first d of the order.

    ``R1(X) >= R1(base) + sum of gains of X - base`` for sets X that contain the base, with equality at the set itself.
    The members are in random order, the others by what they would add to the loss.
    """
    bases = pool.bases
    n, m, d = bases.shape
    members = [0, *rng.permutation(subset[1:]).tolist()]
    worth = mean_rises(bases, subset) - zeta * pool.eigenvalues
    others = [k for k in np.argsort(-worth, kind="stable").tolist() if k not in subset]
    order = np.array(members + others, dtype=np.int64)
    sums = block_sums(bases, lambda U: chain_gains(U.astype(np.float64), order).sum(axis=0), 4 * d * d + 4)
    gains = np.zeros(m)
    gains[order[d:]] = sums / n
    return gains, tuple(members[:d])


def mean_rises(bases: Array, members: Subset) -> np.ndarray:
    """Return what each coordinate (m,) adds to the mean score of a set."""
    xp = backend_of(bases).xp

    def rises(U: Array) -> Array:
        found = increments(U, members)
        both = xp.log1p(found.quadratic)
        for ratio in found.ratios:
            both -= xp.log1p(ratio)
        return both.sum(axis=0)

    return block_sums(bases, rises) / (2 * len(bases))


def length_slopes(bases: Array, members: Subset) -> np.ndarray:
    """Return what each coordinate (m,) adds to the tangent of the mean of R2 at a set, ``1/2 sum_c u_kc^2 / a_c``."""
    return block_sums(bases, lambda U: sum(increments(U, members).ratios).sum(axis=0)) / (2 * len(bases))


def chain_gains(U: Array, order: Array) -> Array:
    """Gains of R1 (r, m - d) at a block of points as coordinates join in an order (m,), from the one after the d-th on.

    The Gram sums of all beginnings of the order are one cumulative sum; their determinants come by elimination.
    """
    backend = backend_of(U)
    xp, d = backend.xp, U.shape[2]
    rows = U[:, backend.asarray(order)]
    G = xp.cumsum(rows[:, :, :, None] * rows[:, :, None, :], axis=1)[:, d - 1 :]
    logarithm = xp.zeros(G.shape[:2])
    for c in range(d):
        pivot = xp.maximum(G[:, :, c, c], FLOOR)
        logarithm += xp.log(pivot)
        column = G[:, :, c + 1 :, c]
        G[:, :, c + 1 :, c + 1 :] -= column[..., :, None] * (column / pivot[..., None])[..., None, :]
    return 0.5 * xp.diff(logarithm, axis=1)


class Increments(NamedTuple):
    """R1 and R2 (r,) of a set at r points, ``u_k' G^-1 u_k`` (r, m) and, for each direction c, ``u_kc^2 / a_c``."""

    first: Any
    second: Any
    quadratic: Any
    ratios: list[Any]


def increments(U: Array, members: Sequence[int]) -> Increments:
    """At a block of bases U (r, m, d), for a set of d members or more."""
    backend = backend_of(U)
    xp, chosen = backend.xp, backend.asarray(np.array(members))
    columns = xp.ascontiguousarray(U.transpose(2, 0, 1), dtype=xp.float64)
    first, second, quadratic = xp.zeros(len(U)), xp.zeros(len(U)), xp.zeros(U.shape[:2])
    # Gram-Schmidt on the columns of the set, and the same steps on the rows of all coordinates: afterwards these are
    # R^-T u_k of G = R'R. Small pivots stay accurate, which those of G itself would not.
    units: list[Any] = []
    whitened: list[Any] = []
    ratios: list[Any] = []
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
    return Increments(first, second, quadratic, ratios)


def block_sums(bases: Array, make: Callable[[Array], Array], numbers: int | None = None) -> np.ndarray:
    """Return on the host the sum over all points of what ``make`` sums over a block of them.

    It holds so many ``numbers`` for one coordinate of one point, by default those of :func:`increments`.
    """
    (_, m, d), backend = bases.shape, backend_of(bases)
    per_row = CACHE * 8.0 * m * (numbers or 4 * d + 8)
    (sums,) = backend.sweep(lambda _, U: (make(U),), bases, bytes_per_row=per_row, stage="search", sums=1)
    return backend.to_host(sums)
