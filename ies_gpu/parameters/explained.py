"""How much of some values a set of coordinates explains, by nearest neighbours and without labels, and the way back."""

from __future__ import annotations

import numpy as np

from ..backend import at_home, backend_of, to_device
from ..backend.array import Array
from ..backend.kernels.arrays import column_means, column_units
from ..findings import refusal
from ..validation import check_integer, check_number, check_real_array


@at_home
def unexplained_variance(X: Array, coordinates: Array, *, n_neighbors: int = 10, blur: float = 0.0) -> float:
    """Return the fraction of the variance of X that coordinates leave unexplained.

    Each point is predicted as the mean of its nearest neighbours in the coordinates, which are scaled to unit
    standard deviation. 0 means that the coordinates tell where a point is; 1, or a little more, that they tell
    nothing. No labels are needed.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The values to predict.
    coordinates : array-like of shape (n_samples, n_coordinates)
        The coordinates to predict them from.
    n_neighbors : int, default=10
        The number of neighbours, not counting the point itself.
    blur : float, default=0.0
        Noise to add to the coordinates first, in units of their standard deviations (with a fixed seed). What no longer
        explains anything after a blur of 0.01 was there only in digits that no picture shows.

    Returns
    -------
    float
        The unexplained fraction.
    """
    X = check_real_array("X", X, 2)
    Y = check_real_array("coordinates", coordinates, 2)
    if len(X) != len(Y):
        raise refusal("coordinates.rows", f"coordinates has {len(Y)} rows for {len(X)} points in X")
    for name, array in (("X", X), ("coordinates", Y)):
        if array.shape[1] == 0:
            text = f"{name} must have at least 1 column, got shape {tuple(array.shape)}"
            raise refusal(f"{name}.shape", text)
    Y = to_device(Y, backend_of(X))
    k = check_integer("n_neighbors", n_neighbors, low=1, high=len(X) - 1, why=f" for {len(X)} points")
    blur = check_number("blur", blur, high=1e100, closed=True)
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
                error = X[rows] - X[neighbours[rows]].mean(axis=1)
                left += float((error * error).sum())
    total = float((X * X).sum())
    return left / total if total > 0 else 1.0


def points_at(new: Array, X: Array, Y: Array, k: int) -> Array:
    """The same regression at other places: the mean of the k points with the nearest coordinates, in blocks."""
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
