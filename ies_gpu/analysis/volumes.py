"""The volumes of sets over all points, and what they say about the number of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backend import at_home, backend_of
from ..choice.search import ranked, search_exhaustive
from ..choice.size_rule import SizeVerdict, judge_size, share_near_zero
from ..validation import check_integer

if TYPE_CHECKING:
    from ..results.selection import Selection


class VolumeHistogram(NamedTuple):
    """Volumes ``exp R(S; i)`` of a set over all points: counts (b,), edges (b + 1,), and the share below 0.1."""

    subset: tuple[int, ...]
    counts: np.ndarray
    edges: np.ndarray
    share_near_zero: float


@at_home
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
    logs = backend_of(logs).to_host(logs)
    # rounding may lift a volume above 1 by 1e-16
    counts, edges = np.histogram(np.minimum(np.exp(logs), 1.0), bins, range=(0, 1))
    return VolumeHistogram(chosen, counts, edges, share_near_zero(logs))


@at_home
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
    if subset_size is None or subset_size == len(selection.subset):
        best, subsets = selection.subset, selection.ranking.subsets
    else:
        if selection.bases is None:
            raise ValueError("the tangent bases were not kept; run select_coordinates with keep_bases=True")
        found = search_exhaustive(selection.bases, selection.eigenvalues, subset_size=subset_size)
        values = backend_of(selection.eigenvalues).to_host(selection.eigenvalues)
        best, subsets = found.subset, found.subsets[ranked(found.subsets, found.scores, values, found.zeta)]
    if len(subsets) < 2:
        raise ValueError("there is only one set of this size, so that no union can be looked at; raise n_components")
    return judge_size(best, subsets[:2], lambda chosen: volume_histogram(selection, chosen).share_near_zero)
