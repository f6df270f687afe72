"""The Gaussian kernel of a graph and its renormalised Laplacian (algorithm Laplacian of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..backend import at_home, backend_of
from ..validation import check_flag, check_number, check_square_sparse, check_symmetric
from .graph import check_graph, csr, index_type, radius_graph
from .transition import Kernel, SparseKernel, SparseTransition, Transition


@dataclass(frozen=True)
class Laplacian:
    """The renormalised graph Laplacian ``L = I - P``.

    Attributes
    ----------
    transition : CSR (n, n) or TiledTransition
        P, whose rows sum to 1.
    weights : array (n,) or None
        ``wt``, the row sums of ``W^-1 K W^-1``: P is symmetric with respect to them. Unknown (None) when only a matrix
        ``I - P`` was given.
    bandwidth : float or None
        eps, where it is known.
    """

    transition: Any
    weights: Any = None
    bandwidth: float | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.transition.shape

    @cached_property
    def operator(self) -> Transition:
        """P as what the algorithms ask, whether it is stored as CSR or as tiles."""
        return self.transition if isinstance(self.transition, Transition) else SparseTransition(self.transition)

    @cached_property
    def matrix(self) -> Any:
        """``L = I - P`` as CSR."""
        P = self.operator.matrix
        return (backend_of(P.data).sparse.identity(self.shape[0], format="csr") - P).tocsr()

    @property
    def scale(self) -> float:
        """``4 / eps^2``, which turns L into an estimate of the Laplace-Beltrami operator; 1 without a bandwidth."""
        return 1.0 if self.bandwidth is None else 4.0 / self.bandwidth**2

    @property
    def scaled(self) -> Any:
        """``(4 / eps^2) L``, which approximates the Laplace-Beltrami operator."""
        return self.scale * self.matrix

    def __repr__(self) -> str:
        return f"Laplacian(n={self.shape[0]}, entries={self.transition.nnz}, bandwidth={self.bandwidth})"


@at_home
def gaussian_kernel(graph: Any, *, bandwidth: float) -> Any:
    """``K_ij = exp(-distance_ij^2 / eps^2)`` on the edges of a graph, with ``K_ii = 1`` added.

    Parameters
    ----------
    graph : sparse matrix in any format, or array (n, n)
        Distances (not squared); stored zeros are distances of equal points.
    bandwidth : float
        eps.

    Returns
    -------
    CSR (n, n)
    """
    bandwidth = check_number("bandwidth", bandwidth)
    return with_unit_diagonal(gaussian_of_distances(check_graph(graph).copy(), bandwidth))


def gaussian_of_distances(graph: Any, bandwidth: float) -> Any:
    """The same on the graph's own storage, without touching its pattern."""
    backend = backend_of(graph.data)
    for block in backend.blocks(graph.nnz, 24, "kernel"):
        with block as part:
            ratio = graph.data[part].astype(backend.xp.float64) / bandwidth
            graph.data[part] = backend.xp.exp(-ratio * ratio)
    return graph


def with_unit_diagonal(matrix: Any) -> Any:
    """A CSR without a diagonal, with ones inserted there and the indices still sorted."""
    backend = backend_of(matrix.data)
    xp = backend.xp
    n = matrix.shape[0]
    rows = xp.repeat(xp.arange(n, dtype=matrix.indices.dtype), matrix.indptr[1:] - matrix.indptr[:-1])
    right = matrix.indices > rows
    # row i moves right by i places, and by one more behind its own diagonal
    place = xp.arange(matrix.nnz) + rows + right
    left_counts = xp.bincount(rows[~right], minlength=n)
    on_diagonal = matrix.indptr[:-1] + xp.arange(n) + left_counts
    kind = index_type(matrix.nnz + n)
    indices = xp.empty(matrix.nnz + n, dtype=kind)
    data = xp.empty(matrix.nnz + n, dtype=matrix.data.dtype)
    indices[place], data[place] = matrix.indices, matrix.data
    indices[on_diagonal], data[on_diagonal] = xp.arange(n, dtype=indices.dtype), 1.0
    return csr(backend, data, indices, (matrix.indptr + xp.arange(n + 1)).astype(kind))


@at_home
def laplacian_of_points(X: Any, *, bandwidth: float, radius: float | None = None, self_loops: bool = True) -> Laplacian:
    """The renormalised Laplacian of points: radius graph, Gaussian kernel and :func:`graph_laplacian` in one call.

    Parameters
    ----------
    X : array of shape (n, D)
        The points; they may live on a GPU, and the result is made there.
    bandwidth : float
        eps, the length over which neighbours count.
    radius : float, optional
        Neighbours are points no further apart than this: ``3 * bandwidth`` unless given.
    self_loops : bool
        Whether a point is its own neighbour, with ``K_ii = 1``.

    Returns
    -------
    Laplacian
        With one row per point, in the order of X.

    See Also
    --------
    radius_graph, gaussian_kernel, graph_laplacian : The three steps, for a graph or a kernel of your own.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=1000)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> laplacian.shape
    (1000, 1000)
    """
    self_loops = check_flag("self_loops", self_loops)
    bandwidth = check_number("bandwidth", bandwidth)
    graph = radius_graph(X, radius=3 * bandwidth if radius is None else radius)
    kernel = SparseKernel(with_unit_diagonal(gaussian_of_distances(graph, bandwidth)))
    if not self_loops:
        kernel.drop_diagonal()
    return laplacian_in_place(kernel, bandwidth)


@at_home
def graph_laplacian(kernel: Any, *, bandwidth: float | None = None) -> Laplacian:
    """The renormalised Laplacian of a kernel.

    ``w = K 1``, ``Lt = W^-1 K W^-1``, ``wt = Lt 1``, ``P = Wt^-1 Lt``, ``L = I - P``. Dividing by the density ``w`` on
    both sides makes the limit the Laplace-Beltrami operator whatever the sampling density.

    Parameters
    ----------
    kernel : sparse matrix in any format, or array (n, n)
        Symmetric affinities, none negative, the diagonal as given.
    bandwidth : float, optional
        eps, for the scale ``4 / eps^2``.
    """
    if bandwidth is not None:
        bandwidth = check_number("bandwidth", bandwidth)
    matrix = check_square_sparse("kernel", kernel)
    check_symmetric("kernel", matrix)
    own = matrix.copy() if matrix.data is getattr(kernel, "data", None) else matrix
    return laplacian_in_place(SparseKernel(own), bandwidth)


def laplacian_in_place(kernel: Kernel, bandwidth: float | None) -> Laplacian:
    """The Laplacian on the kernel's own storage."""
    w = kernel @ kernel.backend.xp.ones(kernel.shape[0])
    if not bool((w > 0).all()):
        raise ValueError(f"kernel has {int((w <= 0).sum())} rows without a positive entry; drop those points")
    wt = (kernel @ (1 / w)) / w
    return Laplacian(kernel.scaled(1 / (wt * w), 1 / w), wt, bandwidth)


@at_home
def check_laplacian(laplacian: Any) -> Laplacian:
    """A ``Laplacian`` as it is, or a plain sparse ``I - P`` (rows sum to 0 within 1e-8) wrapped as one."""
    if isinstance(laplacian, Laplacian):
        return laplacian
    matrix = check_square_sparse("laplacian", laplacian)
    backend = backend_of(matrix.data)
    sums = backend.xp.abs(matrix.sum(axis=1))
    if float(sums.max()) > 1e-8:
        raise ValueError(
            f"laplacian must be I - P with rows that sum to 0, but a row sums to {float(sums.max()):.3g}; "
            "pass what graph_laplacian returns"
        )
    transition = (backend.sparse.identity(matrix.shape[0], format="csr") - matrix).tocsr()
    return Laplacian(transition)
