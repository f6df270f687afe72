"""From points, a graph, a kernel or an embedding to one Laplacian: checked, connected and in spatial order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...backend import backend_of, to_device, to_host
from ...backend.array import Array
from ...backend.kernels.arrays import column_ends, column_maxima, column_norms, column_sums
from ...embedding.connectivity import (
    CROWDED,
    connecting_radius,
    disconnected,
    holds_enough,
    left_out,
    parts_of,
    refuse_small_part,
    sampled_degree,
    share_of_pairs,
)
from ...embedding.cost import Size, block_bytes, needs, over_limit
from ...embedding.diffusion import Embedding
from ...embedding.eigensolvers.accuracy import accuracy_of
from ...embedding.eigensolvers.eigenpairs import may_be_ordered
from ...embedding.graph import check_sides, csr, permuted
from ...embedding.laplacian import (
    Laplacian,
    check_laplacian,
    gaussian_of_distances,
    laplacian_in_place,
    with_unit_diagonal,
)
from ...embedding.local import LocalKernel, local_laplacian
from ...embedding.order import in_order, matrix_order, spatial_order
from ...embedding.transition import Kernel, SparseKernel
from ...errors import first_few
from ...findings import option, refusal, warning
from ...validation import check_kernel, check_points, check_real_array
from ..audit import audit_products
from ..inputs import Inputs
from ..log import Report
from ..stage import Run, Stage
from .kernel import kernel_of

ONE_WAY = "the graph was one-way: two points are neighbours if either has the other"
FOREIGN = 0.01  # of its eigenvalue: the residual above which a given vector is not taken for an eigenvector,
SINGLE = 1e-6  # unless it may come from rounding to single precision
CHECKING = {"graph": 58.0, "kernel": 38.0}  # bytes per entry to check and copy a given matrix, as measured


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
    spatial : bool or array
        Whether that is the order in space; in an order found from the matrix, the edges of its groups.
    components : int or None
        How many parts the whole graph had.
    mean_degree : float or None
    approximations : tuple of str
    weights, bandwidth
        Of the Laplacian.
    storage : dict
        How the kernel is stored and what was planned, for ``diagnostics``; empty where nothing was to be decided.
    laplacian : Laplacian or None
        None in a graph that was read from a checkpoint.
    embedding : Embedding or None
        Where it came with the input.
    """

    n_input: int
    points: np.ndarray
    order: np.ndarray
    spatial: bool | np.ndarray
    components: int | None
    mean_degree: float | None
    approximations: tuple[str, ...]
    weights: Array
    bandwidth: float | None
    storage: dict[str, Any]
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
            "storage": {},
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
    backend = run.backend
    X, degree = run.stage(CHECKS, given.value)
    n_input, points, count = len(X), np.arange(len(X)), 0
    while True:
        order, X = run.stage(ORDER, X)
        kernel, storage = kernel_of(run, X, degree)
        parts, labels = run.stage(COMPONENTS, kernel)
        count = max(count, parts)
        if parts == 1:
            break
        rows = backend.to_host(order)
        check_parts(run, labels, points[rows], n_input, X)
        keep = np.sort(rows[largest_part(labels)])
        X = X[backend.asarray(np.argsort(rows)[keep])]
        points = points[keep]
        refuse_small_part(len(points), n_input, run.options.n_components)
        del kernel
    say_left_out(run, points, n_input, count)
    mean_degree = kernel.nnz / len(X) - (not isinstance(kernel, LocalKernel))
    return Graph.around(
        run.stage(NORMALISED, kernel),
        n_input=n_input,
        points=points,
        order=backend.to_host(order),
        spatial=True,
        components=count,
        mean_degree=mean_degree,
        approximations=kernel.approximations,
        storage=storage,
    )


def from_distances(run: Run, given: Inputs) -> Graph:
    """A graph of distances in the user's order of points."""
    check_room(run, given.value, CHECKING["graph"])
    return from_kernel(run, *run.stage(GIVEN_DISTANCES, given.value))


def from_affinities(run: Run, given: Inputs) -> Graph:
    """A kernel in the user's order of points."""
    check_room(run, given.value, CHECKING["kernel"])
    return from_kernel(run, run.stage(GIVEN_KERNEL, given.value))


def check_room(run: Run, matrix: Any, checking: float) -> None:
    """Raise if ``memory_limit`` leaves no room for a given sparse matrix: its copies, the vectors of Lanczos."""
    options, limit = run.options, run.options.memory_limit
    if limit is None or run.backend.device != "cpu" or not run.backend.sparse.issparse(matrix):
        return
    n, m, d = matrix.shape[0], options.n_components, options.intrinsic_dim
    size = Size(n, 0, float(matrix.nnz), m, d, 1, options.stored_bytes)
    needed = max(checking * size.z, *needs(size, "memory", False, block_bytes(limit)).values())
    if needed > limit:
        raise over_limit(size, limit, needed, True)


def from_kernel(run: Run, matrix: Array, *approximations: str) -> Graph:
    """A kernel on the device in the user's order of points."""
    n_input = matrix.shape[0]
    points, kernel = np.arange(n_input), SparseKernel(matrix)
    parts, labels = run.stage(COMPONENTS, kernel)
    if parts > 1:
        check_parts(run, labels, points, n_input)
        points = largest_part(labels)
        refuse_small_part(len(points), n_input, run.options.n_components)
        say_left_out(run, points, n_input, parts)
        chosen = run.backend.asarray(points)
        part = run.backend.uniform(matrix)[chosen][:, chosen].tocsr()
        part.sort_indices()  # CuPy gives chosen columns in no order
        kernel = SparseKernel(run.backend.csr(part.data, part.indices, part.indptr, part.shape))
    degree = (kernel.nnz - int((run.backend.uniform(kernel.matrix).diagonal() != 0).sum())) / len(points)
    facts = {"n_input": n_input, "points": points, "components": parts, "mean_degree": degree}
    facts |= {"approximations": approximations}
    if may_be_ordered(kernel, run.options.n_components + 1):
        order, kernel, edges = run.stage(MATRIX_ORDER, kernel)
        facts |= {"order": order, "spatial": edges}
    return Graph.around(run.stage(NORMALISED, kernel), **facts)


def by_affinity(run: Run, report: Report, kernel: SparseKernel) -> tuple[np.ndarray, SparseKernel, np.ndarray]:
    """An order of the rows found from the kernel alone, the kernel in it, and the edges of its groups."""
    order, edges = matrix_order(kernel.matrix)
    return order, SparseKernel(permuted(kernel.matrix, run.backend.asarray(order))), edges


def from_embedding(run: Run, given: Inputs) -> Graph:
    """A Laplacian with its eigenvectors and eigenvalues."""
    laplacian, bandwidth = check_laplacian(given.value), run.options.bandwidth
    if bandwidth is not None:
        if laplacian.bandwidth not in (None, bandwidth):
            text = f"{option('bandwidth', bandwidth)} differs from {laplacian.bandwidth:g} of laplacian"
            raise refusal("laplacian.bandwidth", text, "leave it out")
        laplacian = replace(laplacian, bandwidth=bandwidth)
    Y = to_device(check_real_array("coordinates", given.values["coordinates"], 2), run.backend)
    n = laplacian.shape[0]
    if len(Y) != n:
        raise refusal("coordinates.rows", f"coordinates has {len(Y)} rows but laplacian is for {n} points")
    values = check_real_array("eigenvalues", given.values["eigenvalues"], 1)
    if len(values) != Y.shape[1]:
        text = f"eigenvalues must have one entry per coordinate ({Y.shape[1]}), got {len(values)}"
        raise refusal("eigenvalues.number", text)
    if bool((values[1:] < values[:-1]).any()):
        advice = "sort them, and the columns of coordinates with them"
        raise refusal("eigenvalues.order", "eigenvalues must be ascending", advice)
    if float(values[0]) < -1e-8 * max(1.0, abs(float(values[-1]))):
        text = f"eigenvalues must be those of I - P, none of them negative, got {float(values[0]):.3g}"
        raise refusal("eigenvalues.negative", text)
    refuse_constant(Y)
    degree = laplacian.transition.nnz / n - 1
    laplacian = replace(laplacian, transition=laplacian.operator.on(run.backend))
    residuals = residuals_of(run, laplacian, Y)
    known = accuracy_of(1 - to_host(values), residuals)
    embedding = Embedding(Y, to_host(values), residuals, known.gaps, known.angles)
    return Graph.around(laplacian, components=None, mean_degree=degree, embedding=embedding)


def residuals_of(run: Run, laplacian: Laplacian, Y: Array) -> np.ndarray:
    """``|L y - lambda y| / |y|`` of given vectors (m,), lambda being the best for each; a warning where it is large."""
    Y = Y / column_maxima(abs(Y))  # squares neither overflow nor vanish
    LY = Y - laplacian.operator.product(Y, run.backend)
    squares = column_sums(Y * Y)
    values = column_sums(Y * LY) / squares
    residuals = run.backend.to_host(column_norms(LY - Y * values) / squares**0.5)
    allowed = np.maximum(FOREIGN * np.abs(run.backend.to_host(values)), SINGLE)
    worst = int((residuals / allowed).argmax())
    if residuals[worst] > allowed[worst]:
        text = f"phi{worst + 1} is not an eigenvector of laplacian (residual {residuals[worst]:.2g})"
        advice = "check that the rows of coordinates are in its order"
        run.log.warn(warning("eigenvectors.foreign", text, advice))
    return residuals


def refuse_constant(Y: Array) -> None:
    """An error where a given eigenvector says nothing: the constant one would be a member of every set."""
    low, high = column_ends(Y)
    backend = backend_of(Y)
    flat = np.flatnonzero(backend.to_host(high - low <= 1e-8 * backend.xp.maximum(abs(low), abs(high))))
    if len(flat):
        advice = "leave the constant eigenvector out, and its eigenvalue"
        raise refusal("coordinates.constant", f"column {flat[0]} of coordinates is constant", advice)


def normalised(run: Run, report: Report, kernel: Kernel) -> Laplacian:
    """The Laplacian on the kernel's storage; products are compared with plain code before they are used."""
    if not run.options.self_loops and not isinstance(kernel, LocalKernel):
        kernel.drop_diagonal()
    sample = kernel.sample()
    if sample is not None:
        run.stage(PRODUCTS, sample)
    if isinstance(kernel, LocalKernel):
        return local_laplacian(kernel, run.options.intrinsic_dim)
    return laplacian_in_place(kernel, run.options.bandwidth, run.options.alpha)


def check_parts(run: Run, labels: np.ndarray, rows: np.ndarray, n_input: int, X: Array = None) -> None:
    """Raise, and say what to do, if the largest part does not hold as many points as asked for.

    ``rows`` are those of the input that have the labels.
    """
    sizes = np.bincount(labels)
    if holds_enough(sizes, n_input, run.options.components):
        return
    radius = None if X is None else connecting_radius(X, labels, run.backend)
    if radius is not None and share_of_pairs(X, radius, run.backend) > CROWDED:
        radius = None
    raise disconnected(sizes, radius, run.options.own_radius, parts=parts_of(rows, labels))


def largest_part(labels: np.ndarray) -> np.ndarray:
    """The rows of the largest part."""
    return np.flatnonzero(labels == np.bincount(labels).argmax())


def say_left_out(run: Run, points: np.ndarray, n_input: int, parts: int) -> None:
    """Warn of the rows that are not in the largest part."""
    left = np.setdiff1d(np.arange(n_input), points)
    if len(left) == 0:
        return
    gone = f"Row {left[0]} was" if len(left) == 1 else f"Rows {first_few(left)} were"
    run.log.warn(left_out(parts, len(points), n_input, f". {gone} left out"))


def checked(run: Run, report: Report, X: Array) -> tuple[Any, float]:
    """Points on the device, and their mean degree from a sample."""
    X = to_device(check_points(X), run.backend)
    options = run.options
    options.check_shape(*X.shape)
    if options.n_neighbors is not None and options.n_neighbors >= len(X):
        text = f"{option('n_neighbors')} must be at most {len(X) - 1} for {len(X)} points, got {options.n_neighbors}"
        raise refusal("n_neighbors.range", text)
    if options.nearest:
        return X, 0.0  # as many as were asked for, which fits
    return X, sampled_degree(X, options.radius, options.bandwidth, options.components, run.backend)


def ordered(run: Run, report: Report, X: Array) -> tuple[Any, Any]:
    """The spatial order of points, and the points in it."""
    order = spatial_order(X)
    return order, in_order(X, order)


def given_distances(run: Run, report: Report, graph: Array) -> tuple[Any, ...]:
    """The kernel of a user's graph, and a sentence if it was made symmetric."""
    options = run.options
    sparse = backend_of(graph).sparse.issparse(graph)
    matrix, one_way = check_sides(
        graph, radius=3 * options.bandwidth if options.radius is None and not sparse else options.radius
    )
    matrix = backend_of(matrix.data).copied(matrix)
    matrix = with_unit_diagonal(gaussian_of_distances(matrix, options.bandwidth))
    notes = (ONE_WAY,) if one_way else ()
    return to_device(matrix, run.backend, options.storage), *notes


def given_kernel(run: Run, report: Report, kernel: Array) -> Array:
    """A user's kernel; P does not depend on its unit, in which float32 may not hold it."""
    matrix = check_kernel(kernel)
    if run.options.storage != "float64" and matrix.nnz:
        matrix.data /= float(matrix.data.max()) or 1.0
    return to_device(matrix, run.backend, run.options.storage)


CHECKS = Stage("checks", checked)
ORDER = Stage("order", ordered)
MATRIX_ORDER = Stage("order", by_affinity)
GIVEN_DISTANCES = Stage("graph", given_distances)
GIVEN_KERNEL = Stage("graph", given_kernel)
COMPONENTS = Stage("components", lambda run, report, kernel: kernel.components())
PRODUCTS = Stage(
    "laplacian", lambda run, report, sample: None, kernel="spmm",
    difference=lambda run, _, sample: audit_products(sample, run.backend),
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
    if run.given.entry == "laplacian" or not laplacian.operator.has_matrix:
        return None
    return {"data": P.data, "indices": P.indices, "indptr": P.indptr}


def unpacked_laplacian(run: Run, content: dict[str, Any], given: Inputs, graph: Graph) -> Laplacian:
    parts = (run.backend.asarray(content[part]) for part in ("data", "indices", "indptr"))
    return Laplacian(csr(run.backend, *parts), graph.weights, graph.bandwidth)


GRAPH = Stage("graph", connected, composite=True, pack=packed_graph, unpack=unpacked_graph, after="automatic")
LAPLACIAN = Stage(
    "laplacian", laplacian_again, composite=True, pack=packed_laplacian, unpack=unpacked_laplacian, after="graph"
)
