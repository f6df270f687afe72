"""Points, kernel and transition matrix of a cluster run, by block: a box of a KD-tree.

A block of a matrix has its own rows, and columns numbered within it: first its own points, then those of other blocks
that its rows need, by block.
"""

import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..backend import Backend, get_backend, step
from ..backend.array import sample_rows, spaced_rows, starts_of
from ..choice.faults import SAMPLE as LOOKED_AT
from ..embedding.graph import cell_starts, ordered_radius_graph, rescale_to_radius, spatial_axes, spatial_order
from ..embedding.laplacian import Laplacian, SparseMatrix, apply_gaussian
from ..embedding.laplacian import Rows as InputRows
from ..embedding.points import SURE, refuse_alike, sampled_degree
from ..findings import ClusterError, brief, refusal
from ..options import Options
from ..run.run import Fit
from ..validation import LARGEST, ROWS, check_real_array, check_unmasked, digest_of_rows, refuse_points
from .team import PARSING, Team, calls, item, joined

CHUNK_BYTES = 64 << 20  # of one task that reads points
FEWEST_CHUNKS = 4
SENT_BYTES = 8 << 20  # the same where the points go with the task, by way of the scheduler
SAMPLE = 20_000  # points from which the cuts are found
Some = tuple[np.ndarray, np.ndarray]  # rows of the input, rising, and the points there
BOXES = 6  # cuts of a block into smaller boxes, which say which points of other blocks are near it


class Source:
    """Points in chunks of rows: an array, a Dask array, or an .npy file that the workers read."""

    def __init__(self, team: Team, X: Any, options: Options) -> None:
        self.team = team
        is_dask, path = hasattr(X, "to_delayed"), str(Path(X).absolute()) if isinstance(X, (str, os.PathLike)) else None
        self.local = path is None and not is_dask  # an array of the client, so that the results should be, too
        opened = X if path is None else open_rows(path)
        shape, dtype = getattr(opened, "shape", None), getattr(opened, "dtype", None)
        if shape is None or dtype is None or len(shape) != 2 or min(shape) < 1 or np.dtype(dtype).kind not in "buif":
            known = "" if shape is None else f" of shape {tuple(shape)} and dtype {dtype}"
            text = "X must be real numbers, one row per point: an array, a Dask array or a path to .npy with client"
            raise refusal("X.type", f"{text}, got {brief(X)}{known}", kind=TypeError)
        if any(size != size for size in shape):  # Dask does not know how many rows a filtered array has
            raise refusal("X.chunks", "X has chunks of unknown size", "call X.compute_chunk_sizes() first")
        check_unmasked("X", X)
        self.n, self.width = int(shape[0]), int(shape[1])
        self.ends: np.ndarray  # where chunks begin, and n
        self.chunks: list[Any]  # futures of the rows of each, as float64
        options.check_shape(self.n, self.width)
        if self.local:  # before the work
            m, d = options.n_components, options.intrinsic_dim
            need = 8 * self.n * (m + d + 10 + m * d * bool(options.keep_bases))
            if need > (free := get_backend("cpu").free_memory()):
                text = f"the result takes {need / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free here"
                way = "pass X as a Dask array or as a path, and the result stays on the workers as Dask arrays"
                raise refusal("cluster.result_too_large", text, way, ClusterError)
        if is_dask:
            X = X.rechunk({1: -1})
            self.ends = np.concatenate([[0], np.cumsum(X.chunks[0])])
            given = team.client.compute(X.to_delayed().ravel().tolist())
            self.chunks = team.map(checked, given, self.ends[:-1].tolist())
            return
        most = (SENT_BYTES if self.local else CHUNK_BYTES) // (8 * self.width)
        self.ends = np.append(np.arange(0, self.n, max(1, min(-(-self.n // FEWEST_CHUNKS), most))), self.n)
        spans = list(pairwise(self.ends.tolist()))
        if path is not None:
            self.chunks = team.map(lambda at, span: checked(at, open_rows(path)[span[0] : span[1]], span[0]), spans)
            return
        parts = (np.array(X[a:b], dtype=np.float64) for a, b in spans)
        self.chunks = [team.submit(checked, part, spans[k][0], block=k) for k, part in enumerate(parts)]


def open_rows(path: str) -> Any:
    if Path(path).suffix.lower() != ".npy":
        text, way = f"{path}: with client, points are read from .npy", "pass a Dask array, as of dask.array.from_zarr"
        raise refusal("X.format", text, way)
    if not Path(path).exists():
        advice = "check the path, which must lead to storage that all workers share"
        raise refusal("X.missing", f"{path} does not exist", advice, FileNotFoundError)
    with PARSING:
        return np.load(path, mmap_mode="r", allow_pickle=False)


def checked(backend: Backend, rows: Any, first: int) -> np.ndarray:
    """Return rows as float64, all of them finite and their squares, too."""
    check_unmasked("X", rows)
    rows = np.array(rows, dtype=np.float64, order="C")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        row = first + int(np.argmin(finite))
        raise refusal("X.not_finite", f"X must be finite, but row {row} is not", "drop such rows or fill them in")
    return check_real_array("X", rows, 2)


@dataclass(frozen=True)
class Points:
    """The points of one block in spatial order, with their rows in the input."""

    rows: np.ndarray
    X: Any


@step("order")
def partition(team: Team, source: Source, options: Options) -> list[Any]:
    """Return the blocks as futures of ``Points``, none of them empty; points without a shape are refused."""
    stride = max(1, source.n // SAMPLE)
    sample = np.concatenate(team.gather(team.map(lambda _, X: X[::stride], source.chunks)))
    check_sample(sample, source.n, options)
    count = team.block_count(source.n)
    pieces = team.map(split, source.chunks, source.ends[:-1].tolist(), *cuts_of(sample, count))
    sizes = np.array(team.gather(team.map(lambda _, own: [len(rows) for rows, _ in own], pieces)))
    filled = np.flatnonzero(sizes.any(axis=0)).tolist()
    team.assign_workers(len(filled))
    points = []
    for i, b in enumerate(filled):
        own = tuple(team.submit(item, piece, b, block=c) for c, piece in enumerate(pieces) if sizes[c, b])
        points.append(team.submit(collect, own, block=i))
    team.wait(points)
    source.chunks.clear()
    return points


def check_sample(sample: np.ndarray, n: int, options: Options) -> None:
    """Refuse points without a shape, and a kernel that joins all points; if they are all, one that isolates most."""
    refuse_points((n, sample.shape[1]), bool((sample != sample[0]).any()), np.abs(sample).max() > 1 / LARGEST)
    if len(sample) == n:
        sampled_degree(sample, options.radius, options.bandwidth, options.disconnected)
    else:
        refuse_alike(sample, sample[:: max(1, len(sample) // SURE)], n, options.bandwidth)


@step("checks")
def facts_of_points(team: Team, points: list[Any], width: int, used: int, n: int) -> tuple[dict[str, Any], Some]:
    """Return facts of ``used`` of n points for ``diagnostics``, and some of the points with their rows."""
    few = spaced_rows(used, ROWS)
    wanted = np.concatenate([few, sample_rows(used, LOOKED_AT, 0)])
    if used < n:
        wanted = np.sort(np.concatenate(team.gather(team.map(lambda _, own: own.rows, points))))[wanted]
    numbers, some = taken_rows(team, points, wanted, calls(lambda _, own: own.X, points))
    first, sample = np.split(some[np.searchsorted(numbers, wanted)], [len(few)])
    return {"points_digest": digest_of_rows((used, width), first)}, (wanted[len(few) :], sample)


def taken_rows(team: Team, owners: list[Any], wanted: np.ndarray, *tall: list[Any]) -> list[np.ndarray]:
    """Return which of the wanted rows of the input some blocks have, rising, and these rows of arrays by block."""

    def own_rows(at: Backend, owner: Any, *tall: Any) -> tuple[np.ndarray, ...]:
        own = np.flatnonzero(np.isin(owner.rows, wanted))
        return owner.rows[own], *(at.to_host(array[at.asarray(own)]) for array in tall)

    parts = [np.concatenate(part) for part in zip(*team.gather(team.map(own_rows, owners, *tall)), strict=True)]
    order = np.argsort(parts[0])
    return [part[order] for part in parts]


def cuts_of(sample: np.ndarray, count: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return directions, and in heap order which of them each cut is across and where: at medians of the sample."""
    axes = spatial_axes(sample)
    members = [sample if axes is None else sample @ axes]
    across, places = np.zeros(count - 1, dtype=np.int64), np.zeros(count - 1)
    for k in range(count - 1):
        Z = members.pop(0)
        if len(Z):
            across[k] = np.argmax(np.ptp(Z, axis=0))
            places[k] = np.median(Z[:, across[k]])
        high = Z[:, across[k]] > places[k]
        members += [Z[~high], Z[high]]
    return axes, across, places


def split(
    backend: Backend, X: np.ndarray, first: int, axes: Any, across: np.ndarray, places: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return a chunk's rows by block: their numbers in the input, and the points."""
    Z, node, count = X if axes is None else X @ axes, np.zeros(len(X), dtype=np.int64), len(across) + 1
    for _ in range(int(np.log2(count))):
        node = 2 * node + 1 + (Z[np.arange(len(Z)), across[node]] > places[node])
    members = [np.flatnonzero(node == count - 1 + b) for b in range(count)]
    return [(first + rows, X[rows]) for rows in members]


def collect(backend: Backend, pieces: tuple[tuple[np.ndarray, Any], ...]) -> Points:
    """Return the points of a block from their rows in the input and coordinates, in spatial order."""
    rows = np.concatenate([own for own, _ in pieces])
    X = backend.xp.concatenate([backend.asarray(own) for _, own in pieces])
    order = spatial_order(X)
    return Points(rows[backend.to_host(order)], X[order])


def points_near(backend: Backend, points: Points, boxes: np.ndarray, reach: float) -> tuple[Any, Any]:
    """Return which points are within reach of some box, and the points."""
    xp = backend.xp

    def within(X: Any, low: np.ndarray, high: np.ndarray) -> Any:
        gap = xp.maximum(0, xp.maximum(X - backend.asarray(high), backend.asarray(low) - X))
        return (gap * gap).sum(axis=1) <= reach * reach * (1 + 1e-9)

    around = xp.nonzero(within(points.X, boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)))[0]  # mostly few
    X = points.X[around]
    near = xp.zeros(len(X), dtype=bool)
    for low, high in boxes:
        near |= within(X, low, high)
    return around[near], X[near]


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
    sample: Some
    rows = None  # each block knows its own

    @property
    def without_matrix(self) -> Self:
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

    def boxes_of(at: Backend, own: Points) -> np.ndarray:  # around runs of the points: (boxes, 2, columns)
        runs = [own.X[a:b] for a, b in pairwise(np.unique(cell_starts(len(own.rows), BOXES)).tolist())]
        sides = [at.xp.stack([run.min(axis=0), run.max(axis=0)]) for run in runs]  # CuPy's minimum has no reduceat
        return at.to_host(at.xp.stack(sides))

    boxes, radius, count = team.gather(team.map(boxes_of, points)), options.radius, len(points)

    def is_near(one: np.ndarray, other: np.ndarray) -> bool:
        gap = np.maximum(0, np.maximum(other[:, 0] - one[:, None, 1], one[:, None, 0] - other[:, 1]))
        return bool(((gap * gap).sum(axis=2) <= radius * radius * (1 + 1e-9)).any())

    team.near = [[j for j in range(count) if j != i and is_near(boxes[i], boxes[j])] for i in range(count)]
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

    def own_parts(at: Backend, kernel: Rows) -> np.ndarray:  # of the graph among a block's own points
        n, K = kernel.n, kernel.matrix
        inside = (K.indices < n) & (K.data > 0)
        ends = starts_of(inside)[K.indptr].astype(K.indptr.dtype)
        own = at.sparse.csr_matrix((K.data[inside], K.indices[inside], ends), shape=(n, n))
        return at.to_host(at.connected_components(own)[1])

    def meetings(at: Backend, kernel: Rows, own: np.ndarray, others: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return pairs of parts, each once: one of this block, and one of another that an edge joins to it."""
        indptr, indices, data = map(at.to_host, (kernel.matrix.indptr, kernel.matrix.indices, kernel.matrix.data))
        labels = np.concatenate([own, *others]).astype(np.int64)
        outside = np.flatnonzero((indices >= kernel.n) & (data > 0))
        rows = np.searchsorted(indptr, outside, side="right") - 1
        count = int(labels.max()) + 1
        pairs = np.unique(labels[rows] * count + labels[indices[outside]])  # numbers are sorted sooner than rows
        return np.stack(np.divmod(pairs, count), axis=1)

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


@step("laplacian")
def transition_blocks(
    team: Team, kernels: list[Any], n_input: int, bandwidth: float, facts: dict[str, Any], sample: Some
) -> BlockLaplacian:
    """Return the renormalised transition matrix of a connected kernel; two sums over neighbours are exchanged once."""
    w = team.map(lambda at, K: SparseMatrix(K.matrix) @ at.xp.ones(K.matrix.shape[1]), kernels)
    w_all = calls(joined, w, team.exchanged(w))
    wt = team.map(lambda _, K, w: (SparseMatrix(K.matrix) @ (1 / w)) / w[: K.n], kernels, w_all)  # W^-1 K W^-1 1
    known = team.map(lambda backend, K, wt: (K.n, float(backend.xp.sqrt(wt).sum()), int(K.matrix.nnz)), kernels, wt)
    sizes, sums, entries = (np.array(part) for part in zip(*team.gather(known), strict=True))
    mean, nnz = sums.sum() / sizes.sum(), int(entries.sum())
    roots_all = team.map(lambda backend, wt: backend.xp.sqrt(wt) / float(mean), calls(joined, wt, team.exchanged(wt)))

    def transition_rows(at: Backend, kernel: Rows, w: Any, wt: Any) -> Rows:
        K = kernel.matrix
        copy = at.sparse.csr_matrix((K.data.copy(), K.indices, K.indptr), shape=K.shape)  # with entries of its own
        return replace(kernel, matrix=SparseMatrix(copy).scale_rows_and_columns(1 / (wt * w[: kernel.n]), 1 / w))

    transitions = team.map(transition_rows, kernels, w_all, wt)
    team.wait(transitions)
    facts = facts | {"mean_degree": nnz / int(sizes.sum()) - 1}
    return BlockLaplacian(team, sizes, transitions, roots_all, nnz, n_input, bandwidth, facts, sample)
