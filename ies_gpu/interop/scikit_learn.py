"""scikit-learn transformers: a diffusion map, and its independent coordinates, both ready for new points."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

from ..backend import at_home, to_host
from ..backend.array import Array, extent
from ..embedding.metrics import points_in_metric
from ..errors import IESWarning
from ..findings import listen, option, refusal, tell, warning
from ..options import Options, is_auto, is_found
from ..results.assembly import orient_and_scale
from ..run.fit import mapped
from ..run.inputs import Inputs, laplacian_of
from ..run.run import Run
from ..select import select_coordinates
from ..validation import check_integer, check_length
from .transformer import SpectralTransformer, estimator, from_table

SIZES = ("intrinsic_dim", "subset_size", "bandwidth")
ABOUT_THE_CHOICE = ("choice", "dimension", "search")  # topics of which a diffusion map knows nothing
FEW = 100  # below this many points nothing can be estimated from their distances


@estimator
class DiffusionMap(SpectralTransformer):
    """Diffusion map: the slowest non-constant eigenvectors of the renormalised Laplacian.

    Parameters
    ----------
    n_components : int, default=20
        How many eigenvectors to compute. With too few points, as many as they allow, with a warning.
    bandwidth : float or "auto", default="auto"
        The bandwidth of the Gaussian kernel. "auto" takes the one that :class:`IndependentCoordinates` would find, or
        with ``n_neighbors`` the median distance to the last neighbour.
    {n_neighbors, radius, self_loops, metric, alpha, scale, diffusion_time, disconnected, isolated, device, dtype,
    memory_limit, n_threads, random_state, tol, progress}

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        ``phi_1 .. phi_m`` of the training points.
    {fitted}

    See Also
    --------
    IndependentCoordinates : Choose the few coordinates that make a map.

    Examples
    --------
    >>> from ies_gpu import DiffusionMap, datasets
    >>> strip = datasets.load("D1", n_samples=400)
    >>> DiffusionMap(n_components=5, bandwidth=1.2).fit_transform(strip.X).shape
    (400, 5)
    """

    @at_home
    @from_table
    def fit(self, X: Array, y: Array = None) -> Self:
        """Compute the map of the points.

        Parameters
        ----------
        {training}

        Returns
        -------
        DiffusionMap
            The fitted transformer.
        """
        entry, X = self._given(X)
        asked = self._options(X)
        if is_found(asked["bandwidth"]) and not self._precomputed:
            asked |= self._found(X, asked)
        options = Options(entry=next(iter(entry)), **asked, intrinsic_dim=1, subset_size=1)
        given = Inputs.of(**entry).in_metric(options.metric)
        with Run(options, given, self.progress) as run:
            laplacian = run(laplacian_of, given, options)
            found = mapped(laplacian, options, run)
            coordinates, _ = orient_and_scale(given, options, laplacian, found)
        made = {"coordinates": coordinates, "eigenvalues": found.eigenvalues, "subset": range(options.n_components)}
        return self._keep(X, laplacian.rows.used, options.parameters, **made)

    def _found(self, X: Array, asked: dict[str, Any]) -> dict[str, Any]:
        """Find the bandwidth that the choice of coordinates finds best, and its way with a graph in parts."""
        if len(X) < FEW:
            bandwidth = few_points_bandwidth(points_in_metric(X, self.metric))
            text = f"{len(X)} points are too few to estimate anything from them; using {option('bandwidth', bandwidth)}"
            tell(warning("points.few", text, "pass your own if you know it"))
            return {"bandwidth": bandwidth}
        with listen(IESWarning) as said:
            used = select_coordinates(X, **asked, keep_bases=False, progress=self.progress).diagnostics["parameters"]
        for finding in said:
            if finding.topic not in ABOUT_THE_CHOICE:
                tell(finding)
        return {"bandwidth": used["bandwidth"], "disconnected": used["disconnected"]}


@estimator
class IndependentCoordinates(SpectralTransformer):
    """The few eigenvectors of a diffusion map that give a smooth map of full rank and vary slowest.

    Parameters
    ----------
    n_components : int, default=20
        How many eigenvectors to choose from. With too few points, as many as they allow, with a warning.
    bandwidth : float or "auto", default="auto"
        The bandwidth of the Gaussian kernel. "auto" tries several, as "fixed" in
        :func:`select_coordinates`; with ``n_neighbors`` it is the median distance to the last neighbour.
    {n_neighbors, radius, self_loops, metric, alpha, scale, diffusion_time, disconnected, isolated, device, dtype,
    memory_limit, n_threads, random_state, tol, progress, intrinsic_dim, subset_size, zeta, percentile, search,
    untangle}

    Attributes
    ----------
    selection_ : Selection
        The chosen coordinates and everything that led to them.
    embedding_ : ndarray of shape (n_samples, s)
        The training points in the chosen coordinates.
    intrinsic_dim_, subset_size_ : int
        The dimension and the number of coordinates that were used.
    {fitted}

    See Also
    --------
    select_coordinates : The same as a function.
    DiffusionMap : All eigenvectors, without a choice.

    Notes
    -----
    Fewer than 100 points are too few to estimate anything from. "auto" then means a bandwidth that keeps the graph in
    one piece, dimension 2 (1 if there is one column), and as many coordinates as dimensions, with a warning.

    Examples
    --------
    >>> from ies_gpu import IndependentCoordinates, datasets
    >>> strip = datasets.load("D1", n_samples=400)
    >>> chooser = IndependentCoordinates(intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> chooser.fit_transform(strip.X).shape
    (400, 2)
    >>> chooser.get_feature_names_out().tolist()
    ['phi1', 'phi7']
    """

    intrinsic_dim: int | str = "auto"
    subset_size: int | str = "auto"
    zeta: float | str = "auto"
    percentile: float = 75
    search: str = "exhaustive"
    untangle: bool = True

    @at_home
    @from_table
    def fit(self, X: Array, y: Array = None) -> Self:
        """Choose the coordinates.

        Parameters
        ----------
        {training}

        Returns
        -------
        IndependentCoordinates
            The fitted transformer.
        """
        entry, X = self._given(X)
        asked = self._options(X)
        if self._precomputed and (missing := [name for name in SIZES[:2] if is_auto(asked[name])]):
            text = f"{option(missing[0])} is required with {option('metric', self.metric)}: 'auto' needs the points"
            raise refusal("entry.automatic", text)
        if X.shape[0] < FEW and "X" in entry and any(is_auto(asked[name]) or is_found(asked[name]) for name in SIZES):
            asked |= few_points_sizes(points_in_metric(X, self.metric), asked)
        self.selection_ = found = select_coordinates(**entry, **asked, progress=self.progress)
        used = found.diagnostics["parameters"]
        self.intrinsic_dim_, self.subset_size_ = used["intrinsic_dim"], used["subset_size"]
        made = {name: getattr(found, name) for name in ("coordinates", "eigenvalues", "subset", "rotation")}
        return self._keep(X, to_host(found.points), used, **made)


def few_points_bandwidth(X: Array) -> float:
    """Return a bandwidth for a few points, with a radius between those that connect the graph and join all pairs.

    The radius is the geometric mean of the longest edge of the minimum spanning tree and the largest distance.
    """
    Z = to_host(X)
    unit = extent(Z)
    distances = pdist((Z - Z[0]) / unit)
    longest = linkage(distances, "single")[:, 2].max()
    return float(unit * np.sqrt(longest * distances.max()) / 3)


def few_points_sizes(X: Array, asked: dict[str, Any]) -> dict[str, Any]:
    """Return dimension, number of coordinates and bandwidth, with a guess for each that is "auto"."""
    d, s, bandwidth = (asked[name] for name in SIZES)
    if not is_auto(s):
        s = check_integer("subset_size", s, low=1)
    if is_auto(d):
        d = min(2, asked["n_components"], X.shape[1], *([] if is_auto(s) else [s]))
    s = d if is_auto(s) else s
    bandwidth = few_points_bandwidth(X) if is_found(bandwidth) else check_length("bandwidth", bandwidth)
    used = f"{option('intrinsic_dim', d)}, {option('subset_size', s)}, {option('bandwidth', bandwidth)}"
    text = f"{len(X)} points are too few to estimate anything from them; using {used}"
    tell(warning("points.guessed", text, "pass your own values if you know them"))
    return dict(zip(SIZES, (d, s, bandwidth), strict=True))
