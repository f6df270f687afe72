"""Maximising the difference of two submodular functions (Iyer and Bilmes, 2012), for many coordinates.

The loss is ``R1(S) - [R2(S) + zeta sum lambda_k]``, both parts submodular. From a set S a bound of it from below is
built that is tight at S, and maximised; the loss cannot fall. In both procedures R1 is replaced by a modular function,
its gains along an order of the coordinates in which S comes first. In the modular-modular procedure R2 is replaced by
its tangent too, so that the best s coordinates can be read off. In the submodular-supermodular procedure R2 stays, and
the set is built by greedy additions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import backend_of
from ..validation import check_integer
from .exchange import exchanged, grown
from .increments import TINY, chain_bytes, chain_gains, increment_bytes
from .pool import Pool, Subset
from .result import Evaluated, SearchResult, check_bases, check_percentile, check_size, check_zeta, concluded

STARTS = 6
ORDERS = 2  # orders of the coordinates that are tried before a procedure gives up


def search_submodular(
    bases: Any,
    eigenvalues: Any,
    *,
    subset_size: int,
    zeta: float | str = "auto",
    percentile: float = 75,
    random_state: int = 0,
    n_starts: int = STARTS,
) -> SearchResult:
    """A good set where there are too many to enumerate: up to about 200 coordinates, 10 of them chosen.

    From several starts (the first s coordinates, a set grown by greedy additions, seeded random sets) the
    modular-modular and the submodular-supermodular procedure climb; exchanges of single members finish. The set has no
    better neighbour, but nothing proves that it is the best. With ``zeta="auto"`` the path is traced by asking the
    search at zeta = 0 and at the crossings of the lines found so far; path and regret know the sets that were scored.

    Parameters
    ----------
    bases, eigenvalues, subset_size, zeta, percentile
        As in :func:`search_exhaustive`.
    random_state : int
        Seed of the random starts and orders.
    n_starts : int
        How many random starts there are at each zeta.
    """
    bases, values = check_bases(bases, eigenvalues)
    s, weight, alpha = check_size(bases, subset_size), check_zeta(zeta), check_percentile(percentile)
    seed = check_integer("random_state", random_state, low=0)
    starts = check_integer("n_starts", n_starts, low=0)
    return concluded(bases, values, submodular_sets(bases, values, s, weight, seed, starts), weight, alpha)


def submodular_sets(
    bases: Any, eigenvalues: np.ndarray, s: int, zeta: float | None, random_state: int = 0, n_starts: int = STARTS
) -> Evaluated:
    """All sets that the search scores, at zeta or along the path."""
    pool, m = Pool(bases, eigenvalues, s), bases.shape[1]
    rng = np.random.default_rng(random_state)
    drawn = [tuple(sorted([0, *(1 + rng.permutation(m - 1)[: s - 1]).tolist()])) for _ in range(n_starts)]

    def oracle(at: float) -> None:
        climbed: set[Subset] = set()
        for start in (grown(pool, at), pool.first, *drawn):
            top = climb(pool, start, at, rng)
            if top not in climbed:
                climbed.add(exchanged(pool, top, at))
        exchanged(pool, pool.best(pool.scores, at), at)

    asked = pool.trace(oracle if s > 1 else lambda at: None, zeta)
    return pool.evaluated(
        method="submodular", guarantee="exact over the pool only", path_exact=False, zetas_asked=asked,
        starts=n_starts + 2,
    )  # fmt: skip


def climb(pool: Pool, subset: Subset, zeta: float, rng: np.random.Generator) -> Subset:
    """Both procedures, until neither improves the set under any of a few random orders."""
    pool.add([subset])
    failed = 0
    while failed < ORDERS and pool.s > pool.bases.shape[2]:  # with s = d the first d are the whole set
        gains, base = minorant(pool, subset, rng)
        proposals = [modular_modular(pool, subset, gains, base, zeta), submodular_supermodular(pool, gains, base, zeta)]
        pool.add(proposals)
        better = pool.best([subset, *proposals], zeta)
        failed = failed + 1 if pool.loss(better, zeta) <= pool.loss(subset, zeta) else 0
        subset = better if failed == 0 else subset
    return subset


def minorant(pool: Pool, subset: Subset, rng: np.random.Generator) -> tuple[np.ndarray, Subset]:
    """Gains (m,) of R1 along an order that begins with the set: ``R1(X) >= R1(base) + sum of gains of X - base``.

    The first d members of the order, the base, are where R1 becomes finite: the bound is for sets that contain it. It
    is tight at the set itself.
    """
    m, d = pool.bases.shape[1:]
    members = [0, *rng.permutation(subset[1:]).tolist()]
    others = rng.permutation([k for k in range(m) if k not in subset]).tolist()
    order = np.array(members + others, dtype=np.int64)
    backend = backend_of(pool.bases)
    xp, n = backend.xp, len(pool.bases)
    sums = xp.zeros(m - d)
    for block in backend.blocks(n, chain_bytes(m, d), "search"):
        with block as rows:
            sums = sums + chain_gains(pool.bases[rows].astype(xp.float64), order).sum(axis=0)
    gains = np.zeros(m)
    gains[order[d:]] = backend.to_host(sums) / n
    return gains, tuple(members[:d])


def modular_modular(pool: Pool, subset: Subset, gains: np.ndarray, base: Subset, zeta: float) -> Subset:
    """The best set by the gains of R1 and the tangent of R2 at the set: ``1/2 sum_c u_kc^2 / a_c`` for coordinate k."""
    return best_of(gains - mean_lengths(pool.bases, subset, tangent=True) - zeta * pool.eigenvalues, base, pool.s)


def submodular_supermodular(pool: Pool, gains: np.ndarray, base: Subset, zeta: float) -> Subset:
    """A set by the gains of R1 less R2 itself, from the base by greedy additions."""
    chosen = base
    while len(chosen) < pool.s:
        rise = mean_lengths(pool.bases, chosen, tangent=False)
        chosen = best_of(gains - rise - zeta * pool.eigenvalues, chosen, len(chosen) + 1)
    return tuple(sorted(chosen))


def best_of(worth: np.ndarray, kept: Subset, size: int) -> Subset:
    """What is kept, and the coordinates of highest worth beside it."""
    others = [k for k in np.argsort(-worth, kind="stable").tolist() if k not in kept]
    return tuple(sorted((*kept, *others[: size - len(kept)])))


def mean_lengths(bases: Any, members: Subset, *, tangent: bool) -> np.ndarray:
    """What each coordinate (m,) adds to the mean of R2 at a set, or would by its tangent."""
    backend = backend_of(bases)
    xp, (n, m, d) = backend.xp, bases.shape
    sums, chosen = xp.zeros(m), backend.asarray(np.array(members))
    for block in backend.blocks(n, increment_bytes(m, d), "search"):
        with block as rows:
            squares = bases[rows].astype(xp.float64) ** 2
            ratios = squares / xp.maximum(squares[:, chosen].sum(axis=1), TINY)[:, None, :]
            sums = sums + 0.5 * (ratios if tangent else xp.log1p(ratios)).sum(axis=(0, 2))
    return backend.to_host(sums) / n
