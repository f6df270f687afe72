"""The loops of the multilevel eigensolver as readable array code, for NumPy and CuPy alike.

Names: A is a CSR passed as ``indptr, indices, data``; cells are runs of consecutive rows that begin at ``starts`` and
end at its last entry; ``weights`` are the entries of P0, whose c-th column lives on cell c. X is a tall float64 array
of orthonormal columns and R its residuals; P and T are directions, SP and ST their images, all tall and float32.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..array import Array, column_sums, csr, namespace, parts


def _csr(indptr: Array, indices: Array, data: Array, columns: int) -> Array:
    return csr(indptr.astype(indices.dtype), indices, data, columns)  # or SciPy would convert them at every product


def symmetric_entries(indptr: Array, indices: Array, data: Array, root: Array) -> Array:
    """Return the entries of ``diag(root) A diag(1 / root)`` in float32."""
    xp = namespace(data)
    out = xp.empty(len(data), dtype=xp.float32)
    counts = indptr[1:] - indptr[:-1]
    for rows in parts(len(counts), 8 * len(data) / max(1, len(counts))):  # the root may have more entries
        part = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
        out[part] = data[part] * xp.repeat(root[rows], counts[rows]) / root[indices[part]]
    return out


def merge_columns(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Return ``A P0`` as CSR with sorted indices."""
    xp = namespace(data)
    n, cells = len(weights), len(starts) - 1
    labels = xp.repeat(xp.arange(cells), starts[1:] - starts[:-1]).astype(xp.int32)
    prolongation = _csr(xp.arange(n + 1, dtype=xp.int32), labels, weights.astype(xp.float64), cells)
    return _parts(_csr(indptr, indices, data.astype(xp.float64), n) @ prolongation, xp)


def merge_rows(
    indptr: Array, indices: Array, data: Array, starts: Array, weights: Array, columns: int
) -> tuple[Array, Array, Array]:
    """Return ``P0' A`` as CSR with sorted indices, for A with ``columns`` columns."""
    xp = namespace(data)
    restriction = _csr(starts, xp.arange(len(weights), dtype=xp.int32), weights.astype(xp.float64), len(weights))
    return _parts(restriction @ _csr(indptr, indices, data.astype(xp.float64), columns), xp)


def _parts(matrix: Array, xp: Any) -> tuple[Array, Array, Array]:
    matrix.sort_indices()
    return matrix.indptr.astype(xp.int64), matrix.indices.astype(xp.int32), matrix.data.astype(xp.float32)


def heavy_matching(indptr: Array, indices: Array, data: Array, scale: Array, visits: Array) -> Array:
    """Return each row's mate (n,), itself where there is none: on the host, in the order of ``visits``.

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
    """Return the matrix with rows and columns of each pair added up, on the host: CSR in float32, and labels (n,).

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
    """Return the sums (k,) over the rows of ``A * B``, or of A, in float64."""
    return column_sums(A if B is None else A * B)


def _side_by_side(*parts: Array) -> Array:
    return namespace(parts[0]).concatenate(parts, axis=1, dtype="float64")


def inner(A: Array, B: Array) -> Array:
    """Return ``A' B`` in float64."""
    blocks = parts(len(A), 8 * (A.shape[1] + B.shape[1]))
    return reduce(add, (A[rows].astype("float64").T @ B[rows].astype("float64") for rows in blocks))


def gram(X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return ``X'R, X'Y, R'Y, Y'Y, Y'SY`` in float64, with ``Y = [P, T]``."""
    blocks = parts(len(X), 24 * (P.shape[1] + T.shape[1]))
    return added_up([gram_of_rows(rows, X, R, P, SP, T, ST) for rows in blocks])


def gram_of_rows(
    rows: slice, X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Return what some rows add to :func:`gram`."""
    Y, SY = _side_by_side(P[rows], T[rows]), _side_by_side(SP[rows], ST[rows])
    left, right = X[rows].T, R[rows].astype("float64")
    return left @ right, left @ Y, right.T @ Y, Y.T @ Y, Y.T @ SY


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

    X has float64 and the other tall arrays float32. Of X and R as many columns are read as ``from_X`` has rows.
    """
    given = X, R, P, SP, T, ST, from_X, from_R, from_Y, values, active
    blocks = parts(len(X), 48 * (P.shape[1] + T.shape[1]))
    return reduce(
        add, (column_sums(residual * residual) for residual in (update_rows(rows, *given) for rows in blocks))
    )


def update_rows(
    rows: slice, X: Array, R: Array, P: Array, SP: Array, T: Array, ST: Array, from_X: Array, from_R: Array,
    from_Y: Array, values: Array, active: Array,
) -> Array:  # fmt: skip
    """Take the step of :func:`update` for some rows; return their residuals.

    Only X is computed in float64: what goes into float32 arrays is no better than SP and ST are.
    """
    q, k, a = len(from_X), len(values), len(active)
    X_once, from_rest, from_R, from_Y_once, values = (
        part.astype("float32") for part in (X[rows, :q], from_X[:, k:], from_R, from_Y, values)
    )
    V = _side_by_side(P[rows], T[rows]) @ from_Y
    SV = namespace(SP).concatenate([SP[rows], ST[rows]], axis=1) @ from_Y_once
    old, rest, image = X[rows, :q] @ from_X[:, :k], X_once @ from_rest, R[rows, :q] @ from_R
    T[rows, :a] = V[:, active] + rest[:, k : k + a]
    image[:, k:] += SV[:, active]
    ST[rows, :a] = image[:, k:] + rest[:, k + a :]
    X[rows] = old + V
    SV -= V.astype("float32") * values
    SV += rest[:, :k]
    SV += image[:, :k]
    R[rows] = SV
    return SV
