"""The way in: points, a graph, a kernel or an embedding, checked and brought to one Laplacian in spatial order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, backend_of
from ..embedding.graph import TILE_COLUMNS, check_graph, in_units_of, ordered_radius_graph
from ..embedding.laplacian import (
    Laplacian,
    check_laplacian,
    drop_diagonal,
    gaussian_of_distances,
    laplacian_in_place,
    with_unit_diagonal,
)
from ..embedding.order import in_order, spatial_order
from ..embedding.tiles import TiledKernel
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

SAMPLE = 400  # rows whose degree is counted before any long work


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
        matrix = uploaded(matrix, run.storage, backend)
    return from_kernel(matrix, request, run)


def from_points(X: Any, request: Request, run: Run) -> Prepared:
    """Order the points, build the kernel as CSR or as tiles, and check that it is connected."""
    backend = run.backend
    with run.log.stage("checks"):
        X = backend.retried("checks", partial(moved, check_points(X), backend))
        check_sizes(len(X), 1, 1, request.n_components)
        degree = backend.retried("checks", partial(sampled_degree, X, request, backend))
    n_input, points, count = len(X), np.arange(len(X)), 0
    while True:
        with run.log.stage("order"):
            order, X = backend.retried("order", partial(in_space, X))
        kernel = kernel_of(X, request, degree, run)
        parts, labels = backend.retried("components", partial(count_components, kernel, backend))
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
    tiled, mean_degree = isinstance(kernel, TiledKernel), kernel.nnz / len(X) - 1
    if not request.self_loops:
        backend.retried("kernel", partial(drop_diagonal, kernel))
    laplacian = laplacian_stage(kernel, request.bandwidth, run)
    notes = ("kernel entries in float32, as tiles",) if tiled else ()
    return Prepared(laplacian, n_input, points, backend.to_host(order), not tiled, count, mean_degree, notes)


def largest_part(labels: np.ndarray, n_input: int, run: Run) -> np.ndarray:
    """The rows of the largest part, with a warning."""
    sizes = np.bincount(labels)
    rows = np.flatnonzero(labels == sizes.argmax())
    run.log.warn(f"the graph has {len(sizes)} parts; going on with the largest, {len(rows):,} of {n_input:,} points")
    return rows


def laplacian_stage(kernel: Any, bandwidth: float | None, run: Run) -> Laplacian:
    """The Laplacian on the kernel's storage; products are compared with plain code before they are used."""
    backend = run.backend
    with run.log.stage("laplacian"):
        if not isinstance(kernel, TiledKernel):
            audited(run, "laplacian", "spmm", lambda: None, lambda _: audit_products(kernel, backend), "float64")
        return backend.retried("laplacian", partial(laplacian_in_place, kernel, bandwidth))


def in_space(X: Any) -> tuple[Any, Any]:
    """The spatial order of points, and the points in it."""
    order = spatial_order(X)
    return order, in_order(X, order)


def kernel_of(X: Any, request: Request, degree: float, run: Run) -> Any:
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
        return gaussian_of_distances(graph, bandwidth)


def from_kernel(matrix: Any, request: Request, run: Run) -> Prepared:
    """A kernel in the user's order of points."""
    backend, n_input = run.backend, matrix.shape[0]
    points = np.arange(n_input)
    parts, labels = backend.retried("components", partial(count_components, matrix, backend))
    if parts > 1:
        if request.components == "raise":
            raise DisconnectedGraphError(disconnected(np.bincount(labels), None))
        points = largest_part(labels, n_input, run)
        chosen = backend.asarray(points)
        matrix = matrix[chosen][:, chosen].tocsr()
    degree = (matrix.nnz - int((matrix.diagonal() != 0).sum())) / len(points)
    if not request.self_loops:
        backend.retried("kernel", partial(drop_diagonal, matrix))
    laplacian = laplacian_stage(matrix, request.bandwidth, run)
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
    Y = moved(check_real_array("coordinates", given["coordinates"], 2), run.backend)
    n = laplacian.shape[0]
    if len(Y) != n:
        raise ValueError(f"coordinates has {len(Y)} rows but laplacian is for {n} points")
    values = check_real_array("eigenvalues", given["eigenvalues"], 1)
    if len(values) != Y.shape[1]:
        raise ValueError(f"eigenvalues must have one entry for each of {Y.shape[1]} coordinates, got {len(values)}")
    if bool((values[1:] < values[:-1]).any()):
        raise ValueError("eigenvalues must rise, as those of I - P do; sort them and the coordinates with them")
    degree = laplacian.transition.nnz / n - 1
    if hasattr(laplacian.transition, "indptr"):
        laplacian = replace(laplacian, transition=uploaded(laplacian.transition, None, run.backend))
    values = backend_of(values).to_host(values)
    return Prepared(laplacian, n, np.arange(n), np.arange(n), False, None, degree, (), Y, values)


def moved(array: Any, backend: Backend) -> Any:
    """An array on the backend's device: itself if it lives there, else by way of the host."""
    home = backend_of(array)
    return array if home.device == backend.device else backend.asarray(home.to_host(array))


def uploaded(matrix: Any, dtype: str | None, backend: Backend) -> Any:
    """A CSR on the device, in the storage precision asked for."""
    data, indices, indptr = (moved(part, backend) for part in (matrix.data, matrix.indices, matrix.indptr))
    data = data if dtype is None else data.astype(dtype)
    return backend.sparse.csr_matrix((data, indices, indptr), shape=matrix.shape)


def sampled_degree(X: Any, request: Request, backend: Backend) -> float:
    """Mean degree from sampled rows; a bandwidth that isolates most points or connects all of them ends here."""
    n, radius = len(X), request.radius
    assert radius is not None
    rows = np.random.default_rng(0).choice(n, size=min(SAMPLE, n), replace=False)
    _, reach, unit = in_units_of(radius, X[:1])
    step = max(1, min(50, int(backend.block_bytes() / (24 * n))))
    counts: list[np.ndarray] = []
    for first in range(0, len(rows), step):
        part = X[backend.asarray(rows[first : first + step])] / unit
        # piece by piece: the points may be a mapped file that is larger than what its copies would leave free
        pieces = (X[k : k + TILE_COLUMNS] / unit for k in range(0, n, TILE_COLUMNS))
        counts.append(backend.to_host(sum(backend.kernels.tile_graph(part, piece, reach)[0] for piece in pieces)))
        if sum(count.sum() for count in counts) > 2_000_000 and first + step >= 50:
            break  # many neighbours: nobody is alone, and the mean is known well enough
    degrees = np.concatenate(counts) - 1
    alone = int((degrees == 0).sum())
    # a few stray points are left to the full graph, whose error can say how many parts there are
    if alone > 0.05 * len(degrees) and (request.components == "raise" or alone == len(degrees)):
        lonely = rows[: len(degrees)][degrees == 0][:50]
        raise DisconnectedGraphError(
            f"{alone} of {len(degrees)} sampled points have no neighbour within radius={radius:g} (3 * bandwidth "
            f"unless given); raise bandwidth: the nearest is up to {nearest_distance(X, lonely, backend):.3g} away"
        )
    if (degrees == n - 1).all():
        raise ValueError(
            f"radius={radius:g} (3 * bandwidth unless given) connects every sampled point with all {n} points, so that "
            "no shape is left to see; lower bandwidth"
        )
    return float(degrees.mean() + 1)


def nearest_distance(X: Any, rows: np.ndarray, backend: Backend) -> float:
    """The longest of the distances from given points to their nearest neighbours."""
    xp = backend.xp
    unit = float(xp.abs(X - X[:1]).max())
    longest = 0.0
    for row in rows.tolist():
        difference = (X - X[row]) / unit
        squared = (difference * difference).sum(axis=1)
        squared[row] = xp.inf
        longest = max(longest, float(squared.min()))
    return unit * longest**0.5


def count_components(kernel: Any, backend: Backend) -> tuple[int, np.ndarray]:
    """How many parts the graph has, and each row's part."""
    if not isinstance(kernel, TiledKernel):
        if not bool((kernel.data > 0).all()):  # a weight that has rounded to zero joins nothing
            kernel = kernel.copy()
            kernel.eliminate_zeros()
        parts, labels = backend.connected_components(kernel)
        # one part needs no labels, and no way to the host for them
        return int(parts), backend.to_host(labels) if parts > 1 else np.zeros(kernel.shape[0], dtype=np.int32)
    labels = np.full(kernel.shape[0], -1)
    parts = 0
    while (labels < 0).any():  # spread from one point by products; a dense graph is a few steps across
        reached = backend.xp.zeros(kernel.shape[0])
        reached[int(np.flatnonzero(labels < 0)[0])] = 1.0
        before = 0
        while int(reached.sum()) > before:
            before = int(reached.sum())
            reached = ((kernel @ reached) > 0).astype(reached.dtype)
        labels[backend.to_host(reached) > 0] = parts
        parts += 1
    return parts, labels


def connecting_radius(X: Any, labels: np.ndarray, backend: Backend) -> float:
    """A radius that joins the parts (the 50 largest), a little more than needed where parts are large.

    The longest edge of a minimum spanning tree over the parts, with distances from at most 50 points of each.
    """
    xp = backend.xp
    unit = float(xp.abs(X - X[:1]).max())  # squares of these neither overflow nor vanish
    X = X / unit
    sizes = np.bincount(labels)
    largest = np.argsort(-sizes, kind="stable")[:50]
    apart = np.full((len(largest), len(sizes)), np.inf)
    for number, part in enumerate(largest):
        rows = np.flatnonzero(labels == part)
        for row in rows[:: max(1, len(rows) // 50)]:
            difference = X - X[int(row)]
            distance = backend.to_host(xp.sqrt((difference * difference).sum(axis=1)))
            np.minimum.at(apart[number], labels, distance)
    apart = apart[:, largest]
    apart = np.minimum(apart, apart.T)
    reach, joined = apart[0].copy(), np.arange(len(largest)) == 0
    longest = 0.0
    while not joined.all():  # Prim's algorithm
        nearest = int(np.flatnonzero(~joined)[reach[~joined].argmin()])
        longest = max(longest, float(reach[nearest]))
        joined[nearest] = True
        reach = np.minimum(reach, apart[nearest])
    return 1.001 * unit * longest  # printed with four digits, it must not fall short


def disconnected(sizes: np.ndarray, radius: float | None) -> str:
    """The sentence for a graph in several parts."""
    shown = ", ".join(f"{size:,}" for size in np.sort(sizes)[::-1][:5]) + (", ..." if len(sizes) > 5 else "")
    way = f"use bandwidth={radius / 3:.4g} or more (radius {radius:.4g}), " if radius else "connect the graph, "
    if radius and len(sizes) > 50:
        way = f"bandwidth={radius / 3:.4g} (radius {radius:.4g}) would join the 50 largest, "
    return (
        f"the neighbour graph has {len(sizes)} parts ({shown} points), and each would need a map of its own; "
        f"{way}or pass components='largest'"
    )
