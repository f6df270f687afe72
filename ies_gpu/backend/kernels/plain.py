"""The kernels as readable array code, for NumPy and CuPy alike: the oracle that the fused ones are compared with.

A CSR matrix is passed as ``indptr, indices, data``; ``rows`` is an array of row numbers, so that a block and a sample
are the same call. The loops of the multilevel eigensolver are in :mod:`.plain_multilevel`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..array import Array, csr, folded_rows, namespace, parts, row_counts, stacked_eigh
from . import kernels_in, plain_multilevel

globals().update(kernels_in(plain_multilevel))

NAME = "plain"
FLOOR = 1e-30  # of det(U_S' U_S) / prod |u_k|^2: totals and regrets stay finite where a set has lost rank


def threads(count: int) -> AbstractContextManager[None]:
    """Context in which the kernels use ``count`` threads: here the library's own."""
    return nullcontext()


def cometric_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array) -> Array:
    """Return ``1/2 sum_j w_ij (y_j - y_i)(y_j - y_i)'`` (r, m, m) of some rows of P, for Y (n, m).

    Half the weighted sum of outer products of differences, positive semi-definite; the diagonal of P does not matter.
    """
    xp = namespace(Y)
    first = indptr[rows]
    counts = indptr[rows + 1] - first
    width = int(counts.max()) if len(rows) else 0
    if width == 0:
        return xp.zeros((len(rows), Y.shape[1], Y.shape[1]), dtype=Y.dtype)
    if len(rows) > 1 and width * len(rows) > 4 * int(counts.astype("int64").sum()) + 4096:
        # a few long rows: taken by themselves, so that the others are not padded to their length
        by_length = xp.argsort(counts)
        H = xp.empty((len(rows), Y.shape[1], Y.shape[1]), dtype=Y.dtype)
        for half in (by_length[: len(rows) // 2], by_length[len(rows) // 2 :]):
            H[half] = cometric_rows(indptr, indices, weights, Y, rows[half])
        return H
    # rows of unequal length become one rectangle: slots beyond a row's end have weight zero
    place = xp.arange(width)
    valid = place < counts[:, None]
    slots = xp.where(valid, first[:, None] + place, 0)
    weight = xp.where(valid, weights[slots], 0).astype(Y.dtype)
    difference = Y[indices[slots]] - Y[rows][:, None, :]
    return 0.5 * xp.matmul((difference * weight[:, :, None]).transpose(0, 2, 1), difference)


def leading_eigenvectors(H: Array, d: int) -> tuple[Array, Array]:
    """Return the d leading eigenvectors (r, m, d) and eigenvalues (r, d), falling, of symmetric matrices (r, m, m)."""
    xp = namespace(H)
    values, vectors = stacked_eigh(H)
    U = xp.ascontiguousarray(vectors[:, :, ::-1][:, :, :d])
    return U, xp.maximum(values[:, ::-1][:, :d], 0)


def tangent_bytes(m: int, d: int, degree: float) -> float:
    """Return the temporaries of one row of ``tangent_rows``: differences, weighted ones, the matrix itself."""
    return 8.0 * (3 * m * degree + 3 * m * m)


def tangent_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int) -> tuple[Array, Array]:
    """Return leading eigenvectors U (r, m, d) and eigenvalues sigma (r, d) of the co-metric of each row."""
    xp, m, degree = namespace(Y), Y.shape[1], len(weights) / max(1, len(indptr) - 1)
    U, sigma = xp.empty((len(rows), m, d), dtype=Y.dtype), xp.empty((len(rows), d), dtype=Y.dtype)
    for part in parts(len(rows), tangent_bytes(m, d, degree)):
        U[part], sigma[part] = leading_eigenvectors(cometric_rows(indptr, indices, weights, Y, rows[part]), d)
    return U, sigma


def tangent_rows_single(
    indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int
) -> tuple[Array, Array]:
    """Return the same, with differences of Y in float64 and what follows in float32 where float64 is slow.

    With the roundings of float32, ``u = 6e-8``, the tangent space is off by an angle of a few ``u sigma_1 / (sigma_d -
    sigma_{d+1})``, and the score of a set by that over the smallest singular value of its rows of the basis.
    """
    return tangent_rows(indptr, indices, weights, Y, rows, d)


def volume_ratio(frames: Array) -> Array:
    """Return ``det(F'F) / prod_k |f_k|^2`` of frames (..., s, d), by Gram-Schmidt.

    A determinant of F'F would lose everything below 1e-16; here only the small factor itself is rounded.
    A column of zeros gives 0.
    """
    xp = namespace(frames)
    basis: list[Any] = []
    ratio = xp.ones(frames.shape[:-2], dtype=frames.dtype)
    for k in range(frames.shape[-1]):
        rest = frames[..., k]
        length = (rest * rest).sum(axis=-1)
        for unit in basis:
            rest = rest - (unit * rest).sum(axis=-1)[..., None] * unit
        left = (rest * rest).sum(axis=-1)
        ratio = ratio * (left / xp.where(length > 0, length, 1))
        basis.append(rest / xp.sqrt(xp.where(left > 0, left, 1))[..., None])
    return ratio


def log_volumes(U: Array, subsets: Array) -> Array:
    """Return ``R(S; i)`` of every point and set: (r, q), in float64, between ``log(1e-30)/2`` and 0."""
    xp = namespace(U)
    ratio = volume_ratio(U[:, subsets]).astype(xp.float64)
    return 0.5 * xp.log(xp.clip(ratio, FLOOR, 1.0))


def score_bytes(q: int, s: int, d: int) -> float:
    """Return the temporaries that scoring ``q`` sets takes for one point."""
    return 8.0 * q * (s * d + 3 * s + 4)


table_bytes = score_bytes  # of log_volumes


def score_block(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
    """Add the scores of sets (q, s) over a block of points, U (r, m, d), to ``totals`` (q,).

    Write each point's ``best`` set, the first of those with the largest score, and that score.
    """
    for part in parts(len(U), score_bytes(max(1, len(subsets)), subsets.shape[1], U.shape[2])):
        scores = log_volumes(U[part], subsets)
        totals += scores.sum(axis=0)
        best[part] = scores.argmax(axis=1)
        best_score[part] = scores.max(axis=1)


def spmm(indptr: Array, indices: Array, data: Array, V: Array) -> Array:
    """Return ``A V`` for a CSR matrix A and a block V (n, k) or a vector (n,)."""
    return csr(indptr, indices, data, V.shape[0]) @ V


def symmetric_product(indptr: Array, indices: Array, data: Array, root: Array, inverse: Array, v: Array) -> Array:
    """Return ``diag(root) A diag(inverse) v`` for a vector, all but A in float64."""
    return root * spmm(indptr, indices, data, inverse * v)


def unit_beside(vector: Array, image: Any, square: Array, unit: Array) -> None:
    """Write the squared length of ``vector - image`` (n,) to ``square`` (1,), and the unit vector along it to ``unit``.

    Without an image it is that of the vector.
    """
    xp = namespace(vector)
    left = vector if image is None else vector - image
    xp.matmul(left[None], left, out=square)
    xp.divide(left, xp.sqrt(xp.maximum(square, 1e-300)), out=unit)


def scaled_bytes(degree: float) -> float:
    """Return the temporaries of ``scaled_entries`` for one row with ``degree`` entries."""
    return 24.0 * degree


def scaled_entries(ends: Array, indices: Array, data: Array, left: Array, right: Array) -> None:
    """Scale some consecutive rows of A in place, by ``diag(left) A diag(right)``; ``ends`` is their part of indptr."""
    for rows in parts(len(left), scaled_bytes(len(data) / max(1, len(left)))):
        part, counts = slice(int(ends[rows.start]), int(ends[rows.stop])), ends[1:][rows] - ends[:-1][rows]
        data[part] *= namespace(data).repeat(left[rows], counts) * right[indices[part]]


def smallest_labels(indptr: Array, indices: Array, data: Array, labels: Array) -> Array:
    """Return the smallest label of each row and of those that a positive entry joins it to."""
    xp = namespace(data)
    rows, smallest = xp.repeat(xp.arange(len(labels)), indptr[1:] - indptr[:-1]), labels.copy()
    xp.minimum.at(smallest, rows, xp.where(data > 0, labels[indices], labels[rows]))
    return smallest


def _centred(rows: Array, columns: Array) -> tuple[Any, Any, Any, Any, float]:
    """Return points less the mean of the rows, their squared lengths, and the largest of these."""
    centre = rows.mean(axis=0)
    a, b = rows - centre, columns - centre
    aa, bb = (a * a).sum(axis=1), (b * b).sum(axis=1)
    return a, b, aa, bb, float(namespace(rows).maximum(aa.max(), bb.max())) if len(bb) else 0.0


def tile_graph(rows: Array, columns: Array, radius: float) -> tuple[Array, Array, Array]:
    """Find the pairs of points (r, D) and (c, D) no further apart than ``radius``, from one matrix product.

    Return the number of pairs in each row (r,), their columns, rising within a row, and their distances.
    """
    xp = namespace(rows)
    a, b, aa, bb, scale = _centred(rows, columns)
    squared = aa[:, None] + bb - 2 * (a @ b.T)
    # The product form is off by a few roundings of the largest norm. Pairs for which that matters, at the edge of
    # the ball or very close, are computed again from their difference.
    slack = 64 * float(xp.finfo(rows.dtype).eps) * scale
    limit = radius * radius
    i, j = xp.nonzero(squared <= limit + slack)
    value = squared[i, j]
    doubt = xp.nonzero((value <= 1e-3 * scale) | (value >= limit - slack))[0]
    difference = rows[i[doubt]] - columns[j[doubt]]
    value[doubt] = (difference * difference).sum(axis=1)
    keep = xp.nonzero(value <= limit)[0]
    return row_counts(i[keep], len(rows)), j[keep], xp.sqrt(value[keep])


def tile_graph_single(rows: Array, columns: Array, radius: float) -> tuple[Array, Array, Array]:
    """Find the pairs of :func:`tile_graph` by a product in float32, and measure all of them again.

    For GPUs that multiply in float64 at a sixty-fourth of the speed. The product, on centred points, is off by a few
    roundings of the largest norm; what it finds within that of the radius is measured by differences in float64.
    """
    xp = namespace(rows)
    a, b, aa, bb, scale = _centred(rows, columns)
    limit = radius * radius
    slack = (64 + 4 * rows.shape[1]) * float(xp.finfo(xp.float32).eps) * scale
    if not slack < limit:  # points so far apart that float32 cannot tell
        return tile_graph(rows, columns, radius)
    a, b, aa, bb = (part.astype(xp.float32) for part in (a, b, aa, bb))
    i, j = xp.nonzero(aa[:, None] + bb - 2 * (a @ b.T) <= xp.float32(limit * (1 + 1e-6) + slack))
    value = xp.empty(len(i), dtype=rows.dtype)
    for part in parts(len(i), 16 * rows.shape[1]):
        difference = rows[i[part]] - columns[j[part]]
        value[part] = (difference * difference).sum(axis=1)
    keep = xp.nonzero(value <= limit)[0]
    return row_counts(i[keep], len(rows)), j[keep], xp.sqrt(value[keep])


def near_pairs(
    Z: Array, starts: Array, low: Array, high: Array, limit: float, reach: float, diagonal: bool, unit: float,
    storage: str,
) -> tuple[Array, Array, Array] | None:  # fmt: skip
    """Return all pairs of ordered points no further apart than ``reach``, as CSR; None where there is no kernel for it.

    Cells begin at ``starts``; ``low`` and ``high`` are their bounding boxes, and a gap whose square is above ``limit``
    rules out all pairs of two cells. Distances are those of the points times ``unit``, stored as ``storage``.
    """
    return None


def kd_order(Z: Array, levels: int) -> Array:
    """Return the order (n,) of points (n, k) in space: cut at the median of the widest side, ``levels`` times.

    After level l, position ``(n * i) >> l`` is where the i-th of the ``2**l`` cells begins.
    """
    xp = namespace(Z)
    n = len(Z)
    order = xp.arange(n)
    for level in range(levels):
        starts = (n * xp.arange((1 << level) + 1)) >> level
        cell = xp.searchsorted(starts, xp.arange(n), side="right") - 1
        ordered = Z[order]
        # cells as a rectangle, in which the shorter ones name their last point again; rows lie side by side for the
        # reductions, see column_sums
        longest, k = (n >> level) + 1, Z.shape[1]
        fold = min(longest, folded_rows(k) >> level or 1)
        members = xp.minimum(starts[:-1, None] + xp.arange(-(-longest // fold) * fold), starts[1:, None] - 1)
        corners = ordered[members].reshape(1 << level, -1, fold * k)
        high, low = (side.reshape(-1, fold, k) for side in (corners.max(axis=1), corners.min(axis=1)))
        widths = high.max(axis=1) - low.min(axis=1)
        side = ordered[xp.arange(n), widths.argmax(axis=1)[cell]]
        # by cell, and within a cell by side; CuPy's lexsort would merge where its argsort of a vector is a radix sort
        by_side = xp.argsort(side, kind="stable")
        order = order[by_side[xp.argsort(cell[by_side], kind="stable")]]
    return order
