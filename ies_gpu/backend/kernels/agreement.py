"""How far the results of a kernel are from plain code: for the guard of the CUDA kernels, the audits and the self-test.

Each function takes what a kernel was given and what it gave, and returns the largest difference, infinite where a
number is not finite. Eigenvectors and best sets are compared by what defines them, not number by number.
"""

from __future__ import annotations

import math
from typing import Any

from ..array import Array
from . import plain
from .arrays import namespace, on_host

SOUND = -12.0  # below this the logarithm of a volume is the logarithm of rounding
PIECE_BYTES = 8 << 20


def largest(*errors: Any) -> float:
    """The largest entry of some arrays, 0 if all are empty; NaN counts as infinite."""
    found = [float(error.max()) for error in errors if error.size]
    return max(found, default=0.0) if all(map(math.isfinite, found)) else math.inf


def eigenpairs(H: Array, U: Array, sigma: Array, expected: Array) -> float:
    """How far U (r, m, d) is from orthonormal eigenvectors of H with the expected eigenvalues (r, d).

    The residual ``|H u - sigma u|``, ``|U'U - I|`` and the eigenvalues, in units of the largest one: signs and repeated
    values do no harm.
    """
    xp = namespace(H)
    scale = xp.where(expected[:, :1] > 0, expected[:, :1], 1)
    residual = xp.abs(xp.matmul(H, U) - U * sigma[:, None, :]) / scale[:, :, None]
    gram = xp.abs(xp.matmul(U.transpose(0, 2, 1), U) - xp.eye(U.shape[2], dtype=U.dtype))
    return largest(residual, gram, xp.abs(sigma - expected) / scale)


def tangent_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, U: Array, sigma: Array) -> float:
    """U (r, m, d) and sigma (r, d) that ``tangent_rows`` gave for some rows; LAPACK says what is right."""
    H = plain.cometric_rows(indptr, indices, weights, Y, rows)
    expected = plain.leading_eigenvectors(on_host(H), U.shape[2])[1]
    return eigenpairs(H, U, sigma, namespace(H).asarray(expected))


def volumes(scores: Array, expected: Array) -> float:
    """Scores by the volumes they are the logarithms of: near 0 those of equal sets differ by rounding."""
    xp = namespace(scores)
    return largest(xp.abs(xp.exp(scores) - xp.exp(expected)))


def score_block(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> float:
    """What ``score_block`` gave for all points of U: mean scores of the sound sets, best volumes, volumes of best sets.

    Sets with nearly equal scores may change places, so the numbers of the best sets are not compared.
    """
    xp = namespace(U)
    table = plain.log_volumes(U, subsets)
    highest, sound = table.max(axis=1), table.min(axis=0) > SOUND
    means = xp.abs(totals - table.sum(axis=0))[sound] / len(U)
    return max(largest(means), volumes(best_score, highest), volumes(table[xp.arange(len(U)), best], highest))


def spmm(indptr: Array, indices: Array, data: Array, V: Array, product: Any) -> float:
    """A product with a matrix that has no negative entries, relative to that of absolute values."""
    xp = namespace(V)
    scale = plain.spmm(indptr, indices, data, xp.abs(V))
    difference = xp.abs(plain.spmm(indptr, indices, data, V) - product)
    return largest(difference / xp.where(scale > 0, scale, 1))


def graph_rows(X: Array, rows: list[int], distances: list[Array], radius: float) -> float:
    """The distances from some points to their neighbours, themselves included: how many they are, and their sums."""
    xp = namespace(X)
    # a pair at the very radius may fall on either side of it by rounding
    edges, facts = xp.asarray([1 - 1e-12, 1 + 1e-12]), []
    for row, stored in zip(rows, distances, strict=True):
        expected = xp.sort(distances_to(X, row, radius))
        sums = xp.stack([expected[: len(stored)].sum(), (stored / radius).sum(dtype="float64")])
        facts.append(xp.concatenate([xp.searchsorted(expected, edges).astype("float64"), sums]))
    worst = 0.0
    for stored, (fewest, most, total, own) in zip(distances, on_host(xp.stack(facts)).tolist(), strict=True):
        count, off = len(stored), abs(total - own) / max(len(stored), 1)
        if not math.isfinite(off):
            return math.inf
        worst = max(worst, (fewest - count) / most, (count - most) / most, off)
    return worst


def distances_to(X: Array, row: int, unit: float) -> Array:
    """Distances (n,) of all points to one, in units; piece by piece, since the points may be a large mapped file."""
    xp = namespace(X)
    step = max(1, PIECE_BYTES // (8 * X.shape[1]))
    parts = []
    for first in range(0, len(X), step):
        difference = (X[first : first + step] - X[row]) / unit
        parts.append(xp.sqrt((difference * difference).sum(axis=1)))
    return xp.concatenate(parts)
