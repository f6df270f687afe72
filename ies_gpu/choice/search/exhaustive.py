"""Enumeration: every set is scored."""

from __future__ import annotations

from typing import Any

from ...backend import at_home, backend_of
from ..criterion import candidate_subsets
from .result import Evaluated, SearchResult, check_bases, check_percentile, check_size, check_zeta, concluded


@at_home
def search_exhaustive(
    bases: Any, eigenvalues: Any, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75
) -> SearchResult:
    """Score every set of ``subset_size`` coordinates that holds the first, and choose one.

    Parameters
    ----------
    bases : array (n, m, d)
        Tangent bases.
    eigenvalues : array (m,)
        Of the unscaled Laplacian, rising.
    subset_size : int
        s, between d and m.
    zeta : float or "auto"
        Weight of the penalty ``sum_{k in S} lambda_k``. ``"auto"`` walks the path from infinity down and takes the
        first set whose regret has a ``percentile`` that is not positive.
    percentile : float
        alpha of the paper.
    """
    bases, values = check_bases(bases, eigenvalues)
    s, weight, alpha = check_size(bases, subset_size), check_zeta(zeta), check_percentile(percentile)
    with backend_of(bases).active():
        return concluded(bases, values, all_sets(bases.shape[1], s), weight, alpha)


def all_sets(m: int, s: int, method: str = "exhaustive") -> Evaluated:
    """Every candidate."""
    subsets = candidate_subsets(m, s)
    counts = {"pool_size": len(subsets), "sets_scored": len(subsets), "sets_total": len(subsets)}
    return Evaluated(subsets, {"method": method, "guarantee": "exact", "path_exact": True, **counts})
