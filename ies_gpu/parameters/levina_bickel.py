"""The dimension of points from the distances to their nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..backend import at_home, backend_of
from ..backend.array import Array
from ..backend.sampling import sample_rows
from ..findings import refusal
from ..validation import check_choice, check_integer, check_members, check_points

SAMPLE, FEWEST = 2000, 300  # points whose neighbours among each other are looked at, and too few of them
WORK = 1e8  # numbers that may be compared for that: with 1,100 columns and more, too few points are left


class NeighborDimension(NamedTuple):
    """A dimension from the distances to nearest neighbours.

    Attributes
    ----------
    dimension : float
        The estimate, averaged over the numbers of neighbours.
    by_neighbors : ndarray of shape (n_values,)
        The estimate for each number of neighbours.
    zero_distances : int
        How many zero distances were left out.
    """

    dimension: float
    by_neighbors: np.ndarray
    zero_distances: int


@at_home
def levina_bickel_dimension(
    X: Array, *, neighbors: Iterable[int] = range(10, 21), average: str = "harmonic"
) -> NeighborDimension:
    """Estimate the intrinsic dimension by the maximum likelihood of Levina and Bickel.

    At a point the estimate is ``[1/(k-1) sum_{j<k} log(T_k / T_j)]^-1``, where ``T_j`` is the distance to the j-th
    nearest other point [1]_.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    neighbors : iterable of int, default=range(10, 21)
        The values of k, each at least 3. The estimates are averaged over them.
    average : {"harmonic", "mean"}, default="harmonic"
        How to average over points: the inverse of the mean inverse (MacKay and Ghahramani), which is the maximum
        likelihood estimate of all points together, or the mean, as in the paper.

    Returns
    -------
    NeighborDimension
        The estimate as ``dimension``, and the one for each k.

    References
    ----------
    .. [1] E. Levina and P. J. Bickel, "Maximum likelihood estimation of intrinsic dimension", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> import ies_gpu
    >>> plane = np.random.default_rng(0).random((500, 2))
    >>> round(ies_gpu.levina_bickel_dimension(plane).dimension)
    2
    """
    check_choice("average", average, ("harmonic", "mean"))
    several = check_members("neighbors", neighbors, "several numbers, e.g. range(10, 21)")
    sizes = [check_integer("neighbors", k, low=3) for k in several]
    if not sizes:
        raise refusal("neighbors.empty", "neighbors must contain at least one number, e.g. range(10, 21)")
    X = check_points(X)
    if max(sizes) >= len(X):
        raise refusal("neighbors.range", f"neighbors must be below the number of points, {len(X)}, got {max(sizes)}")
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
        text = "the neighbours in X are all equally far away (copies or a lattice)"
        raise refusal("X.grid", text, "use more neighbors")
    return NeighborDimension(float(np.mean(found)), np.array(found), zeros)


@at_home
def dimension_of_sample(X: Array) -> float | None:
    """The same for some points of X (n, D), in a moment; None where they are too few, or on a lattice.

    Noise adds dimensions, so a small number is a sure sign of a shape with few.
    """
    return dimension_of_rows(X[backend_of(X).asarray(dimension_rows(*X.shape))])


def dimension_rows(n: int, D: int) -> np.ndarray:
    """Which of n rows with D columns are in that sample, rising."""
    return sample_rows(n, min(SAMPLE, int((WORK / D) ** 0.5)), 0)


def dimension_of_rows(some: Array) -> float | None:
    """The dimension of such a sample."""
    if len(some) < FEWEST:
        return None
    try:
        return levina_bickel_dimension(some).dimension
    except ValueError:  # copies of one point, or a lattice
        return None
