"""The Gaussian kernel of distances between neighbours, also of those that users bring."""

from __future__ import annotations

from ..backend import at_home, backend_of
from ..backend.array import Array, entry_rows
from ..findings import option, refusal
from ..options import explain_keywords
from ..validation import check_array, check_length, check_real_array, check_square_sparse, check_symmetric
from .graph import from_pairs
from .laplacian import apply_gaussian, with_diagonal

FILLED = 0.5  # share of distances of 0 from which on a dense matrix is a sparse one with zeros in its gaps


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
    >>> ies_gpu.gaussian_kernel(graph, bandwidth=1).toarray().round(3)
    array([[1.   , 0.368, 0.   ],
           [0.368, 1.   , 0.   ],
           [0.   , 0.   , 1.   ]])
    """
    bandwidth = check_length("bandwidth", bandwidth)
    matrix, _ = check_sides(graph)
    return with_diagonal(apply_gaussian(matrix.copy(), bandwidth))


def check_sides(graph: Array, *, radius: float | None = None, name: str = "graph") -> tuple[Array, bool]:
    """Return a user's matrix of distances as our CSR, and whether it had pairs on one side only, which are completed.

    The CSR is symmetric and sorted, without a diagonal, and has nothing beyond ``radius``. A zero, stored or off the
    diagonal of a dense matrix, is the distance of two equal points; infinity in a dense one means "no neighbours".
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
    if not bool(((pattern - pattern.T).data != 0).any()):
        check_symmetric(name, matrix, stored_zeros=True)
        return matrix, False
    both, apart = both_ways(matrix)
    if apart > 1e-8 * (float(matrix.data.max()) or 1.0):
        text = f"{name} must be symmetric, but the two distances of a pair differ by up to {apart:.3g}"
        raise refusal(f"{name}.asymmetric", text, "keep one of them")
    if bool((both.data < 0).any()):
        raise refusal(f"{name}.negative", f"{name} must not have negative entries, got {float(both.data.min()):g}")
    return both, True


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
