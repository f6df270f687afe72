"""Estimates of bandwidth, intrinsic dimension and number of coordinates, each with what it is based on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import at_home
from ..run.inputs import Inputs
from ..run.options import Options, is_auto
from ..run.stage import Run
from ..validation import check_choice, check_integer, check_number, check_points
from .automatic import POINTS, calibrate
from .bandwidth import (
    DEGREE,
    bandwidth_grid,
    consistency_curve,
    degree_bandwidth,
    kernel_sum_slopes,
    mean_degree,
    sampled_distances,
)
from .dimension import SAMPLE_SIZE, local_pca_dimension, subsample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("fvu", "degree", "slope", "consistency")


@dataclass(frozen=True)
class BandwidthEstimate:
    """A bandwidth and what it is based on.

    Attributes
    ----------
    value : float
        eps.
    method : str
    bandwidths, curve, degrees : array (k,)
        Bandwidths that were tried, what was compared (see ``method``), and the mean degree within 3 eps.
    subsets : tuple of sets
        With ``fvu`` the set chosen at each bandwidth, 0-based; else empty.
    confidence : str
        In words.
    """

    value: float
    method: str
    bandwidths: np.ndarray
    curve: np.ndarray
    degrees: np.ndarray
    subsets: tuple[tuple[int, ...], ...]
    confidence: str

    def plot(self) -> Figure:
        """The curve, with the bandwidth chosen."""
        from ..plot.estimates import bandwidth_figure

        return bandwidth_figure(self)


@dataclass(frozen=True)
class SubsetSizeEstimate:
    """A number of coordinates and what it is based on.

    Attributes
    ----------
    value : int
        s.
    intrinsic_dim, bandwidth : int, float
        d and eps at which sets were compared.
    sizes, unexplained, subsets
        Sizes tried, the fraction of the variance of X that the chosen set of each leaves, and that set, 0-based.
    near_zero, near_zero_union : float
        The paper's histogram in two numbers: the share of points with a volume below 0.1 in the chosen set, and in its
        union with the best other set. A share of 0.015 or more that falls to less than 0.3 of itself asks for one more
        coordinate.
    confidence : str
        In words.
    """

    value: int
    intrinsic_dim: int
    bandwidth: float
    sizes: tuple[int, ...]
    unexplained: tuple[float, ...]
    subsets: tuple[tuple[int, ...], ...]
    near_zero: float
    near_zero_union: float
    confidence: str

    def plot(self) -> Figure:
        """What sets of each size leave unexplained."""
        from ..plot.estimates import size_figure

        return size_figure(self)


@at_home
def estimate_bandwidth(
    X: Any,
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
    random_state: int = 0,
) -> BandwidthEstimate:
    """Find a bandwidth for points.

    Parameters
    ----------
    X : array (n, D)
    method : {"fvu", "degree", "slope", "consistency"}
        ``fvu`` tries bandwidths around the one of ``degree`` and takes the one whose chosen coordinates explain X
        best. ``degree``: neighbours within 3 eps are the share ``degree`` of all points. ``slope``: the sum of the
        kernel grows fastest. ``consistency``: the Laplacian's metric is closest to that of the data.
    intrinsic_dim, subset_size : int or "auto"
        For ``fvu``; the former for ``consistency`` too.
    n_components : int
        For ``fvu``.
    degree : float
        For ``degree``.
    self_loops : bool
        For ``fvu``, as in :func:`select_coordinates`.
    sample_size : int
        At most so many points, drawn with the seed, are looked at. The value is for so many: with more points a
        smaller bandwidth does, and ``select_coordinates`` shrinks it.
    device, n_threads, random_state
        As in :func:`select_coordinates`.
    """
    check_choice("method", method, METHODS)
    if method == "fvu":
        options = Options(
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
        words = done["confidence"]["bandwidth"]
        return BandwidthEstimate(done["chosen"]["bandwidth"], method, eps, curve, degrees, sets, words)
    size = check_integer("sample_size", sample_size, low=2)
    seed = check_integer("random_state", random_state, low=0)
    Z = subsample(check_points(X), size, seed)
    distances = sampled_distances(Z, random_state=seed)
    centre = degree_bandwidth(distances, check_number("degree", degree, high=1.0))
    grid = bandwidth_grid(centre)
    degrees = np.array([mean_degree(distances, eps) for eps in grid])
    if method == "degree":
        words = "fair: a rule of thumb, with no look at the result; method='fvu' compares results"
        return BandwidthEstimate(centre, method, grid, degrees, degrees, (), words)
    if method == "slope":
        curve = kernel_sum_slopes(distances, grid)
        best = int(curve.argmax())
    else:
        d = local_pca_dimension(Z, distances, centre).value if is_auto(intrinsic_dim) else intrinsic_dim
        d = check_integer("intrinsic_dim", d, low=1, high=Z.shape[1], why=f" for {Z.shape[1]} columns")
        grid, degrees = grid[::2], degrees[::2]
        curve = consistency_curve(Z, d, grid, random_state=seed)
        best = int(curve.argmin())
    at_end = best in (0, len(grid) - 1)
    words = "low: the best value lies at the end of the range tried" if at_end else "fair: a clear optimum of the curve"
    return BandwidthEstimate(float(grid[best]), method, grid, curve, degrees, (), words)


@at_home
def suggest_subset_size(
    X: Any,
    *,
    bandwidth: float | str = "auto",
    intrinsic_dim: int | str = "auto",
    n_components: int = 20,
    sample_size: int = SAMPLE_SIZE,
    device: str = "auto",
    n_threads: int | None = None,
    random_state: int = 0,
) -> SubsetSizeEstimate:
    """Find how many coordinates to choose: as many as each explain 1 % more of the variance of X.

    Parameters are those of :func:`estimate_bandwidth`.
    """
    options = Options(
        bandwidth=bandwidth,
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
        confidence=done["confidence"]["subset_size"],
    )


def _report(X: Any, sample_size: int, options: Options) -> dict[str, Any]:
    """What a calibration on a sample is based on."""
    size = check_integer("sample_size", sample_size, low=2)
    given = Inputs.of(X=subsample(check_points(X), size, options.random_state))
    with Run(options, given) as run:
        return calibrate(run, run.stage(POINTS, given.value), sample_size=size).report
