"""Pictures of the manifolds and their maps, and the closed forms of the paper's first example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plot
from ..plot import _draw_path, _draw_regrets, _scatter, _style
from .cases import Case
from .exact import flat_manifold

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANGLES = "hsv"  # cyclic, and no colour of it is lost on white
MARKS = 5000  # points drawn in a panel: more only make the file larger


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def label_sizes(axes: Any, sizes: Sequence[int]) -> None:
    """Ticks on a logarithmic axis at the numbers of points that were computed."""
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.set_xticks([], minor=True)
    axes.grid(True, which="major", color="0.9")


def overview(case: Case) -> Figure:
    """Data, chosen map, regularization path and regrets."""
    with _style():
        figure = new_figure(10, 8.2)
        draw_data(figure, (2, 2, 1), case)
        draw_map(figure, (2, 2, 2), case, case.selection.subset)
        chosen = next(k for k, piece in enumerate(case.selection.path) if piece.subset == case.selection.subset)
        first = max(0, chosen - 5)
        shown = slice(first, first + 7)
        _draw_path(figure.add_subplot(2, 2, 3), case.selection, shown)
        _draw_regrets(figure.add_subplot(2, 2, 4), case.selection, shown)
        left = "" if len(case.selection.path) <= 7 else f" (7 of {len(case.selection.path)} sets of the path are shown)"
        figure.suptitle(f"{case.data.name}, {case.data.title}{left}", fontsize=12)
    return figure


def draw_data(figure: Any, place: tuple[int, int, int], case: Case) -> None:
    """The points: flat where the rest is thin, in space otherwise; D13 as the paper shows it."""
    name, values = next(iter(case.data.colors.items()))
    X = case.data.X
    columns = {"D13": (2, 3), "D1": (0, 1), "D2": (0, 1)}.get(case.data.name, (0, 1, 2))
    axes = _axes(figure, place, len(columns))
    rows = drawn_rows(len(X))
    marks = _scatter(axes, X[rows][:, columns], values[rows], color_map(name))
    if len(columns) == 3:
        spread = np.ptp(X[:, columns], axis=0)
        axes.set_box_aspect(np.maximum(spread, 0.4 * spread.max()), zoom=0.82)
        axes.locator_params(nbins=4)
    _name_axes(axes, [f"$x_{{{k + 1}}}$" for k in columns])
    axes.set_title(f"Points X (n = {len(X):,}), colour {name}")
    figure.colorbar(marks, ax=axes, shrink=0.7, pad=0.12 if len(columns) == 3 else 0.02)


def draw_map(figure: Any, place: tuple[int, int, int], case: Case, subset: Sequence[int], title: str = "") -> None:
    """Points in two or three coordinates; of four the last two, as the paper shows them."""
    shown = tuple(subset) if len(subset) < 4 else tuple(subset)[-2:]
    name, values = list(case.data.colors.items())[-1 if len(case.data.colors) == 2 else 0]
    Y = np.asarray(case.selection.coordinates)
    axes = _axes(figure, place, len(shown))
    rows = drawn_rows(len(Y))
    kept = case.data.X.shape[0] != len(Y)
    values = values[np.asarray(case.selection.points)] if kept else values
    marks = _scatter(axes, Y[rows][:, shown] * np.sqrt(len(Y)), values[rows], color_map(name))
    _name_axes(axes, [rf"$\phi_{{{k + 1}}}$" for k in shown])
    axes.set_title(title or f"Map {plot.set_label(subset)}, colour {name} (axes: root mean square 1)")
    figure.colorbar(marks, ax=axes, shrink=0.7, pad=0.12 if len(shown) == 3 else 0.02)


def color_map(name: str) -> str:
    """Angles come back to where they began, and so must their colours."""
    return ANGLES if name.startswith(("alpha", "beta")) else "viridis"


def drawn_rows(n: int) -> np.ndarray:
    """Seeded rows, at most ``MARKS``."""
    return np.arange(n) if n <= MARKS else np.sort(np.random.default_rng(0).choice(n, MARKS, replace=False))


def maps(case: Case, subsets: Sequence[Sequence[int]], title: str) -> Figure:
    """Several maps of one data set side by side."""
    with _style():
        figure = new_figure(min(max(4.7 * len(subsets), 6), 11), 4.3)
        for place, subset in enumerate(subsets, 1):
            draw_map(figure, (1, len(subsets), place), case, subset, plot.set_label(subset))
        name = list(case.data.colors)[-1 if len(case.data.colors) == 2 else 0]
        figure.suptitle(f"{title} (colour {name}; axes: root mean square 1)", fontsize=12)
    return figure


def pairs(values: np.ndarray, labels: Sequence[str], colors: dict[str, np.ndarray], title: str) -> Figure:
    """Every pair of columns, a row of panels for each angle that colours the points."""
    rows = drawn_rows(len(values))
    with _style():
        figure = plot._pairs(values[rows], list(labels), {name: c[rows] for name, c in colors.items()}, ANGLES)
        figure.set_size_inches(11, 6.2)  # smaller panels, so that the words stay readable on the page
        figure.suptitle(title, fontsize=12)
    return figure


def strip_example(ratio: float = 2 * np.pi) -> Figure:
    """Eigenfunctions of a strip against each other, from their closed form."""
    strip = flat_manifold((ratio, 1.0), 12, periodic=False)
    flat = strip.sample(10_000, 0)[0]
    values = strip.functions(flat) / np.abs(strip.functions(flat)).max(axis=0)
    one, two, side, both = strip.numbers([(1, 0), (2, 0), (0, 1), (1, 1)])
    with _style():
        figure = new_figure(9.4, 4.2)
        left, right = figure.subplots(1, 2)
        marks = left.scatter(values[:, one], values[:, side], c=flat[:, 1], s=5, linewidths=0)
        left.plot(*values[np.argsort(values[:, one])][:, [one, two]].T, color="#D55E00", linewidth=2.5)
        left.annotate(r"$\phi_{2,0}$: a curve", (0.55, -0.42), color="#D55E00", fontsize=11, backgroundcolor="white")
        left.set(xlabel=r"$\phi_{1,0}$ (scaled to 1)", ylabel=r"$\phi_{0,1}$ (colour), $\phi_{2,0}$ (line)")
        right.scatter(values[:, one], values[:, both], c=flat[:, 1], s=5, linewidths=0)
        right.set(xlabel=r"$\phi_{1,0}$ (scaled to 1)", ylabel=r"$\phi_{1,1}$ (scaled to 1)")
        figure.colorbar(marks, ax=[left, right]).set_label("h, the coordinate across the strip")
        figure.suptitle(rf"A strip with W/H = {ratio:.3g}, closed form", fontsize=12)
    return figure


def _axes(figure: Any, place: tuple[int, int, int], dimensions: int) -> Any:
    return figure.add_subplot(*place, **({"projection": "3d"} if dimensions == 3 else {}))


def _name_axes(axes: Any, labels: list[str]) -> None:
    for axis, label in zip("xyz", labels, strict=False):
        getattr(axes, f"set_{axis}label")(label)
