"""Kernels of nearest neighbours, and a bandwidth that follows the density, that of Berry and Harlim."""

from typing import Any

import numpy as np

from ..backend import at_home, backend_of, step
from ..backend.array import Array, entry_rows, on_host
from ..findings import option, refusal
from ..options import explain_keywords
from ..validation import check_integer, check_points
from .graph import from_pairs
from .laplacian import Laplacian, SparseMatrix, apply_gaussian, with_diagonal

NEIGHBORS, SHARE = (32, 128), 0.06  # of a point at least and at most, and of all points in between
REACH = 3.0  # the median distance to the last neighbour, in units of the local bandwidth
NEAREST = 4  # one in this many neighbours, the nearest ones, tell the density


def default_neighbors(n: int) -> int:
    return min(n - 1, int(np.clip(round(SHARE * n), *NEIGHBORS)))


@explain_keywords
@at_home
def knn_graph(X: Array, *, n_neighbors: int) -> Array:
    """Return the distances from each point to its nearest neighbours.

    Two points are joined if either is among the nearest neighbours of the other, so some points have more neighbours
    than ``n_neighbors``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    n_neighbors : int
        The number of neighbours per point, not counting the point itself.

    Returns
    -------
    sparse matrix of shape (n_samples, n_samples)
        Euclidean distances in CSR format, as in :func:`radius_graph`.

    Examples
    --------
    >>> import ies_gpu
    >>> ies_gpu.knn_graph([[0.0], [1.0], [3.0]], n_neighbors=1).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    """
    X = check_points(X)
    k = check_integer("n_neighbors", n_neighbors, low=1, high=len(X) - 1, why=f" for {len(X)} points")
    with (backend := backend_of(X)).active():
        return graph_of_nearest(*backend.nearest(X, k))


def graph_of_nearest(distances: Array, neighbours: Array) -> Array:
    """Return the graph of nearest neighbours from the distances and numbers (n, k) of each point's nearest others."""
    backend, (n, k) = backend_of(distances), distances.shape
    xp = backend.xp
    rows = xp.repeat(xp.arange(n, dtype=xp.int64), k)
    columns, values = neighbours.reshape(-1).astype(xp.int64), distances.reshape(-1)
    keys = xp.concatenate([rows * n + columns, columns * n + rows])
    keys, first = xp.unique(keys, return_index=True)
    return from_pairs(backend, keys // n, keys % n, xp.concatenate([values, values])[first], n)


class LocalKernel(SparseMatrix):
    """``K = exp(-|x - y|^2 / (eps^2 rho(x) rho(y)))`` on the nearest neighbours, rho >= 1, without a diagonal."""

    def __init__(self, matrix: Array, rho: Array, eps: float) -> None:
        super().__init__(matrix)
        self.rho, self.eps = rho, eps


def local_kernel(X: Array, n_neighbors: int) -> LocalKernel:
    backend = backend_of(X)
    xp = backend.xp
    with backend.active():
        distances, neighbours = backend.nearest(X, n_neighbors)
        unit = float(distances.max()) or 1.0  # squares of these neither overflow nor vanish
        nearest = distances[:, : max(1, n_neighbors // NEAREST)] / unit
        # q^(-1/d) for a density q in d dimensions: each point has about as many neighbours within eps * rho
        rho = xp.maximum(xp.sqrt((nearest * nearest).mean(axis=1)), 1e-9)
        rho = rho / rho.min()
        eps = float(np.median(on_host(distances[:, -1] / rho))) / REACH
    if eps == 0:
        text = f"most points have {n_neighbors} copies of themselves as neighbours, so no local bandwidth can be found"
        raise refusal("X.copies", text, f"drop the copies, raise {option('n_neighbors')}, or set {option('bandwidth')}")
    graph = graph_of_nearest(distances, neighbours)
    rows, ratio = entry_rows(graph), graph.data / eps
    graph.data = xp.exp(-(ratio * ratio) / (rho[rows] * rho[graph.indices]))
    return LocalKernel(graph, rho, eps)


@step("graph")
def nearest_kernel(
    X: Array, bandwidth: float | None, n_neighbors: int | None, dtype: str
) -> tuple[SparseMatrix, dict[str, Any]]:
    k = default_neighbors(len(X)) if n_neighbors is None else min(n_neighbors, len(X) - 1)
    if bandwidth is None:
        kernel: SparseMatrix = local_kernel(X, k)
    else:
        kernel = SparseMatrix(with_diagonal(apply_gaussian(knn_graph(X, n_neighbors=k), bandwidth)))
    kernel.matrix.data = kernel.matrix.data.astype(dtype, copy=False)
    return kernel, {}


@step("laplacian")
def local_laplacian(kernel: LocalKernel, d: int) -> Laplacian:
    """Return the Laplacian of a local kernel in d dimensions, on the kernel's own storage.

    ``rho = q^b`` with b = -1/d for a density q. With ``q_i = sum_j K_ij / rho_i^d`` and ``K~ = K / (q_i q_j)^a``, the
    rows of ``P`` being those of ``K~`` divided by their sums, ``4 (P - I) / (eps rho)^2`` tends to
    ``Delta f + (2 - 2a + (d + 2) b) grad f . grad log q`` (Berry and Harlim, ACHA 2016). For
    ``a = 1 + (d + 2) b / 2 = 1/2 - 1/d`` the second term vanishes: the limit is the Laplace-Beltrami operator whatever
    the density.

    ``I - (I - P) / rho^2`` is again a transition matrix, since rho is at least 1. So eigenvectors, co-metric and the
    factor ``4 / eps^2`` keep their meaning. No point is its own neighbour: among few, that would be a bias.
    """
    K, rho = kernel.matrix, kernel.rho
    rows, ones = entry_rows(K), kernel.backend.xp.ones(len(rho))
    q = (kernel @ ones) / rho**d
    if not bool((q > 0).all()):
        text = f"{int((q <= 0).sum())} points are too far from their neighbours to have a weight"
        raise refusal("graph.too_far", text, "drop them")
    power = q ** (1 / d - 0.5)
    K.data = K.data * power[rows] * power[K.indices]
    weights = (kernel @ ones) * rho * rho
    K.data = K.data / weights[rows]
    return Laplacian(with_diagonal(K, 1 - 1 / (rho * rho)), weights, kernel.eps)


def local_bandwidths(laplacian: Laplacian) -> Array:
    """Return the bandwidth at every point, from the diagonal ``1 - 1 / rho^2``."""
    matrix = laplacian.operator.matrix
    return laplacian.bandwidth / backend_of(matrix.data).xp.sqrt(1 - matrix.diagonal())
