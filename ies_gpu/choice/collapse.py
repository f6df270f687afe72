"""Where a map throws distant points together, loses a direction or is turned over, as a glove turned inside out is.

The volume that a map with as many coordinates as dimensions gives to a tangent space has a sign, which is the same
everywhere unless the map is folded or tied in a knot. Tangent bases are oriented alike along a tree of nearest
neighbours, and no truth needs to be known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from ..backend import backend_of

COLLAPSED = 3.0  # a point with a larger ratio is collapsed
FLAT = 0.15  # a point with a smaller ratio of singular values is flat
SMALLEST = 0.005  # share of the points from which on a finding is one
NEIGHBORS = 15

FEW = 10  # neighbours along which bases are compared
ROUNDS = 30  # in which they settle their orientation
ALIKE = 0.5  # determinant of a pair of bases from which on they can be oriented alike
JOINED = 0.8  # share of the points that must hang together by such pairs
TORN = 0.002  # share of the pairs that may disagree; of a Moebius strip, which has no orientation, more do


def evenly_steep(Y: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """Coordinates of unit length, scaled so that all have mean gradients of the same length."""
    every = Y / np.sqrt(np.maximum(eigenvalues, 1e-300))
    return every / (float(np.abs(every).max()) or 1.0)


class Collapse(NamedTuple):
    """How far apart the neighbours of each point in a map really are."""

    ratio: np.ndarray  # (n,) their median distance in all eigenvectors, over ``within``
    in_map: np.ndarray  # (n, k) the nearest points of each in the map,
    in_all: np.ndarray  # and in all eigenvectors,
    within: np.ndarray  # (n,) with the median distance to the latter


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


class Folds(NamedTuple):
    """Which side of a map each point shows."""

    share: float  # of the volume of the map, on the side that has less of it: 0 without a fold, 0.5 at most
    volumes: np.ndarray  # (n,) of tangent spaces, mean over a neighbourhood, negative where the map is turned over

    def at(self, near: np.ndarray) -> np.ndarray:
        """Whether the fold runs through the neighbourhood (n, k) of each point."""
        seen = np.column_stack([self.volumes, self.volumes[near]])
        return (seen.min(axis=1) < 0) & (seen.max(axis=1) > 0)


def find_folds(
    bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int], near: np.ndarray
) -> Folds | None:
    """Find where a map is turned over; None where its tangent bases have no common orientation, or it has s > d.

    The tangent bases (n, m, d), their singular values (n, d), the eigenvalues (m,) and the nearest points (n, k) of
    each are those of all coordinates.
    """
    signs = orientation(bases, near) if len(members) == bases.shape[2] else None
    if signs is None:
        return None
    own = signs * np.linalg.det(scaled_jacobian(bases, sigma, eigenvalues, members))
    volumes = (own + own[near].sum(axis=1)) / (near.shape[1] + 1)
    sizes = np.abs(volumes).sum()
    turned = float(-volumes[volumes < 0].sum() / sizes) if sizes > 0 else 0.0
    return Folds(turned, volumes) if turned <= 0.5 else Folds(1 - turned, -volumes)


def orientation(bases: np.ndarray, near: np.ndarray) -> np.ndarray | None:
    """Return signs (n,) that make tangent bases (n, m, d) point alike; None where no signs do.

    Signs are carried along a tree of neighbours whose bases are alike, and then settled by what all neighbours say. The
    few points that have no such neighbours, or a part of their own, get 0.
    """
    near = near[:, :FEW]
    (n, k), d = near.shape, bases.shape[2]
    between = np.empty((n, k, d, d))
    for a in range(d):
        for b in range(d):
            between[:, :, a, b] = np.einsum("nkm,nm->nk", bases[:, :, a][near], bases[:, :, b])
    alike = np.linalg.det(between)
    alike[np.abs(alike) < ALIKE] = 0
    links = scipy.sparse.csr_array((alike.flatten(), near.flatten(), np.arange(0, n * k + 1, k)), shape=(n, n))
    links.eliminate_zeros()
    links = links + links.T
    apart = links.copy()
    apart.data = 2.001 - np.minimum(np.abs(apart.data), 2)
    tree = minimum_spanning_tree(apart)
    labels = connected_components(tree, directed=False)[1]
    main = labels == np.bincount(labels).argmax()
    if main.mean() < JOINED:
        return None
    order, parents = breadth_first_order(tree, int(main.argmax()), directed=False)
    signs, child, parent = np.zeros(n), order[1:], parents[order[1:]]
    signs[order[0]] = 1
    signs[child] = np.sign(np.linalg.det(bases[child].transpose(0, 2, 1) @ bases[parent]))
    parents[order[0]], parents[~main] = order[0], order[0]
    while (parents != order[0]).any():  # each round doubles how far up the tree a product reaches
        signs, parents = signs * signs[parents], parents[parents]
    for _ in range(ROUNDS):
        signs = links @ signs
        signs /= np.abs(signs).max()
    signs = np.sign(signs)
    torn = alike * signs[:, None] * signs[near] < 0
    return signs if torn.mean() <= TORN else None
