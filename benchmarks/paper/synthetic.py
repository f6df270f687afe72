"""The paper's synthetic manifolds: all of its tables and figures about D1 to D13, and its theory."""

from __future__ import annotations

from pathlib import Path

from ies_gpu import datasets

from .book import Book
from .d1_to_d13 import add_crossing, add_overview, add_three_torus
from .d4_size import add_d4, add_rule
from .llr_on_d7 import add_d7
from .parts import Parts, Progress
from .results_table import add_results
from .runtimes import add_runtimes, measure
from .strip_example import add_strip
from .synthetic_cases import Plan, compute
from .theory import add_lemma, add_limit
from .verification import add_verification, verify


def run(book: Book, *, full: bool, device: str, data: Path | None, progress: Progress | None) -> None:
    """Fill the book; D13, LLR and dimensions on 50,000, all and 10,000 points if ``full``, or 10,000, 2,000, 2,000."""
    plan = Plan(datasets.names(), full=full, device=device)
    fill(book, plan._replace(llr_points=None, dimension_points=10_000) if full else plan, progress)


def fill(book: Book, plan: Plan, progress: Progress | None = None) -> None:
    """Compute each data set once, then all tables and figures."""
    parts = Parts(progress)
    cases = [compute(name, plan, parts) for name in plan.names]
    by_name = {case.data.name: case for case in cases}
    with parts.stage("pictures"):
        add_strip(book)
        for case in cases:
            add_overview(book, case)
        if "D13" in by_name:
            add_three_torus(book, by_name["D13"])
        if "D8" in by_name:
            add_crossing(book, by_name["D8"])
    with parts.stage("sizes"):
        if "D4" in by_name:
            add_d4(book, by_name["D4"])
        add_rule(book, cases)
    with parts.stage("tables"):
        add_results(book, cases)
        if "D7" in by_name:
            add_d7(book, by_name["D7"])
    with parts.stage("verification") as report:
        found = []
        for done, case in enumerate(cases):
            report(done, len(cases))
            found.append(verify(case, plan.dimension_points))
        add_verification(book, found, cases, plan.dimension_points)
    with parts.stage("lemma"):
        add_lemma(book, plan)
    with parts.stage("limit") as report:
        add_limit(book, plan, report)
    with parts.stage("run times") as report:
        add_runtimes(book, measure(plan, report))
    add_seconds(book, parts)


def add_seconds(book: Book, parts: Parts) -> None:
    """How long each part took."""
    rows = [(name, round(taken, 1)) for name, taken in parts.seconds.items()]
    rows.append(("all", round(sum(parts.seconds.values()), 1)))
    note = "Clock time of this run; the paper reports none for these data."
    book.table("seconds", "Seconds by part", ["part", "seconds"], rows, note=note)
