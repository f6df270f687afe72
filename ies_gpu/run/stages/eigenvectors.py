"""The stage that turns a Laplacian into a diffusion map."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...embedding.diffusion import Embedding, eigenmap, start_vector
from ...embedding.laplacian import Laplacian
from ..log import Report
from ..stage import Run, Stage, shallow
from .graph import Graph


def eigenvectors(run: Run, report: Report, graph: Graph, laplacian: Laplacian) -> Embedding:
    """The diffusion map, with eigenvalues and residuals on the host."""
    options, backend = run.options, run.backend
    start = start_vector(graph.n_input, options.random_state)[graph.points][graph.order]
    found = eigenmap(
        laplacian,
        options.n_components,
        backend.asarray(start),
        options.tol,
        ordered=graph.spatial if graph.storage.get("multilevel_fits", True) else False,
        progress=report,
        warn=run.log.warn,
    )
    known = ("eigenvalues", "residuals", "gaps", "angles")
    return replace(found, **{name: backend.to_host(getattr(found, name)) for name in known})


def unpacked_embedding(run: Run, content: dict[str, Any], *_: Any) -> Embedding:
    return Embedding(**content | {"coordinates": run.backend.asarray(content["coordinates"])})


EIGENVECTORS = Stage(
    "eigenvectors", eigenvectors, after="graph",
    pack=lambda run, found: shallow(found), unpack=unpacked_embedding,
)  # fmt: skip
