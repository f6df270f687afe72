"""From a map and its tangent spaces to the chosen coordinates: the step of a run around Algorithm 2."""

from __future__ import annotations

from typing import Any

from ..backend import active_backend, backend_of
from ..backend.steps import Do, call, step
from ..embedding.diffusion import Embedding
from ..findings import option, tell, warning
from .regularization import Segment
from .rmetric import Tangents
from .search import SearchResult, independent_coordinates, renumber
from .stray import candidates


def packed_search(found: SearchResult) -> dict[str, Any]:
    """Return what a checkpoint saves of a search."""
    return {**vars(found), "path": [dict(vars(segment)) for segment in found.path]}


def unpacked_search(content: dict[str, Any], *_: Any, **__: Any) -> SearchResult:
    """Return the search that a checkpoint saved."""
    path = tuple(Segment(**segment) for segment in content["path"])
    return SearchResult(**content | {"path": path, "regrets": active_backend().asarray(content["regrets"])})


@step("search", calls=True, pack=packed_search, unpack=unpacked_search)
def choose_coordinates(
    tangents: Tangents,
    embedding: Embedding,
    *,
    subset_size: int,
    zeta: float | None = None,
    percentile: float = 75.0,
    search: str = "exhaustive",
    random_state: int = 0,
    do: Do = call,
) -> SearchResult:
    """Choose among the coordinates of a map that are not stray, by Algorithm 2; what is doubtful is told of."""
    bases, values, backend = tangents.bases, embedding.eigenvalues, backend_of(tangents.bases)
    kept = candidates(embedding.vectors, subset_size)
    if len(kept) < len(values):
        bases, values = bases[:, backend.asarray(kept)], values[kept]
    limits = {"random_state": random_state} if search == "submodular" else {}
    found = independent_coordinates(bases, values, subset_size, zeta, percentile, search=search, do=do, **limits)
    found = renumber(found, kept)
    if found.details.get("gap"):
        text = "branch and bound stopped at its limit: the loss of another set may be higher by up to "
        advice = f"lower {option('n_components')} or {option('subset_size')}, or call search_branch_and_bound with a "
        advice += "larger node_limit"
        tell(warning("search.gap", f"{text}{found.details['gap']:.3g}", advice))
    if not found.passed:
        text = f"for every set on the path, percentile {percentile:g} of the regret is positive; the set for "
        advice = (
            f"try a larger {option('subset_size')}, another {option('bandwidth')} or a lower {option('percentile')}"
        )
        tell(warning("search.regret", f"{text}zeta = 0 is returned", advice))
    return found
