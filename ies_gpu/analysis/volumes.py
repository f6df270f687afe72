"""The volume of a set at every point, and what it says about the number of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..backend import at_home, backend_of, to_host
from ..choice.naming import coordinate_numbers
from ..choice.search import SearchResult, ranked, renumber, search_exhaustive
from ..choice.size_rule import SizeVerdict, judge_size, share_near_zero
from ..choice.stray import without_stray
from ..findings import option, refusal
from ..results.selection import Selection, bases_of, check_selection
from ..validation import check_integer


class VolumeHistogram(NamedTuple):
    """Histogram of the volumes ``exp R(S; i)`` of a set over all points.

    Attributes
    ----------
    subset : tuple of int
        The set, 0-based.
    counts : ndarray of shape (bins,)
        Points per bin.
    edges : ndarray of shape (bins + 1,)
        Edges of the bins, from 0 to 1.
    share_near_zero : float
        The share of points with a volume below 0.1.
    """

    subset: tuple[int, ...]
    counts: np.ndarray
    edges: np.ndarray
    share_near_zero: float


@at_home
def volume_histogram(selection: Selection, subset: Sequence[int] | None = None, bins: int = 50) -> VolumeHistogram:
    """Count the points by the normalised projected volume of a set.

    Parameters
    ----------
    selection : Selection
        A result, with its tangent bases unless the set is the chosen one.
    subset : sequence of int, optional
        The set, 0-based; the chosen one by default.
    bins : int, default=50
        How many equal bins between 0 and 1.

    Returns
    -------
    VolumeHistogram
        Counts, edges, and the share of points with a volume near zero.
    """
    selection = check_selection(selection)
    bins = check_integer("bins", bins, low=1, high=1_000_000)
    m = selection.coordinates.shape[1]
    chosen = selection.subset if subset is None else tuple(sorted(coordinate_numbers(subset, m)))
    logs = selection.log_volumes if chosen == selection.subset else selection.score(chosen)
    logs = to_host(logs)
    # rounding may lift a volume above 1 by 1e-16
    counts, edges = np.histogram(np.minimum(np.exp(logs), 1.0), bins, range=(0, 1))
    return VolumeHistogram(chosen, counts, edges, share_near_zero(logs))


@at_home
def size_verdict(selection: Selection, *, subset_size: int | None = None) -> SizeVerdict:
    """Judge whether there are enough coordinates, by the paper's histogram heuristic.

    s is too small when at least 1.5 % of the points have a volume below 0.1 under the best set, and at most 0.3 of that
    share is left under its union with the runner-up: then the union sees a direction that the set misses. A spike that
    remains does not count. On a strip, for instance, it comes from the boundary, where gradients vanish under every
    set.

    Parameters
    ----------
    selection : Selection
        A result with its tangent bases.
    subset_size : int, optional
        Another s to ask about; its best set is found by exhaustive search.

    Returns
    -------
    SizeVerdict
        ``too_small``, the sets and shares it rests on, and the same in words.

    Raises
    ------
    ValueError
        If the tangent bases were not kept, or there is only one set of this size.
    """
    selection = check_selection(selection)
    if subset_size is not None:
        subset_size = check_integer("subset_size", subset_size, low=1, high=selection.coordinates.shape[1])
    if subset_size is None or subset_size == len(selection.subset):
        best, subsets = selection.subset, selection.ranking.subsets
    else:
        values = to_host(selection.eigenvalues)
        found = _searched(selection, values, subset_size)
        best, subsets = found.subset, found.subsets[ranked(found.subsets, found.scores, values, found.zeta)]
    if len(subsets) < 2:
        text = "there is only one set of this size, and no other to compare it with"
        raise refusal("subset.only_one", text, f"raise {option('n_components')}")
    return judge_size(best, subsets[:2], lambda chosen: volume_histogram(selection, chosen).share_near_zero)


def _searched(selection: Selection, values: np.ndarray, subset_size: int) -> SearchResult:
    """The best set of another size, as the run would choose it: by its zeta and percentile, and of no stray."""
    used, m = selection.diagnostics.get("parameters", {}), len(values)
    kept = without_stray(selection.diagnostics.get("stray_coordinates", []), m, subset_size)
    whole = bases_of(selection)
    bases = whole[:, backend_of(whole).asarray(np.array(kept))]
    asked = {"zeta": used.get("zeta", "auto"), "percentile": used.get("percentile", 75)}
    return renumber(search_exhaustive(bases, values[kept], subset_size=subset_size, **asked), kept)
