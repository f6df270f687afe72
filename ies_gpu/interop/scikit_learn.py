"""scikit-learn transformers: a diffusion map, and its independent coordinates, with a place for new points."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..backend import backend_of, device_near, get_backend, host_view, to_device
from ..embedding.nystrom import ISOLATED, check_scales
from ..errors import warn_caller
from ..parameters.verdict import is_auto
from ..results.model import Model, make_model, model_of
from ..results.selection import select_coordinates
from ..run.inputs import check_request, prepare
from ..run.log import DTYPES, Run, Stages
from ..run.stages import embed
from ..validation import check_choice, check_integer, check_number, check_points, check_real_array

FEWEST = 4  # points: fewer have no map with two coordinates
FEW = 100  # below this many points nothing can be estimated from their distances


class SpectralTransformer(TransformerMixin, BaseEstimator):
    """What both transformers share: input, names of the output, and new points."""

    model_: Model
    embedding_: Any

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the coordinates of the training points.

        Parameters
        ----------
        X : array (n, D)
        y : ignored

        Returns
        -------
        array (n, s)
        """
        return self.fit(X, y).embedding_

    def transform(self, X: Any) -> Any:
        """New points in the coordinates of the training points, by the Nystrom extension.

        Training points get their training coordinates. Points without a training point within the radius get the
        coordinates of the nearest one, or NaN (``isolated``), and a warning.

        Parameters
        ----------
        X : array (n_new, D)

        Returns
        -------
        array (n_new, s)
        """
        check_is_fitted(self)
        return self._extend(self._input(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the coordinates, counted from 1: ``phi1``, ``phi7``.

        Parameters
        ----------
        input_features : sequence of str, optional
            Only compared with the names seen in ``fit``.
        """
        check_is_fitted(self)
        if input_features is not None:
            own = getattr(self, "feature_names_in_", None)
            if own is not None and not np.array_equal(own, np.asarray(input_features, dtype=object)):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to number of features ({self.n_features_in_}), got "
                    f"{len(input_features)}"
                )
        return np.asarray(self.model_.names, dtype=object)

    def _input(self, X: Any, *, reset: bool) -> Any:
        """Points as float64 with as many columns as in ``fit``, on the device where they are."""
        if backend_of(X).device != "cpu":
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_real_array("X", X, 2)
        fewest = FEWEST if reset else 1
        return validate_data(self, host_view(X), reset=reset, dtype=np.float64, ensure_min_samples=fewest)

    def _extend(self, X: Any) -> Any:
        return self.model_.transform(
            X, isolated=self.isolated, device=self.device, memory_limit=self.memory_limit, n_threads=self.n_threads
        )

    def _keep(self, X: Any, points: Any, model: Model) -> None:
        """Store the model, and the coordinates of all points: those left out of the graph count as new."""
        self.model_, self.bandwidth_ = model, model.bandwidth
        chosen = model.coordinates[:, list(model.subset)]
        if len(points) < len(X):
            left_out = np.setdiff1d(np.arange(len(X)), points)
            whole = backend_of(X).xp.empty((len(X), chosen.shape[1]))
            whole[points], whole[left_out] = chosen, self._extend(X[left_out])
            chosen = whole
        self.embedding_ = chosen

    def _n_components(self, X: Any) -> int:
        """m; where there are too few points for it, as many as they allow, with a warning."""
        m = check_integer("n_components", self.n_components, low=1)
        if m > len(X) - 2:
            warn_caller(f"n_components={m} needs at least {m + 2} points; {len(X) - 2} are used for {len(X)} points")
        return min(m, len(X) - 2)

    def _seed(self) -> int:
        """A seed from what scikit-learn calls a random state."""
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        return check_integer("random_state", self.random_state, low=0)


class DiffusionMap(SpectralTransformer):
    """Diffusion map: the slowest non-constant eigenvectors of the renormalised Laplacian.

    Parameters
    ----------
    n_components : int
        How many eigenvectors; where there are too few points, as many as they allow, with a warning.
    bandwidth : float or "auto"
        eps of the Gaussian kernel; "auto" is the one that :class:`IndependentCoordinates` would find.
    radius : float, optional
        Neighbours are points no further apart than this: ``3 * bandwidth`` unless given.
    self_loops : bool
        Whether a point is its own neighbour, as in ``select_coordinates``.
    components : {"raise", "largest"}
        What to do when the graph is disconnected.
    isolated : {"nearest", "nan"}
        What points without a training point within the radius get. Unlike in ``nystrom_extension`` it is not NaN
        unless asked for, because most regressors that follow in a pipeline refuse NaN.
    device : {"auto", "cpu", "cuda", "cuda:N"}
    dtype : {"float64", "mixed", "float32"}
        Storage of the kernel matrix.
    memory_limit, n_threads : int, optional
    random_state : int, RandomState or None
        Of the eigensolver's start vector.
    tol : float
        Bound on the residual of every eigenpair.

    Attributes
    ----------
    embedding_ : array (n, m)
        ``phi_1 .. phi_m`` of the training points, each of unit length.
    eigenvalues_ : array (m,)
        Of ``L = I - P``, rising.
    bandwidth_ : float
    model_ : Model
        What ``transform`` uses; ``save_model`` writes it.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from ies_gpu import DiffusionMap, datasets
    >>> strip = datasets.load("D1", n_samples=1000)
    >>> DiffusionMap(n_components=5, bandwidth=0.8).fit_transform(strip.X).shape
    (1000, 5)
    """

    def __init__(
        self,
        *,
        n_components: int = 20,
        bandwidth: float | str = "auto",
        radius: float | None = None,
        self_loops: bool = True,
        components: str = "raise",
        isolated: str = "nearest",
        device: str = "auto",
        dtype: str = "float64",
        memory_limit: int | None = None,
        n_threads: int | None = None,
        random_state: Any = 0,
        tol: float = 1e-8,
    ) -> None:
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.radius = radius
        self.self_loops = self_loops
        self.components = components
        self.isolated = isolated
        self.device = device
        self.dtype = dtype
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.random_state = random_state
        self.tol = tol

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the map of the points.

        Parameters
        ----------
        X : array (n, D)
        y : ignored
        """
        X = check_points(self._input(X, reset=True))
        check_choice("isolated", self.isolated, ISOLATED)
        check_choice("components", self.components, ("raise", "largest"))
        check_choice("dtype", self.dtype, DTYPES)
        tol, seed, m = check_number("tol", self.tol, high=1.0), self._seed(), self._n_components(X)
        request = check_request("X", self._bandwidth(X, m, seed), self.radius, self.components, m, self.self_loops)
        home = backend_of(X)
        backend = get_backend(device_near(home, self.device), memory_limit=self.memory_limit, n_threads=self.n_threads)
        run = Run(backend, Stages(), self.dtype, {})
        with backend.active():
            work = embed(prepare({"X": X}, "X", request, run), m, seed, tol, run)
            back = backend.asarray(np.argsort(work.order))
            coordinates = to_device(work.coordinates[back], home)
        points = X if len(work.points) == len(X) else X[home.asarray(work.points)]
        names = getattr(self, "feature_names_in_", None)
        self.eigenvalues_ = work.eigenvalues
        scales = check_scales(request.bandwidth, request.radius)
        map_of_X = (points, coordinates, work.eigenvalues)
        model = make_model(*map_of_X, *scales, range(m), names, self_loops=request.self_loops)
        self._keep(X, work.points, model)
        return self

    def _bandwidth(self, X: Any, m: int, seed: int) -> Any:
        """As given, or that which the choice of coordinates finds best."""
        if not is_auto(self.bandwidth):
            return self.bandwidth
        if len(X) < FEW:
            return few_points_bandwidth(X)
        names = ("radius", "self_loops", "components", "device", "dtype", "memory_limit", "n_threads", "tol")
        options = {name: getattr(self, name) for name in names}
        found = select_coordinates(X, n_components=m, random_state=seed, keep_bases=False, **options)
        return found.diagnostics["parameters"]["bandwidth"]


class IndependentCoordinates(SpectralTransformer):
    """The few eigenvectors of a diffusion map that together give a smooth map of full rank and vary slowest.

    Parameters
    ----------
    intrinsic_dim : int or "auto"
        d, the dimension of the manifold.
    subset_size : int or "auto"
        s, how many coordinates to choose.
    bandwidth : float or "auto"
        eps of the Gaussian kernel.
    radius : float, optional
        Neighbours are points no further apart than this: ``3 * bandwidth`` unless given.
    n_components : int
        m, how many eigenvectors to choose from; where there are too few points, as many as they allow, with a warning.
    self_loops, zeta, percentile, search, components, device, dtype, memory_limit, n_threads, tol
        As in ``select_coordinates``.
    isolated : {"nearest", "nan"}
        What points without a training point within the radius get. Unlike in ``nystrom_extension`` it is not NaN
        unless asked for, because most regressors that follow in a pipeline refuse NaN.
    random_state : int, RandomState or None
        Of the eigensolver's start vector.

    Attributes
    ----------
    selection_ : Selection
        The chosen coordinates and everything that led to them.
    embedding_ : array (n, s)
        The training points in the chosen coordinates.
    bandwidth_, intrinsic_dim_, subset_size_
        As used.
    model_ : Model
        What ``transform`` uses; ``save_model`` writes it.
    n_features_in_, feature_names_in_

    Notes
    -----
    With fewer than 100 points nothing can be estimated from them. "auto" then means a bandwidth that keeps the graph in
    one piece, a plane (a line for one column), and as many coordinates as that has dimensions, with a warning.

    Examples
    --------
    >>> from ies_gpu import IndependentCoordinates, datasets
    >>> strip = datasets.load("D1", n_samples=1000)
    >>> chooser = IndependentCoordinates(intrinsic_dim=2, subset_size=2, bandwidth=0.8)
    >>> chooser.fit_transform(strip.X).shape
    (1000, 2)
    """

    def __init__(
        self,
        *,
        intrinsic_dim: int | str = "auto",
        subset_size: int | str = "auto",
        bandwidth: float | str = "auto",
        radius: float | None = None,
        self_loops: bool = True,
        n_components: int = 20,
        zeta: float | str = "auto",
        percentile: float = 75,
        search: str = "exhaustive",
        components: str = "raise",
        isolated: str = "nearest",
        device: str = "auto",
        dtype: str = "float64",
        memory_limit: int | None = None,
        n_threads: int | None = None,
        random_state: Any = 0,
        tol: float = 1e-8,
    ) -> None:
        self.intrinsic_dim = intrinsic_dim
        self.subset_size = subset_size
        self.bandwidth = bandwidth
        self.radius = radius
        self.self_loops = self_loops
        self.n_components = n_components
        self.zeta = zeta
        self.percentile = percentile
        self.search = search
        self.components = components
        self.isolated = isolated
        self.device = device
        self.dtype = dtype
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.random_state = random_state
        self.tol = tol

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the coordinates.

        Parameters
        ----------
        X : array (n, D)
        y : ignored
        """
        X = check_points(self._input(X, reset=True))
        check_choice("isolated", self.isolated, ISOLATED)
        m = self._n_components(X)
        sizes: tuple[Any, Any, Any] = (self.intrinsic_dim, self.subset_size, self.bandwidth)
        if len(X) < FEW and any(map(is_auto, sizes)):
            sizes = few_points_sizes(X, m, *sizes)
        d, s, bandwidth = sizes
        self.selection_ = select_coordinates(
            X,
            intrinsic_dim=d,
            subset_size=s,
            bandwidth=bandwidth,
            radius=self.radius,
            self_loops=self.self_loops,
            n_components=m,
            zeta=self.zeta,
            percentile=self.percentile,
            search=self.search,
            components=self.components,
            device=self.device,
            dtype=self.dtype,
            memory_limit=self.memory_limit,
            n_threads=self.n_threads,
            random_state=self._seed(),
            tol=self.tol,
        )
        used = self.selection_.diagnostics["parameters"]
        self.intrinsic_dim_, self.subset_size_ = used["intrinsic_dim"], used["subset_size"]
        names = getattr(self, "feature_names_in_", None)
        self._keep(X, self.selection_.points, model_of(self.selection_, X, feature_names=names))
        return self


def few_points_bandwidth(X: Any) -> float:
    """A bandwidth for a few points: with a radius between that which keeps them together and that which joins all.

    It is the geometric mean of the longest edge of the minimum spanning tree and the largest distance.
    """
    Z = backend_of(X).to_host(X)
    unit = float(np.abs(Z - Z[0]).max())  # squares of these neither overflow nor vanish
    distances = pdist((Z - Z[0]) / unit)
    longest = linkage(distances, "single")[:, 2].max()
    return float(unit * np.sqrt(longest * distances.max()) / 3)


def few_points_sizes(X: Any, m: int, d: Any, s: Any, bandwidth: Any) -> tuple[Any, Any, Any]:
    """d, s and the bandwidth with a guess for each that is "auto"."""
    if not is_auto(s):
        s = check_integer("subset_size", s, low=1)
    if is_auto(d):
        d = min(2, m, X.shape[1]) if is_auto(s) else min(2, m, X.shape[1], s)
    s = d if is_auto(s) else s
    bandwidth = few_points_bandwidth(X) if is_auto(bandwidth) else check_number("bandwidth", bandwidth)
    warn_caller(
        f"{len(X)} points are too few to estimate anything from them; going on with intrinsic_dim={d}, "
        f"subset_size={s}, bandwidth={bandwidth:.4g}: give them if you know better",
    )
    return d, s, bandwidth
