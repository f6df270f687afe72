"""How much of some values a set of coordinates explains, by nearest neighbours and without labels, and the way back."""

from __future__ import annotations

import numpy as np

from ..backend import at_home, backend_of, to_device
from ..backend.array import Array, column_means, column_units
from ..validation import check_integer, check_real_array


@at_home
def unexplained_variance(X: Array, coordinates: Array, *, n_neighbors: int = 10, blur: float = 0.0) -> float:
    """Return the fraction of the variance of X (n, D) that coordinates (n, s) leave unexplained.

    Each point is predicted as the mean of its nearest neighbours in the coordinates, which are scaled to unit standard
    deviation. 0 means that the coordinates tell where a point is; 1, or a little more, that they tell nothing. ``blur``
    is noise to add to the coordinates, in standard deviations: what 0.01 of it hides, no picture shows.
    """
    X = check_real_array("X", X, 2)
    Y = to_device(check_real_array("coordinates", coordinates, 2), backend_of(X))
    k = check_integer("n_neighbors", n_neighbors, low=1, high=len(X) - 1, why=f" for {len(X)} points")
    backend = backend_of(X)
    xp = backend.xp
    X = X - column_means(X)
    X = X / (float(xp.abs(X).max()) or 1.0)  # squares neither overflow nor vanish
    unit = column_units(Y)
    with backend.active():
        Y = Y / unit
        if blur > 0:
            Y = Y + blur * backend.asarray(np.random.default_rng(0).normal(size=Y.shape))
        neighbours = backend.nearest(Y, k)[1]
        left = 0.0
        for block in backend.blocks(len(X), 8.0 * (k + 2) * X.shape[1], "scan"):
            with block as rows:
                error = X[rows] - sum(X[near] for near in neighbours[rows].T) / k  # quicker than a mean
                left += float((error * error).sum())
    total = float((X * X).sum())
    return left / total if total > 0 else 1.0


def points_at(new: Array, X: Array, Y: Array, k: int) -> Array:
    """Return the mean of the k points of X with the nearest coordinates Y at other places, in blocks."""
    backend = backend_of(X)
    xp = backend.xp
    unit, found = column_units(Y), xp.empty((len(new), X.shape[1]))
    Z = Y / unit
    half = 0.5 * (Z * Z).sum(axis=1)
    for block in backend.blocks(len(new), 8.0 * (3 * len(Z) + (k + 1) * X.shape[1]), "inverse"):
        with block as rows:
            apart = half - (new[rows] / unit) @ Z.T
            nearest = xp.argpartition(apart, k - 1, axis=1)[:, :k]
            furthest = xp.take_along_axis(apart, nearest, axis=1).max(axis=1)[:, None]
            # as in nearest_by_products: CuPy's kernel has no barriers
            if backend.is_remote and int((apart < furthest).sum(axis=1).max()) >= k:
                nearest = xp.argsort(apart, axis=1)[:, :k]
            found[rows] = X[nearest].mean(axis=1)
    return found
