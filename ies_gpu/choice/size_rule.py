"""Is s large enough? The paper's histograms of volumes, read by a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..backend.array import Array

NEAR_ZERO = 0.1  # volumes below count as lost
SPIKE = 0.015  # a share of lost points that asks for a look at the union
FALL = 0.3  # of that share, at most, may be left under the union


class SizeVerdict(NamedTuple):
    """Whether the subset size is large enough, by the volume histograms of the two best sets and of their union.

    Attributes
    ----------
    best, runner_up, union : tuple of int
        The chosen set, the best other one at the chosen zeta, and both together.
    share_best, share_runner_up, share_union : float
        The shares of points with a volume below 0.1.
    too_small : bool
        Whether one more coordinate is needed.
    verdict : str
        The same in words.
    """

    best: tuple[int, ...]
    runner_up: tuple[int, ...]
    union: tuple[int, ...]
    share_best: float
    share_runner_up: float
    share_union: float
    too_small: bool
    verdict: str


def share_near_zero(log_volumes: Array) -> float:
    """The share of points with a volume below 0.1, from ``R(S; i)`` (n,)."""
    return float((log_volumes < np.log(NEAR_ZERO)).mean())


def judge_size(best: tuple[int, ...], ranking: Iterable[Any], share: Callable[[tuple[int, ...]], float]) -> SizeVerdict:
    """Compare the best set with its union with the runner-up in a ranking by falling loss at zeta*.

    ``share`` gives the share of points with a volume near zero under a set. The runner-up is the best other set by
    loss, not by score: the best score may belong to fast coordinates, whose union with the chosen set leaves open a
    direction that a slower one would show. Without any other set the best one is its own runner-up.
    """
    runner_up = next((other for other in (tuple(map(int, row)) for row in ranking) if other != best), best)
    union = tuple(sorted({*best, *runner_up}))
    one, two, both = share(best), share(runner_up), share(union)
    spike, falls = one >= SPIKE, both <= FALL * one
    near = f"{one:.1%} of the points have a volume below {NEAR_ZERO}"
    if not spike:
        words = f"enough: only {near}"
    elif falls:
        words = f"too small: {near}, but only {both:.1%} under the union with the runner-up"
    else:
        words = f"enough: {near}, and still {both:.1%} under the union with the runner-up"
    return SizeVerdict(best, runner_up, union, one, two, both, spike and falls, f"s = {len(best)} is {words}")
