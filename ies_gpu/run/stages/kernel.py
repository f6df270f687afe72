"""The kernel of ordered points, stored as the memory allows: as CSR or as tiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...backend import backend_of
from ...backend.array import Array
from ...embedding.cost import (
    WORDS,
    Size,
    csr_bytes,
    least_bytes,
    less_memory,
    over_limit,
    plan,
    rounded,
    slow,
    storage_on_gpu,
)
from ...embedding.graph import in_units_of, knn_graph, ordered_radius_graph
from ...embedding.laplacian import gaussian_of_distances, with_unit_diagonal
from ...embedding.local import default_neighbors, local_kernel
from ...embedding.order import is_mapped
from ...embedding.tiles import TiledKernel
from ...embedding.transition import Kernel, SparseKernel
from ...findings import option, warning
from ..audit import audit_graph
from ..log import Report
from ..options import is_local
from ..stage import Run, Stage

SPREAD = 1.05  # the mean degree comes from a sample
MANY = 10_000  # points from which on computing all pairs for every product is announced


def kernel_of(run: Run, X: Array, degree: float) -> tuple[Kernel, dict[str, Any]]:
    """The Gaussian kernel of ordered points, stored as the memory allows, and how: for ``diagnostics``."""
    if run.options.nearest:
        return run.stage(NEAREST, X), {}
    if run.backend.device == "cpu":
        chosen, facts = planned(run, X, degree)
    else:
        chosen, facts = on_device(run, len(X), degree)
    if chosen in ("tiles", "recomputed"):
        return run.stage(TILES, X, chosen == "tiles"), facts
    radius, bandwidth = run.options.radius, run.options.bandwidth
    if run.options.storage == "float32":  # whose range is short: lengths near 1, by a power of two, so no digit changes
        X, radius, unit = in_units_of(radius, X)
        bandwidth = bandwidth / unit
    kernel = run.stage(KERNEL, run.stage(EDGES, X, radius), bandwidth)
    if run.backend.device == "cpu":  # what the rows of the graph were computed in
        run.backend.free_cache()
    return kernel, facts


def on_device(run: Run, n: int, degree: float) -> tuple[str, dict[str, Any]]:
    """On a GPU: CSR where that fits into half the memory budget, else tiles; computing these anew is announced."""
    backend, budget = run.backend, run.backend.memory_budget()
    needed = 2 * csr_bytes(n, degree, run.options.stored_bytes)
    chosen = storage_on_gpu(n, degree, run.options.stored_bytes, budget)
    if chosen == "recomputed" and n >= MANY:
        whose = "half of the free memory" if run.options.memory_limit is None else option("memory_limit")
        text = (
            f"{whose} is {budget / 1e9:.2f} GB on {backend.device}, so the kernel, {needed / 2e9:.2f} GB as a sparse "
            "matrix, is computed anew for every product: many times as long as with enough memory"
        )
        enough = rounded(needed) if needed <= backend.free_memory() else None
        run.log.say_now(warning("memory.slow", text, less_memory(enough)))
    return chosen, {"kernel": WORDS[chosen]}


def planned(run: Run, X: Array, degree: float) -> tuple[str, dict[str, Any]]:
    """How to store the kernel on the CPU; what takes much longer than with more memory is announced."""
    options, limit = run.options, run.backend.memory_budget()
    d, m = options.intrinsic_dim, options.n_components
    columns = 0 if is_mapped(X) else X.shape[1]  # the pages of a mapped file are the system's
    size = Size(len(X), columns, SPREAD * len(X) * (degree + 1), m, d, max(d, 1), options.stored_bytes)
    chosen = plan(size, limit)
    if chosen is None:
        raise over_limit(size, limit, 1.02 * least_bytes(size), options.memory_limit is not None)
    if chosen.slow:
        run.log.say_now(slow(chosen, size, limit, options.memory_limit is not None))
    facts: dict[str, Any] = {"kernel": WORDS[chosen.storage], "multilevel_fits": chosen.multilevel}
    facts |= {"planned_bytes": int(chosen.bytes), "expected_factor": round(chosen.factor, 2)}
    return chosen.storage, facts


def nearest(run: Run, report: Report, X: Array) -> SparseKernel:
    """The kernel on the nearest neighbours of ordered points, at one bandwidth or at local ones."""
    options = run.options
    k = default_neighbors(len(X)) if options.n_neighbors is None else min(options.n_neighbors, len(X) - 1)
    if is_local(options.bandwidth):
        kernel: SparseKernel = local_kernel(X, k)
    else:
        graph = gaussian_of_distances(knn_graph(X, n_neighbors=k), options.bandwidth)
        kernel = SparseKernel(with_unit_diagonal(graph))
    kernel.matrix.data = kernel.matrix.data.astype(options.storage, copy=False)
    return kernel


def tiled(run: Run, report: Report, X: Array, store: bool) -> TiledKernel:
    """The kernel of ordered points as tiles, kept or computed anew for each product."""
    options = run.options
    return TiledKernel(X, bandwidth=options.bandwidth, radius=options.radius, store=store, progress=report)


def edges(run: Run, report: Report, X: Array, radius: float) -> Array:
    """Distances within the radius, the diagonal included."""
    return ordered_radius_graph(X, radius, diagonal=True, storage=run.options.storage, progress=report)


def rows_of(graph: Any, rows: list[int]) -> list[Any]:
    """The distances of some rows of a CSR."""
    backend = backend_of(graph.data)
    where = backend.asarray(np.array([rows, [row + 1 for row in rows]]))
    ends = backend.to_host(graph.indptr[where])
    return [graph.data[first:last] for first, last in ends.T.tolist()]


TILES = Stage("graph", tiled)
NEAREST = Stage("graph", nearest)
EDGES = Stage(
    "graph", edges, kernel="tile_graph",
    difference=lambda run, graph, X, radius: audit_graph(X, partial(rows_of, graph), radius, run.backend),
)  # fmt: skip
KERNEL = Stage("kernel", lambda run, report, graph, bandwidth: SparseKernel(gaussian_of_distances(graph, bandwidth)))
