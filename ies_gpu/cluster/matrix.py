"""Kernel and transition matrix by block: a block's own rows, with columns for its points and the neighbours elsewhere.

Columns are numbered within the block: first its own points, then those of other blocks that its rows need, by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..backend import Backend
from ..backend.steps import step
from ..embedding.graph import ordered_radius_graph, rescale_to_radius
from ..embedding.laplacian import Laplacian, apply_gaussian
from ..embedding.order import Rows as InputRows
from ..embedding.transition import SparseMatrix
from ..findings import option, refusal
from ..options import Options
from .source import Points, boxes_near, boxes_of, points_near, taken_rows
from .team import Team, calls, joined

if TYPE_CHECKING:
    from ..run.fit import Fit


@dataclass(frozen=True)
class Rows:
    """A block of rows of a sparse matrix."""

    matrix: Any  # CSR (own, own and others')
    rows: np.ndarray  # of the input
    wants: dict[int, np.ndarray]  # which rows of other blocks the later columns are, in the order of the blocks

    @property
    def n(self) -> int:
        return self.matrix.shape[0]


@dataclass(frozen=True)
class BlockLaplacian:
    """The Laplacian of a connected graph, in blocks on the workers."""

    team: Team
    sizes: np.ndarray  # points by block
    transitions: list[Any]  # futures of ``Rows`` of P
    roots: list[Any]  # of the weights that make P symmetric, for own points and others', with mean 1
    nnz: int
    n_input: int  # how many points the input has
    bandwidth: float
    facts: dict[str, Any]  # what is known of the graph, as plain values for ``diagnostics``
    sample: tuple[np.ndarray, np.ndarray]  # rows of the input, rising, and the points there
    rows = None  # each block knows its own

    @property
    def without_matrix(self) -> BlockLaplacian:
        """Itself: its blocks stay where they are."""
        return self

    def some_rows(self, fit: Fit) -> tuple[Fit, np.ndarray]:
        """Return a map at some of its points, in the order of the input, and these points: what it is judged by."""
        numbers, X = self.sample
        pieces = (array.parts for array in (fit.embedding.vectors, *fit.tangents))
        Y, bases, sigma = taken_rows(self.team, self.transitions, numbers, *pieces)[1:]
        laplacian = Laplacian(None, bandwidth=self.bandwidth, rows=InputRows.every(len(X)))
        embedding = replace(fit.embedding, vectors=Y.astype(float))
        return fit._replace(laplacian=laplacian, embedding=embedding, tangents=type(fit.tangents)(bases, sigma)), X


@step("graph")
def kernel_blocks(team: Team, points: list[Any], options: Options) -> list[Any]:
    """Return the Gaussian kernel by block; the team learns who exchanges rows with whom."""
    boxes, radius = team.gather(team.map(boxes_of, points)), options.radius
    count = len(points)
    team.near = [[j for j in range(count) if j != i and boxes_near(boxes[i], boxes[j], radius)] for i in range(count)]
    how = radius, options.bandwidth, options.storage, options.self_loops
    built = []
    for i, near in enumerate(team.near):
        others = [team.submit(points_near, points[j], boxes[i], radius, block=j) for j in near]
        built.append(team.submit(kernel_rows, points[i], *how, near, tuple(others), block=i))
    wants = team.map(lambda _, kernel: kernel.wants, built)
    askers = [tuple(i for i in range(count) if j in team.near[i]) for j in range(count)]
    asked = [tuple(wants[i] for i in own) for own in askers]
    outgoing = lambda _, j, own, wants: {i: want[j] for i, want in zip(own, wants, strict=True)}  # noqa: E731
    team.outgoing = team.map(outgoing, list(range(count)), askers, asked)
    team.wait(built)
    return built


def kernel_rows(
    backend: Backend, points: Points, radius: float, bandwidth: float, storage: str, loops: bool,
    near: list[int], others: tuple[tuple[Any, Any], ...],
) -> Rows:  # fmt: skip
    """Return the kernel between a block's points and all points within the radius."""
    xp, n = backend.xp, len(points.rows)
    # both in the order of space, one behind the other: only few cells of the graph reach from one into the other
    X = xp.concatenate([points.X, *(other for _, other in others)])
    if storage == "float32":
        X, radius, unit = rescale_to_radius(radius, X)
        bandwidth = bandwidth / unit
    graph = ordered_radius_graph(X, radius, diagonal=True, storage=storage)
    last = int(graph.indptr[n])  # behind the rows of this block
    indices, outside = graph.indices[:last], xp.nonzero(graph.indices[:last] >= n)[0]
    used = xp.zeros(len(X), dtype=bool)
    used[:n] = True
    used[indices[outside]] = True
    place = (xp.cumsum(used) - 1).astype(indices.dtype)
    indices[outside] = place[indices[outside]]
    matrix = backend.csr(graph.data[:last], indices, graph.indptr[: n + 1], (n, int(used.sum())))
    matrix.has_sorted_indices = True
    apply_gaussian(matrix, bandwidth)
    if not loops:
        SparseMatrix(matrix).drop_diagonal()
    wants, first = {}, n
    for j, (chosen, _) in zip(near, others, strict=True):
        wants[j] = chosen[used[first : first + len(chosen)]]
        first += len(chosen)
    return Rows(matrix, points.rows, wants)


@step("components")
def parts_of_graph(team: Team, kernels: list[Any]) -> tuple[np.ndarray, list[np.ndarray] | None]:
    """Return the sizes of the connected parts, and each row's part by block (None for a single one)."""
    own = team.map(own_parts, kernels)
    counted = team.gather(team.map(lambda _, part: np.bincount(part), own))
    first = np.concatenate([[0], np.cumsum([len(counts) for counts in counted])])
    labels = calls(lambda _, part, before: part + before, own, first[:-1].tolist())  # numbered over all blocks
    met = np.concatenate(team.gather(team.map(meetings, kernels, labels, team.exchanged(labels))))
    links = coo_array((np.ones(len(met)), met.T), shape=(first[-1], first[-1]))
    count, whole = connected_components(links, directed=False)
    sizes = np.bincount(whole, weights=np.concatenate(counted), minlength=count).astype(np.int64)
    if count == 1:
        return sizes, None
    return sizes, [whole[before + part] for before, part in zip(first, team.gather(own), strict=False)]


def own_parts(backend: Backend, kernel: Rows) -> np.ndarray:
    """Return each row's part of the graph among a block's own points."""
    n, K, xp = kernel.n, kernel.matrix, backend.xp
    inside = (K.indices < n) & (K.data > 0)
    ends = xp.concatenate([xp.zeros(1, dtype=xp.int64), xp.cumsum(inside)])[K.indptr].astype(K.indptr.dtype)
    own = backend.sparse.csr_matrix((K.data[inside], K.indices[inside], ends), shape=(n, n))
    return backend.to_host(backend.connected_components(own)[1])


def meetings(backend: Backend, kernel: Rows, own: np.ndarray, others: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return pairs of parts, each once: one of this block, and one of another that an edge joins to it."""
    indptr, indices, data = map(backend.to_host, (kernel.matrix.indptr, kernel.matrix.indices, kernel.matrix.data))
    labels = np.concatenate([own, *others]).astype(np.int64)
    outside = np.flatnonzero((indices >= kernel.n) & (data > 0))
    rows = np.searchsorted(indptr, outside, side="right") - 1
    count = int(labels.max()) + 1
    pairs = np.unique(labels[rows] * count + labels[indices[outside]])  # numbers are sorted sooner than rows
    return np.stack(np.divmod(pairs, count), axis=1)


@step("laplacian")
def transition_blocks(
    team: Team, kernels: list[Any], n_input: int, bandwidth: float, facts: dict[str, Any],
    sample: tuple[np.ndarray, np.ndarray],
) -> BlockLaplacian:  # fmt: skip
    """Return the renormalised transition matrix of a kernel: two sums over neighbours, each exchanged once."""

    def row_sums(backend: Backend, kernel: Rows) -> Any:
        w = SparseMatrix(kernel.matrix) @ backend.xp.ones(kernel.matrix.shape[1])
        if not bool((w > 0).all()):
            text = "the kernel has rows without a positive entry"
            raise refusal(
                "kernel.empty_rows", text, f"raise {option('bandwidth')}, or use {option('self_loops', True)}"
            )
        return w

    w = team.map(row_sums, kernels)
    w_all = calls(joined, w, team.exchanged(w))
    wt = team.map(lambda _, K, w: (SparseMatrix(K.matrix) @ (1 / w)) / w[: K.n], kernels, w_all)  # W^-1 K W^-1 1
    known = team.map(lambda backend, K, wt: (K.n, float(backend.xp.sqrt(wt).sum()), int(K.matrix.nnz)), kernels, wt)
    sizes, sums, entries = (np.array(part) for part in zip(*team.gather(known), strict=True))
    mean, nnz = sums.sum() / sizes.sum(), int(entries.sum())
    roots_all = team.map(lambda backend, wt: backend.xp.sqrt(wt) / float(mean), calls(joined, wt, team.exchanged(wt)))
    transitions = team.map(transition_rows, kernels, w_all, wt)
    team.wait(transitions)
    facts = facts | {"mean_degree": nnz / int(sizes.sum()) - 1}
    return BlockLaplacian(team, sizes, transitions, roots_all, nnz, n_input, bandwidth, facts, sample)


def transition_rows(backend: Backend, kernel: Rows, w: Any, wt: Any) -> Rows:
    """Return ``P = Wt^-1 W^-1 K W^-1``, with entries of its own."""
    K = kernel.matrix
    copy = backend.sparse.csr_matrix((K.data.copy(), K.indices, K.indptr), shape=K.shape)
    return replace(kernel, matrix=SparseMatrix(copy).scale_rows_and_columns(1 / (wt * w[: kernel.n]), 1 / w))
