"""Sparse matrix times vector or block."""

from __future__ import annotations

import numpy as np

from ...array import Array
from .tasks import SPARSE_CHUNK, compiled, in_threads, thread_count


@compiled(entry=True)
def multiply_vector(indptr, indices, data, V, zero, begin, end, out):
    """Rows ``begin`` to ``end`` of ``out = A V`` for one column.

    Four sums by hand: left to the vectoriser this becomes gather instructions, which are three times slower.
    """
    for i in range(begin, end):
        first, last = indptr[i], indptr[i + 1]
        columns, entries = indices[first:last], data[first:last]
        s0 = s1 = s2 = s3 = zero
        quarters = len(columns) // 4
        for j in range(quarters):
            s0 += entries[4 * j] * V[columns[4 * j]]
            s1 += entries[4 * j + 1] * V[columns[4 * j + 1]]
            s2 += entries[4 * j + 2] * V[columns[4 * j + 2]]
            s3 += entries[4 * j + 3] * V[columns[4 * j + 3]]
        for j in range(4 * quarters, len(columns)):
            s0 += entries[j] * V[columns[j]]
        out[i] = (s0 + s1) + (s2 + s3)


@compiled(fast=True, entry=True)
def multiply_block(indptr, indices, data, V, begin, end, out):
    """The same for several columns, four nonzeros in one pass over the result."""
    for i in range(begin, end):
        first, last = indptr[i], indptr[i + 1]
        columns, entries, total = indices[first:last], data[first:last], out[i]
        for c in range(len(total)):
            total[c] = 0
        quarters = len(columns) // 4
        for j in range(quarters):
            j0, j1, j2, j3 = columns[4 * j], columns[4 * j + 1], columns[4 * j + 2], columns[4 * j + 3]
            a0, a1, a2, a3 = entries[4 * j], entries[4 * j + 1], entries[4 * j + 2], entries[4 * j + 3]
            for c in range(len(total)):
                total[c] += a0 * V[j0, c] + a1 * V[j1, c] + a2 * V[j2, c] + a3 * V[j3, c]
        for j in range(4 * quarters, len(columns)):
            for c in range(len(total)):
                total[c] += entries[j] * V[columns[j], c]


def spmm(indptr: Array, indices: Array, data: Array, V: Array) -> Array:
    """See :func:`.plain.spmm`."""
    dtype = np.result_type(data, V)
    # one type of row ends, so that each kernel is compiled once; an unsigned index is not checked for counting from
    # the end
    indptr, indices = np.ascontiguousarray(indptr, dtype=np.int64), np.ascontiguousarray(indices)
    indices, data = indices.view(f"u{indices.itemsize}"), np.ascontiguousarray(data)
    V = np.ascontiguousarray(V, dtype=dtype)
    n = len(indptr) - 1
    out = np.empty((n, *V.shape[1:]), dtype=dtype)
    if V.ndim == 1 or V.shape[1] == 1:
        x, zero, y = V.ravel(), dtype.type(0), out.ravel()  # views: all are contiguous
        # as few calls as keep the threads evenly busy: a product takes a millisecond, a call several microseconds
        rows = max(1, n // (8 * thread_count()), 100_000 * n // max(1, len(data)))
        in_threads(lambda a, b: multiply_vector(indptr, indices, data, x, zero, a, b, y), n, rows)
    else:
        in_threads(lambda a, b: multiply_block(indptr, indices, data, V, a, b, out), n, SPARSE_CHUNK)
    return out
