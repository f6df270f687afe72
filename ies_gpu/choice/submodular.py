"""Maximising the difference of two submodular functions (Iyer and Bilmes, 2012), for many coordinates.

With ``G(i) = sum_{k in A} u_k u_k'`` (u_k is row k of U(i)) the score of A is ``R1 - R2``: ``R1 = 1/2 log det G`` and
``R2 = 1/2 sum_c log a_c`` with the diagonal a of G. Coordinate k adds the rank-one matrix ``u_k u_k'``, so R1 gains
``1/2 log(1 + u_k' G^-1 u_k)`` and R2 gains ``1/2 sum_c log(1 + u_kc^2 / a_c)``. Both parts are monotone, and submodular
on the sets that contain A, where A has full rank.

The loss is ``R1(S) - [R2(S) + zeta sum lambda_k]``. From a set S a bound of it from below is built that is tight at S,
and maximised over the sets of s coordinates that keep a base of S, where R1 is finite.

- modular-modular: R1 is replaced by its gains along an order of the coordinates in which S comes first, R2 by its
  tangent. The best coordinates can be read off.
- submodular-supermodular: R1 is replaced, R2 stays; built by greedy additions.
- supermodular-submodular: R2 is replaced, R1 stays; built by greedy additions.

These bounds are cautious: from most sets no procedure moves, and exchanges of single members do most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.plain import FLOOR
from .criterion import CandidateSets
from .pool import Pool, Subset, exchanged, grown, random_sets

STARTS = 6  # random ones, beside the best set known and a grown one
ROUNDS = 4  # of the procedures from one start: exchanges go on from there, and faster
CACHE = 4  # blocks are this much shorter than memory allows: then they stay in a cache, which halves the time


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
    """The three procedures, each time from the best of their sets, while one of them improves it."""
    pool.add([subset])
    for _ in range(ROUNDS if pool.s > pool.bases.shape[2] else 0):  # with s = d the base is the whole set
        gains, base = minorant(pool, subset, zeta, rng)
        tangent, price = mean_lengths(pool.bases, subset, tangent=True), zeta * pool.eigenvalues
        rises = partial(mean_lengths, pool.bases, tangent=False)
        proposals = [
            best_of(gains - tangent - price, base, pool.s),
            built(base, pool.s, lambda chosen: gains - rises(chosen) - price),  # noqa: B023 - used at once
            built(base, pool.s, lambda chosen: mean_gains(pool.bases, chosen) - tangent - price),  # noqa: B023
        ]
        pool.add(proposals)
        better = pool.best([subset, *proposals], zeta)
        if pool.loss(better, zeta) <= pool.loss(subset, zeta):
            break
        subset = better
    return subset


def minorant(pool: Pool, subset: Subset, zeta: float, rng: np.random.Generator) -> tuple[np.ndarray, Subset]:
    """Gains (m,) of R1 along an order that begins with the set: ``R1(X) >= R1(base) + sum of gains of X - base``.

    The first d members of the order, the base, are where R1 becomes finite: the bound is for sets that contain it. It
    is tight at the set itself. The members are in random order, the others by what they would add to the loss.
    """
    bases = pool.bases
    n, m, d = bases.shape
    members = [0, *rng.permutation(subset[1:]).tolist()]
    worth = mean_gains(bases, subset) - mean_lengths(bases, subset, tangent=False) - zeta * pool.eigenvalues
    others = [k for k in np.argsort(-worth, kind="stable").tolist() if k not in subset]
    order = np.array(members + others, dtype=np.int64)
    per_point = CACHE * 8.0 * m * (4 * d * d + 4)
    sums = block_sums(bases, per_point, lambda U: chain_gains(U.astype(np.float64), order).sum(axis=0))
    gains = np.zeros(m)
    gains[order[d:]] = sums / n
    return gains, tuple(members[:d])


def built(base: Subset, s: int, worth: Callable[[Subset], np.ndarray]) -> Subset:
    """A set of s coordinates, from a base by greedy additions, given what each is worth at a set."""
    while len(base) < s:
        base = best_of(worth(base), base, len(base) + 1)
    return tuple(sorted(base))


def best_of(worth: np.ndarray, kept: Subset, size: int) -> Subset:
    """What is kept, and the coordinates of highest worth beside it."""
    others = [k for k in np.argsort(-worth, kind="stable").tolist() if k not in kept]
    return tuple(sorted((*kept, *others[: size - len(kept)])))


def mean_gains(bases: Array, members: Subset) -> np.ndarray:
    """What each coordinate (m,) adds to the mean of R1 at a set."""
    xp, (n, m, d) = backend_of(bases).xp, bases.shape
    sums = block_sums(
        bases, increment_bytes(m, d), lambda U: 0.5 * xp.log1p(increments(U, members).quadratic).sum(axis=0)
    )
    return sums / n


def mean_lengths(bases: Array, members: Subset, *, tangent: bool) -> np.ndarray:
    """What each coordinate (m,) adds to the mean of R2, or would by its tangent (``1/2 sum_c u_kc^2 / a_c``)."""
    backend = backend_of(bases)
    xp, (n, m, d), chosen = backend.xp, bases.shape, backend.asarray(np.array(members))

    def rises(U: Array) -> Array:
        squares = U.astype(xp.float64) ** 2
        ratios = squares / xp.maximum(squares[:, chosen].sum(axis=1), FLOOR)[:, None, :]
        # over points first: a sum along contiguous rows is much faster
        return (ratios if tangent else xp.log1p(ratios)).reshape(-1, m * d).sum(axis=0)

    return block_sums(bases, increment_bytes(m, d), rises).reshape(m, d).sum(axis=1) / (2 * n)


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


def block_sums(bases: Array, bytes_each: float, make: Callable[[Array], Array]) -> np.ndarray:
    """Return on the host the sum over all points of what ``make`` sums over a block of them."""
    backend = backend_of(bases)
    (sums,) = backend.sweep(lambda _, U: (make(U),), bases, bytes_per_row=bytes_each, stage="search", sums=1)
    return backend.to_host(sums)


def increment_bytes(m: int, d: int) -> float:
    """Temporaries of :func:`increments` and what follows it, for one point."""
    return CACHE * 8.0 * m * (4 * d + 8)
