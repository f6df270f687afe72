"""The paper's first figure: eigenfunctions of a long strip against each other, from their closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ies_gpu.plot.style import new_figure, scatter, styled

from .book import Book
from .flat_manifolds import flat_manifold

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_strip(book: Book) -> None:
    """The figure, on the page."""
    book.figure(
        "strip", "Eigenfunctions of a long strip", picture(), label="Figure 1",
        note="From the closed form, as in the paper.",
    )  # fmt: skip


@styled()
def picture(ratio: float = 2 * np.pi) -> Figure:
    strip = flat_manifold((ratio, 1.0), 12, periodic=False)
    flat = strip.sample(10_000, 0)[0]
    values = strip.functions(flat) / np.abs(strip.functions(flat)).max(axis=0)
    one, two, side, both = strip.numbers([(1, 0), (2, 0), (0, 1), (1, 1)])
    figure = new_figure(9.4, 4.2)
    left, right = figure.subplots(1, 2)
    marks = scatter(left, values[:, [one, side]], flat[:, 1], "viridis", s=5)
    left.plot(*values[np.argsort(values[:, one])][:, [one, two]].T, color="#D55E00", linewidth=2.5)
    left.annotate(r"$\phi_{2,0}$: a curve", (0.55, -0.42), color="#D55E00", fontsize=11, backgroundcolor="white")
    left.set(xlabel=r"$\phi_{1,0}$ (scaled to 1)", ylabel=r"$\phi_{0,1}$ (colour), $\phi_{2,0}$ (line)")
    scatter(right, values[:, [one, both]], flat[:, 1], "viridis", s=5)
    right.set(xlabel=r"$\phi_{1,0}$ (scaled to 1)", ylabel=r"$\phi_{1,1}$ (scaled to 1)")
    figure.colorbar(marks, ax=[left, right]).set_label("h, the coordinate across the strip")
    figure.suptitle(rf"A strip with W/H = {ratio:.3g}, closed form", fontsize=12)
    return figure
