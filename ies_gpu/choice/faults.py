"""What may be wrong with a map: it loses a direction of the points, parts that are far apart touch, or it is folded.

*Lost*: a region is a share of the points nearest to one of them. Its points are predicted from their nearest neighbours
in the map, and the error is compared with their spread along every direction of the local plane. The direction in which
most is lost counts. No unit matters, so the width of a strip counts as much as its length; of the total variance, a
narrow direction is hardly a part. Without points, random numbers that the graph has averaged stand in for them. They
vary along every direction that the graph has, also along one that no computed eigenvector shows.

*Touching*: parts of a map are close that are far apart in all eigenvectors, where the map's Jacobian is not flat.

*Folded*: the volume that a map with as many coordinates as dimensions gives to a tangent space has a sign, which is the
same everywhere unless the map is folded or tied in a knot. Tangent bases are oriented alike along a tree of nearest
neighbours, and no truth needs to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from ..backend import backend_of
from ..backend.array import Array, column_units, sample_rows
from ..embedding.graph import leading_axes

REGIONS, GRAPH_REGIONS = 50, 60
SAMPLE = 5_000  # points at most that are looked at,
COMPONENTS = 20  # in as many of their principal components
SHARES = {0.15: 60, 0.06: 30}  # of the points in a region, and the fewest; bent ribbons fool large regions
NEIGHBOURS, MORE = 10, 12  # in the map, that predict a point by their mean, or by a plane through them
STEADY = 0.1  # of the spread of neighbours, added along every direction, so that their plane is not steep by chance
BLUR = 0.01  # of a coordinate's standard deviation: what is finer is seen in no picture
CAP = 1.5  # one region counts no more than this

FUNCTIONS = 16  # random ones, in place of points
ORDER = 6  # of the polynomials that average them: a lower one needs fewer products, and ripples more
MIXED, PART = 120, 0.25  # points whose numbers one value has mixed, of 2,000 or fewer, and the part in a region
PER = 2_000
STEPS = 31  # averagings at most, which are worth 100 powers of P
FEWEST = 30
AVERAGED: WeakKeyDictionary[Any, tuple[Array, float]] = WeakKeyDictionary()  # a turn and its verdict ask for the same

COLLAPSED = 3.0  # a point with a larger ratio is collapsed
FLAT = 0.15  # a point with a smaller ratio of singular values is flat
SMALLEST = 0.005  # share of the points from which on a finding is one
AROUND = 15  # points around one, in the map and in all eigenvectors
FEW = 10  # neighbours along which bases are compared
ROUNDS = 10  # in which they settle their orientation
ALIKE = 0.5  # determinant of a pair of bases from which on they can be oriented alike
JOINED = 0.8  # share of the points that must hang together by such pairs
TORN = 0.002  # share of the pairs that may disagree; of a Moebius strip, which has no orientation, more do


class Regions(NamedTuple):
    """Some neighbourhoods of equally many points, and how these spread."""

    rows: np.ndarray  # (r, size) the points of each
    axes: np.ndarray  # (r, D, d) the directions of their local planes, over the spread along them
    spectra: np.ndarray  # (r, d + 1) variances, falling


class Ground(NamedTuple):
    """Values that vary along every direction at some points, by which maps of these points are judged."""

    values: np.ndarray  # (q, c)
    regions: list[Regions]  # in which they are looked at

    @property
    def steps(self) -> np.ndarray:
        """The local variance along each direction but the first over that along the one before it, the median."""
        spectra = self.regions[-1].spectra
        return np.median(spectra[:, 1:] / np.maximum(spectra[:, :-1], 1e-300), axis=0)

    def lost(self, Y: Array, by_planes: bool = False) -> float:
        """Return the share that a map (n, s) loses of the worst local direction: about 1 if it is lost everywhere.

        Points are predicted by the mean of their neighbours in the map, or by planes through more of them: few points
        are far apart, and a mean then loses something in every direction.
        """
        Z = blurred(on_sample(Y))
        near = nearest(Z, MORE if by_planes else NEIGHBOURS)
        predicted = plane_through(self.values, Z, near) if by_planes else mean_over(self.values, near)
        return lost_in(self.regions, self.values - predicted)

    def hidden(self, Y: Array) -> float:
        """Return the share of the worst local direction that no function of the coordinates (n, m) shows.

        In one half of each region the values are a linear function of all coordinates, by which the other half is
        predicted.
        """
        (rows, axes, _), Y = self.regions[-1], blurred(on_sample(Y), 0)
        rows = np.random.default_rng(0).permuted(rows, axis=1)  # argpartition leaves the nearest first
        A, B = Y[rows], self.values[rows] @ axes
        A, B = A - A.mean(axis=1, keepdims=True), B - B.mean(axis=1, keepdims=True)
        half = rows.shape[1] // 2
        turned = A[:, :half].transpose(0, 2, 1)
        slopes = np.linalg.solve(steadied(turned @ A[:, :half], STEADY / 10), turned @ B[:, :half])
        return worst_share(B[:, half:] - A[:, half:] @ slopes)


def ground_of_points(X: Array, d: int) -> Ground:
    """Return points (n, D), or their principal components, with local planes of dimension d."""
    X = on_sample(X)
    X = X - X.mean(axis=0)
    X = X / (np.abs(X).max() or 1.0)  # squares neither overflow nor vanish
    if X.shape[1] > COMPONENTS:
        X = X @ leading_axes(X, COMPONENTS)
    return Ground(X, [regions_of(X, *pair, min(d, X.shape[1]), REGIONS) for pair in SHARES.items()])


def ground_of_graph(laplacian: Any, d: int) -> Ground:
    """Return random functions that the graph of a Laplacian has averaged, in the order of the input.

    Neither the device nor the order in which it keeps the rows matters: random functions and samples go by the rows of
    the input.
    """
    F, size = averaged_functions(laplacian, max(FUNCTIONS, d + 1))
    return ground_of_functions(on_sample(laplacian.rows.to_user(F)), size / laplacian.shape[0], d)


def ground_of_functions(F: np.ndarray, share: float, d: int) -> Ground:
    return Ground(F, [regions_of(F, share, FEWEST, d, GRAPH_REGIONS)])


def on_sample(rows: Array) -> np.ndarray:
    """Return the sampled rows of an array, on the host and in float64."""
    backend = backend_of(rows)
    with backend.active():
        if len(rows) > SAMPLE:
            rows = rows[backend.asarray(sample_rows(len(rows), SAMPLE, 0))]
        return backend.to_host(rows).astype(float)


def blurred(Y: np.ndarray, blur: float = BLUR) -> np.ndarray:
    """Return a map in units of its coordinates' standard deviations, blurred so that only what can be seen counts."""
    Y = np.ldexp(Y, -np.frexp(np.abs(Y).max(axis=0))[1])  # squares of any unit neither vanish nor overflow
    return Y / column_units(Y) + blur * np.random.default_rng(0).normal(size=Y.shape)


def nearest(Y: np.ndarray, k: int = NEIGHBOURS) -> np.ndarray:
    """Return the numbers (n, k) of the nearest other points of each point in a map."""
    backend = backend_of(Y)
    with backend.active():
        return backend.nearest(Y, min(k, len(Y) - 1))[1]


def mean_over(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the mean of the rows (n, k) of an array at each point; never all k of them are held at once."""
    return sum(X[column] for column in rows.T) / rows.shape[1]


def plane_through(X: np.ndarray, Y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return what a plane through the rows (n, k) of X, over a map Y (n, s), says at each point."""
    around = Y[rows] - Y[:, None]
    middle = around.mean(axis=1, keepdims=True)
    around -= middle
    slopes = np.linalg.solve(steadied(around.transpose(0, 2, 1) @ around, STEADY), middle.transpose(0, 2, 1))
    weights = 1 / rows.shape[1] - (around @ slopes)[:, :, 0]
    return sum(weight[:, None] * X[column] for weight, column in zip(weights.T, rows.T, strict=True))


def regions_of(X: np.ndarray, share: float, fewest: int, d: int, regions: int) -> Regions:
    """Return the share of the points nearest to each of some, and the d directions in which they spread most."""
    size = min(len(X), max(fewest, int(share * len(X))))
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
    return float(np.mean([worst_share(errors[rows] @ axes) for rows, axes, _ in regions]))


def worst_share(errors: np.ndarray) -> float:
    """Return the largest mean square along a direction of errors (r, size, d), the mean over r regions."""
    worst = np.linalg.eigvalsh(errors.transpose(0, 2, 1) @ errors / errors.shape[1])[:, -1]
    return float(np.minimum(worst, CAP).mean())


def steadied(squares: np.ndarray, by: float) -> np.ndarray:
    """Return matrices (r, s, s) with a share of their trace added to their diagonals."""
    added = by * np.trace(squares, axis1=1, axis2=2) + 1e-300
    return squares + added[:, None, None] * np.eye(squares.shape[1])


def averaged_functions(laplacian: Any, functions: int = FUNCTIONS) -> tuple[Array, float]:
    """Return random functions, averaged over the graph until one value mixes many points, and how many a region has."""
    if laplacian in AVERAGED and AVERAGED[laplacian][0].shape[1] == functions:
        return AVERAGED[laplacian]
    P, n = laplacian.operator, laplacian.shape[0]
    backend = backend_of(P.matrix.data if P.has_matrix else laplacian.anchor)
    least = MIXED * max(1.0, n / PER)
    drawn = np.random.default_rng(0).normal(size=(n, functions)).astype(np.float32)
    product = partial(P.product, backend=backend)
    if P.has_matrix:  # six digits are plenty, in a fifth of the time
        entries = P.matrix.indptr.astype(np.int64), P.matrix.indices, P.matrix.data.astype(np.float32)
        product = partial(backend.kernels.block_product, *entries)
    averages = averages_of(backend.asarray(laplacian.rows.to_device(drawn)), product)
    for _, F in zip(range(STEPS), averages, strict=False):
        some = F[:: max(1, n // PER)]
        mixed = 1 / float(np.median(backend.to_host((some * some).mean(axis=1))))
        if mixed >= min(least, n / 6):
            break
    AVERAGED[laplacian] = F, PART * min(mixed, least)
    return AVERAGED[laplacian]


def averages_of(F: Array, product: Callable[[Array], Array]) -> Iterator[Array]:
    """Yield ``R_k(P) F`` for k = 1, 2, ..., by one product with P each.

    R_k is the Gegenbauer polynomial of order ``ORDER``, 1 at 1. It averages as far as the power
    ``k (k + 2 ORDER) / (2 ORDER + 1)`` of P would.
    """
    before = F
    for k in count():
        F, before = (2 * (k + ORDER) * product(F) - k * before) / (k + 2 * ORDER), F
        yield F


# --- where a map touches itself, and where it is folded ---


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
    in_map = nearest(np.ascontiguousarray(Y[:, list(subset)]), k)
    with (backend := backend_of(Y)).active():
        distances, in_all = backend.nearest(Y, k)
    within = np.maximum(np.median(distances, axis=1), 1e-15)
    apart = np.median(distances_to(Y, np.arange(len(Y)), in_map), axis=1)
    return Collapse(apart / within, in_map, in_all, within)


def distances_to(Y: np.ndarray, points: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return the distances (p, k) in all coordinates between each of some points and those near it."""
    found = np.empty(near.shape)
    for block in backend_of(Y).blocks(len(points), 24.0 * near.shape[1] * Y.shape[1], "diagnosis"):
        with block as rows:
            apart = Y[near[rows]] - Y[points[rows]][:, None]
            found[rows] = np.sqrt(np.einsum("pkm,pkm->pk", apart, apart))
    return found


def flatness(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest over the largest singular value of Jacobians (n, s, d), and their tangent planes."""
    planes, sizes, _ = np.linalg.svd(jacobian, full_matrices=False)
    return sizes[:, -1] / np.maximum(sizes[:, 0], 1e-300), planes


def shape_of_map(sample: Sample, subset: tuple[int, ...]) -> tuple[float, Folds | None]:
    """Return the share of points at which parts that are far apart nearly touch in a map, and its folds."""
    found = collapse(sample.commute, subset, min(AROUND, len(sample.coordinates) - 1))
    jacobian = sample.jacobian(subset)
    touching = flatness(jacobian[found.ratio > COLLAPSED])[0] >= FLAT
    return float(touching.sum() / len(jacobian)), find_folds(sample.bases, jacobian, found.in_all)


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

    Only bases that are alike count. The few points that have no such neighbours, or a part of their own, get 0.
    """
    alike = likeness(bases, near[:, :FEW])
    alike[np.abs(alike) < ALIKE] = 0
    signs = carried(bases, alike, near[:, :FEW])
    torn = alike * signs[:, None] * signs[near[:, :FEW]] < 0
    return signs if (signs != 0).mean() >= JOINED and torn.mean() <= TORN else None


def likeness(bases: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return the determinant (n, k) of each pair of neighbouring bases (n, m, d): 1 if alike, -1 if turned over."""
    (n, k), (m, d) = near.shape, bases.shape[1:]
    around = np.ascontiguousarray(bases.transpose(0, 2, 1))[near]
    return np.linalg.det((around.reshape(n, k * d, m) @ bases).reshape(n, k, d, d))


def carried(bases: np.ndarray, alike: np.ndarray, near: np.ndarray, along_best: bool = False) -> np.ndarray:
    """Return signs (n,) that are carried along a tree of neighbours, and then settled by what all neighbours say.

    The tree is the shallowest of the largest part, or else that whose pairs are most alike.
    """
    n, k = near.shape
    near = near.astype(np.int32)  # SciPy's trees take no other indices before 1.17
    indptr = np.arange(0, n * k + 1, k, dtype=np.int32)
    links = scipy.sparse.csr_array((alike.flatten(), near.flatten(), indptr), shape=(n, n))
    links.eliminate_zeros()
    links = links + links.T
    labels = connected_components(links, directed=False)[1]
    main = labels == np.bincount(labels).argmax()
    tree = minimum_spanning_tree(-abs(links)) if along_best else links
    order, parents = breadth_first_order(tree, int(main.argmax()), directed=False)
    signs, child, parent = np.zeros(n), order[1:], parents[order[1:]]
    signs[order[0]] = 1
    signs[child] = np.sign(np.linalg.det(bases[child].transpose(0, 2, 1) @ bases[parent]))
    parents[order[0]], parents[~main] = order[0], order[0]
    while (parents != order[0]).any():  # each round doubles how far up the tree a product reaches
        signs, parents = signs * signs[parents], parents[parents]
    for _ in range(ROUNDS):
        signs = links @ signs
        signs /= max(np.abs(signs).max(), 1e-300)
    return np.sign(signs)
