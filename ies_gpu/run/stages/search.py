"""The stage that scores the sets and chooses one: path, regret, zeta."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...choice.criterion import CandidateSets, Scores
from ...choice.regularization import Segment
from ...choice.search import SearchResult, independent_coordinates, renumber
from ...choice.stray import candidates
from ...embedding.diffusion import Embedding
from ...findings import option, warning
from ..audit import audit_scores
from ..log import Report
from ..stage import Run, Stage, shallow
from .tangents import Tangents


def scored(run: Run, report: Report, step: Any, *arguments: Any) -> tuple[CandidateSets, Scores]:
    """The sets that the search names, with their scores."""
    return step(*arguments, report)


def searched(run: Run, report: Report, tangents: Tangents, embedding: Embedding) -> SearchResult:
    """Path, regret and choice among the sets that the search scores, none of them with a stray coordinate."""
    options, bases, values = run.options, tangents.bases, embedding.eigenvalues
    kept = candidates(embedding.coordinates, options.subset_size, run.backend)
    if len(kept) < len(values):
        bases, values = bases[:, run.backend.asarray(kept)], values[kept]
    limits = {"random_state": options.random_state} if options.search == "submodular" else {}
    found = independent_coordinates(
        bases, values, options.subset_size, options.zeta_given, options.percentile,
        search=options.search, do=partial(run.stage, SCORES), **limits,
    )  # fmt: skip
    found = renumber(found, kept)
    if found.details.get("gap"):
        text = "branch and bound stopped at its limit: the loss of another set may be higher by up to "
        advice = f"lower {option('n_components')} or {option('subset_size')}, or call search_branch_and_bound with a "
        advice += "larger node_limit"
        run.log.warn(warning("search.gap", f"{text}{found.details['gap']:.3g}", advice))
    if not found.passed:
        text = f"for every set on the path, percentile {options.percentile:g} of the regret is positive; the set for "
        advice = (
            f"try a larger {option('subset_size')}, another {option('bandwidth')} or a lower {option('percentile')}"
        )
        run.log.warn(warning("search.regret", f"{text}zeta = 0 is returned", advice))
    return found


def packed_search(run: Run, found: SearchResult) -> dict[str, Any]:
    return shallow(found) | {"path": [shallow(segment) for segment in found.path]}


def unpacked_search(run: Run, content: dict[str, Any], *_: Any) -> SearchResult:
    path = tuple(Segment(**segment) for segment in content["path"])
    return SearchResult(**content | {"path": path, "regrets": run.backend.asarray(content["regrets"])})


SCORES = Stage(
    "search", scored, kernel="score_block", precision="arithmetic",
    difference=lambda run, found, _, bases, *__: audit_scores(bases, found[0].subsets, found[1], run.backend),
)  # fmt: skip
SEARCH = Stage("search", searched, pack=packed_search, unpack=unpacked_search, after="tangents")
