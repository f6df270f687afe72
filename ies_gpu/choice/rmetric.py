"""The push-forward metric of a map: co-metric, tangent bases, metric (algorithm RMetric of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..backend import Backend, Block, backend_of
from ..embedding.laplacian import Laplacian, TiledTransition, check_laplacian
from ..validation import check_integer, check_real_array

MAX_BATCH = 65_536  # matrices in one call of eigh: cuSOLVER counts the workspace of all of them in 32 bits


class RiemannianMetric(NamedTuple):
    """What RMetric returns: G, H (n, m, m) of rank d, tangent bases U (n, m, d), singular values sigma (n, d)."""

    G: Any
    H: Any
    U: Any
    sigma: Any


def cometric(coordinates: Any, laplacian: Any) -> Any:
    """The co-metric at every point, ``H(i) = 1/2 (4/eps^2) sum_j P_ij (y_j - y_i)(y_j - y_i)'``.

    Parameters
    ----------
    coordinates : array (n, m)
        Y.
    laplacian : Laplacian or sparse ``I - P``
        Only off-diagonal entries matter. The factor ``4/eps^2`` is there when the bandwidth is known.

    Returns
    -------
    array (n, m, m), positive semi-definite
    """
    Y, laplacian, backend = _check(coordinates, laplacian)
    H = backend.xp.empty((len(Y), Y.shape[1], Y.shape[1]), dtype=Y.dtype)
    with backend.active():
        for block in cometric_blocks(laplacian.transition, Y.shape[1], backend):
            with block as part:
                rows, own = block_cometric(Y, laplacian.transition, part, backend)
                H[rows] = laplacian.scale * own
    return H


def tangent_bases(coordinates: Any, laplacian: Any, *, intrinsic_dim: int) -> Any:
    """The d leading eigenvectors U (n, m, d) of the co-metric at every point, in blocks: H is never stored."""
    Y, laplacian, backend = _check(coordinates, laplacian)
    d = check_integer("intrinsic_dim", intrinsic_dim, low=1, high=Y.shape[1], why=" (the number of coordinates)")
    return tangents(Y, laplacian, d, backend)[0]


def riemannian_metric(coordinates: Any, laplacian: Any, *, intrinsic_dim: int) -> RiemannianMetric:
    """Metric, co-metric, tangent bases and singular values at every point (Algorithm 1).

    ``H = U diag(sigma) U'`` and its pseudo-inverse ``G = U diag(1/sigma) U'``, both of rank d.
    """
    Y, laplacian, backend = _check(coordinates, laplacian)
    xp = backend.xp
    d = check_integer("intrinsic_dim", intrinsic_dim, low=1, high=Y.shape[1], why=" (the number of coordinates)")
    U, sigma = tangents(Y, laplacian, d, backend)
    transposed = U.transpose(0, 2, 1)
    inverse = xp.where(sigma > 0, 1 / xp.where(sigma > 0, sigma, 1), 0)
    G = xp.matmul(U * inverse[:, None, :], transposed)
    return RiemannianMetric(G, xp.matmul(U * sigma[:, None, :], transposed), U, sigma)


def tangents(
    Y: Any, laplacian: Laplacian, d: int, backend: Backend, progress: Callable[[int, int], None] | None = None
) -> tuple[Any, Any]:
    """Tangent bases U (n, m, d) and singular values (n, d), the latter with the factor ``4/eps^2``."""
    xp = backend.xp
    n, m = Y.shape
    U, sigma = xp.empty((n, m, d), dtype=Y.dtype), xp.empty((n, d), dtype=Y.dtype)
    P = laplacian.transition
    with backend.active():
        for block in cometric_blocks(P, m, backend):
            with block as rows:
                if isinstance(P, TiledTransition):
                    rows, H = block_cometric(Y, P, rows, backend)
                    U[rows], sigma[rows] = backend.kernels.leading_eigenvectors(H, d)
                else:
                    numbers = xp.arange(rows.start, rows.stop)
                    U[rows], sigma[rows] = backend.kernels.tangent_rows(P.indptr, P.indices, P.data, Y, numbers, d)
                if progress is not None:
                    progress(rows.stop, n)
    sigma *= laplacian.scale
    return U, sigma


def bytes_a_row(P: Any, m: int) -> float:
    """Temporaries of one row of the co-metric on plain code: differences, weighted differences, the matrix itself."""
    return 8.0 * (3 * m * (P.nnz / max(1, P.shape[0])) + 3 * m * m)


def cometric_blocks(P: Any, m: int, backend: Backend) -> Iterator[Block]:
    """Blocks of rows, or of a tiled kernel single blocks of its own."""
    if isinstance(P, TiledTransition):
        return backend.blocks(P.kernel.n_blocks, 0, "tangents", rows_a_block=1)
    return backend.blocks(P.shape[0], max(bytes_a_row(P, m), backend.block_bytes() / MAX_BATCH), "tangents")


def block_cometric(Y: Any, P: Any, part: slice, backend: Backend) -> tuple[slice, Any]:
    """The rows of one of :func:`cometric_blocks`, and their co-metric without ``4/eps^2``."""
    xp = backend.xp
    if isinstance(P, TiledTransition):
        return P.kernel.rows(part.start), tiled_cometric(Y, P, part.start, xp)
    numbers = xp.arange(part.start, part.stop)
    return part, backend.kernels.cometric_rows(P.indptr, P.indices, P.data, Y, numbers)


def tiled_cometric(Y: Any, P: TiledTransition, block: int, xp: Any) -> Any:
    """The co-metric of one block of rows of a dense graph, by matrix products.

    Half of ``E[y y'] - E[y] y_i' - y_i E[y]' + y_i y_i'`` with expectations under row i of P. In float64, and with
    neighbourhoods as wide as those of a dense graph, the cancellation costs a few digits of sixteen.
    """
    rows = P.kernel.rows(block)
    centre = Y[rows].mean(axis=0)
    own = Y[rows] - centre
    m = Y.shape[1]
    upper = xp.triu_indices(m)
    sums = xp.zeros((len(own), len(upper[0]) + m), dtype=Y.dtype)
    for other, transposed in P.kernel.neighbours(block):
        tile = P.kernel.tile(other, block).T if transposed else P.kernel.tile(block, other)
        columns = P.kernel.rows(other)
        y = Y[columns] - centre
        features = xp.concatenate([y[:, upper[0]] * y[:, upper[1]], y], axis=1)
        sums += tile @ (features * P.right[columns][:, None])
    sums *= P.left[rows][:, None]
    H = xp.empty((len(own), m, m), dtype=Y.dtype)
    H[:, upper[0], upper[1]] = H[:, upper[1], upper[0]] = sums[:, : len(upper[0])]
    cross = sums[:, len(upper[0]) :, None] * own[:, None, :]
    return 0.5 * (H - cross - cross.transpose(0, 2, 1) + own[:, :, None] * own[:, None, :])


def _check(coordinates: Any, laplacian: Any) -> tuple[Any, Laplacian, Backend]:
    laplacian = check_laplacian(laplacian)
    Y = check_real_array("coordinates", coordinates, 2)
    if len(Y) != laplacian.shape[0]:
        raise ValueError(f"coordinates has {len(Y)} rows but laplacian is for {laplacian.shape[0]} points")
    return Y, laplacian, backend_of(Y)
