"""The figures of the manifolds D1 to D13: data, map, path and regret of each; D8's crossing; D13 by pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ies_gpu.backend.array import sample_rows
from ies_gpu.plot.evidence import draw_path, draw_regrets, shown_sets
from ies_gpu.plot.style import axis_labels, label_axes, new_figure, scatter, set_label, styled, unit_mean_square

from .book import Book
from .panels import add_map
from .published import PUBLISHED, set_text
from .synthetic_cases import Case

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANGLES = "hsv"  # cyclic, and no colour of it is lost on white
MARKS = 5000  # points drawn in a panel
SETS = 7  # of the path that are shown
FIGURES = {
    "Figure 3": ("D1", "D7", "D13"),
    "Figure 2": ("D4",),
    "Figure S3": ("D2", "D3", "D5", "D6"),
    "Figure S4": ("D8", "D9", "D10", "D11", "D12"),
}


def add_overview(book: Book, case: Case) -> None:
    """Data, map, path and regrets of one data set."""
    name = case.data.name
    label = next(label for label, names in FIGURES.items() if name in names)
    theirs = tuple(k - 1 for k in PUBLISHED[name].best[0])
    same = case.selection.subset == theirs
    ours = set_text(case.selection.subset)
    words = f"{ours} is chosen, as in the paper." if same else f"{ours} is chosen; the paper has {set_text(theirs)}."
    if name == "D13":
        words += D13_NOTE.format(n=len(case.data.X), degree=case.selection.diagnostics["mean_degree"])
    words += " zeta* is not comparable: the paper takes another point of the interval." if name == "D7" else ""
    book.figure(name.lower(), f"{name}, {case.data.title}: data, map, path", overview(case), label=label, note=words)
    book.report(case.selection, points=case.data.X, colors=case.data.colors)


D13_NOTE = (
    " Here n = {n:,} (50,000 in the paper; --full uses all). The published set came from an approximate, randomly "
    "seeded neighbour index that kept about 58 neighbours per point; the exact graph has {degree:,.0f} at this n. "
    "Repeating the approximate graph gives sets such as {{1, 2, 5, 9}}, {{1, 2, 5, 10}} or {{1, 7, 9, 15}}."
)


def add_three_torus(book: Book, case: Case) -> None:
    """Every pair of coordinates of D13 and of its map, coloured by the three angles."""
    label, Y = "Figure S5", np.asarray(case.selection.embedding)
    book.figure(
        "d13-data", "D13: the points by pairs of coordinates",
        by_pairs(case.data.X[:, :4], axis_labels(range(4), "x"), case.data.colors, "D13: points X"), label=label,
        note="The first four columns; the other ten are noise. Each row is coloured by one of the three angles.",
    )  # fmt: skip
    subset = case.selection.subset
    book.figure(
        "d13-map", "D13: the chosen map by pairs of coordinates",
        by_pairs(
            unit_mean_square(Y), axis_labels(subset), case.data.colors, f"D13: map {set_text(subset)}"
        ),
        label=label, note="Axes: root mean square 1. Each row is coloured by one of the three angles.",
    )  # fmt: skip


def add_crossing(book: Book, case: Case) -> None:
    """A map of D8 that crosses itself: the paper's second set."""
    second = tuple(k - 1 for k in PUBLISHED["D8"].best[1])
    shown = [case.selection.subset, second]
    book.figure(
        "d8-crossing", "D8: the chosen map, and one that crosses itself", maps(case, shown, "D8"),
        label="Figure S8",
        note=f"Right: {set_text(second)}, the paper's second set. It has full rank almost everywhere but crosses "
        "itself: the score is local and does not see this, but M² does.",
    )  # fmt: skip


@styled()
def overview(case: Case) -> Figure:
    """Data, chosen map, regularization path and regrets."""
    figure = new_figure(10, 8.2)
    draw_data(figure, (2, 2, 1), case)
    draw_map(figure, (2, 2, 2), case, case.selection.subset)
    shown = shown_sets(case.selection, SETS)
    draw_path(figure.add_subplot(2, 2, 3), case.selection, shown)
    draw_regrets(figure.add_subplot(2, 2, 4), case.selection, shown)
    length = len(case.selection.path)
    left = "" if length <= SETS else f" ({SETS} of {length} sets of the path are shown)"
    figure.suptitle(f"{case.data.name}, {case.data.title}{left}", fontsize=12)
    return figure


def draw_data(figure: Any, place: tuple[int, int, int], case: Case) -> None:
    """The points, in the plane if they are flat and in space otherwise; D13 as in the paper."""
    name, values = next(iter(case.data.colors.items()))
    X = case.data.X
    columns = {"D13": (2, 3), "D1": (0, 1), "D2": (0, 1)}.get(case.data.name, (0, 1, 2))
    rows = sample_rows(len(X), MARKS, 0)
    axes, _ = add_map(figure, place, X[rows][:, columns], axis_labels(columns, "x"), values[rows], color_map(name))
    if len(columns) == 3:
        spread = np.ptp(X[:, columns], axis=0)
        axes.set_box_aspect(np.maximum(spread, 0.4 * spread.max()), zoom=0.82)
        axes.locator_params(nbins=4)
    axes.set_title(f"Points X (n = {len(X):,}), colour {name}")


def map_color(case: Case) -> tuple[str, np.ndarray]:
    """Name and values, for the points of the map."""
    name, values = list(case.data.colors.items())[-1 if len(case.data.colors) == 2 else 0]
    return name, values[np.asarray(case.selection.points)]


def draw_map(figure: Any, place: tuple[int, int, int], case: Case, subset: Sequence[int], title: str = "") -> None:
    """Points in two or three coordinates; of four the last two, as the paper shows them."""
    shown = tuple(subset) if len(subset) < 4 else tuple(subset)[-2:]
    name, values = map_color(case)
    Y = unit_mean_square(np.asarray(case.selection.coordinates))
    rows = sample_rows(len(Y), MARKS, 0)
    axes, _ = add_map(figure, place, Y[rows][:, shown], axis_labels(shown), values[rows], color_map(name))
    axes.set_title(title or f"Map {set_label(subset)}, colour {name} (axes: root mean square 1)")


def color_map(name: str) -> str:
    """Angles are periodic, and so must their colours be."""
    return ANGLES if name.startswith(("alpha", "beta")) else "viridis"


@styled()
def maps(case: Case, subsets: Sequence[Sequence[int]], title: str) -> Figure:
    """Several maps of one data set side by side."""
    figure = new_figure(min(max(4.7 * len(subsets), 6), 11), 4.3)
    for place, subset in enumerate(subsets, 1):
        draw_map(figure, (1, len(subsets), place), case, subset, set_label(subset))
    figure.suptitle(f"{title} (colour {map_color(case)[0]}; axes: root mean square 1)", fontsize=12)
    return figure


@styled()
def by_pairs(values: np.ndarray, labels: Sequence[str], colors: dict[str, np.ndarray], title: str) -> Figure:
    """Every pair of columns, in one row of panels per angle that colours the points."""
    rows, pairs = sample_rows(len(values), MARKS, 0), list(combinations(range(values.shape[1]), 2))
    figure = new_figure(11, 2.2 * len(colors) + 0.4)
    grid = figure.subplots(len(colors), len(pairs), squeeze=False)
    for line, (name, angle) in zip(grid, colors.items(), strict=True):
        for axes, (a, b) in zip(line, pairs, strict=True):
            marks = scatter(axes, values[rows][:, [a, b]], angle[rows], ANGLES)
            label_axes(axes, [labels[a], labels[b]])
            axes.locator_params(nbins=3)
        figure.colorbar(marks, ax=line).set_label(name)
    figure.suptitle(title, fontsize=12)
    return figure
