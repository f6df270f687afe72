"""scikit-learn transformers: a diffusion map, and its independent coordinates, with a place for new points."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..backend import backend_of, host_view, to_device
from ..embedding.nystrom import ISOLATED, check_scales
from ..errors import warn_caller
from ..results.model import Model, make_model, model_of
from ..run.graph import GRAPH, LAPLACIAN
from ..run.inputs import Inputs
from ..run.options import Options, is_auto
from ..run.stage import Run
from ..run.stages import EIGENVECTORS
from ..select import select_coordinates
from ..validation import check_choice, check_integer, check_length, check_points, check_real_array

FEWEST = 4  # points: fewer have no map with two coordinates
SIZES = ("intrinsic_dim", "subset_size", "bandwidth")
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
        try:
            return validate_data(self, host_view(X), reset=reset, dtype=np.float64, ensure_min_samples=fewest)
        except MemoryError:
            raise
        except Exception as error:  # scikit-learn's reasons, in one line, and those of objects that convert themselves
            kind = TypeError if isinstance(error, TypeError) else ValueError
            reason = " ".join(str(error).split())
            raise kind(f"X cannot be used: {reason if len(reason) < 400 else reason[:400] + '...'}") from None

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

    def _options(self, X: Any) -> dict[str, Any]:
        """The options for ``select_coordinates``; where there are too few points for m, as many as they allow."""
        check_choice("isolated", self.isolated, ISOLATED)
        own = self.get_params(deep=False)
        asked = {field.name: own[field.name] for field in fields(Options) if field.name in own}
        m = check_integer("n_components", self.n_components, low=1)
        if m > len(X) - 2:
            warn_caller(f"n_components={m} needs at least {m + 2} points; {len(X) - 2} are used for {len(X)} points")
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
        asked = self._options(X)
        if is_auto(self.bandwidth):
            asked["bandwidth"] = self._bandwidth(X, asked)
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

    def _bandwidth(self, X: Any, asked: dict[str, Any]) -> float:
        """The bandwidth that the choice of coordinates finds best."""
        if len(X) < FEW:
            return few_points_bandwidth(X)
        return select_coordinates(X, **asked, keep_bases=False).diagnostics["parameters"]["bandwidth"]


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
        asked = self._options(X)
        if len(X) < FEW and any(is_auto(asked[name]) for name in SIZES):
            asked |= few_points_sizes(X, asked)
        self.selection_ = select_coordinates(X, **asked)
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


def few_points_sizes(X: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """d, s and the bandwidth with a guess for each that is "auto"."""
    d, s, bandwidth = (asked[name] for name in SIZES)
    if not is_auto(s):
        s = check_integer("subset_size", s, low=1)
    if is_auto(d):
        d = min(2, asked["n_components"], X.shape[1], *([] if is_auto(s) else [s]))
    s = d if is_auto(s) else s
    bandwidth = few_points_bandwidth(X) if is_auto(bandwidth) else check_length("bandwidth", bandwidth)
    warn_caller(
        f"{len(X)} points are too few to estimate anything from them; going on with intrinsic_dim={d}, "
        f"subset_size={s}, bandwidth={bandwidth:.4g}: give them if you know better",
    )
    return dict(zip(SIZES, (d, s, bandwidth), strict=True))
