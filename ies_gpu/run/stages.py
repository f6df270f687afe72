"""The stages after the graph: eigenvectors, tangent bases, and the search for the set."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

from ..choice.criterion import Scores, score_pass
from ..choice.regularization import Segment
from ..choice.rmetric import tangents
from ..choice.search import Evaluated, SearchResult, choose, evaluate
from ..embedding.diffusion import Embedding, eigenmap, start_vector
from ..embedding.laplacian import Laplacian
from .audit import audit_scores, audit_tangents
from .graph import Graph
from .log import Report
from .options import chosen_solver
from .stage import Run, Stage


class Tangents(NamedTuple):
    """Tangent bases (n, m, d) of the co-metric and its leading singular values (n, d), in the order of the device."""

    bases: Any
    singular_values: Any


def eigenvectors(run: Run, report: Report, graph: Graph, laplacian: Laplacian) -> Embedding:
    """The diffusion map, with eigenvalues and residuals on the host."""
    options, backend = run.options, run.backend
    start = start_vector(graph.n_input, options.random_state)[graph.points][graph.order]
    found = eigenmap(
        laplacian,
        options.n_components,
        backend.asarray(start),
        options.tol,
        ordered=graph.spatial,
        solver=chosen_solver(),
        progress=report,
        warn=run.log.warn,
    )
    return replace(found, eigenvalues=backend.to_host(found.eigenvalues), residuals=backend.to_host(found.residuals))


def tangent_bases(run: Run, report: Report, laplacian: Laplacian, embedding: Embedding) -> Tangents:
    """U and sigma at every point."""
    Y = embedding.coordinates.astype(run.options.arithmetic, copy=False)
    return Tangents(*tangents(Y, laplacian, run.options.intrinsic_dim, run.backend, report))


def tangent_difference(run: Run, found: Tangents, laplacian: Laplacian, embedding: Embedding) -> float | None:
    """A sample against plain code; tiles are plain code already."""
    if not laplacian.operator.has_matrix:
        return None
    Y = embedding.coordinates.astype(run.options.arithmetic, copy=False)
    return audit_tangents(laplacian, Y, *found, run.backend)


def scored(run: Run, report: Report, tangents: Tangents, embedding: Embedding) -> tuple[Evaluated, Scores]:
    """The sets that the search scores."""
    options, bases = run.options, tangents.bases
    sets = evaluate(
        options.search, bases, embedding.eigenvalues, options.subset_size, options.zeta_given, options.random_state
    )
    return sets, score_pass(bases, sets.subsets, report)


def searched(run: Run, report: Report, tangents: Tangents, embedding: Embedding) -> SearchResult:
    """Path, regret and choice among the sets that the search scores."""
    options = run.options
    sets, scores = run.stage(SCORES, tangents, embedding)
    found = choose(tangents.bases, embedding.eigenvalues, sets, scores, options.zeta_given, options.percentile)
    if found.details.get("gap"):
        run.log.warn(
            "branch and bound stopped at its limit: the loss of another set may be higher by up to "
            f"{found.details['gap']:.3g}. Lower n_components or subset_size, or call search_branch_and_bound with a "
            "larger node_limit"
        )
    if not found.passed:
        run.log.warn(
            f"for every set on the path, percentile {options.percentile:g} of the regret is positive; the set for "
            "zeta = 0 is returned. Try a larger subset_size, another bandwidth or a lower percentile"
        )
    return found


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def unpacked_embedding(run: Run, content: dict[str, Any], *_: Any) -> Embedding:
    return Embedding(**content | {"coordinates": run.backend.asarray(content["coordinates"])})


def packed_search(run: Run, found: SearchResult) -> dict[str, Any]:
    return shallow(found) | {"path": [shallow(segment) for segment in found.path]}


def unpacked_search(run: Run, content: dict[str, Any], *_: Any) -> SearchResult:
    path = tuple(Segment(**segment) for segment in content["path"])
    return SearchResult(**content | {"path": path, "regrets": run.backend.asarray(content["regrets"])})


EIGENVECTORS = Stage(
    "eigenvectors", eigenvectors, after="graph",
    pack=lambda run, found: shallow(found), unpack=unpacked_embedding,
)  # fmt: skip
TANGENTS = Stage(
    "tangents", tangent_bases, kernel="tangent_rows", difference=tangent_difference, precision="arithmetic",
    pack=lambda run, found: found._asdict(), after="eigenvectors",
    unpack=lambda run, content, *_: Tangents(*(run.backend.asarray(content[name]) for name in Tangents._fields)),
)  # fmt: skip
SCORES = Stage(
    "search", scored, kernel="score_block", precision="arithmetic",
    difference=lambda run, found, tangents, _: audit_scores(tangents.bases, found[0].subsets, found[1], run.backend),
)  # fmt: skip
SEARCH = Stage("search", searched, pack=packed_search, unpack=unpacked_search, after="tangents")
