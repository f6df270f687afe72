"""What a map loses: directions around a point, distances between parts that are far apart, and its orientation.

*Directions* are the question behind the choice of a bandwidth and the verdict. A region is a share of the points
nearest to one of them. Its points are predicted from their nearest neighbours in the map, and the error is compared
with their spread along every direction of the local plane. The direction in which most is lost counts. No unit matters,
so the width of a strip counts as much as its length; of the total variance, a narrow direction is hardly a part.

Without points, random numbers that the graph has averaged stand in for them. They vary along every direction that the
graph has, also along one that no computed eigenvector shows.

*Orientation*: the volume that a map with as many coordinates as dimensions gives to a tangent space has a sign, which
is the same everywhere unless the map is folded or tied in a knot. Tangent bases are oriented alike along a tree of
nearest neighbours, and no truth needs to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from ..backend import backend_of
from ..backend.array import Array, column_units, sample_rows
from ..embedding.order import leading_axes

COLLAPSED = 3.0  # a point with a larger ratio is collapsed
FLAT = 0.15  # a point with a smaller ratio of singular values is flat
SMALLEST = 0.005  # share of the points from which on a finding is one
NEIGHBORS = 15
FEW = 10  # neighbours along which bases are compared
ROUNDS = 30  # in which they settle their orientation
ALIKE = 0.5  # determinant of a pair of bases from which on they can be oriented alike
JOINED = 0.8  # share of the points that must hang together by such pairs
TORN = 0.002  # share of the pairs that may disagree; of a Moebius strip, which has no orientation, more do

REGIONS = 50
SAMPLE = 5_000  # points at most that are looked at,
COMPONENTS = 20  # in as many of their principal components
SHARES = {0.15: 60, 0.06: 30}  # of the points in a region, and the fewest; bent ribbons fool large regions
NEIGHBOURS = 10  # in the map, whose mean predicts a point
BLUR = 0.01  # of a coordinate's standard deviation: what is finer is seen in no picture
CAP = 1.5  # one region counts no more than this

FUNCTIONS = 16  # random ones, in place of points
GRAPH_REGIONS = 30
ORDER = 6  # of the polynomials that average them: a lower one needs fewer products, and ripples more
MIXED = {60: 0.5, 120: 0.25}  # points whose numbers one value has mixed, of 2,000 or fewer, and the part in a region
PER = 2_000
STEPS = 31  # averagings at most, which are worth 100 powers of P
FEWEST = 30


class Regions(NamedTuple):
    """Some neighbourhoods of equally many points, and how these spread."""

    rows: np.ndarray  # (r, size) the points of each
    axes: np.ndarray  # (r, D, d) the directions of their local planes, over the spread along them
    spectra: np.ndarray  # (r, d + 1) variances, falling


class Ground(NamedTuple):
    """Values that vary along every direction at some points, by which maps of these points are judged.

    With functions on a graph comes whether that has as many directions as were asked for.
    """

    layers: list[tuple[np.ndarray, list[Regions]]]  # values (q, c), and regions in which they are looked at
    last: float | None = None  # local variance along the d-th direction over the one before; small if d is too large
    next: float | None = None  # of the direction after the d-th over the d-th; large if d is too small

    def lost(self, Y: Array) -> float:
        """Return the share that a map (n, s) loses of the worst local direction: about 1 if it is lost everywhere."""
        near = nearest_in_map(on_sample(Y))
        return max(lost_in(regions, values - mean_over(values, near)) for values, regions in self.layers)


def ground_of_points(X: Array, d: int) -> Ground:
    """Return points (n, D), or their principal components, with local planes of dimension d."""
    X = on_sample(X)
    X = X - X.mean(axis=0)
    X = X / (np.abs(X).max() or 1.0)  # squares neither overflow nor vanish
    if X.shape[1] > COMPONENTS:
        X = X @ leading_axes(X, COMPONENTS)
    return Ground([(X, regions_of_points(X, d))])


def ground_of_graph(laplacian: Any, d: int) -> Ground:
    """Return random functions that the graph of a Laplacian has averaged, in the order of the input.

    Neither the device nor the order in which it keeps the rows matters: random functions and samples go by the rows of
    the input.
    """
    n, layers = laplacian.shape[0], []
    for F, part in averaged_functions(laplacian):
        F = on_sample(laplacian.rows.to_user(F))
        layers.append((F, [regions_of(F, region_size(len(F), part / n, FEWEST), d, GRAPH_REGIONS)]))
    spectra = layers[-1][1][0].spectra  # at the wider scale
    ratios = np.median(spectra[:, 1:] / np.maximum(spectra[:, :-1], 1e-300), axis=0)
    return Ground(layers, float(ratios[d - 2]) if d > 1 else 1.0, float(ratios[d - 1]))


def on_sample(rows: Array) -> np.ndarray:
    """Return the sampled rows of an array, on the host and in float64."""
    backend = backend_of(rows)
    with backend.active():
        if len(rows) > SAMPLE:
            rows = rows[backend.asarray(sample_rows(len(rows), SAMPLE, 0))]
        return backend.to_host(rows).astype(float)


def nearest_in_map(Y: np.ndarray, blur: float = BLUR) -> np.ndarray:
    """Return the nearest neighbours (n, k) of each point in a map, blurred so that only what can be seen counts."""
    backend = backend_of(Y)
    Y = np.ldexp(Y, -np.frexp(np.abs(Y).max(axis=0))[1])  # squares of any unit neither vanish nor overflow
    Y = Y / column_units(Y) + blur * np.random.default_rng(0).normal(size=Y.shape)
    with backend.active():
        return backend.nearest(Y, min(NEIGHBOURS, len(Y) - 1))[1]


def mean_over(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the mean of the rows (n, k) of an array at each point; never all k of them are held at once."""
    total = np.zeros((len(rows), X.shape[1]))
    for column in rows.T:
        total += X[column]
    return total / rows.shape[1]


def regions_of_points(X: np.ndarray, d: int) -> list[Regions]:
    """Return regions of both sizes with planes of dimension d."""
    d = min(d, X.shape[1])
    return [regions_of(X, region_size(len(X), *pair), d, REGIONS) for pair in SHARES.items()]


def region_size(n: int, share: float, fewest: int) -> int:
    return min(n, max(fewest, int(share * n)))


def regions_of(X: np.ndarray, size: int, d: int, regions: int) -> Regions:
    """Return the ``size`` points that are nearest to each of some, and the d directions in which they spread most."""
    centres = X[sample_rows(len(X), regions, 1)]
    apart = (X * X).sum(axis=1) - 2 * (centres @ X.T)
    rows = np.argpartition(apart, size - 1, axis=1)[:, :size]
    Z = X[rows] - X[rows].mean(axis=1, keepdims=True)
    values, axes = np.linalg.eigh(Z.transpose(0, 2, 1) @ Z / size)
    values, axes = values[:, ::-1], axes[:, :, ::-1][:, :, :d]
    spread = np.sqrt(np.maximum(values[:, :d], 1e-12 * np.maximum(values[:, :1], 1e-300)))
    return Regions(rows, axes / spread[:, None, :], values[:, : d + 1])


def lost_in(regions: Sequence[Regions], errors: np.ndarray) -> float:
    """Return the share of the variance that errors are along the worst direction of regions, the mean over all."""
    shares = []
    for rows, axes, _ in regions:
        scaled = errors[rows] @ axes
        worst = np.linalg.eigvalsh(scaled.transpose(0, 2, 1) @ scaled / rows.shape[1])[:, -1]
        shares.append(float(np.minimum(worst, CAP).mean()))
    return float(np.mean(shares))


def averaged_functions(laplacian: Any) -> list[tuple[Array, float]]:
    """Return random functions, averaged over the graph until one value mixes some points, and how many a region has."""
    P, n = laplacian.operator, laplacian.shape[0]
    backend = backend_of(P.matrix.data if P.has_matrix else laplacian.anchor)
    grown, wanted = max(1.0, n / PER), list(MIXED.items())
    drawn, found = np.random.default_rng(0).normal(size=(n, FUNCTIONS)), []
    averages = averages_of(backend.asarray(laplacian.rows.to_device(drawn)), lambda F: P.product(F, backend))
    for step, F in zip(range(1, STEPS + 1), averages, strict=False):
        mixed = 1 / float(backend.xp.median((F * F).mean(axis=1)))
        while wanted and (step == STEPS or mixed >= min(grown * wanted[0][0], n / 6)):
            least, part = wanted.pop(0)
            found.append((F, part * min(mixed, grown * least)))
        if not wanted:
            break
    return found


def averages_of(F: Array, product: Callable[[Array], Array]) -> Iterator[Array]:
    """Yield ``R_k(P) F`` for k = 1, 2, ..., by one product with P each.

    R_k is the Gegenbauer polynomial of order ``ORDER``, 1 at 1. It averages as far as the power
    ``k (k + 2 ORDER) / (2 ORDER + 1)`` of P would.
    """
    before = F
    for k in count():
        F, before = (2 * (k + ORDER) * product(F) - k * before) / (k + 2 * ORDER), F
        yield F


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
    return Collapse(reach(every, np.arange(len(every)), in_map) / within, in_map, in_all, within)


def reach(every: np.ndarray, points: np.ndarray, near: np.ndarray) -> np.ndarray:
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


def shape_of_map(
    unit: np.ndarray, bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int]
) -> tuple[float, Folds | None]:
    """Return the share of points at which parts that are far apart nearly touch in a map, and its folds."""
    collapse = collapse_of(evenly_steep(unit, eigenvalues), members, min(NEIGHBORS, len(unit) - 1))
    there = np.flatnonzero(collapse.ratio > COLLAPSED)
    flat = flatness_of(bases[there], sigma[there], eigenvalues, members)[0]
    touching = float((flat >= FLAT).sum() / len(unit))
    return touching, find_folds(bases, sigma, eigenvalues, members, collapse.in_all)


def folded_share(
    unit: np.ndarray, bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int]
) -> float:
    """Return the share of the volume of a map that is turned over, as far as that can be told."""
    if len(members) != bases.shape[2]:
        return 0.0
    backend = backend_of(unit)
    with backend.active():
        near = backend.nearest(evenly_steep(unit, eigenvalues), min(NEIGHBORS, len(unit) - 1))[1]
    folds = find_folds(bases, sigma, eigenvalues, members, near)
    return 0.0 if folds is None else folds.share


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
    (n, k), (m, d) = near.shape, bases.shape[1:]
    around = np.ascontiguousarray(bases.transpose(0, 2, 1))[near]
    alike = np.linalg.det((around.reshape(n, k * d, m) @ bases).reshape(n, k, d, d))
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
