"""How far results are from plain code, and audits: seeded rows of what a run computed, once more by plain code.

A difference is the largest one, infinite where a number is not finite. Eigenvectors and best sets are compared by what
defines them, not number by number. In a run, graph, products, tangent bases and scores are audited. The order in space
need not be: it only decides what is fast. The eigensolver's own loops are checked by residuals of audited products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .array import Array, column_sums, namespace, on_host, row_slots, sample_rows
from .base import Backend
from .kernels import plain

ROWS = 256  # of each audit
SOUND = -12.0  # below this the logarithm of a volume is the logarithm of rounding
PIECE_BYTES = 1 << 20, 8 << 20  # of differences between points, at least and at most


def largest(*errors: Any) -> float:
    """Return the largest entry of some arrays, 0 if all are empty; NaN counts as infinite. It waits once."""
    found = [error.max() for error in errors if error.size]
    if not found:
        return 0.0
    worst = float(namespace(errors[0]).stack(found).max())
    return worst if math.isfinite(worst) else math.inf


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return how far arrays are from others, in units of the largest entry of each; integers must be the same."""
    errors = []
    for ours, theirs in zip(found, expected, strict=True):
        if not hasattr(theirs, "dtype"):
            continue
        if ours.shape != theirs.shape:
            return math.inf
        xp, exact = namespace(theirs), theirs.dtype.kind != "f"
        apart = xp.abs(ours.astype("float64") - theirs)
        if apart.size:
            unit = xp.abs(theirs).max().astype("float64")
            errors.append(xp.where(apart > 0, math.inf, apart) if exact else apart / xp.where(unit > 0, unit, 1))
    return largest(*errors)


def eigenpair_difference(H: Array, U: Array, sigma: Array, expected: Array) -> float:
    """Return how far U (r, m, d) is from orthonormal eigenvectors of H with the expected eigenvalues (r, d).

    In units of the largest one; signs and repeated values do no harm.
    """
    xp = namespace(H)
    scale = xp.where(expected[:, :1] > 0, expected[:, :1], 1)
    residual = xp.abs(xp.matmul(H, U) - U * sigma[:, None, :]) / scale[:, :, None]
    gram = xp.abs(xp.matmul(U.transpose(0, 2, 1), U) - xp.eye(U.shape[2], dtype=U.dtype))
    return largest(residual, gram, xp.abs(sigma - expected) / scale)


def tangent_difference(
    indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, U: Array, sigma: Array
) -> float:
    """Return how far U (r, m, d) and sigma (r, d) of some rows are from right; LAPACK says what is."""
    H = plain.cometric_rows(indptr, indices, weights, Y, rows)
    expected = plain.leading_eigenvectors(on_host(H), U.shape[2])[1]
    return eigenpair_difference(H, U, sigma, namespace(H).asarray(expected))


def score_difference(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> float:
    """Return how far mean scores of the sound sets, best volumes and volumes of the best sets are from right.

    Sets with nearly equal scores may change places, so the numbers of the best sets are not compared; nor are scores
    near log 0, but the volumes they are logarithms of.
    """
    xp, table = namespace(U), plain.log_volumes(U, subsets)
    volumes, sound = xp.exp(table.max(axis=1)), table.min(axis=0) > SOUND
    means, own = xp.abs(totals - table.sum(axis=0))[sound] / len(U), table[xp.arange(len(U)), best]
    return largest(means, xp.abs(xp.exp(best_score) - volumes), xp.abs(xp.exp(own) - volumes))


def product_difference(indptr: Array, indices: Array, data: Array, V: Array, product: Any) -> float:
    """Return how far a product with a matrix without negative entries is off, relative to that of absolute values."""
    xp = namespace(V)
    scale = plain.spmm(indptr, indices, data, xp.abs(V))
    apart = xp.abs(plain.spmm(indptr, indices, data, V) - product)
    return largest(apart / xp.where(scale > 0, scale, 1))


def graph_difference(X: Array, rows: Array, ends: Array, distances: Array, radius: float) -> float:
    """Return how far number and sum of some points' distances to neighbours, themselves included, are off.

    Those of the k-th row begin at ``ends[k]``.
    """
    xp, counts, chosen = namespace(X), ends[1:] - ends[:-1], X[rows][:, None]
    fewest, most, total = (xp.zeros(len(rows)) for _ in range(3))
    step = max(1, min(max(PIECE_BYTES[0], X.nbytes), PIECE_BYTES[1]) // (8 * X.shape[1] * len(rows)))
    for first in range(0, len(X), step):  # in pieces: the points may be a large mapped file
        apart = X[first : first + step] - chosen
        apart /= radius  # in its own memory
        apart *= apart
        lengths = xp.sqrt(apart.sum(axis=2))
        inside = lengths <= 1 - 1e-12  # a pair at the very radius may fall on either side of it by rounding
        fewest += inside.astype("float64").sum(axis=1)
        most += (lengths <= 1 + 1e-12).astype("float64").sum(axis=1)
        total += xp.where(inside, lengths, 0).sum(axis=1)
    # the rest on the host, by one transfer: NVRTC would compile a dozen kernels for it
    parts = fewest, most, total, counts, ends, distances
    joined = on_host(xp.concatenate([part.astype("float64") for part in parts]))
    fewest, most, total, counts, starts, distances = np.split(joined, np.cumsum([len(rows)] * 4 + [len(rows) + 1]))
    own = np.add.reduceat(distances / radius, starts[:-1].astype(int))
    apart = np.abs(total + (counts - fewest) - own) / np.maximum(counts, 1)
    return largest((fewest - counts) / most, (counts - most) / most, apart)


# --- audits ---


def sampled_rows(n: int, backend: Backend, count: int = ROWS) -> Array:
    """Return seeded row numbers, rising."""
    return backend.asarray(sample_rows(n, count, n))


def audit_tangents(laplacian: Any, Y: Array, U: Array, sigma: Array, backend: Backend) -> float:
    """Return the largest difference over sampled rows; numbers that are not finite count in every row."""
    xp, sampled = backend.xp, sampled_rows(len(Y), backend)
    P = laplacian.operator.matrix
    per_row = plain.tangent_bytes(Y.shape[1], U.shape[2], laplacian.operator.degree)
    worst = 0.0 if bool(xp.isfinite(U.sum()) & xp.isfinite(sigma.sum())) else math.inf
    for block in backend.blocks(len(sampled), per_row, "tangents"):
        with block as part:
            rows = sampled[part]
            found = U[rows], sigma[rows] / laplacian.scale
            worst = max(worst, tangent_difference(P.indptr, P.indices, P.data, Y, rows, *found))
    return worst


def audit_scores(U: Array, subsets: Array, scores: Any, backend: Backend) -> float:
    """Return the largest difference over sampled points, and of mean scores over all points of two sets.

    Those of the best set and of a seeded one are added up from ``log_volumes``, another way through the same points: on
    the CPU plain code would take longer than what it checks.
    """
    xp, kernels, size, d = backend.xp, backend.kernels, subsets.shape[1], U.shape[2]
    if not bool(xp.isfinite(scores.totals.sum()) & xp.isfinite(scores.best_scores.sum())):
        return math.inf
    sets, per_row = backend.asarray(subsets), plain.score_bytes(len(subsets), size, d)
    rows = sampled_rows(len(U), backend)[: max(1, int(backend.block_bytes() / per_row))]
    sample = xp.ascontiguousarray(U[rows])
    totals, number, value = xp.zeros(len(sets)), xp.empty(len(rows), dtype=scores.best.dtype), xp.empty(len(rows))
    kernels.score_block(sample, sets, totals, number, value)
    worst = score_difference(sample, sets, totals, scores.best[rows], scores.best_scores[rows])
    means = backend.to_host(scores.totals) / len(U)
    chosen = np.unique([int(means.argmax()), int(np.random.default_rng(len(U)).integers(len(means)))])
    chosen = chosen[means[chosen] > SOUND]
    if not len(chosen):
        return worst
    few, again = backend.asarray(subsets[chosen]), np.zeros(len(chosen))
    for block in backend.blocks(len(U), kernels.table_bytes(len(chosen), size, d), "search"):
        with block as part:
            again += backend.to_host(column_sums(kernels.log_volumes(U[part], few)))
    return max(worst, float(np.abs(again / len(U) - means[chosen]).max()))


def audit_products(K: Any, backend: Backend) -> float:
    """Return the largest difference over sampled rows between ``spmm`` and plain code, on a seeded vector."""
    rows = sampled_rows(K.shape[0], backend)
    vector = backend.asarray(np.random.default_rng(K.nnz % 2**32).normal(size=K.shape[1]))
    product = backend.kernels.spmm(K.indptr, K.indices, K.data, vector)
    ends, slots = row_slots(K.indptr, rows)
    worst = product_difference(ends, K.indices[slots], K.data[slots], vector, product[rows])
    return worst if bool(backend.xp.isfinite(product.sum())) else math.inf


def audit_graph(X: Array, graph: Any, radius: float, backend: Backend) -> float:
    """Return the largest relative difference of degrees and sums of distances over sampled rows, with diagonal."""
    rows = sampled_rows(len(X), backend, 32)
    ends, slots = row_slots(graph.indptr, rows)
    return graph_difference(X, rows, ends, graph.data[slots], radius)
