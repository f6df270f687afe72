"""What is needed to put new points into a map, and nothing else: a model, with its file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..backend import backend_of, device_near, get_backend, to_device
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
    """Training points with their map.

    Attributes
    ----------
    X : array (n, D)
        The training points that were used.
    degrees : array (n,)
        ``w``, the row sums of their kernel.
    coordinates : array (n, m)
    eigenvalues : array (m,)
        Of ``L = I - P``.
    bandwidth, radius : float
    subset : tuple of int
        The chosen coordinates, 0-based.
    feature_names : tuple of str or None
        Of the columns of X, where they have names.
    self_loops : bool
        Whether a point is its own neighbour.
    """

    X: Any
    degrees: Any
    coordinates: Any
    eigenvalues: Any
    bandwidth: float
    radius: float
    subset: tuple[int, ...]
    feature_names: tuple[str, ...] | None = None
    self_loops: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen coordinates for people: ``("phi1", "phi7")``."""
        return coordinate_names(self.subset)

    def transform(
        self,
        X_new: Any,
        *,
        columns: Sequence[int] | None = None,
        isolated: str = "nan",
        device: str = "auto",
        memory_limit: int | None = None,
        n_threads: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """New points in the chosen coordinates, or in those asked for.

        Parameters
        ----------
        X_new : array (n_new, D)
        columns : sequence of int, optional
            0-based; the chosen set unless given.
        isolated : {"nan", "nearest"}
            What points without a training point within the radius get; with a warning.
        device, memory_limit, n_threads
            As in ``select_coordinates``.
        progress : callable, optional
            Called as ``progress("transform", done, total)``.

        Returns
        -------
        array (n_new, len(columns))
            On the device of ``X_new``.
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


def model_of(selection: Selection, X: Any, *, feature_names: Sequence[str] | None = None) -> Model:
    """The model of a result, for new points.

    Parameters
    ----------
    selection : Selection
        Of ``select_coordinates(X, ...)``.
    X : array (n, D)
        The same points. Those that ``components="largest"`` left out are no training points.
    feature_names : sequence of str, optional
        Names of the columns of X.
    """
    used = check_selection(selection).diagnostics.get("parameters", {})
    if used.get("entry") != "X":
        raise ValueError(
            f"new points need a map of points: this one was made from a {used.get('entry', 'graph')}, whose distances "
            "to new points are not known; call select_coordinates with X"
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
    X: Any,
    coordinates: Any,
    eigenvalues: Any,
    bandwidth: float,
    radius: float,
    subset: Sequence[int],
    feature_names: Sequence[str] | None = None,
    *,
    self_loops: bool = True,
) -> Model:
    """A model of checked points; their degrees, which no result keeps, cost one pass over the pairs."""
    names = None
    if feature_names is not None:
        names = tuple(map(str, check_members("feature_names", feature_names, "one name per column")))
        if len(names) != X.shape[1]:
            raise ValueError(f"feature_names must be {X.shape[1]} names, one per column of X, got {len(names)}")
    degrees = kernel_degrees(X, bandwidth=bandwidth, radius=radius, self_loops=self_loops)
    return Model(X, degrees, coordinates, eigenvalues, bandwidth, radius, tuple(subset), names, self_loops)


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to an ``.npz`` file without pickle, whole or not at all; arrays on a GPU come to the host."""
    if not isinstance(model, Model):
        raise TypeError(f"save_model takes a Model, as model_of returns it, got {type(model).__name__}")
    write_archive(path, FORMAT, VERSION, {field.name: getattr(model, field.name) for field in fields(model)})


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model that :func:`save_model` or ``ies-gpu fit --model`` wrote, by this version or an older one.

    Raises
    ------
    ValueError
        If the file is cut short, is something else, or was written by a newer version.
    """
    return read_archive(
        path, FORMAT, VERSION, "a model of ies_gpu; load_model takes what 'ies-gpu fit --model' wrote", Model
    )
