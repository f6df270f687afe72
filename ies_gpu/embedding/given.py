"""A graph, a kernel, or a Laplacian with eigenvectors that the user brings, and the Gaussian kernel of a graph."""

from typing import Any

import numpy as np

from ..backend import Backend, Do, active_backend, at_home, backend_of, step, to_device, to_host
from ..backend.array import Array, column_ends, column_maxima, column_norms, column_sums, entry_rows
from ..findings import option, refusal, tell, warning
from ..options import Options, explain_keywords
from ..validation import check_array, check_kernel, check_length, check_real_array, check_square_sparse, check_symmetric
from .diffusion import Embedding
from .eigensolvers.accuracy import accuracy_of
from .eigensolvers.choose_solver import wants_order
from .graph import from_pairs
from .laplacian import (
    Laplacian,
    Rows,
    SparseMatrix,
    apply_gaussian,
    audited_kernel,
    check_laplacian,
    normalise,
    reorder,
    with_diagonal,
    with_transition,
)
from .parts import largest_part, tell_left_out
from .points import Size, block_bytes, bytes_by_stage, over_limit

ONE_WAY = "the graph was one-way: two points are neighbours if either has the other"
FOREIGN = 0.01  # of its eigenvalue: the residual above which a given vector is not taken for an eigenvector,
SINGLE = 1e-6  # unless it may come from rounding to single precision
FILLED = 0.5  # share of distances of 0 from which on a dense matrix is a sparse one with zeros in its gaps
CHECKING = {"graph": 58.0, "kernel": 38.0}  # bytes per entry to check and copy a given matrix, as measured


@explain_keywords
@at_home
def gaussian_kernel(graph: Array, *, bandwidth: float) -> Array:
    """Return the Gaussian kernel ``K_ij = exp(-distance_ij^2 / eps^2)`` on the edges of a graph.

    Parameters
    ----------
    graph : sparse matrix or ndarray of shape (n_samples, n_samples)
        Distances between neighbours, not squared. A stored zero is the distance between two equal points; infinity in a
        dense matrix means "not neighbours".
    bandwidth : float
        The length eps over which the weight of a neighbour falls.

    Returns
    -------
    sparse matrix of shape (n_samples, n_samples)
        The kernel in CSR format, with ``K_ii = 1`` added.

    Examples
    --------
    >>> import ies_gpu
    >>> graph = ies_gpu.radius_graph([[0.0], [1.0], [5.0]], radius=2)
    >>> ies_gpu.gaussian_kernel(graph, bandwidth=1).toarray().round(3).tolist()
    [[1.0, 0.368, 0.0], [0.368, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    bandwidth = check_length("bandwidth", bandwidth)
    matrix, _ = check_sides(graph)
    return with_diagonal(apply_gaussian(matrix.copy(), bandwidth))


def check_sides(graph: Array, *, radius: float | None = None, name: str = "graph") -> tuple[Array, bool]:
    """Return a user's distances up to ``radius`` as our CSR, and whether pairs stood on one side only, now on both.

    The CSR is symmetric and sorted, without a diagonal. See :func:`gaussian_kernel` for zeros and infinity.
    """
    backend = backend_of(graph)
    xp, one_way = backend.xp, False
    if backend.sparse.issparse(graph):
        matrix, one_way = two_sided(check_square_sparse(name, graph, add=False), name)
        rows = entry_rows(matrix)
        columns, data = matrix.indices, matrix.data
        refuse_affinities(data[columns == rows], data, matrix.shape[0], name)
        keep = columns != rows if radius is None else (columns != rows) & (data <= radius)
        if not bool(keep.all()):
            matrix = from_pairs(backend, rows[keep], columns[keep], data[keep], matrix.shape[0])
    else:
        raw = check_array(name, graph)
        absent = raw == xp.inf if raw.dtype.kind == "f" else xp.zeros(raw.shape, dtype=bool)
        dense = check_real_array(name, xp.where(absent, 0, raw) if raw.dtype.kind == "f" else raw, 2)
        if len(dense) != dense.shape[1] or len(dense) < 2:
            text = f"{name} must be square, and for at least 2 points, got shape {dense.shape}"
            raise refusal(f"{name}.shape", text)
        refuse_affinities(dense.diagonal(), dense, len(dense), name)  # which may have zeros in their gaps, too
        zero = ~absent & (dense == 0)
        share = int(zero.sum() - zero.diagonal().sum()) / (dense.size - len(dense))
        if share > FILLED:
            text = f"{name} is dense, and {share:.0%} of its distances are 0, as between equal points"
            advice = f"if 0 stands for 'not neighbours', pass scipy.sparse.csr_array({name})"
            raise refusal(f"{name}.zeros", text, advice)
        near = ~absent if radius is None else ~absent & (dense <= radius)
        near[xp.arange(len(dense)), xp.arange(len(dense))] = False
        rows, columns = xp.nonzero(near)
        matrix = from_pairs(backend, rows, columns, dense[rows, columns], len(dense))
        check_symmetric(name, matrix, stored_zeros=True)
    return matrix, one_way


def two_sided(matrix: Array, name: str) -> tuple[Array, bool]:
    """Return a CSR of distances with every pair on both sides, and whether it was not; the two must agree."""
    backend = backend_of(matrix.data)
    pattern = backend.csr(backend.xp.ones(matrix.nnz), matrix.indices, matrix.indptr, matrix.shape)
    if one_way := bool(((pattern - pattern.T).data != 0).any()):
        matrix, apart = both_ways(matrix)
        if apart > 1e-8 * (float(matrix.data.max()) or 1.0):
            text = f"{name} must be symmetric, but the two distances of a pair differ by up to {apart:.3g}"
            raise refusal(f"{name}.asymmetric", text, "keep one of them")
    check_symmetric(name, matrix, stored_zeros=True)
    return matrix, one_way


def both_ways(matrix: Array) -> tuple[Array, float]:
    """Return a CSR with every pair on both sides, and the largest difference between the two entries of a pair.

    Stored zeros stay, unlike in SciPy's ``maximum``; of two distances of one pair the larger counts.
    """
    backend, n = backend_of(matrix.data), matrix.shape[0]
    xp = backend.xp
    rows, columns = entry_rows(matrix).astype(xp.int64), matrix.indices.astype(xp.int64)
    keys, data = xp.concatenate([rows * n + columns, columns * n + rows]), xp.concatenate([matrix.data, matrix.data])
    order = xp.argsort(-data, kind="stable")
    order = order[xp.argsort(keys[order], kind="stable")]
    keys, data = keys[order], data[order]
    keys, first, counts = xp.unique(keys, return_index=True, return_counts=True)
    apart = float((data[first] - data[first + counts - 1]).max()) if len(keys) else 0.0
    return from_pairs(backend, keys // n, keys % n, data[first], n), apart


def refuse_affinities(own: Array, every: Array, n: int, name: str) -> None:
    """Raise if no distance is larger than that of each point to itself: then affinities came as distances."""
    if len(own) == n < every.size and 0 < float(own.min()) >= (1 - 1e-9) * float(every.max()):
        way = f"use {option('metric', 'precomputed_affinity')}" if name == "X" else "pass it as kernel"
        text = f"{name} has {float(own.min()):.3g} on its diagonal and nothing larger beside it, as affinities have"
        raise refusal(f"{name}.affinities", text, way)


def laplacian_of_given(value: Array, options: Options, do: Do) -> Laplacian:
    """Return the Laplacian of a user's graph or kernel on the active backend, of the part that the options ask for."""
    backend, limit = active_backend(), options.memory_limit
    if limit is not None and backend.device == "cpu" and backend.sparse.issparse(value):
        check_room(value, options, limit)
    matrix, one_way = do(kernel_of_given, value, options, backend)
    n_input, kernel, rows = matrix.shape[0], SparseMatrix(matrix), Rows.every(matrix.shape[0])
    parts, labels = do(kernel.components)
    if parts > 1:
        used = largest_part(labels, rows.used, n_input, options.disconnected, options.n_components)
        tell_left_out(parts, len(used), n_input, used)
        places = backend.asarray(used)
        part = matrix[places][:, places].tocsr()
        part.sort_indices()  # CuPy gives chosen columns in no order
        kernel = SparseMatrix(backend.csr(part.data, part.indices, part.indptr, part.shape))
        rows = Rows(n_input, used, np.arange(len(used)))
    degree = (kernel.nnz - int((kernel.matrix.diagonal() != 0).sum())) / len(rows.used)
    found = do(normalise, do(audited_kernel, kernel, options.self_loops), options.bandwidth, options.alpha)
    facts = {"graph_components": parts, "mean_degree": degree, "approximations": [ONE_WAY] * one_way, "storage": {}}
    found = with_transition(found, found.operator, rows=rows, facts=facts)
    return do(reorder, found) if wants_order(found.operator, options.n_components + 1) else found


@step("graph")
def kernel_of_given(value: Array, options: Options, backend: Backend) -> tuple[Array, bool]:
    """Return a user's kernel, or that of a graph, on a device, and whether the graph had pairs on one side only."""
    one_way, radius, sparse = False, options.radius, backend_of(value).sparse.issparse(value)
    if options.entry == "graph":
        matrix, one_way = check_sides(value, radius=3 * options.bandwidth if radius is None and not sparse else radius)
        matrix = with_diagonal(apply_gaussian(matrix.copy(), options.bandwidth))
    else:
        matrix = check_kernel(value)
        if options.storage != "float64" and matrix.nnz:  # float32 may not hold its unit, on which P does not depend
            matrix.data /= float(matrix.data.max()) or 1.0
    return to_device(matrix, backend, options.storage), one_way


def check_room(matrix: Any, options: Options, limit: int) -> None:
    """Raise if a limit leaves no room for a given sparse matrix: its copies, the vectors of Lanczos."""
    m, d, width = options.n_components, options.intrinsic_dim, options.stored_bytes
    asked = Size(matrix.shape[0], 0, float(matrix.nnz), m, d, width)
    by_stage = bytes_by_stage(asked, "memory", False, block_bytes(limit))
    needed = max(CHECKING[options.entry] * asked.z, *by_stage.values())
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
    if len(Y) != (n := laplacian.shape[0]):
        raise refusal("coordinates.rows", f"coordinates has {len(Y)} rows but laplacian is for {n} points")
    values = check_values(eigenvalues, Y)
    degree = laplacian.operator.nnz / len(Y) - 1
    facts = {"graph_components": None, "mean_degree": degree, "approximations": [], "storage": {}}
    with backend.active():
        laplacian = with_transition(laplacian, laplacian.operator.on(backend), facts=facts)
        Y = laplacian.rows.to_device(Y)
        residuals = residuals_of(laplacian, Y)
    known = accuracy_of(1 - values, residuals)
    return laplacian, Embedding(Y, values, residuals, known.gaps, known.angles, rows=laplacian.rows)


def check_values(eigenvalues: Array, Y: Array) -> np.ndarray:
    """Return given eigenvalues on the host, one per coordinate, ascending; a constant eigenvector is refused."""
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
        tell(warning("eigenvectors.foreign", text, "check that the rows of coordinates are in its order"))
    return residuals
