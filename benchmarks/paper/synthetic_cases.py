"""One data set, computed once and used by all experiments: points, selection, greedy order, LLR order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ies_gpu import Selection, datasets, search_greedy, select_coordinates
from ies_gpu.backend import get_backend
from ies_gpu.choice.criterion import ranked
from ies_gpu.datasets import Dataset

from .llr import LLRRanking, llr_ranking
from .parts import Parts

USUAL = {"D13": 10_000}  # points, where the paper's number takes too long for the default run
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
    lemma_cells : tuple of int
        Cells along the longer side in the check of Lemma 2.
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
    lemma_cells: tuple[int, ...] = (25, 50, 100, 200)
    time_sizes: tuple[int, ...] = (8000, 16_000, 32_000, 64_000)
    slow_sizes: tuple[int, ...] = (3000, 6000, 12_000)
    dimension_points: int = 2000


class Case(NamedTuple):
    """A data set and what was found on it; sets and orders are 0-based.

    Attributes
    ----------
    ranking : array (q, s)
        All sets by falling loss at ``ranking_zeta``.
    greedy : tuple of int
        Order of the greedy search at the same zeta.
    """

    data: Dataset
    selection: Selection
    ranking: np.ndarray
    greedy: tuple[int, ...]
    llr: LLRRanking


def ranking_zeta(selection: Selection) -> float:
    """A tenth of the way up the chosen interval, where the scores decide the order and not the penalties.

    The authors' zeta also lies low in the interval (a geometric middle). In the middle of a wide interval, slow sets
    that have lost rank come before fast ones that have not.
    """
    low, high = selection.zeta_interval
    return low + (0.1 * (high - low) if high is not None else 0.1 * low)


def compute(name: str, plan: Plan, parts: Parts) -> Case:
    """Everything about one data set that takes time."""
    n = plan.points or (None if plan.full else USUAL.get(name))
    data = datasets.load(name, n_samples=n)
    # a small sample needs a wider kernel to have as many neighbours; D13 has more than enough at any size
    wider = 1.0 if name in USUAL or n is None else max(1.0, 10_000 / n) ** (1 / data.intrinsic_dim)
    with parts.stage(name):
        selection = select_coordinates(
            data.X,
            intrinsic_dim=data.intrinsic_dim,
            subset_size=data.subset_size,
            bandwidth=wider * data.bandwidth,
            device=plan.device,
            keep_bases=True,
            untangle=False,
        )
    size, zeta = min(ORDER, selection.coordinates.shape[1]), ranking_zeta(selection)
    sets = selection.ranking.subsets
    order = ranked(sets, selection.ranking.scores, np.asarray(selection.eigenvalues), zeta)
    backend = get_backend(plan.device)
    with parts.stage("greedy"):
        bases, every = backend.asarray(selection.bases), selection.coordinates.shape[1]
        order_of_all = search_greedy(bases, selection.eigenvalues, subset_size=every, zeta=zeta).search_order
    with parts.stage("llr"):
        llr = llr_ranking(backend.asarray(selection.coordinates), n_samples=plan.llr_points)
    return Case(data, selection, sets[order], order_of_all[:size], llr)


def order_text(order: Sequence[int]) -> str:
    """An order, counted from 1: ``1 7 6``."""
    return " ".join(str(k + 1) for k in order)
