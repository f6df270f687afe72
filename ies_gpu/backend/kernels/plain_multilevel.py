"""The loops of the multilevel eigensolver as readable array code, for NumPy and CuPy alike.

Names: A is a CSR passed as ``indptr, indices, data``; cells are runs of consecutive rows that begin at ``starts`` and
end at its last entry; ``weights`` are the entries of P0, whose c-th column lives on cell c. W and SW are tall float64
arrays whose first columns hold an orthonormal basis and its image; T and ST are tall float32 arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .arrays import column_sums, csr, namespace

ENTRIES = 1 << 24  # entries whose temporaries exist at a time


def _csr(indptr: Array, indices: Array, data: Array, columns: int) -> Array:
    return csr(indptr.astype(indices.dtype), indices, data, columns)  # or SciPy would convert them at every product


def symmetric_entries(indptr: Array, indices: Array, data: Array, root: Array) -> Array:
    """Entries of ``diag(root) A diag(1 / root)`` in float32."""
    xp = namespace(data)
    out = xp.empty(len(data), dtype=xp.float32)
    counts = indptr[1:] - indptr[:-1]
    step = max(1, int(ENTRIES * len(counts) / max(1, len(data))))
    for first in range(0, len(counts), step):
        rows = slice(first, first + step)
        part = slice(int(indptr[first]), int(indptr[min(first + step, len(counts))]))
        out[part] = data[part] * xp.repeat(root[rows], counts[rows]) / root[indices[part]]
    return out


def merge_columns(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """``A P0`` as CSR with sorted indices."""
    xp = namespace(data)
    n, cells = len(weights), len(starts) - 1
    labels = xp.repeat(xp.arange(cells), starts[1:] - starts[:-1]).astype(xp.int32)
    prolongation = _csr(xp.arange(n + 1, dtype=xp.int32), labels, weights.astype(xp.float64), cells)
    return _parts(_csr(indptr, indices, data.astype(xp.float64), n) @ prolongation, xp)


def merge_rows(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array, columns: int
) -> tuple[Array, Array, Array]:
    """``P0' A`` as CSR with sorted indices, for A with ``columns`` columns."""
    xp = namespace(data)
    restriction = _csr(starts, xp.arange(len(weights), dtype=xp.int32), weights.astype(xp.float64), len(weights))
    return _parts(restriction @ _csr(indptr, indices, data.astype(xp.float64), columns), xp)


def _parts(matrix: Array, xp: Any) -> tuple[Array, Array, Array]:
    matrix.sort_indices()
    return matrix.indptr.astype(xp.int64), matrix.indices.astype(xp.int32), matrix.data.astype(xp.float32)


def heavy_matching(indptr: Array, indices: Array, data: Array, scale: Array, visits: Array) -> Array:
    """Each row's mate (n,), itself where there is none: on the host, in the order of ``visits``.

    A row takes of its neighbours that are still free the one with the largest ``data * scale[neighbour]``; of equal
    ones that with the lowest number, so that the order within a row does not matter.
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


def contract_pairs(
    indptr: Array, indices: Array, data: Array, leaders: Array, mates: Array
) -> tuple[Array, Array, Array, Array]:
    """The matrix with the rows of each pair added up, and its columns, on the host: CSR in float32, and labels (n,).

    Row c stands for the pair of ``leaders[c]`` and its mate. There is no diagonal, and rows are not sorted.
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


def block_product(indptr: Array, indices: Array, data: Array, V: Array, R: Array = None, scale: Any = None) -> Array:
    """``A V`` (n, k) in float32, or ``R + scale * A V`` with one factor for each column."""
    product = _csr(indptr, indices, data, len(V)) @ V
    return product if R is None else R + product * scale


def restrict(starts: Array, weights: Array, R: Array) -> Array:
    """``P0' R`` in float32."""
    xp = namespace(R)
    return xp.add.reduceat(weights[:, None] * R, starts[:-1], axis=0).astype(xp.float32)


def shifted_product(indptr: Array, indices: Array, data: Array, shift: Array, P: Array, image: Array) -> Array:
    """Write ``(shift - A) P`` into ``image``; the inner products (k,) of its columns with those of P, in float64."""
    image[:] = shift * P - _csr(indptr, indices, data, len(P)) @ P
    return column_sums(P * image)


def step_lengths(square: Array, curvature: Array) -> Array:
    """``square / curvature`` in float32, 0 where the curvature is not positive."""
    xp = namespace(square)
    along = curvature > 0
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
    """Sums (k,) over the rows of ``A * B``, or of A, in float64."""
    return column_sums(A if B is None else A * B)


def project_out(W: Array, q: int, T: Array) -> None:
    """``T -= W (W'T)`` over the first ``q`` columns of W."""
    W = W[:, :q]
    T -= (W @ (W.T @ T.astype("float64"))).astype("float32")


def gram(W: Array, q: int, R: Array, T: Array, ST: Array) -> tuple[Array, Array, Array, Array, Array]:
    """``W'T, R'T, P'ST, T'T, T'ST`` in float64, W the first ``q`` columns, P those of them behind the columns of R."""
    R, T, ST = R.astype("float64"), T.astype("float64"), ST.astype("float64")
    W, P = W[:, :q], W[:, R.shape[1] : q]
    return W.T @ T, R.T @ T, P.T @ ST, T.T @ T, T.T @ ST


def scaled_columns(R: Array, columns: Array, factor: Array) -> Array:
    """The chosen columns, each times its factor."""
    return R[:, columns] * factor


def update(
    W: Array, SW: Array, q: int, T: Array, ST: Array, onto_W: Array, onto_T: Array, values: Array
) -> tuple[Array, Array]:
    """Put ``W onto_W + T onto_T`` into the first columns of W, the same of the images into SW; return the residuals.

    Parameters
    ----------
    W, SW : array (n, at least max(q, new)) of float64
    T, ST : array (n, t) of float32
    onto_W, onto_T : array (q, new), (t, new) of float64
    values : array (r,) of float64
        Ritz values of the first r new columns.

    Returns
    -------
    R : array (n, r) of float32
        ``SW - W values``, not scaled.
    squares : array (r,) of float64
        Squared lengths of its columns.
    """
    new, r = onto_W.shape[1], len(values)
    W[:, :new] = W[:, :q] @ onto_W + T.astype("float64") @ onto_T
    SW[:, :new] = SW[:, :q] @ onto_W + ST.astype("float64") @ onto_T
    R = SW[:, :r] - W[:, :r] * values
    return R.astype("float32"), column_sums(R * R)
