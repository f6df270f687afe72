"""Whether a map has the shape of the points: parts that are far apart touch in it, or it is turned over.

*Collapse* is the distance, in all eigenvectors, to the nearest neighbours of a point in the map, over the distance to
its nearest neighbours in all eigenvectors. *Flatness* is the ratio of the smallest to the largest singular value of the
map's Jacobian.

*Orientation*: the volume that a map with as many coordinates as dimensions gives to a tangent space has a sign, which
is the same everywhere unless the map is folded or tied in a knot. Tangent bases are oriented alike along a tree of
nearest neighbours, and no truth needs to be known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ..backend import backend_of

COLLAPSED = 3.0  # a point with a larger ratio is collapsed
FLAT = 0.15  # a point with a smaller ratio of singular values is flat
SMALLEST = 0.005  # share of the points from which on a finding is one
NEIGHBORS = 15
FEW = 10  # neighbours along which bases are compared
ROUNDS = 10  # in which they settle their orientation
ALIKE = 0.5  # determinant of a pair of bases from which on they can be oriented alike
JOINED = 0.8  # share of the points that must hang together by such pairs
TORN = 0.002  # share of the pairs that may disagree; of a Moebius strip, which has no orientation, more do


class Sample(NamedTuple):
    """Some points of a map on the host: (q, m), (q, m, d), (q, d), and the m eigenvalues."""

    coordinates: np.ndarray
    bases: np.ndarray
    singular_values: np.ndarray
    eigenvalues: np.ndarray

    @property
    def commute(self) -> np.ndarray:
        """The coordinates as commute times scale them, in which all have mean gradients of the same length."""
        Y = self.coordinates / np.maximum(np.linalg.norm(self.coordinates, axis=0), 1e-300)
        Y /= np.sqrt(np.maximum(self.eigenvalues, 1e-300))
        return Y / (float(np.abs(Y).max()) or 1.0)

    def turned(self, subset: tuple[int, ...], weights: np.ndarray) -> Sample:
        """Return the sample with the turned coordinates (m, s) in place of the chosen ones."""
        Y, bases, values, S = self.coordinates.copy(), self.bases.copy(), self.eigenvalues.copy(), list(subset)
        Y[:, S], bases[:, S] = Y @ weights, np.matmul(weights.T, bases)
        values[S] = (weights * weights).T @ values
        return Sample(Y, bases, self.singular_values, values)

    def jacobian(self, subset: tuple[int, ...]) -> np.ndarray:
        """Return the map's Jacobian in orthonormal tangent bases (q, s, d), each row over the root of its eigenvalue.

        ``H = U diag(sigma) U'`` is the co-metric of all coordinates, so ``U_S diag(sigma)^1/2`` is the Jacobian of S.
        """
        S = list(subset)
        slopes = self.bases[:, S] * np.sqrt(np.maximum(self.singular_values, 0.0))[:, None, :]
        return slopes / np.sqrt(np.maximum(self.eigenvalues[S], 1e-300))[None, :, None]


class Collapse(NamedTuple):
    """How far apart the neighbours of each point in a map really are."""

    ratio: np.ndarray  # (n,) their median distance in all eigenvectors, over ``within``
    in_map: np.ndarray  # (n, k) the nearest points of each in the map,
    in_all: np.ndarray  # and in all eigenvectors,
    within: np.ndarray  # (n,) with the median distance to the latter


def collapse(Y: np.ndarray, subset: tuple[int, ...], k: int) -> Collapse:
    """Return how far apart the k neighbours of each point in a map are, in all coordinates (n, m)."""
    backend = backend_of(Y)
    with backend.active():
        _, in_map = backend.nearest(np.ascontiguousarray(Y[:, list(subset)]), k)
        distances, in_all = backend.nearest(Y, k)
    within = np.maximum(np.median(distances, axis=1), 1e-15)
    return Collapse(median_distances(Y, np.arange(len(Y)), in_map) / within, in_map, in_all, within)


def distances_to(Y: np.ndarray, points: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return the distances (p, k) in all coordinates between each of some points and those near it."""
    found = np.empty(near.shape)
    for block in backend_of(Y).blocks(len(points), 24.0 * near.shape[1] * Y.shape[1], "diagnosis"):
        with block as rows:
            apart = Y[near[rows]] - Y[points[rows]][:, None]
            found[rows] = np.sqrt(np.einsum("pkm,pkm->pk", apart, apart))
    return found


def median_distances(Y: np.ndarray, points: np.ndarray, near: np.ndarray) -> np.ndarray:
    return np.median(distances_to(Y, points, near), axis=1)


def flatness(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest over the largest singular value of Jacobians (n, s, d), and their tangent planes."""
    planes, sizes, _ = np.linalg.svd(jacobian, full_matrices=False)
    return sizes[:, -1] / np.maximum(sizes[:, 0], 1e-300), planes


def shape_of_map(sample: Sample, subset: tuple[int, ...]) -> tuple[float, Folds | None]:
    """Return the share of points at which parts that are far apart nearly touch in a map, and its folds."""
    found = collapse(sample.commute, subset, min(NEIGHBORS, len(sample.coordinates) - 1))
    jacobian = sample.jacobian(subset)
    touching = flatness(jacobian[found.ratio > COLLAPSED])[0] >= FLAT
    return float(touching.sum() / len(jacobian)), find_folds(sample.bases, jacobian, found.in_all)


def folded_share(sample: Sample, subset: tuple[int, ...]) -> float:
    """Return the share of the volume of a map that is turned over; 0 also where :func:`find_folds` cannot tell."""
    if len(subset) != sample.bases.shape[2]:
        return 0.0
    Y = sample.commute
    backend = backend_of(Y)
    with backend.active():
        near = backend.nearest(Y, min(NEIGHBORS, len(Y) - 1))[1]
    folds = find_folds(sample.bases, sample.jacobian(subset), near)
    return 0.0 if folds is None else folds.share


class Folds(NamedTuple):
    """Which side of a map each point shows."""

    share: float  # of the volume of the map, on the side that has less of it: 0 without a fold, 0.5 at most
    volumes: np.ndarray  # (n,) of tangent spaces, mean over a neighbourhood, negative where the map is turned over

    def at(self, near: np.ndarray) -> np.ndarray:
        """Return whether the fold runs through the neighbourhood (n, k) of each point."""
        seen = np.column_stack([self.volumes, self.volumes[near]])
        return (seen.min(axis=1) < 0) & (seen.max(axis=1) > 0)


def find_folds(bases: np.ndarray, jacobian: np.ndarray, near: np.ndarray) -> Folds | None:
    """Find where a map is turned over, by its Jacobians (n, s, d) in the tangent bases (n, m, d).

    None where these have no common orientation, or s > d. ``near`` (n, k) are the nearest points in all coordinates.
    """
    signs = orientation(bases, near) if jacobian.shape[1] == jacobian.shape[2] else None
    if signs is None:
        return None
    own = signs * np.linalg.det(jacobian)
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
    (n, k), (m, d) = near.shape, bases.shape[1:]
    around = np.ascontiguousarray(bases.transpose(0, 2, 1))[near]
    alike = np.linalg.det((around.reshape(n, k * d, m) @ bases).reshape(n, k, d, d))
    alike[np.abs(alike) < ALIKE] = 0
    links = scipy.sparse.csr_array((alike.flatten(), near.flatten(), np.arange(0, n * k + 1, k)), shape=(n, n))
    links.eliminate_zeros()
    links = links + links.T
    labels = connected_components(links, directed=False)[1]
    main = labels == np.bincount(labels).argmax()
    if main.mean() < JOINED:
        return None
    order, parents = breadth_first_order(links, int(main.argmax()), directed=False)
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
