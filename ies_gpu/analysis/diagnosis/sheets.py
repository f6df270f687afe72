"""Sheets of a map that meet: neighbourhoods in the map that are not connected in the graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from ...backend.array import Array

BLOCK = 2_000  # neighbourhoods at a time
SHARE = 0.2  # of a neighbourhood that a second sheet must hold


class Sheets(NamedTuple):
    """Pairs of points on different sheets: those at an angle (p, 2) with the angles (p,) in degrees, and the others."""

    crossings: np.ndarray
    angles: np.ndarray
    overlaps: np.ndarray


def find_sheets(adjacency: Array, near: np.ndarray, centres: np.ndarray, planes: np.ndarray, angle: float) -> Sheets:
    """Find points whose neighbourhood in the map falls into two parts in the graph, and how their planes meet.

    Parameters
    ----------
    adjacency : CSR (n, n)
        The graph.
    near : array (n, k) of int
        Nearest points in the map.
    centres : array of int
        Points to look at.
    planes : array (n, s, d)
        Orthonormal bases of the tangent planes in the map.
    angle : float
        Two planes that differ by at least this many degrees cross. With ``s = d`` there is only one plane, so none do.
    """
    parts = [_partners(adjacency, near, centres[i : i + BLOCK]) for i in range(0, len(centres), BLOCK)]
    pairs = np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)
    cosines = np.linalg.svd(planes[pairs[:, 0]].transpose(0, 2, 1) @ planes[pairs[:, 1]], compute_uv=False)
    between = np.degrees(np.arccos(np.clip(cosines.min(axis=1, initial=1.0), -1.0, 1.0)))
    crossing = between >= angle
    return Sheets(pairs[crossing], between[crossing], pairs[~crossing])


def _partners(adjacency: Array, near: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """For each centre with a second sheet nearby: itself and the nearest point of that sheet (p, 2)."""
    balls = np.column_stack([centres, near[centres]])
    count, size = balls.shape
    first, second = np.triu_indices(size, 1)
    linked = np.asarray(adjacency[balls[:, first].ravel(), balls[:, second].ravel()]).reshape(count, -1) != 0
    which, pair = np.nonzero(linked)
    # one graph with a node for each place of each ball, so that all parts are found at once
    rows, columns = which * size + first[pair], which * size + second[pair]
    graph = scipy.sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(count * size,) * 2)
    labels = connected_components(graph.tocsr(), directed=False)[1].reshape(count, size)
    sizes = np.bincount(labels.ravel())[labels]
    foreign = (labels != labels[:, :1]) & (sizes >= max(2, SHARE * size))
    own = sizes[:, 0] >= max(2, SHARE * size)
    found = foreign.any(axis=1) & own
    return np.column_stack([centres[found], balls[found, foreign[found].argmax(axis=1)]])
