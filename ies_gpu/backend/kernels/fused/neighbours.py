"""Points and their neighbours: the order in space, and pairs within a radius; :mod:`..plain` says what is returned."""

import math
import threading

import numpy as np

from ...array import Array
from .. import plain
from .tasks import compiled, in_threads

SUBTREES = 5  # levels of the order in space that are cut one by one: then 32 tasks, each in its own cache
FEW = 20  # coordinates up to which direct differences beat the matrix product
BLOCK = 256  # columns whose squared distances stay in the first-level cache
TILE_ROWS = 32  # rows in one task of the graph


@compiled()
def select(keys, places, low, high, k, seed):
    """Move the places so that those before position k have keys no larger, and those after it no smaller."""
    high -= 1
    while low < high:
        # median of three: at the ends and at a random place, so that no order of the points is a bad one
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        x, y, z = keys[low], keys[low + seed % (high - low + 1)], keys[high]
        pivot = max(min(x, y), min(max(x, y), z))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                places[i], places[j] = places[j], places[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return


@compiled()
def widest_side(points, places, low, high):
    best, widest = 0, -1.0
    for k in range(points.shape[1]):
        least, most = np.inf, -np.inf
        for p in range(low, high):
            value = points[places[p], k]
            least, most = min(least, value), max(most, value)
        if most - least > widest:
            best, widest = k, most - least
    return best


@compiled(entry=True)
def cut_cells(Z, order, level, cell, until, points, places, keys):
    """Cut one cell of a level at its median, its halves and so on, down to level ``until``."""
    n = len(Z)
    begin, end = (n * cell) >> level, (n * (cell + 1)) >> level
    for p in range(end - begin):  # a copy of the cell: from here on its points are close in memory
        places[p] = p
        for k in range(Z.shape[1]):
            points[p, k] = Z[order[begin + p], k]
    for depth in range(level, until):
        for part in range(cell << (depth - level), (cell + 1) << (depth - level)):
            low, high = ((n * part) >> depth) - begin, ((n * (part + 1)) >> depth) - begin
            middle = ((n * (2 * part + 1)) >> (depth + 1)) - begin
            if middle <= low or middle >= high:
                continue
            side = widest_side(points, places, low, high)
            for p in range(low, high):
                keys[p] = points[places[p], side]
            select(keys, places, low, high, middle, part)
    for p in range(end - begin):
        places[p] = order[begin + places[p]]
    for p in range(end - begin):
        order[begin + p] = places[p]


def kd_order(Z: Array, levels: int) -> Array:
    """Return the cells of plain, up to ties; the order within the last cells is not sorted."""
    Z, order, level = np.ascontiguousarray(Z), np.arange(len(Z)), 0
    while level < levels:
        until = levels if level == SUBTREES else level + 1

        def task(cell: int, _: int, level: int = level, until: int = until) -> None:
            size = ((len(Z) * (cell + 1)) >> level) - ((len(Z) * cell) >> level)
            scratch = np.empty((size, Z.shape[1])), np.empty(size, dtype=np.int64), np.empty(size)
            cut_cells(Z, order, level, cell, until, *scratch)

        in_threads(task, 1 << level, 1)
        level = until
    return order


@compiled()
def squared_distances(rows, i, columns, start, stop, squared):
    """From row i to a block of columns (given as D x c), summed in the order of the coordinates: the same both ways."""
    # slices: an index that begins at 0 needs no check of its sign, which would keep the loops from being vectorised
    D = len(columns)
    x, u = rows[i, 0], columns[0, start:stop]
    for c in range(stop - start):
        squared[c] = (x - u[c]) * (x - u[c])
    for k in range(2, D, 2):  # two coordinates in one pass
        x, y = rows[i, k - 1], rows[i, k]
        u, v = columns[k - 1, start:stop], columns[k, start:stop]
        for c in range(stop - start):
            squared[c] = (squared[c] + (x - u[c]) * (x - u[c])) + (y - v[c]) * (y - v[c])
    if D % 2 == 0:
        x, u = rows[i, D - 1], columns[D - 1, start:stop]
        for c in range(stop - start):
            squared[c] += (x - u[c]) * (x - u[c])


@compiled(entry=True)
def ball_task(rows, columns, limit, first, last, squared, counts, indices, distances):
    """Pairs of a few rows from direct differences, and how many they are; there must be room for all."""
    position = 0
    for i in range(first, last):
        before = position
        for start in range(0, columns.shape[1], BLOCK):
            stop = min(columns.shape[1], start + BLOCK)
            squared_distances(rows, i, columns, start, stop, squared)
            count = 0
            for c in range(stop - start):
                count += squared[c] <= limit
            if count == 0:
                continue
            for c in range(stop - start):
                if squared[c] <= limit:
                    indices[position] = start + c
                    distances[position] = math.sqrt(squared[c])
                    position += 1
        counts[i - first] = position - before
    return position


def tile_graph(rows: Array, columns: Array, radius: float) -> tuple[Array, ...]:
    if not len(rows) or not len(columns):
        return np.zeros(len(rows), dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=rows.dtype)
    if rows.shape[1] <= FEW:
        wide, across = (np.ascontiguousarray(points, dtype=np.float64) for points in (rows, columns.T))
        limit, memory = float(radius) * float(radius), threading.local()

        def task(first: int, last: int) -> Array:
            if not hasattr(memory, "indices"):  # of which only what is written becomes real memory
                memory.squared, memory.indices = np.empty(BLOCK), np.empty(TILE_ROWS * len(columns), dtype=np.int64)
                memory.distances = np.empty(TILE_ROWS * len(columns), dtype=rows.dtype)
            counts, found = np.empty(last - first, dtype=np.int64), (memory.indices, memory.distances)
            used = ball_task(wide, across, limit, first, last, memory.squared, counts, *found)
            return counts, *(part[:used].copy() for part in found)

    else:
        rows, columns = np.ascontiguousarray(rows), np.ascontiguousarray(columns)
        a, b, aa, bb, scale = plain.centred(rows, columns)

        def task(first: int, last: int) -> Array:
            part = slice(first, last)
            return plain.pairs_within(radius, rows[part], columns, a[part], b, aa[part], bb, scale)

    counts, indices, distances = zip(*in_threads(task, len(rows), TILE_ROWS), strict=True)
    return np.concatenate(counts), np.concatenate(indices), np.concatenate(distances)


tile_graph_single = tile_graph  # on a CPU differences in float64 are as fast
