"""The stages from a Laplacian to the chosen set, each timed, audited, and repeated where memory ran out."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..choice.criterion import Scores, score_pass
from ..choice.rmetric import tangents
from ..choice.search import Evaluated, SearchResult, choose, evaluate
from ..embedding.diffusion import Embedding, eigenmap, start_vector
from ..embedding.eigensolvers.library import SOLVERS
from ..validation import check_choice
from .audit import audit_scores, audit_tangents, audited
from .inputs import Prepared
from .log import Run


class Ask(NamedTuple):
    """What is searched for, and how."""

    method: str
    subset_size: int
    random_state: int


def embed(work: Prepared, m: int, random_state: int, tol: float, run: Run) -> Prepared:
    """The eigenvectors, unless they came with the input."""
    if work.coordinates is not None:
        return work
    backend = run.backend
    start = start_vector(work.n_input, random_state)[work.points][work.order]
    options: dict[str, Any] = {"ordered": work.spatial, "solver": chosen_solver()}
    with run.log.stage("eigenvectors") as report:

        def solve() -> Embedding:
            first = backend.asarray(start)
            return eigenmap(work.laplacian, m, first, tol, **options, progress=report, warn=run.log.warn)

        found = backend.retried("eigenvectors", solve)
    return work._replace(
        coordinates=found.coordinates,
        eigenvalues=backend.to_host(found.eigenvalues),
        residuals=backend.to_host(found.residuals),
        solver=found.info,
    )


def chosen_solver() -> str:
    """``auto``, or what the environment variable IES_GPU_SOLVER asks for: a way to compare, like IES_GPU_KERNELS."""
    return check_choice("the environment variable IES_GPU_SOLVER", os.environ.get("IES_GPU_SOLVER") or "auto", SOLVERS)


def tangent_stage(work: Prepared, d: int, run: Run) -> tuple[Any, Any]:
    """Tangent bases and singular values, audited."""
    backend, laplacian = run.backend, work.laplacian
    with run.log.stage("tangents") as report:
        Y = backend.retried("tangents", partial(work.coordinates.astype, run.arithmetic))
        compute = partial(tangents, Y, laplacian, d, backend, report)
        if not laplacian.operator.has_matrix:
            return backend.retried("tangents", compute)
        return audited(
            run, "tangents", "tangent_rows", compute, lambda r: audit_tangents(laplacian, Y, r[0], r[1], backend)
        )


def search_stage(
    bases: Any, eigenvalues: np.ndarray, ask: Ask, zeta: float | None, percentile: float, run: Run
) -> SearchResult:
    """The sets that the search scores, audited; path, regret, choice."""
    backend = run.backend
    with run.log.stage("search") as report:

        def compute() -> tuple[Evaluated, Scores]:
            sets = evaluate(ask.method, bases, eigenvalues, ask.subset_size, zeta, ask.random_state)
            return sets, score_pass(bases, sets.subsets, report)

        sets, scores = audited(
            run, "search", "score_block", compute, lambda r: audit_scores(bases, r[0].subsets, r[1], backend)
        )
        found = backend.retried("search", partial(choose, bases, eigenvalues, sets, scores, zeta, percentile))
    if found.details.get("gap"):
        run.log.warn(
            "branch and bound stopped at its limit: the loss of another set may be higher by up to "
            f"{found.details['gap']:.3g}. Lower n_components or subset_size, or call search_branch_and_bound with a "
            "larger node_limit"
        )
    if not found.passed:
        run.log.warn(
            f"no set on the path has a regret whose percentile {percentile:g} is not positive; the set for zeta = 0 is "
            "returned. Try a larger subset_size, another bandwidth or a lower percentile"
        )
    return found
