"""Maximising the difference of two submodular functions (Iyer and Bilmes, 2012), for many coordinates.

The loss is ``R1(S) - [R2(S) + zeta sum lambda_k]``, both parts submodular. From a set S a bound of it from below is
built that is tight at S, and maximised over the sets of s coordinates that keep a base of S, where R1 is finite.

- modular-modular: R1 is replaced by its gains along an order of the coordinates in which S comes first, R2 by its
  tangent. The best coordinates can be read off.
- submodular-supermodular: R1 is replaced, R2 stays; built by greedy additions.
- supermodular-submodular: R2 is replaced, R1 stays; built by greedy additions.

These bounds are cautious: from most sets no procedure moves, and exchanges of single members do most of the work.
"""

from __future__ import annotations

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from .criterion import CandidateSets
from .increments import FLOOR, block_sums, chain_bytes, chain_gains, increment_bytes, increments
from .local import exchanged, grown
from .pool import Pool, Subset, random_sets

STARTS = 6
ROUNDS = 4  # of the procedures from one start: exchanges go on from there, and faster


def submodular_sets(
    bases: Array, eigenvalues: np.ndarray, s: int, zeta: float | None, random_state: int = 0, n_starts: int = STARTS
) -> CandidateSets:
    """Name all sets that the search scores, at zeta or (for None) along the path."""
    pool, m = Pool(bases, eigenvalues, s), bases.shape[1]
    rng = np.random.default_rng(random_state)
    drawn = random_sets(m, s, n_starts, rng)

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
        starts=n_starts + 2,
    )  # fmt: skip


def climb(pool: Pool, subset: Subset, zeta: float, rng: np.random.Generator) -> Subset:
    """The three procedures, each time from the best of their sets, while one of them improves it."""
    pool.add([subset])
    for _ in range(ROUNDS if pool.s > pool.bases.shape[2] else 0):  # with s = d the base is the whole set
        gains, base = minorant(pool, subset, zeta, rng)
        tangent = mean_lengths(pool.bases, subset, tangent=True)
        proposals = [
            modular_modular(pool, gains, tangent, base, zeta),
            submodular_supermodular(pool, gains, base, zeta),
            supermodular_submodular(pool, tangent, base, zeta),
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
    sums = block_sums(bases, chain_bytes(m, d), lambda U: chain_gains(U.astype(np.float64), order).sum(axis=0))
    gains = np.zeros(m)
    gains[order[d:]] = sums / n
    return gains, tuple(members[:d])


def modular_modular(pool: Pool, gains: np.ndarray, tangent: np.ndarray, base: Subset, zeta: float) -> Subset:
    """The best set by the gains of R1 and the tangent of R2."""
    return best_of(gains - tangent - zeta * pool.eigenvalues, base, pool.s)


def submodular_supermodular(pool: Pool, gains: np.ndarray, base: Subset, zeta: float) -> Subset:
    """A set by the gains of R1 less R2 itself, from the base by greedy additions."""
    while len(base) < pool.s:
        rises = mean_lengths(pool.bases, base, tangent=False)
        base = best_of(gains - rises - zeta * pool.eigenvalues, base, len(base) + 1)
    return tuple(sorted(base))


def supermodular_submodular(pool: Pool, tangent: np.ndarray, base: Subset, zeta: float) -> Subset:
    """A set by R1 itself less the tangent of R2, from the base by greedy additions."""
    while len(base) < pool.s:
        base = best_of(mean_gains(pool.bases, base) - tangent - zeta * pool.eigenvalues, base, len(base) + 1)
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
