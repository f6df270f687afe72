"""Pictures of points: the input, and the embedding by a set of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choice.naming import coordinate_numbers
from ..errors import brief
from ..results.selection import check_selection, with_turned
from ..validation import check_real_array
from .clouds import check_cmap, draw_panel, pairs, panels
from .colours import Colouring, colourings, colourings_of
from .panels import (
    as_written,
    axis_labels,
    check_axes,
    heading,
    on_host,
    set_label,
    unit_mean_square,
)
from .style import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results.selection import Selection


@drawing
def embedding(
    selection: Selection, subset: Sequence[int | str] | None = None, *, colors: Any = None, title: str | None = None,
    cmap: str | None = None, ax: Any = None,
) -> Figure:  # fmt: skip
    """Draw the points in the chosen coordinates, or in any others.

    Two coordinates are drawn in 2-D, three in 3-D, and more as a grid of all pairs. One is drawn against the first of
    the others, so points on a curve give a curve. Up to 1 % of the points that lie far out, and would shrink the rest
    of the picture, are not drawn; the picture says how many.

    Parameters
    ----------
    selection : Selection
        The result of :func:`ies_gpu.select_coordinates`.
    subset : sequence of int or str, optional
        0-based numbers or names such as "phi7". By default the chosen set.
    colors : array, pandas.Series, pandas.DataFrame or dict, optional
        What colours the points, with one value per input point or per row of ``selection.points``. Strings, booleans,
        ``pandas.Categorical`` and integers with at most 12 different values are classes and get a legend; other numbers
        get a colour bar. Missing values are grey. A frame or a dict gives one panel per column. The name of a Series or
        column is the label.
    title : str, optional
        By default it names the coordinates.
    cmap : str, optional
        Matplotlib's name of the colour map for numbers. By default "viridis", and a cyclic one for angles.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into, for one way to colour the points and up to three coordinates. Three need axes with
        ``projection="3d"``.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    Examples
    --------
    >>> from ies_gpu import datasets, plot, select_coordinates
    >>> strip = datasets.load("D1", n_samples=500)
    >>> selection = select_coordinates(strip.X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> figure = plot.embedding(selection, colors=strip.truth[:, 0] > 10)
    >>> figure.savefig("map.png", dpi=150)  # doctest: +SKIP
    """
    Y = with_turned(check_selection(selection))[0] if subset is None else on_host(selection.coordinates)
    chosen = selection.subset if subset is None else coordinate_numbers(subset, Y.shape[1])
    colours = colourings_of(colors, selection)
    title = heading(title, f"Embedding by {set_label(chosen)}")
    return _drawn(*_columns(unit_mean_square(Y), chosen), colours, cmap, title, ax)


@drawing
def points(X: Any, *, colors: Any = None, title: str | None = None, cmap: str | None = None, ax: Any = None) -> Figure:
    """Draw the input, to scale.

    The first two columns are drawn if the third is thin (a tenth of them or less), otherwise the first three in 3-D.
    The title says so if there are more than three.

    Parameters
    ----------
    X : array or pandas.DataFrame of shape (n, D)
        Points. The columns of a frame name the axes.
    colors : array, pandas.Series, pandas.DataFrame, dict or str, optional
        As in :func:`ies_gpu.plot.embedding`, or the name of a column of the frame ``X``.
    title : str, optional
        None by default, or which columns are drawn.
    cmap, ax : optional
        As in :func:`ies_gpu.plot.embedding`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    Examples
    --------
    >>> from ies_gpu import datasets, plot
    >>> strip = datasets.load("D1", n_samples=500)
    >>> figure = plot.points(strip.X, colors=strip.colors)
    """
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    if isinstance(colors, str):
        if names is None or colors not in names:
            has = "has no names" if names is None else f"has {', '.join(names)}"
            raise ValueError(f"colors={brief(colors)} must name a column of X, which {has}")
        colors = {colors: X[colors]}
    title, X = heading(title), on_host(X, "X")
    if X.ndim != 2 or X.shape[1] < 2 or len(X) < 1:
        raise ValueError(f"X must have rows, and 2 columns or more, to be drawn, got shape {X.shape}")
    columns = X.shape[1]
    X = check_real_array("X", X[:, :3], 2)
    spread = X.max(axis=0) - X.min(axis=0)
    flat = X.shape[1] == 2 or spread[2] <= 0.1 * spread[:2].max()
    X = X[:, :2] if flat else X
    title = title or (f"The first {X.shape[1]} of {columns} columns" if columns > 3 else "")
    labels = (
        axis_labels(range(X.shape[1]), "x") if names is None else [as_written(name) for name in names[: X.shape[1]]]
    )
    return _drawn(X, labels, colourings(colors, len(X)), cmap, title, ax, to_scale=True)


def _columns(Y: np.ndarray, chosen: tuple[int, ...]) -> tuple[np.ndarray, list[str]]:
    """The columns to draw and their labels; a single one is drawn against another."""
    if len(chosen) > 1:
        return Y[:, list(chosen)], axis_labels(chosen, more=" (root mean square 1)" if len(chosen) == 2 else "")
    others = [k for k in range(Y.shape[1]) if k not in chosen][:1]
    if not others:
        return np.column_stack([Y, np.zeros(len(Y))]), [*axis_labels(chosen), ""]
    name = axis_labels(others)[0]
    return Y[:, [*chosen, *others]], [*axis_labels(chosen), f"{name} (not in the set: shows the curve)"]


def _drawn(
    Y: np.ndarray, labels: list[str], colours: list[Colouring], cmap: str | None, title: str, ax: Any, *,
    to_scale: bool = False,
) -> Figure:  # fmt: skip
    """Draw points into a new figure, or into the user's axes."""
    if cmap is not None:
        check_cmap(cmap)
    if ax is None:
        what = Y, labels, colours, cmap
        figure = pairs(*what) if Y.shape[1] > 3 else panels(*what, to_scale=to_scale)
        if title:
            figure.suptitle(title, fontsize=12)
        return figure
    if len(colours) > 1:
        raise ValueError(f"ax is for one way to colour the points, got {len(colours)}; leave ax out for one panel each")
    if Y.shape[1] > 3:
        raise ValueError(f"ax is for up to 3 coordinates, got {Y.shape[1]}; leave ax out for a grid of pairs")
    check_axes(ax, Y.shape[1])
    draw_panel(ax, Y, labels, colours[0], cmap)
    if to_scale:
        ax.set_aspect("equal")
    if title:
        ax.set_title(title, loc="left")  # a word on strays is on the right
    return ax.figure
