"""The paper's theory in numbers: the limit theorem over n, and Lemma 2, on manifolds with known eigenfunctions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ies_gpu import diffusion_map, laplacian_of_points, score_subsets, tangent_bases
from ies_gpu.backend import get_backend
from ies_gpu.plot.style import COLORS, new_figure, styled

from .book import Book
from .flat_manifolds import Flat, flat_manifold
from .panels import label_sizes
from .synthetic_cases import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (2.3, 1.0)
Waves = tuple[tuple[int, int], ...]


class LimitStudy(NamedTuple):
    """A manifold, sets (by name) whose scores have known limits, and eps at n points as ``factor * n^(-1/4)``."""

    title: str
    manifold: Flat
    sets: Mapping[str, Waves]
    factor: float


class LimitResult(NamedTuple):
    """Over the samples of n points: the mean score of a set, its mean limit, and the mean distance between them."""

    score: float
    limit: float
    error: float


Curves = dict[str, dict[int, LimitResult]]


def rectangle() -> Flat:
    return flat_manifold(LENGTHS, 20, periodic=False)


def flat_torus() -> Flat:
    """With 10 functions, because with 20 both singular values are nearly equal and U is not determined by them."""
    return flat_manifold(LENGTHS, 10, periodic=True)


def limit_studies() -> list[LimitStudy]:
    """Two sets on a rectangle, and two on a flat torus: one of whole eigenspaces, one that cuts an eigenspace."""
    pair = ((-1, 0), (1, 0))
    strip = {"(1,0) (0,1)": ((1, 0), (0, 1)), "(1,0) (1,1)": ((1, 0), (1, 1))}
    round_ = {"both (1,0), both (0,1)": (*pair, (0, -1), (0, 1)), "both (1,0), one (1,1)": (*pair, (-1, -1))}
    return [
        LimitStudy("rectangle", rectangle(), strip, 0.55),
        LimitStudy("flat torus", flat_torus(), round_, 0.35),
    ]


def limit_errors(study: LimitStudy, n: int, seeds: Sequence[int], device: str = "cpu") -> dict[str, LimitResult]:
    """How far the scores of samples are from their limits, for each set.

    On a torus the eigenvectors are the exact functions turned within their eigenspaces; the limit is that of the turned
    functions.
    """
    manifold, m = study.manifold, len(study.manifold.waves)
    backend = get_backend(device)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in study.sets}
    for seed in seeds:
        flat, points = manifold.sample(n, seed)
        laplacian = laplacian_of_points(backend.asarray(points), bandwidth=study.factor * n**-0.25)
        Y = diffusion_map(laplacian, n_components=m, random_state=seed).coordinates
        columns, rotation = manifold.matched(backend.to_host(Y), flat)
        U = tangent_bases(Y, laplacian, intrinsic_dim=2)
        for name, waves in study.sets.items():
            subset = manifold.numbers(waves)
            score = float(score_subsets(U, [sorted(columns[subset].tolist())])[0])
            found[name].append((score, manifold.limit(subset, rotation)))
    return {name: _averaged(np.array(pairs)) for name, pairs in found.items()}


def _averaged(pairs: np.ndarray) -> LimitResult:
    score, limit = pairs.mean(axis=0)
    return LimitResult(float(score), float(limit), float(np.abs(pairs[:, 0] - pairs[:, 1]).mean()))


class LemmaCase(NamedTuple):
    """One check of Lemma 2: a manifold, a set that embeds it, a function of the flat coordinates and its name."""

    title: str
    manifold: Flat
    waves: Waves
    name: str
    f: Callable[[np.ndarray], np.ndarray]


def lemma_cases() -> list[LemmaCase]:
    """A rectangle in the plane and in space, and a flat torus in four dimensions, each with two functions."""
    two, three = ((1, 0), (0, 1)), ((1, 0), (0, 1), (1, 1))
    four = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def one(flat: np.ndarray) -> np.ndarray:
        return np.ones(len(flat))

    def bump(flat: np.ndarray) -> np.ndarray:
        return np.exp(-((flat - [0.8, 0.3]) ** 2).sum(axis=1))

    return [
        LemmaCase(title, manifold, waves, name, f)
        for title, manifold, waves in (
            ("rectangle, (1,0) (0,1)", rectangle(), two),
            ("rectangle, (1,0) (0,1) (1,1)", rectangle(), three),
            ("flat torus, both (1,0), both (0,1)", flat_torus(), four),
        )
        for name, f in (("1", one), ("exp(-|x - (.8, .3)|^2)", bump))
    ]


def lemma_sides(case: LemmaCase, cells: int) -> tuple[float, float]:
    """Both sides of Lemma 2, computed independently of each other.

    Left, the integral of f over the manifold by the midpoint rule. Right, over its image: the areas of the image's
    triangles, from the values of the map alone, times ``f j_S`` at the points in their middles, with
    ``j_S = 1 / Vol(U_S Sigma^(1/2))`` from the co-metric of all m functions.
    """
    manifold, subset = case.manifold, case.manifold.numbers(case.waves)
    fine = manifold.grid(4 * cells)
    left = float(case.f(fine).mean() * np.prod(manifold.lengths))
    corners = triangles(manifold, cells)  # (t, 3, 2)
    image = manifold.functions(corners.reshape(-1, 2))[:, subset].reshape(*corners.shape[:2], -1)
    middle = corners.mean(axis=1)
    right = float((case.f(middle) * volume_factor(manifold, middle, subset) * areas(image)).sum())
    return left, right


def volume_factor(manifold: Flat, flat: np.ndarray, subset: list[int]) -> np.ndarray:
    """``j_S`` at points: 1 over the volume spanned by the columns of ``U_S Sigma^(1/2)``."""
    U, sigma = manifold.bases(flat)
    spanned = U[:, subset] * np.sqrt(sigma)[:, None, :]
    return 1 / np.sqrt(np.linalg.det(np.swapaxes(spanned, 1, 2) @ spanned))


def triangles(manifold: Flat, cells: int) -> np.ndarray:
    """The manifold cut into triangles: corners (t, 3, 2)."""
    counts = [max(2, round(cells * side / max(manifold.lengths))) for side in manifold.lengths]
    steps = np.array(manifold.lengths) / counts
    low = np.array(np.meshgrid(*map(np.arange, counts), indexing="ij")).reshape(2, -1).T
    lower, upper = np.array([[0, 0], [1, 0], [0, 1]]), np.array([[1, 1], [1, 0], [0, 1]])
    return np.concatenate([low[:, None] + lower, low[:, None] + upper]) * steps


def areas(corners: np.ndarray) -> np.ndarray:
    """Areas of triangles with corners (t, 3, s) in any space."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    gram = (a * a).sum(axis=1) * (b * b).sum(axis=1) - (a * b).sum(axis=1) ** 2
    return 0.5 * np.sqrt(np.maximum(gram, 0))


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
        rows, label="Lemma 2",
        note="The paper proves it and prints no numbers. Areas in the image come from triangles whose corners are "
        "mapped, and j_S from the co-metric of all functions, so the two sides are independent. The relative "
        "difference falls with the square of the cell size on the torus, and in proportion to it on the rectangle, "
        "where gradients vanish at the boundary.",
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
        "limit", "The limit theorem: error against n", picture(curves), label="Theorem 3",
        note=f"The mean error falls at every step of n for {falling} of {len(curves)} sets. The paper proves the "
        "limit and prints no numbers. eps shrinks like n^(-1/4). For the torus, m = 10 functions and "
        "eps = .35 n^(-1/4) were settled on after trials: with m = 20, where the two singular values nearly coincide, "
        "and on a torus of 1.7 by 1 with m = 8, the error did not always fall.",
    )  # fmt: skip
    columns = ["manifold and set", "n", "limit R(S, M)", "mean score", f"mean error, {len(plan.limit_seeds)} samples"]
    book.table(
        "limit-table", "The limit theorem in numbers", columns, rows, label="Theorem 3",
        note="On the torus, a sample's eigenvectors are rotated within eigenspaces; the limit is for the rotated ones.",
    )  # fmt: skip


def _falls(curve: dict[int, LimitResult]) -> bool:
    errors = [curve[n].error for n in sorted(curve)]
    return all(later < earlier for earlier, later in pairwise(errors))


@styled()
def picture(curves: Curves) -> Figure:
    figure = new_figure(6.8, 4.4)
    axes: Any = figure.subplots()
    for (name, curve), tint, mark in zip(curves.items(), COLORS, "os^D", strict=False):
        axes.loglog(list(curve), [r.error for r in curve.values()], marker=mark, color=tint, label=name)
    axes.set(xlabel="number of points n", ylabel="mean of |R(S) in the sample - limit|")
    label_sizes(axes, sorted({n for curve in curves.values() for n in curve}))
    axes.legend(frameon=False, loc="lower left")
    axes.set_title("Score R(S) of a sample against its limit R(S, M)")
    return figure
