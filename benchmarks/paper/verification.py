"""Verification: Procrustes error to the truth and dimension of the map, against the rank of the set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ies_gpu import backend_of
from ies_gpu.plot.style import new_figure, styled

from .book import Book
from .procrustes import procrustes_error
from .published import set_text
from .synthetic_cases import Case

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED = "#0072B2", "#D55E00"


class Verified(NamedTuple):
    """M^2 and dimension of every set, by rank, and their Spearman correlations with it (M^2, dimension).

    ``middle`` holds the correlations with the rank at zeta*, the middle of the interval.
    """

    name: str
    subsets: np.ndarray
    errors: np.ndarray
    dimensions: np.ndarray
    correlations: tuple[float, float]
    middle: tuple[float, float]


def levina_bickel(X: np.ndarray) -> float:
    """Return the dimension by Levina and Bickel (2004) as in the paper: the mean over points and k = 10 to 20."""
    logs = np.log(np.sort(backend_of(X).nearest(X, 20)[0], axis=1))
    return float(np.mean([(1 / (logs[:, k - 1 : k] - logs[:, : k - 1]).mean(axis=1)).mean() for k in range(10, 21)]))


def verify(case: Case, dimension_points: int) -> Verified:
    """Every set of the ranking against the truth."""
    from scipy.stats import spearmanr

    Y = np.asarray(case.selection.coordinates)
    truth = case.data.truth[np.asarray(case.selection.points)]
    few = np.random.default_rng(0).permutation(len(Y))[:dimension_points]
    subsets = case.ranking
    with backend_of(Y).active():  # once, not for each of hundreds of sets
        errors = np.array([procrustes_error(truth, Y[:, s]) for s in subsets])
        dimensions = np.array([levina_bickel(Y[few][:, s]) for s in subsets])
    at_middle = {tuple(s): rank for rank, s in enumerate(case.selection.ranking.subsets.tolist())}
    both = [list(range(len(subsets))), [at_middle[tuple(s)] for s in subsets.tolist()]]
    first, middle = ([float(spearmanr(ranks, v).statistic) for v in (errors, dimensions)] for ranks in both)
    return Verified(case.data.name, subsets, errors, dimensions, (first[0], first[1]), (middle[0], middle[1]))


def add_verification(book: Book, found: Sequence[Verified], cases: Sequence[Case], points: int) -> None:
    """The two figures and the table of correlations."""
    for names, name, label in (
        ({v.name for v in found} - {"D13"}, "verification", "Figure S7"),
        ({"D13"}, "verification-d13", "Figure S6"),
    ):
        shown = [v for v in found if v.name in names]
        if shown:
            title = f"M² and dimension against rank, {shown[0].name}" + (f" to {shown[-1].name}" * (len(shown) > 1))
            book.figure(name, title, picture(shown), label=label, note=NOTE.format(points=points))
    rows = [row(one, case) for one, case in zip(found, cases, strict=True)]
    rising, falling = sum(v.correlations[0] > 0 for v in found), sum(v.correlations[1] < 0 for v in found)
    other = [v.name for v in found if v.correlations[1] >= 0]
    book.table(
        "verification-table",
        "M², dimension and rank: Spearman correlations",
        ["set", "sets ranked", "chosen", "its M²", "its rank by M²", "least M²", "of", "its dimension", "d",
         "rank and M²", "rank and dimension", "at zeta*: M²", "at zeta*: dimension"],
        rows,
        label="Figure S7",
        note=f"The paper expects M² to rise and the dimension to fall with the rank. They do on {rising} and "
        f"{falling} of {len(found)} data sets (dimension not falling: {', '.join(other) or 'none'}). A likely "
        "reason where s > d: coordinates that oscillate fast fill the space at this n, so the estimate exceeds d. The "
        "chosen set need not have the least M² (the paper says so of D4). Ranks are by the loss low in the interval of "
        "zeta, as in the table of results; the last columns use the ranks at zeta*, its middle.",
    )  # fmt: skip


NOTE = (
    "M² allows reflections because the signs of eigenvectors are arbitrary (the paper only mentions rotations). The "
    "dimension is that of Levina and Bickel, averaged over k = 10 to 20 and over points, on {points:,} random points."
)


def row(found: Verified, case: Case) -> list[Any]:
    """One row of the table."""
    chosen = int(np.flatnonzero((found.subsets == case.selection.subset).all(axis=1))[0])
    best = int(found.errors.argmin())
    return [
        found.name,
        len(found.subsets),
        set_text(case.selection.subset),
        found.errors[chosen],
        int((found.errors < found.errors[chosen]).sum()) + 1,
        found.errors[best],
        set_text(found.subsets[best]),
        found.dimensions[chosen],
        case.data.intrinsic_dim,
        *found.correlations,
        *found.middle,
    ]


@styled()
def picture(found: Sequence[Verified]) -> Figure:
    """A panel for each data set: M^2 in blue on the left axis, the dimension in red on the right one."""
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure = new_figure(3.6 * columns if columns > 1 else 6.5, 2.7 * rows if rows > 1 else 3.6)
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes, one in zip(grid.flat, found, strict=False):
        ranks = np.arange(1, len(one.errors) + 1)
        style: dict[str, Any] = {"linewidth": 1, "marker": ".", "markersize": 5 if len(ranks) < 30 else 2}
        axes.plot(ranks, one.errors, color=BLUE, **style)
        other = axes.twinx()
        other.plot(ranks, one.dimensions, color=RED, **style)
        other.spines["right"].set_visible(True)
        axes.set(xlabel="rank of the set", ylim=(0, 1))
        axes.set_ylabel("$M^2$", color=BLUE)
        other.set_ylabel(r"dimension $\hat d$", color=RED)
        axes.set_title("{}: Spearman {:.2f}, {:.2f}".format(one.name, *one.correlations))
    for axes in grid.flat[len(found) :]:
        axes.set_axis_off()
    return figure
