"""The order of points in space: a KD-tree with cuts at medians."""

from __future__ import annotations

import numpy as np

from ...array import Array
from .tasks import compiled, in_threads

SUBTREES = 5  # levels of the order in space that are cut one by one: then 32 tasks, each in its own cache


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
    return


@compiled()
def widest_side(points, places, low, high):
    """The coordinate with the largest extent over some points, the first of equal ones."""
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
    """Cut one cell of a level, its halves and so on, down to level ``until``; the order changes within the cell."""
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
    """See :func:`.plain.kd_order`: the same cells, up to ties; the order within the last cells is not sorted."""
    Z = np.ascontiguousarray(Z)
    order = np.arange(len(Z))
    level = 0
    while level < levels:
        until = levels if level == SUBTREES else level + 1

        def task(cell: int, _: int, level: int = level, until: int = until) -> None:
            size = ((len(Z) * (cell + 1)) >> level) - ((len(Z) * cell) >> level)
            scratch = np.empty((size, Z.shape[1])), np.empty(size, dtype=np.int64), np.empty(size)
            cut_cells(Z, order, level, cell, until, *scratch)

        in_threads(task, 1 << level, 1)
        level = until
    return order
