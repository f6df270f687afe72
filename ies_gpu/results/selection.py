"""The result of a run: the chosen coordinates and everything that led to them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backend import at_home, backend_of, to_host
from ..backend.array import Array
from ..choice.criterion import check_spanning, coordinate_names, coordinate_numbers, log_volumes
from ..choice.regularization import Segment
from ..findings import Answer, Finding, brief, first_few, judgement_in, option, refusal
from ..validation import check_integer, check_points, points_digest
from .text import as_plain, summary

if TYPE_CHECKING:
    from .model import Model


class Ranking(NamedTuple):
    """Every set that was scored to the end, best first.

    Attributes
    ----------
    subsets : ndarray of shape (n_sets, s)
        The sets, 0-based.
    losses, scores : ndarray of shape (n_sets,)
        The scores with the penalty at zeta*, by which the sets are sorted, highest first; and without it.
    """

    subsets: np.ndarray
    losses: np.ndarray
    scores: np.ndarray


class Chosen:
    """What a result and a model share: chosen coordinates, and a file."""

    subset: tuple[int, ...]
    coordinates: Array
    rotation: Array

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen coordinates by name, counted from 1: ``("phi1", "phi7")``."""
        return coordinate_names(self.subset)

    @property
    @at_home
    def embedding(self) -> Array:
        """The chosen coordinates (n, s), turned if there is a ``rotation``; scores are those of the eigenvectors."""
        return self.coordinates[:, list(self.subset)] if self.rotation is None else self.coordinates @ self.rotation

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, completely or not at all, without pickle.

        Arrays on a GPU are copied to the host. ``numpy.load`` opens the file too, and ``unzip -p run.npz header.json``
        shows all but the arrays.

        Parameters
        ----------
        path : str or path-like
            An ``.npz`` file, or a URL such as ``s3://bucket/run.npz``. :func:`load` reads it.
        """
        from .storage import save

        save(self, path)


@dataclass(frozen=True, repr=False, eq=False)
class Selection(Chosen):
    """The chosen coordinates and everything that led to them.

    :func:`select_coordinates` returns it. Arrays are on the device of the input. Below, n is the number of points used,
    m the number of eigenvectors, d the dimension of the manifold and s the number of chosen coordinates.

    Attributes
    ----------
    subset : tuple of int
        S*, the chosen set: 0-based, rising, with 0 in it unless ``phi1`` is concentrated on a few stray points.
    search_order : tuple of int
        The order in which the search added the coordinates.
    zeta : float
        zeta*, the weight of the smoothness penalty.
    zeta_interval : tuple of (float, float or None)
        The values of zeta for which S* is optimal; None means no upper end.
    coordinates : ndarray of shape (n, m)
        All eigenvectors.
    eigenvalues, laplace_beltrami_eigenvalues : ndarray of shape (m,)
        Of ``L = I - P``, rising, without the constant one; and times ``4 / bandwidth**2``, None without a bandwidth.
    path : tuple of Segment
        The regularization path, from zeta = inf down.
    regrets : ndarray of shape (n, len(path))
        Leave-one-out regret of each set of the path at each point.
    regret_percentiles : ndarray of shape (len(path),)
        The percentile of the regrets of each set of the path.
    ranking : Ranking
        Every set that was scored to the end, best first.
    log_volumes : ndarray of shape (n,)
        ``R(S*; i)``, the score of the chosen set at each point.
    bases : ndarray of shape (n, m, d) or None
        Tangent bases of the co-metric, if they were kept: see ``keep_bases``.
    singular_values : ndarray of shape (n, d)
        The leading singular values of the co-metric.
    points : ndarray of shape (n,)
        The rows of the input that were used.
    diagnostics : dict
        How the result came about: parameters, device, seconds, warnings and more, as plain values.
    index : ndarray of shape (n,) or None
        The labels of the rows that were used, if the points came with some, as in a data frame.
    rotation : ndarray of shape (m, s) or None
        The weights of the eigenvectors in chosen coordinates that ``untangle`` has turned: ``coordinates @ rotation``.
    """

    subset: tuple[int, ...]
    search_order: tuple[int, ...]
    zeta: float
    zeta_interval: tuple[float, float | None]
    coordinates: Array
    eigenvalues: Array
    laplace_beltrami_eigenvalues: Array
    path: tuple[Segment, ...]
    regrets: Array
    regret_percentiles: np.ndarray
    ranking: Ranking
    log_volumes: Array
    bases: Array
    singular_values: Array
    points: Array
    diagnostics: dict[str, Any]
    index: np.ndarray | None = None
    rotation: Array = None

    @property
    def verdict(self) -> str | None:
        """Whether the map can be trusted: "sure", "likely" or "doubtful"; None in older files. ``findings`` say why."""
        return self.diagnostics.get("verdict")

    @property
    def judgement(self) -> dict[str, Answer]:
        """The answers behind the verdict, by question: each has a ``level``, a ``figure`` and a ``text``.

        The questions are "rank" (does the map keep every local direction), "shape" (is it free of knots, crossings and
        overlaps), "stable" (would another sample choose it) and, beside the verdict, "needed" (are the leading
        coordinates not as good). Levels are "good", "fair", "bad" and "unchecked".
        """
        return judgement_in(self.diagnostics)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What speaks against the result: reasons to doubt it, the gravest first, and warnings, each with its code."""
        return tuple(Finding(**record) for record in self.diagnostics.get("findings", ()))

    @property
    def zeta_dimensionless(self) -> float:
        """``zeta * lambda_1``, which does not depend on the units of the input."""
        return self.zeta * float(self.eigenvalues[0])

    def score(self, subset: Sequence[int | str]) -> Array:
        """Score any set at every point.

        Parameters
        ----------
        subset : sequence of int or str
            0-based numbers or names such as "phi7"; at least as many as the manifold has dimensions.

        Returns
        -------
        ndarray of shape (n,)
            ``R(S; i)``, the logarithm of the normalised volume; 0 at most.
        """
        bases = bases_of(self)
        numbers = sorted(coordinate_numbers(subset, bases.shape[1]))
        return log_volumes(bases, check_spanning([numbers], bases, "subset"))[:, 0]

    def model(self, X: Array, *, feature_names: Sequence[str] | None = None) -> Model:
        """Return a model that places new points in the map.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The points that the result was made from.
        feature_names : sequence of str, optional
            Names of the columns of ``X``; by default those of a data frame.

        Returns
        -------
        Model
            The training points with their map.
        """
        from .model import KernelRule, make_model

        used = self.diagnostics.get("parameters", {})
        if used.get("entry") != "X":
            text = f"a model needs a selection made from points, and this one was made from a {used.get('entry')}"
            raise refusal("model.entry", text, "call select_coordinates with X")
        names = names_of(X) if feature_names is None else feature_names
        rule = KernelRule(**{name: used[name] for name in KernelRule._fields if name in used})  # older files have fewer
        on_host = self.diagnostics.get("device", "cpu") == "cpu"  # else: the GPU of a saved run may be gone
        return make_model(
            used_points(self, check_points(X)), self.coordinates, self.eigenvalues, rule, self.subset, names,
            device="cpu" if on_host else "auto", rotation=self.rotation,
        )  # fmt: skip

    def to_pandas(self) -> Any:
        """Return the chosen coordinates as a data frame.

        Returns
        -------
        pandas.DataFrame
            Columns such as ``phi1`` and ``phi7``. The index gives the row of each point in the input.
        """
        import pandas

        index = pandas.Index(to_host(self.points), name="point") if self.index is None else self.index
        return pandas.DataFrame(to_host(self.embedding), index=index, columns=list(self.names))

    def to_json(self) -> str:
        """Return the result without its per-point arrays as JSON.

        Returns
        -------
        str
            One line, as ``ies-gpu fit --json`` prints it.
        """
        return json.dumps(as_plain(self))

    def to_html(
        self, path: str | os.PathLike[str], *, points: Array = None, colors: Any = None, cmap: Any = None,
        compare: Any = None, stability: Any = None, diagnosis: Any = None, title: str | None = None,
    ) -> None:  # fmt: skip
        """Write an interactive report on the result: one HTML file that needs no network.

        Parameters
        ----------
        path : str or path-like
            An ``.html`` file, or a URL such as ``s3://bucket/report.html``.
        points : ndarray of shape (n_samples, n_features), optional
            The points of the run, for a view of the input.
        colors : array, pandas.Series, pandas.DataFrame or dict, optional
            Columns to colour the points by, as in :func:`ies_gpu.plot.embedding`.
        cmap : str or dict, optional
            Matplotlib's name of the colour map for columns of numbers, or names by column. By default "viridis", and a
            cyclic one for angles.
        compare : Selection, optional
            Another result, to be shown beside this one.
        stability, diagnosis : Stability, Diagnosis, optional
            What :func:`selection_stability` and :func:`diagnose` found; it is marked on the map.
        title : str, optional
            The heading of the page.
        """
        from ..report.page import write_report

        write_report(
            self, path, points=points, colors=colors, cmap=cmap, compare=compare, stability=stability,
            diagnosis=diagnosis, title=title,
        )  # fmt: skip

    def explore(self, *, height: int = 900, **more: Any) -> Any:
        """Show the page of :meth:`to_html` inside a notebook.

        Parameters
        ----------
        height : int, default=900
            Height of the frame in pixels.
        **more
            What to show: the optional arguments of :meth:`to_html`.

        Returns
        -------
        Page
            What the notebook displays.
        """
        from ..report.page import Page, report_page

        return Page(report_page(self, **more), check_integer("height", height, low=100, high=100_000))

    def _repr_html_(self) -> str:
        from ..report.page import card

        return card(self)

    def __repr__(self) -> str:
        return summary(self)


def with_turned(selection: Selection) -> np.ndarray:
    """Return all coordinates on the host, the chosen ones turned."""
    Y = to_host(selection.coordinates)
    if selection.rotation is not None:
        Y = Y.copy()
        Y[:, list(selection.subset)] = to_host(selection.embedding)
    return Y


def bases_of(selection: Selection) -> Array:
    """Return the tangent bases of a result, or raise where they were not kept."""
    if selection.bases is None:
        text = "the tangent bases were not kept"
        raise refusal("bases.not_kept", text, f"run select_coordinates with {option('keep_bases', True)}")
    return selection.bases


def check_selection(selection: Any) -> Selection:
    """Return a result of ours, or raise if it is something else."""
    if not isinstance(selection, Selection):
        text = f"selection must be what select_coordinates returns, got {brief(selection)}"
        raise refusal("selection.type", text, kind=TypeError)
    return selection


def is_whole(selection: Selection) -> bool:
    """Return whether all points of the input are in the map; a given Laplacian leaves none out."""
    about = selection.diagnostics
    in_pieces = (about.get("graph_components") or 1) > 1 or "part" in about
    return not in_pieces and int(selection.points[-1]) < len(selection.points)


def rows_by_name(selection: Selection, labels: Any) -> np.ndarray | None:
    """Return the rows with the names of the map's points, among rows with these labels.

    None if positions must do: the result has no names, names or labels occur twice, or the labels are different ones.
    """
    if selection.index is None:
        return None
    names, labels = as_words(selection.index), as_words(labels)
    if len(labels) < len(names) or (is_whole(selection) and len(labels) != len(names)):
        return None
    places = {label: row for row, label in enumerate(labels)}
    if len(places) < len(labels) or len(set(names)) < len(names) or not places.keys() >= set(names):
        return None
    return np.array([places[name] for name in names], dtype=np.int64)


def as_words(labels: Any) -> list[str]:
    """Return names of rows as a result holds them: bytes and objects as words."""
    return [label.decode() if isinstance(label, bytes) else str(label) for label in np.asarray(labels)]


def used_points(selection: Selection, X: Array, name: str = "X") -> Array:
    """Return the rows of an array X (n, D) that are in the map; raise if X is not what the result was made from."""
    rows, whole = to_host(selection.points), is_whole(selection)
    must = f"{option(name)} must be the points that the selection was made from"
    if len(X) <= int(rows[-1]) or (whole and len(X) != len(rows)):
        wanted = f"{int(rows[-1]) + 1:,} rows" + ("" if whole else " or more")
        raise refusal(f"{name}.rows", f"{must}, {wanted}, got {len(X):,} rows")
    used = X if len(rows) == len(X) else X[backend_of(X).asarray(rows)]
    known, width = (selection.diagnostics.get(key) for key in ("points_digest", "n_features"))
    if known is None or points_digest(used) == known:  # an older file knows the number of rows only
        return used
    if width is not None and width != X.shape[1]:
        text = f"{must}, with {width} column{'s' * (width != 1)}, got {X.shape[1]}"
        raise refusal(f"{name}.columns", text, "pass the columns of the run")
    advice = f"these are different points ({len(X):,} rows of {X.shape[1]} columns)"
    raise refusal(f"{name}.other_points", f"{must}, in the same order", advice)


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns; None for arrays, and where a name is no text."""
    try:
        names = tuple(getattr(X, "columns", ()))
    except TypeError:  # no list of names at all
        return None
    return names if names and all(isinstance(name, str) for name in names) else None


def check_names(wanted: Sequence[str] | None, found: Sequence[str] | None, what: str, way: str) -> None:
    """Raise if both have names that differ or come in another order; ``way`` says how to go on."""
    if wanted is None or found is None or tuple(found) == tuple(wanted):
        return
    text = f"{what} has other columns, or in another order, than the training points, {first_few(wanted, 8)}"
    raise refusal("columns.names", text, f"{way}, or rename them if they are the same")
