"""Run time against n for the exhaustive search, the greedy search and LLR, on the long strip."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ies_gpu import (
    Embedding,
    Laplacian,
    datasets,
    diffusion_map,
    laplacian_of_points,
    search_exhaustive,
    search_greedy,
    tangent_bases,
)
from ies_gpu.backend import get_backend
from ies_gpu.plot.style import new_figure, styled

from .book import Book
from .llr import llr_ranking
from .panels import label_sizes
from .synthetic_cases import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOPES = {"exhaustive": 1, "greedy": 1, "LLR": 2}  # of the paper's analysis


class Timing(NamedTuple):
    """Seconds (by the clock, and of the processor) at each number of points, and their slopes on log axes."""

    method: str
    sizes: tuple[int, ...]
    seconds: np.ndarray
    work: np.ndarray
    slope: float
    work_slope: float


def measure(plan: Plan, report: Callable[[int, int], None]) -> list[Timing]:
    """From the eigenvectors on, as in the paper: tangent bases and search, or LLR with all points."""
    sizes = sorted({*plan.time_sizes, *plan.slow_sizes})
    backend = get_backend(plan.device)
    found: dict[str, dict[int, tuple[float, float]]] = {method: {} for method in SLOPES}
    for done, n in enumerate(sizes):
        report(done, len(sizes))
        data = datasets.load("D1", n_samples=n)
        # as many neighbours at every n
        laplacian = laplacian_of_points(backend.asarray(data.X), bandwidth=data.bandwidth * np.sqrt(10_000 / n))
        embedding = diffusion_map(laplacian, n_components=20)
        if n in plan.time_sizes:
            searched = partial(search_from_tangents, embedding, laplacian)
            found["exhaustive"][n] = least(partial(searched, search_exhaustive, subset_size=2), 5)
            found["greedy"][n] = least(partial(searched, search_greedy, subset_size=20, zeta=1.0), 5)
        if n in plan.slow_sizes:
            found["LLR"][n] = least(partial(llr_ranking, embedding.coordinates, n_samples=None), 1)
    return [timing(method, times) for method, times in found.items()]


def search_from_tangents(embedding: Embedding, laplacian: Laplacian, search: Callable[..., Any], **options: Any) -> Any:
    """Tangent bases, then a search in them."""
    bases = tangent_bases(embedding.coordinates, laplacian, intrinsic_dim=2)
    return search(bases, embedding.eigenvalues, **options)


def least(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The shortest of several times, by the clock and of the processor.

    The shortest is the least disturbed by other programs, and leaves compilation out. Other programs lengthen the clock
    time, but hardly the processor time.
    """
    times = []
    for _ in range(repeats):
        clock, processor = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - clock, time.process_time() - processor))
    return min(t for t, _ in times), max(min(t for _, t in times), 1e-6)  # a coarse clock may say 0


def timing(method: str, times: dict[int, tuple[float, float]]) -> Timing:
    """Slopes by least squares; none for a single size."""
    sizes, seconds = tuple(times), np.array(list(times.values()))
    slopes = np.polyfit(np.log(sizes), np.log(seconds), 1)[0] if len(sizes) > 1 else [np.nan, np.nan]
    return Timing(method, sizes, seconds[:, 0], seconds[:, 1], float(slopes[0]), float(slopes[1]))


def add_runtimes(book: Book, timings: Sequence[Timing]) -> None:
    """The figure, and its numbers."""
    rows = [
        (t.method, n, seconds, work, t.slope, t.work_slope, SLOPES[t.method])
        for t in timings
        for n, seconds, work in zip(t.sizes, t.seconds, t.work, strict=True)
    ]
    note = "; ".join(f"{t.method} {t.slope:.2f} and {t.work_slope:.2f} ({SLOPES[t.method]})" for t in timings)
    book.figure(
        "runtime", "Run time against n", picture(timings), label="Figure S1",
        note=f"Slopes on log axes of clock time and processor time (in brackets: the paper's analysis): {note}. "
        "Times are from the eigenvectors on, the shortest of several runs, on the strip D1 with s = d = 2 and the same "
        "number of neighbours per point at every n; LLR uses all points. Other programs lengthen clock time (solid) "
        "but hardly processor time (dashed), which is summed over threads and does not include a GPU.",
    )  # fmt: skip
    columns = ["method", "n", "seconds", "processor seconds", "slope", "slope, processor", "slope of the analysis"]
    book.table("runtime-table", "Run time against n, in numbers", columns, rows, label="Figure S1",
               note="The paper draws the curves but prints no numbers.")  # fmt: skip


@styled()
def picture(timings: Sequence[Timing]) -> Figure:
    figure = new_figure(6.5, 4.2)
    axes: Any = figure.subplots()
    for t, tint, mark in zip(timings, ("#0072B2", "#E69F00", "#D55E00"), "os^", strict=True):
        axes.loglog(t.sizes, t.seconds, marker=mark, color=tint, label=f"{t.method}: slope {t.slope:.2f}")
        axes.loglog(t.sizes, t.work, marker=mark, color=tint, linestyle="--", alpha=0.6, markersize=4)
    axes.set(xlabel="number of points n", ylabel="seconds (dashed: of the processor)")
    label_sizes(axes, sorted({n for t in timings for n in t.sizes}))
    axes.legend(frameon=False)
    axes.set_title("Long strip, s = d = 2, from the eigenvectors on")
    return figure
