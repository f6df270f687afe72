"""A sampled check of the fused kernels in every run: seeded rows are computed again by plain code.

Graph, products, tangent bases and scores are checked. The order in space need not be: it only decides what is fast.
The eigensolver's own loops are checked by the residuals, which are computed with the audited products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import Array
from .base import Backend
from .kernels import agreement, plain
from .kernels.arrays import column_sums, row_slots
from .sampling import sample_rows

ROWS = 256


def sampled_rows(n: int, backend: Backend, count: int = ROWS) -> Array:
    """Seeded row numbers, rising."""
    return backend.asarray(sample_rows(n, count, n))


def audit_tangents(laplacian: Any, Y: Array, U: Array, sigma: Array, backend: Backend) -> float:
    """Largest difference over sampled rows between what ``tangent_rows`` gave and plain code.

    A number that is not finite counts in every row, sampled or not.
    """
    xp, sampled = backend.xp, sampled_rows(len(Y), backend)
    P = laplacian.operator.matrix
    per_row = plain.tangent_bytes(Y.shape[1], U.shape[2], laplacian.operator.degree)
    worst = 0.0 if bool(xp.isfinite(U.sum()) & xp.isfinite(sigma.sum())) else float("inf")
    for block in backend.blocks(len(sampled), per_row, "tangents"):
        with block as part:
            rows = sampled[part]
            found = U[rows], sigma[rows] / laplacian.scale
            worst = max(worst, agreement.tangent_rows(P.indptr, P.indices, P.data, Y, rows, *found))
    return worst


def audit_scores(U: Array, subsets: Array, scores: Any, backend: Backend) -> float:
    """Largest difference over sampled points between what ``score_block`` gave and plain code.

    Totals are compared over the sample, and those of two sets over all points.
    """
    xp = backend.xp
    best, best_scores = scores.best, scores.best_scores
    if not bool(xp.isfinite(scores.totals.sum()) & xp.isfinite(best_scores.sum())):
        return float("inf")
    rows = sampled_rows(len(U), backend)
    sets = backend.asarray(subsets)
    per_row = plain.score_bytes(len(subsets), subsets.shape[1], U.shape[2])
    rows = rows[: max(1, int(backend.block_bytes() / per_row))]
    sample = xp.ascontiguousarray(U[rows])
    totals, number, value = xp.zeros(len(sets)), xp.empty(len(rows), dtype=best.dtype), xp.empty(len(rows))
    backend.kernels.score_block(sample, sets, totals, number, value)
    worst = agreement.score_block(sample, sets, totals, best[rows], best_scores[rows])
    return max(worst, audit_totals(U, subsets, scores.totals, backend))


def audit_totals(U: Array, subsets: Array, totals: Array, backend: Backend) -> float:
    """Largest difference of mean scores over all points, of the set with the highest total and of a seeded one.

    They are added up from ``log_volumes``, another way through the same points: plain code on a GPU, and on the CPU a
    loop of its own, because plain code would take longer than what it checks.
    """
    host = backend.to_host(totals) / len(U)
    chosen = np.unique([int(host.argmax()), int(np.random.default_rng(len(U)).integers(len(host)))])
    chosen = chosen[host[chosen] > agreement.SOUND]
    if not len(chosen):
        return 0.0
    sets = backend.asarray(subsets[chosen])
    again = np.zeros(len(chosen))
    kernels = backend.kernels
    for block in backend.blocks(len(U), kernels.table_bytes(len(chosen), subsets.shape[1], U.shape[2]), "search"):
        with block as rows:
            again += backend.to_host(column_sums(kernels.log_volumes(U[rows], sets)))
    return float(np.abs(again / len(U) - host[chosen]).max())


def audit_products(K: Any, backend: Backend) -> float:
    """Largest difference over sampled rows between ``spmm`` and plain code, on a seeded vector."""
    rows = sampled_rows(K.shape[0], backend)
    vector = backend.asarray(np.random.default_rng(K.nnz % 2**32).normal(size=K.shape[1]))
    product = backend.kernels.spmm(K.indptr, K.indices, K.data, vector)
    ends, slots = row_slots(K.indptr, rows)
    worst = agreement.spmm(ends, K.indices[slots], K.data[slots], vector, product[rows])
    return worst if bool(backend.xp.isfinite(product.sum())) else float("inf")


def audit_graph(X: Array, graph: Any, radius: float, backend: Backend) -> float:
    """Largest relative difference over sampled rows between degrees and sums of distances and plain code.

    The rows of the graph have their diagonal.
    """
    rows = backend.to_host(sampled_rows(len(X), backend, 32)).tolist()
    where = backend.asarray(np.array([rows, [row + 1 for row in rows]]))
    ends = backend.to_host(graph.indptr[where])
    found = [graph.data[first:last] for first, last in ends.T.tolist()]
    return agreement.graph_rows(X, rows, found, radius)
