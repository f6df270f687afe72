"""What the scikit-learn transformers share: input, names of the output, options, and new points."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..backend import at_home, backend_of, host_view
from ..backend.array import Array
from ..embedding.metrics import PRECOMPUTED
from ..embedding.nystrom import ISOLATED, KernelRule, check_scales
from ..errors import IESWarning, first_few, warn_caller, warnings_held
from ..results.model import InverseError, Model, make_model
from ..run.options import FIXED, Options, is_auto, is_each, is_local
from ..validation import check_choice, check_integer, check_length, check_points, check_real_array, check_unmasked

NO_NEIGHBOUR = "new points have no training point"  # in what ``nystrom`` says
FEWEST = 4  # points: with fewer there is no map with two coordinates


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
            The training points, or with ``metric="precomputed"`` the distances between them.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_coordinates)
            The coordinates of the training points.
        """
        return self._for_output(self.fit(X, y).embedding_)

    @at_home
    def transform(self, X: Array) -> Array:
        """Place new points in the map, by the Nystrom extension.

        Training points get their training coordinates. A point without a training point within the radius gets the
        coordinates of the nearest one, or NaN (see ``isolated``), with a warning.

        Parameters
        ----------
        X : ndarray of shape (n_new, n_features)
            New points, or with ``metric="precomputed"`` their distances to the training points.

        Returns
        -------
        ndarray of shape (n_new, n_coordinates)
            Their coordinates.
        """
        check_is_fitted(self)
        return self._for_output(self._extend(self._input(X, reset=False)))

    def _for_output(self, coordinates: Array) -> Array:
        """The same on the host where scikit-learn makes a table of it, which it cannot of an array on a GPU."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        return coordinates if chosen == "default" else backend_of(coordinates).to_host(coordinates)

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
        """Whether X holds distances; ``metric`` may be anything before it is checked."""
        return isinstance(self.metric, str) and self.metric == PRECOMPUTED

    def _input(self, X: Array, *, reset: bool) -> Array:
        """Points as float64, on their own device, with as many columns as in ``fit``."""
        if backend_of(X).device != "cpu":
            validate_data(self, X, reset=reset, skip_check_array=True)
            return check_real_array("X", X, 2)
        check_unmasked("X", X)  # scikit-learn shows what is behind a mask
        fewest = FEWEST if reset else 1
        try:
            checks = {"ensure_min_samples": fewest, "ensure_all_finite": False}
            X = validate_data(self, host_view(X), reset=reset, dtype=np.float64, **checks)
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
            way = ", or put SimpleImputer before this step" if np.isnan(X).any() and not np.isinf(X).any() else ""
            raise ValueError(f"{error}{way}") from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    def _given(self, X: Array) -> tuple[dict[str, Any], Any]:
        """The training data by the name of its entry, checked."""
        X = self._input(X, reset=True)
        if not self._precomputed:
            X = check_points(X)
            return {"X": X}, X
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"metric='precomputed' needs the square matrix of distances between the training points, got {X.shape}"
            )
        return {"graph": X}, X

    def _extend(self, X: Array) -> Array:
        if self._precomputed:  # distances to points that were left out of the map say nothing
            X = X[:, self.points_]
        return self.model_.transform(
            X, isolated=self.isolated, device=self.device, memory_limit=self.memory_limit, n_threads=self.n_threads
        )

    def _keep(self, X: Array, points: Array, model: Model) -> None:
        """Store the model, and the coordinates of all points: those left out of the graph count as new."""
        self.model_, self.bandwidth_, self.points_ = model, model.bandwidth, points
        chosen = model.coordinates[:, list(model.subset)]
        if len(points) < len(X):
            left_out = np.setdiff1d(np.arange(len(X)), points)
            whole = backend_of(X).xp.empty((len(X), chosen.shape[1]))
            with warnings_held(IESWarning) as messages:
                whole[points], whole[left_out] = chosen, self._extend(X[left_out])
            for message in messages:
                warn_caller(self._of_training(left_out, len(X)) if NO_NEIGHBOUR in message else message)
            chosen = whole
        self.embedding_ = chosen

    def _of_training(self, rows: np.ndarray, n: int) -> str:
        """What to say of training points without a place in the map: they are no new points, and have other numbers."""
        one = len(rows) == 1
        got = "NaN" if self.isolated == "nan" else "the coordinates of the nearest point in the map"
        return (
            f"{len(rows):,} of {n:,} training points {'has' if one else 'have'} no neighbour in the map within "
            f"radius={self.model_.radius:g} and {'gets' if one else 'get'} {got} "
            f"(row{'s' * (not one)} {first_few(rows)})"
        )

    def _model(self, X: Array, points: np.ndarray, coordinates: Array, subset: Any, bandwidth: Any) -> Model:
        """The model of the points that are in the map."""
        names = None if self._precomputed else getattr(self, "feature_names_in_", None)
        if len(points) < len(X):
            rows = backend_of(X).asarray(points)
            X = X[rows][:, rows] if self._precomputed else X[rows]
        rule = KernelRule(*check_scales(bandwidth, self.radius), self.self_loops, self.metric, self.alpha)
        return make_model(X, coordinates, self.eigenvalues_, rule, subset, names, device=self.device)

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
                "bandwidth='local' cannot place new points, which a transformer must; pass a number, or use "
                "select_coordinates"
            )
        own = self.get_params(deep=False)
        asked = {field.name: own[field.name] for field in fields(Options) if field.name in own}
        if self._precomputed:
            asked |= {"metric": "euclidean"}  # the entry says it
            if not is_auto(self.bandwidth) and self.radius is None:
                asked |= {"radius": 3 * check_length("bandwidth", self.bandwidth)}
        elif is_auto(self.bandwidth):
            asked |= {"bandwidth": FIXED}  # which new points have a place with
        m = check_integer("n_components", self.n_components, low=1)
        if m > len(X) - 2:
            warn_caller(f"n_components={m} needs at least {m + 2} points; using {len(X) - 2} for {len(X)} points")
        return asked | {"n_components": min(m, len(X) - 2), "random_state": self._seed()}

    def _seed(self) -> int:
        """A seed from what scikit-learn calls a random state."""
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        return check_integer("random_state", self.random_state, low=0)
