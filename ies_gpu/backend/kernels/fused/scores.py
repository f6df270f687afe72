"""Volumes of sets of coordinates at each point, fused: eight points side by side for one set after the other.

They are computed in float64; see :mod:`..plain` for what is returned.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...array import Array
from ..plain import FLOOR
from .lanes import LANES, lanes_of, load, store, where
from .tasks import aligned, compiled, in_threads

POINTS = 8 * LANES  # points of one round: the product of eight ratios above 1e-30 takes one logarithm
TASK = 512  # points in one task of the scores: one partial total for each set


@compiled()
def volume_ratios(frames, subset, s, d, basis, inverse):
    """``det(F'F) / prod |f_k|^2`` of one set at eight points, by Gram-Schmidt as in plain, without roots."""
    ratio = lanes_of(1.0)
    for k in range(d):
        length, left, own = lanes_of(0.0), lanes_of(0.0), k * s * LANES
        for j in range(s):
            x = load(frames, (subset[j] * d + k) * LANES)
            store(basis, own + j * LANES, x)
            length += x * x
        for e in range(k):
            dot, other = lanes_of(0.0), e * s * LANES
            for j in range(0, s * LANES, LANES):
                dot += load(basis, other + j) * load(basis, own + j)
            dot = dot * load(inverse, e * LANES)
            for j in range(0, s * LANES, LANES):
                store(basis, own + j, load(basis, own + j) - dot * load(basis, other + j))
        for j in range(own, own + s * LANES, LANES):
            left += load(basis, j) * load(basis, j)
        ratio = ratio * (left / where(length > 0.0, length, 1.0))
        store(inverse, k * LANES, where(left > 0.0, 1.0 / left, 0.0))
    ratio = where(ratio < FLOOR, FLOOR, ratio)  # written so that NaN stays NaN
    return where(ratio > 1.0, 1.0, ratio)


@compiled(entry=True)
def score_task(U, subsets, first, last, frames, basis, inverse, state, totals, best, best_score, table):
    """Scores of a few points: totals and best sets, or (where it has rows) all of them into ``table``.

    Rows of ``state``, one number per point: the highest ratio so far, its set, 1 (0 beyond the last point), ratios.
    """
    m, d, s = U.shape[1], U.shape[2], subsets.shape[1]
    lead, which, real, ratios = state[0], state[1], state[2], state[3]
    for start in range(first, last, POINTS):
        count = min(POINTS, last - start)
        for p in range(POINTS):
            lead[p], which[p], real[p] = -1.0, 0.0, 1.0 if p < count else 0.0
            for a in range(m):
                for k in range(d):
                    frames[p // LANES, (a * d + k) * LANES + p % LANES] = U[start + p, a, k] if p < count else 0.0
        for q in range(len(subsets)):
            product = lanes_of(1.0)
            for part in range(POINTS // LANES):
                place = part * LANES
                ratio = volume_ratios(frames[part], subsets[q], s, d, basis, inverse)
                better = ratio > load(lead, place)  # strict: the first of equal sets stays
                store(which, place, where(better, np.float64(q), load(which, place)))
                store(lead, place, where(better, ratio, load(lead, place)))
                store(ratios, place, ratio)
                product = product * where(load(real, place) > 0.5, ratio, 1.0)
            if len(table) > 0:
                for p in range(count):
                    table[start + p, q] = 0.5 * math.log(ratios[p])
            else:
                store(ratios, 0, product)
                for p in range(LANES):
                    totals[q] += 0.5 * math.log(ratios[p])
        if len(table) == 0:
            for p in range(count):
                best[start + p] = np.int64(which[p])
                best_score[start + p] = 0.5 * math.log(lead[p]) if lead[p] > 0.0 else np.nan


def score_bytes(q: int, s: int, d: int) -> float:
    """Return what scoring takes for one point: the sets are walked one at a time."""
    return 8.0 * (q + 64)


table_bytes = score_bytes  # of log_volumes, which walks the sets too


def scratch(m: int, d: int, s: int) -> tuple[Array, ...]:
    """What :func:`score_task` works in."""
    frames = aligned(POINTS // LANES, m * d * LANES)
    return frames, aligned(d * s * LANES), aligned(d * LANES), aligned(4, POINTS)


def score_block(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
    U, subsets = np.ascontiguousarray(U), np.ascontiguousarray(subsets, dtype=np.int64)
    sizes = U.shape[1], U.shape[2], subsets.shape[1]
    which, score, table = np.zeros(len(U), dtype=np.int64), np.empty(len(U)), np.empty((0, 0))
    # One partial total for each task and set, added in the order of the points: the number of threads cannot matter.
    # Tasks are taken in rounds, so that the partial totals stay within about 32 MB.
    span = TASK * max(8, min(64, (1 << 22) // max(1, len(subsets))))
    for start in range(0, len(U), span):
        part = U[start : start + span]
        partial = np.zeros((-(-len(part) // TASK), len(subsets)))

        def task(first: int, last: int, start: int = start, partial: Any = partial) -> None:
            score_task(
                U, subsets, start + first, start + last, *scratch(*sizes), partial[first // TASK], which, score, table
            )

        in_threads(task, len(part), TASK)
        for row in partial:
            totals += row
    best[:] = which
    best_score[:] = score


def log_volumes(U: Array, subsets: Array) -> Array:
    U, subsets = np.ascontiguousarray(U), np.ascontiguousarray(subsets, dtype=np.int64)
    table = np.empty((len(U), len(subsets)))
    sizes = U.shape[1], U.shape[2], subsets.shape[1]
    none, nothing = np.empty(0), np.empty(0, dtype=np.int64)

    def task(first: int, last: int) -> None:
        score_task(U, subsets, first, last, *scratch(*sizes), none, nothing, none, table)

    in_threads(task, len(U), 8 * TASK)
    return table
