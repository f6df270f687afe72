"""The kernels as readable array code, for NumPy and CuPy alike: the oracle that the fused ones are compared with.

A CSR matrix is passed as ``indptr, indices, data``; ``rows`` are row numbers: a block and a sample are the same call.
In the multilevel eigensolver cells are runs of consecutive rows that begin at ``starts`` and end at its last entry;
``weights`` are the entries of P0, whose c-th column lives on cell c. X is a tall float64 array of orthonormal columns,
R its residuals; P and T are directions, SP and ST their images, all tall and float32.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..array import Array, column_sums, csr, folded_rows, namespace, parts, row_counts, stacked_eigh

NAME = "plain"
FLOOR = 1e-30  # of det(U_S' U_S) / prod |u_k|^2: totals and regrets stay finite where a set has lost rank


def threads(count: int) -> AbstractContextManager[None]:
    """Context in which the kernels use ``count`` threads: here the library's own."""
    return nullcontext()


def cometric_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array) -> Array:
    """Return ``1/2 sum_j w_ij (y_j - y_i)(y_j - y_i)'`` (r, m, m) of some rows of P, for Y (n, m)."""
    xp, first = namespace(Y), indptr[rows]
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
    valid = xp.arange(width) < counts[:, None]
    slots = xp.where(valid, first[:, None] + xp.arange(width), 0)
    weight = xp.where(valid, weights[slots], 0).astype(Y.dtype)
    difference = Y[indices[slots]] - Y[rows][:, None, :]
    return 0.5 * xp.matmul((difference * weight[:, :, None]).transpose(0, 2, 1), difference)


def leading_eigenvectors(H: Array, d: int) -> tuple[Array, Array]:
    """Return the d leading eigenvectors (r, m, d) and eigenvalues (r, d), falling, of symmetric matrices (r, m, m)."""
    values, vectors = stacked_eigh(H)
    U = namespace(H).ascontiguousarray(vectors[:, :, ::-1][:, :, :d])
    return U, namespace(H).maximum(values[:, ::-1][:, :d], 0)


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
    """Return :func:`tangent_rows`, with differences of Y in float64 and what follows in float32 where float64 is slow.

    The tangent space is off by an angle of a few ``6e-8 sigma_1 / (sigma_d - sigma_{d+1})``, and the score of a set by
    that over the smallest singular value of its rows of the basis.
    """
    return tangent_rows(indptr, indices, weights, Y, rows, d)


def log_volumes(U: Array, subsets: Array) -> Array:
    """Return ``R(S; i)`` of every point and set: (r, q), in float64, between ``log(1e-30)/2`` and 0.

    It is half the logarithm of ``det(F'F) / prod_k |f_k|^2`` for the rows F of U, by Gram-Schmidt. A determinant of F'F
    would lose everything below 1e-16; here only the small factor is rounded. Zeros give 0.
    """
    xp, frames, basis = namespace(U), U[:, subsets], list[Any]()
    ratio = xp.ones(frames.shape[:-2], dtype=frames.dtype)
    for k in range(frames.shape[-1]):
        rest = frames[..., k]
        length = (rest * rest).sum(axis=-1)
        for unit in basis:
            rest = rest - (unit * rest).sum(axis=-1)[..., None] * unit
        left = (rest * rest).sum(axis=-1)
        ratio = ratio * (left / xp.where(length > 0, length, 1))
        basis.append(rest / xp.sqrt(xp.where(left > 0, left, 1))[..., None])
    return 0.5 * xp.log(xp.clip(ratio.astype(xp.float64), FLOOR, 1.0))


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


def orthonormal(vector: Array, rows: Array, note: Array, unit: Array) -> None:
    """Write the unit vector along what is left of ``vector`` (n,) beside ``rows`` (k, n) to ``unit``, in passes.

    ``note`` takes the squared length of what was left, and then the coefficients (k,) of each pass it has room for.
    """
    xp, k = namespace(vector), len(rows)
    for first in range(1, len(note), k or 1):
        along = xp.matmul(rows, vector, out=note[first : first + k])
        vector = vector - along @ rows
    xp.matmul(vector[None], vector, out=note[:1])
    xp.divide(vector, xp.sqrt(xp.maximum(note[:1], 1e-300)), out=unit)


def scaled_bytes(degree: float) -> float:
    """Return the temporaries of ``scaled_entries`` for one row with ``degree`` entries."""
    return 24.0 * degree


def scaled_entries(ends: Array, indices: Array, data: Array, left: Array, right: Array) -> None:
    """Scale some consecutive rows of A in place, by ``diag(left) A diag(right)``; ``ends`` is their part of indptr."""
    for rows in parts(len(left), scaled_bytes(len(data) / max(1, len(left)))):
        part, counts = slice(int(ends[rows.start]), int(ends[rows.stop])), ends[1:][rows] - ends[:-1][rows]
        data[part] *= namespace(data).repeat(left[rows], counts) * right[indices[part]]


def smallest_labels(indptr: Array, indices: Array, data: Array, labels: Array) -> Array:
    """Return the smallest label of each row and of those that a positive entry joins it to.

    A row hands it on to the row whose number its label is; no label is above the number of its row.
    """
    xp = namespace(data)
    rows, smallest = xp.repeat(xp.arange(len(labels)), indptr[1:] - indptr[:-1]), labels.copy()
    xp.minimum.at(smallest, rows, xp.where(data > 0, labels[indices], labels[rows]))
    xp.minimum.at(smallest, labels, smallest.copy())
    return smallest


def centred(rows: Array, columns: Array) -> tuple[Any, Any, Any, Any, float]:
    """Return points less the mean of the rows, their squared lengths, and the largest of these."""
    centre = rows.mean(axis=0)
    a, b = rows - centre, columns - centre
    aa, bb = (a * a).sum(axis=1), (b * b).sum(axis=1)
    return a, b, aa, bb, float(namespace(rows).maximum(aa.max(), bb.max())) if len(bb) else 0.0


def tile_graph(rows: Array, columns: Array, radius: float) -> tuple[Array, ...]:
    """Find the pairs of points (r, D) and (c, D) no further apart than ``radius``, from one matrix product.

    Return the number of pairs in each row (r,), their columns, rising within a row, and their distances.
    """
    return pairs_within(radius, rows, columns, *centred(rows, columns))


def pairs_within(radius: float, rows: Array, columns: Array, *given: Any) -> tuple[Array, ...]:
    """Find the pairs of :func:`tile_graph`, given what :func:`centred` returns for these points."""
    xp, (a, b, aa, bb, scale) = namespace(rows), given
    squared = aa[:, None] + bb - 2 * (a @ b.T)
    # Off by a few roundings of the largest norm. Where that matters, at the edge of the ball or for points that are
    # very close, pairs are measured again by their difference.
    slack, limit = 64 * float(xp.finfo(rows.dtype).eps) * scale, radius * radius
    i, j = xp.nonzero(squared <= limit + slack)
    value = squared[i, j]
    doubt = xp.nonzero((value <= 1e-3 * scale) | (value >= limit - slack))[0]
    difference = rows[i[doubt]] - columns[j[doubt]]
    value[doubt] = (difference * difference).sum(axis=1)
    keep = xp.nonzero(value <= limit)[0]
    return row_counts(i[keep], len(rows)), j[keep], xp.sqrt(value[keep])


def tile_graph_single(rows: Array, columns: Array, radius: float) -> tuple[Array, ...]:
    """Find the pairs of :func:`tile_graph` by a product in float32, where float64 is slow, and measure all again."""
    xp, limit = namespace(rows), radius * radius
    *given, scale = centred(rows, columns)
    slack = (64 + 4 * rows.shape[1]) * float(xp.finfo(xp.float32).eps) * scale
    if not slack < limit:  # points so far apart that float32 cannot tell
        return pairs_within(radius, rows, columns, *given, scale)
    a, b, aa, bb = (part.astype(xp.float32) for part in given)
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
) -> tuple[Array, ...] | None:  # fmt: skip
    """Return all pairs of ordered points no further apart than ``reach``, as CSR; None where there is no kernel for it.

    Cells begin at ``starts``; ``low`` and ``high`` are their bounding boxes, and a gap whose square is above ``limit``
    rules out all pairs of two cells. Distances are those of the points times ``unit``, stored as ``storage``.
    """


def kd_order(Z: Array, levels: int) -> Array:
    """Return the order (n,) of points (n, k) in space: cut at the median of the widest side, ``levels`` times.

    After level l, position ``(n * i) >> l`` is where the i-th of the ``2**l`` cells begins.
    """
    xp, n = namespace(Z), len(Z)
    order = xp.arange(n)
    for level in range(levels):
        starts = (n * xp.arange((1 << level) + 1)) >> level
        cell = xp.searchsorted(starts, xp.arange(n), side="right") - 1
        ordered = Z[order]
        # cells as a rectangle, the shorter ones with their last point again; rows side by side, see column_sums
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


def _csr(indptr: Array, indices: Array, data: Array, columns: int) -> Array:
    return csr(indptr.astype(indices.dtype), indices, data, columns)  # or SciPy would convert them at every product


def symmetric_entries(indptr: Array, indices: Array, data: Array, root: Array) -> Array:
    """Return the entries of ``diag(root) A diag(1 / root)`` in float32."""
    out, counts = namespace(data).empty(len(data), dtype="float32"), indptr[1:] - indptr[:-1]
    for rows in parts(len(counts), 8 * len(data) / max(1, len(counts))):  # the root may have more entries
        part = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
        out[part] = data[part] * namespace(data).repeat(root[rows], counts[rows]) / root[indices[part]]
    return out


def merge_columns(indptr: Array, indices: Array, data: Array, starts: Array, weights: Array) -> tuple[Array, ...]:
    """Return ``A P0`` as CSR with sorted indices."""
    xp, n, cells = namespace(data), len(weights), len(starts) - 1
    labels = xp.repeat(xp.arange(cells), starts[1:] - starts[:-1]).astype(xp.int32)
    return _merged((indptr, indices, data, n), (xp.arange(n + 1, dtype=xp.int32), labels, weights, cells))


def merge_rows(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array, columns: int
) -> tuple[Array, ...]:
    """Return ``P0' A`` as CSR with sorted indices, for A with ``columns`` columns."""
    xp, n = namespace(data), len(weights)
    return _merged((starts, xp.arange(n, dtype=xp.int32), weights, n), (indptr, indices, data, columns))


def _merged(*factors: tuple[Array, Array, Array, int]) -> tuple[Array, ...]:
    xp = namespace(factors[0][2])
    left, right = (_csr(ends, indices, data.astype(xp.float64), size) for ends, indices, data, size in factors)
    matrix = left @ right
    matrix.sort_indices()
    return matrix.indptr.astype(xp.int64), matrix.indices.astype(xp.int32), matrix.data.astype(xp.float32)


def heavy_matching(indptr: Array, indices: Array, data: Array, scale: Array, visits: Array) -> Array:
    """Return each row's mate (n,), itself where there is none: on the host, in the order of ``visits``.

    A row takes, of its neighbours that are still free, the one with the largest ``data * scale[neighbour]``, and of
    equal ones the first by number.
    """
    mates = np.full(len(visits), -1, dtype=np.int64)
    for i in visits:
        if mates[i] >= 0:
            continue
        near = indices[indptr[i] : indptr[i + 1]]
        weights = np.where((mates[near] < 0) & (near != i), data[indptr[i] : indptr[i + 1]] * scale[near], 0)
        heaviest = weights.max(initial=0)
        mate = near[weights == heaviest].min() if heaviest > 0 else i
        mates[i], mates[mate] = mate, i
    return mates


def contract_pairs(indptr: Array, indices: Array, data: Array, leaders: Array, mates: Array) -> tuple[Array, ...]:
    """Return the matrix with rows and columns of each pair added up, on the host: CSR in float32, and labels (n,).

    Row c stands for ``leaders[c]`` and its mate. There is no diagonal, and rows are not sorted.
    """
    n, cells = len(mates), len(leaders)
    labels = np.empty(n, dtype=np.int32)
    labels[leaders] = labels[mates[leaders]] = np.arange(cells, dtype=np.int32)
    join = csr(np.arange(n + 1, dtype=np.int32), labels, np.ones(n), cells)
    small = join.T @ csr(indptr, indices, data.astype(np.float64), n) @ join
    small.setdiag(0)
    small.eliminate_zeros()
    small = small.tocsr()
    return small.indptr.astype(np.int64), small.indices, small.data.astype(np.float32), labels


def block_product(
    indptr: Array, indices: Array, data: Array, V: Array, R: Array = None, scale: Any = None, *, chosen: Any = None,
    root: Any = None,
) -> Array:  # fmt: skip
    """Return ``A V`` (n, k) in float32, or ``R + scale * A V`` with one factor for each column.

    With ``chosen = (columns, factors)``, ``R[:, columns] * factors`` stands in for R; with ``root``, a vector and its
    inverse in float32, ``diag(root) A diag(1 / root)`` for A.
    """
    A = _csr(indptr, indices, data, len(V))
    product = A @ V if root is None else root[0][:, None] * (A @ (root[1][:, None] * V))
    if R is None:
        return product
    return (R if chosen is None else R[:, chosen[0]] * chosen[1]) + product * scale


def restrict(starts: Array, weights: Array, R: Array) -> Array:
    """Return ``P0' R`` in float32."""
    xp = namespace(R)
    return xp.add.reduceat(weights[:, None] * R, starts[:-1], axis=0).astype(xp.float32)


def shifted_product(indptr: Array, indices: Array, data: Array, shift: Array, P: Array, image: Array) -> Array:
    """Write ``(shift - A) P`` into ``image``; the inner products (k,) of its columns with those of P, in float64."""
    image[:] = shift * P - _csr(indptr, indices, data, len(P)) @ P
    return column_sums(P * image)


def step_lengths(square: Array, curvature: Array) -> Array:
    """Return ``square / curvature`` in float32, 0 where the curvature is not positive."""
    xp, along = namespace(square), curvature > 0
    return xp.where(along, square / xp.where(along, curvature, 1), 0).astype(xp.float32)


def descend(Z: Array, R: Array, P: Array, image: Array, square: Array, curvature: Array) -> Array:
    """``Z += step P; R -= step image``, the step of each column ``square / curvature``.

    Returns the squared lengths (k,) of the columns of R in float64, and 1e-30 more: they are divided by.
    """
    step = step_lengths(square, curvature)
    Z += step * P
    R -= step * image
    return column_sums(R * R) + 1e-30


def turn(R: Array, P: Array, left: Array, square: Array) -> None:
    """``P = R + (left / square) P``."""
    P *= (left / square).astype("float32")
    P += R


def column_products(A: Array, B: Array = None) -> Array:
    """Return the sums (k,) over the rows of ``A * B``, or of A, in float64."""
    return column_sums(A if B is None else A * B)


def _side_by_side(*parts: Array) -> Array:
    return namespace(parts[0]).concatenate(parts, axis=1, dtype="float64")


def inner(A: Array, B: Array) -> Array:
    """Return ``A' B`` in float64."""
    blocks = parts(len(A), 8 * (A.shape[1] + B.shape[1]))
    wide = (tuple(M[rows].astype("float64", copy=False) for M in (A, B)) for rows in blocks)
    return reduce(add, (left.T @ right for left, right in wide))


def gram(X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array) -> tuple[Array, ...]:
    """Return ``X'R, X'Y, R'Y, Y'Y, Y'SY`` in float64, with ``Y = [P, T]``."""
    found = []
    for rows in parts(len(X), 24 * (P.shape[1] + T.shape[1])):
        Y, SY = _side_by_side(P[rows], T[rows]), _side_by_side(SP[rows], ST[rows])
        left, right = X[rows].T, R[rows].astype("float64")
        found.append((left @ right, left @ Y, right.T @ Y, Y.T @ Y, Y.T @ SY))
    return added_up(found)


def added_up(parts: list[tuple[Array, ...]]) -> Any:
    """Return the sums of the first of each, of the second, and so on."""
    return tuple(reduce(add, some) for some in zip(*parts, strict=True))


def update(
    X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array, from_X: Array, from_R: Array, from_Y: Array,
    values: Array, active: Array,
) -> Array:  # fmt: skip
    """Take a step ``V = [P, T] from_Y`` beside the columns of X, whose image is ``S X = X values_before + R``.

    Put ``X a + V`` in the place of X, its residuals in that of R, and the part of V beside X, ``V[:, active] - X b``,
    with its image into the first columns of T and ST. Return the squared lengths (k,) of the residuals. The small
    matrices ``from_X = [a, c, -b, -values_before b]``, ``from_R = [a, -b]`` and the new Ritz ``values`` make that ::

        X   <-  X a + V
        R   <-  X c + R a + SV - V values           c = values_before a - a values: nothing large cancels
        T   <-  V[:, active] - X b
        ST  <-  SV[:, active] - X values_before b - R b

    X has float64 and the other tall arrays float32. Of X and R as many columns are read as ``from_X`` has rows. Only X
    is computed in float64: what goes into float32 arrays is no better than SP and ST are.
    """
    q, k, a, squares = len(from_X), len(values), len(active), 0.0
    from_rest, from_R, from_Y_once, values = (
        part.astype("float32") for part in (from_X[:, k:], from_R, from_Y, values)
    )
    for rows in parts(len(X), 48 * (P.shape[1] + T.shape[1])):
        V = _side_by_side(P[rows], T[rows]) @ from_Y
        SV = namespace(SP).concatenate([SP[rows], ST[rows]], axis=1) @ from_Y_once
        old, rest = X[rows, :q] @ from_X[:, :k], X[rows, :q].astype("float32") @ from_rest
        image = R[rows, :q] @ from_R
        T[rows, :a] = V[:, active] + rest[:, k : k + a]
        image[:, k:] += SV[:, active]
        ST[rows, :a] = image[:, k:] + rest[:, k + a :]
        X[rows] = old + V
        SV -= V.astype("float32") * values
        SV += rest[:, :k]
        SV += image[:, :k]
        R[rows] = SV
        host = isinstance(SV, np.ndarray)  # of einsum CuPy would make matrix products
        squares = squares + (np.einsum("ij,ij->j", SV, SV) if host else column_sums(SV * SV))
    return squares
