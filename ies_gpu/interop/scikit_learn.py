"""scikit-learn transformers: a diffusion map, and its independent coordinates, both ready for new points."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..backend import at_home, backend_of, to_host
from ..backend.array import Array, extent
from ..embedding.given import check_sides
from ..embedding.graph import AFFINITY, GIVEN, PRECOMPUTED, check_metric, points_in_metric
from ..embedding.laplacian import with_diagonal
from ..embedding.nystrom import ISOLATED, KernelRule
from ..findings import IESWarning, listen, one_line, option, refusal, tell, warning
from ..options import FIXED, TABLE, Options, documented, explain_keywords, is_auto, is_found, is_local
from ..results.assembly import orient_and_scale
from ..results.model import InverseError, make_model
from ..run.run import Inputs, Progress, Run, laplacian_of, map_laplacian
from ..select import select_coordinates
from ..validation import check_choice, check_integer, check_kernel, check_length, check_real_array, check_unmasked

Owner = TypeVar("Owner")
FEWEST = 4  # points: with fewer there is no map with two coordinates
FEW = 100  # below this many points nothing can be estimated from their distances
SIZES = ("intrinsic_dim", "subset_size", "bandwidth")
ABOUT_THE_CHOICE = ("choice", "dimension", "search")  # topics of which a diffusion map knows nothing
# what both document, but not as the table of options does
OWN = {
    "n_neighbors": """n_neighbors : int, optional
    Connect each point to this many nearest ones instead of all within the radius; see :func:`select_coordinates`.""",
    "metric": """\
metric : {"euclidean", "cosine", "correlation", "precomputed", "precomputed_affinity"}, default="euclidean"
    How distances are measured, as in :func:`select_coordinates`. With "precomputed", ``fit`` takes the distances
    between the training points and ``transform`` those from new points to the training points. A dense matrix has
    all of them; a sparse one those between neighbours, as ``sklearn.neighbors.KNeighborsTransformer`` makes it, and
    two points are neighbours if either has the other. With "precomputed_affinity" both take the kernel itself.""",
    "isolated": """isolated : {"nearest", "nan"}, default="nearest"
    What ``transform`` returns for a point without a training point within the radius: the coordinates of the
    nearest one, or NaN, which most regressors that follow in a pipeline refuse.""",
    "training": """X : ndarray of shape (n_samples, n_features)
    The training points, or a matrix of the pairs; see ``metric``.
y : None
    Ignored.""",
    "progress": """progress : bool or callable, optional
    True shows a bar per stage. A function is called as ``progress(stage, done, total)``.""",
    "fitted": """eigenvalues_ : ndarray of shape (n_components,)
    Of ``L = I - P``, in rising order.
bandwidth_ : float
    The bandwidth that was used.
model_ : Model
    What ``transform`` uses; :meth:`Model.save` writes it.
inverse_error_ : InverseError
    How far off ``inverse_transform`` is at points that are left out in turn: ``rms`` and ``unexplained``.
n_features_in_ : int
    Number of columns seen in ``fit``.
feature_names_in_ : ndarray of shape (``n_features_in_``,)
    Names of the columns seen in ``fit``, if they are all strings.""",
}
from_table = partial(documented, own=OWN)  # decorator: fills a docstring from our texts and the table of options


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def estimator(cls: type[Owner]) -> type[Owner]:
    """Decorator: the fields of a class are its parameters, which ``__init__`` stores unchecked, for scikit-learn."""
    made: Any = from_table(dataclass(kw_only=True, eq=False, repr=False)(cls))
    made.__init__ = explain_keywords(made.__init__)
    return made


@estimator
class SpectralTransformer(TransformerMixin, BaseEstimator):
    """What both transformers share: parameters, input, names of the output, and new points."""

    # fitted: model_ (a Model), embedding_, eigenvalues_, bandwidth_; an annotation would make them parameters
    _fit: ClassVar[Callable[..., Any]]  # of entry, points and options, as ``select_coordinates`` takes them
    n_components: int = field(default=20, kw_only=False)
    bandwidth: float | str = "auto"
    n_neighbors: int | None = None
    radius: float | None = None
    self_loops: bool = True
    metric: str = "euclidean"
    alpha: float = 1.0
    scale: str = "rms"
    diffusion_time: float = 1.0
    disconnected: str = "auto"
    isolated: str = "nearest"
    device: str = "auto"
    dtype: str = "float64"
    memory_limit: int | None = None
    n_threads: int | None = None
    random_state: Any = 0
    tol: float = 1e-8
    progress: Progress | bool | None = None

    @at_home
    @from_table
    def fit(self, X: Array, y: Array = None) -> Self:
        """Fit the points.

        Parameters
        ----------
        {training}

        Returns
        -------
        DiffusionMap or IndependentCoordinates
            The fitted transformer.
        """
        entry, X = self._given(X)
        return self._fit(entry, X, self._options(X))

    @at_home
    @from_table
    def fit_transform(self, X: Array, y: Array = None) -> Array:
        """Fit the points and return their coordinates.

        Parameters
        ----------
        {training}

        Returns
        -------
        ndarray of shape (n_samples, n_coordinates)
            The coordinates of the training points.
        """
        return self._for_output(self.fit(X, y).embedding_)

    @at_home
    def transform(self, X: Array) -> Array:
        """Place new points in the map, by the Nystrom extension; training points get their training coordinates.

        Parameters
        ----------
        X : ndarray of shape (n_new, n_features)
            New points, or their distances or affinities to the training points; see ``metric``.

        Returns
        -------
        ndarray of shape (n_new, n_coordinates)
            Their coordinates.
        """
        check_is_fitted(self)
        return self._for_output(self._extend(self._input(X, reset=False)))

    def _for_output(self, coordinates: Array) -> Array:
        """Return coordinates, on the host if scikit-learn makes a table of them: it cannot of an array on a GPU."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        return coordinates if chosen == "default" else backend_of(coordinates).to_host(coordinates)

    def inverse_transform(self, X: Array) -> Array:
        """Return points that have given coordinates: means of the 10 training points with the nearest ones.

        Parameters
        ----------
        X : ndarray of shape (n_new, n_coordinates)
            Coordinates, as ``transform`` returns them.

        Returns
        -------
        ndarray of shape (n_new, n_features)
            Points.
        """
        check_is_fitted(self)
        return self.model_.inverse_transform(X)

    @property
    def inverse_error_(self) -> InverseError:
        """The error of ``inverse_transform`` at training points that are left out in turn."""
        check_is_fitted(self)
        return self.model_.inverse_error

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
        if input_features is not None:  # in scikit-learn's words, whose own function is private
            own = getattr(self, "feature_names_in_", None)
            if own is not None and not np.array_equal(own, np.asarray(input_features, dtype=object)):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(input_features) != (n := self.n_features_in_):
                raise ValueError(f"input_features should have length equal to number of features ({n})")
        return np.asarray(self.model_.names, dtype=object)

    @property
    def _precomputed(self) -> bool:
        """Whether X holds distances or affinities; ``metric`` may be anything before it is checked."""
        return isinstance(self.metric, str) and self.metric in GIVEN

    def _input(self, X: Array, *, reset: bool) -> Array:
        """Return points as float64, on their own device, with as many columns as in ``fit``."""
        if backend_of(X).device != "cpu":
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_real_array("X", X, 2)
        check_unmasked("X", X)  # scikit-learn shows what is behind a mask
        sparse = ["csr", "csc", "coo"] if self._precomputed else False
        checks = {"ensure_min_samples": FEWEST if reset else 1, "ensure_all_finite": False, "accept_sparse": sparse}
        try:
            X = validate_data(self, X, reset=reset, dtype=np.float64, **checks)
        except Exception as error:  # scikit-learn's reasons, in one line, and those of objects that convert themselves
            kind = next((kind for kind in (TypeError, MemoryError) if isinstance(error, kind)), ValueError)
            raise kind(f"X cannot be used: {one_line(error, 400)}") from None
        return X if self._precomputed else check_real_array("X", X, 2, columns=getattr(self, "feature_names_in_", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = tags.input_tags.sparse = self._precomputed
        return tags

    def _given(self, X: Array) -> tuple[dict[str, Any], Any]:
        """Return the training data by the name of its entry, checked, and as a model takes it."""
        check_choice("isolated", self.isolated, ISOLATED)
        check_metric(self.metric, *GIVEN)
        if is_local(self.bandwidth):
            text = f"{option('bandwidth', 'local')} cannot place new points, which a transformer must"
            raise refusal("bandwidth.local", text, "pass a number, or use select_coordinates")
        X, backend = self._input(X, reset=True), backend_of(X)
        if not self._precomputed:
            return {"X": X}, X
        if backend.device == "cpu":
            check_non_negative(X, f"{type(self).__name__}.fit of {self.metric} pairs")  # in scikit-learn's words
        if self.metric == AFFINITY:
            kernel = check_kernel(X, "X")
            return {"kernel": kernel}, kernel
        if is_found(self.bandwidth):
            text = f"{option('bandwidth')} is required with {option('metric', 'precomputed')}: 'auto' needs points"
            raise refusal("bandwidth.missing", text, "pass a third of the distance up to which points are neighbours")
        graph, _ = check_sides(X, radius=self._radius(X), name="X")
        return {"graph": graph}, with_diagonal(graph, 0.0) if backend.sparse.issparse(X) else X

    def _radius(self, X: Array) -> float | None:
        """Return how far apart neighbours may be in given distances; None for all that a sparse matrix stores."""
        if self.radius is not None:
            return check_length("radius", self.radius)
        return None if backend_of(X).sparse.issparse(X) else 3 * check_length("bandwidth", self.bandwidth)

    def _options(self, X: Array) -> dict[str, Any]:
        """Return the options for ``select_coordinates``, with n_components lowered if there are too few points."""
        own, n = self.get_params(deep=False), X.shape[0]
        asked = {name: own[name] for name in TABLE if name in own}
        if self._precomputed:
            asked |= {"metric": "euclidean"}  # the entry says it
            asked |= {"radius": self._radius(X)} if self.metric == PRECOMPUTED else {}
        for name, least, rest in (("n_components", 1, 2), ("n_neighbors", 2, 1)):
            if own[name] is not None and check_integer(name, own[name], low=least) > n - rest:
                text = f"{option(name, own[name])} needs at least {own[name] + rest} points; using "
                text += f"{n - rest} for {n} points"
                few = warning("points.fewer_components", text)
                tell(few if name == "n_components" else warning("points.fewer_neighbors", text))
                asked[name] = n - rest
        if self._precomputed:
            return asked
        if is_auto(self.bandwidth):  # not a local one, with which new points have no place
            asked["bandwidth"] = FIXED if (k := asked["n_neighbors"]) is None else self._distance_to_last(X, k)
        if n < FEW and any(is_auto(asked.get(name)) or is_found(asked.get(name)) for name in SIZES):
            asked |= guess_sizes(points_in_metric(X, self.metric), asked)
        return asked

    def _distance_to_last(self, X: Array, k: int) -> float:
        """Return the median distance to the last neighbour, of several multiples of it the best for maps."""
        distances = backend_of(X).nearest(points_in_metric(X, self.metric), k)[0]
        if (found := float(backend_of(X).xp.median(distances[:, -1]))) == 0:
            text = f"most points have {k} copies of themselves as nearest neighbours, so no bandwidth can be found"
            raise refusal("X.copies", text, f"drop the copies, or set {option('bandwidth')}")
        return found

    def _keep(self, X: Array, points: np.ndarray, used: dict[str, Any], **found: Any) -> Self:
        """Store the model, and the coordinates of all points: those left out of the graph count as new."""
        rows, n = backend_of(X).asarray(points), X.shape[0]
        kept = X if len(points) == n else X[rows][:, rows] if self._precomputed else X[rows]
        names = None if self._precomputed else getattr(self, "feature_names_in_", None)
        rule = KernelRule(**{name: used[name] for name in KernelRule._fields} | {"metric": self.metric})
        self.model_ = make_model(kept, rule=rule, feature_names=names, device=self.device, **found)
        self.eigenvalues_, self.bandwidth_, self.points_ = self.model_.eigenvalues, self.model_.bandwidth, points
        self.embedding_ = chosen = self.model_.embedding
        if len(points) < n:
            left_out = np.setdiff1d(np.arange(n), points)
            self.embedding_ = backend_of(X).xp.empty((n, chosen.shape[1]))
            with listen(IESWarning):  # a warning has said which points are left out
                self.embedding_[points], self.embedding_[left_out] = chosen, self._extend(X[left_out])
        return self

    def _extend(self, X: Array) -> Array:
        if self._precomputed:  # distances to points that were left out of the map say nothing
            X = (X.tocsr() if hasattr(X, "tocsr") else X)[:, self.points_]
        own = {name: getattr(self, name) for name in ("isolated", "device", "memory_limit", "n_threads")}
        return self.model_.transform(X, **own)


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

    Examples
    --------
    >>> from ies_gpu import DiffusionMap, datasets
    >>> strip = datasets.load("D1", n_samples=400)
    >>> DiffusionMap(n_components=5, bandwidth=1.2).fit_transform(strip.X).shape
    (400, 5)
    """

    def _fit(self, entry: dict[str, Any], X: Array, asked: dict[str, Any]) -> Self:
        if "X" in entry and is_found(asked["bandwidth"]):  # the one that the choice finds best
            with listen(IESWarning) as said:
                chosen = select_coordinates(X, **asked, keep_bases=False, progress=self.progress)
            asked |= {name: chosen.diagnostics["parameters"][name] for name in ("bandwidth", "disconnected")}
            for finding in said:
                if finding.topic not in ABOUT_THE_CHOICE:
                    tell(finding)
        options = Options(entry=next(iter(entry)), **asked, intrinsic_dim=1, subset_size=1)
        given = Inputs.of(**entry).to_euclidean(options.metric)
        with Run(options, given, self.progress) as run:
            laplacian = run(laplacian_of, given, options)
            found = map_laplacian(laplacian, options, run)
            coordinates, _ = orient_and_scale(given, options, laplacian, found)
        made = {"coordinates": coordinates, "eigenvalues": found.eigenvalues, "subset": range(options.n_components)}
        return self._keep(X, laplacian.rows.used, options.parameters, **made)


@estimator
class IndependentCoordinates(SpectralTransformer):
    """The few eigenvectors of a diffusion map that give a smooth map of full rank and vary slowest.

    For fewer than 100 points "auto" means a bandwidth that keeps the graph in one piece, dimension 2 (1 if there is one
    column), and as many coordinates as dimensions, with a warning.

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

    def _fit(self, entry: dict[str, Any], X: Array, asked: dict[str, Any]) -> Self:
        self.selection_ = found = select_coordinates(**entry, **asked, progress=self.progress)
        used = found.diagnostics["parameters"]
        self.intrinsic_dim_, self.subset_size_ = used["intrinsic_dim"], used["subset_size"]
        made = {name: getattr(found, name) for name in ("coordinates", "eigenvalues", "subset", "rotation")}
        return self._keep(X, to_host(found.points), used, **made)


def few_points_bandwidth(X: Array) -> float:
    """Return a bandwidth for a few points: its radius is the geometric mean of those that connect and that join all."""
    Z = to_host(X)
    distances = pdist((Z - Z[0]) / extent(Z))
    return float(extent(Z) * np.sqrt(linkage(distances, "single")[:, 2].max() * distances.max()) / 3)


def guess_sizes(X: Array, asked: dict[str, Any]) -> dict[str, Any]:
    """Return dimension, number of coordinates and bandwidth of a few points: those asked for, guesses for "auto"."""
    d, s, bandwidth = (asked.get(name) for name in SIZES)
    if is_auto(d):
        d = min(2, asked["n_components"], X.shape[1], np.inf if is_auto(s) else check_integer("subset_size", s, low=1))
    bandwidth = few_points_bandwidth(X) if is_found(bandwidth) else check_length("bandwidth", bandwidth)
    used = dict(zip(SIZES, (d, d if is_auto(s) else s, bandwidth), strict=True))
    used = {name: value for name, value in used.items() if name in asked}
    told = ", ".join(option(name, value) for name, value in used.items())
    text = f"{len(X)} points are too few to estimate anything from them; using {told}"
    tell(warning("points.guessed", text, "pass your own values if you know them"))
    return used
