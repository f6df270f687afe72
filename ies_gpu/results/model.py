"""Models: all that is needed to put new points into a map, and the file that holds it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..backend import backend_of, device_near, get_backend, to_device
from ..backend.array import Array
from ..choice.naming import coordinate_names
from ..embedding.nystrom import ISOLATED, check_scales, extended, kernel_degrees, moved_points
from ..errors import brief
from ..run.log import Log, Progress
from ..validation import check_choice, check_members, check_points, check_real_array
from .selection import Selection, check_selection
from .storage import read_archive, write_archive

FORMAT = "ies_gpu model"
VERSION = 1  # a field that is added later has a default, so that older files stay readable


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """Training points and their map: all that is needed to place new points.

    Make one with :func:`model_of` or ``ies-gpu fit --model``.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The training points that were used.
    degrees : ndarray of shape (n_samples,)
        The row sums of their kernel matrix.
    coordinates : ndarray of shape (n_samples, n_components)
        The eigenvectors.
    eigenvalues : ndarray of shape (n_components,)
        Of ``L = I - P``.
    bandwidth, radius : float
        The bandwidth of the kernel, and how far apart neighbours may be.
    subset : tuple of int
        The chosen coordinates, 0-based.
    feature_names : tuple of str or None
        The names of the columns of ``X``, if they have names.
    self_loops : bool
        Whether each point is its own neighbour.

    Examples
    --------
    >>> from ies_gpu import datasets, model_of, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> model_of(selection, X)
    Model of phi1, phi7 from phi1..phi20 (400 points with 3 columns, bandwidth=1.2, radius=3.6)
    """

    X: Array
    degrees: Array
    coordinates: Array
    eigenvalues: Array
    bandwidth: float
    radius: float
    subset: tuple[int, ...]
    feature_names: tuple[str, ...] | None = None
    self_loops: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen coordinates by name, counted from 1: ``("phi1", "phi7")``."""
        return coordinate_names(self.subset)

    def transform(
        self,
        X_new: Array,
        *,
        columns: Sequence[int] | None = None,
        isolated: str = "nan",
        device: str = "auto",
        memory_limit: int | None = None,
        n_threads: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Place new points in the map, by the Nystrom extension.

        Parameters
        ----------
        X_new : ndarray of shape (n_new, n_features)
            New points, with the columns of the training points.
        columns : sequence of int, optional
            The coordinates to compute, 0-based; the chosen set by default.
        isolated : {"nan", "nearest"}, default="nan"
            What a point gets that has no training point within the radius: NaN, or the coordinates of the nearest
            training point. Either way there is a warning.
        device : {"auto", "cpu", "cuda", "cuda:N"}, default="auto"
            Where to compute; "auto" stays where ``X_new`` is.
        memory_limit : int, optional
            Bytes that may be used; half of the free memory by default.
        n_threads : int, optional
            CPU threads; by default all that the process may use.
        progress : callable, optional
            Called as ``progress("transform", done, total)``.

        Returns
        -------
        ndarray of shape (n_new, len(columns))
            The coordinates of the new points, on the device of ``X_new``.

        Examples
        --------
        >>> from ies_gpu import datasets, model_of, select_coordinates
        >>> X = datasets.load("D1", n_samples=400).X
        >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
        >>> model_of(selection, X).transform(X[:5] + 0.01).shape
        (5, 2)
        """
        check_choice("isolated", isolated, ISOLATED)
        chosen = check_members("columns", self.subset if columns is None else columns, "numbers such as (0, 6)")
        m = self.coordinates.shape[1]
        if not all(isinstance(k, int | np.integer) and 0 <= k < m for k in chosen):
            raise ValueError(f"columns must be numbers between 0 and {m - 1}, got {brief(columns)}")
        X_new = check_real_array("X_new", X_new, 2, largest=sys.float_info.max)
        home = backend_of(X_new)
        backend = get_backend(device_near(home, device), memory_limit=memory_limit, n_threads=n_threads)
        with backend.active(), Log(progress).stage("transform") as report:
            X, w, Y = (to_device(a, backend) for a in (self.X, self.degrees, self.coordinates))
            values = np.array(backend_of(self.eigenvalues).to_host(self.eigenvalues))[chosen]
            new = moved_points(X_new, X)
            scales = (self.bandwidth, self.radius)
            found = extended(new, X, Y[:, chosen], values, w, *scales, isolated, report, self.self_loops)
            return to_device(found, home)

    def __repr__(self) -> str:
        (n, columns), m = self.X.shape, self.coordinates.shape[1]
        return (
            f"Model of {', '.join(self.names)} from phi1..phi{m} ({n:,} points with {columns} columns, "
            f"bandwidth={self.bandwidth:g}, radius={self.radius:g})"
        )


def model_of(selection: Selection, X: Array, *, feature_names: Sequence[str] | None = None) -> Model:
    """Make a model for new points from a result.

    Parameters
    ----------
    selection : Selection
        The result of ``select_coordinates(X, ...)``.
    X : ndarray of shape (n_samples, n_features)
        The same points. Those that ``components="largest"`` left out do not become training points.
    feature_names : sequence of str, optional
        Names of the columns of ``X``.

    Returns
    -------
    Model
        The training points with their map.

    Raises
    ------
    ValueError
        If the result was not made from points, or from other points.

    See Also
    --------
    save_model : Write a model to a file.

    Examples
    --------
    >>> from ies_gpu import datasets, model_of, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> model = model_of(selection, X)
    >>> model.names
    ('phi1', 'phi7')
    >>> model.transform(X[:5] + 0.01).shape
    (5, 2)
    """
    used = check_selection(selection).diagnostics.get("parameters", {})
    if used.get("entry") != "X":
        raise ValueError(
            f"a model needs a selection made from points; this one was made from a {used.get('entry', 'graph')}, which "
            "gives no distances to new points. Call select_coordinates with X"
        )
    if used["radius"] is None:
        raise ValueError(
            "a model needs a graph of all points within a radius, in which new points have a place; this one is of "
            "nearest neighbours. Call select_coordinates with a bandwidth in numbers, and without n_neighbors"
        )
    X = check_points(X)
    points = backend_of(selection.points).to_host(selection.points)
    if len(X) <= int(points[-1]):
        raise ValueError(f"X must be the points of the selection, at least {int(points[-1]) + 1} rows, got {len(X)}")
    if len(points) < len(X):
        X = X[backend_of(X).asarray(points)]
    scales = check_scales(used["bandwidth"], used["radius"])
    loops = used.get("self_loops", True)  # not in files of earlier versions
    map_of_X = (X, selection.coordinates, selection.eigenvalues)
    return make_model(*map_of_X, *scales, selection.subset, feature_names, self_loops=loops)


def make_model(
    X: Array,
    coordinates: Array,
    eigenvalues: Array,
    bandwidth: float,
    radius: float,
    subset: Sequence[int],
    feature_names: Sequence[str] | None = None,
    *,
    self_loops: bool = True,
) -> Model:
    """Make a model of checked points. No result keeps their degrees, so they cost one pass over the pairs."""
    names = None
    if feature_names is not None:
        names = tuple(map(str, check_members("feature_names", feature_names, "one name per column")))
        if len(names) != X.shape[1]:
            raise ValueError(f"feature_names must be {X.shape[1]} names, one per column of X, got {len(names)}")
    degrees = kernel_degrees(X, bandwidth=bandwidth, radius=radius, self_loops=self_loops)
    return Model(X, degrees, coordinates, eigenvalues, bandwidth, radius, tuple(subset), names, self_loops)


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    The file is written completely or not at all, without pickle. Arrays on a GPU are copied to the host.

    Parameters
    ----------
    model : Model
        As :func:`model_of` returns it.
    path : str or path-like
        An ``.npz`` file or a URL.

    See Also
    --------
    load_model : Read it again.

    Examples
    --------
    >>> from ies_gpu import datasets, load_model, model_of, save_model, select_coordinates
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> save_model(model_of(selection, X), "model.npz")
    >>> load_model("model.npz").names
    ('phi1', 'phi7')
    """
    if not isinstance(model, Model):
        raise TypeError(f"save_model takes a Model, as returned by model_of, got {type(model).__name__}")
    write_archive(path, FORMAT, VERSION, {field.name: getattr(model, field.name) for field in fields(model)})


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model that :func:`save_model` or ``ies-gpu fit --model`` wrote.

    Parameters
    ----------
    path : str or path-like
        An ``.npz`` file or a URL, written by this version or an older one.

    Returns
    -------
    Model
        The model; its arrays are NumPy arrays.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is truncated, is something else, or was written by a newer version.

    See Also
    --------
    save_model : Write a model.

    Examples
    --------
    >>> from ies_gpu import DiffusionMap, datasets, load_model, save_model
    >>> X = datasets.load("D1", n_samples=400).X
    >>> save_model(DiffusionMap(n_components=5, bandwidth=1.2).fit(X).model_, "model.npz")
    >>> load_model("model.npz").transform(X[:3]).shape
    (3, 5)
    """
    return read_archive(
        path, FORMAT, VERSION, "a model of ies_gpu; load_model reads what 'ies-gpu fit --model' wrote", Model
    )
