"""Nearest neighbours: what the backends share, and an exact search without a tree, for points with many columns."""

from __future__ import annotations

from typing import Any

from .array import Array


def without_self(distances: Array, neighbours: Any, numbers: Any) -> tuple[Array, Array]:
    """The k nearest other points, from the k + 1 nearest (r, k + 1) of the points with these numbers (r,).

    The point itself need not come first among equal points, nor be there at all.
    """
    other = neighbours != numbers[:, None]
    other[other.all(axis=1), -1] = False
    shape = len(numbers), distances.shape[1] - 1
    return distances[other].reshape(shape), neighbours[other].reshape(shape)


def nearest_by_products(X: Array, centred: Any, squares: Any, rows: slice, k: int, xp: Any) -> tuple[Array, Array]:
    """Distances and numbers (r, k) of the k nearest other points of some rows, rising.

    Matrix products of centred points are off by a few roundings of the largest norm. They only rule points out: what
    they leave, k points per row and hardly more, is measured again by differences.

    Parameters
    ----------
    X, centred : array (n, D)
    squares : array (n,)
        Squared lengths of the centred points.
    """
    own = xp.arange(rows.start, rows.stop)
    squared = squares[rows][:, None] + squares - 2 * (centred[rows] @ centred.T)
    squared[own - rows.start, own] = xp.inf
    # off by the slack at most: the true k-th is no further than this k-th and the slack, so it shows within two
    slack = (64 + 4 * X.shape[1]) * float(xp.finfo(X.dtype).eps) * squares.max()
    for selected in (lambda: xp.partition(squared, k - 1, axis=1), lambda: xp.sort(squared, axis=1)):
        i, j = xp.nonzero(squared <= selected()[:, k - 1 : k] + 2 * slack)
        counts = xp.bincount(i, minlength=len(own))
        # threads of CuPy's partition hand each other numbers without a barrier: a k-th that is too low would show here
        if int(counts.min()) >= k:
            break
    difference = X[i + rows.start] - X[j]
    distance = xp.sqrt((difference * difference).sum(axis=1))
    order = xp.argsort(distance)
    order = order[xp.argsort(i[order])]  # stable: by row, and within a row by distance
    first = order[(xp.cumsum(counts) - counts)[:, None] + xp.arange(k)]
    return distance[first], j[first]
