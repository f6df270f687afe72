"""Sparse matrix times vector or block."""

from __future__ import annotations

import numpy as np

from ...array import Array
from .tasks import SPARSE_CHUNK, compiled, in_threads


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


@compiled(entry=True)
def multiply_vector(indptr, indices, data, V, zero, begin, end, out):
    """Rows ``begin`` to ``end`` of ``out = A V`` for one column."""
    for i in range(begin, end):
        first, last = indptr[i], indptr[i + 1]
        out[i] = row_times_vector(indices[first:last], data[first:last], V, zero)


@compiled(entry=True)
def multiply_block(indptr, indices, data, V, begin, end, out):
    """The same for several columns."""
    for i in range(begin, end):
        first, last = indptr[i], indptr[i + 1]
        row_times_block(indices[first:last], data[first:last], V, out[i])


def spmm(indptr: Array, indices: Array, data: Array, V: Array) -> Array:
    """See :func:`.plain.spmm`."""
    dtype = np.result_type(data, V)
    indptr, indices, data = (np.ascontiguousarray(array) for array in (indptr, indices, data))
    indices = indices.view(f"u{indices.itemsize}")  # an unsigned index is not checked for counting from the end
    V = np.ascontiguousarray(V, dtype=dtype)
    out = np.empty((len(indptr) - 1, *V.shape[1:]), dtype=dtype)
    if V.ndim == 1 or V.shape[1] == 1:
        x, zero, y = V.ravel(), dtype.type(0), out.ravel()  # views: all are contiguous
        in_threads(lambda a, b: multiply_vector(indptr, indices, data, x, zero, a, b, y), len(out), SPARSE_CHUNK)
    else:
        in_threads(lambda a, b: multiply_block(indptr, indices, data, V, a, b, out), len(out), SPARSE_CHUNK)
    return out
