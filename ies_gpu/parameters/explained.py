"""How much of some values a set of coordinates explains, by nearest neighbours and without labels."""

from __future__ import annotations

from typing import Any

from ..backend import at_home, backend_of
from ..validation import check_integer, check_real_array


@at_home
def unexplained_variance(X: Any, coordinates: Any, *, n_neighbors: int = 10) -> float:
    """Fraction of the variance of X that a leave-one-out nearest-neighbour regression on coordinates leaves (FVU).

    Each point is predicted as the mean of its neighbours in the coordinates, scaled to unit standard deviation. 0 means
    that the coordinates tell where a point is; 1 (or a little more) that they tell nothing. No labels are needed.

    Parameters
    ----------
    X : array (n, D)
    coordinates : array (n, s)
    n_neighbors : int
    """
    X = check_real_array("X", X, 2)
    Y = check_real_array("coordinates", coordinates, 2)
    if len(X) != len(Y):
        raise ValueError(f"coordinates has {len(Y)} rows for {len(X)} points in X")
    k = check_integer("n_neighbors", n_neighbors, low=1, high=len(X) - 1, why=f" for {len(X)} points")
    backend = backend_of(X)
    xp = backend.xp
    X = X - X.mean(axis=0)
    X = X / (float(xp.abs(X).max()) or 1.0)  # squares neither overflow nor vanish
    spread = Y.std(axis=0)
    with backend.active():
        neighbours = backend.nearest(Y / xp.where(spread > 0, spread, 1), k)[1]
        left = 0.0
        for block in backend.blocks(len(X), 8.0 * (k + 2) * X.shape[1], "scan"):
            with block as rows:
                error = X[rows] - X[neighbours[rows]].mean(axis=1)
                left += float((error * error).sum())
    total = float((X * X).sum())
    return left / total if total > 0 else 1.0
