"""The limit theorem and Lemma 2 in the book."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..plot import COLORS, _style
from .book import Book
from .cases import Plan
from .pictures import label_sizes, new_figure
from .theory import LimitResult, lemma_cases, lemma_sides, limit_errors, limit_studies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = dict[str, dict[int, LimitResult]]


def add_lemma(book: Book, plan: Plan) -> None:
    """Both sides of the change of variables, and how their difference shrinks with the cells."""
    rows = []
    for case in lemma_cases():
        sides = [lemma_sides(case, cells) for cells in plan.lemma_cells]
        rows.append(
            (case.title, case.name, sides[-1][0], sides[-1][1], *[abs(right / left - 1) for left, right in sides])
        )
    book.table(
        "lemma-2", "Lemma 2: the change of variables, both sides",
        ["manifold and set", "f", "integral over M", "integral over phi_S(M)",
         *[f"difference, {cells} cells" for cells in plan.lemma_cells]],
        rows, label="lm:change-of-variable",
        note="The paper proves it and prints no numbers. Areas in the image come from triangles whose corners are "
        "mapped, j_S from the co-metric of all functions, so that neither side knows of the other. The relative "
        "difference falls with the square of the cell on the torus, and in proportion to it on the rectangle, where "
        "gradients vanish at the boundary.",
    )  # fmt: skip


def add_limit(book: Book, plan: Plan, report: Callable[[int, int], None]) -> None:
    """Scores of samples against their limits as n grows."""
    curves: Curves = {}
    studies, total = limit_studies(), 2 * len(plan.limit_sizes)
    for number, study in enumerate(studies):
        for step, n in enumerate(plan.limit_sizes):
            report(number * len(plan.limit_sizes) + step, total)
            for name, found in limit_errors(study, n, plan.limit_seeds, plan.device).items():
                curves.setdefault(f"{study.title}, {name}", {})[n] = found
    rows = [(name, n, r.limit, r.score, r.error) for name, curve in curves.items() for n, r in curve.items()]
    falling = sum(_falls(curve) for curve in curves.values())
    book.figure(
        "limit", "The limit theorem: error against n", picture(curves), label="thm:risk-cont",
        note=f"The mean error falls with every step of n for {falling} of {len(curves)} sets. The paper proves the "
        "limit and prints no numbers. eps shrinks like n^(-1/4). "
        "The torus has m = 10 functions and eps = .35 n^(-1/4) after trials: with m = 20, where the two singular "
        "values nearly coincide, and on a torus of 1.7 by 1 with m = 8, it did not always fall.",
    )  # fmt: skip
    columns = ["manifold and set", "n", "limit R(S, M)", "mean score", f"mean error, {len(plan.limit_seeds)} samples"]
    book.table(
        "limit-table", "The limit theorem in numbers", columns, rows, label="thm:risk-cont",
        note="On the torus a sample's eigenvectors are turned within eigenspaces; the limit is theirs.",
    )  # fmt: skip


def _falls(curve: dict[int, LimitResult]) -> bool:
    errors = [curve[n].error for n in sorted(curve)]
    return all(later < earlier for earlier, later in pairwise(errors))


def picture(curves: Curves) -> Figure:
    with _style():
        figure = new_figure(6.8, 4.4)
        axes: Any = figure.subplots()
        for (name, curve), tint, mark in zip(curves.items(), COLORS, "os^D", strict=False):
            axes.loglog(list(curve), [r.error for r in curve.values()], marker=mark, color=tint, label=name)
        axes.set(xlabel="number of points n", ylabel="mean of |R(S) in the sample - limit|")
        label_sizes(axes, sorted({n for curve in curves.values() for n in curve}))
        axes.legend(frameon=False, loc="lower left")
        axes.set_title("Score R(S) of a sample against its limit R(S, M)")
    return figure
