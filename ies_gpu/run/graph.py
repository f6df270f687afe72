"""The way in: points, a graph, a kernel or an embedding, checked and brought to one Laplacian in spatial order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend, backend_of
from ..embedding.diffusion import Embedding
from ..embedding.graph import TILE_COLUMNS, check_graph, csr, in_units_of, ordered_radius_graph
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
from ..validation import check_points, check_real_array, check_square_sparse, check_symmetric
from .audit import audit_graph, audit_products
from .inputs import Inputs
from .log import Report
from .options import Options
from .stage import Run, Stage

SAMPLE = 400  # rows whose degree is counted before any long work


class Graph(NamedTuple):
    """A connected graph on the device, ready for the eigensolver.

    Attributes
    ----------
    n_input : int
        Rows of the input.
    points : array (n,)
        Rows of the input that are used, rising.
    order : array (n,)
        Position on the device -> number in ``points``.
    spatial : bool
        Whether that is the order in space.
    components : int or None
        How many parts the whole graph had.
    mean_degree : float or None
    approximations : tuple of str
    weights, bandwidth
        Of the Laplacian.
    laplacian : Laplacian or None
        None in a graph that was read from a checkpoint.
    embedding : Embedding or None
        Where it came with the input.
    """

    n_input: int
    points: np.ndarray
    order: np.ndarray
    spatial: bool
    components: int | None
    mean_degree: float | None
    approximations: tuple[str, ...]
    weights: Any
    bandwidth: float | None
    laplacian: Laplacian | None = None
    embedding: Embedding | None = None

    @classmethod
    def around(cls, laplacian: Laplacian, **facts: Any) -> Graph:
        """The graph of a Laplacian, all of whose points are in the user's order unless told otherwise."""
        n = laplacian.shape[0]
        usual: dict[str, Any] = {
            "n_input": n,
            "points": np.arange(n),
            "order": np.arange(n),
            "spatial": False,
            "approximations": (),
        }
        own = {"weights": laplacian.weights, "bandwidth": laplacian.bandwidth, "laplacian": laplacian}
        return cls(**usual | own | facts)


def connected(run: Run, given: Inputs) -> Graph:
    """Go in by the entry that was given."""
    ways = {"X": from_points, "graph": from_distances, "kernel": from_affinities, "laplacian": from_embedding}
    graph = ways[given.entry](run, given)
    run.options.check_sizes(len(graph.points))
    return graph


def from_points(run: Run, given: Inputs) -> Graph:
    """Order the points, build the kernel as CSR or as tiles, and check that it is connected."""
    options, backend = run.options, run.backend
    X, degree = run.stage(CHECKS, given.value)
    n_input, points, count = len(X), np.arange(len(X)), 0
    while True:
        order, X = run.stage(ORDER, X)
        kernel = kernel_of(run, X, degree)
        parts, labels = run.stage(COMPONENTS, kernel)
        count = max(count, parts)
        if parts == 1:
            break
        if options.components == "raise":
            raise DisconnectedGraphError(disconnected(np.bincount(labels), connecting_radius(X, labels, backend)))
        rows = backend.to_host(order)
        keep = np.sort(rows[largest_part(labels, n_input, run)])
        X = X[backend.asarray(np.argsort(rows)[keep])]
        points = points[keep]
        del kernel
    tiled, mean_degree = isinstance(kernel, TiledKernel), kernel.nnz / len(X) - 1
    return Graph.around(
        run.stage(NORMALISED, kernel),
        n_input=n_input,
        points=points,
        order=backend.to_host(order),
        spatial=not tiled,
        components=count,
        mean_degree=mean_degree,
        approximations=("kernel entries in float32, as tiles",) if tiled else (),
    )


def kernel_of(run: Run, X: Any, degree: float) -> Any:
    """The Gaussian kernel of ordered points: CSR where that fits into half the memory budget, tiles otherwise."""
    budget = run.backend.memory_budget()
    if 2 * csr_bytes(len(X), degree, run.options.storage) > budget:
        return run.stage(TILES, X, 2.0 * len(X) * len(X) < budget / 2)
    radius, bandwidth = run.options.radius, run.options.bandwidth
    if run.options.storage == "float32":  # whose range is short: lengths near 1, by a power of two, so no digit changes
        X, radius, unit = in_units_of(radius, X)
        bandwidth = bandwidth / unit
    return run.stage(KERNEL, run.stage(EDGES, X, radius), bandwidth)


def csr_bytes(n: int, degree: float, storage: str) -> float:
    """What a kernel as CSR takes, and a little more."""
    return 1.1 * n * degree * (np.dtype(storage).itemsize + 4)


def from_distances(run: Run, given: Inputs) -> Graph:
    """A graph of distances in the user's order of points."""
    return from_kernel(run, run.stage(GIVEN_DISTANCES, given.value))


def from_affinities(run: Run, given: Inputs) -> Graph:
    """A kernel in the user's order of points."""
    return from_kernel(run, run.stage(GIVEN_KERNEL, given.value))


def from_kernel(run: Run, matrix: Any) -> Graph:
    """A kernel on the device in the user's order of points."""
    n_input = matrix.shape[0]
    points = np.arange(n_input)
    parts, labels = run.stage(COMPONENTS, matrix)
    if parts > 1:
        if run.options.components == "raise":
            raise DisconnectedGraphError(disconnected(np.bincount(labels), None))
        points = largest_part(labels, n_input, run)
        chosen = run.backend.asarray(points)
        matrix = matrix[chosen][:, chosen].tocsr()
    degree = (matrix.nnz - int((matrix.diagonal() != 0).sum())) / len(points)
    laplacian = run.stage(NORMALISED, matrix)
    return Graph.around(laplacian, n_input=n_input, points=points, components=parts, mean_degree=degree)


def from_embedding(run: Run, given: Inputs) -> Graph:
    """A Laplacian with its eigenvectors and eigenvalues."""
    laplacian, bandwidth = check_laplacian(given.value), run.options.bandwidth
    if bandwidth is not None:
        if laplacian.bandwidth not in (None, bandwidth):
            raise ValueError(f"bandwidth={bandwidth:g} differs from that of laplacian, {laplacian.bandwidth:g}")
        laplacian = replace(laplacian, bandwidth=bandwidth)
    Y = moved(check_real_array("coordinates", given.values["coordinates"], 2), run.backend)
    n = laplacian.shape[0]
    if len(Y) != n:
        raise ValueError(f"coordinates has {len(Y)} rows but laplacian is for {n} points")
    values = check_real_array("eigenvalues", given.values["eigenvalues"], 1)
    if len(values) != Y.shape[1]:
        raise ValueError(f"eigenvalues must have one entry for each of {Y.shape[1]} coordinates, got {len(values)}")
    if bool((values[1:] < values[:-1]).any()):
        raise ValueError("eigenvalues must rise, as those of I - P do; sort them and the coordinates with them")
    degree = laplacian.transition.nnz / n - 1
    if hasattr(laplacian.transition, "indptr"):
        laplacian = replace(laplacian, transition=uploaded(laplacian.transition, None, run.backend))
    embedding = Embedding(Y, backend_of(values).to_host(values), ())
    return Graph.around(laplacian, components=None, mean_degree=degree, embedding=embedding)


def normalised(run: Run, report: Report, kernel: Any) -> Laplacian:
    """The Laplacian on the kernel's storage; products are compared with plain code before they are used."""
    if not run.options.self_loops:
        drop_diagonal(kernel)
    if not isinstance(kernel, TiledKernel):
        run.stage(PRODUCTS, kernel)
    return laplacian_in_place(kernel, run.options.bandwidth)


def largest_part(labels: np.ndarray, n_input: int, run: Run) -> np.ndarray:
    """The rows of the largest part, with a warning."""
    sizes = np.bincount(labels)
    rows = np.flatnonzero(labels == sizes.argmax())
    run.log.warn(f"the graph has {len(sizes)} parts; going on with the largest, {len(rows):,} of {n_input:,} points")
    return rows


def checked(run: Run, report: Report, X: Any) -> tuple[Any, float]:
    """Points on the device, and their mean degree from a sample."""
    X = moved(check_points(X), run.backend)
    run.options.check_sizes(len(X))
    return X, sampled_degree(X, run.options, run.backend)


def ordered(run: Run, report: Report, X: Any) -> tuple[Any, Any]:
    """The spatial order of points, and the points in it."""
    order = spatial_order(X)
    return order, in_order(X, order)


def tiled(run: Run, report: Report, X: Any, store: bool) -> TiledKernel:
    """The kernel of ordered points as tiles, kept or computed anew for each product."""
    options = run.options
    return TiledKernel(X, bandwidth=options.bandwidth, radius=options.radius, store=store, progress=report)


def edges(run: Run, report: Report, X: Any, radius: float) -> Any:
    """Distances within the radius, the diagonal included."""
    return ordered_radius_graph(X, radius, diagonal=True, storage=run.options.storage, progress=report)


def given_distances(run: Run, report: Report, graph: Any) -> Any:
    """The kernel of a user's graph."""
    options = run.options
    sparse = backend_of(graph).sparse.issparse(graph)
    matrix = check_graph(
        graph, radius=3 * options.bandwidth if options.radius is None and not sparse else options.radius
    )
    matrix = with_unit_diagonal(gaussian_of_distances(matrix.copy(), options.bandwidth))
    return uploaded(matrix, options.storage, run.backend)


def given_kernel(run: Run, report: Report, kernel: Any) -> Any:
    """A user's kernel."""
    matrix = check_square_sparse("kernel", kernel)
    check_symmetric("kernel", matrix)
    return uploaded(matrix.copy(), run.options.storage, run.backend)


CHECKS = Stage("checks", checked)
ORDER = Stage("order", ordered)
TILES = Stage("graph", tiled)
EDGES = Stage(
    "graph", edges, kernel="tile_graph",
    difference=lambda run, graph, X, radius: audit_graph(X, graph, radius, run.backend),
)  # fmt: skip
KERNEL = Stage("kernel", lambda run, report, graph, bandwidth: gaussian_of_distances(graph, bandwidth))
GIVEN_DISTANCES = Stage("graph", given_distances)
GIVEN_KERNEL = Stage("graph", given_kernel)
COMPONENTS = Stage("components", lambda run, report, kernel: count_components(kernel, run.backend))
PRODUCTS = Stage(
    "laplacian", lambda run, report, kernel: None, kernel="spmm",
    difference=lambda run, _, kernel: audit_products(kernel, run.backend),
)  # fmt: skip
NORMALISED = Stage("laplacian", normalised)


def packed_graph(run: Run, graph: Graph) -> dict[str, Any] | None:
    """Everything but the matrix; an embedding that was given needs no saving."""
    if graph.embedding is not None:
        return None
    return {name: value for name, value in graph._asdict().items() if name not in ("laplacian", "embedding")}


def unpacked_graph(run: Run, content: dict[str, Any], given: Inputs) -> Graph:
    return Graph(**content | {"weights": run.backend.asarray(content["weights"])})


def laplacian_again(run: Run, given: Inputs, graph: Graph) -> Laplacian:
    """The Laplacian that came with its graph, or once more from the input."""
    found = graph.laplacian or connected(run, given).laplacian
    assert found is not None
    return found


def packed_laplacian(run: Run, laplacian: Laplacian) -> dict[str, Any] | None:
    """The matrix; tiles are computed again: they would fill the disk, and take less time than the rest."""
    P = laplacian.transition
    if run.given.entry == "laplacian" or not hasattr(P, "indptr"):
        return None
    return {"data": P.data, "indices": P.indices, "indptr": P.indptr}


def unpacked_laplacian(run: Run, content: dict[str, Any], given: Inputs, graph: Graph) -> Laplacian:
    parts = (run.backend.asarray(content[part]) for part in ("data", "indices", "indptr"))
    return Laplacian(csr(run.backend, *parts), graph.weights, graph.bandwidth)


GRAPH = Stage("graph", connected, composite=True, pack=packed_graph, unpack=unpacked_graph, after="automatic")
LAPLACIAN = Stage(
    "laplacian", laplacian_again, composite=True, pack=packed_laplacian, unpack=unpacked_laplacian, after="graph"
)


def moved(array: Any, backend: Backend) -> Any:
    """An array on the backend's device: itself if it lives there, else by way of the host."""
    home = backend_of(array)
    return array if home.device == backend.device else backend.asarray(home.to_host(array))


def uploaded(matrix: Any, dtype: str | None, backend: Backend) -> Any:
    """A CSR on the device, in the storage precision asked for."""
    data, indices, indptr = (moved(part, backend) for part in (matrix.data, matrix.indices, matrix.indptr))
    data = data if dtype is None else data.astype(dtype)
    return backend.sparse.csr_matrix((data, indices, indptr), shape=matrix.shape)


def sampled_degree(X: Any, options: Options, backend: Backend) -> float:
    """Mean degree from sampled rows; a bandwidth that isolates most points or connects all of them ends here."""
    n, radius = len(X), options.radius
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
    if alone > 0.05 * len(degrees) and (options.components == "raise" or alone == len(degrees)):
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
