"""Rules for the bandwidth that look at distances alone: neighbours in a sample, the kernel sum, self-consistency."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.arrays import extent
from ..backend.sampling import sample_rows
from ..findings import option, refusal

QUERIES = 200
REACH = 3.0  # the radius of the graph in units of the bandwidth
DEGREE = 0.06  # share of all points that are neighbours of one, itself counted
FEWEST = 20  # neighbours, where that share would be less
CONSISTENCY_SAMPLE = 4000


class Distances(NamedTuple):
    """From a few points to all: ``rows`` (q,) of X on the host, ``table`` (q, n) on the device of X."""

    rows: np.ndarray
    table: Any


def subsample(X: Array, size: int, random_state: int) -> Array:
    """All points, or ``size`` of them drawn uniformly with the seed, in their order."""
    return X if len(X) <= size else X[backend_of(X).asarray(sample_rows(len(X), size, random_state))]


def sampled_distances(X: Array, *, queries: int = QUERIES, random_state: int = 0) -> Distances:
    """Distances from at most ``queries`` seeded points to all points of X (n, D), by differences: exact where equal."""
    backend = backend_of(X)
    xp, (n, D) = backend.xp, X.shape
    rows = sample_rows(n, queries, random_state)
    unit = extent(X)
    Z = (X - X[:1]) / unit
    table = xp.empty((len(rows), n))
    for block in backend.blocks(len(rows), 24.0 * n * D, "calibration"):
        with block as part:
            difference = Z[backend.asarray(rows[part])][:, None, :] - Z
            table[part] = unit * xp.sqrt((difference * difference).sum(axis=2))
    return Distances(rows, table)


def degree_bandwidth(distances: Distances, degree: float = DEGREE) -> float:
    """The smallest eps at which a sampled point has on average ``degree * n`` neighbours within 3 eps, itself counted.

    At least 20 neighbours (below 334 points 6 % would be fewer) or a third of the points (below 60), and one beside
    the point itself.
    """
    q, n = distances.table.shape
    wanted = int(np.ceil(q * max(degree * n, min(FEWEST, max(2.0, n / 3)))))
    xp = backend_of(distances.table).xp
    # mean degree is a count of pairs, so that the radius is an order statistic of all distances together
    radius = float(xp.sort(distances.table.reshape(-1))[wanted - 1])
    if radius == 0:
        text = f"more than {wanted / q / n:.0%} of all pairs of points are copies, so no bandwidth can be found"
        raise refusal("X.copies", text, f"drop the copies, or set {option('bandwidth')}")
    return radius / REACH


def mean_degree(distances: Distances, bandwidth: float) -> float:
    """Mean number of points within 3 eps of a sampled one, itself left out."""
    return float((distances.table <= REACH * bandwidth).sum() / len(distances.rows)) - 1


def bandwidth_grid(centre: float) -> np.ndarray:
    """Four steps per octave around a centre, from an eighth of it to four times as much."""
    return centre * 2.0 ** (np.arange(-12, 9) / 4)


def kernel_sum_slopes(distances: Distances, bandwidths: np.ndarray) -> np.ndarray:
    """``d log S / d log eps`` of ``S(eps) = sum_ij exp(-|x_i - x_j|^2 / eps^2)``: about d where eps fits the data.

    Small eps sees single points (slope 0), large eps one blob (slope 0); in between ``S`` grows like ``eps^d``.
    """
    xp = backend_of(distances.table).xp
    slopes = []
    for eps in bandwidths:
        squared = (distances.table / eps) ** 2
        kernel = xp.exp(-squared)
        slopes.append(float(2 * (squared * kernel).sum() / kernel.sum()))
    return np.array(slopes)


def neighbours_of(distances: Distances, query: int, bandwidth: float) -> tuple[Any, Any]:
    """Rows within 3 eps of a sampled point, itself left out, and their weights ``exp(-r^2/eps^2)``."""
    xp = backend_of(distances.table).xp
    own = distances.table[query]
    within = own <= REACH * bandwidth
    within[int(distances.rows[query])] = False
    near = xp.nonzero(within)[0]
    return near, xp.exp(-((own[near] / bandwidth) ** 2))


def consistency_curve(X: Array, intrinsic_dim: int, bandwidths: np.ndarray, *, random_state: int = 0) -> np.ndarray:
    """How far the Laplacian's own metric is from the metric of the data, for each eps; the smallest is best.

    At sampled points the data are projected onto the plane of the local principal directions, where the co-metric
    ``1/2 (4/eps^2) sum_j P_ij (z_j - z_i)(z_j - z_i)'`` ought to be the identity. The curve is the mean spectral norm
    of the difference (after Perrault-Joncas, Meila and McQueen 2017), on at most 4,000 points.
    """
    backend = backend_of(X)
    xp = backend.xp
    X = subsample(X, CONSISTENCY_SAMPLE, random_state)
    X = X - X.mean(axis=0)
    distances = sampled_distances(X, random_state=random_state)
    curve = []
    for eps in bandwidths:
        w = _kernel_products(X, eps, xp.ones(len(X)))
        wt = _kernel_products(X, eps, 1 / w) / w
        norms = [_inconsistency(X, distances, k, eps, w, wt, intrinsic_dim) for k in range(len(distances.rows))]
        curve.append(float(np.mean(norms)))
    return np.array(curve)


def _inconsistency(X: Array, distances: Distances, query: int, eps: float, w: Array, wt: Array, d: int) -> float:
    backend = backend_of(X)
    xp, row = backend.xp, int(distances.rows[query])
    near, kernel = neighbours_of(distances, query, eps)
    if len(near) <= d:
        return 1.0  # a point without neighbours has co-metric 0
    share = kernel / kernel.sum()
    axes = xp.linalg.svd(xp.sqrt(share)[:, None] * (X[near] - share @ X[near]), full_matrices=False)[2][:d]
    transition = kernel / (w[row] * w[near] * wt[row])
    z = (X[near] - X[row]) @ axes.T
    H = (2 / eps**2) * (transition[:, None] * z).T @ z
    return float(xp.abs(xp.linalg.eigvalsh(H) - 1).max())


def _kernel_products(X: Array, eps: float, vector: Array) -> Array:
    """``K v`` for the Gaussian kernel within 3 eps, in blocks of rows."""
    backend = backend_of(X)
    xp, n = backend.xp, len(X)
    Z = X / eps
    squares, out = (Z * Z).sum(axis=1), xp.empty(n)
    for block in backend.blocks(n, 32.0 * n, "calibration"):
        with block as rows:
            squared = xp.maximum(squares[rows][:, None] + squares - 2 * (Z[rows] @ Z.T), 0)
            out[rows] = xp.where(squared <= REACH**2, xp.exp(-squared), 0) @ vector
    return out
