"""The dimension of points from the distances to their nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend import at_home, backend_of
from ..backend.array import Array
from ..backend.sampling import sample_rows
from ..findings import refusal

SAMPLE, FEWEST = 2000, 300  # points whose neighbours among each other are looked at, and too few of them
WORK = 1e8  # numbers that may be compared for that: with 1,100 columns and more, too few points are left


@at_home
def levina_bickel_dimension(
    X: Array, neighbors: Sequence[int] = range(10, 21), average: str = "harmonic"
) -> np.ndarray:
    """Return the estimate of Levina and Bickel for each number k of neighbours, 3 or more and fewer than the points.

    At a point it is ``[1/(k-1) sum_{j<k} log(T_k / T_j)]^-1``, where ``T_j`` is the distance to the j-th nearest other
    point. The average over points is the inverse of the mean inverse (MacKay and Ghahramani), which is the maximum
    likelihood estimate of all points together, or the "mean", as in the paper.
    """
    backend = backend_of(X)
    with backend.active():
        xp = backend.xp
        distances = xp.sort(backend.nearest(X, max(neighbors))[0], axis=1)
        logs = xp.log(xp.where(distances > 0, distances, 1.0))
        # duplicates would put log 0 into the sums: their terms are left out of them, and of what they are divided by
        valid = xp.cumsum(distances > 0, axis=1)
        sums = xp.cumsum(logs, axis=1)
        found = []
        for k in neighbors:
            terms = valid[:, k - 2]
            kept = terms > 0
            inverse = (terms * logs[:, k - 1] - sums[:, k - 2])[kept] / terms[kept]
            if average == "mean":
                inverse = inverse[inverse > 0]  # equal distances to all neighbours say nothing
                found.append(float((1 / inverse).mean()) if len(inverse) else np.nan)
            else:
                found.append(1 / float(inverse.mean()) if bool((inverse > 0).any()) else np.nan)
    if not np.isfinite(found).all():
        text = "the neighbours in X are all equally far away (copies or a lattice)"
        raise refusal("X.grid", text, "use more neighbors")
    return np.array(found)


@at_home
def dimension_of_sample(X: Array) -> float | None:
    """Return the dimension of some points of X (n, D), in a moment; None where they are too few, or on a lattice.

    Noise adds dimensions, so a small number is a sure sign of a shape with few.
    """
    return dimension_of_rows(X[backend_of(X).asarray(dimension_rows(*X.shape))])


def dimension_rows(n: int, D: int) -> np.ndarray:
    """Which of n rows with D columns are in that sample, rising."""
    return sample_rows(n, min(SAMPLE, int((WORK / D) ** 0.5)), 0)


def dimension_of_rows(some: Array) -> float | None:
    """The dimension of such a sample, on the host: for so few points CuPy would compile a search tree, for 10 s."""
    if len(some) < FEWEST:
        return None
    try:
        return float(levina_bickel_dimension(backend_of(some).to_host(some)).mean())
    except ValueError:  # copies of one point, or a lattice
        return None
