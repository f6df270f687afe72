"""How many dimensions the points have, by local principal components."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import at_home, backend_of
from ..backend.array import Array, count_true, sample_rows
from ..embedding.graph import leading_axes
from ..findings import Judged
from ..validation import check_integer, check_length, check_points, check_seed
from .distances import Distances, degree_bandwidth, neighbours_of, sampled_distances

THRESHOLD = 0.55  # of the variance that a sampled tangent direction has
DOUBTFUL = (0.45, 0.65)
DIRECTIONS = 12  # of the spectrum
WIDEST = 50  # columns in which it is computed; of more, as many principal components
SCALES = (1, 1), (2, 4)  # and of how many sampled points one is used: the wider one only refutes
COPIES = 1.25  # times that a point comes on average, itself counted, from which on copies matter
SAMPLE_SIZE = 10_000  # with more points and smaller bandwidths the noise becomes visible


@dataclass(frozen=True)
class DimensionEstimate:
    """An intrinsic dimension and what it is based on.

    Attributes
    ----------
    value : int
        The estimate, 1 or more.
    curve : ndarray of shape (n_values,)
        The local spectrum, which is 1 for a direction of the manifold and 0 otherwise.
    bandwidth : float
        The bandwidth at which the spectrum was computed.
    doubtful : tuple of float
        Values of the spectrum that are near the threshold.
    confidence : Judged
        How sure the estimate is: its ``level`` is "high", "fair" or "low", its ``facts`` say why.
    wider : ndarray of shape (n_values,)
        The spectrum at twice the bandwidth, where a dimension that is thin is hardly there.
    """

    value: int
    curve: np.ndarray
    bandwidth: float
    doubtful: tuple[float, ...]
    confidence: Judged
    wider: np.ndarray


@at_home
def estimate_dimension(
    X: Array, *, bandwidth: float | str = "auto", sample_size: int = SAMPLE_SIZE, random_state: Any = 0
) -> DimensionEstimate:
    """Estimate the intrinsic dimension of points.

    Counted are the directions in which neighbours spread at least 0.55 times as far (in variance) as on a flat sample.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    bandwidth : float or "auto", default="auto"
        The scale. "auto" puts 6% of all points within 3 bandwidths of a point.
    sample_size : int, default=10000
        Use at most this many points, drawn at random.
    random_state : int, RandomState, Generator or None, default=0
        The seed of the sample.

    Returns
    -------
    DimensionEstimate
        The dimension as ``value``, with the spectrum behind it and its ``confidence``.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> ies_gpu.estimate_dimension(strip.X).value
    2
    """
    sample_size = check_integer("sample_size", sample_size, low=2)
    seed = check_seed(random_state)
    X = check_points(X)
    X = X[backend_of(X).asarray(sample_rows(len(X), sample_size, seed))]
    distances = sampled_distances(X, random_state=seed)
    automatic = isinstance(bandwidth, str) and bandwidth == "auto"
    return local_pca_dimension(X, distances, None if automatic else check_length("bandwidth", bandwidth))


def local_spectrum(X: Array, distances: Distances, bandwidth: float, every: int = 1) -> np.ndarray:
    """Return mean local variances in units of ``eps^2 / 2`` along the directions of largest variance: (at most 12,).

    On a flat sample of dimension d with kernel ``exp(-r^2/eps^2)`` the first d are 1 and the others 0. The directions
    come from one half of a point's neighbours and the variances from the other, and the other way round: variances
    along directions that the same few points had chosen would be too large first and too small last.
    """
    backend = backend_of(X)
    size = min(DIRECTIONS, X.shape[1])
    host = backend.to_host(X - X[:1])
    host = host @ leading_axes(host, WIDEST) if X.shape[1] > WIDEST else host
    total, count = np.zeros(size), 0
    for query in range(0, len(distances.rows), every):  # a fixed number of sampled points, not all
        near, weights = (backend.to_host(part) for part in neighbours_of(distances, query, bandwidth))
        if len(near) < 4:
            continue
        order = np.random.default_rng(query).permutation(len(near))
        parts = order[::2], order[1::2]
        halves = [(host[near[half]] / bandwidth, weights[half] / weights[half].sum()) for half in parts]
        for (points, share), (others, rest) in (halves, halves[::-1]):
            axes = principal_axes_of(points, share)[:, :size]
            placed = (others - rest @ others) @ axes
            total[: axes.shape[1]] += 2 * (rest @ placed**2) / max(1 - float(rest @ rest), 1e-3)
        count += 2
    return total / max(count, 1)


def principal_axes_of(points: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the principal directions of weighted points as columns, that of the largest variance first."""
    A = np.sqrt(share)[:, None] * (points - share @ points)
    if len(A) >= A.shape[1]:
        return np.linalg.eigh(A.T @ A)[1][:, ::-1]
    return np.linalg.svd(A, full_matrices=False)[2].T


def times_each(distances: Distances) -> float:
    """Return how many points are where a point is, on average, itself counted."""
    return float(count_true(distances.table == 0)) / len(distances.rows)


def local_pca_dimension(X: Array, distances: Distances, bandwidth: float | None) -> DimensionEstimate:
    """Count the local principal directions at one scale, by default the one with 6% neighbours."""
    if times_each(distances) >= COPIES:  # a neighbourhood of copies holds fewer directions than points
        first = np.unique(backend_of(X).to_host(X), axis=0, return_index=True)[1]
        X = X[backend_of(X).asarray(np.sort(first))]
        distances = sampled_distances(X)
    bandwidth = degree_bandwidth(distances) if bandwidth is None else bandwidth
    spectrum, wider = (local_spectrum(X, distances, scale * bandwidth, every) for scale, every in SCALES)
    value = max(1, int((spectrum >= THRESHOLD).sum()))
    doubtful = tuple(float(v) for v in spectrum if DOUBTFUL[0] <= v <= DOUBTFUL[1])
    shown = ", ".join(f"{v:.2f}" for v in spectrum[: value + 2])
    if spectrum[0] < THRESHOLD:
        text = f"no direction of the local spectrum ({shown}) reaches {THRESHOLD}; 1 is the least there can be"
        sure = Judged("low", text)
    elif doubtful:
        near = ", ".join(f"{v:.2f}" for v in doubtful)
        sure = Judged("fair", f"in the local spectrum ({shown}), {near} is near the threshold {THRESHOLD}")
    else:
        sure = Judged("high", f"the local spectrum ({shown}) is well away from the threshold {THRESHOLD}")
    return DimensionEstimate(value, spectrum, bandwidth, doubtful, sure, wider)
