"""The paper's synthetic manifolds: all of its tables and figures about D1 to D13, and its theory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import datasets
from ..choice.naming import set_text
from ..run.log import Progress, Stages
from .book import Book
from .cases import Case, Plan, compute
from .pictures import maps, overview, pairs, strip_example
from .published import PUBLISHED
from .regression import add_d7
from .runtimes import add_runtimes, measure
from .sizes import add_d4, add_rule
from .tables import add_results
from .theory_pages import add_lemma, add_limit
from .verification import add_verification, verify

FIGURES = {
    "fig:synth-data-all": ("D1", "D7", "D13"),
    "fig:d4-embedding-otherview": ("D4",),
    "fig:synth-data-s-d-equal-addi": ("D2", "D3", "D5", "D6"),
    "fig:synth-data-s-geq-d-addi": ("D8", "D9", "D10", "D11", "D12"),
}


def run(book: Book, *, full: bool, device: str, data: Path | None, progress: Progress | None) -> None:
    """Fill the book.

    Parameters
    ----------
    full : bool
        D13 with its 50,000 points, LLR with all points, dimensions on 10,000; otherwise 10,000, 2,000 and 2,000.
    device : str
    data : path or None
        Not used: these data are drawn.
    progress : callable, optional
        Called as ``progress(part, done, total)``.
    """
    plan = Plan(datasets.names(), full=full, device=device)
    fill(book, plan._replace(llr_points=None, dimension_points=10_000) if full else plan, progress)


def fill(book: Book, plan: Plan, progress: Progress | None = None) -> None:
    """Compute each data set once, then all tables and figures."""
    log = Stages(progress)
    cases = [compute(name, plan, log) for name in plan.names]
    by_name = {case.data.name: case for case in cases}
    with log.stage("pictures"):
        book.figure(
            "strip", "Eigenfunctions of a long strip", strip_example(), label="fig:cont-long-strip-example",
            note="From the closed form, as in the paper.",
        )  # fmt: skip
        for case in cases:
            add_overview(book, case)
        if "D13" in by_name:
            add_three_torus(book, by_name["D13"])
        if "D8" in by_name:
            add_crossing(book, by_name["D8"])
    with log.stage("sizes"):
        if "D4" in by_name:
            add_d4(book, by_name["D4"])
        add_rule(book, cases)
    with log.stage("tables"):
        add_results(book, cases)
        if "D7" in by_name:
            add_d7(book, by_name["D7"])
    with log.stage("verification") as report:
        found = []
        for done, case in enumerate(cases):
            report(done, len(cases))
            found.append(verify(case, plan.dimension_points))
        add_verification(book, found, cases, plan.dimension_points)
    with log.stage("lemma"):
        add_lemma(book, plan)
    with log.stage("limit") as report:
        add_limit(book, plan, report)
    with log.stage("run times") as report:
        add_runtimes(book, measure(plan, report))
    add_seconds(book, log)


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
    words += " zeta* is not comparable: the paper's is another point of the interval." if name == "D7" else ""
    book.figure(name.lower(), f"{name}, {case.data.title}: data, map, path", overview(case), label=label, note=words)


D13_NOTE = (
    " Here n = {n:,} (50,000 in the paper; --full takes all). The published set came from an approximate, randomly "
    "seeded neighbour index that kept about 58 neighbours a point; the exact graph has {degree:,.0f} at this n. "
    "Repeating the approximate graph gives sets such as {{1, 2, 5, 9}}, {{1, 2, 5, 10}} or {{1, 7, 9, 15}}."
)


def add_three_torus(book: Book, case: Case) -> None:
    """Every pair of coordinates of D13 and of its map, coloured by the three angles."""
    label, Y = "fig:synth-data-3-torus", np.asarray(case.selection.embedding)
    names = [f"$x_{{{k + 1}}}$" for k in range(4)]
    book.figure(
        "d13-data", "D13: the points by pairs of coordinates",
        pairs(case.data.X[:, :4], names, case.data.colors, "D13: points X"), label=label,
        note="The first four columns; the ten others are noise. Rows: coloured by the three angles.",
    )  # fmt: skip
    names = [rf"$\phi_{{{k + 1}}}$" for k in case.selection.subset]
    book.figure(
        "d13-map", "D13: the chosen map by pairs of coordinates",
        pairs(Y * np.sqrt(len(Y)), names, case.data.colors, f"D13: map {set_text(case.selection.subset)}"),
        label=label, note="Axes: root mean square 1. Rows: coloured by the three angles.",
    )  # fmt: skip


def add_crossing(book: Book, case: Case) -> None:
    """A map of D8 that crosses itself: the paper's second set."""
    second = tuple(k - 1 for k in PUBLISHED["D8"].best[1])
    shown = [case.selection.subset, second]
    book.figure(
        "d8-crossing", "D8: the chosen map, and one that crosses itself", maps(case, shown, "D8"),
        label="fig:d8-emb-rank-2",
        note=f"Right: {set_text(second)}, the paper's second set. It has full rank almost everywhere but meets itself: "
        "the score is local and does not see this; M² does.",
    )  # fmt: skip


def add_seconds(book: Book, log: Stages) -> None:
    """How long each part took."""
    rows = [(name, round(taken, 1)) for name, taken in log.seconds.items()]
    rows.append(("all", round(sum(log.seconds.values()), 1)))
    note = "Of this run, by the clock; the paper reports none for these data."
    book.table("seconds", "Seconds by part", ["part", "seconds"], rows, note=note)
