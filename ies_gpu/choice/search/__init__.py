"""Searching for the best set of coordinates: by enumeration, greedily, by submodular bounds, by branch and bound."""

from __future__ import annotations

import numpy as np

from ...backend.array import Array
from .branch_and_bound import branch_sets, search_branch_and_bound
from .exhaustive import all_sets, search_exhaustive
from .greedy import greedy_order, greedy_sets, search_greedy
from .result import Evaluated, SearchResult, choose, ranked
from .submodular import search_submodular, submodular_sets

__all__ = [
    "Evaluated", "SearchResult", "choose", "evaluate", "greedy_order", "ranked",
    "search_branch_and_bound", "search_exhaustive", "search_greedy", "search_submodular",
]  # fmt: skip


def evaluate(
    method: str, bases: Array, eigenvalues: np.ndarray, subset_size: int, zeta: float | None, random_state: int
) -> Evaluated:
    """The sets that a method scores, at zeta or (for None) along the path."""
    if method == "greedy":
        return greedy_sets(bases, eigenvalues, subset_size, zeta)
    if method == "submodular":
        return submodular_sets(bases, eigenvalues, subset_size, zeta, random_state)
    if method == "branch_and_bound":
        return branch_sets(bases, eigenvalues, subset_size, zeta)
    return all_sets(bases.shape[1], subset_size)
