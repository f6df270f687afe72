"""Neighbour graphs: which points are close, and how close, in which metric; and the order in which points are compared.

That is the order of a KD-tree with cuts at medians: after ``l`` cuts the i-th of ``2**l`` cells begins at
``(n * i) >> l``. The graph skips pairs of cells that are far apart, and cells are the unknowns of coarse eigenproblems.
"""

import math
import mmap
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend import at_home, backend_of, cached_property, host_of, report, step
from ..backend.array import Array, few_on_host, row_counts, row_slots, starts_of
from ..backend.base import index_type
from ..backend.compare import audit_graph
from ..constraints import Words
from ..findings import first_few, option, refusal
from ..options import METRICS, OTHER_METRICS, explain_keywords
from ..validation import check_length, check_points

CELL = 64  # points in a cell whose bounding box may prove that no neighbour lies in it
TILE_COLUMNS = 16_384
SPHERICAL = ("cosine", "correlation")  # chords between rows of unit length: the Euclidean code serves, on any device
PRECOMPUTED, AFFINITY = GIVEN = ("precomputed", "precomputed_affinity")  # of the estimators: X is a matrix of pairs
GROWTH = 1.125  # an array of the graph that is full becomes so many times as long
LEAF = 8  # points in the smallest cells of the order in space
MAX_AXES = 8  # cells are cut along at most this many axes: the leading principal ones when there are more columns
# with more columns, axes are found from this many rows: a covariance of 20,000 columns takes 3 GB and an hour
WIDE = 1024
MANY, LOST = 64, 1e-5  # columns from which on fewer are looked for, and the part of the extent they may leave out
FEWEST_GROUPS = 256  # of rows: those of a matrix are no longer matched when no more groups than this are left
END = 127  # depth of the edge behind the last row: it is one of all cells


@explain_keywords
@at_home
def radius_graph(X: Array, *, radius: float, metric: str = "euclidean") -> Array:
    """Return the distances between all points that are no further apart than ``radius``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    radius : float
        The largest distance between neighbours.
    metric : str, default="euclidean"
        How distances are measured, as in :func:`select_coordinates`: "cosine" and "correlation" give chords,
        ``sqrt(2 - 2 cos)``.

    Returns
    -------
    sparse matrix of shape (n_samples, n_samples)
        Distances in CSR format, symmetric and sorted, without a diagonal. The zero distance between two equal
        points is stored.

    Examples
    --------
    >>> import ies_gpu
    >>> ies_gpu.radius_graph([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]], radius=6).toarray().tolist()
    [[0.0, 5.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    radius = check_length("radius", radius)
    X = points_in_metric(X, metric)
    order = spatial_order(X)
    return permute(ordered_radius_graph(X[order], radius), order.argsort())


def check_metric(metric: Any, *more: str) -> str:
    return Words(*METRICS, *more, advice=OTHER_METRICS).check("metric", metric)


def points_in_metric(X: Array, metric: str) -> Array:
    """Return points whose Euclidean distances are those of the metric, checked not to be copies in it."""
    X = check_points(X)
    Z = to_euclidean(X, check_metric(metric))
    if Z is not X and float((abs(Z - Z[:1])).max()) <= 1e-14:  # chords that are nothing but rounding
        text = f"X must not consist of {len(X)} copies of one point, and in {option('metric', metric)} it does: all "
        raise refusal("X.copies", f"{text}rows have the same direction")
    return Z


def to_euclidean(X: Array, metric: str) -> Array:
    """Return checked points of unit length, or else the points, whose Euclidean distances are those of the metric."""
    if metric not in SPHERICAL:
        return X
    backend = backend_of(X)
    rows = X - X.mean(axis=1, keepdims=True) if metric == "correlation" else X
    largest, small = (abs(each).max(axis=1, keepdims=True) for each in (X, rows))
    bad = small <= 1e-14 * largest  # nothing but rounding is left
    if bool(bad.any()):
        rows, what = backend.to_host(backend.xp.nonzero(bad[:, 0])[0]), "zeros" if metric == "cosine" else "constant"
        text = f"{option('metric', metric)} needs a direction for every row of X, but those of {len(rows):,} are {what}"
        raise refusal("metric.direction", f"{text} ({first_few(rows)})", "drop them")
    rows = rows / small
    return rows / backend.xp.linalg.norm(rows, axis=1, keepdims=True)


@step("graph", kernel="tile_graph", audit=lambda graph, X, radius, **_: audit_graph(X, graph, radius, backend_of(X)))
def ordered_radius_graph(X: Array, radius: float, *, diagonal: bool = False, storage: str = "float64") -> Array:
    """Return the radius graph of points in spatial order, ``diagonal`` with the zero distance of each to itself.

    With ``storage="float32"`` the pairs are the same: found by products in float32, and measured in float64.
    """
    backend = backend_of(X)
    xp = backend.xp
    compare = backend.kernels.tile_graph if storage == "float64" else backend.kernels.tile_graph_single
    n = len(X)
    Z, reach, unit = rescale_to_radius(radius, X)
    with backend.active():
        if backend.is_remote:  # which may have a kernel for these points that needs no blocks
            cells = Cells(few_on_host(Z), reach)
            boxes = (backend.asarray(part) for part in (cells.starts, *cells.boxes))
            pairs = backend.kernels.near_pairs(Z, *boxes, cells.limit, reach, diagonal, unit, storage)
            if pairs is not None:
                return csr(backend, pairs[2], pairs[1], pairs[0])
        cells = Cells(Z, reach)
        graph = GrowingGraph(index_type(n), storage, xp)
        for attempt in backend.blocks(cells.count, 0, "graph", rows_a_block=cells.a_block):
            with attempt as part:
                first, last = int(cells.starts[part.start]), int(cells.starts[part.stop])
                parts = []
                for columns in cells.columns_of(cells.near(first, last)):
                    found, place, value = compare(Z[first:last], Z[columns], reach)
                    parts.append((found, columns[place].astype(index_type(n)), value.astype(storage, copy=False)))
                counts, indices, values = join_tiles(parts, xp)
                values *= unit
                if not diagonal:  # each row holds itself exactly once
                    keep = xp.nonzero(indices != xp.repeat(xp.arange(first, last), counts))[0]
                    counts, indices, values = counts - 1, indices[keep], values[keep]
                graph.append(counts, indices, values)
                report(last, n)
        return graph.finish(backend)


def rescale_to_radius(radius: float, X: Array) -> tuple[Array, float, float]:
    """Return points and radius divided by a power of two near the radius, and that power.

    Squares then neither overflow nor vanish, and no digit changes: pairs at exactly the radius stay there.
    """
    if is_mapped(X) and 1e-8 < radius < 1e8:  # a copy of it may not fit into memory
        return X, radius, 1.0
    unit = math.ldexp(1.0, math.frexp(radius)[1])
    return X / unit, radius / unit, unit


class Cells:
    """Bounding boxes of consecutive runs of ordered points, and which of them are near others."""

    def __init__(self, Z: Array, radius: float) -> None:
        self.backend = backend = backend_of(Z)
        self.axes = spatial_axes(Z)
        P = self.projected(Z)
        levels = n_levels(len(Z), CELL)
        self.starts = cell_starts(len(Z), levels)
        self.count = len(self.starts) - 1
        self.run_length = 1 << (n_levels(self.count, 1) + 1) // 2  # cells side by side, looked at together first
        # how many cells make up a block of rows
        self.a_block = self.count >> min(levels, n_levels(len(Z), backend.rows_a_tile))
        # cells differ by one point at most, and the shorter name their last one twice
        starts, width = backend.asarray(self.starts), -(-len(Z) >> levels)
        members = P[backend.xp.minimum(starts[:-1, None] + backend.xp.arange(width), starts[1:, None] - 1)]
        self.boxes = members.min(axis=1), members.max(axis=1)
        self.limit = radius * radius * (1 + 1e-9)  # a box may be off by its own rounding

    @cached_property
    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        return self.backend.to_host(self.boxes[0]), self.backend.to_host(self.boxes[1])

    @cached_property
    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """The boxes around runs of cells, about as many runs as each has cells, on the host."""
        first, (low, high) = np.arange(0, self.count, self.run_length), self.corners
        return np.minimum.reduceat(low, first, axis=0), np.maximum.reduceat(high, first, axis=0)

    def projected(self, Z: Array) -> Array:
        return Z if self.axes is None else Z @ self.axes

    def near(self, first: int, last: int) -> np.ndarray:
        """Return the cells that the box around rows ``first`` to ``last`` does not prove to be beyond the radius."""
        (a, b), (low, high) = np.searchsorted(self.starts, (first, last)), self.corners
        return self.near_box(low[a:b].min(axis=0), high[a:b].max(axis=0))

    def near_box(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the cells near a box, given by its corners on the host; only those of near runs are looked at."""

        def within(lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
            gap = np.maximum(0, np.maximum(lows - high, low - highs))
            return (gap * gap).sum(axis=1) <= self.limit

        cells = (np.flatnonzero(within(*self.runs))[:, None] * self.run_length + np.arange(self.run_length)).ravel()
        cells = cells[: np.searchsorted(cells, self.count)]
        return cells[within(*(side[cells] for side in self.corners))]

    def columns_of(self, near: np.ndarray) -> list[Any]:
        """Return the points of given cells, rising, in pieces that keep a tile small."""
        xp = self.backend.xp
        sizes = np.diff(self.starts)[near]
        total = int(sizes.sum())
        # only numbers of cells go to the device
        shift, sizes = (self.backend.asarray(a) for a in (self.starts[near] - (np.cumsum(sizes) - sizes), sizes))
        columns = xp.repeat(shift, sizes) + xp.arange(total)
        return [columns[k : k + TILE_COLUMNS] for k in range(0, total, TILE_COLUMNS)]


def join_tiles(parts: list[Any], xp: Any) -> Array:
    """Return tiles side by side as one block: counts, and indices and values row by row."""
    if len(parts) == 1:
        return parts[0]
    rows = xp.concatenate([xp.repeat(xp.arange(len(counts)), counts) for counts, _, _ in parts])
    order = xp.argsort(rows, kind="stable")
    indices, values = (xp.concatenate([part[k] for part in parts])[order] for k in (1, 2))
    return sum(counts for counts, _, _ in parts), indices, values


class GrowingGraph:
    """Rows of a graph, added in blocks to arrays that grow, so that no block is kept until all are there."""

    def __init__(self, index: str, storage: str, xp: Any) -> None:
        self.xp, self.size, self.counts = xp, 0, list[Any]()
        self.indices, self.distances = (xp.empty(1 << 16, dtype=dtype) for dtype in (index, storage))

    def append(self, counts: Array, indices: Array, distances: Array) -> None:
        """Add the next rows; where memory runs out, none of them is added."""
        end = self.size + len(indices)
        if end > len(self.distances):
            self._resize(max(end, int(GROWTH * len(self.distances))))
        self.indices[self.size : end], self.distances[self.size : end] = indices, distances
        self.counts.append(counts)
        self.size = end

    def finish(self, backend: Any) -> Array:
        self._resize(self.size)
        return csr(backend, self.distances, self.indices, starts_of(self.xp.concatenate(self.counts)))

    def _resize(self, room: int) -> None:
        for name in ("indices", "distances"):
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                array.resize(room, refcheck=False)  # in place: on Linux the pages of a large one are moved
            else:
                setattr(self, name, self.xp.empty(room, dtype=array.dtype))
                getattr(self, name)[: self.size] = array[: self.size]


def csr(backend: Any, data: Array, indices: Array, indptr: Array) -> Array:
    """Return a square CSR from its parts, known to be sorted."""
    matrix = backend.csr(data, indices, indptr, (len(indptr) - 1,) * 2)
    matrix.has_sorted_indices = True
    return matrix


def permute(matrix: Array, order: Array) -> Array:
    """Return a symmetric CSR in another order, stored zeros kept: entry (a, b) is the old (order[a], order[b])."""
    backend = backend_of(matrix.data)
    indptr, slots = row_slots(matrix.indptr, order)
    columns = order.argsort().astype(matrix.indices.dtype)[matrix.indices[slots]]
    result = backend.sparse.csr_matrix((matrix.data[slots], columns, indptr), shape=matrix.shape)
    result.sort_indices()
    return csr(backend, result.data, result.indices, result.indptr)


def from_pairs(backend: Any, rows: Array, columns: Array, data: Array, n: int) -> Array:
    """Return a CSR from its entries in the order of rows."""
    return csr(backend, data, columns, starts_of(row_counts(rows, n)))


# --- the order of space, that of a KD-tree, and an order found from a matrix alone ------------------------------------


def n_levels(n: int, leaf: int) -> int:
    return (-(-n // leaf) - 1).bit_length()  # the largest cell holds ceil(n / 2**levels) points


def cell_starts(n: int, levels: int) -> np.ndarray:
    """Return where the ``2**levels`` cells begin, and n at the end."""
    return (n * np.arange((1 << levels) + 1, dtype=np.int64)) >> levels


def cells_of(n: int, ordered: bool | np.ndarray, cuts: int) -> np.ndarray:
    """Return where cells of at most ``2**cuts`` rows begin, and n at the end; ``ordered`` is as ``Rows.edges``."""
    if isinstance(ordered, np.ndarray):
        return np.flatnonzero(ordered >= min(cuts, int(ordered[:-1].max())))
    return cell_starts(n, max(0, n_levels(n, LEAF) + 3 - cuts))


def spatial_order(X: Array) -> Array:
    backend, few = backend_of(X), few_on_host(X)
    if few is not X:
        return backend.asarray(spatial_order(few))
    axes = spatial_axes(X)
    Z = X if axes is None else backend.xp.ascontiguousarray(X @ axes)
    with backend.active():
        return backend.kernels.kd_order(Z, n_levels(len(X), LEAF))


def spatial_axes(X: Array) -> Array | None:
    """Return orthonormal directions (D, k) along which points extend most, so that projection lengthens no distance.

    None if the points have few columns anyway.
    """
    return leading_axes(X[:: max(1, len(X) // 10_000)], MAX_AXES) if X.shape[1] > MAX_AXES else None


def leading_axes(X: Array, count: int) -> Array:
    """Return up to ``count`` orthonormal directions (D, k) along which points extend most, the longest first."""
    xp = backend_of(X).xp
    wide = X.shape[1] > WIDE
    centred = X[:: -(-len(X) // WIDE)] if wide else X
    centred = centred - centred.mean(axis=0)
    if not wide:
        return xp.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    weights = xp.linalg.eigh(centred @ centred.T)[1][:, ::-1][:, :count]
    return xp.linalg.qr(centred.T @ weights)[0]  # orthonormal also where the points extend in fewer directions


def essential_columns(X: Array) -> Array:
    """Return points turned onto their principal axes, without those along which they hardly extend.

    Of many columns only, and where at most half of them are left; X itself otherwise. Points move by about ``LOST`` of
    their distance from the mean, and none by more than ten times that, so that squared distances change by 1e-10 of it.
    """
    xp, (n, D) = backend_of(X).xp, X.shape
    if D <= MANY or n < 2:
        return X
    # of very many columns, the axes come from fewer rows, which tell less of the others
    sample, lost = (X[:: max(1, n // 4_000)], LOST) if D <= WIDE else (X[:: -(-n // WIDE)], LOST / 30)
    centre = sample.mean(axis=0)
    axes = leading_axes(sample, D)
    squares = ((sample - centre) @ axes) ** 2
    left = xp.cumsum(squares.sum(axis=0)[::-1])[::-1]
    axes = axes[:, : int((left > lost**2 * left[0]).sum())]
    if 2 * axes.shape[1] > D:
        return X
    most, Z = 100 * LOST**2 * float(squares.sum(axis=1).mean()), X
    for rows in (X[n // 64 :: max(1, n // 32)], X):  # a few first, which end it where points extend everywhere
        rows = rows - centre
        Z = rows @ axes
        if float(((rows**2).sum(axis=1) - (Z * Z).sum(axis=1)).max()) > most:
            return X
    return Z


def pieces(X: Array) -> Iterator[Array]:
    """Yield points piece by piece, since a mapped file may be larger than free memory; on a device all at once."""
    step = TILE_COLUMNS if isinstance(X, np.ndarray) else len(X)
    return (backend_of(X).asarray(X[first : first + step]) for first in range(0, len(X), step))


def is_mapped(X: Array) -> bool:
    while isinstance(X, np.ndarray):
        X = X.base
    return isinstance(X, mmap.mmap)


@step("order")
def sort_in_space(X: Array) -> tuple[Array, Array]:
    order = spatial_order(X)
    return order, in_order(X, order)


def in_order(X: Array, order: Array) -> Array:
    """Return points in a new order; those of a mapped file that would fill the memory go into a temporary one."""
    backend = backend_of(X)
    if not is_mapped(X) or X.nbytes <= backend.memory_budget() // 4:
        return X[order]
    with tempfile.TemporaryFile(prefix="ies-gpu-") as file:  # stays as long as it is mapped
        ordered = np.memmap(file, dtype=X.dtype, mode="w+", shape=(len(order), X.shape[1]))
    step = max(1, backend.block_bytes() // (X.shape[1] * X.itemsize))
    for first in range(0, len(order), step):
        ordered[first : first + step] = X[order[first : first + step]]
    return ordered


def matrix_order(matrix: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of the rows of a symmetric matrix of affinities, none of them negative, found on the host.

    Each row is matched with the one that it is tied to most, pairs are added up and matched in turn, small groups
    first; what ties two groups is measured per pair of rows in them. Returned are the old row at each new place (n,),
    and the depth of the edge before each row (n + 1,): those of depth r or more are edges of groups of up to ``2**r``.
    """
    backend = backend_of(matrix.data)
    host, kernels = backend.to_host, host_of(backend).kernels
    parts = host(matrix.indptr).astype(np.int64), host(matrix.indices), host(matrix.data).astype(np.float32)
    n = matrix.shape[0]
    sizes, rounds = np.ones(n, dtype=np.float32), []
    generator = np.random.default_rng(n)
    while len(sizes) > FEWEST_GROUPS:
        visits = np.argsort(sizes + generator.uniform(0, 0.5, len(sizes)), kind="stable")
        mates = kernels.heavy_matching(*parts, (1 / sizes).astype(np.float32), visits)
        leaders = np.flatnonzero(mates >= np.arange(len(mates)))
        if len(leaders) > 0.9 * len(mates):  # a star, or what is like one
            break
        *parts, labels = kernels.contract_pairs(*parts, leaders, mates)
        sizes = np.bincount(labels, weights=sizes).astype(np.float32)
        rounds.append(labels)
    place, edges = np.arange(len(sizes)), np.full(len(sizes) + 1, len(rounds), dtype=np.int8)
    edges[-1] = END
    for depth in reversed(range(len(rounds))):
        group = place[rounds[depth]]
        order = np.argsort(group, kind="stable")
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        finer = np.full(len(group) + 1, depth, dtype=np.int8)
        finer[first], finer[-1] = edges[:-1], END
        place, edges = np.argsort(order), finer
    return np.argsort(place), edges
