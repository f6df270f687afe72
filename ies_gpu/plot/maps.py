"""Pictures of points: the input, and the embedding by a set of coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choice.naming import coordinate_numbers
from .panels import (
    column_labels,
    coordinate_labels,
    label_axes,
    new_figure,
    on_host,
    pairs,
    scatter,
    set_label,
    unit_mean_square,
)
from .style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results.selection import Selection


@styled()
def embedding(
    selection: Selection,
    subset: Sequence[int] | None = None,
    *,
    colors: Any = None,
    title: str | None = None,
    cmap: str = "viridis",
) -> Figure:
    """Points in the chosen coordinates, or in any others.

    Parameters
    ----------
    selection : Selection
    subset : sequence of int or str, optional
        0-based numbers or names such as ``phi7``; the chosen set unless given. Two are drawn flat, three in space, more
        as pairs.
    colors : array (n,), or dict of such arrays by name
        Values that colour the points: one panel for each. Rows as in the input or as in ``selection.points``.
    """
    Y = on_host(selection.coordinates)
    chosen = selection.subset if subset is None else coordinate_numbers(subset, Y.shape[1])
    if len(chosen) < 2:
        raise ValueError(f"subset must have 2 members or more to be drawn, got {chosen}")
    by_name = _by_name(colors, len(Y), on_host(selection.points))
    labels = coordinate_labels(chosen, " (root mean square 1)" if len(chosen) == 2 else "")
    draw = pairs if len(chosen) > 3 else _panels
    figure = draw(unit_mean_square(Y[:, list(chosen)]), labels, by_name, cmap)
    figure.suptitle(title or f"Embedding by {set_label(chosen)}", fontsize=12)
    return figure


@styled()
def points(X: Any, *, colors: Any = None, title: str | None = None, cmap: str = "viridis") -> Figure:
    """The input: its first two columns, to scale, where the rest is thin (a tenth or less); else three in space."""
    X = on_host(X)
    if X.ndim != 2 or X.shape[1] < 2:
        raise ValueError(f"X must have 2 columns or more to be drawn, got shape {X.shape}")
    spread = X.max(axis=0) - X.min(axis=0)
    flat = X.shape[1] == 2 or spread[2] <= 0.1 * spread[:2].max()
    by_name = _by_name(colors, len(X))
    labels = column_labels(range(2 if flat else 3))
    figure = _panels(X[:, : len(labels)], labels, by_name, cmap, to_scale=True)
    if title:
        figure.suptitle(title, fontsize=12)
    return figure


def _by_name(colors: Any, n: int, rows: np.ndarray | None = None) -> dict[str, np.ndarray | None]:
    """Values (n,) by name, of which those for all rows of the input are cut to the ``rows`` that were used."""
    found = {}
    for name, values in (colors if isinstance(colors, Mapping) else {"": colors}).items():
        if values is not None:
            values = on_host(values)
            if rows is not None and values.ndim == 1 and len(values) > rows[-1]:
                values = values[rows]
            if values.shape != (n,):
                what = f"colors[{name!r}]" if name else "colors"
                raise ValueError(f"{what} must have one value for each of {n} points, got shape {values.shape}")
        found[str(name)] = values
    return found


def _panels(
    Y: np.ndarray, labels: list[str], colors: dict[str, np.ndarray | None], cmap: str, *, to_scale: bool = False
) -> Figure:
    """One scatter per way to colour the points: side by side, or one above the other when they are wide."""
    count, spread = len(colors), Y.max(axis=0) - Y.min(axis=0)
    wide = to_scale and Y.shape[1] == 2 and spread[0] > 2 * spread[1]
    rows, columns = (count, 1) if wide else (1, count)
    size = (9.0, (7.5 * spread[1] / spread[0] + 0.9) * count + 0.4) if wide else (4.8 * count + 0.4, 4.4)
    figure = new_figure(*size, wspace=0.06)
    space = {"projection": "3d"} if Y.shape[1] == 3 else {}
    grid = figure.subplots(rows, columns, squeeze=False, subplot_kw=space)
    for axes, (name, values) in zip(grid.flat, colors.items(), strict=True):
        drawn = scatter(axes, Y, values, cmap)
        if to_scale:
            axes.set_aspect("equal")
        label_axes(axes, labels)
        if values is not None and Y.shape[1] == 2:  # a bar inside the axes' frame keeps their height, to scale or not
            figure.colorbar(drawn, cax=axes.inset_axes((1.02, 0, 0.02 if wide else 0.04, 1))).set_label(name)
        elif values is not None:
            figure.colorbar(drawn, ax=axes, shrink=0.7, pad=0.14).set_label(name)
    return figure
