"""What each coordinate adds to a set: R1 and R2 from Gram sums, for all coordinates and points at once.

With ``G_A(i) = sum_{k in A} u_k u_k'`` (u_k is row k of U(i)) the score is ``R = R1 - R2``, where ``R1 = 1/2 log det G_A``
and ``R2 = 1/2 sum_c log a_c`` with the diagonal a of G_A. Coordinate k adds the rank-one matrix ``u_k u_k'``, so that R1
gains ``1/2 log(1 + u_k' G_A^-1 u_k)`` and R2 gains ``1/2 sum_c log(1 + u_kc^2 / a_c)``. Both parts are monotone and
submodular on the sets that contain A, where A has full rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

from ..backend import backend_of
from ..backend.kernels.plain import FLOOR

LOWEST = 0.5 * log(FLOOR)  # of a score
SOUND = 0.5 * LOWEST  # a set that scores less at a point is singular there up to rounding
TINY = 1e-300


class Increments(NamedTuple):
    """A set at a block of r points, and the others relative to it.

    Attributes
    ----------
    first, second : array (r,)
        R1 and R2 of the set.
    quadratic : array (r, m)
        ``u_k' G^-1 u_k``, 1 and less for members.
    ratios : array (r, m, d)
        ``u_kc^2 / a_c``.
    """

    first: Any
    second: Any
    quadratic: Any
    ratios: Any


def increments(U: Any, members: Sequence[int]) -> Increments:
    """At a block of bases U (r, m, d), for a set of d members or more."""
    xp, d = backend_of(U).xp, U.shape[2]
    frame = U[:, xp.asarray(list(members))]
    lengths = xp.maximum((frame * frame).sum(axis=1), TINY)
    whitened: list[Any] = []
    quadratic, determinant = xp.zeros(U.shape[:2]), xp.zeros(len(U))
    # Gram-Schmidt on the columns of the frame, and the same steps on the rows of all coordinates: afterwards these are
    # R^-T u_k of G = R'R. Small pivots stay accurate, which those of G itself would not.
    units: list[Any] = []
    for c in range(d):
        rest, column = frame[:, :, c], U[:, :, c]
        for unit, done in zip(units, whitened, strict=True):
            share = (unit * rest).sum(axis=1)[:, None]
            rest, column = rest - share * unit, column - share * done
        pivot = xp.maximum((rest * rest).sum(axis=1), TINY)
        scale = 1 / xp.sqrt(pivot)[:, None]
        units.append(rest * scale)
        whitened.append(column * scale)
        quadratic += whitened[c] * whitened[c]
        determinant += xp.log(pivot)
    return Increments(
        0.5 * determinant, 0.5 * xp.log(lengths).sum(axis=1), quadratic, U * U / lengths[:, None, :]
    )


def increment_bytes(m: int, d: int) -> float:
    """Temporaries of :func:`increments` and what follows it, for one point."""
    return 8.0 * m * (4 * d + 8)


def chain_gains(U: Any, order: Any) -> Any:
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
    return 8.0 * m * (4 * d * d + 4)
