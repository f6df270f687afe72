"""Judging a result: the volumes of sets (is s large enough?), the distance to a known truth, the dimension of a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backend import backend_of, to_device
from ..choice.search import ranked, search_exhaustive
from ..validation import check_integer, check_real_array

if TYPE_CHECKING:
    from ..results.selection import Selection

NEAR_ZERO = 0.1  # volumes below count as lost
SPIKE = 0.015  # a share of lost points that asks for a look at the union
FALL = 0.3  # of that share, at most, may be left under the union


class VolumeHistogram(NamedTuple):
    """Volumes ``exp R(S; i)`` of a set over all points: counts (b,), edges (b + 1,), and the share below 0.1."""

    subset: tuple[int, ...]
    counts: np.ndarray
    edges: np.ndarray
    share_near_zero: float


class SizeVerdict(NamedTuple):
    """Whether s is large enough, by the histograms of the two top sets and of their union.

    Attributes
    ----------
    best, runner_up, union : tuple of int
        The chosen set, the best other one at zeta*, and both together.
    share_best, share_runner_up, share_union : float
        Shares of points with a volume below 0.1.
    too_small : bool
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


def volume_histogram(selection: Selection, subset: Sequence[int] | None = None, bins: int = 50) -> VolumeHistogram:
    """How the normalised projected volume of a set spreads over the points.

    Parameters
    ----------
    selection : Selection
        With its tangent bases, unless the set is the chosen one.
    subset : sequence of int, optional
        0-based; the chosen set unless given.
    bins : int
        Equal ones between 0 and 1.
    """
    bins = check_integer("bins", bins, low=1)
    chosen = tuple(selection.subset if subset is None else sorted(subset))
    logs = selection.log_volumes if chosen == selection.subset else selection.score(chosen)
    volumes = np.exp(backend_of(logs).to_host(logs))
    # rounding may lift a volume above 1 by 1e-16
    counts, edges = np.histogram(np.minimum(volumes, 1.0), bins, range=(0, 1))
    return VolumeHistogram(chosen, counts, edges, float((volumes < NEAR_ZERO).mean()))


def size_verdict(selection: Selection, *, subset_size: int | None = None) -> SizeVerdict:
    """Is ``subset_size`` large enough? The paper's histogram heuristic as a rule.

    Too small, when at least 1.5 % of the points have a volume below 0.1 under the best set, and at most 0.3 of that
    share is left under its union with the runner-up: then the union sees a direction that the set loses. A spike that
    stays is no reason: on a strip it belongs to the boundary, where gradients vanish under every set.

    Parameters
    ----------
    selection : Selection
        With its tangent bases.
    subset_size : int, optional
        Another s to ask about; its best set is found by exhaustive search.
    """
    best, runner_up = top_two(selection, subset_size)
    union = tuple(sorted({*best, *runner_up}))
    one, two, both = (volume_histogram(selection, chosen).share_near_zero for chosen in (best, runner_up, union))
    spike, falls = one >= SPIKE, both <= FALL * one
    if not spike:
        words = f"enough: only {one:.1%} of the points have a volume below {NEAR_ZERO}"
    elif falls:
        words = f"too small: {one:.1%} of the points have a volume below {NEAR_ZERO}, under the union {both:.1%}"
    else:
        words = f"enough: {one:.1%} of the points have a volume below {NEAR_ZERO}, and under the union still {both:.1%}"
    return SizeVerdict(best, runner_up, union, one, two, both, spike and falls, f"s = {len(best)} is {words}")


def top_two(selection: Selection, subset_size: int | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The chosen set of a given size, and the best of all others at the same zeta."""
    if subset_size is None or subset_size == len(selection.subset):
        best, subsets = selection.subset, selection.ranking.subsets
    else:
        if selection.bases is None:
            raise ValueError("the tangent bases were not kept; run select_coordinates with keep_bases=True")
        found = search_exhaustive(selection.bases, selection.eigenvalues, subset_size=subset_size)
        values = backend_of(selection.eigenvalues).to_host(selection.eigenvalues)
        best, subsets = found.subset, found.subsets[ranked(found.subsets, found.scores, values, found.zeta)]
    others = [tuple(int(k) for k in row) for row in subsets[:2] if tuple(row) != best]
    if not others:
        raise ValueError("there is only one set of this size, so that no union can be looked at; raise n_components")
    return best, others[0]


def procrustes_error(truth: Any, embedding: Any) -> float:
    """``M^2``, the sum of squares left after the best shift, scaling, rotation and reflection: 0 to 1.

    ``1 - (sum of singular values of A' B)^2`` for both centred and of unit Frobenius norm. Reflections are allowed,
    because the signs of eigenvectors are arbitrary. Where one has fewer columns it counts as filled up with zeros.

    Parameters
    ----------
    truth, embedding : array (n, k), (n, l)
    """
    A, B = check_real_array("truth", truth, 2), check_real_array("embedding", embedding, 2)
    if len(A) != len(B):
        raise ValueError(f"truth and embedding must have the same number of rows, got {len(A)} and {len(B)}")
    xp = backend_of(B).xp
    sides = []
    for name, part in (("truth", to_device(A, backend_of(B))), ("embedding", B)):
        part = part - part.mean(axis=0)
        norm = float(xp.linalg.norm(part))
        if norm == 0:
            raise ValueError(f"{name} must not consist of {len(part)} copies of one point")
        sides.append(part / norm)
    overlap = float(xp.linalg.svd(sides[0].T @ sides[1], compute_uv=False).sum())
    return max(0.0, 1 - overlap**2)
