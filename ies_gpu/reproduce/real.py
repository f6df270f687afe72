"""Molecules and spectra: which coordinates are chosen, what they explain, how long it takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..diagnosis.diagnose import diagnose
from ..selection import Selection
from ..stages import Progress, Stages, peak_memory
from .book import Book
from .real_cases import (
    CASES,
    SCANNED,
    USUAL,
    Features,
    RealCase,
    Scanned,
    best_bandwidth,
    features,
    fit,
    neighbour_r2,
    scan,
)
from .real_pictures import heat_map, maps

MEMORY = 3 << 30  # bytes for the full size
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
    seconds: dict[str, float]
    peak_bytes: int

    @property
    def colors(self) -> dict[str, np.ndarray]:
        return {name: values[self.selection.points] for name, values in self.found.colors.items()}


def named(subset: tuple[int, ...]) -> str:
    """A set as the paper prints it, counted from 1."""
    return "{" + ", ".join(str(k + 1) for k in subset) + "}"


def run(book: Book, *, full: bool, device: str, data: Path | None, progress: Progress | None) -> None:
    """Fill the book.

    Parameters
    ----------
    full : bool
        All frames, within 3 GB; otherwise 10,000 of each.
    device : str
    data : path or None
        The folder with the files; those that are missing are named and left out.
    progress : callable, optional
        Called as ``progress(part, done, total)``.
    """
    if data is None:
        book.text(
            "real-data", "Real data", "Not computed: ies-gpu reproduce --only real --data FOLDER names the folder."
        )
        return
    fill(book, CASES, data, None if full else USUAL, SCANNED, device, progress)


def fill(
    book: Book,
    cases: tuple[RealCase, ...],
    data: Path,
    n: int | None,
    n_scan: int,
    device: str,
    progress: Progress | None = None,
) -> None:
    """Each case: features, scan of the bandwidth, the choice at the headline bandwidth, pictures."""
    log = Stages(progress)
    done: list[Done] = []
    for case in cases:
        path = data / case.file
        if not path.exists():
            book.text(
                f"{case.name}-missing", f"{case.name}: not computed", f"There is no file {case.file} in the folder."
            )
            continue
        try:
            done.append(compute(book, case, path, n, n_scan, device, log))
        except ValueError as error:  # the others go on; the page says what is wrong with this one
            book.text(f"{case.name}-failed", f"{case.name}: not computed", str(error))
            continue
        add_pictures(book, done[-1])
    if done:
        add_runtimes(book, done)
        add_torsions(book, done)


def compute(book: Book, case: RealCase, path: Path, n: int | None, n_scan: int, device: str, log: Stages) -> Done:
    """Features, the scan of bandwidths on some of the points, and the choice on all at the best of them."""
    begin = time.perf_counter()
    with log.stage(f"{case.name}: features"):
        found = features(case, path, n)
    spent = time.perf_counter() - begin
    bandwidth = case.bandwidth
    if n_scan:
        with log.stage(f"{case.name}: bandwidths") as report:
            scanned = scan(case, found, device, n_scan, report)
            bandwidth = best_bandwidth(scanned)
            add_scan(book, case, scanned, bandwidth, min(n_scan, len(found.X)))
    limits: dict[str, Any] = {}
    if n is None:
        # the best bandwidth shrinks like n^(-1/(d+4)), and at 2.5 of it the kernel is down to .002: the graph fits
        bandwidth *= (min(n_scan or USUAL, len(found.X)) / len(found.X)) ** (1 / (case.d + 4))
        limits = {"memory_limit": MEMORY, "dtype": "float32", "radius": 2.5 * bandwidth}
    with log.stage(case.name):
        selection = fit(case, found.X, bandwidth, device, keep_bases=True, **limits)
    return Done(case, found, selection, {"features": spent, **selection.diagnostics["seconds"]}, peak_memory())


def add_scan(book: Book, case: RealCase, scanned: list[Scanned], taken: float, n: int) -> None:
    """What each bandwidth would have chosen."""
    columns = ["eps", "mean degree", "in one part", "chosen", "R² of the features"]
    columns += [f"{what} of {name}" for name in case.torsions for what in ("R² chosen", "R² first")]
    rows = []
    for s in scanned:
        explained = [value for pair in zip(s.chosen_r2, s.first_r2, strict=True) for value in pair]
        rows.append((s.bandwidth, round(s.degree), f"{s.kept:.1%}", named(s.subset), s.features_r2, *explained))
    note = (
        f"{n:,} points each. The run below takes eps = {taken:g}: of those that hold nearly all points together, "
        "its chosen map explains the features best, which needs no torsions."
    )
    title = f"{case.name}: bandwidths"
    book.table(f"{case.name}-scan", title, columns, rows, label="tab:real-dataset-runtime", note=note)


def add_pictures(book: Book, done: Done) -> None:
    case, selection = done.case, done.selection
    first = tuple(range(case.s))
    sets = [selection.subset] + ([first] if first != selection.subset else [])
    if case.name == "chloromethane":
        best = [tuple(int(k) for k in subset) for subset in selection.ranking.subsets[:2]]
        sets = [*best, first]
        book.figure(
            "chloromethane-loss", "Exchange of chloride: loss of all sets", heat_map(selection, case.name),
            label="fig:rest-images-table", note=f"{case.what}. Coordinates are counted from 1.",
        )  # fmt: skip
    name, note = f"{case.name}-maps", f"{case.what}; {len(selection.points):,} points. {' '.join(done.found.notes)}"
    words = "chosen above, first below" if len(sets) > 1 else "the chosen coordinates are the first"
    figure = maps(selection, done.colors, sets, f"{case.name}: {words}")
    book.figure(
        name, f"{case.name}: maps", figure, label="fig:rest-images-table", note=f"{note} {diagnose(selection).verdict}"
    )


def add_runtimes(book: Book, done: list[Done]) -> None:
    columns = ["data", "n", "D", "mean degree", "(s, d)", "seconds", "chosen", "features s", "graph s"]
    columns += ["eigenvectors s", "tangents s", "search s", "peak GB", "where"]
    rows: list[tuple[Any, ...]] = []
    for d in done:
        t = d.seconds
        stages = [t.get(stage) for stage in ("features", "graph", "eigenvectors", "tangents", "search")]
        rows.append((
            d.case.what.split(";")[0], len(d.selection.points), d.found.X.shape[1],
            float(d.selection.diagnostics["mean_degree"]), f"({d.case.s}, {d.case.d})", sum(t.values()),
            named(d.selection.subset), *stages, d.peak_bytes / 2**30, d.selection.diagnostics["device"],
        ))  # fmt: skip
    for name, (n, D, degree, sizes, seconds, subset) in PUBLISHED.items():
        rows.append((name, n, D, degree, sizes, seconds, subset, None, None, None, None, None, None, "the paper"))
    note = (
        "Other data than the paper's: simulated or standing in, as the names say, and other features, so that the sets "
        "need not agree. The peak is the process's highest so far, and times are from one machine that others share."
    )
    book.table("real-runtime", "Real data: time by stage", columns, rows, label="tab:real-dataset-runtime", note=note)


def add_torsions(book: Book, done: list[Done]) -> None:
    """What the chosen coordinates explain of the true torsions, against the first ones and all of them."""
    rows = []
    for d in done:
        Y = d.selection.coordinates
        for name in d.case.torsions:
            sets = (d.selection.embedding, Y[:, : d.case.s], Y)
            rows.append(
                (d.case.name, name, named(d.selection.subset), *(neighbour_r2(d.colors[name], Z) for Z in sets))
            )
    if rows:
        columns = ["molecule", "torsion", "chosen", "R² by the chosen", "R² by the first", "R² by all 20"]
        note = (
            "R² of (cos, sin) of the torsion, predicted at each point by the mean of its 10 nearest others in the map."
        )
        book.table("real-torsions", "Torsions explained", columns, rows, label="tab:real-dataset-runtime", note=note)
