"""Molecules and spectra: which coordinates are chosen, what they explain, how long it takes."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ies_gpu import IESWarning, Selection, diagnose
from ies_gpu.backend.array import sample_rows
from ies_gpu.backend.cpu import peak_memory
from ies_gpu.plot.style import axis_labels, new_figure, set_label, styled, unit_mean_square

from .book import Book
from .panels import add_map
from .parts import Parts, Progress
from .published import set_text
from .real_cases import CASES, USUAL, Features, RealCase, features, fit, mirror_set, torsion_r2

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 10_000  # points in a picture

# the paper's table: n, D, mean degree, (s, d), seconds, set
PUBLISHED = {
    "SDSS (full)": (298_511, 3750, 144.91, "(2, 2)", 106.05, "{1, 3}"),
    "Aspirin": (211_762, 244, 101.03, "(4, 3)", 85.11, "{1, 2, 3, 7}"),
    "Ethanol": (555_092, 102, 107.27, "(3, 2)", 233.16, "{1, 2, 4}"),
    "Malondialdehyde": (993_237, 96, 106.51, "(3, 2)", 459.53, "{1, 2, 3}"),
}


class Done(NamedTuple):
    """A case, computed."""

    case: RealCase
    found: Features
    selection: Selection
    report: dict[str, Any]  # on the bandwidth
    seconds: dict[str, float]
    peak_bytes: int

    @property
    def colors(self) -> dict[str, np.ndarray]:
        return {name: values[self.selection.points] for name, values in self.found.colors.items()}


def run(book: Book, *, full: bool, device: str, data: Path | None, progress: Progress | None) -> None:
    """Fill the book with all frames (``full``) or 10,000 of each; files missing from ``data`` are named and skipped."""
    if data is None:
        book.text("real-data", "Real data", "Not computed; to include it: python -m benchmarks.paper --data FOLDER.")
        return
    fill(book, CASES, data, None if full else USUAL, device, progress)


def fill(
    book: Book,
    cases: tuple[RealCase, ...],
    data: Path,
    n: int | None,
    device: str,
    progress: Progress | None = None,
) -> None:
    """Each case: features, the choice at the bandwidth that is found, pictures."""
    parts = Parts(progress)
    done: list[Done] = []
    for case in cases:
        path = data / case.file
        try:
            if not path.exists():
                raise ValueError(f"The folder has no file {case.file}.")
            done.append(compute(case, path, n, device, parts))
        except ValueError as error:  # the others go on; the page says what is wrong with this one
            warnings.warn(f"{case.name} was not computed: {error}", IESWarning, stacklevel=2)
            book.text(f"{case.name}-missing", f"{case.name}: not computed", str(error))
            continue
        add_pictures(book, done[-1])
        add_scan(book, done[-1])  # without a label of the paper's: it stays beside its pictures
    if done:
        add_runtimes(book, done)
        add_torsions(book, done)


def compute(case: RealCase, path: Path, n: int | None, device: str, parts: Parts) -> Done:
    """Features, and the choice at the bandwidth that is found."""
    begin = time.perf_counter()
    with parts.stage(f"{case.name}: features"):
        found = features(case, path, n)
    spent = time.perf_counter() - begin
    begin = time.perf_counter()
    with parts.stage(f"{case.name}: bandwidth"):
        report = fit(case, found.X, "auto", device, progress=parts.progress).diagnostics["automatic"]
    seconds = {"features": spent, "bandwidth": time.perf_counter() - begin}
    with parts.stage(case.name):  # once more, for the time of each stage
        selection = fit(case, found.X, report["bandwidth"], device, keep_bases=True, progress=parts.progress)
    return Done(case, found, selection, report, seconds | selection.diagnostics["seconds"], peak_memory())


def add_scan(book: Book, done: Done) -> None:
    """What each bandwidth would have chosen, and where the bandwidth in use comes from."""
    case, report = done.case, done.report
    rows: list[tuple[Any, ...]] = [
        (t["bandwidth"], round(t["mean_degree"]), f"{t['share']:.1%}", set_text(t["subset"]), 1 - t["fvu"])
        for t in report["scan"]
    ]
    rows += [(t["bandwidth"], None, t["reason"], None, None) for t in report["left_out"]]
    note = (
        f"{report['sample_size']:,} points each. The table gives the chosen coordinates for each bandwidth and the "
        f"share of the features' variance that they explain, without torsions. Used: eps = {report['bandwidth']:.3g}"
    )
    carried = report["carried"]
    if carried is not None:
        others = ", ".join(f"{t['bandwidth']:.3g} ({1 - t['fvu']:.3f})" for t in carried["tried"])
        note += f", after these were tried on all points: {others}"
    if not case.self_loops:
        note += "; no point is its own neighbour"
    columns = ["eps", "mean degree", "in one part", "chosen", "explained"]
    title = f"{case.name}: bandwidths"
    book.table(f"{case.name}-scan", title, columns, rows, note=f"{note}.")


def add_pictures(book: Book, done: Done) -> None:
    case, selection = done.case, done.selection
    first = tuple(range(case.s))
    sets = [selection.subset] + ([first] if first != selection.subset else [])
    words = "chosen above, first below" if len(sets) > 1 else "the chosen coordinates are the first"
    if case.name == "chloromethane":
        note = f"{case.what}. Coordinates are counted from 1."
        if done.found.mirror is not None:
            image = mirror_set(selection, done.found.mirror, selection.subset)
            if image.subset not in sets:
                sets.insert(1, image.subset)
                words = "chosen, its mirror image" + (", first" if len(sets) > 2 else "")
            note += (
                f" With the two chlorines exchanged, the chosen set is closest to {set_text(image.subset)}, number "
                f"{image.place} of {len(selection.ranking.subsets)} (all coordinates correlate by at least "
                f"{image.alike:.2f})."
            )
        title = "Exchange of chloride: loss of all sets"
        book.figure("chloromethane-loss", title, heat_map(selection, case.name), label="Figure 4", note=note)
    name, note = f"{case.name}-maps", f"{case.what}; {len(selection.points):,} points. {' '.join(done.found.notes)}"
    figure = maps(selection, done.colors, sets, f"{case.name}: {words}")
    diagnosis = diagnose(selection)
    book.figure(name, f"{case.name}: maps", figure, label="Figure 4", note=f"{note} {diagnosis.verdict}")
    book.report(selection, colors=done.colors, diagnosis=diagnosis)


def add_runtimes(book: Book, done: list[Done]) -> None:
    columns = ["data", "n", "D", "mean degree", "(s, d)", "seconds", "chosen", "features s", "bandwidth s", "graph s"]
    columns += ["eigenvectors s", "tangents s", "search s", "peak GB", "where"]
    rows: list[tuple[Any, ...]] = []
    for d in done:
        t = d.seconds
        stages = [t.get(stage) for stage in ("features", "bandwidth", "graph", "eigenvectors", "tangents", "search")]
        rows.append((
            d.case.what.split(";")[0], len(d.selection.points), d.found.X.shape[1],
            float(d.selection.diagnostics["mean_degree"]), f"({d.case.s}, {d.case.d})",
            sum(t.values()) - t["bandwidth"], set_text(d.selection.subset), *stages,
            d.peak_bytes / 2**30, d.selection.diagnostics["device"],
        ))  # fmt: skip
    for name, (n, D, degree, sizes, seconds, subset) in PUBLISHED.items():
        rows.append((name, n, D, degree, sizes, seconds, subset, *[None] * 7, "the paper"))
    note = (
        "These are not the paper's data: they are simulated or stand-ins, as the names say, with other features, so "
        "the sets need not agree. Seconds cover all stages at the bandwidth that was found, without finding it. The "
        "peak is the highest of the process so far, and the times come from a single, shared machine."
    )
    book.table("real-runtime", "Real data: time by stage", columns, rows, label="Table 1", note=note)


def add_torsions(book: Book, done: list[Done]) -> None:
    """What the chosen coordinates explain of the true torsions, against the first ones and all of them."""
    rows = []
    for d in done:
        Y = d.selection.coordinates
        for name in d.case.torsions:
            sets = (d.selection.embedding, Y[:, : d.case.s], Y)
            rows.append(
                (d.case.name, name, set_text(d.selection.subset), *(torsion_r2(d.colors[name], Z) for Z in sets))
            )
    if rows:
        ours, first = (float(np.mean([row[k] for row in rows])) for k in (3, 4))
        book.result(
            f"The chosen coordinates explain {ours:.0%} of the torsions of the molecules (mean R²), the first ones "
            f"{first:.0%}."
        )
        columns = ["molecule", "torsion", "chosen", "R² by the chosen", "R² by the first", "R² by all 20"]
        note = (
            "R² of (cos, sin) of the torsion, predicted at each point by the mean of its 10 nearest points in the map."
        )
        book.table("real-torsions", "Torsions explained", columns, rows, note=note)


@styled()
def maps(selection: Selection, colors: dict[str, np.ndarray], sets: list[tuple[int, ...]], title: str) -> Figure:
    """One row per set of coordinates, one column per colour; angles get a cyclic colour map."""
    Y = unit_mean_square(selection.coordinates)
    rows = sample_rows(len(Y), SHOWN, 0)
    figure = new_figure(4.6 * len(colors) + 0.4, 4.1 * len(sets) + 0.4)
    for r, subset in enumerate(sets):
        for c, (name, values) in enumerate(colors.items()):
            place = (len(sets), len(colors), r * len(colors) + c + 1)
            draw_map(figure, place, Y[rows][:, list(subset[:3])], subset, name, values[rows])
    figure.suptitle(title, fontsize=12)
    return figure


def within(Y: np.ndarray) -> np.ndarray:
    """Rows inside the limits of the axes, because a 3D plot does not clip."""
    low, high = np.quantile(Y, [0.002, 0.998], axis=0)
    return ((low <= Y) & (high >= Y)).all(axis=1)


def draw_map(
    figure: Any, place: tuple[int, int, int], Y: np.ndarray, subset: tuple[int, ...], name: str, values: np.ndarray
) -> None:
    """One map, in up to three coordinates, coloured by values that are known."""
    inside = within(Y)
    Y, values = Y[inside], values[inside]
    angle = np.ptp(values) > 6  # a full turn
    low, high = (-np.pi, np.pi) if angle else np.quantile(values, [0.01, 0.99])
    cmap, labels = "twilight" if angle else "viridis", axis_labels(subset[:3])
    axes, bar = add_map(figure, place, Y, labels, values, cmap, vmin=low, vmax=high)
    axes.set_title(set_label(subset) + (" (first three of them)" if len(subset) > 3 else ""))
    bar.set_label(name + (" (radians)" if "torsion" in name else ""))


@styled()
def heat_map(selection: Selection, title: str) -> Figure:
    """The loss of every set {1, i, j} at zeta*, with the two best sets marked."""
    m = selection.coordinates.shape[1]
    table = np.full((m, m), np.nan)
    for subset, loss in zip(selection.ranking.subsets, selection.ranking.losses, strict=True):
        table[subset[2], subset[1]] = loss
    figure = new_figure(6.6, 5.6)
    axes: Any = figure.subplots()
    low = np.nanquantile(table, 0.02)
    drawn = axes.imshow(table, origin="lower", cmap="viridis", vmin=low, extent=(0.5, m + 0.5, 0.5, m + 0.5))
    for subset, mark in zip(selection.ranking.subsets[:2], ("o", "s"), strict=True):
        label = set_label(subset)
        axes.plot(subset[1] + 1, subset[2] + 1, mark, ms=11, mfc="none", mec="#D55E00", mew=2, label=label)
    axes.set_xticks(range(2, m + 1, 2))
    axes.set_yticks(range(2, m + 1, 2))
    axes.set(xlabel="i", ylabel="j", xlim=(1.5, m - 0.5), ylim=(2.5, m + 0.5))
    axes.legend(frameon=False, loc="lower right", title="the two best sets")
    figure.colorbar(drawn, ax=axes).set_label(r"loss $\ell_\zeta(\{1, i, j\})$ (yellow is best)")
    axes.set_title(title)
    return figure
