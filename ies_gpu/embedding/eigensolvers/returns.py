"""Chances that a random walk returns: they tell which points no cell fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend.array import Array
from ...backend.kernels.arrays import row_squares

if TYPE_CHECKING:
    from .multilevel import Level

LOOKS = 1, 3, 7  # steps after which points that hold what starts there are looked for:
LONELY, UNUSUAL = 0.15, 3.0  # a chance of return at the first look, also in units of the median,
TRAP, LASTING = 0.06, 0.65  # or at the last, and how much of that at the second look it is at least
HELD = 0.35  # chance of return at the first look from which a point is a cell on coarser levels too


def lonely_points(level: Level) -> tuple[np.ndarray, np.ndarray]:
    """Rows that hold what starts there, and those of them that hold most of it, or for long.

    No cell fits them: their vectors have eigenvalues far from 0. Where that is below 0.6 a smoothing step is enough on
    coarser levels, which such rows, whose number grows with n, would otherwise keep from becoming small.
    Outliers and tiny groups that are almost cut off are such points. After some steps from random signs, of variance 1,
    the variance at a point is the chance of being back there after twice as many: small and falling on a manifold,
    about 1 / c and lasting in a group of c points.
    """
    backend, xp = level.backend, level.backend.xp
    bits = backend.asarray(np.random.default_rng(level.n).integers(0, 1 << 32, size=level.n, dtype=np.uint32))
    chances = [xp.zeros(level.n, dtype=xp.float32)]
    for half in (16, 0):  # so that fewer signs and products exist at a time
        signs = (bits[:, None] >> xp.arange(half, half + 16, dtype=xp.uint32) & 1).astype(xp.float32)
        signs *= 2
        signs -= 1
        Y = level.product(signs)
        chances[0] += row_squares(Y) / 32
    Y, signs = xp.ascontiguousarray(Y[:, :8]), None  # enough to tell what lasts
    for step in range(2, LOOKS[-1] + 1):
        Y = level.product(Y)
        if step in LOOKS:
            chances.append((Y * Y).mean(axis=1))
    first, second, last = chances
    alone, held = is_lonely(first, second, last, xp.median(first), xp), is_held(first, second, last)
    return backend.to_host(xp.flatnonzero(alone)), backend.to_host(xp.flatnonzero(alone & held))


def is_lonely(first: Array, second: Array, last: Array, median: Any, xp: Any) -> Array:
    """Which rows have such chances of return at the three looks; ``median`` is that of the first."""
    alone = first > xp.maximum(LONELY, UNUSUAL * median)
    return alone | is_trap(second, last)


def is_held(first: Array, second: Array, last: Array) -> Array:
    """Which of them do so strongly, or for long."""
    return (first > HELD) | is_trap(second, last)


def is_trap(second: Array, last: Array) -> Array:
    return (last > TRAP) & (last > LASTING * second)
