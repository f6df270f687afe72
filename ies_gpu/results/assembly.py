"""How a result is put together from the stages of a run, back in the user's order of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import to_device
from ..backend.array import Array
from ..backend.kernels import plain
from ..choice.criterion import log_volumes, penalties
from ..choice.search import SearchResult, ranked
from ..choice.stray import stray_coordinates
from ..embedding.diffusion import Embedding
from ..parameters.verdict import doubts_of, thin_points
from ..run.fingerprint import versions
from ..run.log import Report
from ..run.stage import Run, Stage
from ..run.stages.graph import Graph
from ..run.stages.tangents import Tangents
from .selection import Ranking, Selection

KEEP_BYTES = 512 << 20  # tangent bases up to here are kept in the result unless asked otherwise


def assembled(
    run: Run, report: Report, graph: Graph, embedding: Embedding, tangents: Tangents, found: SearchResult
) -> Selection:
    """The result, in the user's order of points and on the user's device."""
    back = run.backend.asarray(np.argsort(graph.order))
    bases, sigma = tangents
    keep = bases.nbytes <= KEEP_BYTES if run.options.keep_bases is None else run.options.keep_bases

    def returned(array: Array) -> Any:
        return to_device(array[back], run.home)

    values = embedding.eigenvalues
    volumes = log_volumes(bases, np.array([found.subset], dtype=np.int32))[:, 0]
    order = ranked(found.subsets, found.scores, values, found.zeta)
    losses = found.scores - found.zeta * penalties(found.subsets, values)
    return Selection(
        subset=found.subset,
        search_order=found.search_order,
        zeta=found.zeta,
        zeta_interval=found.zeta_interval,
        coordinates=returned(embedding.coordinates),
        eigenvalues=values,
        laplace_beltrami_eigenvalues=None if graph.bandwidth is None else 4.0 / graph.bandwidth**2 * values,
        path=found.path,
        regrets=returned(found.regrets),
        regret_percentiles=found.percentiles,
        ranking=Ranking(found.subsets[order], losses[order], found.scores[order]),
        log_volumes=returned(volumes),
        bases=returned(bases) if keep else None,
        singular_values=returned(sigma),
        points=graph.points,
        diagnostics=diagnostics_of(graph, embedding, sigma, volumes, found, run),
    )


def diagnostics_of(
    graph: Graph, embedding: Embedding, sigma: Array, volumes: Array, found: SearchResult, run: Run
) -> dict[str, Any]:
    """How the result came about, as plain values."""
    gaps = -run.backend.xp.diff(sigma, axis=1)
    stray, rows = stray_coordinates(embedding.coordinates, run.backend)
    return {
        **run.backend.describe(),
        "residuals": [float(r) for r in embedding.residuals],
        "solver": embedding.info,
        "graph_components": graph.components,
        "mean_degree": graph.mean_degree,
        "approximations": list(graph.approximations),
        "storage": graph.storage | {"memory_limit": run.backend.memory_budget()},
        "floored_points": int((volumes <= 0.5 * np.log(plain.FLOOR) + 1e-9).sum()),
        "degenerate_points": float((gaps <= 1e-6 * sigma[:, :1]).any(axis=1).mean()) if gaps.size else 0.0,
        "thin_points": thin_points(sigma),
        "stray_coordinates": stray,
        "stray_points": sorted(graph.points[graph.order[rows]].tolist()),
        "regret_passed": found.passed,
        "sets_scored": found.details["sets_scored"],
        "search": found.details,
        "audit": run.audit,
        "versions": versions(),
    }


def told(selection: Selection, run: Run, automatic: dict[str, Any] | None) -> Selection:
    """Warn about what is doubtful in the result, and record what is known at the end of the run."""
    for message in doubts_of(selection.diagnostics, selection.subset, len(selection.points), run.options):
        run.log.warn(message)
    run.log.keep(run.backend.complaints())
    selection.diagnostics.update(run.results(), automatic=automatic)
    return selection


RESULT = Stage("result", assembled)
