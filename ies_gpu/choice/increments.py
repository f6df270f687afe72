"""What each coordinate adds to a set: R1 and R2 from Gram sums, for all coordinates and points at once.

With ``G(i) = sum_{k in A} u_k u_k'`` (u_k is row k of U(i)) the score of A is ``R1 - R2``: ``R1 = 1/2 log det G`` and
``R2 = 1/2 sum_c log a_c`` with the diagonal a of G. Coordinate k adds the rank-one matrix ``u_k u_k'``, so R1 gains
``1/2 log(1 + u_k' G^-1 u_k)`` and R2 gains ``1/2 sum_c log(1 + u_kc^2 / a_c)``. Both parts are monotone, and submodular
on the sets that contain A, where A has full rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.plain import FLOOR

LOWEST = 0.5 * log(FLOOR)  # of a score
CACHE = 4  # blocks are this much shorter than memory allows: then they stay in a cache, which halves the time
SOUND = 0.5 * LOWEST  # a set that scores less at a point is singular there up to rounding


class Increments(NamedTuple):
    """A set at a block of r points, and the others relative to it.

    Attributes
    ----------
    first, second : array (r,)
        R1 and R2 of the set.
    quadratic : array (r, m)
        ``u_k' G^-1 u_k``, 1 and less for members.
    ratios : list of d arrays (r, m)
        ``u_kc^2 / a_c`` for each tangent direction c.
    """

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


def chain_bytes(m: int, d: int) -> float:
    """Temporaries of :func:`chain_gains` for one point."""
    return CACHE * 8.0 * m * (4 * d * d + 4)
