"""Pictures of points: the input, and the embedding by a set of coordinates, in panels or as a grid of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choice.criterion import coordinate_numbers
from ..findings import brief, refusal
from ..results.selection import Selection, check_selection, with_turned
from ..validation import check_real_array
from . import style
from .style import GREY, Colouring, colourings, colourings_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAR = 5.0  # quartile distances beyond the quartiles at which a point is far out
STRAYS = 0.01  # the largest share of points that count as strays
WORTH = 2.5  # times as wide must the picture be with the strays for them to be left out


@style.picture
def embedding(
    selection: Selection, subset: Sequence[int | str] | None = None, *, colors: Any = None, title: str | None = None,
    cmap: str | None = None, ax: Any = None,
) -> Figure:  # fmt: skip
    """Draw the points in the chosen coordinates, or in any others.

    Two coordinates are drawn in 2-D, three in 3-D, and more as a panel for each pair. One is drawn against the first of
    the others, so points on a curve give a curve. Up to 1% of the points that lie far out, and would shrink the rest
    of the picture, are not drawn; the picture says how many.

    Parameters
    ----------
    {selection}
    subset : sequence of int or str, optional
        0-based numbers or names such as "phi7". By default the chosen set.
    {colors}
    title : str, optional
        By default it names the coordinates.
    {cmap, ax_of_points}

    {returns}

    {examples}
    >>> figure = plot.embedding(selection, colors=X[:, 0] > 0)
    >>> figure.savefig("map.png", dpi=150)  # doctest: +SKIP
    """
    Y = with_turned(check_selection(selection)) if subset is None else style.on_host(selection.coordinates)
    chosen = selection.subset if subset is None else coordinate_numbers(subset, Y.shape[1])
    colours = colourings_of(colors, selection)
    title = style.heading(title, f"Embedding by {style.set_label(chosen)}")
    Y, others = style.unit_mean_square(Y), [k for k in range(Y.shape[1]) if k not in chosen][:1]
    labels = style.axis_labels(chosen, more=" (root mean square 1)" if len(chosen) == 2 else "")
    shown = Y[:, list(chosen)]
    if len(chosen) == 1:  # a single one is drawn against another
        labels.append(f"{style.axis_labels(others)[0]} (not in the set: shows the curve)" if others else "")
        shown = np.column_stack([shown, Y[:, others] if others else np.zeros(len(Y))])
    return draw(shown, labels, colours, cmap, title, ax)


@style.picture
def points(X: Any, *, colors: Any = None, title: str | None = None, cmap: str | None = None, ax: Any = None) -> Figure:
    """Draw the input, to scale.

    The first two columns are drawn if the third is thin (a tenth of them or less), otherwise the first three in 3-D.

    Parameters
    ----------
    X : array or pandas.DataFrame of shape (n, D)
        Points. The columns of a frame name the axes.
    {colors}
    title : str, optional
        None by default, or which columns are drawn if there are more than three.
    {cmap, ax_of_points}

    {returns}

    Examples
    --------
    >>> from ies_gpu import datasets, plot
    >>> strip = datasets.load("D1", n_samples=500)
    >>> figure = plot.points(strip.X, colors=strip.colors)
    """
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    title, X = style.heading(title), style.on_host(X, "X")
    if X.ndim != 2 or X.shape[1] < 2 or len(X) < 1:
        raise refusal("X.shape", f"X must have rows, and 2 columns or more, to be drawn, got shape {X.shape}")
    columns = X.shape[1]
    X = flattened(check_real_array("X", X[:, :3], 2))
    title = title or (f"The first {X.shape[1]} of {columns} columns" if columns > 3 else "")
    shown = range(X.shape[1])
    labels = style.axis_labels(shown, "x") if names is None else [style.as_written(names[k]) for k in shown]
    return draw(X, labels, colourings(colors, len(X)), cmap, title, ax, to_scale=True)


def flattened(X: np.ndarray) -> np.ndarray:
    """Return two columns of three if the third is thin."""
    spread = np.ptp(X, axis=0)
    return X[:, :2] if X.shape[1] == 3 and spread[2] <= 0.1 * spread[:2].max() else X


def colour_map(name: Any) -> Any:
    """Return Matplotlib's colour map of a name."""
    from matplotlib import colormaps

    if not (isinstance(name, str) and name in colormaps):
        raise refusal("cmap.choice", f"cmap must be the name of a colour map, such as 'viridis', got {brief(name)}")
    return colormaps[name]


def draw(
    Y: np.ndarray, labels: list[str], colours: list[Colouring], cmap: str | None, title: str, ax: Any, *,
    to_scale: bool = False,
) -> Figure:  # fmt: skip
    """Draw points into a new figure, or into the user's axes."""
    if cmap is not None:
        colour_map(cmap)
    if ax is None:
        figure = panels(Y, labels, colours, cmap, to_scale=to_scale)
        if title:
            figure.suptitle(title, fontsize=12)
        return figure
    if len(colours) > 1 or len(labels) > 3:
        text = f"ax is for one panel, not for {len(colours)} ways to colour the points in {len(labels)} coordinates"
        raise refusal("ax.panels", text, "leave ax out for all panels")
    style.check_axes(ax, Y.shape[1])
    draw_panel(ax, Y, labels, colours[0], cmap)
    if to_scale:
        ax.set_aspect("equal")
    if title:
        ax.set_title(title, loc="left")  # a word on strays is on the right
    return ax.figure


def near(Y: np.ndarray) -> np.ndarray:
    """Return which points are no strays, so far out that they alone would set the axes."""
    inside = np.isfinite(Y).all(axis=1)
    for column in Y.T:
        low, high = np.percentile(column[np.isfinite(column)], (25, 75))
        reach = FAR * (high - low)
        good = (column >= low - reach) & (column <= high + reach)
        few = (~good).sum() <= max(1, STRAYS * len(column))
        if reach > 0 and few and np.ptp(column) > WORTH * np.ptp(column[good]):
            inside &= good
    return inside


def add_key(axes: Any, colouring: Colouring, drawn: Any, *, wide: bool = False) -> None:
    """Add a colour bar or a legend to the right of axes; in a figure that makes no room there, within them."""
    space = axes.name == "3d"
    roomy = axes.figure.get_layout_engine() is not None
    if colouring.classes is not None:
        from matplotlib.lines import Line2D

        beside = {"loc": "upper left", "bbox_to_anchor": (1.15 if space else 1.01, 1), "frameon": False}
        place: dict[str, Any] = beside if roomy else {"loc": "upper right"}
        names = [style.as_written(name) for name in colouring.classes]
        tints = [colouring.tint(k) for k in range(len(names))]
        if colouring.missing:
            tints, names = [*tints, GREY], [*names, f"missing ({colouring.missing:,})"]
        marks = [Line2D([], [], linestyle="", marker="o", color=tint, markersize=6) for tint in tints]
        place |= {"title": style.as_written(colouring.name) or None, "handletextpad": 0.2, "alignment": "left"}
        axes.legend(marks, names, **place)
    elif drawn is not None:
        # a bar inside the axes' frame keeps their height, to scale or not
        inside = {"cax": axes.inset_axes((1.02, 0, 0.02 if wide else 0.04, 1))} if roomy and not space else {}
        room = {"ax": axes, "shrink": 0.7 if space else 1, "pad": 0.14 if space else 0.02}
        grey = f"(grey: {colouring.missing:,} without a value)" if colouring.missing else ""
        bar = axes.figure.colorbar(drawn, **inside or room)
        bar.set_label(f"{style.as_written(colouring.name)} {grey}".strip())


def draw_panel(
    axes: Any, Y: np.ndarray, labels: Sequence[str], colouring: Colouring, cmap: str | None, *, wide: bool = False,
    key: bool = True,
) -> None:  # fmt: skip
    """Draw points (n, 2) or (n, 3) with named axes and their key; strays are counted, not drawn."""
    inside, drawn = near(Y), None
    Y, values = Y[inside], None if colouring.values is None else colouring.values[inside]
    size: dict[str, Any] = {"s": style.mark_size(len(Y))}
    known = np.ones(len(Y), dtype=bool) if values is None else ~np.isnan(values)
    if not known.all():
        style.scatter(axes, Y[~known], c=GREY, **size)
    if values is not None and colouring.classes is None and known.any():
        from matplotlib.colors import LinearSegmentedColormap

        usual = LinearSegmentedColormap.from_list("cyclic", style.CYCLIC) if colouring.is_angle else "viridis"
        drawn = style.scatter(axes, Y[known], values[known], cmap or usual, **size)
    elif known.any():  # one call, in the order of the rows: a class must not cover those before it
        tints = {} if values is None else {"c": [colouring.tint(int(code)) for code in values[known]]}
        style.scatter(axes, Y[known], **tints | size)
    style.label_axes(axes, labels)
    if count := int((~inside).sum()):
        axes.set_title(f"{count:,} of {len(inside):,} points lie{'s' * (count == 1)} outside", fontsize=9, loc="right")
    if key:
        add_key(axes, colouring, drawn, wide=wide)


def panels(
    Y: np.ndarray, labels: Sequence[str], colours: Sequence[Colouring], cmap: str | None, *, to_scale: bool = False
) -> Figure:
    """Draw one panel per way to colour the points, or per pair of more than three columns; the last has the key."""
    shown = [slice(None)] if Y.shape[1] < 4 else [list(pair) for pair in combinations(range(Y.shape[1]), 2)]
    count, spread = len(colours) * len(shown), np.ptp(Y[near(Y)], axis=0)
    wide = to_scale and Y.shape[1] == 2 and spread[0] > 2 * spread[1]
    columns = 1 if wide else count if count < 4 else 2 if count == 4 else 3
    rows = -(-count // columns)
    longest = max((len(name) for colouring in colours for name in colouring.classes or ()), default=0)
    each = 4.8 + max(0.0, 0.08 * longest - 0.3)  # inches; a legend is wider than a colour bar
    size = (9.0, (7.5 * spread[1] / spread[0] + 0.9) * count + 0.4) if wide else (each * columns + 0.4, 4.4 * rows)
    figure = style.new_figure(*size, wspace=0.06)
    space = {"projection": "3d"} if Y.shape[1] == 3 else {}
    grid = figure.subplots(rows, columns, squeeze=False, subplot_kw=space)
    for axes in grid.flat[count:]:
        axes.remove()
    for axes, (colouring, k) in zip(grid.flat, product(colours, range(len(shown))), strict=False):
        named = np.array(labels)[shown[k]].tolist()
        draw_panel(axes, Y[:, shown[k]], named, colouring, cmap, wide=wide, key=k == len(shown) - 1)
        if to_scale:
            axes.set_aspect("equal")
    if space:
        figure.draw_without_rendering()  # axes in space change their shape in the first layout, which cuts the legend
    return figure
