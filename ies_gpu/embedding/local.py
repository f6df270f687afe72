"""Kernels of nearest neighbours, and a bandwidth that follows the density, that of Berry and Harlim."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import backend_of, step
from ..backend.array import Array, entry_rows, on_host
from ..findings import option, refusal
from .graph import graph_of_nearest, knn_graph
from .laplacian import Laplacian, SparseMatrix, apply_gaussian, with_diagonal

NEIGHBORS = (32, 128)  # of a point, at least and at most, where their number is not given
SHARE = 0.06  # of all points, in between
REACH = 3.0  # the median distance to the last neighbour, in units of the local bandwidth
NEAREST = 4  # one in this many neighbours, the nearest ones, tell the density


def default_neighbors(n: int) -> int:
    return min(n - 1, max(NEIGHBORS[0], min(NEIGHBORS[1], round(SHARE * n))))


def local_scales(distances: Array) -> tuple[Array, float]:
    """Return the scale rho of each point, 1 at least, and the bandwidth eps where rho is 1.

    ``distances`` (n, k) are those to the nearest neighbours, rising. rho is the root of the mean square of the first
    quarter, and so ``q^(-1/d)`` for a density q in d dimensions: each point has about as many neighbours within its
    bandwidth ``eps * rho``.
    """
    xp = backend_of(distances).xp
    k = distances.shape[1]
    unit = float(distances.max()) or 1.0  # squares of these neither overflow nor vanish
    nearest = distances[:, : max(1, k // NEAREST)] / unit
    rho = xp.maximum(xp.sqrt((nearest * nearest).mean(axis=1)), 1e-9)
    rho = rho / rho.min()
    return rho, float(np.median(on_host(distances[:, -1] / rho))) / REACH


class LocalKernel(SparseMatrix):
    """``K = exp(-|x - y|^2 / (eps^2 rho(x) rho(y)))`` on the nearest neighbours, without a diagonal."""

    def __init__(self, matrix: Array, rho: Array, eps: float) -> None:
        super().__init__(matrix)
        self.rho, self.eps = rho, eps


def local_kernel(X: Array, n_neighbors: int) -> LocalKernel:
    backend = backend_of(X)
    xp = backend.xp
    with backend.active():
        distances, neighbours = backend.nearest(X, n_neighbors)
        rho, eps = local_scales(distances)
    if eps == 0:
        text = f"most points have {n_neighbors} copies of themselves as neighbours, so no local bandwidth can be found"
        raise refusal("X.copies", text, f"drop the copies, raise {option('n_neighbors')}, or set {option('bandwidth')}")
    graph = graph_of_nearest(distances, neighbours)
    rows = entry_rows(graph)
    ratio = graph.data / eps
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
    backend = backend_of(matrix.data)
    return laplacian.bandwidth / backend.xp.sqrt(1 - matrix.diagonal())
