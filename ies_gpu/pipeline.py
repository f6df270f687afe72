"""The stages from a Laplacian to the chosen set, each timed, audited, and repeated where memory ran out."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from .audit import audit_scores, audit_tangents, audited
from .criterion import score_pass
from .diffusion import Embedding, eigenmap, start_vector
from .eigsh import SOLVERS
from .entry import Prepared
from .rmetric import tangents
from .search import SearchResult, choose
from .stages import Run
from .validation import check_choice


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
    return check_choice("the environment variable IES_GPU_SOLVER", os.environ.get("IES_GPU_SOLVER", "auto"), SOLVERS)


def tangent_stage(work: Prepared, d: int, run: Run) -> tuple[Any, Any]:
    """Tangent bases and singular values, audited."""
    backend, laplacian = run.backend, work.laplacian
    with run.log.stage("tangents") as report:
        Y = backend.retried("tangents", partial(work.coordinates.astype, run.arithmetic))
        compute = partial(tangents, Y, laplacian, d, backend, report)
        if not hasattr(laplacian.transition, "indptr"):
            return backend.retried("tangents", compute)
        return audited(
            run, "tangents", "tangent_rows", compute, lambda r: audit_tangents(laplacian, Y, r[0], r[1], backend)
        )


def search_stage(
    bases: Any, eigenvalues: np.ndarray, subsets: np.ndarray, zeta: float | None, percentile: float, run: Run
) -> SearchResult:
    """Scores of all sets, audited; path, regret, choice."""
    backend = run.backend
    with run.log.stage("search") as report:
        compute = partial(score_pass, bases, subsets, report)
        scores = audited(run, "search", "score_block", compute, lambda r: audit_scores(bases, subsets, r, backend))
        found = backend.retried("search", partial(choose, bases, eigenvalues, subsets, scores, zeta, percentile))
    if not found.passed:
        run.log.warn(
            f"no set on the path has a regret whose percentile {percentile:g} is not positive; the set for zeta = 0 is "
            "returned. Try a larger subset_size, another bandwidth or a lower percentile"
        )
    return found
