"""Where a map with as many coordinates as dimensions is turned over, as a glove turned inside out is.

The volume that such a map gives to a tangent space has a sign, which is the same everywhere unless the map is folded or
tied in a knot. Tangent bases are oriented alike along a tree of nearest neighbours, and no truth needs to be known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from .collapse import scaled_jacobian

FEW = 10  # neighbours along which bases are compared
ROUNDS = 30  # in which they settle their orientation
ALIKE = 0.5  # determinant of a pair of bases from which on they can be oriented alike
JOINED = 0.8  # share of the points that must hang together by such pairs
TORN = 0.002  # share of the pairs that may disagree; of a Moebius strip, which has no orientation, more do


class Folds(NamedTuple):
    """Which side of a map each point shows.

    Attributes
    ----------
    share : float
        Of the volume of the map, on the side that has less of it: 0 for a map without a fold, 0.5 at most.
    volumes : ndarray of shape (n,)
        Of the tangent space at each point, mean over its neighbourhood, negative where the map is turned over.
    """

    share: float
    volumes: np.ndarray

    def at(self, near: np.ndarray) -> np.ndarray:
        """Whether the fold runs through the neighbourhood (n, k) of each point."""
        seen = np.column_stack([self.volumes, self.volumes[near]])
        return (seen.min(axis=1) < 0) & (seen.max(axis=1) > 0)


def find_folds(
    bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int], near: np.ndarray
) -> Folds | None:
    """Find where a map is turned over; None where its tangent bases have no common orientation, or it has s > d.

    Parameters
    ----------
    bases, sigma : array (n, m, d), array (n, d)
        Tangent bases of the co-metric of all coordinates, and its singular values.
    eigenvalues : array (m,)
        Of all coordinates.
    members : list of int
        The map.
    near : array (n, k) of int
        Nearest points of each in all coordinates.
    """
    if len(members) != bases.shape[2]:
        return None
    signs = orientation(bases, near)
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
