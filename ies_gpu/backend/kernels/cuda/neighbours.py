"""Launches of ``neighbours.cu``: all pairs of points within a radius, without a tile of distances."""

from __future__ import annotations

import numpy as np

from ...array import Array, namespace
from . import text

CELL = 64
MAX_COLUMNS = 16  # of the points: with more of them in shared memory, too few blocks fit; matrix products compare those
MAX_BLOCKS = 65_535
DEGREE_THREADS = 256


def near_pairs(
    Z: Array, starts: Array, low: Array, high: Array, limit: float, reach: float, diagonal: bool, unit: float,
    storage: str,
) -> tuple[Array, Array, Array] | None:  # fmt: skip
    """See ``plain.near_pairs``; None for points with more columns than the kernel takes."""
    xp, (n, D), cells = namespace(Z), Z.shape, len(low)
    if not fits(Z) or int(-(-n // max(1, cells))) > CELL:
        return None
    Z, low, high, starts = (xp.ascontiguousarray(array) for array in (Z, low, high, starts))
    kernel = text.load_kernel("neighbours", f"near_pairs_{text.suffix(storage)}")
    sizes = np.int32(cells), np.int32(low.shape[1]), np.float64(reach), np.float64(limit)
    shared = (Z, np.int32(D), starts, low, high, *sizes, np.int32(diagonal), np.float64(unit))
    launch = {"shared_mem": shared_bytes(D)}
    counts, nothing = xp.empty(n, dtype=np.int64), np.uint64(0)
    kernel((min(cells, MAX_BLOCKS),), (CELL,), (*shared, nothing, counts, nothing, nothing), **launch)
    ends = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(counts)])
    size = int(ends[-1])
    indices, distances = xp.empty(size, dtype=np.int32), xp.empty(size, dtype=storage)
    kernel((min(cells, MAX_BLOCKS),), (CELL,), (*shared, ends, nothing, indices, distances), **launch)
    return ends, indices, distances


def shared_bytes(D: int) -> int:
    """Shared memory of ``near_pairs``: two cells of points, one with rows of odd length, and a flag per thread."""
    return CELL * ((D | 1) + D) * 8 + CELL * 4


def degrees(Z: Array, rows: Array, reach: float) -> Array | None:
    """See ``plain.degrees``."""
    if not fits(Z):
        return None
    xp = namespace(Z)
    out = xp.empty(len(rows), dtype=np.int64)
    kernel = text.load_kernel("neighbours", "degrees")
    sizes = np.int64(len(Z)), np.int32(Z.shape[1]), xp.ascontiguousarray(rows, dtype=np.int64), np.float64(reach)
    launch = {"shared_mem": DEGREE_THREADS * 8}
    kernel((len(rows),), (DEGREE_THREADS,), (xp.ascontiguousarray(Z), *sizes, out), **launch)
    return out


def fits(Z: Array) -> bool:
    """Whether the kernels take these points."""
    return Z.shape[1] <= MAX_COLUMNS and Z.dtype == np.float64 and len(Z) < 2**31
