"""Products with sparse matrices, and the loops of the multilevel eigensolver; :mod:`..plain` says what each one does.

Each chunk of rows writes its own, and sums are added up in the order of chunks: it does not matter who did what.
"""

from functools import cache
from typing import Any

import numpy as np

from ...array import Array, starts_of
from .. import plain
from .lanes import lanes_of, load, store
from .tasks import SPARSE_CHUNK, compiled, in_threads, thread_count

WIDEST = 32  # columns of one product, a multiple of eight, known when it is compiled
CHUNK = 2048  # rows of the dense passes: few enough for the caches, many enough for the calls


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
    """Rows ``begin`` to ``end`` of ``out = A V`` for several columns, four nonzeros in one pass over the result."""
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
    dtype = np.result_type(data, V)
    # one type of row ends, so that each kernel is compiled once; unsigned indices do not count from the end
    indptr, indices = np.ascontiguousarray(indptr, dtype=np.int64), np.ascontiguousarray(indices)
    indices, data = indices.view(f"u{indices.itemsize}"), np.ascontiguousarray(data)
    V = np.ascontiguousarray(V, dtype=dtype)
    n = len(indptr) - 1
    if V.ndim == 2 and V.shape[1] == 2:  # each by itself: for so few, the loop over columns takes twice as long
        return np.stack([spmm(indptr, indices, data, np.ascontiguousarray(column)) for column in V.T], axis=1)
    out = np.empty((n, *V.shape[1:]), dtype=dtype)
    if V.ndim == 1 or V.shape[1] == 1:
        x, zero, y = V.ravel(), dtype.type(0), out.ravel()  # views: all are contiguous
        # as few calls as keep the threads evenly busy: a product takes a millisecond, a call several microseconds
        rows = max(1, n // (8 * thread_count()), 100_000 * n // max(1, len(data)))
        in_threads(lambda a, b: multiply_vector(indptr, indices, data, x, zero, a, b, y), n, rows)
    else:
        in_threads(lambda a, b: multiply_block(indptr, indices, data, V, a, b, out), n, SPARSE_CHUNK)
    return out


@compiled(fused=True, entry=True)
def symmetric_rows(indptr, indices, data, root, inverse, first, last, out):
    for i in range(first, last):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = root[i] * data[p] * inverse[indices[p]]


def symmetric_entries(indptr: Array, indices: Array, data: Array, root: Array) -> Array:
    out, inverse = np.empty(len(data), dtype=np.float32), 1 / root
    in_threads(lambda a, b: symmetric_rows(indptr, indices, data, root, inverse, a, b, out), len(root), SPARSE_CHUNK)
    return out


@compiled()
def sort_part(values, first, last):
    """Shell's sort of a short part in place; ``numpy.sort`` would take seconds to compile."""
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(first + gap, last):
            value, place = values[i], i
            while place >= first + gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value


@compiled(fused=True, entry=True)
def added_rows(
    indptr, indices, data, rows, starts, left, labels, right, pairs, total, seen, first, last, counts, columns, sums
):  # fmt: skip
    """Groups of rows of ``diag(left) A diag(right)`` added up in ``total``, and in them all columns of one label.

    The group that an entry of ``total`` is of is in ``seen``. Rows are sorted; those of ``pairs`` are not, and have no
    diagonal.
    """
    place = np.int64(0)  # not 0 alone, for which sort_part would be compiled as well
    for c in range(first, last):
        before = place
        for k in range(starts[c], starts[c + 1]):
            i = rows[k]
            for p in range(indptr[i], indptr[i + 1]):
                column = indices[p]
                j = labels[column]
                if pairs and j == c:
                    continue
                if seen[j] != c:
                    seen[j], total[j] = c, 0.0
                    columns[place] = j
                    place += 1
                total[j] += data[p] * np.float64(left[i] * right[column])
        if not pairs:
            sort_part(columns, before, place)
        for p in range(before, place):
            sums[p] = total[columns[p]]
        counts[c] = place - before
    return place


def add_rows(
    matrix: Any, rows: Array, starts: Array, left: Array, labels: Array, right: Array, size: int, pairs: bool = False
) -> tuple[Array, ...]:
    """Return what :func:`added_rows` makes of the groups ``rows[starts[c] : starts[c + 1]]``, as CSR."""
    groups = len(starts) - 1
    counts, ends = np.empty(groups, dtype=np.int64), starts_of(np.diff(matrix[0])[rows])

    def chunk(first: int, last: int) -> tuple[Array, Array]:
        room = int(ends[starts[last]] - ends[starts[first]])
        found = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.float32)
        scratch = np.empty(size), np.full(size, -1)
        used = added_rows(*matrix, rows, starts, left, labels, right, pairs, *scratch, first, last, counts, *found)
        return found[0][:used].copy(), found[1][:used].copy()

    columns, sums = zip(*in_threads(chunk, groups, max(SPARSE_CHUNK, groups // 16)), strict=True)
    return starts_of(counts), np.concatenate(columns), np.concatenate(sums)


def merge_columns(indptr: Array, indices: Array, data: Array, starts: Array, weights: Array) -> tuple[Array, ...]:
    cells, each = len(starts) - 1, np.arange(len(indptr))
    labels, ones = np.repeat(np.arange(cells, dtype=np.int32), np.diff(starts)), np.ones(len(each), dtype=np.float32)
    return add_rows((indptr, indices, data), each[:-1], each, ones, labels, weights, cells)


def merge_rows(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array, columns: int
) -> tuple[Array, ...]:
    each, ones = np.arange(max(columns, len(weights))), np.ones(columns, dtype=np.float32)
    return add_rows((indptr, indices, data), each[: len(weights)], starts, weights, each, ones, columns)


@compiled(entry=True)
def matched(indptr, indices, data, scale, visits, mates):
    """One thread: who is free depends on who came before."""
    for i in visits:
        if mates[i] >= 0:
            continue
        best, heaviest = i, np.float32(0)
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            weight = data[p] * scale[j]
            if (weight > heaviest or (weight == heaviest and j < best)) and weight > 0 and j != i and mates[j] < 0:
                best, heaviest = j, weight
        mates[i] = best
        mates[best] = i


def heavy_matching(indptr: Array, indices: Array, data: Array, scale: Array, visits: Array) -> Array:
    matched(indptr, indices, data, scale, visits, mates := np.full(len(visits), -1, dtype=np.int64))
    return mates


def contract_pairs(indptr: Array, indices: Array, data: Array, leaders: Array, mates: Array) -> tuple[Array, ...]:
    labels = np.empty(len(mates), dtype=np.int32)
    labels[leaders] = labels[mates[leaders]] = np.arange(len(leaders), dtype=np.int32)
    rows, starts = np.argsort(labels, kind="stable"), starts_of(np.bincount(labels))
    ones = np.ones(len(mates), dtype=np.float32)
    return *add_rows((indptr, indices, data), rows, starts, ones, labels, ones, len(leaders), pairs=True), labels


@compiled(fused=True)
def add_entry(indices, data, right, V, stride, width, scaled, p, s0, s1, s2, s3):
    """The sums of a row with its p-th entry; what ``width`` and ``scaled`` leave out is not compiled."""
    j = np.uint32(indices[p])
    a, x = data[p] * right[j] if scaled else data[p], np.intp(j) * stride
    s0 += a * load(V, x)
    if width > 8:
        s1 += a * load(V, x + 8)
    if width > 16:
        s2 += a * load(V, x + 16)
    if width > 24:
        s3 += a * load(V, x + 24)
    return s0, s1, s2, s3


@cache
def _product(width: int, scaled: bool) -> Any:
    """A product of fixed width, whose sums stay in registers; even and odd entries have their own, so that none waits.

    The scaled one is with ``diag(left) A diag(right)``. V and out are flat, with rows of length ``stride``.
    """

    @compiled(fused=True, entry=True)
    def product(indptr, indices, data, left, right, V, out, stride):
        for i in range(len(indptr) - 1):
            s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = lanes_of(np.float32(0))
            p, end = indptr[i], indptr[i + 1]
            while p < end:
                s0, s1, s2, s3 = add_entry(indices, data, right, V, stride, width, scaled, p, s0, s1, s2, s3)
                p += 1
                if p < end:
                    t0, t1, t2, t3 = add_entry(indices, data, right, V, stride, width, scaled, p, t0, t1, t2, t3)
                    p += 1
            y = i * stride
            store(out, y, s0 + t0)
            if width > 8:
                store(out, y + 8, s1 + t1)
            if width > 16:
                store(out, y + 16, s2 + t2)
            if width > 24:
                store(out, y + 24, s3 + t3)
            if scaled:
                for c in range(y, y + width):
                    out[c] *= left[i]

    return product


def in_eights(V: Array) -> Array:
    """Return V with columns of zeros up to a multiple of eight: mostly V itself."""
    zeros = np.zeros((len(V), -V.shape[1] % 8), V.dtype)
    return np.concatenate([V, zeros], axis=1) if zeros.size else np.ascontiguousarray(V)


def _chunk_product(matrix: tuple[Any, Any, Any], root: Any, V: Array, first: int, last: int, out: Array) -> None:
    """Rows ``first`` to ``last`` of the product with what :func:`in_eights` gives."""
    (indptr, indices, data), stride = matrix, V.shape[1]
    left, right = (data[:0], data[:0]) if root is None else (root[0][first:last], root[1])
    whole = out if out.shape[1] == stride else np.empty((last - first, stride), dtype=np.float32)
    for begin in range(0, stride, WIDEST):
        product = _product(min(WIDEST, stride - begin), root is not None)
        flat = V.ravel()[begin:], whole.ravel()[begin:]
        product(indptr[first : last + 1], indices, data, left, right, *flat, stride)
    if whole is not out:
        out[:] = whole[:, : out.shape[1]]


def block_product(
    indptr: Array, indices: Array, data: Array, V: Array, R: Array = None, scale: Any = None, *, chosen: Any = None,
    root: Any = None,
) -> Array:  # fmt: skip
    wide, out = in_eights(V), np.empty((len(indptr) - 1, V.shape[1]), dtype=np.float32)

    def chunk(first: int, last: int) -> None:
        rows = out[first:last]
        _chunk_product((indptr, indices, data), root, wide, first, last, rows)
        if R is not None:
            rows *= scale
            rows += R[first:last] if chosen is None else R[first:last, chosen[0]] * chosen[1]

    in_threads(chunk, len(out), SPARSE_CHUNK)
    return out


@compiled(fused=True, entry=True)
def restricted(starts, weights, R, first, last, out):
    k = R.shape[1]
    for c in range(first, last):
        for a in range(k):
            out[c, a] = 0
        for i in range(starts[c], starts[c + 1]):
            for a in range(k):
                out[c, a] += weights[i] * R[i, a]


def restrict(starts: Array, weights: Array, R: Array) -> Array:
    out = np.empty((len(starts) - 1, R.shape[1]), dtype=np.float32)
    in_threads(lambda a, b: restricted(starts, weights, R, a, b, out), len(out), SPARSE_CHUNK)
    return out


@compiled(fused=True, entry=True)
def shifted_rows(shift, P, image, first, last, total):
    k = P.shape[1]
    for i in range(first, last):
        for c in range(k):
            image[i, c] = shift[c] * P[i, c] - image[i, c]
            total[c] += np.float64(P[i, c] * image[i, c])


@compiled(fused=True, entry=True)
def descended(Z, R, P, image, step, first, last, total):
    k = P.shape[1]
    for i in range(first, last):
        for c in range(k):
            Z[i, c] += step[c] * P[i, c]
            r = R[i, c] - step[c] * image[i, c]
            R[i, c] = r
            total[c] += np.float64(r * r)


@compiled(fused=True, entry=True)
def turned(R, P, factor, first, last):
    k = P.shape[1]
    for i in range(first, last):
        for c in range(k):
            P[i, c] = R[i, c] + factor[c] * P[i, c]


def shifted_product(indptr: Array, indices: Array, data: Array, shift: Array, P: Array, image: Array) -> Array:
    wide = in_eights(P)

    def chunk(first: int, last: int) -> Array:
        _chunk_product((indptr, indices, data), None, wide, first, last, image[first:last])
        shifted_rows(shift, P, image, first, last, total := np.zeros(P.shape[1]))
        return total

    return np.sum(in_threads(chunk, len(P), SPARSE_CHUNK), axis=0)


def descend(Z: Array, R: Array, P: Array, image: Array, square: Array, curvature: Array) -> Array:
    step = plain.step_lengths(square, curvature)

    def chunk(first: int, last: int) -> Array:
        descended(Z, R, P, image, step, first, last, total := np.zeros(P.shape[1]))
        return total

    return np.sum(in_threads(chunk, len(P), 4 * CHUNK), axis=0) + 1e-30


def turn(R: Array, P: Array, left: Array, square: Array) -> None:
    factor = (left / square).astype(np.float32)
    in_threads(lambda a, b: turned(R, P, factor, a, b), len(P), 4 * CHUNK)


def inner(A: Array, B: Array) -> Array:
    return sum(in_threads(lambda a, b: plain.inner(A[a:b], B[a:b]), len(A), CHUNK))


def gram(X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array) -> tuple[Array, ...]:
    tall = X, R, P, SP, T, ST
    return plain.added_up(in_threads(lambda a, b: plain.gram(*(part[a:b] for part in tall)), len(X), CHUNK))


def update(
    X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array, from_X: Array, from_R: Array, from_Y: Array,
    values: Array, active: Array,
) -> Array:  # fmt: skip
    small = from_X, from_R, from_Y, values, active
    work = lambda a, b: plain.update(X[a:b], R[a:b], P[a:b], SP[a:b], T[a:b], ST[a:b], *small)  # noqa: E731
    return np.sum(in_threads(work, len(X), CHUNK), axis=0)
