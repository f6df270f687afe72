"""The CUDA kernels; what has no kernel of its own is plain code on CuPy arrays.

The sources are the ``.cu`` files beside this module, of which NVRTC compiles one entry point at a time, at its first
use. Here are the launches of tangent bases, scores and pairs of points; those over the rows of a sparse matrix are in
:mod:`.csr`. Sizes beyond a kernel's limits (m up to 64, d up to 8) run on plain code.
"""

import os
from typing import NamedTuple

import numpy as np

from ...array import Array, namespace
from .. import kernels_in, plain
from . import csr, text

globals().update(kernels_in(plain, csr))

NAME = "cuda"
MAX_COMPONENTS = 64
MAX_DIM = 8
MAX_SCORE_BLOCKS = 2_048  # with MAX_SETS: at most 32 MB of partial totals
MAX_SETS = 2_048  # in one launch
CELL = 64  # points of the graph in a cell, at most
MAX_COLUMNS = 16  # of them: with more in shared memory, too few blocks fit; matrix products compare those


class Launch(NamedTuple):
    """How a kernel is started: blocks, threads in each, bytes of dynamic shared memory, kernel-specific sizes."""

    blocks: int
    threads: int
    shared_bytes: int
    sizes: tuple[np.int32, ...] = ()


def tangent_launch(n_rows: int, m: int, itemsize: int) -> Launch:
    """Launch of ``tangent_rows``: a block for each row, a thread for each 4 x 4 patch of the upper triangle of H.

    Where patches are few, two warps share them out by neighbours. The shared memory is that of ``Scratch``
    in the source: one matrix or tile, nine vectors, twelve int32; 38 KB at most.
    """
    side = -(-m // 4)
    width, stride = max(16, 4 * side), 4 * side + (side < 6) + 3 * (side == 4)
    warps = max(2, -(-side * (side + 1) // 2 // 32))
    values = max(m * (m | 1), width * stride) + 9 * width
    return Launch(min(n_rows, csr.MAX_BLOCKS), 32 * warps, values * itemsize + 12 * 4)


def score_launch(n_points: int, m: int, d: int, n_sets: int, itemsize: int) -> Launch:
    """Launch of ``score_block``: ``sizes`` are points in a tile and sets in a chunk, about a thousand pairs together.

    It depends on the sizes only, not on the device: totals are added in the same order everywhere. The shared memory is
    the table of scores, its rows of odd length, and the tile's bases; 25 KB at most.
    """
    chunk = min(64, n_sets)
    tile = max(1, min(64, 1024 // chunk, 16_384 // (m * d * itemsize)))
    shared_bytes = tile * (chunk | 1) * 8 + tile * m * d * itemsize
    return Launch(min(-(-n_points // tile), MAX_SCORE_BLOCKS), 256, shared_bytes, (np.int32(tile), np.int32(chunk)))


def tangent_bytes(m: int, d: int, degree: float) -> float:
    """Return what the kernel takes for one row beside the result: bases, eigenvalues and a row number, once more."""
    return 8.0 * (m * d + d + 1)


def tangent_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int) -> tuple[Array, Array]:
    """Return leading eigenvectors U (r, m, d) and eigenvalues sigma (r, d) of the co-metric of each row.

    ``indptr`` may be int32 or int64, ``weights`` float32 or float64. Copied, on the device, if they are not yet
    C-contiguous or of this dtype: ``indices`` to int32, ``rows`` to int64. Weights must not be negative.
    """
    other = "" if weights.dtype == Y.dtype else f"_w{text.suffix(weights.dtype)[1:]}"
    return tangents_by(f"tangent_rows_{text.suffix(Y.dtype)}{other}", indptr, indices, weights, Y, rows, d)


def tangent_rows_single(
    indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int
) -> tuple[Array, Array]:
    """See ``plain.tangent_rows_single``."""
    return tangents_by("tangent_rows_single", indptr, indices, weights, Y, rows, d)


def tangents_by(
    entry: str, indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int
) -> tuple[Array, Array]:
    """Do as ``tangent_rows`` by one of the entry points."""
    m = Y.shape[1]
    if m > MAX_COMPONENTS or d > MAX_DIM:
        return plain.tangent_rows(indptr, indices, weights, Y, rows, d)
    xp = namespace(Y)
    U = xp.empty((len(rows), m, d), dtype=Y.dtype)
    sigma = xp.empty((len(rows), d), dtype=Y.dtype)
    kernel = text.load_kernel("tangent_rows", entry)
    if len(rows) == 0:
        return U, sigma
    launch = tangent_launch(len(rows), m, 4 if entry == "tangent_rows_single" else Y.dtype.itemsize)
    matrix = csr.matrix_arguments(indptr, indices, weights)
    given = xp.ascontiguousarray(Y), xp.ascontiguousarray(rows, dtype=np.int64)
    arguments = (*matrix, *given, np.int64(len(rows)), np.int32(m), np.int32(d), U, sigma)
    kernel((launch.blocks,), (launch.threads,), arguments, shared_mem=launch.shared_bytes)
    return U, sigma


def score_bytes(q: int, s: int, d: int) -> float:
    """Return what scoring takes for one point: its best set and its score, twice, beside 32 MB of partial totals."""
    return 24.0


def score_block(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
    """Add each set's score over a block of points to ``totals``; write each point's best set and its score.

    See ``plain.score_block``. Totals are the same from run to run; they differ from the plain ones by the order of
    addition.
    """
    n_points, m, d = U.shape
    if m > MAX_COMPONENTS or d > MAX_DIM or len(subsets) == 0:
        plain.score_block(U, subsets, totals, best, best_score)
        return
    xp = namespace(U)
    kernel = text.load_kernel("score_block", f"score_block_{d}_{text.suffix(U.dtype)}")
    if n_points == 0:
        return
    bases = xp.ascontiguousarray(U)
    winner = xp.empty(n_points, dtype=np.int32)
    highest = xp.empty(n_points, dtype=np.float64)
    for start in range(0, len(subsets), MAX_SETS):
        # one set a column: neighbouring threads read neighbouring numbers
        columns = xp.ascontiguousarray(subsets[start : start + MAX_SETS].T, dtype=np.int32)
        size, n_sets = columns.shape
        launch = score_launch(n_points, m, d, n_sets, U.dtype.itemsize)
        partial = xp.zeros((launch.blocks, n_sets), dtype=np.float64)
        sizes = np.int32(size), np.int32(n_sets), np.int32(start), *launch.sizes
        arguments = (bases, np.int64(n_points), np.int32(m), columns, *sizes, partial, winner, highest)
        kernel((launch.blocks,), (launch.threads,), arguments, shared_mem=launch.shared_bytes)
        totals[start : start + n_sets] += partial.sum(axis=0)
    best[:] = winner
    best_score[:] = highest


def near_pairs(
    Z: Array, starts: Array, low: Array, high: Array, limit: float, reach: float, diagonal: bool, unit: float,
    storage: str,
) -> tuple[Array, Array, Array] | None:  # fmt: skip
    """See ``plain.near_pairs``; None for points with more columns than the kernel takes."""
    xp, (n, D), cells = namespace(Z), Z.shape, len(low)
    fits = D <= MAX_COLUMNS and Z.dtype == np.float64 and n < 2**31
    if not fits or -(-n // max(1, cells)) > CELL:
        return None
    Z, low, high, starts = (xp.ascontiguousarray(array) for array in (Z, low, high, starts))
    kernel = text.load_kernel("neighbours", f"near_pairs_{text.suffix(storage)}")
    sizes = np.int32(cells), np.int32(low.shape[1]), np.float64(reach), np.float64(limit)
    shared = (Z, np.int32(D), starts, low, high, *sizes, np.int32(diagonal), np.float64(unit))
    launch = {"shared_mem": pairs_bytes(D)}
    counts, nothing = xp.empty(n, dtype=np.int64), np.uint64(0)
    kernel((min(cells, csr.MAX_BLOCKS),), (CELL,), (*shared, nothing, counts, nothing, nothing), **launch)
    ends = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(counts)])
    size = int(ends[-1])
    indices, distances = xp.empty(size, dtype=np.int32), xp.empty(size, dtype=storage)
    kernel((min(cells, csr.MAX_BLOCKS),), (CELL,), (*shared, ends, nothing, indices, distances), **launch)
    return ends, indices, distances


def pairs_bytes(D: int) -> int:
    """Return the shared memory of ``near_pairs``: two cells, one with rows of odd length, and a flag per thread."""
    return CELL * ((D | 1) + D) * 8 + CELL * 4


def tile_graph_single(rows: Array, columns: Array, radius: float) -> tuple[Array, Array, Array]:
    """See ``plain``; not with CuPy's TF32 products, which are a thousand times coarser than float32."""
    coarse = os.environ.get("CUPY_TF32", "0") not in ("", "0")
    return (plain.tile_graph if coarse else plain.tile_graph_single)(rows, columns, radius)
