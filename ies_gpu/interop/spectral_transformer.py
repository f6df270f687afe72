"""What the scikit-learn transformers share: input, names of the output, options, and new points."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..backend import at_home, backend_of, host_view, to_host
from ..backend.array import Array
from ..embedding.graph import check_sides
from ..embedding.local import with_diagonal
from ..embedding.metrics import AFFINITY, GIVEN, METRICS, check_metric, points_in_metric
from ..embedding.nystrom import ISOLATED, KernelRule, check_scales
from ..errors import IESWarning, first_few
from ..findings import Finding, finding_of, listen, option, refusal, tell, warning
from ..results.model import InverseError, Model, make_model
from ..run.options import FIXED, Options, is_auto, is_each, is_found, is_local
from ..validation import (
    check_choice,
    check_integer,
    check_kernel,
    check_length,
    check_points,
    check_real_array,
    check_seed,
    check_unmasked,
)

FEWEST = 4  # points: with fewer there is no map with two coordinates
NEAR = 0.06  # of all pairs are neighbours at the bandwidth that an error proposes


class SpectralTransformer(TransformerMixin, BaseEstimator):
    """What both transformers share: input, names of the output, and new points."""

    model_: Model
    embedding_: Any

    @at_home
    def fit_transform(self, X: Array, y: Array = None) -> Array:
        """Fit the points and return their coordinates.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The training points, or a matrix of the pairs; see ``metric``.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_coordinates)
            The coordinates of the training points.
        """
        return self.fit(X, y).embedding_

    @at_home
    def transform(self, X: Array) -> Array:
        """Place new points in the map, by the Nystrom extension.

        Training points get their training coordinates. A point without a training point within the radius gets the
        coordinates of the nearest one, or NaN (see ``isolated``), with a warning.

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
        return self._extend(self._input(X, reset=False))

    def inverse_transform(self, X: Array) -> Array:
        """Return points that have given coordinates: the mean of the 10 training points with the nearest coordinates.

        ``inverse_error_`` says how far from the truth that is.

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
        return self.model_.inverse_transform(host_view(X) if backend_of(X).device == "cpu" else X)

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

    @property
    def _precomputed(self) -> bool:
        """Whether X holds distances or affinities; ``metric`` may be anything before it is checked."""
        return isinstance(self.metric, str) and self.metric in GIVEN

    def _input(self, X: Array, *, reset: bool) -> Array:
        """Points as float64, on their own device, with as many columns as in ``fit``."""
        if backend_of(X).device != "cpu":
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_real_array("X", X, 2)
        check_unmasked("X", X)  # scikit-learn shows what is behind a mask
        fewest = FEWEST if reset else 1
        try:
            checks = {"ensure_min_samples": fewest, "ensure_all_finite": False}
            sparse = ["csr", "csc", "coo"] if self._precomputed else False
            X = validate_data(self, host_view(X), reset=reset, dtype=np.float64, accept_sparse=sparse, **checks)
        except MemoryError:
            raise
        except Exception as error:  # scikit-learn's reasons, in one line, and those of objects that convert themselves
            kind = TypeError if isinstance(error, TypeError) else ValueError
            reason = " ".join(str(error).split())
            raise kind(f"X cannot be used: {reason if len(reason) < 400 else reason[:400] + '...'}") from None
        return X if self._precomputed else self._finite(X)

    def _finite(self, X: np.ndarray) -> Any:
        """The same if all are numbers; our own message says where they are not."""
        try:
            return check_real_array("X", X, 2, columns=getattr(self, "feature_names_in_", None))
        except ValueError as error:
            found = finding_of(error)
            if found is None or not np.isnan(X).any() or np.isinf(X).any():
                raise
            raise refusal(found.code, found.text, f"{found.advice}, or put SimpleImputer before this step") from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = tags.input_tags.sparse = self._precomputed
        return tags

    def _given(self, X: Array) -> tuple[dict[str, Any], Any]:
        """The training data by the name of its entry, checked, and as a model takes it."""
        check_metric(self.metric, (*METRICS, *GIVEN))
        X = self._input(X, reset=True)
        if not self._precomputed:
            X = check_points(X)
            return {"X": X}, X
        if X.shape[0] != X.shape[1]:
            what = "affinities" if self.metric == AFFINITY else "distances"
            text = f"{option('metric', self.metric)} needs the square matrix of {what} between the training points"
            raise refusal("X.shape", f"{text}, got {X.shape}")
        if backend_of(X).device == "cpu":
            check_non_negative(X, f"{type(self).__name__}.fit of {self.metric} pairs")  # in scikit-learn's words
        if self.metric == AFFINITY:
            kernel = check_kernel(X, "X")
            return {"kernel": kernel}, kernel
        sparse = backend_of(X).sparse.issparse(X)
        if is_found(self.bandwidth):
            self._refuse_found(X.data if sparse else X)
        graph, _ = check_sides(X, radius=self._radius(sparse), name="X")
        return {"graph": graph}, with_diagonal(graph, 0.0) if sparse else X

    def _radius(self, sparse: bool) -> float | None:
        """How far apart neighbours may be in given distances: all that a sparse matrix stores."""
        if self.radius is not None:
            return check_length("radius", self.radius)
        return None if sparse or is_local(self.bandwidth) else 3 * check_length("bandwidth", self.bandwidth)

    def _refuse_found(self, distances: Array) -> None:
        """An error with a bandwidth to begin with: without points none can be found."""
        apart = distances[(distances > 0) & (distances < np.inf)]
        start = float(np.quantile(to_host(apart), NEAR)) / 3 if len(apart) else 1.0
        text = f"{option('bandwidth')} is required with {option('metric', 'precomputed')}, since 'auto' needs points"
        advice = f"try {option('bandwidth', float(f'{start:.3g}'))} first, with which {NEAR:.0%} of these distances "
        raise refusal("bandwidth.missing", text, f"{advice}join neighbours")

    def _extend(self, X: Array) -> Array:
        if self._precomputed:  # distances to points that were left out of the map say nothing
            X = (X.tocsr() if hasattr(X, "tocsr") else X)[:, self.points_]
        return self.model_.transform(
            X, isolated=self.isolated, device=self.device, memory_limit=self.memory_limit, n_threads=self.n_threads
        )

    def _keep(self, X: Array, points: Array, model: Model) -> None:
        """Store the model, and the coordinates of all points: those left out of the graph count as new."""
        self.model_, self.bandwidth_, self.points_ = model, model.bandwidth, points
        chosen = model.coordinates[:, list(model.subset)]
        n = X.shape[0]
        if len(points) < n:
            left_out = np.setdiff1d(np.arange(n), points)
            whole = backend_of(X).xp.empty((n, chosen.shape[1]))
            with listen(IESWarning) as said:
                whole[points], whole[left_out] = chosen, self._extend(X[left_out])
            for finding in said:
                tell(self._of_training(left_out, n) if finding.code == "new_points.isolated" else finding)
            chosen = whole
        self.embedding_ = chosen

    def _of_training(self, rows: np.ndarray, n: int) -> Finding:
        """What to say of training points without a place in the map: they are no new points, and have other numbers."""
        one = len(rows) == 1
        got = "NaN" if self.isolated == "nan" else "the coordinates of the nearest point in the map"
        within = "" if self.model_.radius is None else f" within {option('radius', float(self.model_.radius))}"
        text = (
            f"{len(rows):,} of {n:,} training points {'has' if one else 'have'} no neighbour in the map{within} and "
            f"{'gets' if one else 'get'} {got} (row{'s' * (not one)} {first_few(rows)})"
        )
        return warning("points.isolated", text)

    def _model(self, X: Array, points: np.ndarray, coordinates: Array, subset: Any, bandwidth: Any) -> Model:
        """The model of the points that are in the map."""
        names = None if self._precomputed else getattr(self, "feature_names_in_", None)
        sparse = backend_of(X).sparse.issparse(X)
        if len(points) < X.shape[0]:
            rows = backend_of(X).asarray(points)
            X = X[rows][:, rows] if self._precomputed else X[rows]
        if self.metric == AFFINITY or self.n_neighbors is not None or (sparse and self.radius is None):
            scales: tuple[Any, Any] = (bandwidth, None)
        else:
            scales = check_scales(bandwidth, self.radius)
        rule = KernelRule(*scales, self.self_loops, self.metric, self.alpha, self._neighbors(X.shape[0]))
        return make_model(X, coordinates, self.eigenvalues_, rule, subset, names, device=self.device)

    def _options(self, X: Array) -> dict[str, Any]:
        """The options for ``select_coordinates``, with n_components lowered if there are too few points."""
        check_choice("isolated", self.isolated, ISOLATED)
        if is_each(self.components):
            text = f"{option('components', 'each')} gives one map per part, but a transformer has one"
            raise refusal("components.each", text, f"use {option('components', 'largest')}, or select_coordinates")
        if is_local(self.bandwidth):
            text = f"{option('bandwidth', 'local')} cannot place new points, which a transformer must"
            raise refusal("bandwidth.local", text, "pass a number, or use select_coordinates")
        own, n = self.get_params(deep=False), X.shape[0]
        asked = {field.name: own[field.name] for field in fields(Options) if field.name in own}
        asked |= {"n_neighbors": self._neighbors(n)}
        if self._precomputed:
            asked |= {"metric": "euclidean"}  # the entry says it
        elif is_auto(self.bandwidth) and self.n_neighbors is not None:
            asked |= {"bandwidth": neighbors_bandwidth(points_in_metric(X, self.metric), asked["n_neighbors"])}
        elif is_auto(self.bandwidth):
            asked |= {"bandwidth": FIXED}  # which new points have a place with
        m = check_integer("n_components", self.n_components, low=1)
        if m > n - 2:
            text = f"{option('n_components', m)} needs at least {m + 2} points; using {n - 2} for {n} points"
            tell(warning("points.fewer_components", text))
        if asked["n_neighbors"] != self.n_neighbors:
            k = self.n_neighbors
            text = f"{option('n_neighbors', k)} needs at least {k + 1} points; using {n - 1} for {n} points"
            tell(warning("points.fewer_neighbors", text))
        return asked | {"n_components": min(m, n - 2), "random_state": check_seed(self.random_state)}

    def _neighbors(self, n: int) -> int | None:
        """How many neighbours a point of n gets, if that was asked for."""
        return None if self.n_neighbors is None else min(check_integer("n_neighbors", self.n_neighbors, low=2), n - 1)


def neighbors_bandwidth(X: Array, k: int) -> float:
    """The median distance to the last neighbour: of several multiples of it the one with which maps were best."""
    backend = backend_of(X)
    with backend.active():
        found = float(backend.xp.median(backend.nearest(X, k)[0][:, -1]))
    if found == 0:
        text = f"most points have {k} copies of themselves as nearest neighbours, so no bandwidth can be found"
        raise refusal("X.copies", text, f"drop the copies, raise {option('n_neighbors')}, or set {option('bandwidth')}")
    return found
