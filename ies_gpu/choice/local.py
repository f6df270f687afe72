"""Growing a set from the first coordinate, and exchanging members one by one: fast, without a promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import backend_of
from .pool import Pool, Subset, mean_scores


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
    """A set that no exchange of one member improves; all sets on the way join the pool.

    Each member in turn gives way to the coordinate that is best in its place.
    """
    m = pool.bases.shape[1]
    pool.add([subset])
    unchanged, turn = 0, 0
    while unchanged < pool.s - 1:
        member = subset[1 + turn % (pool.s - 1)]
        better = pool.best(replacements(pool, subset, member, range(m)), zeta)
        unchanged = unchanged + 1 if pool.loss(better, zeta) <= pool.loss(subset, zeta) else 0
        subset = better if unchanged == 0 else subset
        turn += 1
    return subset


def replacements(pool: Pool, subset: Subset, member: int, coordinates: Sequence[int]) -> list[Subset]:
    """The sets with another coordinate in the place of a member (or the same), scored."""
    kept: Any = [k for k in subset if k != member]
    sets = [tuple(sorted((*kept, k))) for k in coordinates if k not in kept]
    pool.add(sets)
    return sets
