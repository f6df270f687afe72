"""scikit-learn transformers: a diffusion map, and its independent coordinates, both ready for new points."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..backend import backend_of, host_view, to_device
from ..backend.array import Array
from ..embedding.nystrom import ISOLATED, check_scales
from ..errors import warn_caller
from ..results.model import Model, make_model, model_of
from ..run.inputs import Inputs
from ..run.options import Options, is_auto, is_each, is_local
from ..run.stage import Run
from ..run.stages.eigenvectors import EIGENVECTORS
from ..run.stages.graph import GRAPH, LAPLACIAN
from ..select import select_coordinates
from ..validation import check_choice, check_integer, check_length, check_points, check_real_array

FEWEST = 4  # points: with fewer there is no map with two coordinates
SIZES = ("intrinsic_dim", "subset_size", "bandwidth")
FEW = 100  # below this many points nothing can be estimated from their distances


class SpectralTransformer(TransformerMixin, BaseEstimator):
    """What both transformers share: input, names of the output, and new points."""

    model_: Model
    embedding_: Any

    def fit_transform(self, X: Array, y: Array = None) -> Any:
        """Fit the points and return their coordinates.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The training points.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_coordinates)
            The coordinates of the training points.
        """
        return self.fit(X, y).embedding_

    def transform(self, X: Array) -> Any:
        """Place new points in the map, by the Nystrom extension.

        Training points get their training coordinates. A point without a training point within the radius gets the
        coordinates of the nearest one, or NaN (see ``isolated``), with a warning.

        Parameters
        ----------
        X : ndarray of shape (n_new, n_features)
            New points.

        Returns
        -------
        ndarray of shape (n_new, n_coordinates)
            Their coordinates.
        """
        check_is_fitted(self)
        return self._extend(self._input(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the coordinates, counted from 1.

        Parameters
        ----------
        input_features : sequence of str, optional
            Only compared with the names seen in ``fit``.

        Returns
        -------
        ndarray of str objects
            Names such as ``phi1`` and ``phi7``.
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

    def _input(self, X: Array, *, reset: bool) -> Any:
        """Points as float64, on their own device, with as many columns as in ``fit``."""
        if backend_of(X).device != "cpu":
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_real_array("X", X, 2)
        fewest = FEWEST if reset else 1
        try:
            return validate_data(self, host_view(X), reset=reset, dtype=np.float64, ensure_min_samples=fewest)
        except MemoryError:
            raise
        except Exception as error:  # scikit-learn's reasons, in one line, and those of objects that convert themselves
            kind = TypeError if isinstance(error, TypeError) else ValueError
            reason = " ".join(str(error).split())
            raise kind(f"X cannot be used: {reason if len(reason) < 400 else reason[:400] + '...'}") from None

    def _extend(self, X: Array) -> Any:
        return self.model_.transform(
            X, isolated=self.isolated, device=self.device, memory_limit=self.memory_limit, n_threads=self.n_threads
        )

    def _keep(self, X: Array, points: Array, model: Model) -> None:
        """Store the model, and the coordinates of all points: those left out of the graph count as new."""
        self.model_, self.bandwidth_ = model, model.bandwidth
        chosen = model.coordinates[:, list(model.subset)]
        if len(points) < len(X):
            left_out = np.setdiff1d(np.arange(len(X)), points)
            whole = backend_of(X).xp.empty((len(X), chosen.shape[1]))
            whole[points], whole[left_out] = chosen, self._extend(X[left_out])
            chosen = whole
        self.embedding_ = chosen

    def _options(self, X: Array) -> dict[str, Any]:
        """The options for ``select_coordinates``, with n_components lowered if there are too few points."""
        check_choice("isolated", self.isolated, ISOLATED)
        if is_each(self.components):
            raise ValueError(
                "components='each' gives one map per part, but a transformer has one; use components='largest', or "
                "select_coordinates"
            )
        if is_local(self.bandwidth):
            raise ValueError(
                "bandwidth='local' has no place for new points, which a transformer needs; pass a number, or use "
                "select_coordinates"
            )
        own = self.get_params(deep=False)
        asked = {field.name: own[field.name] for field in fields(Options) if field.name in own}
        m = check_integer("n_components", self.n_components, low=1)
        if m > len(X) - 2:
            warn_caller(f"n_components={m} needs at least {m + 2} points; using {len(X) - 2} for {len(X)} points")
        return asked | {"n_components": min(m, len(X) - 2), "random_state": self._seed()}

    def _seed(self) -> int:
        """A seed from what scikit-learn calls a random state."""
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        return check_integer("random_state", self.random_state, low=0)


class DiffusionMap(SpectralTransformer):
    """Diffusion map: the slowest non-constant eigenvectors of the renormalised Laplacian.

    Parameters
    ----------
    n_components : int, default=20
        How many eigenvectors to compute. With too few points, as many as they allow, with a warning.
    bandwidth : float or "auto", default="auto"
        The bandwidth of the Gaussian kernel. "auto" takes the one that :class:`IndependentCoordinates` would find.
    radius : float, optional
        Points at most this far apart are neighbours; ``3 * bandwidth`` by default.
    self_loops : bool, default=True
        Whether each point is its own neighbour, as in the paper. See :func:`select_coordinates`.
    components : {"auto", "raise", "most", "largest"}, default="auto"
        What to do if the graph is disconnected; see :func:`select_coordinates`.
    isolated : {"nearest", "nan"}, default="nearest"
        What ``transform`` returns for a point without a training point within the radius: the coordinates of the
        nearest training point, or NaN. Unlike in :func:`nystrom_extension`, NaN is not the default, because most
        regressors that follow in a pipeline refuse it.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute.
    dtype : {"float64", "mixed", "float32"}, default="float64"
        Precision. "mixed" stores the kernel matrix in float32 and computes in float64.
    memory_limit : int, optional
        Bytes that the fit may use; half of the free memory by default.
    n_threads : int, optional
        CPU threads; by default all that the process may use.
    random_state : int, RandomState or None, default=0
        Seed of the eigensolver's start vector.
    tol : float, default=1e-8
        Upper bound on the residual of every eigenpair.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        ``phi_1 .. phi_m`` of the training points, each of unit length.
    eigenvalues_ : ndarray of shape (n_components,)
        Of ``L = I - P``, in rising order.
    bandwidth_ : float
        The bandwidth that was used.
    model_ : Model
        What ``transform`` uses; :func:`save_model` writes it.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the columns seen in ``fit``, if they are all strings.

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

    def __init__(
        self,
        *,
        n_components: int = 20,
        bandwidth: float | str = "auto",
        radius: float | None = None,
        self_loops: bool = True,
        components: str = "auto",
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

    def fit(self, X: Array, y: Array = None) -> Self:
        """Compute the map of the points.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The training points.
        y : None
            Ignored.

        Returns
        -------
        DiffusionMap
            The fitted transformer.
        """
        X = check_points(self._input(X, reset=True))
        asked = self._options(X)
        if is_auto(self.bandwidth):
            asked |= self._found(X, asked)
        given = Inputs.of(X=X)
        with Run(Options(**asked, intrinsic_dim=1, subset_size=1), given) as run:
            graph = run.stage(GRAPH, given)
            found = run.stage(EIGENVECTORS, graph, run.later(LAPLACIAN, given, graph))
            coordinates = to_device(found.coordinates[run.backend.asarray(np.argsort(graph.order))], run.home)
        self.eigenvalues_ = found.eigenvalues
        points = X if len(graph.points) == len(X) else X[run.home.asarray(graph.points)]
        names, used = getattr(self, "feature_names_in_", None), run.options
        scales = check_scales(used.bandwidth, used.radius)
        map_of_X = (points, coordinates, found.eigenvalues)
        model = make_model(*map_of_X, *scales, range(used.n_components), names, self_loops=used.self_loops)
        self._keep(X, graph.points, model)
        return self

    def _found(self, X: Array, asked: dict[str, Any]) -> dict[str, Any]:
        """The bandwidth that the choice of coordinates finds best, and its way with a graph in parts."""
        if len(X) < FEW:
            return {"bandwidth": few_points_bandwidth(X)}
        used = select_coordinates(X, **asked, keep_bases=False).diagnostics["parameters"]
        return {"bandwidth": used["bandwidth"], "components": used["components"]}


class IndependentCoordinates(SpectralTransformer):
    """The few eigenvectors of a diffusion map that give a smooth map of full rank and vary slowest.

    Parameters
    ----------
    intrinsic_dim : int or "auto", default="auto"
        The dimension d of the manifold.
    subset_size : int or "auto", default="auto"
        How many coordinates s to choose.
    bandwidth : float or "auto", default="auto"
        The bandwidth of the Gaussian kernel.
    radius : float, optional
        Points at most this far apart are neighbours; ``3 * bandwidth`` by default.
    self_loops : bool, default=True
        Whether each point is its own neighbour, as in the paper. See :func:`select_coordinates`.
    n_components : int, default=20
        How many eigenvectors m to choose from. With too few points, as many as they allow, with a warning.
    zeta : float or "auto", default="auto"
        Weight of the smoothness penalty; "auto" finds it by the leave-one-out regret.
    percentile : float, default=75
        The percentile of the regret that must not be positive.
    search : {"exhaustive", "greedy", "submodular", "branch_and_bound"}, default="exhaustive"
        How to search. See :func:`select_coordinates`.
    components : {"auto", "raise", "most", "largest"}, default="auto"
        What to do if the graph is disconnected; see :func:`select_coordinates`.
    isolated : {"nearest", "nan"}, default="nearest"
        What ``transform`` returns for a point without a training point within the radius: the coordinates of the
        nearest training point, or NaN. Unlike in :func:`nystrom_extension`, NaN is not the default, because most
        regressors that follow in a pipeline refuse it.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute.
    dtype : {"float64", "mixed", "float32"}, default="float64"
        Precision. "mixed" stores the kernel matrix in float32 and computes in float64.
    memory_limit : int, optional
        Bytes that the fit may use; half of the free memory by default.
    n_threads : int, optional
        CPU threads; by default all that the process may use.
    random_state : int, RandomState or None, default=0
        Seed of the eigensolver's start vector.
    tol : float, default=1e-8
        Upper bound on the residual of every eigenpair.

    Attributes
    ----------
    selection_ : Selection
        The chosen coordinates and everything that led to them.
    embedding_ : ndarray of shape (n_samples, s)
        The training points in the chosen coordinates.
    bandwidth_ : float
        The bandwidth that was used.
    intrinsic_dim_, subset_size_ : int
        The dimension and the number of coordinates that were used.
    model_ : Model
        What ``transform`` uses; :func:`save_model` writes it.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the columns seen in ``fit``, if they are all strings.

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
        components: str = "auto",
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

    def fit(self, X: Array, y: Array = None) -> Self:
        """Choose the coordinates.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The training points.
        y : None
            Ignored.

        Returns
        -------
        IndependentCoordinates
            The fitted transformer.
        """
        X = check_points(self._input(X, reset=True))
        asked = self._options(X)
        if len(X) < FEW and any(is_auto(asked[name]) for name in SIZES):
            asked |= few_points_sizes(X, asked)
        self.selection_ = select_coordinates(X, **asked)
        used = self.selection_.diagnostics["parameters"]
        self.intrinsic_dim_, self.subset_size_ = used["intrinsic_dim"], used["subset_size"]
        names = getattr(self, "feature_names_in_", None)
        self._keep(X, self.selection_.points, model_of(self.selection_, X, feature_names=names))
        return self


def few_points_bandwidth(X: Array) -> float:
    """A bandwidth for a few points, whose radius lies between one that connects the graph and one that joins all pairs.

    The radius is the geometric mean of the longest edge of the minimum spanning tree and the largest distance.
    """
    Z = backend_of(X).to_host(X)
    unit = float(np.abs(Z - Z[0]).max())  # in this unit, squares neither overflow nor vanish
    distances = pdist((Z - Z[0]) / unit)
    longest = linkage(distances, "single")[:, 2].max()
    return float(unit * np.sqrt(longest * distances.max()) / 3)


def few_points_sizes(X: Array, asked: dict[str, Any]) -> dict[str, Any]:
    """The dimension, the number of coordinates and the bandwidth, with a guess for each that is "auto"."""
    d, s, bandwidth = (asked[name] for name in SIZES)
    if not is_auto(s):
        s = check_integer("subset_size", s, low=1)
    if is_auto(d):
        d = min(2, asked["n_components"], X.shape[1], *([] if is_auto(s) else [s]))
    s = d if is_auto(s) else s
    bandwidth = few_points_bandwidth(X) if is_auto(bandwidth) else check_length("bandwidth", bandwidth)
    warn_caller(
        f"{len(X)} points are too few to estimate anything from them; using intrinsic_dim={d}, "
        f"subset_size={s}, bandwidth={bandwidth:.4g}. Pass your own values if you know them",
    )
    return dict(zip(SIZES, (d, s, bandwidth), strict=True))
