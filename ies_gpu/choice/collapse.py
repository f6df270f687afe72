"""Where a map throws distant points together: the two numbers at each point behind every finding of a diagnosis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backend import backend_of

COLLAPSED = 3.0  # a point with a larger ratio is collapsed
FLAT = 0.15  # a point with a smaller ratio of singular values is flat
SMALLEST = 0.005  # share of the points from which on a finding is one
NEIGHBORS = 15


def evenly_steep(Y: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """Coordinates of unit length, scaled so that all have mean gradients of the same length."""
    every = Y / np.sqrt(np.maximum(eigenvalues, 1e-300))
    return every / (float(np.abs(every).max()) or 1.0)


class Collapse(NamedTuple):
    """How far apart the neighbours of each point in a map really are.

    Attributes
    ----------
    ratio : ndarray of shape (n,)
        Their median distance in all eigenvectors, over ``within``.
    in_map, in_all : ndarray of shape (n, k)
        The k nearest points of each in the map, and in all eigenvectors.
    within : ndarray of shape (n,)
        The median distance to the latter.
    """

    ratio: np.ndarray
    in_map: np.ndarray
    in_all: np.ndarray
    within: np.ndarray


def collapse_of(every: np.ndarray, members: list[int], k: int) -> Collapse:
    """Return how far apart the k neighbours of each point in a map are, in all eigenvectors."""
    backend = backend_of(every)
    with backend.active():
        _, in_map = backend.nearest(np.ascontiguousarray(every[:, members]), k)
        distances, in_all = backend.nearest(every, k)
    within = np.maximum(np.median(distances, axis=1), 1e-15)
    return Collapse(spread(every, np.arange(len(every)), in_map) / within, in_map, in_all, within)


def spread(every: np.ndarray, points: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Median distance in all eigenvectors between each of the points and the points near it."""
    found = np.empty(len(points))
    for block in backend_of(every).blocks(len(points), 24.0 * near.shape[1] * every.shape[1], "diagnosis"):
        with block as rows:
            apart = every[near[rows]] - every[points[rows]][:, None]
            found[rows] = np.median(np.linalg.norm(apart, axis=2), axis=1)
    return found


def scaled_jacobian(bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int]) -> np.ndarray:
    """The map's Jacobian in an orthonormal tangent basis (n, s, d), each row over the root of its eigenvalue.

    ``H = U diag(sigma) U'`` is the co-metric of all coordinates, so ``U_S diag(sigma)^1/2`` is the Jacobian of S.
    """
    slopes = bases[:, members] * np.sqrt(np.maximum(sigma, 0.0))[:, None, :]
    return slopes / np.sqrt(np.maximum(eigenvalues[members], 1e-300))[None, :, None]


def flatness_of(
    bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest over the largest singular value of the map's Jacobian (n,), and its tangent planes (n, s, d)."""
    jacobian = scaled_jacobian(bases, sigma, eigenvalues, members)
    planes, sizes, _ = np.linalg.svd(jacobian, full_matrices=False)
    return sizes[:, -1] / np.maximum(sizes[:, 0], 1e-300), planes
