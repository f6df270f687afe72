"""The kernels for the host, fused and threaded with Numba. Arguments and results are those of ``plain``.

Results do not depend on the number of threads: a row is computed by one thread, and sums over points are taken in
parts of a fixed size and order. Nothing is compiled on import; what a first call compiles is kept on disk.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np

from .numba_scores import log_volumes, score_block
from .numba_tangent import tangent_rows
from .numba_tasks import compiled, in_threads
from .plain import FLOOR, cometric_rows, leading_eigenvectors, volume_ratio

__all__ = [
    "FLOOR",
    "NAME",
    "cometric_rows",
    "kd_order",
    "leading_eigenvectors",
    "log_volumes",
    "score_block",
    "score_bytes",
    "spmm",
    "table_bytes",
    "tangent_rows",
    "threads",
    "tile_graph",
    "tile_graph_single",
    "volume_ratio",
]

NAME = "numba"
FEW = 20  # coordinates up to which direct differences beat the matrix product
BLOCK = 256  # columns whose squared distances stay in the first-level cache
TILE_ROWS = 32  # rows in one task of the graph
SUBTREES = 5  # levels of the order in space that are cut one by one: then 32 tasks, each in its own cache


def score_bytes(q: int, s: int, d: int) -> float:
    """What scoring takes for one point: the sets are walked one at a time, so only a row of a table of scores."""
    return 8.0 * (q + 64)


table_bytes = score_bytes  # of log_volumes, which walks the sets too


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Context in which the kernels use ``count`` threads, or as many as Numba was started with if that is less."""
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, min(count, numba.config.NUMBA_NUM_THREADS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


# --- sparse matrix times block ---------------------------------------------------------------------------------------


@compiled()
def row_times_vector(indices, data, V, zero):
    """Inner product of one row, given as slices, with a vector.

    Four sums by hand: left to the vectoriser this becomes gather instructions, which are three times slower.
    """
    s0 = s1 = s2 = s3 = zero
    quarters = len(indices) // 4
    for j in range(quarters):
        s0 += data[4 * j] * V[indices[4 * j]]
        s1 += data[4 * j + 1] * V[indices[4 * j + 1]]
        s2 += data[4 * j + 2] * V[indices[4 * j + 2]]
        s3 += data[4 * j + 3] * V[indices[4 * j + 3]]
    for j in range(4 * quarters, len(indices)):
        s0 += data[j] * V[indices[j]]
    return (s0 + s1) + (s2 + s3)


@compiled(fast=True)
def row_times_block(indices, data, V, out):
    """Inner products of one row with the columns of a block, four nonzeros in one pass over the result."""
    for c in range(len(out)):
        out[c] = 0
    quarters = len(indices) // 4
    for j in range(quarters):
        j0, j1, j2, j3 = indices[4 * j], indices[4 * j + 1], indices[4 * j + 2], indices[4 * j + 3]
        a0, a1, a2, a3 = data[4 * j], data[4 * j + 1], data[4 * j + 2], data[4 * j + 3]
        for c in range(len(out)):
            out[c] += a0 * V[j0, c] + a1 * V[j1, c] + a2 * V[j2, c] + a3 * V[j3, c]
    for j in range(4 * quarters, len(indices)):
        for c in range(len(out)):
            out[c] += data[j] * V[indices[j], c]


@compiled(entry=True, parallel=True)
def multiply_vector(indptr, indices, data, V, alpha, beta, W, out):
    """``out = alpha A V + beta W`` for one column; W is not read when it is empty."""
    for i in numba.prange(len(out)):
        first, last = indptr[i], indptr[i + 1]
        total = alpha * row_times_vector(indices[first:last], data[first:last], V, alpha * 0)
        out[i] = total + beta * W[i] if len(W) else total


@compiled(entry=True, parallel=True)
def multiply_block(indptr, indices, data, V, alpha, beta, W, out):
    """The same for several columns."""
    for i in numba.prange(len(out)):
        first, last = indptr[i], indptr[i + 1]
        row_times_block(indices[first:last], data[first:last], V, out[i])
        for c in range(V.shape[1]):
            out[i, c] = alpha * out[i, c] + beta * W[i, c] if len(W) else alpha * out[i, c]


def spmm(indptr: Any, indices: Any, data: Any, V: Any, alpha: float = 1.0, beta: float = 0.0, W: Any = None) -> Any:
    """See :func:`.plain.spmm`; V may also be a vector (n,)."""
    dtype = np.result_type(data, V)
    indptr, indices, data = (np.ascontiguousarray(array) for array in (indptr, indices, data))
    indices = indices.view(f"u{indices.itemsize}")  # an unsigned index is not checked for counting from the end
    V = np.ascontiguousarray(V, dtype=dtype)
    out = np.empty((len(indptr) - 1, *V.shape[1:]), dtype=dtype)
    if W is None or beta == 0.0:
        W = np.empty((0,) * V.ndim, dtype=dtype)
    W = np.ascontiguousarray(W, dtype=dtype)
    single = V.ndim == 1 or V.shape[1] == 1
    vectors = (V.ravel(), W.ravel(), out.ravel()) if single else (V, W, out)  # views: all are contiguous
    multiply = multiply_vector if single else multiply_block
    multiply(indptr, indices, data, vectors[0], dtype.type(alpha), dtype.type(beta), vectors[1], vectors[2])
    return out


# --- neighbours ------------------------------------------------------------------------------------------------------


@compiled()
def squared_distances(rows, i, columns, start, stop, squared):
    """From row i to a block of columns (given as D x c), summed in the order of the coordinates: the same both ways."""
    # slices: an index that begins at 0 needs no check of its sign, which would keep the loops from being vectorised
    D = len(columns)
    x, u = rows[i, 0], columns[0, start:stop]
    for c in range(stop - start):
        squared[c] = (x - u[c]) * (x - u[c])
    for k in range(2, D, 2):  # two coordinates in one pass
        x, y = rows[i, k - 1], rows[i, k]
        u, v = columns[k - 1, start:stop], columns[k, start:stop]
        for c in range(stop - start):
            squared[c] = (squared[c] + (x - u[c]) * (x - u[c])) + (y - v[c]) * (y - v[c])
    if D % 2 == 0:
        x, u = rows[i, D - 1], columns[D - 1, start:stop]
        for c in range(stop - start):
            squared[c] += (x - u[c]) * (x - u[c])


@compiled()
def grown(array, size):
    """A larger array that begins with the same entries."""
    larger = np.empty(size, array.dtype)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@compiled(entry=True)
def ball_task(rows, columns, limit, first, last, like):
    """Pairs of a few rows from direct differences; distances in the dtype of ``like``."""
    squared = np.empty(BLOCK)
    counts = np.zeros(last - first, np.int64)
    indices, distances = np.empty(BLOCK, np.int64), np.empty(BLOCK, like.dtype)
    position = 0
    for i in range(first, last):
        for start in range(0, columns.shape[1], BLOCK):
            stop = min(columns.shape[1], start + BLOCK)
            squared_distances(rows, i, columns, start, stop, squared)
            count = 0
            for c in range(stop - start):
                count += squared[c] <= limit
            if count == 0:
                continue
            if position + count > len(indices):
                size = (position + count) * 3 // 2
                indices, distances = grown(indices, size), grown(distances, size)
            for c in range(stop - start):
                if squared[c] <= limit:
                    indices[position] = start + c
                    distances[position] = math.sqrt(squared[c])
                    position += 1
            counts[i - first] += count
    return counts, indices[:position], distances[:position]


@compiled(entry=True)
def settle(products, aa, bb, rows, columns, limit, slack, close):
    """Pairs within the ball from inner products of centred points; what the product cannot tell is computed again."""
    counts = np.zeros(len(products), np.int64)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            value = np.float64(aa[i] + bb[j] - 2 * products[i, j])
            if value <= limit + slack and (value <= close or value >= limit - slack):
                value = 0.0
                for k in range(rows.shape[1]):
                    difference = np.float64(rows[i, k]) - np.float64(columns[j, k])
                    value += difference * difference
            inside = value <= limit
            products[i, j] = value if inside else -1.0
            counts[i] += inside
    indices = np.empty(counts.sum(), np.int64)
    distances = np.empty(len(indices), products.dtype)
    position = 0
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            if products[i, j] >= 0.0:
                indices[position] = j
                distances[position] = math.sqrt(products[i, j])
                position += 1
    return counts, indices, distances


def tile_graph(rows: Any, columns: Any, radius: float) -> tuple[Any, Any, Any]:
    """See :func:`.plain.tile_graph`; differences are taken in float64, a few rows at a time."""
    limit = float(radius) * float(radius)
    like = np.empty(0, dtype=rows.dtype)
    if not len(rows) or not len(columns):
        return np.zeros(len(rows), dtype=np.int64), np.empty(0, dtype=np.int64), like
    parts: dict[int, Any] = {}
    if rows.shape[1] <= FEW:
        wide = np.ascontiguousarray(rows, dtype=np.float64)
        across = np.ascontiguousarray(columns.T, dtype=np.float64)

        def task(first: int, last: int) -> None:
            parts[first] = ball_task(wide, across, limit, first, last, like)

    else:
        rows, columns = np.ascontiguousarray(rows), np.ascontiguousarray(columns)
        centre = rows.mean(axis=0)
        a, b = rows - centre, columns - centre
        aa, bb = (a * a).sum(axis=1), (b * b).sum(axis=1)
        scale = float(max(aa.max(), bb.max()))
        slack, close = 64 * float(np.finfo(rows.dtype).eps) * scale, 1e-3 * scale

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            parts[first] = settle(a[part] @ b.T, aa[part], bb, rows[part], columns, limit, slack, close)

    in_threads(task, len(rows), TILE_ROWS)
    counts, indices, distances = zip(*(parts[first] for first in sorted(parts)), strict=True)
    return np.concatenate(counts), np.concatenate(indices), np.concatenate(distances)


tile_graph_single = tile_graph  # on a CPU differences in float64 are as fast


# --- order in space --------------------------------------------------------------------------------------------------


@compiled()
def select(keys, places, low, high, k, seed):
    """Move the places so that those before position k have keys no larger, and those after it no smaller."""
    high -= 1
    while low < high:
        # median of three: at the ends and at a random place, so that no order of the points is a bad one
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        x, y, z = keys[low], keys[low + seed % (high - low + 1)], keys[high]
        pivot = max(min(x, y), min(max(x, y), z))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                places[i], places[j] = places[j], places[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return
    return


@compiled()
def widest_side(points, places, low, high):
    """The coordinate with the largest extent over some points, the first of equal ones."""
    best, widest = 0, -1.0
    for k in range(points.shape[1]):
        least, most = np.inf, -np.inf
        for p in range(low, high):
            value = points[places[p], k]
            least, most = min(least, value), max(most, value)
        if most - least > widest:
            best, widest = k, most - least
    return best


@compiled(entry=True)
def cut_cells(Z, order, level, cell, until):
    """Cut one cell of a level, its halves and so on, down to level ``until``; the order changes within the cell."""
    n = len(Z)
    begin, end = (n * cell) >> level, (n * (cell + 1)) >> level
    points = np.empty((end - begin, Z.shape[1]))  # a copy of the cell: from here on its points are close in memory
    for p in range(end - begin):
        for k in range(Z.shape[1]):
            points[p, k] = Z[order[begin + p], k]
    places, keys = np.arange(end - begin), np.empty(end - begin)
    for depth in range(level, until):
        for part in range(cell << (depth - level), (cell + 1) << (depth - level)):
            low, high = ((n * part) >> depth) - begin, ((n * (part + 1)) >> depth) - begin
            middle = ((n * (2 * part + 1)) >> (depth + 1)) - begin
            if middle <= low or middle >= high:
                continue
            side = widest_side(points, places, low, high)
            for p in range(low, high):
                keys[p] = points[places[p], side]
            select(keys, places, low, high, middle, part)
    before = order[begin:end].copy()
    for p in range(end - begin):
        order[begin + p] = before[places[p]]


def kd_order(Z: Any, levels: int) -> Any:
    """See :func:`.plain.kd_order`: the same cells, up to ties; the order within the last cells is not sorted."""
    Z = np.ascontiguousarray(Z)
    order = np.arange(len(Z))
    level = 0
    while level < levels:
        until = levels if level == SUBTREES else level + 1

        def task(cell: int, _: int, level: int = level, until: int = until) -> None:
            cut_cells(Z, order, level, cell, until)

        in_threads(task, 1 << level, 1)
        level = until
    return order


# the loops of the multilevel eigensolver
from .numba_levels import (  # noqa: E402
    block_product,
    descend,
    gram,
    merge_columns,
    merge_rows,
    project_out,
    restrict,
    scaled_columns,
    shifted_product,
    symmetric_entries,
    turn,
    update,
    vector_product,
)

__all__ += [
    "block_product",
    "descend",
    "gram",
    "merge_columns",
    "merge_rows",
    "project_out",
    "restrict",
    "scaled_columns",
    "shifted_product",
    "symmetric_entries",
    "turn",
    "update",
    "vector_product",
]
