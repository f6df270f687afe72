"""The way in: points, a graph, a kernel or an embedding, checked and brought to one Laplacian in spatial order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of, to_device
from ..embedding.connectivity import connecting_radius, disconnected, sampled_degree
from ..embedding.graph import check_graph, in_units_of, ordered_radius_graph
from ..embedding.laplacian import (
    Laplacian,
    check_laplacian,
    gaussian_of_distances,
    laplacian_in_place,
    with_unit_diagonal,
)
from ..embedding.order import in_order, spatial_order
from ..embedding.tiles import TiledKernel
from ..embedding.transition import Kernel, SparseKernel
from ..errors import DisconnectedGraphError
from ..validation import (
    check_flag,
    check_number,
    check_points,
    check_real_array,
    check_sizes,
    check_square_sparse,
    check_symmetric,
)
from .audit import audit_graph, audit_products, audited
from .log import Run


class Prepared(NamedTuple):
    """A Laplacian on the device, ready for the eigensolver or, with coordinates, for the co-metric."""

    laplacian: Laplacian
    n_input: int
    points: np.ndarray  # rows of the input that are used, rising
    order: np.ndarray  # position on the device -> number in ``points``
    spatial: bool
    graph_components: int | None
    mean_degree: float | None
    approximations: tuple[str, ...] = ()
    coordinates: Any = None
    eigenvalues: Any = None
    residuals: Any = ()
    solver: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed


class Request(NamedTuple):
    """The arguments that lead from an entry to a Laplacian, checked."""

    bandwidth: float | None
    radius: float | None
    components: str
    n_components: int
    self_loops: bool


def check_request(
    entry: str, bandwidth: Any, radius: Any, components: str, n_components: int, self_loops: bool = True
) -> Request:
    """Bandwidth, radius and self-loops that fit to the entry."""
    self_loops = check_flag("self_loops", self_loops)
    if not self_loops and entry in ("kernel", "laplacian"):
        raise ValueError(f"self_loops=False goes with X or graph; a {entry} has its diagonal already")
    if entry in ("X", "graph") and bandwidth is None:
        raise ValueError(f"bandwidth is needed with {entry}: the length over which neighbours count")
    if bandwidth is not None:
        bandwidth = check_number("bandwidth", bandwidth)
    if radius is not None:
        radius = check_number("radius", radius)
        if entry in ("kernel", "laplacian"):
            raise ValueError(f"radius goes with X or graph; a {entry} has its neighbours already")
    if radius is None and entry == "X":
        radius = 3 * bandwidth
    return Request(bandwidth, radius, components, n_components, self_loops)


def check_entry(given: dict[str, Any]) -> str:
    """The one of X, graph, kernel and laplacian that was given."""
    entries = [name for name in ("X", "graph", "kernel", "laplacian") if given[name] is not None]
    if len(entries) != 1:
        raise ValueError(f"give exactly one of X, graph, kernel, laplacian; got {', '.join(entries) or 'none'}")
    if entries[0] != "laplacian" and (given["coordinates"] is not None or given["eigenvalues"] is not None):
        raise ValueError(f"coordinates and eigenvalues go with laplacian, not with {entries[0]}")
    return entries[0]


def prepare(given: dict[str, Any], entry: str, request: Request, run: Run) -> Prepared:
    """Go in by the entry that was given."""
    if entry == "X":
        return from_points(given["X"], request, run)
    if entry == "laplacian":
        return from_embedding(given, request.bandwidth, run)
    bandwidth, backend = request.bandwidth, run.backend
    with run.log.stage("graph"):
        if entry == "graph":
            assert bandwidth is not None
            sparse = backend_of(given["graph"]).sparse.issparse(given["graph"])
            reach = 3 * bandwidth if request.radius is None and not sparse else request.radius
            matrix = check_graph(given["graph"], radius=reach)
            matrix = with_unit_diagonal(gaussian_of_distances(matrix.copy(), bandwidth))
        else:
            matrix = check_square_sparse("kernel", given["kernel"])
            check_symmetric("kernel", matrix)
            matrix = matrix.copy()
        matrix = to_device(matrix, backend, run.storage)
    return from_kernel(matrix, request, run)


def from_points(X: Any, request: Request, run: Run) -> Prepared:
    """Order the points, build the kernel as CSR or as tiles, and check that it is connected."""
    backend = run.backend
    with run.log.stage("checks"):
        X = backend.retried("checks", partial(to_device, check_points(X), backend))
        check_sizes(len(X), 1, 1, request.n_components)
        assert request.radius is not None
        degree = backend.retried("checks", partial(sampled_degree, X, request.radius, request.components, backend))
    n_input, points, count = len(X), np.arange(len(X)), 0
    while True:
        with run.log.stage("order"):
            order, X = backend.retried("order", partial(in_space, X))
        kernel = kernel_of(X, request, degree, run)
        parts, labels = backend.retried("components", kernel.components)
        count = max(count, parts)
        if parts == 1:
            break
        if request.components == "raise":
            raise DisconnectedGraphError(disconnected(np.bincount(labels), connecting_radius(X, labels, backend)))
        rows = backend.to_host(order)
        keep = np.sort(rows[largest_part(labels, n_input, run)])
        X = X[backend.asarray(np.argsort(rows)[keep])]
        points = points[keep]
        del kernel
    mean_degree = kernel.nnz / len(X) - 1
    if not request.self_loops:
        backend.retried("kernel", kernel.drop_diagonal)
    laplacian = laplacian_stage(kernel, request.bandwidth, run)
    notes = kernel.approximations
    return Prepared(laplacian, n_input, points, backend.to_host(order), True, count, mean_degree, notes)


def largest_part(labels: np.ndarray, n_input: int, run: Run) -> np.ndarray:
    """The rows of the largest part, with a warning."""
    sizes = np.bincount(labels)
    rows = np.flatnonzero(labels == sizes.argmax())
    run.log.warn(f"the graph has {len(sizes)} parts; going on with the largest, {len(rows):,} of {n_input:,} points")
    return rows


def laplacian_stage(kernel: Kernel, bandwidth: float | None, run: Run) -> Laplacian:
    """The Laplacian on the kernel's storage; products are compared with plain code before they are used."""
    backend = run.backend
    with run.log.stage("laplacian"):
        if kernel.has_matrix:
            audited(run, "laplacian", "spmm", lambda: None, lambda _: audit_products(kernel.matrix, backend), "float64")
        return backend.retried("laplacian", partial(laplacian_in_place, kernel, bandwidth))


def in_space(X: Any) -> tuple[Any, Any]:
    """The spatial order of points, and the points in it."""
    order = spatial_order(X)
    return order, in_order(X, order)


def kernel_of(X: Any, request: Request, degree: float, run: Run) -> Kernel:
    """The Gaussian kernel of ordered points: CSR where that fits into half the memory budget, tiles otherwise."""
    bandwidth, radius, backend, n = request.bandwidth, request.radius, run.backend, len(X)
    assert bandwidth is not None
    assert radius is not None
    budget = backend.memory_budget()
    csr_bytes = 1.1 * n * degree * (np.dtype(run.storage).itemsize + 4)
    with run.log.stage("graph") as report:
        if 2 * csr_bytes > budget:
            store = 2.0 * n * n < budget / 2
            tiled = partial(TiledKernel, X, bandwidth=bandwidth, radius=radius, store=store, progress=report)
            return backend.retried("graph", tiled)
        if run.storage == "float32":  # whose range is short: lengths near 1, by a power of two, so no digit changes
            X, radius, unit = in_units_of(radius, X)
            bandwidth = bandwidth / unit
        build = partial(ordered_radius_graph, X, radius, diagonal=True, storage=run.storage, progress=report)
        graph = audited(run, "graph", "tile_graph", build, lambda g: audit_graph(X, g, radius, backend), "float64")
    with run.log.stage("kernel"):
        return SparseKernel(gaussian_of_distances(graph, bandwidth))


def from_kernel(matrix: Any, request: Request, run: Run) -> Prepared:
    """A kernel in the user's order of points."""
    backend, n_input = run.backend, matrix.shape[0]
    points = np.arange(n_input)
    kernel = SparseKernel(matrix)
    parts, labels = backend.retried("components", kernel.components)
    if parts > 1:
        if request.components == "raise":
            raise DisconnectedGraphError(disconnected(np.bincount(labels), None))
        points = largest_part(labels, n_input, run)
        chosen = backend.asarray(points)
        kernel = SparseKernel(matrix[chosen][:, chosen].tocsr())
    degree = (kernel.nnz - int((kernel.matrix.diagonal() != 0).sum())) / len(points)
    if not request.self_loops:
        backend.retried("kernel", kernel.drop_diagonal)
    laplacian = laplacian_stage(kernel, request.bandwidth, run)
    return Prepared(laplacian, n_input, points, np.arange(len(points)), False, parts, degree)


def from_embedding(given: dict[str, Any], bandwidth: float | None, run: Run) -> Prepared:
    """A Laplacian with its eigenvectors and eigenvalues."""
    if given["coordinates"] is None or given["eigenvalues"] is None:
        raise ValueError("laplacian needs coordinates and eigenvalues beside it, as diffusion_map returns them")
    laplacian = check_laplacian(given["laplacian"])
    if bandwidth is not None:
        if laplacian.bandwidth not in (None, bandwidth):
            raise ValueError(f"bandwidth={bandwidth:g} differs from that of laplacian, {laplacian.bandwidth:g}")
        laplacian = replace(laplacian, bandwidth=bandwidth)
    Y = to_device(check_real_array("coordinates", given["coordinates"], 2), run.backend)
    n = laplacian.shape[0]
    if len(Y) != n:
        raise ValueError(f"coordinates has {len(Y)} rows but laplacian is for {n} points")
    values = check_real_array("eigenvalues", given["eigenvalues"], 1)
    if len(values) != Y.shape[1]:
        raise ValueError(f"eigenvalues must have one entry for each of {Y.shape[1]} coordinates, got {len(values)}")
    if bool((values[1:] < values[:-1]).any()):
        raise ValueError("eigenvalues must rise, as those of I - P do; sort them and the coordinates with them")
    degree = laplacian.transition.nnz / n - 1
    laplacian = replace(laplacian, transition=laplacian.operator.on(run.backend))
    values = backend_of(values).to_host(values)
    return Prepared(laplacian, n, np.arange(n), np.arange(n), False, None, degree, (), Y, values)
