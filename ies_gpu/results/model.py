"""Models: all that is needed to put new points into a map."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ..backend import at_home, backend_of, cached_property, device_near, get_backend, to_device, to_host
from ..backend.array import Array, column_units
from ..choice.faults import mean_over
from ..embedding.graph import GIVEN, PRECOMPUTED
from ..embedding.nystrom import ISOLATED, KernelRule, extend, kernel_degrees
from ..findings import option, refusal
from ..options import LOCAL
from ..parameters.judgement import unexplained_variance
from ..run.run import Log, Progress
from ..validation import check_array, check_choice, check_members, check_real_array, check_sparse
from .selection import Chosen, check_names, names_of

NEIGHBOURS = 10  # as in ``unexplained_variance``


class InverseError(NamedTuple):
    """How far training points are from what :meth:`Model.inverse_transform` makes of the others.

    Attributes
    ----------
    rms, unexplained : float
        The root mean square of the distance, in the units of the points; and the share of their variance that is lost.
    """

    rms: float
    unexplained: float


@dataclass(frozen=True, repr=False, eq=False)
class Model(Chosen):
    """Training points and their map: all that is needed to place new points.

    Make one with :meth:`Selection.model` or ``ies-gpu fit --model``.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The training points that were used. With precomputed distances or affinities it has no columns.
    degrees : ndarray of shape (n_samples,)
        The row sums of their kernel matrix.
    coordinates : ndarray of shape (n_samples, n_components)
        The eigenvectors.
    eigenvalues : ndarray of shape (n_components,)
        Of ``L = I - P``.
    subset : tuple of int
        The chosen coordinates, 0-based.
    feature_names : tuple of str or None
        The names of the columns of ``X``, if they have names.
    bandwidth, radius, self_loops, alpha, n_neighbors : float, bool, int or None
        What made the kernel, as in :func:`select_coordinates`; None where there is none.
    metric : str
        How distances are measured; "precomputed" if new points come as distances to the training points, and
        "precomputed_affinity" if as affinities.
    rotation : ndarray of shape (n_components, s) or None
        The weights of the eigenvectors in the chosen coordinates, where these are turned.

    Examples
    --------
    >>> from ies_gpu import datasets, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> model = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2).model(X)
    >>> model
    Model of phi1, phi7 from phi1..phi20 (400 points with 3 columns, bandwidth=1.2, radius=3.6)
    >>> model.inverse_transform(model.transform(X[:5] + 0.01)).shape
    (5, 3)
    """

    X: Array
    degrees: Array
    coordinates: Array
    eigenvalues: Array
    bandwidth: float | None
    radius: float | None
    subset: tuple[int, ...]
    feature_names: tuple[str, ...] | None = None
    self_loops: bool = True
    metric: str = "euclidean"
    alpha: float = 1.0
    n_neighbors: int | None = None
    rotation: Array = None

    def transform(
        self, X_new: Array, *, isolated: str = "nan", device: str = "auto", memory_limit: int | None = None,
        n_threads: int | None = None, progress: Progress | None = None,
    ) -> Array:  # fmt: skip
        """Place new points in the map, by the Nystrom extension.

        Parameters
        ----------
        X_new : ndarray of shape (n_new, n_features)
            New points, with the columns of the training points, by name if both have names. With
            ``metric="precomputed"``, their distances to the training points, one column for each; what a sparse matrix
            does not store is no neighbour.
        isolated : {"nan", "nearest"}, default="nan"
            What a point without a training point within the radius gets, beside a warning: NaN, or the coordinates of
            the nearest training point.
        device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
            Where to compute; "auto" stays where ``X_new`` is.
        memory_limit, n_threads : int, optional
            Bytes and CPU threads that may be used; half of the free memory, and all, by default.
        progress : callable, optional
            Called as ``progress("transform", done, total)``.

        Returns
        -------
        ndarray of shape (n_new, s)
            The chosen coordinates of the new points, on the device of ``X_new``.
        """
        check_choice("isolated", isolated, ISOLATED)
        weights = None if self.rotation is None else np.array(to_host(self.rotation))
        used = list(self.subset) if weights is None else np.flatnonzero(weights.any(axis=1)).tolist()
        X_new = self._check_new(X_new)
        home = backend_of(X_new)
        backend = get_backend(device_near(home, device), memory_limit=memory_limit, n_threads=n_threads)
        with backend.active(), Log(progress).stage("transform"):
            X, w, Y = (to_device(a, backend) for a in (self.X, self.degrees, self.coordinates))
            values = np.array(to_host(self.eigenvalues))[used]
            rule = KernelRule(**{name: getattr(self, name) for name in KernelRule._fields})
            found = extend(to_device(X_new, backend), X, Y[:, used], values, w, rule, isolated=isolated)
            return to_device(found if weights is None else found @ backend.asarray(weights[used]), home)

    @at_home
    def inverse_transform(self, Y: Array) -> Array:
        """Return points that have given coordinates: the way back, by nearest neighbours.

        The mean of the 10 training points nearest in the chosen coordinates, each divided by its standard deviation.
        :attr:`inverse_error` says how far from the truth that is. Noise is averaged away; edges shrink.

        Parameters
        ----------
        Y : ndarray of shape (n_new, s)
            The chosen coordinates, as :meth:`transform` returns them. A row with NaN gives NaN.

        Returns
        -------
        ndarray of shape (n_new, n_features)
            Points, on the device of the model.
        """
        X, chosen = self._invertible()
        home, there = backend_of(X), backend_of(Y)
        with there.active():
            Y = check_array("Y", Y)
            if Y.dtype.kind != "f" or hasattr(Y, "nnz"):  # words, dates, a sparse matrix: refused; integers: converted
                Y = check_real_array("Y", Y, 2)
            missing = Y != Y
            Y = check_real_array("Y", there.xp.where(missing, 0.0, Y), 2)
        Y = to_device(Y, home)
        if Y.shape[1] != chosen.shape[1]:
            text = f"Y must have {chosen.shape[1]} columns ({', '.join(self.names)}), got {Y.shape[1]}"
            raise refusal("Y.columns", text)
        with home.active():
            unit = column_units(chosen)
            near = KDTree(to_host(chosen / unit)).query(to_host(Y / unit), min(NEIGHBOURS, len(X)))[1]
            found = mean_over(X, home.asarray(near.reshape(len(Y), -1)))
            found[to_device(missing, home).any(axis=1)] = home.xp.nan
            return found

    @cached_property
    @at_home
    def inverse_error(self) -> InverseError:
        """The error of :meth:`inverse_transform` at training points that are left out in turn."""
        X, chosen = self._invertible()
        share = unexplained_variance(X, chosen, n_neighbors=min(NEIGHBOURS, len(X) - 1))
        return InverseError((share * float(X.var(axis=0).sum())) ** 0.5, share)

    def _invertible(self) -> tuple[Any, Any]:
        """Return the training points and their chosen coordinates."""
        if self.metric in GIVEN:
            text = f"a model with {option('metric', self.metric)} has no points to go back to"
            raise refusal("model.precomputed", text, "fit with points instead")
        return self.X, backend_of(self.X).asarray(self.embedding)

    def _check_new(self, X_new: Array) -> Array:
        """Return new points, or their distances to the training points, of which an infinite one means "far away"."""
        if self.metric not in GIVEN:
            way = "select them by name, such as X_new[list(model.feature_names)]"
            check_names(self.feature_names, names_of(X_new), "X_new", way)
            new, columns = check_real_array("X_new", X_new, 2, largest=sys.float_info.max), self.X.shape[1]
            if new.shape[1] != columns:
                text = f"X_new must have {columns} columns like the training points, got {new.shape[1]}"
                raise refusal("X_new.columns", text)
            return new
        if backend_of(X_new).sparse.issparse(X_new):
            found = far = check_sparse("X_new", X_new)
            entries = found.data
        else:
            xp, found = backend_of(X_new).xp, check_array("X_new", X_new)
            far = (found == xp.inf) & (self.metric == PRECOMPUTED)
            found = entries = check_real_array("X_new", xp.where(far, 0.0, found), 2)
        if found.shape[1] != len(self.coordinates) or bool((entries < 0).any()):
            what = "distances" if self.metric == PRECOMPUTED else "affinities"
            text = f"X_new must hold {what} to the {len(self.coordinates)} training points, one column for each and "
            raise refusal("X_new.distances", f"{text}none negative, got shape {found.shape}")
        return found if far is found else xp.where(far, xp.inf, found)

    def __repr__(self) -> str:
        (n, columns), m = self.X.shape, self.coordinates.shape[1]
        metric = "" if self.metric == "euclidean" else f", metric={self.metric!r}"
        shape = f" with {columns} columns" if columns else ""
        numbers = {name: getattr(self, name) for name in ("bandwidth", "radius", "n_neighbors")}
        scales = "".join(f", {name}={value:g}" for name, value in numbers.items() if value is not None)
        return f"Model of {', '.join(self.names)} from phi1..phi{m} ({n:,} points{shape}{scales}{metric})"


def make_model(
    X: Array, coordinates: Array, eigenvalues: Array, rule: KernelRule, subset: Sequence[int],
    feature_names: Sequence[str] | None = None, *, device: str = "auto", rotation: Array = None,
) -> Model:  # fmt: skip
    """Make a model of checked points. No result keeps their degrees, so they cost one pass over the pairs, on a device.

    With precomputed distances or affinities, X holds those between the points, and the model does not keep them.
    """
    if rule.bandwidth == LOCAL:
        text = f"new points need one bandwidth for all points, but this map has {option('bandwidth', 'local')}"
        raise refusal("model.local", text, f"choose with {option('bandwidth', 'fixed')} or a number")
    names = None
    if feature_names is not None:
        names = tuple(map(str, check_members("feature_names", feature_names, "one name per column")))
        if len(names) != X.shape[1]:
            text = f"feature_names must be {X.shape[1]} names, one per column of X, got {len(names)}"
            raise refusal("feature_names.number", text)
    home = backend_of(X)
    here = home if rule.metric in GIVEN else get_backend(device_near(home, device))
    with here.active():
        degrees = to_device(kernel_degrees(to_device(X, here), rule), home)
    X = home.xp.empty((X.shape[0], 0)) if rule.metric in GIVEN else X
    rest = {"subset": tuple(subset), "feature_names": names, "rotation": rotation}
    return Model(X, degrees, coordinates, eigenvalues, **rest, **rule._asdict())
