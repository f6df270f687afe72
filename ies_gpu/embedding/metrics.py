"""Distances other than the Euclidean ones: Euclidean between other points, or measured by scikit-learn on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..errors import first_few
from ..findings import option, refusal

SPHERICAL = ("cosine", "correlation")  # chords between rows of unit length: the Euclidean code serves, on any device
MEASURED = ("manhattan", "chebyshev", "canberra", "braycurtis", "hamming", "haversine")
METRICS = ("euclidean", *SPHERICAL, *MEASURED)
PRECOMPUTED = "precomputed"


def in_metric(X: Array, metric: str) -> Array:
    """Checked points whose Euclidean distances are those of the metric; others, and measured ones, stay as they are.

    The chord between rows u and v of unit length is ``sqrt(2 - 2 cos(u, v))``; "correlation" centres each row first.
    """
    if metric not in SPHERICAL:
        return X
    backend = backend_of(X)
    xp = backend.xp
    rows = X - X.mean(axis=1, keepdims=True) if metric == "correlation" else X
    largest = abs(X).max(axis=1, keepdims=True)
    small = abs(rows).max(axis=1, keepdims=True)
    bad = small <= 1e-14 * largest  # nothing but rounding is left
    if bool(bad.any()):
        rows = backend.to_host(xp.nonzero(bad[:, 0])[0])
        shown = first_few(rows)
        what = "all zeros" if metric == "cosine" else "constant"
        those = (
            f"row {shown} is {what}; drop it" if len(rows) == 1 else f"{len(rows):,} are {what} ({shown}); drop them"
        )
        text = f"{option('metric', metric)} needs a direction for every row of X, but {those}"
        raise refusal("metric.direction", text)
    rows = rows / small
    return rows / xp.linalg.norm(rows, axis=1, keepdims=True)


def measured_graph(X: np.ndarray, radius: float, metric: str) -> Any:
    """Distances between all pairs within the radius as SciPy's CSR, sorted and without a diagonal."""
    from sklearn.neighbors import NearestNeighbors

    check_measurable("X", X, metric)
    algorithm = "brute" if metric == "braycurtis" else "auto"  # a tree relies on the triangle inequality
    graph = (
        NearestNeighbors(radius=radius, metric=metric, algorithm=algorithm)
        .fit(X)
        .radius_neighbors_graph(mode="distance")
    )
    graph.sort_indices()
    return graph


def measured_sums(
    new: np.ndarray,
    X: np.ndarray | None,
    V: np.ndarray,
    weigh: Callable[[np.ndarray], np.ndarray],
    metric: str,
    *,
    bytes_a_block: int,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """``sum_j weigh(distance to x_j) V_j`` for each new point, in blocks; precomputed distances are ``new`` itself."""
    from sklearn.metrics import pairwise_distances

    check_measurable("X_new", new, metric)
    sums = np.empty((len(new), V.shape[1]))
    step = max(1, bytes_a_block // (24 * len(V)))
    for first in range(0, len(new), step):
        rows = slice(first, min(first + step, len(new)))
        distances = new[rows] if metric == PRECOMPUTED else pairwise_distances(new[rows], X, metric=metric)
        sums[rows] = weigh(distances) @ V
        if progress is not None:
            progress(rows.stop, len(new))
    return sums


def measured_nearest(new: np.ndarray, X: np.ndarray | None, metric: str) -> np.ndarray:
    """The number of the training point nearest to each of some points."""
    from sklearn.metrics import pairwise_distances_argmin

    if metric == PRECOMPUTED:
        return new.argmin(axis=1)
    return pairwise_distances_argmin(new, X, metric=metric)


def check_measurable(name: str, X: np.ndarray, metric: str) -> None:
    """The great circle is defined for latitude and longitude only."""
    if metric == "haversine" and X.shape[1] != 2:
        text = f"{option('metric', metric)} needs 2 columns, latitude and longitude in radians"
        raise refusal("metric.columns", text, f"{name} has {X.shape[1]}")
    if metric == "haversine" and len(X) and (abs(X) > (np.pi / 2 + 1e-6, 2 * np.pi + 1e-6)).any():
        text = f"{option('metric', metric)} needs latitude, from -pi/2 to pi/2, before longitude, both in radians; "
        text += f"{name} has values up to {abs(X[:, 0]).max():.3g} and {abs(X[:, 1]).max():.3g}"
        raise refusal("metric.range", text, "np.radians converts degrees")
