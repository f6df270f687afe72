"""Distances from sampled points, and the bandwidth that gives a point its share of neighbours."""

from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array, count_true, extent, few_on_host, on_host, sample_rows
from ..findings import option, refusal

QUERIES = 200
REACH = 3.0  # the radius of the graph in units of the bandwidth
DEGREE = 0.06  # share of all points that are neighbours of one, itself counted
FEWEST = 20  # neighbours, where that share would be less


class Distances(NamedTuple):
    """From a few points to all: ``rows`` (q,) of X on the host, ``table`` (q, n) on the device of X if it is large."""

    rows: np.ndarray
    table: Any


def sampled_distances(X: Array, *, queries: int = QUERIES, random_state: int = 0) -> Distances:
    """Distances from at most ``queries`` seeded points to all points of X (n, D), by differences: exact where equal."""
    X = few_on_host(X)
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


def degree_bandwidth(distances: Distances) -> float:
    """Return the smallest eps at which a sampled point has on average 6% of all points within 3 eps, itself counted."""
    q, n = distances.table.shape
    # at least 20 (below 334 points 6% would be fewer) or a third (below 60), and one beside the point itself
    wanted = int(np.ceil(q * max(DEGREE * n, min(FEWEST, max(2.0, n / 3)))))
    xp = backend_of(distances.table).xp
    # mean degree is a count of pairs, so that the radius is an order statistic of all distances together
    radius = float(xp.sort(distances.table.reshape(-1))[wanted - 1])
    if radius == 0:
        text = f"more than {wanted / q / n:.0%} of all pairs of points are copies, so no bandwidth can be found"
        raise refusal("X.copies", text, f"drop the copies, or set {option('bandwidth')}")
    return radius / REACH


def mean_degree(distances: Distances, bandwidth: float) -> float:
    """Mean number of points within 3 eps of a sampled one, itself left out."""
    return float(count_true(distances.table <= REACH * bandwidth) / len(distances.rows)) - 1


def own_shares(distances: Distances, bandwidth: float) -> np.ndarray:
    """Share (q,) of each sampled point in the weights around it: how often a walk with self-loops stays there."""
    xp = backend_of(distances.table).xp
    rows, columns = xp.nonzero(distances.table <= REACH * bandwidth)
    weights = xp.exp(-((distances.table[rows, columns] / bandwidth) ** 2))
    return 1 / np.bincount(on_host(rows), weights=on_host(weights))


def neighbours_of(distances: Distances, query: int, bandwidth: float) -> tuple[Any, Any]:
    """Rows within 3 eps of a sampled point, itself left out, and their weights ``exp(-r^2/eps^2)``."""
    xp = backend_of(distances.table).xp
    own = distances.table[query]
    within = own <= REACH * bandwidth
    within[int(distances.rows[query])] = False
    near = xp.nonzero(within)[0]
    return near, xp.exp(-((own[near] / bandwidth) ** 2))
