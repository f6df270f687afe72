"""One data set, computed once and used by all experiments: points, selection, greedy order, LLR order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import datasets
from ..baselines import LLRRanking, llr_ranking
from ..datasets import Dataset
from ..search import greedy_order
from ..selection import Selection, select_coordinates
from ..stages import Stages

USUAL = {"D13": 10_000}  # points where the paper's number takes too long for a usual run
ORDER = 7  # members of the greedy and LLR orders that the paper prints


class Plan(NamedTuple):
    """How much to compute.

    Attributes
    ----------
    names : tuple of str
        Data sets.
    points : int or None
        Of each data set; None for the paper's number (``full``) or the usual one.
    full : bool
    device : str
    llr_points : int or None
        Points in the regressions of LLR; None for all.
    limit_sizes, limit_seeds : tuple of int
        Of the limit theorem.
    time_sizes, slow_sizes : tuple of int
        Numbers of points whose run time is measured, and those for LLR.
    dimension_points : int
        Points in the estimates of the dimension.
    """

    names: tuple[str, ...]
    points: int | None = None
    full: bool = False
    device: str = "auto"
    llr_points: int | None = 2000
    limit_sizes: tuple[int, ...] = (1000, 4000, 16_000)
    limit_seeds: tuple[int, ...] = (0, 1, 2)
    time_sizes: tuple[int, ...] = (2000, 4000, 8000, 16_000)
    slow_sizes: tuple[int, ...] = (500, 1000, 2000, 4000)
    dimension_points: int = 4000


class Case(NamedTuple):
    """A data set and what was found on it; orders are 0-based."""

    data: Dataset
    selection: Selection
    greedy: tuple[int, ...]
    llr: LLRRanking


def compute(name: str, plan: Plan, log: Stages) -> Case:
    """Everything about one data set that takes time."""
    n = plan.points or (None if plan.full else USUAL.get(name))
    data = datasets.load(name, n_samples=n)
    # a small sample needs a wider kernel to have as many neighbours; D13 has more than enough at any size
    wider = 1.0 if name in USUAL or n is None else max(1.0, 10_000 / n) ** (1 / data.intrinsic_dim)
    with log.stage(name):
        selection = select_coordinates(
            data.X,
            intrinsic_dim=data.intrinsic_dim,
            subset_size=data.subset_size,
            bandwidth=wider * data.bandwidth,
            device=plan.device,
            keep_bases=True,
        )
    size = min(ORDER, selection.coordinates.shape[1])
    with log.stage("greedy"):
        greedy = greedy_order(selection.bases, selection.eigenvalues, zeta=selection.zeta, size=size)
    with log.stage("llr"):
        llr = llr_ranking(selection.coordinates, n_samples=plan.llr_points)
    return Case(data, selection, greedy, llr)


def counted(subset: Sequence[int]) -> str:
    """A set as the paper writes it, counted from 1: ``{1, 7}``."""
    return "{" + ", ".join(str(k + 1) for k in subset) + "}"


def listed(order: Sequence[int]) -> str:
    """An order, counted from 1: ``1 7 6``."""
    return " ".join(str(k + 1) for k in order)
