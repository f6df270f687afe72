"""Enumeration: every set is scored."""

from __future__ import annotations

from ...backend import at_home
from ...backend.array import Array
from ..criterion import candidate_subsets
from .result import Evaluated, SearchResult, searched


@at_home
def search_exhaustive(
    bases: Array, eigenvalues: Array, *, subset_size: int, zeta: float | str = "auto", percentile: float = 75
) -> SearchResult:
    """Score every set of ``subset_size`` coordinates that contains the first one, and choose the best.

    Parameters
    ----------
    bases : ndarray of shape (n_samples, n_components, intrinsic_dim)
        The tangent bases, from :func:`tangent_bases`.
    eigenvalues : ndarray of shape (n_components,)
        The eigenvalues of the unscaled Laplacian, ascending.
    subset_size : int
        How many coordinates to choose, at least ``intrinsic_dim``.
    zeta : float or "auto", default="auto"
        The weight of the penalty ``sum_{k in S} lambda_k``. "auto" walks down the path from infinity and takes the
        first set whose regret has a ``percentile`` that is not positive.
    percentile : float, default=75
        The percentile of the regret, alpha in the paper.

    Returns
    -------
    SearchResult
        The chosen set, zeta, the path and the regret.

    See Also
    --------
    search_greedy, search_submodular, search_branch_and_bound : The searches for too many sets to enumerate.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> embedding = ies_gpu.diffusion_map(laplacian, n_components=10)
    >>> bases = ies_gpu.tangent_bases(embedding.coordinates, laplacian, intrinsic_dim=2)
    >>> found = ies_gpu.search_exhaustive(bases, embedding.eigenvalues, subset_size=2)
    >>> found.subset
    (0, 6)
    >>> found.details["guarantee"]
    'exact'
    """
    return searched(lambda U, _, s, __: all_sets(U.shape[1], s), bases, eigenvalues, subset_size, zeta, percentile)


def all_sets(m: int, s: int, method: str = "exhaustive") -> Evaluated:
    """Every candidate."""
    subsets = candidate_subsets(m, s)
    counts = {"pool_size": len(subsets), "sets_scored": len(subsets), "sets_total": len(subsets)}
    return Evaluated(subsets, {"method": method, "guarantee": "exact", "path_exact": True, **counts})
