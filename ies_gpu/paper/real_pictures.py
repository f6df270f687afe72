"""Pictures of the real data: maps coloured by what is known, and the loss of all sets as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..plot import _style, set_label
from ..results.selection import Selection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 10_000  # points in a picture


def maps(selection: Selection, colors: dict[str, np.ndarray], sets: list[tuple[int, ...]], title: str) -> Figure:
    """A row for each set of coordinates, a column for each colour; angles in a cyclic map of colours."""
    n = len(selection.coordinates)
    rows = np.arange(n) if n <= SHOWN else np.sort(np.random.default_rng(0).choice(n, SHOWN, replace=False))
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.6 * len(colors) + 0.4, 4.1 * len(sets) + 0.4), layout="constrained")
        for r, subset in enumerate(sets):
            Y = selection.coordinates[rows][:, list(subset[:3])] * np.sqrt(n)
            for c, (name, values) in enumerate(colors.items()):
                place = (len(sets), len(colors), r * len(colors) + c + 1)
                axes: Any = figure.add_subplot(*place, projection="3d" if Y.shape[1] > 2 else None)
                _draw(figure, axes, Y, subset, name, values[rows])
        figure.suptitle(title, fontsize=12)
    return figure


def within(Y: np.ndarray) -> np.ndarray:
    """Rows inside the limits of the axes, because a plot in space does not clip."""
    low, high = np.quantile(Y, [0.002, 0.998], axis=0)
    return ((low <= Y) & (high >= Y)).all(axis=1)


def _draw(figure: Any, axes: Any, Y: np.ndarray, subset: tuple[int, ...], name: str, values: np.ndarray) -> None:
    inside = within(Y)
    Y, values = Y[inside], values[inside]
    angle = np.ptp(values) > 6  # a full turn
    limits = (-np.pi, np.pi) if angle else tuple(np.quantile(values, [0.01, 0.99]))
    size = float(np.clip(2e4 / len(Y), 0.6, 10))
    drawn = axes.scatter(
        *Y.T, c=values, s=size, linewidths=0, rasterized=True, cmap="twilight" if angle else "viridis",
        vmin=limits[0], vmax=limits[1],
    )  # fmt: skip
    names = [rf"$\phi_{{{k + 1}}}$" for k in subset[:3]]
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    if Y.shape[1] > 2:
        axes.set_zlabel(names[2])
    more = " (first three of them)" if len(subset) > 3 else ""
    axes.set_title(set_label(subset) + more)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.75, pad=0.12 if Y.shape[1] > 2 else 0.03)
    bar.set_label(name + (" (radians)" if "torsion" in name else ""))


def heat_map(selection: Selection, title: str) -> Figure:
    """The loss of every set {1, i, j} at zeta*, with the two best sets marked."""
    m = selection.coordinates.shape[1]
    table = np.full((m, m), np.nan)
    for subset, loss in zip(selection.ranking.subsets, selection.ranking.losses, strict=True):
        table[subset[2], subset[1]] = loss
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.6, 5.6), layout="constrained")
        axes: Any = figure.subplots()
        low = np.nanquantile(table, 0.02)
        drawn = axes.imshow(table, origin="lower", cmap="viridis", vmin=low, extent=(0.5, m + 0.5, 0.5, m + 0.5))
        for subset, mark in zip(selection.ranking.subsets[:2], ("o", "s"), strict=True):
            label = set_label(tuple(int(k) for k in subset))
            axes.plot(subset[1] + 1, subset[2] + 1, mark, ms=11, mfc="none", mec="#D55E00", mew=2, label=label)
        axes.set_xticks(range(2, m + 1, 2))
        axes.set_yticks(range(2, m + 1, 2))
        axes.set(xlabel="i", ylabel="j", xlim=(1.5, m - 0.5), ylim=(2.5, m + 0.5))
        axes.legend(frameon=False, loc="lower right", title="the two best sets")
        figure.colorbar(drawn, ax=axes).set_label(r"loss $\ell_\zeta(\{1, i, j\})$ (yellow is best)")
        axes.set_title(title)
    return figure
