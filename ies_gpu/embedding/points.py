"""From points, or from a graph, kernel or Laplacian of the user's own, to the Laplacian of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import Backend, backend_of, to_device, to_host
from ..backend.array import Array, column_ends, column_maxima, column_norms, column_sums
from ..backend.compare import audit_graph, audit_products
from ..backend.steps import Do, call, report, step
from ..findings import option, refusal, tell, warning
from ..options import answers
from ..validation import check_choice, check_flag, check_integer, check_kernel, check_length, check_real_array
from .connectivity import largest_part, refuse_small_part, sampled_degree, tell_left_out
from .cost import Room, Size, block_bytes, needs, over_limit, plan_storage
from .diffusion import Embedding
from .eigensolvers.accuracy import accuracy_of
from .eigensolvers.eigenpairs import wants_order
from .graph import check_sides, knn_graph, ordered_radius_graph, permuted, rescale_to_radius
from .laplacian import (
    Laplacian,
    apply_gaussian,
    check_alpha,
    check_laplacian,
    normalise,
    with_diagonal,
    with_transition,
)
from .local import LocalKernel, default_neighbors, local_kernel, local_laplacian
from .metrics import check_metric, points_in_metric
from .order import Rows, in_order, matrix_order, spatial_order
from .tiles import Kernel, TiledKernel
from .transition import SparseKernel

ONE_WAY = "the graph was one-way: two points are neighbours if either has the other"
FOREIGN = 0.01  # of its eigenvalue: the residual above which a given vector is not taken for an eigenvector,
SINGLE = 1e-6  # unless it may come from rounding to single precision
CHECKING = {"graph": 58.0, "kernel": 38.0}  # bytes per entry to check and copy a given matrix, as measured
Make = Callable[[Array], tuple[Kernel, dict[str, Any]]]  # of ordered points


@answers
@step("laplacian", composite=True)
def laplacian_of_points(
    X: Array,
    *,
    bandwidth: float | str,
    radius: float | None = None,
    n_neighbors: int | None = None,
    self_loops: bool = True,
    metric: str = "euclidean",
    alpha: float = 1.0,
    intrinsic_dim: int | None = None,
    dtype: str = "float64",
    disconnected: str = "keep",
    room: Room | None = None,
    do: Do = call,
) -> Laplacian:
    """Return the renormalised Laplacian of points: radius graph, Gaussian kernel and Laplacian in one call.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point. The result is on their device.
    bandwidth : float or "local"
        The length eps over which the weight of a neighbour falls. With ``"local"`` it follows the density.
    radius : float, optional
        Points no further apart than this are neighbours, by default ``3 * bandwidth``.
    n_neighbors : int, optional
        Join each point to so many nearest ones, instead of those within a radius.
    self_loops : bool, default=True
        Whether each point is its own neighbour, with ``K_ii = 1``.
    metric : str, default="euclidean"
        How distances are measured, as in :func:`select_coordinates`.
    alpha : float, default=1.0
        How strongly the sampling density is corrected for, as in :func:`graph_laplacian`.
    intrinsic_dim : int, optional
        The dimension of the manifold, which ``bandwidth="local"`` needs.
    dtype : {"float64", "float32"}, default="float64"
        The precision in which the matrix is stored.
    disconnected : {"keep", "raise", "most", "largest"}, default="keep"
        What to do if the graph falls into parts: keep them all, or as in :func:`select_coordinates`.
    room : Room, optional
        What a run will hold beside the matrix. It then stores the kernel as the memory allows, and counts neighbours of
        some points first; by default it is a sparse matrix.
    do : callable, optional
        Calls the steps, ``do(step, *arguments)``; a run takes its place.

    Returns
    -------
    Laplacian
        The Laplacian. Its matrix stands in the order of space, ``laplacian.transition`` in the order of ``X``.

    See Also
    --------
    radius_graph, gaussian_kernel, graph_laplacian : The three steps, for a graph or a kernel of your own.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> laplacian.shape
    (400, 400)
    """
    self_loops, alpha = check_flag("self_loops", self_loops), check_alpha(alpha)
    check_metric(metric)
    check_choice("dtype", dtype, ("float64", "float32"))
    check_choice("disconnected", disconnected, ("keep", "raise", "most", "largest"))
    # a run has checked its points, and placed them in the metric
    X, m = (points_in_metric(X, metric), None) if room is None else (X, room.n_components)
    eps = None if isinstance(bandwidth, str) and bandwidth == "local" else check_length("bandwidth", bandwidth)
    near = eps is None or n_neighbors is not None
    reach = 0.0 if eps is None else 3 * eps if radius is None else check_length("radius", radius)
    if n_neighbors is not None and check_integer("n_neighbors", n_neighbors, low=2) >= len(X):
        text = f"{option('n_neighbors')} must be at most {len(X) - 1} for {len(X)} points, got {n_neighbors}"
        raise refusal("n_neighbors.range", text)
    degree = 0.0 if eps is None or room is None or near else do(count_neighbours, X, reach, eps, disconnected)

    def make(X: Array) -> tuple[Kernel, dict[str, Any]]:
        if near:
            return do(nearest_kernel, X, eps, n_neighbors, dtype), {}
        return within_radius(X, reach, eps, dtype, degree, room, do)

    kernel, rows, facts = connected_kernel(X, make, disconnected, m, do)
    del X
    found = do(normalised, do(without_loops, kernel, self_loops), eps, alpha, intrinsic_dim)
    return with_transition(found, found.operator, rows=rows, facts=facts)


def connected_kernel(
    X: Array, make: Make, disconnected: str, n_components: int | None, do: Do
) -> tuple[Kernel, Rows, dict[str, Any]]:
    """Return the kernel that ``make`` gives for ordered points, of the part asked for, its rows, and what is known."""
    backend, n_input, used, count = backend_of(X), len(X), np.arange(len(X)), 0
    while True:
        order, X = do(sort_in_space, X)
        kernel, storage = make(X)
        parts, labels = (0, used) if disconnected == "keep" else do(components_of, kernel)
        count = max(count, parts)
        if parts <= 1:
            break
        rows = backend.to_host(order)
        largest = largest_part(labels, used[rows], n_input, disconnected, X)
        keep = np.sort(rows[largest])
        X = X[backend.asarray(np.argsort(rows)[keep])]
        used = used[keep]
        if n_components is not None:
            refuse_small_part(len(used), n_input, n_components)
        del kernel
    tell_left_out(used, n_input, count)
    degree = kernel.nnz / len(X) - (not isinstance(kernel, LocalKernel))
    facts = facts_of(count or None, degree, kernel.approximations, storage)
    return kernel, Rows(n_input, used, backend.to_host(order), True), facts


def facts_of(
    parts: int | None, degree: float, approximations: Sequence[str] = (), storage: Any = None
) -> dict[str, Any]:
    """Return what is known of a graph, for ``diagnostics``."""
    known = {"graph_components": parts, "mean_degree": degree}
    return known | {"approximations": list(approximations), "storage": storage or {}}


def within_radius(
    X: Array, radius: float, bandwidth: Any, dtype: str, degree: float, room: Room | None, do: Do
) -> tuple[Kernel, dict[str, Any]]:
    """Return the Gaussian kernel of ordered points, stored as the memory allows, and how: for ``diagnostics``."""
    backend = backend_of(X)
    chosen, facts = ("memory", {}) if room is None else plan_storage(X, degree, dtype, room)
    if chosen in ("tiles", "recomputed"):
        return do(tiled_kernel, X, radius, bandwidth, chosen == "tiles"), facts
    if dtype == "float32":  # whose range is short: lengths near 1, by a power of two, so no digit changes
        X, radius, unit = rescale_to_radius(radius, X)
        bandwidth = bandwidth / unit
    kernel = do(gaussian, do(pairs_within, X, radius, dtype), bandwidth)
    if backend.device == "cpu":  # what the rows of the graph were computed in
        backend.free_cache()
    return kernel, facts


@step("neighbours")
def count_neighbours(X: Array, radius: float, bandwidth: float, disconnected: str) -> float:
    """Return the mean degree of some points; an error if nearly all or nearly none are neighbours."""
    return sampled_degree(X, radius, bandwidth, disconnected, backend_of(X))


@step("order")
def sort_in_space(X: Array) -> tuple[Array, Array]:
    """Return the spatial order of points, and the points in it."""
    order = spatial_order(X)
    return order, in_order(X, order)


@step("graph", kernel="tile_graph", audit=lambda graph, X, radius, _: audit_graph(X, graph, radius, backend_of(X)))
def pairs_within(X: Array, radius: float, dtype: str) -> Array:
    """Return the distances of ordered points within a radius, the diagonal included."""
    return ordered_radius_graph(X, radius, diagonal=True, storage=dtype, progress=report)


@step("kernel")
def gaussian(graph: Array, bandwidth: float) -> SparseKernel:
    """Return the Gaussian kernel of distances, in their place."""
    return SparseKernel(apply_gaussian(graph, bandwidth))


@step("graph")
def tiled_kernel(X: Array, radius: float, bandwidth: float, keep: bool) -> TiledKernel:
    """Return the kernel of ordered points as dense tiles, kept or computed anew for each product."""
    return TiledKernel(X, bandwidth=bandwidth, radius=radius, store=keep, progress=report)


@step("graph")
def nearest_kernel(X: Array, bandwidth: float | None, n_neighbors: int | None, dtype: str) -> SparseKernel:
    """Return the kernel on the nearest neighbours of ordered points, at one bandwidth or at local ones."""
    k = default_neighbors(len(X)) if n_neighbors is None else min(n_neighbors, len(X) - 1)
    if bandwidth is None:
        kernel: SparseKernel = local_kernel(X, k)
    else:
        kernel = SparseKernel(with_diagonal(apply_gaussian(knn_graph(X, n_neighbors=k), bandwidth)))
    kernel.matrix.data = kernel.matrix.data.astype(dtype, copy=False)
    return kernel


def laplacian_of_kernel(
    matrix: Array,
    *,
    bandwidth: float | None,
    alpha: float = 1.0,
    self_loops: bool = True,
    disconnected: str = "keep",
    n_components: int | None = None,
    approximations: Sequence[str] = (),
    do: Do = call,
) -> Laplacian:
    """Return the Laplacian of a kernel on the device, on its storage; of its largest part, if that is asked for."""
    n_input, parts = matrix.shape[0], None
    rows, kernel, backend = Rows.every(n_input), SparseKernel(matrix), backend_of(matrix.data)
    if disconnected != "keep":
        parts, labels = do(components_of, kernel)
    if parts is not None and parts > 1:
        used = largest_part(labels, rows.used, n_input, disconnected)
        if n_components is not None:
            refuse_small_part(len(used), n_input, n_components)
        tell_left_out(used, n_input, parts)
        places = backend.asarray(used)
        part = backend.uniform(matrix)[places][:, places].tocsr()
        part.sort_indices()  # CuPy gives chosen columns in no order
        kernel = SparseKernel(backend.csr(part.data, part.indices, part.indptr, part.shape))
        rows = Rows(n_input, used, np.arange(len(used)))
    degree = (kernel.nnz - int((backend.uniform(kernel.matrix).diagonal() != 0).sum())) / len(rows.used)
    if n_components is not None and wants_order(kernel, n_components + 1):
        order, kernel, edges = do(sort_by_affinity, kernel)
        rows = rows._replace(order=order, edges=edges)
    found = do(normalised, do(without_loops, kernel, self_loops), bandwidth, alpha)
    return with_transition(found, found.operator, rows=rows, facts=facts_of(parts, degree, approximations))


@step("components")
def components_of(kernel: Kernel) -> tuple[int, np.ndarray]:
    """Return how many connected parts a kernel has, and each row's part."""
    return kernel.components()


@step("order")
def sort_by_affinity(kernel: SparseKernel) -> tuple[np.ndarray, SparseKernel, np.ndarray]:
    """Return an order of the rows found from the kernel alone, the kernel in it, and the edges of its groups."""
    order, edges = matrix_order(kernel.matrix)
    return order, SparseKernel(permuted(kernel.matrix, kernel.backend.asarray(order))), edges


def product_difference(kernel: Kernel, *_: Any) -> float | None:
    """Return how far products with sampled rows are from plain code; None where there are no single entries."""
    return audit_products(kernel.matrix, kernel.backend) if isinstance(kernel, SparseKernel) else None


@step("products", kernel="spmm", audit=product_difference, again=False)
def without_loops(kernel: Kernel, self_loops: bool) -> Kernel:
    """Return the kernel that will be normalised, without a diagonal if that is asked for; products are audited here.

    The Laplacian takes the place of the kernel, so that afterwards there is nothing to compare with.
    """
    if not self_loops and not isinstance(kernel, LocalKernel):
        kernel.drop_diagonal()
    return kernel


@step("laplacian")
def normalised(kernel: Kernel, bandwidth: float | None, alpha: float, intrinsic_dim: int | None = None) -> Laplacian:
    """Return the Laplacian on the kernel's storage."""
    if not isinstance(kernel, LocalKernel):
        return normalise(kernel, bandwidth, alpha)
    if intrinsic_dim is None:
        text = f"{option('intrinsic_dim')} is required with {option('bandwidth', 'local')}"
        raise refusal("intrinsic_dim.local", text)
    return local_laplacian(kernel, intrinsic_dim)


@step("graph")
def kernel_of_graph(
    graph: Array, bandwidth: float, radius: float | None, dtype: str, backend: Backend | None = None
) -> tuple[Array, list[str]]:
    """Return the Gaussian kernel of a user's graph on a device, by default its own, and what was changed in it."""
    sparse = backend_of(graph).sparse.issparse(graph)
    matrix, one_way = check_sides(graph, radius=3 * bandwidth if radius is None and not sparse else radius)
    matrix = backend_of(matrix.data).copied(matrix)
    matrix = with_diagonal(apply_gaussian(matrix, bandwidth))
    return to_device(matrix, backend or backend_of(matrix.data), dtype), [ONE_WAY] * one_way


@step("graph")
def kernel_of_user(kernel: Array, dtype: str, backend: Backend | None = None) -> Array:
    """Return a user's kernel on a device; P does not depend on its unit, in which float32 may not hold it."""
    matrix = check_kernel(kernel)
    if dtype != "float64" and matrix.nnz:
        matrix.data /= float(matrix.data.max()) or 1.0
    return to_device(matrix, backend or backend_of(matrix.data), dtype)


def check_room(matrix: Any, entry: str, size: tuple[int, int], stored_bytes: int, limit: int) -> None:
    """Raise if a limit leaves no room for a given sparse matrix: its copies, the vectors of Lanczos."""
    m, d = size
    asked = Size(matrix.shape[0], 0, float(matrix.nnz), m, d, stored_bytes)
    needed = max(CHECKING[entry] * asked.z, *needs(asked, "memory", False, block_bytes(limit)).values())
    if needed > limit:
        raise over_limit(asked, limit, needed, True)


@step("checks")
def given_map(
    laplacian: Any, coordinates: Array, eigenvalues: Array, bandwidth: float | None, backend: Backend
) -> tuple[Laplacian, Embedding]:
    """Return a user's Laplacian and map on a device, checked; given eigenvectors that are none are told of."""
    laplacian = check_laplacian(laplacian)
    if bandwidth is not None:
        if laplacian.bandwidth not in (None, bandwidth):
            text = f"{option('bandwidth', bandwidth)} differs from {laplacian.bandwidth:g} of laplacian"
            raise refusal("laplacian.bandwidth", text, "leave it out")
        laplacian = with_transition(laplacian, laplacian.stored, bandwidth=bandwidth)
    Y = to_device(check_real_array("coordinates", coordinates, 2), backend)
    values = check_values(eigenvalues, Y, laplacian.shape[0])
    facts = facts_of(None, laplacian.operator.nnz / len(Y) - 1)
    with backend.active():
        laplacian = with_transition(laplacian, laplacian.operator.on(backend), facts=facts)
        Y = laplacian.rows.to_device(Y)
        residuals = residuals_of(laplacian, Y)
    known = accuracy_of(1 - values, residuals)
    return laplacian, Embedding(Y, values, residuals, known.gaps, known.angles, rows=laplacian.rows)


def check_values(eigenvalues: Array, Y: Array, n: int) -> np.ndarray:
    """Return given eigenvalues on the host, one per coordinate, ascending; a constant eigenvector is refused."""
    if len(Y) != n:
        raise refusal("coordinates.rows", f"coordinates has {len(Y)} rows but laplacian is for {n} points")
    values = check_real_array("eigenvalues", eigenvalues, 1)
    if len(values) != Y.shape[1]:
        text = f"eigenvalues must have one entry per coordinate ({Y.shape[1]}), got {len(values)}"
        raise refusal("eigenvalues.number", text)
    if bool((values[1:] < values[:-1]).any()):
        advice = "sort them, and the columns of coordinates with them"
        raise refusal("eigenvalues.order", "eigenvalues must be ascending", advice)
    if float(values[0]) < -1e-8 * max(1.0, abs(float(values[-1]))):
        text = f"eigenvalues must be those of I - P, none of them negative, got {float(values[0]):.3g}"
        raise refusal("eigenvalues.negative", text)
    low, high = column_ends(Y)
    flat = np.flatnonzero(to_host(high - low <= 1e-8 * backend_of(Y).xp.maximum(abs(low), abs(high))))
    if len(flat):  # it says nothing, and would be a member of every set
        advice = "leave the constant eigenvector out, and its eigenvalue"
        raise refusal("coordinates.constant", f"column {flat[0]} of coordinates is constant", advice)
    return to_host(values)


def residuals_of(laplacian: Laplacian, Y: Array) -> np.ndarray:
    """Return ``|L y - lambda y| / |y|`` of given vectors (m,), lambda being the best for each; warn if it is large."""
    backend = backend_of(Y)
    Y = Y / column_maxima(abs(Y))  # squares neither overflow nor vanish
    LY = Y - laplacian.operator.product(Y, backend)
    squares = column_sums(Y * Y)
    values = column_sums(Y * LY) / squares
    residuals = backend.to_host(column_norms(LY - Y * values) / squares**0.5)
    allowed = np.maximum(FOREIGN * np.abs(backend.to_host(values)), SINGLE)
    worst = int((residuals / allowed).argmax())
    if residuals[worst] > allowed[worst]:
        text = f"phi{worst + 1} is not an eigenvector of laplacian (residual {residuals[worst]:.2g})"
        advice = "check that the rows of coordinates are in its order"
        tell(warning("eigenvectors.foreign", text, advice))
    return residuals
