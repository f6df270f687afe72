"""Coloured clouds of points: in one panel, in several side by side, or as a grid of all pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import brief
from .colours import GREY, Colouring
from .panels import as_written, label_axes, mark_size, new_figure, scatter
from .style import CYCLIC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAR = 5.0  # quartile distances beyond the quartiles at which a point is far out
STRAYS = 0.01  # the largest share of points that count as strays
WORTH = 2.5  # times as wide must the picture be with the strays for them to be left out


def check_cmap(name: Any) -> Any:
    """Return the colour map of a name."""
    from matplotlib import colormaps

    if not isinstance(name, str) or name not in colormaps:
        raise ValueError(f"cmap must be the name of a colour map, such as 'viridis', got {brief(name)}")
    return colormaps[name]


def map_of(colouring: Colouring, cmap: str | None) -> Any:
    """Return the colour map for numbers: the one that was asked for, or one that suits them."""
    from matplotlib.colors import LinearSegmentedColormap

    return cmap or (LinearSegmentedColormap.from_list("cyclic", CYCLIC) if colouring.is_angle else "viridis")


def near(Y: np.ndarray) -> np.ndarray:
    """Which points are no strays, so far out that they alone would set the axes."""
    inside = np.isfinite(Y).all(axis=1)
    for column in Y.T:
        low, high = np.percentile(column[np.isfinite(column)], (25, 75))
        reach = FAR * (high - low)
        good = (column >= low - reach) & (column <= high + reach)
        few = (~good).sum() <= max(1, STRAYS * len(column))
        if reach > 0 and few and np.ptp(column) > WORTH * np.ptp(column[good]):
            inside &= good
    return inside


def outside_text(inside: np.ndarray) -> str:
    """How many points are not drawn; empty if all are."""
    count = int((~inside).sum())
    return f"{count:,} of {len(inside):,} points lie{'s' * (count == 1)} outside" if count else ""


def draw_cloud(axes: Any, Y: np.ndarray, colouring: Colouring, cmap: str | None, share: float = 1.0) -> Any:
    """Points (n, 2) or (n, 3); returns what a colour bar needs, or None where there is no need of one."""
    options: dict[str, Any] = {"s": share * mark_size(len(Y))}
    values = colouring.values
    known = np.ones(len(Y), dtype=bool) if values is None else ~np.isnan(values)
    if not known.all():
        scatter(axes, Y[~known], c=GREY, **options)
    if values is not None and colouring.classes is None and known.any():
        return scatter(axes, Y[known], values[known], map_of(colouring, cmap), **options)
    if known.any():  # one call, in the order of the rows: a class must not cover those before it
        tints = {} if values is None else {"c": [colouring.tint(int(code)) for code in values[known]]}
        scatter(axes, Y[known], **tints | options)
    return None


def legend_of(colouring: Colouring) -> dict[str, Any]:
    """Handles and layout of the legend of classes."""
    from matplotlib.lines import Line2D

    names = [as_written(name) for name in colouring.classes or ()]
    tints = [colouring.tint(k) for k in range(len(names))]
    if colouring.missing:
        tints, names = [*tints, GREY], [*names, f"missing ({colouring.missing:,})"]
    handles = [Line2D([], [], linestyle="", marker="o", color=tint, markersize=6) for tint in tints]
    return {
        "handles": handles, "labels": names, "title": as_written(colouring.name) or None, "frameon": False,
        "handletextpad": 0.2, "alignment": "left",
    }  # fmt: skip


def add_bar(figure: Any, drawn: Any, colouring: Colouring, **place: Any) -> None:
    """Add a colour bar with the name of what colours the points, and a word on grey ones."""
    grey = f"(grey: {colouring.missing:,} without a value)" if colouring.missing else ""
    figure.colorbar(drawn, **place).set_label(f"{as_written(colouring.name)} {grey}".strip())


def add_key(axes: Any, colouring: Colouring, drawn: Any, *, wide: bool = False) -> None:
    """A colour bar or a legend to the right of axes."""
    space = axes.name == "3d"
    roomy = axes.figure.get_layout_engine() is not None  # a figure without one makes no room beside its axes
    if colouring.classes is not None:
        beside = {"loc": "upper left", "bbox_to_anchor": (1.15 if space else 1.01, 1)}
        axes.legend(**legend_of(colouring) | (beside if roomy else {"loc": "upper right", "frameon": True}))
    elif drawn is not None:
        # a bar inside the axes' frame keeps their height, to scale or not
        inside = {"cax": axes.inset_axes((1.02, 0, 0.02 if wide else 0.04, 1))} if roomy and not space else {}
        room = {"ax": axes, "shrink": 0.7 if space else 1, "pad": 0.14 if space else 0.02}
        add_bar(axes.figure, drawn, colouring, **inside or room)


def draw_panel(
    axes: Any, Y: np.ndarray, labels: Sequence[str], colouring: Colouring, cmap: str | None, *, wide: bool = False
) -> None:
    """Points with named axes and their key; strays are counted, not drawn."""
    inside = near(Y)
    drawn = draw_cloud(axes, Y[inside], colouring.of(inside), cmap)
    label_axes(axes, labels)
    if not inside.all():
        axes.set_title(outside_text(inside), fontsize=9, loc="right")
    add_key(axes, colouring, drawn, wide=wide)


def panels(
    Y: np.ndarray, labels: Sequence[str], colours: Sequence[Colouring], cmap: str | None, *, to_scale: bool = False
) -> Figure:
    """One panel per way to colour the points: side by side, up to three, or one above the other when they are wide."""
    count, spread = len(colours), np.ptp(Y[near(Y)], axis=0)
    wide = to_scale and Y.shape[1] == 2 and spread[0] > 2 * spread[1]
    columns = 1 if wide else count if count < 4 else 2 if count == 4 else 3
    rows = -(-count // columns)
    longest = max((len(name) for colouring in colours for name in colouring.classes or ()), default=0)
    each = 4.8 + max(0.0, 0.08 * longest - 0.3)  # inches; a legend is wider than a colour bar
    size = (9.0, (7.5 * spread[1] / spread[0] + 0.9) * count + 0.4) if wide else (each * columns + 0.4, 4.4 * rows)
    figure = new_figure(*size, wspace=0.06)
    space = {"projection": "3d"} if Y.shape[1] == 3 else {}
    grid = figure.subplots(rows, columns, squeeze=False, subplot_kw=space)
    for axes in grid.flat[count:]:
        axes.remove()
    for axes, colouring in zip(grid.flat, colours, strict=False):
        draw_panel(axes, Y, labels, colouring, cmap, wide=wide)
        if to_scale:
            axes.set_aspect("equal")
    if space:
        figure.draw_without_rendering()  # axes in space change their shape in the first layout, which cuts the legend
    return figure


def pairs(Y: np.ndarray, labels: Sequence[str], colours: Sequence[Colouring], cmap: str | None) -> Figure:
    """All pairs of columns as a triangle of panels with common axes, one triangle per way to colour the points."""
    inside, steps, columns = near(Y), Y.shape[1] - 1, min(2, len(colours))
    side, rows = float(np.clip(7.5 / steps, 1.3, 2.2)) * steps + 0.8, -(-len(colours) // columns)
    figure = new_figure(side * columns, side * rows + 0.3)
    parts = figure.subfigures(rows, columns, squeeze=False, wspace=0.02)
    for part, colouring in zip(parts.flat, colours, strict=False):
        _triangle(part, Y[inside], labels, colouring.of(inside), cmap)
    if not inside.all():
        figure.supxlabel(outside_text(inside), fontsize=9, x=0.99, ha="right")
    return figure


def _triangle(part: Any, Y: np.ndarray, labels: Sequence[str], colouring: Colouring, cmap: str | None) -> None:
    steps = Y.shape[1] - 1
    grid = part.subplots(steps, steps, squeeze=False, sharex="col", sharey="row")
    drawn = None
    for (row, column), axes in np.ndenumerate(grid):
        if column > row:
            axes.set_axis_off()
            continue
        drawn = draw_cloud(axes, Y[:, [column, row + 1]], colouring, cmap, 0.5)
        axes.locator_params(nbins=3)
        axes.set_xlabel(labels[column] if row == steps - 1 else "")
        axes.set_ylabel(labels[row + 1] if column == 0 else "")
    free = grid[0, -1]  # the corner above the triangle
    if colouring.classes is not None:
        key = free.legend(loc="upper right", bbox_to_anchor=(1, 1), **legend_of(colouring))
        key.set_in_layout(False)  # it may be wider and higher than its corner, which is free on both sides
    elif drawn is not None:
        add_bar(part, drawn, colouring, cax=free.inset_axes((0.55, 0.0, 0.09, 1)))
