"""Launches of the kernels over the rows of a sparse matrix, ``csr.cu``; see their twins in plain code.

None of them waits for the device, but for the number of entries of a merged matrix.
"""

from typing import Any

import numpy as np

from ...array import Array, namespace
from .. import plain
from . import text

THREADS = 128
MAX_BLOCKS = 65_535
MAX_SUM_BLOCKS = 2_048  # rows of partial sums
MAX_LENGTH_BLOCKS = 256  # the same of a single number, which every block adds up
PLAIN, ADDED, SHIFTED, BOTH_SIDES = (np.int32(k) for k in range(4))
NOTHING = np.uint64(0)  # a pointer to no array


def launched(entry: str, blocks: int, arguments: tuple[Any, ...], shared_bytes: int = 0) -> None:
    """Start ``blocks`` blocks of ``THREADS`` threads."""
    kernel = text.load_kernel("csr", entry)
    kernel((max(1, min(blocks, MAX_BLOCKS)),), (THREADS,), arguments, shared_mem=shared_bytes)


def matrix_arguments(indptr: Array, indices: Array, data: Array) -> tuple[Any, ...]:
    """Return a matrix as it is passed; copied only if indices have 64 bits or an array lies in pieces."""
    xp = namespace(data)
    wide = indptr.dtype.itemsize == 8
    return (
        xp.ascontiguousarray(indptr, dtype=np.int64 if wide else np.int32),
        np.int32(wide),
        xp.ascontiguousarray(indices, dtype=np.int32),
        xp.ascontiguousarray(data),
    )


def group_width(k: int) -> int:
    """Return the threads that share a row of k columns: at most a warp, and as many for each pass over them."""
    passes = max(1, -(-k // 32))
    return max(1, -(-k // passes))


def sum_blocks(n_rows: int, k: int) -> int:
    """Return the blocks of threads of a product that leaves partial sums."""
    return max(1, min(MAX_SUM_BLOCKS, -(-n_rows // (THREADS // group_width(k)))))


def product(
    matrix: tuple[Array, Array, Array], V: Array, epilogue: Any = PLAIN, R: Any = NOTHING, factor: Any = NOTHING,
    out: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return ``A V`` with an epilogue of ``csr.cu`` in the type of V, and the partial sums of the last one."""
    indptr, _, data = matrix
    xp, n_rows, k = namespace(V), len(indptr) - 1, 1 if V.ndim == 1 else V.shape[1]
    out = xp.empty((n_rows, *V.shape[1:]), dtype=V.dtype) if out is None else out
    rows_a_block = THREADS // (32 if k == 1 else group_width(k))  # a warp takes a row of a vector
    blocks = sum_blocks(n_rows, k) if epilogue == SHIFTED else -(-n_rows // rows_a_block)
    partial = xp.empty((blocks, k), dtype=np.float64) if epilogue == SHIFTED else NOTHING
    if out.size:
        sizes = np.int64(n_rows), np.int32(k), np.int32(group_width(k)), epilogue
        arguments = (*matrix_arguments(*matrix), xp.ascontiguousarray(V), *sizes, R, factor, out, partial)
        launched(f"product_{text.suffix(data.dtype)}_{text.suffix(V.dtype)}", blocks, arguments, THREADS * 8)
    return out, partial


def totals(partial: Array, plus: float = 0.0) -> Array:
    """Return the sums of the columns of partial sums, and a number."""
    rows, k = partial.shape
    out = namespace(partial).empty(k, dtype=np.float64)
    if k:
        launched("totals", k, (partial, np.int64(rows), np.int32(k), np.float64(plus), out), THREADS * 8)
    return out


def orthonormal(vector: Array, rows: Array, note: Array, unit: Array) -> None:
    """See ``plain``: each pass is a product for the coefficients, and a launch that takes them away and measures."""
    xp, size, k = namespace(vector), np.int64(len(vector)), len(rows)
    blocks = max(1, min(MAX_LENGTH_BLOCKS, -(-len(vector) // THREADS)))
    vector, rows, partial = xp.ascontiguousarray(vector), xp.ascontiguousarray(rows), xp.empty(blocks, dtype=np.float64)
    for first in range(1, max(2, len(note)), k or 1):
        along = note[first : first + k]
        if k:
            xp.matmul(rows, vector, out=along)
        launched("beside", blocks, (vector, rows, along, np.int32(k), size, unit, partial), THREADS * 8)
        vector = unit
    launched("unit", -(-len(unit) // THREADS), (partial, np.int32(blocks), size, unit, note), THREADS * 8)


def column_products(A: Array, B: Array = None) -> Array:
    """Return the sums (k,) over the rows of ``A * B``, or of A, in float64."""
    xp, (n_rows, k) = namespace(A), A.shape
    if not n_rows or not k:
        return xp.zeros(k)
    A, B = xp.ascontiguousarray(A), NOTHING if B is None else xp.ascontiguousarray(B, dtype=A.dtype)
    partial = xp.empty((sum_blocks(n_rows, k), k), dtype=np.float64)
    arguments = (A, B, np.int64(n_rows), np.int32(k), np.int32(group_width(k)), partial)
    launched(f"column_products_{text.suffix(A.dtype)}", len(partial), arguments, THREADS * 8)
    return totals(partial)


def spmm(indptr: Array, indices: Array, data: Array, V: Array) -> Array:
    """Return ``A V`` in the type of V, whatever that of the matrix; sums of a vector in float64."""
    if data.dtype.itemsize > V.dtype.itemsize:
        V = V.astype(data.dtype)
    return product((indptr, indices, data), V)[0]


def symmetric_product(indptr: Array, indices: Array, data: Array, root: Array, inverse: Array, v: Array) -> Array:
    """Return ``diag(root) A diag(inverse) v``, in one launch."""
    return product((indptr, indices, data), v, BOTH_SIDES, inverse, root)[0]


def scaled_bytes(degree: float) -> float:
    """Nothing: one launch does all rows."""
    return 0.0


def scaled_entries(ends: Array, indices: Array, data: Array, left: Array, right: Array) -> None:
    """Scale some consecutive rows of A in place, by ``diag(left) A diag(right)``."""
    scaled_into(ends, indices, data, left, right, data)


def scaled_into(ends: Array, indices: Array, data: Array, left: Array, right: Array, out: Array) -> None:
    """Write ``diag(left) A diag(right)`` to an array that may have another type."""
    n_rows = len(ends) - 1
    entry = f"scaled_{text.suffix(data.dtype)}_{text.suffix(out.dtype)}"
    arguments = (*matrix_arguments(ends, indices, data), left, right, np.int64(n_rows), out)
    launched(entry, -(-n_rows // (THREADS // 32)), arguments)


def symmetric_entries(indptr: Array, indices: Array, data: Array, root: Array) -> Array:
    """Return the entries of ``diag(root) A diag(1 / root)`` in float32."""
    out = namespace(data).empty(len(data), dtype=np.float32)
    scaled_into(indptr, indices, data, root, 1 / root, out)
    return out


def smallest_labels(indptr: Array, indices: Array, data: Array, labels: Array) -> Array:
    """See ``plain``."""
    n_rows, out = len(labels), labels.copy()
    arguments = (*matrix_arguments(indptr, indices, data), labels, np.int64(n_rows), out)
    entry = f"smallest_label_{text.suffix(data.dtype)}"
    launched(entry, -(-n_rows // (THREADS // 32)), arguments, THREADS * 4)
    return out


def merged(
    entry: str, matrix: tuple[Any, ...], names: Array, weights: Array, n_rows: int
) -> tuple[Array, Array, Array]:
    """Count the entries of each row, then write them; a warp for each."""
    xp = namespace(weights)
    counts = xp.empty(n_rows, dtype=np.int64)
    shared = (*matrix_arguments(*matrix), names, xp.ascontiguousarray(weights, dtype=np.float32), np.int64(n_rows))
    blocks = -(-n_rows // (THREADS // 32))
    launched(entry, blocks, (*shared, NOTHING, counts, NOTHING, NOTHING), THREADS * 4)
    ends = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(counts)])
    size = int(ends[-1])
    indices, data = xp.empty(size, dtype=np.int32), xp.empty(size, dtype=np.float32)
    launched(entry, blocks, (*shared, ends, NOTHING, indices, data), THREADS * 4)
    return ends, indices, data


def merge_columns(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Return ``A P0`` as CSR with sorted indices, without a copy of A."""
    xp = namespace(data)
    labels = (xp.searchsorted(starts, xp.arange(len(weights)), side="right") - 1).astype(np.int32)
    return merged("merge_columns", (indptr, indices, data), labels, weights, len(indptr) - 1)


def merge_rows(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array, columns: int
) -> tuple[Array, Array, Array]:
    """Return ``P0' A`` as CSR with sorted indices."""
    starts = namespace(data).ascontiguousarray(starts, dtype=np.int64)
    return merged("merge_rows", (indptr, indices, data), starts, weights, len(starts) - 1)


def block_product(
    indptr: Array, indices: Array, data: Array, V: Array, R: Array = None, scale: Any = None, *, chosen: Any = None,
    root: Any = None,
) -> Array:  # fmt: skip
    """Return ``A V`` (n, k) in float32, or ``R + scale * A V`` with one factor for each column; see plain code."""
    if root is not None:  # the eigensolver has S itself in the memory of a device
        return plain.block_product(indptr, indices, data, V, R, scale, chosen=chosen, root=root)
    if R is None:
        return product((indptr, indices, data), V)[0]
    xp = namespace(V)
    if chosen is not None:
        R = R[:, chosen[0]] * chosen[1]
    if getattr(scale, "ndim", 0) == 0:
        scale = xp.full(V.shape[1], scale, dtype=np.float32)
    return product((indptr, indices, data), V, ADDED, xp.ascontiguousarray(R), scale)[0]


def restrict(starts: Array, weights: Array, R: Array) -> Array:
    """Return ``P0' R`` in float32."""
    xp, k = namespace(R), R.shape[1]
    out = xp.empty((len(starts) - 1, k), dtype=np.float32)
    arguments = (starts, weights, xp.ascontiguousarray(R), np.int64(len(out)), np.int32(k), out)
    launched("restricted", -(-out.size // THREADS), arguments)
    return out


def shifted_product(indptr: Array, indices: Array, data: Array, shift: Array, P: Array, image: Array) -> Array:
    """Write ``(shift - A) P`` into ``image``; the inner products (k,) of its columns with those of P, in float64."""
    return totals(product((indptr, indices, data), P, SHIFTED, P, shift, image)[1])


def descend(Z: Array, R: Array, P: Array, image: Array, square: Array, curvature: Array) -> Array:
    """One step of conjugate gradients, see plain code."""
    n_rows, k = P.shape
    partial = namespace(P).empty((sum_blocks(n_rows, k), k), dtype=np.float64)
    sizes = np.int64(n_rows), np.int32(k), np.int32(group_width(k))
    launched("descend", len(partial), (Z, R, P, image, square, curvature, *sizes, partial), THREADS * 8)
    return totals(partial, 1e-30)


def turn(R: Array, P: Array, left: Array, square: Array) -> None:
    """``P = R + (left / square) P``."""
    launched("turn", -(-P.size // THREADS), (R, P, left, square, np.int64(P.size), np.int32(P.shape[1])))
