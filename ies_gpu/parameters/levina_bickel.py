"""The dimension of points from the distances to their nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..backend import at_home, backend_of
from ..validation import check_choice, check_integer, check_points


class NeighborDimension(NamedTuple):
    """The dimension, that of each number of neighbours, and how many zero distances were left out."""

    dimension: float
    by_neighbors: np.ndarray
    zero_distances: int


@at_home
def levina_bickel_dimension(
    X: Any, *, neighbors: Iterable[int] = range(10, 21), average: str = "harmonic"
) -> NeighborDimension:
    """The maximum likelihood dimension of Levina and Bickel (2005).

    At a point, ``[1/(k-1) sum_{j<k} log(T_k / T_j)]^-1`` with ``T_j`` the distance to the j-th nearest other point.

    Parameters
    ----------
    X : array (n, D)
    neighbors : iterable of int
        Values of k, 3 or more each; the estimates are averaged over them.
    average : {"harmonic", "mean"}
        Over points: the inverse of the mean inverse (MacKay and Ghahramani), which is the maximum likelihood estimate
        of all points together, or the mean, as Levina and Bickel did.
    """
    check_choice("average", average, ("harmonic", "mean"))
    if not isinstance(neighbors, Iterable):
        raise TypeError(f"neighbors must be several numbers, e.g. range(10, 21), got {neighbors!r}")
    sizes = [check_integer("neighbors", k, low=3) for k in neighbors]
    if not sizes:
        raise ValueError("neighbors must name at least one number, e.g. range(10, 21)")
    X = check_points(X)
    if max(sizes) >= len(X):
        raise ValueError(f"neighbors must be below the number of points, {len(X)}, got {max(sizes)}")
    backend = backend_of(X)
    with backend.active():
        xp = backend.xp
        distances = xp.sort(backend.nearest(X, max(sizes))[0], axis=1)
        logs = xp.log(xp.where(distances > 0, distances, 1.0))
        # duplicates would put log 0 into the sums: their terms are left out of them, and of what they are divided by
        valid = xp.cumsum(distances > 0, axis=1)
        sums = xp.cumsum(logs, axis=1)
        found = []
        for k in sizes:
            terms = valid[:, k - 2]
            kept = terms > 0
            inverse = (terms * logs[:, k - 1] - sums[:, k - 2])[kept] / terms[kept]
            if average == "mean":
                inverse = inverse[inverse > 0]  # equal distances to all neighbours say nothing
                found.append(float((1 / inverse).mean()) if len(inverse) else np.nan)
            else:
                found.append(1 / float(inverse.mean()) if bool((inverse > 0).any()) else np.nan)
        zeros = int((distances == 0).sum())
    if not np.isfinite(found).all():
        raise ValueError(
            "X has no k among neighbors with different distances (copies or a lattice); take more neighbors"
        )
    return NeighborDimension(float(np.mean(found)), np.array(found), zeros)
