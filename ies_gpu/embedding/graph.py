"""Neighbour graphs: which points are close, and how close, in which metric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import at_home, backend_of
from ..backend.array import Array, entry_rows, row_counts, row_slots, starts_of
from ..backend.audit import audit_graph
from ..backend.base import index_type
from ..backend.machine import cached_property
from ..backend.steps import report, step
from ..constraints import Words
from ..findings import first_few, option, refusal
from ..options import METRICS, OTHER_METRICS, explain_keywords
from ..validation import (
    check_array,
    check_integer,
    check_length,
    check_points,
    check_real_array,
    check_square_sparse,
    check_symmetric,
)
from .order import MAX_AXES, cell_starts, inverse_order, is_mapped, n_levels, principal_axes, spatial_order

CELL = 64  # points in a cell whose bounding box may prove that no neighbour lies in it
TILE_COLUMNS = 16_384
SPHERICAL = ("cosine", "correlation")  # chords between rows of unit length: the Euclidean code serves, on any device
PRECOMPUTED, AFFINITY = GIVEN = ("precomputed", "precomputed_affinity")  # of the estimators: X is a matrix of pairs
GROWTH = 1.125  # an array of the graph that is full becomes so many times as long
FILLED = 0.5  # share of distances of 0 from which on a dense matrix is a sparse one with zeros in its gaps


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
    >>> graph = ies_gpu.radius_graph([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]], radius=6)
    >>> graph.toarray()
    array([[0., 5., 0.],
           [5., 0., 0.],
           [0., 0., 0.]])
    """
    radius = check_length("radius", radius)
    X = points_in_metric(X, check_metric(metric))
    order = spatial_order(X)
    return permute(ordered_radius_graph(X[order], radius), inverse_order(order))


def check_metric(metric: Any, *more: str) -> str:
    return Words(*METRICS, *more, advice=OTHER_METRICS).check("metric", metric)


def points_in_metric(X: Array, metric: str) -> Array:
    """Return points whose Euclidean distances are those of the metric, checked not to be copies in it."""
    X = check_points(X)
    Z = to_euclidean(X, metric)
    if Z is not X and float((abs(Z - Z[:1])).max()) <= 1e-14:  # chords that are nothing but rounding
        text = f"X must not consist of {len(X)} copies of one point, and in {option('metric', metric)} it does: all "
        raise refusal("X.copies", f"{text}rows have the same direction")
    return Z


def to_euclidean(X: Array, metric: str) -> Array:
    """Return checked points whose Euclidean distances are those of the metric; others stay as they are.

    The chord between rows u and v of unit length is ``sqrt(2 - 2 cos(u, v))``; "correlation" centres each row first.
    """
    if metric not in SPHERICAL:
        return X
    backend = backend_of(X)
    rows = X - X.mean(axis=1, keepdims=True) if metric == "correlation" else X
    largest, small = (abs(each).max(axis=1, keepdims=True) for each in (X, rows))
    bad = small <= 1e-14 * largest  # nothing but rounding is left
    if bool(bad.any()):
        bad = backend.to_host(backend.xp.nonzero(bad[:, 0])[0])
        what = "all zeros" if metric == "cosine" else "constant"
        those = f"row {bad[0]} is {what}; drop it"
        if len(bad) > 1:
            those = f"{len(bad):,} are {what} ({first_few(bad)}); drop them"
        text = f"{option('metric', metric)} needs a direction for every row of X, but {those}"
        raise refusal("metric.direction", text)
    rows = rows / small
    return rows / backend.xp.linalg.norm(rows, axis=1, keepdims=True)


@step("graph", kernel="tile_graph", audit=lambda graph, X, radius, **_: audit_graph(X, graph, radius, backend_of(X)))
def ordered_radius_graph(X: Array, radius: float, *, diagonal: bool = False, storage: str = "float64") -> Array:
    """Return the radius graph of points in spatial order, ``diagonal`` with the zero distance of each to itself.

    Each block of rows is compared with the cells that its bounding box does not rule out. With ``storage="float32"``
    the pairs are the same; they are found by products in float32 and measured in float64, and the distances rounded.
    """
    backend = backend_of(X)
    xp = backend.xp
    compare = backend.kernels.tile_graph if storage == "float64" else backend.kernels.tile_graph_single
    n = len(X)
    Z, reach, unit = rescale_to_radius(radius, X)
    cells = Cells(Z, reach)
    with backend.active():
        if backend.is_remote:  # which may have a kernel for these points that needs no blocks
            starts = backend.asarray(cells.starts)
            pairs = backend.kernels.near_pairs(Z, starts, *cells.boxes, cells.limit, reach, diagonal, unit, storage)
            if pairs is not None:
                return csr(backend, pairs[2], pairs[1], pairs[0])
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

    Squares then neither overflow nor vanish, and no digit changes: pairs at exactly the radius stay there. A mapped
    file stays as it is unless its numbers are that large or small: a copy of it may not fit into memory.
    """
    if is_mapped(X) and 1e-8 < radius < 1e8:
        return X, radius, 1.0
    unit = math.ldexp(1.0, math.frexp(radius)[1])
    return X / unit, radius / unit, unit


class Cells:
    """Bounding boxes of consecutive runs of ordered points, and which of them are near others."""

    def __init__(self, Z: Array, radius: float) -> None:
        self.backend = backend = backend_of(Z)
        self.axes = principal_axes(Z) if Z.shape[1] > MAX_AXES else None
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
    """Rows of a graph, added in blocks to arrays that grow, so that no block is kept until all are there.

    NumPy's arrays grow in place: on Linux the pages of a large one are moved, not copied.
    """

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
                array.resize(room, refcheck=False)  # nobody else has seen it
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
    columns = inverse_order(order).astype(matrix.indices.dtype)[matrix.indices[slots]]
    result = backend.sparse.csr_matrix((matrix.data[slots], columns, indptr), shape=matrix.shape)
    result.sort_indices()
    return csr(backend, result.data, result.indices, result.indptr)


@explain_keywords
@at_home
def knn_graph(X: Array, *, n_neighbors: int) -> Array:
    """Return the distances from each point to its nearest neighbours.

    Two points are joined if either is among the nearest neighbours of the other, so some points have more neighbours
    than ``n_neighbors``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    n_neighbors : int
        The number of neighbours per point, not counting the point itself.

    Returns
    -------
    sparse matrix of shape (n_samples, n_samples)
        Euclidean distances in CSR format, as in :func:`radius_graph`.

    Examples
    --------
    >>> import ies_gpu
    >>> graph = ies_gpu.knn_graph([[0.0], [1.0], [3.0]], n_neighbors=1)
    >>> graph.toarray()
    array([[0., 1., 0.],
           [1., 0., 2.],
           [0., 2., 0.]])
    """
    X = check_points(X)
    k = check_integer("n_neighbors", n_neighbors, low=1, high=len(X) - 1, why=f" for {len(X)} points")
    with (backend := backend_of(X)).active():
        return graph_of_nearest(*backend.nearest(X, k))


def graph_of_nearest(distances: Array, neighbours: Array) -> Array:
    """Return the graph of nearest neighbours from the distances and numbers (n, k) of each point's nearest others."""
    backend, (n, k) = backend_of(distances), distances.shape
    xp = backend.xp
    rows = xp.repeat(xp.arange(n, dtype=xp.int64), k)
    columns, values = neighbours.reshape(-1).astype(xp.int64), distances.reshape(-1)
    keys = xp.concatenate([rows * n + columns, columns * n + rows])
    keys, first = xp.unique(keys, return_index=True)
    return from_pairs(backend, keys // n, keys % n, xp.concatenate([values, values])[first], n)


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


def from_pairs(backend: Any, rows: Array, columns: Array, data: Array, n: int) -> Array:
    """Return a CSR from its entries in the order of rows."""
    return csr(backend, data, columns, starts_of(row_counts(rows, n)))
