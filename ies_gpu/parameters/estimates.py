"""Estimates of bandwidth, intrinsic dimension and number of coordinates, each with what it is based on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import at_home
from ..backend.array import Array
from ..findings import Judged
from ..run.inputs import Inputs
from ..run.options import FIXED, Options, is_auto
from ..run.stage import Run
from ..validation import check_choice, check_integer, check_number, check_points, check_seed
from .automatic import POINTS, calibrate
from .bandwidth import (
    DEGREE,
    bandwidth_grid,
    consistency_curve,
    degree_bandwidth,
    kernel_sum_slopes,
    mean_degree,
    sampled_distances,
    subsample,
)
from .dimension import SAMPLE_SIZE, local_pca_dimension

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("fvu", "degree", "slope", "consistency")


@dataclass(frozen=True)
class BandwidthEstimate:
    """A bandwidth and what it is based on.

    Attributes
    ----------
    value : float
        The bandwidth.
    method : str
        The method that was used.
    bandwidths, curve, degrees : ndarray of shape (n_values,)
        The bandwidths that were tried, what was compared (see ``method``), and the mean number of neighbours.
    subsets : tuple of tuple of int
        With "fvu" the set chosen at each bandwidth, counted from 0; otherwise empty.
    confidence : Judged
        How sure the estimate is: its ``level`` and its ``facts``.
    """

    value: float
    method: str
    bandwidths: np.ndarray
    curve: np.ndarray
    degrees: np.ndarray
    subsets: tuple[tuple[int, ...], ...]
    confidence: Judged

    def plot(self) -> Figure:
        """Plot the curve with the chosen bandwidth.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from ..plot.estimates import bandwidth_figure

        return bandwidth_figure(self)


@dataclass(frozen=True)
class SubsetSizeEstimate:
    """A number of coordinates and what it is based on.

    Attributes
    ----------
    value : int
        The number of coordinates.
    intrinsic_dim : int
        The dimension for which sets were compared.
    bandwidth : float
        The bandwidth at which sets were compared.
    sizes : tuple of int
        The sizes that were tried.
    unexplained : tuple of float
        The fraction of the variance of X that the chosen set of each size leaves.
    subsets : tuple of tuple of int
        The chosen set of each size, counted from 0.
    near_zero, near_zero_union : float
        The paper's histogram in two numbers: the share of points with a volume below 0.1 in the chosen set, and in its
        union with the best other set. A share of 0.015 or more that falls below 0.3 of itself asks for one more
        coordinate.
    confidence : Judged
        How sure the estimate is: its ``level`` and its ``facts``.
    """

    value: int
    intrinsic_dim: int
    bandwidth: float
    sizes: tuple[int, ...]
    unexplained: tuple[float, ...]
    subsets: tuple[tuple[int, ...], ...]
    near_zero: float
    near_zero_union: float
    confidence: Judged

    def plot(self) -> Figure:
        """Plot what sets of each size leave unexplained.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from ..plot.estimates import size_figure

        return size_figure(self)


@at_home
def estimate_bandwidth(
    X: Array,
    *,
    method: str = "fvu",
    intrinsic_dim: int | str = "auto",
    subset_size: int | str = "auto",
    n_components: int = 20,
    degree: float = DEGREE,
    self_loops: bool = True,
    sample_size: int = SAMPLE_SIZE,
    device: str = "auto",
    n_threads: int | None = None,
    random_state: Any = 0,
) -> BandwidthEstimate:
    """Estimate a bandwidth for points.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    method : {"fvu", "degree", "slope", "consistency"}, default="fvu"
        "fvu" tries bandwidths around that of "degree" and takes the one whose chosen coordinates explain ``X`` best.
        "degree" makes the share ``degree`` of all points neighbours. "slope" is where the sum of the kernel grows
        fastest. "consistency" is where the metric of the Laplacian is closest to that of the data [1]_.
    intrinsic_dim : int or "auto", default="auto"
        The dimension of the manifold, for "fvu" and "consistency".
    subset_size : int or "auto", default="auto"
        How many coordinates to choose, for "fvu".
    n_components : int, default=20
        How many eigenvectors to choose from, for "fvu".
    degree : float, default=0.06
        The share of points within 3 bandwidths of a point, for "degree". It is raised to 20 neighbours where it would
        be fewer, or to a third of the points if there are fewer than 60.
    self_loops : bool, default=True
        Whether each point is its own neighbour, for "fvu".
    sample_size : int, default=10000
        Use at most this many points, drawn at random. The value is for that many: with more points a smaller bandwidth
        is enough, and :func:`select_coordinates` shrinks it.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute, for "fvu".
    n_threads : int, optional
        How many CPU threads to use, for "fvu".
    random_state : int, RandomState, Generator or None, default=0
        The seed of all samples.

    Returns
    -------
    BandwidthEstimate
        The bandwidth as ``value``, with the curve behind it and its ``confidence``.

    References
    ----------
    .. [1] D. Perrault-Joncas, M. Meila and J. McQueen, "Improved graph Laplacian via geometric self-consistency",
           NIPS 2017.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> estimate = ies_gpu.estimate_bandwidth(strip.X, method="degree")
    >>> 0.1 < estimate.value < 1
    True
    """
    check_choice("method", method, METHODS)
    if method == "fvu":
        options = Options(
            bandwidth=FIXED,
            intrinsic_dim=intrinsic_dim,
            subset_size=subset_size,
            n_components=n_components,
            self_loops=self_loops,
            device=device,
            n_threads=n_threads,
            random_state=random_state,
        )
        done = _report(X, sample_size, options)
        rows = done["scan"]
        curve = np.array([row["fvu"] for row in rows])
        eps, degrees = (np.array([row[key] for row in rows]) for key in ("bandwidth", "mean_degree"))
        sets = tuple(row["subset"] for row in rows)
        sure = Judged(**done["confidence"]["bandwidth"])
        return BandwidthEstimate(done["chosen"]["bandwidth"], method, eps, curve, degrees, sets, sure)
    size = check_integer("sample_size", sample_size, low=2)
    seed = check_seed(random_state)
    Z = subsample(check_points(X), size, seed)
    distances = sampled_distances(Z, random_state=seed)
    centre = degree_bandwidth(distances, check_number("degree", degree, high=1.0))
    grid = bandwidth_grid(centre)
    degrees = np.array([mean_degree(distances, eps) for eps in grid])
    if method == "degree":
        sure = Judged("fair", "a rule of thumb that does not look at the result; method='fvu' compares results")
        return BandwidthEstimate(centre, method, grid, degrees, degrees, (), sure)
    if method == "slope":
        curve = kernel_sum_slopes(distances, grid)
        best = int(curve.argmax())
    else:
        d = local_pca_dimension(Z, distances, centre).value if is_auto(intrinsic_dim) else intrinsic_dim
        d = check_integer("intrinsic_dim", d, low=1, high=Z.shape[1], why=f" for {Z.shape[1]} columns")
        grid, degrees = grid[::2], degrees[::2]
        curve = consistency_curve(Z, d, grid, random_state=seed)
        best = int(curve.argmin())
    sure = Judged("fair", "a clear optimum of the curve")
    if best in (0, len(grid) - 1):
        sure = Judged("low", "the best value lies at the end of the range tried")
    return BandwidthEstimate(float(grid[best]), method, grid, curve, degrees, (), sure)


@at_home
def suggest_subset_size(
    X: Array,
    *,
    bandwidth: float | str = "auto",
    intrinsic_dim: int | str = "auto",
    n_components: int = 20,
    sample_size: int = SAMPLE_SIZE,
    device: str = "auto",
    n_threads: int | None = None,
    random_state: Any = 0,
) -> SubsetSizeEstimate:
    """Suggest how many coordinates to choose: as many as each explain at least 1 % more of the variance of X.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point.
    bandwidth : float or "auto", default="auto"
        The bandwidth of the kernel. "auto" compares each size at its own best bandwidth.
    intrinsic_dim : int or "auto", default="auto"
        The dimension of the manifold, the smallest size that is tried.
    n_components : int, default=20
        How many eigenvectors to choose from.
    sample_size : int, default=10000
        Use at most this many points, drawn at random.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute.
    n_threads : int, optional
        How many CPU threads to use, by default all that the process may.
    random_state : int, RandomState, Generator or None, default=0
        The seed of all samples.

    Returns
    -------
    SubsetSizeEstimate
        The size as ``value``, with what each size explains and the ``confidence``.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> estimate = ies_gpu.suggest_subset_size(strip.X, bandwidth=0.8, intrinsic_dim=2, n_components=10)
    >>> estimate.value
    2
    """
    options = Options(
        bandwidth=FIXED if is_auto(bandwidth) else bandwidth,
        intrinsic_dim=intrinsic_dim,
        n_components=n_components,
        device=device,
        n_threads=n_threads,
        random_state=random_state,
    )
    done = _report(X, sample_size, options)
    sizes = done["sizes"]
    return SubsetSizeEstimate(
        value=done["chosen"]["subset_size"],
        intrinsic_dim=done["intrinsic_dim"],
        bandwidth=done["bandwidth"],
        sizes=tuple(row["subset_size"] for row in sizes),
        unexplained=tuple(row["fvu"] for row in sizes),
        subsets=tuple(row["subset"] for row in sizes),
        near_zero=done["near_zero"],
        near_zero_union=done["near_zero_union"],
        confidence=Judged(**done["confidence"]["subset_size"]),
    )


def _report(X: Array, sample_size: int, options: Options) -> dict[str, Any]:
    """The report of a calibration on a sample."""
    size = check_integer("sample_size", sample_size, low=2)
    given = Inputs.of(X=subsample(check_points(X), size, options.random_state))
    with Run(options, given) as run:
        return calibrate(run, run.stage(POINTS, given.value), sample_size=size).report
