"""The loops of the multilevel eigensolver, fused and threaded; see :mod:`.plain_multilevel` for what each one does.

Each chunk of rows writes its own rows, and sums are added up in the order of the chunks: the result does not depend on
who did what.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ...array import Array
from ..plain_multilevel import step_lengths
from .tasks import SPARSE_CHUNK, compiled, in_threads

WIDTHS = (8, 16, 24, 32)  # columns of a block product, known when it is compiled
CHUNK = 2048  # rows of the dense passes: few enough for the caches, many enough for the calls


# --- sparse ----------------------------------------------------------------------------------------------------------


@compiled(fused=True, entry=True)
def symmetric_rows(indptr, indices, data, root, inverse, first, last, out):
    for i in range(first, last):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = root[i] * data[p] * inverse[indices[p]]


def symmetric_entries(indptr: Array, indices: Array, data: Array, root: Array) -> Array:
    """See :func:`.plain_multilevel.symmetric_entries`."""
    out = np.empty(len(data), dtype=np.float32)
    inverse = 1 / root
    in_threads(lambda a, b: symmetric_rows(indptr, indices, data, root, inverse, a, b, out), len(root), SPARSE_CHUNK)
    return out


@compiled(fused=True, entry=True)
def vector_rows(indptr, indices, data, x, first, last, out):
    """Four sums hide the latency of the additions; as one sum the compiler would make slow gathers of it."""
    for i in range(first, last):
        s0 = s1 = s2 = s3 = 0.0
        p, end = indptr[i], indptr[i + 1]
        while p + 4 <= end:
            s0 += data[p] * x[np.uint32(indices[p])]
            s1 += data[p + 1] * x[np.uint32(indices[p + 1])]
            s2 += data[p + 2] * x[np.uint32(indices[p + 2])]
            s3 += data[p + 3] * x[np.uint32(indices[p + 3])]
            p += 4
        while p < end:
            s0 += data[p] * x[np.uint32(indices[p])]
            p += 1
        out[i] = (s0 + s1) + (s2 + s3)


def vector_product(indptr: Array, indices: Array, data: Array, x: Array) -> Array:
    """See :func:`.plain_multilevel.vector_product`."""
    n = len(indptr) - 1
    out = np.empty(n)
    # as few calls as keep the threads evenly busy: a product takes a millisecond, a call several microseconds
    rows = max(1, n // (8 * numba.get_num_threads()), 100_000 * n // max(1, len(data)))
    in_threads(lambda a, b: vector_rows(indptr, indices, data, x, a, b, out), n, rows)
    return out


@compiled(fused=True, entry=True)
def merged_columns(indptr, indices, data, labels, weights, first, last, counts, out_indices, out_data):
    """Columns of a cell follow each other in a sorted row, so that one pass with one sum is enough."""
    place = 0
    for i in range(first, last):
        before, cell, total = place, -1, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if labels[j] != cell:
                if cell >= 0:
                    out_indices[place], out_data[place] = cell, total
                    place += 1
                cell, total = labels[j], 0.0
            total += data[p] * np.float64(weights[j])
        if cell >= 0:
            out_indices[place], out_data[place] = cell, total
            place += 1
        counts[i] = place - before
    return place


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
def merged_rows(indptr, indices, data, starts, weights, total, seen, first, last, counts, out_indices, out_data):
    """Rows of a cell added up in the dense row ``total``; ``seen`` says which of its entries belong to this cell."""
    place = 0
    for c in range(first, last):
        before = place
        for i in range(starts[c], starts[c + 1]):
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                if seen[j] != c:
                    seen[j], total[j] = c, 0.0
                    out_indices[place] = j
                    place += 1
                total[j] += data[p] * np.float64(weights[i])
        sort_part(out_indices, before, place)
        for p in range(before, place):
            out_data[p] = total[out_indices[p]]
        counts[c] = place - before
    return place


def _joined(parts: list[tuple[Any, Any]], counts: Array) -> tuple[Array, Array, Array]:
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr, np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def merge_columns(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """See :func:`.plain_multilevel.merge_columns`."""
    n = len(weights)
    labels = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    counts = np.empty(n, dtype=np.int64)

    def chunk(first: int, last: int) -> tuple[Array, Array]:
        room = int(indptr[last] - indptr[first])
        found, values = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.float32)
        used = merged_columns(indptr, indices, data, labels, weights, first, last, counts, found, values)
        return found[:used].copy(), values[:used].copy()

    return _joined(in_threads(chunk, n, SPARSE_CHUNK), counts)


def merge_rows(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array, columns: int
) -> tuple[Array, Array, Array]:
    """See :func:`.plain_multilevel.merge_rows`."""
    cells = len(starts) - 1
    counts = np.empty(cells, dtype=np.int64)

    def chunk(first: int, last: int) -> tuple[Array, Array]:
        room = int(indptr[starts[last]] - indptr[starts[first]])
        found, values = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.float32)
        total, seen = np.empty(columns), np.full(columns, -1)
        used = merged_rows(indptr, indices, data, starts, weights, total, seen, first, last, counts, found, values)
        return found[:used].copy(), values[:used].copy()

    return _joined(in_threads(chunk, cells, SPARSE_CHUNK), counts)


@cache
def _product(width: int) -> Any:
    """A product of fixed width, four entries at a time: one load and one store of the sums for four products."""

    @compiled(fused=True, entry=True)
    def product(indptr, indices, data, V, out):
        for i in range(len(out)):
            y = out[i]
            for c in range(width):
                y[c] = 0
            p, end = indptr[i], indptr[i + 1]
            while p + 4 <= end:
                a0, a1, a2, a3 = data[p], data[p + 1], data[p + 2], data[p + 3]
                x0, x1 = V[np.uint32(indices[p])], V[np.uint32(indices[p + 1])]
                x2, x3 = V[np.uint32(indices[p + 2])], V[np.uint32(indices[p + 3])]
                for c in range(width):
                    y[c] += a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
                p += 4
            while p < end:
                a0, x0 = data[p], V[np.uint32(indices[p])]
                for c in range(width):
                    y[c] += a0 * x0[c]
                p += 1

    return product


def _column_blocks(V: Array) -> list[tuple[Any, Any, int]]:
    """V in contiguous pieces, filled up with zeros: the product of each width, the piece, how many columns count."""
    pieces = []
    for first in range(0, V.shape[1], WIDTHS[-1]):
        part = V[:, first : first + WIDTHS[-1]]
        k = part.shape[1]
        width = next(w for w in WIDTHS if w >= k)
        if width != k:
            part = np.concatenate([part, np.zeros((len(V), width - k), dtype=V.dtype)], axis=1)
        pieces.append((_product(width), np.ascontiguousarray(part), k))
    return pieces


def _chunk_product(indptr: Array, indices: Array, data: Array, pieces: list, first: int, last: int, out: Any) -> None:
    """Rows ``first`` to ``last`` of the product with all pieces."""
    done = 0
    for product, part, k in pieces:
        width = part.shape[1]
        target = out if width == out.shape[1] else np.empty((last - first, width), dtype=np.float32)
        product(indptr[first : last + 1], indices, data, part, target)
        if target is not out:
            out[:, done : done + k] = target[:, :k]
        done += k


def block_product(indptr: Array, indices: Array, data: Array, V: Array, R: Array = None, scale: Any = None) -> Array:
    """See :func:`.plain_multilevel.block_product`."""
    n = len(indptr) - 1
    pieces = _column_blocks(V)
    out = np.empty((n, V.shape[1]), dtype=np.float32)

    def chunk(first: int, last: int) -> None:
        rows = out[first:last]
        _chunk_product(indptr, indices, data, pieces, first, last, rows)
        if R is not None:
            rows *= scale
            rows += R[first:last]

    in_threads(chunk, n, SPARSE_CHUNK)
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
    """See :func:`.plain_multilevel.restrict`."""
    out = np.empty((len(starts) - 1, R.shape[1]), dtype=np.float32)
    in_threads(lambda a, b: restricted(starts, weights, R, a, b, out), len(out), SPARSE_CHUNK)
    return out


# --- conjugate gradients ---------------------------------------------------------------------------------------------


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
    """See :func:`.plain_multilevel.shifted_product`; without copies where the width of P is one of ``WIDTHS``."""
    pieces = _column_blocks(P)

    def chunk(first: int, last: int) -> Array:
        total = np.zeros(P.shape[1])
        _chunk_product(indptr, indices, data, pieces, first, last, image[first:last])
        shifted_rows(shift, P, image, first, last, total)
        return total

    return np.sum(in_threads(chunk, len(P), SPARSE_CHUNK), axis=0)


def descend(Z: Array, R: Array, P: Array, image: Array, square: Array, curvature: Array) -> Array:
    """See :func:`.plain_multilevel.descend`."""
    step = step_lengths(square, curvature)

    def chunk(first: int, last: int) -> Array:
        total = np.zeros(P.shape[1])
        descended(Z, R, P, image, step, first, last, total)
        return total

    return np.sum(in_threads(chunk, len(P), 4 * CHUNK), axis=0) + 1e-30


def turn(R: Array, P: Array, left: Array, square: Array) -> None:
    """See :func:`.plain_multilevel.turn`."""
    factor = (left / square).astype(np.float32)
    in_threads(lambda a, b: turned(R, P, factor, a, b), len(P), 4 * CHUNK)


# --- tall and skinny -------------------------------------------------------------------------------------------------


def project_out(W: Array, q: int, T: Array) -> None:
    """See :func:`.plain_multilevel.project_out`."""
    parts = in_threads(lambda a, b: W[a:b, :q].T @ T[a:b].astype(np.float64), len(T), CHUNK)
    onto = sum(parts)

    def chunk(first: int, last: int) -> None:
        T[first:last] -= W[first:last, :q] @ onto

    in_threads(chunk, len(T), CHUNK)


def gram(W: Array, q: int, R: Array, T: Array, ST: Array) -> tuple[Array, Array, Array, Array, Array]:
    """See :func:`.plain_multilevel.gram`."""
    t, k = T.shape[1], R.shape[1]

    def chunk(first: int, last: int) -> tuple[Array, Array, Array, Array]:
        both = np.empty((last - first, 2 * t))
        both[:, :t], both[:, t:] = T[first:last], ST[first:last]
        left = both[:, :t]
        rows = W[first:last]
        images = rows[:, k:q].T @ both[:, t:]
        return rows[:, :q].T @ left, R[first:last].astype(np.float64).T @ left, images, left.T @ both

    parts = in_threads(chunk, len(T), CHUNK)
    onto_W, onto_R, images, own = (sum(part[i] for part in parts) for i in range(4))
    return onto_W, onto_R, images, own[:, :t], own[:, t:]


def scaled_columns(R: Array, columns: Array, factor: Array) -> Array:
    """See :func:`.plain_multilevel.scaled_columns`."""
    out = np.empty((len(R), len(columns)), dtype=R.dtype)

    def chunk(first: int, last: int) -> None:
        np.multiply(R[first:last, columns], factor, out=out[first:last])

    in_threads(chunk, len(R), CHUNK)
    return out


def update(
    W: Array, SW: Array, q: int, T: Array, ST: Array, onto_W: Array, onto_T: Array, values: Array
) -> tuple[Array, Array]:
    """See :func:`.plain_multilevel.update`."""
    new, r = onto_W.shape[1], len(values)
    onto = np.concatenate([onto_W, onto_T])
    R = np.empty((len(T), r), dtype=np.float32)

    def chunk(first: int, last: int) -> Array:
        basis = np.empty((last - first, len(onto)))
        basis[:, :q], basis[:, q:] = W[first:last, :q], T[first:last]
        fresh = basis @ onto
        W[first:last, :new] = fresh
        basis[:, :q], basis[:, q:] = SW[first:last, :q], ST[first:last]
        image = basis @ onto
        SW[first:last, :new] = image
        residual = image[:, :r] - fresh[:, :r] * values
        R[first:last] = residual
        return (residual * residual).sum(axis=0)

    return R, np.sum(in_threads(chunk, len(T), CHUNK), axis=0)
