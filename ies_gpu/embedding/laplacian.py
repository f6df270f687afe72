"""The renormalised Laplacian of a kernel (algorithm Laplacian of the paper), and how its matrix is held.

That is as CSR, or as the dense tiles of :mod:`.tiles`, with the same methods: symmetric affinities K at first, and with
rows and columns scaled the transition matrix P, whose rows sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order

from ..backend import Backend, Block, at_home, backend_of, cached_property, get_backend, step, to_device
from ..backend.array import Array, entry_rows, row_counts
from ..backend.base import index_type
from ..backend.compare import audit_products
from ..backend.kernels import plain
from ..findings import DisconnectedGraphError, first_few, option, refusal
from ..options import TABLE, documented, explain_keywords
from ..validation import check_kernel, check_length, check_real_array, check_sparse_storage, check_square_sparse
from .graph import csr, matrix_order, permute
from .tiles import TiledMatrix

SMALLEST = 1e-290  # row sum of a kernel: its reciprocal, times the number of points, is still a float


class Rows(NamedTuple):
    """Which rows of the input a Laplacian is of, and their order on the device."""

    n_input: int
    used: np.ndarray  # which rows of the input, rising
    order: np.ndarray  # the number in ``used`` of the row at each place
    # whether that is the order in space; the edges of groups if it was found from a matrix; False: as in the input
    edges: bool | np.ndarray = False

    @classmethod
    def every(cls, n: int) -> Rows:
        return cls(n, np.arange(n), np.arange(n))

    @property
    def stand_as_given(self) -> bool:
        return self.edges is False

    @property
    def numbers(self) -> np.ndarray:
        """The row of the input at each place on the device."""
        return self.used[self.order]

    def to_user(self, array: Array) -> Array:
        """Return an array of one row per point in the order of the input; the same array if it stands so."""
        return array if self.stand_as_given else array[backend_of(array).asarray(np.argsort(self.order))]

    def to_device(self, array: Array) -> Array:
        """Return an array of one row per point that is used, given in the order of the input, in that of the device."""
        return array if self.stand_as_given else array[backend_of(array).asarray(self.order)]


class SparseMatrix:
    """Affinities of n points, or the transition matrix, as CSR."""

    has_matrix = True
    approximations: tuple[str, ...] = ()

    def __init__(self, matrix: Array) -> None:
        self.matrix, self.shape, self.nnz = matrix, matrix.shape, matrix.nnz
        self.degree = self.nnz / max(1, self.shape[0])
        self.backend = backend_of(matrix.data)

    def __matmul__(self, V: Array) -> Array:
        with self.backend.active():
            return self.product(V, self.backend)

    def product(self, V: Array, backend: Backend) -> Array:
        return backend.kernels.spmm(self.matrix.indptr, self.matrix.indices, self.matrix.data, V)

    @step("components")
    def components(self) -> tuple[int, np.ndarray]:
        count, labels = self.backend.connected_components(self.matrix)
        # one part needs no labels, and no way to the host for them
        return int(count), self.backend.to_host(labels) if count > 1 else np.zeros(self.shape[0], dtype=np.int32)

    def drop_diagonal(self) -> None:
        K, xp = self.matrix, self.backend.xp
        for block in self.backend.blocks(self.shape[0], 24.0 * self.degree, "kernel"):
            with block as rows:
                ends = K.indptr[rows.start : rows.stop + 1]
                part, counts = slice(int(ends[0]), int(ends[-1])), ends[1:] - ends[:-1]
                own = xp.repeat(xp.arange(rows.start, rows.stop, dtype=K.indices.dtype), counts)
                K.data[part] *= K.indices[part] != own

    def scale_rows_and_columns(self, left: Array, right: Array) -> Array:
        """Return ``diag(left) K diag(right)`` on the kernel's own storage."""
        K, kernels = self.matrix, self.backend.kernels
        for block in self.backend.blocks(self.shape[0], kernels.scaled_bytes(self.degree), "laplacian"):
            with block as rows:
                ends = K.indptr[rows.start : rows.stop + 1]
                kernels.scaled_entries(ends, K.indices, K.data, left[rows], right)
        return K

    def blocks(self, m: int, backend: Backend, d: int | None = None) -> Iterator[Block]:
        """Return blocks whose co-metrics of m coordinates, or d leading eigenvectors of them, fit into memory."""
        kernels = plain if d is None else backend.kernels
        return backend.blocks(self.shape[0], kernels.tangent_bytes(m, d or m, self.degree), "tangents")

    def cometric(self, Y: Array, block: slice, backend: Backend) -> tuple[slice, Array]:
        """Return the rows of one of :meth:`blocks`, and their co-metric (r, m, m) without ``4/eps^2``."""
        P, rows = self.matrix, backend.xp.arange(block.start, block.stop)
        return block, backend.kernels.cometric_rows(P.indptr, P.indices, P.data, Y, rows)

    def tangents(self, Y: Array, block: slice, d: int, backend: Backend) -> tuple[slice, Array, Array]:
        """Return the rows of one of :meth:`blocks`, and d leading eigenvectors and eigenvalues of their co-metric."""
        P, rows = self.matrix, backend.xp.arange(block.start, block.stop)
        single = backend.slow_double and P.data.dtype == "float32" and Y.dtype == "float64"
        kernel = backend.kernels.tangent_rows_single if single else backend.kernels.tangent_rows
        return block, *kernel(P.indptr, P.indices, P.data, Y, rows, d)

    def on(self, backend: Backend) -> Array:
        """Return the same on another device, as ``Laplacian.transition`` holds it."""
        return to_device(self.matrix, backend)

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        """Return how it is stored, in words, and the arrays that tell it from any other."""
        return f"sparse {self.shape}", (self.matrix.data, self.matrix.indices, self.matrix.indptr)


Matrix = SparseMatrix | TiledMatrix


class Laplacian:
    """The renormalised graph Laplacian ``L = I - P``, and the rows of the input that it is of.

    ``operator`` stands in the order of ``rows``. ``transition`` and ``weights`` are in the order of the input, and put
    into it when they are first read.

    Parameters
    ----------
    transition : sparse matrix of shape (n_samples, n_samples), or SparseMatrix or TiledMatrix
        The transition matrix P, whose rows sum to 1. A graph that is too dense for a sparse matrix is held as tiles. A
        function is called for it when it is first used.
    weights : ndarray of shape (n_samples,), optional
        The weights with respect to which P is symmetric: the row sums ``wt`` of ``W^-1 K W^-1``.
    bandwidth : float, optional
        The bandwidth eps of the kernel, if it is known.
    rows : Rows, optional
        Which rows of the input ``transition`` and ``weights`` are of, and in which order they stand; by default all, as
        they are given.
    facts : dict, optional
        What is known of the graph, as plain values for ``diagnostics``.
    """

    def __init__(
        self, transition: Any, weights: Array = None, bandwidth: float | None = None, *, rows: Rows | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.stored, self.operator_weights, self.bandwidth = transition, weights, bandwidth
        self.rows = Rows.every(transition.shape[0]) if rows is None else rows
        self.shape = getattr(transition, "shape", (len(self.rows.order),) * 2)
        self.facts = facts or {}

    @property
    def anchor(self) -> Array:
        """The array of the Laplacian that says which backend it is on."""
        return self.stored if self.operator_weights is None else self.operator_weights

    @cached_property
    def operator(self) -> Matrix:
        """The transition matrix P as an operator, in the order of ``rows``, read or computed when it is first used."""
        found = self.stored() if callable(self.stored) else self.stored
        return found if isinstance(found, Matrix) else SparseMatrix(found)

    @cached_property
    @at_home
    def transition(self) -> Any:
        """The transition matrix P, in the order of the input."""
        P = self.operator
        if self.rows.stand_as_given:
            return P.matrix if P.has_matrix else P
        return permute(P.matrix, backend_of(self.anchor).asarray(np.argsort(self.rows.order)))

    @cached_property
    @at_home
    def weights(self) -> Array:
        """The weights with respect to which P is symmetric, in the order of the input."""
        return None if self.operator_weights is None else self.rows.to_user(self.operator_weights)

    @property
    def mean_degree(self) -> float | None:
        """The mean number of neighbours of a point, if it was counted."""
        return self.facts.get("mean_degree")

    @cached_property
    @at_home
    def matrix(self) -> Array:
        """The Laplacian ``L = I - P`` as a sparse matrix, in the order of the input."""
        P = self.transition if self.operator.has_matrix else self.operator.matrix
        check_sparse_storage("transition", P)
        return (backend_of(P.data).sparse.identity(self.shape[0], format="csr") - P).tocsr()

    @property
    def without_matrix(self) -> Laplacian:
        """The same without P, which takes nearly all of its memory."""
        return with_transition(self, None)

    @property
    def scale(self) -> float:
        """The factor ``4 / eps^2`` that makes L an estimate of the Laplace-Beltrami operator; 1 without a bandwidth."""
        return 1.0 if self.bandwidth is None else 4.0 / self.bandwidth**2

    @property
    @at_home
    def scaled(self) -> Array:
        """The scaled Laplacian ``(4 / eps^2) L``, which approximates the Laplace-Beltrami operator."""
        return self.scale * self.matrix

    def __repr__(self) -> str:
        return f"Laplacian(n={self.shape[0]}, entries={self.operator.nnz}, bandwidth={self.bandwidth})"


def with_transition(laplacian: Laplacian, transition: Any, **changes: Any) -> Laplacian:
    """Return the same with another matrix in the order of its rows, and whatever else changes."""
    known = {"weights": laplacian.operator_weights, "bandwidth": laplacian.bandwidth}
    return Laplacian(transition, **known | {"rows": laplacian.rows, "facts": laplacian.facts} | changes)


@step("order")
def reorder(laplacian: Laplacian) -> Laplacian:
    """Return a Laplacian with its rows in an order found from the matrix, in which rows that belong together stand."""
    weights, P = laplacian.operator_weights, laplacian.operator.matrix
    backend, rows = backend_of(weights), laplacian.rows
    xp, symmetric_entries = backend.xp, backend.kernels.symmetric_entries
    entries = symmetric_entries(P.indptr.astype(xp.int64), P.indices, P.data, xp.sqrt(weights))
    order, edges = matrix_order(csr(backend, entries, P.indices, P.indptr))
    moved, rows = backend.asarray(order), rows._replace(order=rows.order[order], edges=edges)
    return with_transition(laplacian, permute(P, moved), weights=weights[moved], rows=rows)


@step("kernel")
def apply_gaussian(graph: Array, bandwidth: float) -> Array:
    """Return the Gaussian kernel on the storage of a graph, without touching its pattern."""
    backend = backend_of(graph.data)
    for block in backend.blocks(graph.nnz, 24, "kernel"):
        with block as part:
            ratio = graph.data[part].astype(backend.xp.float64) / bandwidth
            graph.data[part] = backend.xp.exp(-ratio * ratio)
    return graph


def with_diagonal(matrix: Array, diagonal: Any = 1.0) -> Array:
    """Return a CSR without a diagonal with one inserted, the indices still sorted."""
    backend, n, rows = backend_of(matrix.data), matrix.shape[0], entry_rows(matrix)
    xp = backend.xp
    right = matrix.indices > rows
    # row i moves right by i places, and by one more behind its own diagonal
    place = xp.arange(matrix.nnz) + rows + right
    left_counts = row_counts(rows[~right], n)
    on_diagonal = matrix.indptr[:-1] + xp.arange(n) + left_counts
    indices = xp.empty(matrix.nnz + n, dtype=index_type(matrix.nnz + n))
    data = xp.empty(matrix.nnz + n, dtype=matrix.data.dtype)
    indices[place], data[place] = matrix.indices, matrix.data
    indices[on_diagonal], data[on_diagonal] = xp.arange(n, dtype=indices.dtype), diagonal
    return csr(backend, data, indices, matrix.indptr + xp.arange(n + 1))


@explain_keywords
@documented
@at_home
def graph_laplacian(kernel: Array, *, bandwidth: float | None = None, alpha: float = 1.0) -> Laplacian:
    """Return the renormalised Laplacian of a kernel.

    With ``w = K 1``, ``Lt = W^-alpha K W^-alpha`` and ``wt = Lt 1``, the transition matrix is ``P = Wt^-1 Lt`` and the
    Laplacian ``L = I - P``. For points of density p, ``(4 / eps^2) L f`` tends to
    ``-(Laplace-Beltrami f + 2 (1 - alpha) grad log p . grad f)``: with ``alpha = 1`` the density drops out.

    Parameters
    ----------
    kernel : sparse matrix or ndarray of shape (n_samples, n_samples)
        Symmetric affinities, none of them negative. The diagonal is used as given.
    bandwidth : float, optional
        The bandwidth eps of the kernel, for the scale ``4 / eps^2``.
    {alpha}

    Returns
    -------
    Laplacian
        The Laplacian, on the device of the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> import ies_gpu
    >>> laplacian = ies_gpu.graph_laplacian(np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.5], [0.1, 0.5, 1.0]]))
    >>> bool(np.allclose(laplacian.transition.sum(axis=1), 1))
    True
    """
    alpha = TABLE["alpha"].accepts.check("alpha", alpha)
    if bandwidth is not None:
        bandwidth = check_length("bandwidth", bandwidth)
    return normalise(SparseMatrix(check_kernel(kernel)), bandwidth, alpha)


@step("laplacian")
def normalise(kernel: Matrix, bandwidth: float | None, alpha: float = 1.0) -> Laplacian:
    """Return the Laplacian on the kernel's own storage."""
    w = kernel @ kernel.backend.xp.ones(kernel.shape[0])
    if not float(w.min()) > SMALLEST:
        rows = kernel.backend.to_host(kernel.backend.xp.flatnonzero(w <= SMALLEST))
        text = f"kernel has {'1 row' if len(rows) == 1 else f'{len(rows)} rows'} "
        if bool((w > 0).all()):
            text += f"with a sum so small that no float holds its reciprocal ({first_few(rows)})"
            raise refusal("kernel.tiny", text, "multiply kernel by a constant, or drop them")
        text += f"without a positive entry ({first_few(rows)}): points without neighbours"
        raise refusal("kernel.empty_rows", text, f"drop them, or raise {option('bandwidth')}")
    w = w**alpha
    wt = (kernel @ (1 / w)) / w
    return Laplacian(kernel.scale_rows_and_columns(1 / (wt * w), 1 / w), wt, bandwidth)


@step(
    "products", kernel="spmm", again=False,  # tiles have no single entries
    audit=lambda K, *_: audit_products(K.matrix, K.backend) if K.has_matrix else None,
)  # fmt: skip
def audited_kernel(kernel: Matrix, self_loops: bool) -> Matrix:
    """Return the kernel, without self-loops if asked; its products are audited here, before it is overwritten."""
    if not self_loops:
        kernel.drop_diagonal()
    return kernel


@at_home
def check_laplacian(laplacian: Any) -> Laplacian:
    """Return a ``Laplacian`` whose parts fit together, or a sparse ``I - P`` (rows sum to 0 within 1e-8) as one."""
    if isinstance(laplacian, Laplacian):  # anyone can build one, or write into the arrays of ours
        return _check_parts(laplacian)
    matrix = check_square_sparse("laplacian", laplacian)
    backend = backend_of(matrix.data)
    sums = backend.xp.abs(matrix.sum(axis=1))
    if float(sums.max()) > 1e-8:
        text = f"laplacian must be I - P with rows that sum to 0, but a row sums to {float(sums.max()):.3g}"
        raise refusal("laplacian.rows_sum", text, "pass what graph_laplacian returns")
    transition = (backend.sparse.identity(matrix.shape[0], format="csr") - matrix).tocsr()
    if _least_off_diagonal(transition) < 0:
        text = "laplacian must be I - P, with no positive entry off the diagonal"
        raise refusal("laplacian.sign", text, "if yours is the generator P - I, or a multiple of it, pass -laplacian")
    return Laplacian(transition)


def with_weights(laplacian: Laplacian) -> Laplacian:
    """Return a Laplacian that came without weights with those for which ``w_i P_ij = w_j P_ji``."""
    backend = backend_of(laplacian.operator.matrix.data)
    P = scipy.sparse.csr_array(to_device(laplacian.operator.matrix, get_backend("cpu")), copy=True)
    P.eliminate_zeros()
    order, parents = breadth_first_order(P, 0, directed=False)
    if len(order) < P.shape[0]:
        text = f"the graph of laplacian is in parts, one of them with {len(order):,} of {P.shape[0]:,} points"
        raise refusal("graph.disconnected", text, "keep one", DisconnectedGraphError)
    # along a tree of the graph each weight follows from that of its parent; all other pairs must then agree
    there, back = P[parents[order[1:]], order[1:]], P[order[1:], parents[order[1:]]]
    logs = np.zeros(P.shape[0])
    if (there > 0).all() and (back > 0).all():
        logs[order[1:]] = np.log(there) - np.log(back)
        parents[order[0]] = order[0]
        while (parents != order[0]).any():  # each round doubles how far up the tree a sum reaches
            logs, parents = logs + logs[parents], parents[parents]
        weights = np.exp(logs - logs.max())
        flow = scipy.sparse.diags_array(weights) @ P
        if (weights > 0).all() and (abs(flow - flow.T).max(axis=1).toarray().ravel() <= 1e-6 * weights).all():
            return with_transition(laplacian, laplacian.operator, weights=backend.asarray(weights))
    text = "laplacian must be I - P of a reversible walk, as that of a symmetric kernel is"
    raise refusal("laplacian.walk", text, "pass the kernel to graph_laplacian instead")


def _check_parts(laplacian: Laplacian) -> Laplacian:
    P, weights, bandwidth = laplacian.stored, laplacian.operator_weights, laplacian.bandwidth
    if bandwidth is not None:
        check_length("laplacian.bandwidth", bandwidth)
    if isinstance(P, Matrix) or callable(P):
        return laplacian
    dtype = getattr(P, "dtype", None)
    checked = check_square_sparse("laplacian.transition", P, dtype if dtype in ("float32", "float64") else "float64")
    if (least := _least_off_diagonal(checked)) < 0:
        text = f"laplacian.transition must not have negative entries off the diagonal, got {least:.3g}"
        raise refusal("laplacian.negative", text, "pass what graph_laplacian returns")
    if weights is not None:
        weights = check_real_array("laplacian.weights", weights, 1)
        if len(weights) != checked.shape[0] or not bool((weights > 0).all()):
            text = f"laplacian.weights must be {checked.shape[0]} positive numbers, one per point"
            raise refusal("laplacian.weights", text, "pass what graph_laplacian returns")
    return laplacian if checked is P else with_transition(laplacian, checked, weights=weights)


def _least_off_diagonal(P: Array) -> float:
    """Return the smallest entry of a CSR off its diagonal; 0 where it is negative by rounding only, or not at all."""
    if P.nnz == 0 or bool(P.data.min() >= 0):
        return 0.0
    off = backend_of(P.data).xp.where(P.indices == entry_rows(P), 0.0, P.data)
    least = float(off.min())
    return least if least < -1e-8 * float(abs(off).max()) else 0.0
