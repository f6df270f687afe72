"""UMAP on the long strip D1, started from the chosen coordinates, from the first ones, and at random."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ies_gpu import Selection, datasets, select_coordinates, umap_init
from ies_gpu.plot.style import new_figure, scatter, styled

from .book import Book
from .parts import Parts, Progress
from .procrustes import procrustes_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPOCHS = 500
STARTS = ("IES", "first", "random")
WORDS = {"IES": "chosen by IES", "first": "first eigenvectors", "random": "random"}
PLAN = [("min_dist", v) for v in (0.1, 0.25, 0.5, 0.8)] + [("n_neighbors", v) for v in (5, 15, 50, 100)]
USUAL = {"min_dist": 0.1, "n_neighbors": 15}  # umap-learn's, while the other one varies


class Run(NamedTuple):
    """One embedding: what varied, from which start, M^2 against the flat strip, the points."""

    parameter: str
    value: float
    start: str
    error: float
    embedding: np.ndarray


def run(book: Book, *, full: bool, device: str, data: Path | None, progress: Progress | None) -> None:
    """Fill the book: D1 with 10,000 points (``full``) or 3,000."""
    fill(book, 10_000 if full else 3_000, PLAN, EPOCHS, device, progress)


def fill(
    book: Book, n: int, plan: list[tuple[str, float]], epochs: int, device: str, progress: Progress | None = None
) -> None:
    """Compute the map from each start for each (parameter, value) of the plan."""
    parts = Parts(progress)
    with parts.stage("UMAP: start"):
        strip = datasets.load("D1", n_samples=n)
        # as many neighbours at every n
        eps = strip.bandwidth * np.sqrt(10_000 / n)
        selection = select_coordinates(
            strip.X, intrinsic_dim=2, subset_size=2, bandwidth=eps, device=device, untangle=False
        )
    with parts.stage("UMAP") as report:
        runs = compute(strip, selection, plan, epochs, report)
    names = ", ".join(selection.names)
    note = (
        f"The strip D1 with {n:,} points and {epochs} epochs. While one parameter varies, the other keeps umap-learn's "
        f"default (min_dist = .1, n_neighbors = 15). IES chose {names}. The M² of the starts themselves: "
        f"{start_errors(strip, selection)}."
    )
    rows = [
        (parameter, value, *(next(r.error for r in runs if r[:3] == (parameter, value, start)) for start in STARTS))
        for parameter, value in dict.fromkeys(r[:2] for r in runs)
    ]
    columns = ["parameter", "value", *(f"M² from {WORDS[start]}" for start in STARTS)]
    book.figure("umap", "UMAP from three starts", picture(runs, strip.truth[:, 1]), label="Figure S2", note=note)
    best = sum(row[2] <= min(row[3:]) for row in rows)
    book.result(f"UMAP comes closest to the flat strip from the chosen coordinates in {best} of {len(rows)} settings.")
    book.table("umap-table", "UMAP from three starts, in numbers", columns, rows, label="Figure S2")


def compute(
    strip: Any, selection: Selection, plan: list[tuple[str, float]], epochs: int, report: Callable[[int, int], None]
) -> list[Run]:
    """All runs; umap-learn is seeded, which makes it use one thread."""
    from umap import UMAP

    inits = {"IES": umap_init(selection), "first": umap_init(selection, (0, 1)), "random": "random"}
    runs: list[Run] = []
    for parameter, value in plan:
        for start, init in inits.items():
            report(len(runs), len(plan) * len(inits))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a seed means one thread
                options = USUAL | {parameter: value}
                model = UMAP(n_components=2, init=init, n_epochs=epochs, random_state=0, n_jobs=1, **options)
                embedding = np.asarray(model.fit_transform(strip.X))
            runs.append(Run(parameter, value, start, procrustes_error(strip.truth, embedding), embedding))
    return runs


def start_errors(strip: Any, selection: Selection) -> str:
    chosen, first = selection.embedding, selection.coordinates[:, :2]
    return f"{procrustes_error(strip.truth, chosen):.2f} (IES) and {procrustes_error(strip.truth, first):.2f} (first)"


@styled()
def picture(runs: list[Run], height: np.ndarray) -> Figure:
    """One row per start, one column per value; coloured by the position across the strip."""
    columns = list(dict.fromkeys(r[:2] for r in runs))
    figure = new_figure(2.1 * len(columns) + 0.6, 6.6)
    grid: Any = figure.subplots(len(STARTS), len(columns), squeeze=False)
    for r, start in enumerate(STARTS):
        for c, (parameter, value) in enumerate(columns):
            axes = grid[r, c]
            one = next(x for x in runs if x[:3] == (parameter, value, start))
            drawn = scatter(axes, one.embedding, height, "viridis", s=0.8)
            axes.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
            axes.set_xlabel(f"M² = {one.error:.2f}", labelpad=2)
            if r == 0:
                axes.set_title(f"{parameter} = {value:g}", fontsize=9)
            if c == 0:
                axes.set_ylabel(WORDS[start])
    figure.colorbar(drawn, ax=grid.ravel().tolist(), shrink=0.6).set_label("y, across the strip (width 4)")
    figure.suptitle("UMAP of the long strip by start (rows) and parameters (columns)", fontsize=12)
    return figure
