"""How much a map loses of the directions around a point: the question behind the choice of a bandwidth and the verdict.

A region is a share of the points nearest to one of them. Its points are predicted from their nearest neighbours in the
map, and the error is compared with their spread along every direction of the local plane. The direction in which most
is lost counts. No unit matters, so the width of a strip counts as much as its length; of the share of the total
variance that a map leaves unexplained, a narrow direction is hardly a part.

Without points, random numbers that the graph has averaged stand in for them. They vary along every direction that the
graph has, also along one that no computed eigenvector shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.arrays import column_units
from ..backend.sampling import sample_rows
from ..embedding.order import leading_axes

REGIONS = 50
SAMPLE = 5_000  # points at most that are looked at,
COMPONENTS = 20  # in as many of their principal components
SHARES = {0.15: 60, 0.06: 30}  # of the points in a region, and the fewest; bent ribbons fool large regions
NEIGHBOURS = 10  # in the map, whose mean predicts a point
BLUR = 0.01  # of a coordinate's standard deviation: what is finer is seen in no picture
CAP = 1.5  # one region counts no more than this

FUNCTIONS = 32, 16  # random ones, in place of points: of few, and of more than are looked at, which cost most
MIXED = {60: 0.5, 120: 0.25}  # points whose numbers one value has mixed, of 2,000 or fewer, and the part in a region
PER = 2_000
STEPS = 100  # averagings at most
FEWEST = 30


class Lost(NamedTuple):
    """What a map loses, and whether the graph has as many directions as were asked for (None: not looked at)."""

    share: float  # of the variance along the worst local direction, mean over regions: about 1 if lost everywhere
    last: float | None = None  # local variance along the d-th direction over the one before; small if d is too large
    next: float | None = None  # of the direction after the d-th over the d-th; large if d is too small


def lost_of_points(X: Array, maps: Sequence[Array], d: int, random_state: int = 0) -> list[Lost]:
    """Return what each of some maps (n, s) loses of points (n, D), with local planes of dimension d."""
    X = on_sample(X, random_state)
    X = X - X.mean(axis=0)
    X = X / (np.abs(X).max() or 1.0)  # squares neither overflow nor vanish
    if X.shape[1] > COMPONENTS:
        X = X @ leading_axes(X, COMPONENTS)
    near = [nearest_in_map(on_sample(Y, random_state)) for Y in maps]
    return [Lost(lost_along(X, X - mean_over(X, rows), d)) for rows in near]


def lost_of_graph(laplacian: Any, maps: Sequence[Array], d: int, random_state: int = 0) -> list[Lost]:
    """Return what each of some maps (n, s), in the order of the input, loses of the graph of a Laplacian.

    Neither the device nor the order in which it keeps the rows matters: random functions and samples go by the rows of
    the input.
    """
    n = laplacian.shape[0]
    near = [nearest_in_map(on_sample(Y, random_state)) for Y in maps]
    shares, spectra = [], np.empty(0)
    for F, part in averaged_functions(laplacian, random_state):
        F = on_sample(laplacian.rows.to_user(F), random_state)
        size, dims = region_size(len(F), part / n, FEWEST), min(d, F.shape[1] - 1)
        found = [lost_in_regions(F, F - mean_over(F, rows), size, dims) for rows in near]
        shares.append([float(lost.mean()) for lost, _ in found])
        spectra = found[0][1]
    ratios = np.median(spectra[:, 1:] / np.maximum(spectra[:, :-1], 1e-300), axis=0)  # at the wider scale
    last, following = float(ratios[d - 2]) if d > 1 else 1.0, float(ratios[d - 1])
    return [Lost(max(each), last, following) for each in zip(*shares, strict=True)]


def on_sample(rows: Array, random_state: int) -> np.ndarray:
    """Return the sampled rows of an array, on the host and in float64."""
    backend = backend_of(rows)
    with backend.active():
        if len(rows) > SAMPLE:
            rows = rows[backend.asarray(sample_rows(len(rows), SAMPLE, random_state))]
        return backend.to_host(rows).astype(float)


def nearest_in_map(Y: np.ndarray, blur: float = BLUR) -> np.ndarray:
    """Return the nearest neighbours (n, k) of each point in a map, blurred so that only what can be seen counts."""
    backend = backend_of(Y)
    Y = Y / column_units(Y) + blur * np.random.default_rng(0).normal(size=Y.shape)
    with backend.active():
        return backend.nearest(Y, min(NEIGHBOURS, len(Y) - 1))[1]


def mean_over(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the mean of the rows (n, k) of an array at each point; never all k of them are held at once."""
    total = np.zeros((len(rows), X.shape[1]))
    for column in rows.T:
        total += X[column]
    return total / rows.shape[1]


def lost_along(X: np.ndarray, errors: np.ndarray, d: int) -> float:
    """Return the share of the variance that errors are along the worst of d local directions, the mean over regions."""
    d = min(d, X.shape[1])
    found = [lost_in_regions(X, errors, region_size(len(X), *pair), d)[0].mean() for pair in SHARES.items()]
    return float(np.mean(found))


def region_size(n: int, share: float, fewest: int) -> int:
    return min(n, max(fewest, int(share * n)))


def lost_in_regions(X: np.ndarray, errors: np.ndarray, size: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of the variance that errors are along the worst of d directions, and the spectrum of d + 1.

    One row per region: the ``size`` points that are nearest to a sampled one.
    """
    centres = X[sample_rows(len(X), REGIONS, 1)]
    apart = (X * X).sum(axis=1) - 2 * (centres @ X.T)
    rows = np.argpartition(apart, size - 1, axis=1)[:, :size]
    Z = X[rows] - X[rows].mean(axis=1, keepdims=True)
    values, axes = np.linalg.eigh(Z.transpose(0, 2, 1) @ Z / size)
    values, axes = values[:, ::-1], axes[:, :, ::-1][:, :, :d]
    spread = np.sqrt(np.maximum(values[:, :d], 1e-12 * np.maximum(values[:, :1], 1e-300)))
    scaled = errors[rows] @ (axes / spread[:, None, :])
    worst = np.linalg.eigvalsh(scaled.transpose(0, 2, 1) @ scaled / size)[:, -1]
    return np.minimum(worst, CAP), values[:, : d + 1]


def averaged_functions(laplacian: Any, random_state: int) -> list[tuple[Array, float]]:
    """Return random functions, averaged over the graph until one value mixes some points, and how many a region has."""
    P, n = laplacian.operator, laplacian.shape[0]
    backend = backend_of(P.matrix.data if P.has_matrix else laplacian.anchor)
    grown, wanted = max(1.0, n / PER), list(MIXED.items())
    drawn, found = np.random.default_rng(random_state).normal(size=(n, FUNCTIONS[n > SAMPLE])), []
    F = backend.asarray(laplacian.rows.to_device(drawn))
    for step in range(1, STEPS + 1):
        F = P.product(F, backend)
        mixed = 1 / float(backend.xp.median((F * F).mean(axis=1)))
        while wanted and (step == STEPS or mixed >= min(grown * wanted[0][0], n / 6)):
            least, part = wanted.pop(0)
            found.append((F, part * min(mixed, grown * least)))
        if not wanted:
            break
    return found
