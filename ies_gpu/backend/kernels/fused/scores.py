"""Volumes of sets of coordinates at each point, fused: many points side by side for one set after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...array import Array
from ..plain import FLOOR
from .tasks import compiled, in_threads

POINTS = 64  # points side by side in the vectorised loops over sets
TASK = 512  # points in one task of the scores: one partial total for each set


@compiled()
def transpose(U, first, count, frames):
    """A few points side by side: ``frames[a, k, p] = U[first + p, a, k]``, zero beyond the last."""
    for p in range(POINTS):
        for a in range(U.shape[1]):
            for k in range(U.shape[2]):
                frames[a, k, p] = U[first + p, a, k] if p < count else 0.0


@compiled(fast=True)
def volume_ratios(frames, subset, basis, inverse, dot, ratio):
    """``det(F'F) / prod |f_k|^2`` of one set at ``POINTS`` points, by Gram-Schmidt as in plain, without roots."""
    s, d = len(subset), frames.shape[1]
    for p in range(POINTS):
        ratio[p] = 1.0
    for k in range(d):
        length, left = inverse[d], inverse[k]
        for p in range(POINTS):
            length[p] = 0.0
        for j in range(s):
            row, source = basis[k, j], frames[subset[j], k]
            for p in range(POINTS):
                row[p] = source[p]
                length[p] += source[p] * source[p]
        for e in range(k):
            for p in range(POINTS):
                dot[p] = 0.0
            for j in range(s):
                row, unit = basis[k, j], basis[e, j]
                for p in range(POINTS):
                    dot[p] += unit[p] * row[p]
            for p in range(POINTS):
                dot[p] *= inverse[e, p]
            for j in range(s):
                row, unit = basis[k, j], basis[e, j]
                for p in range(POINTS):
                    row[p] -= dot[p] * unit[p]
        for p in range(POINTS):
            left[p] = 0.0
        for j in range(s):
            row = basis[k, j]
            for p in range(POINTS):
                left[p] += row[p] * row[p]
        for p in range(POINTS):
            ratio[p] *= left[p] / (length[p] if length[p] > 0.0 else 1.0)
            left[p] = 1.0 / left[p] if left[p] > 0.0 else 0.0
    for p in range(POINTS):
        # written so that NaN stays NaN
        value = FLOOR if ratio[p] < FLOOR else ratio[p]
        ratio[p] = 1.0 if value > 1.0 else value


@compiled()
def log_sum(ratio):
    """Sum of the logarithms, with one logarithm for eight ratios: the product of eight numbers above 1e-30."""
    total = 0.0
    for p in range(0, POINTS, 8):
        product = ratio[p]
        for q in range(p + 1, p + 8):
            product *= ratio[q]
        total += math.log(product)
    return total


@compiled(entry=True)
def score_task(U, subsets, first, last, totals, best, best_score, table):
    """Scores of a few points: totals and best sets, or (where it has rows) all of them into ``table``."""
    d, s = U.shape[2], subsets.shape[1]
    frames, basis = np.empty((U.shape[1], d, POINTS)), np.empty((d, s, POINTS))
    inverse, dot, ratio, lead = np.empty((d + 1, POINTS)), np.empty(POINTS), np.empty(POINTS), np.empty(POINTS)
    which = np.empty(POINTS, np.int64)
    for start in range(first, last, POINTS):
        count = min(POINTS, last - start)
        transpose(U, start, count, frames)
        for p in range(POINTS):
            lead[p], which[p] = -1.0, 0
        for q in range(len(subsets)):
            volume_ratios(frames, subsets[q], basis, inverse, dot, ratio)
            if len(table) > 0:
                for p in range(count):
                    table[start + p, q] = 0.5 * math.log(ratio[p])
                continue
            for p in range(POINTS):  # strict: the first of equal sets stays
                which[p] = q if ratio[p] > lead[p] else which[p]
                lead[p] = ratio[p] if ratio[p] > lead[p] else lead[p]
            for p in range(count, POINTS):
                ratio[p] = 1.0
            totals[q] += 0.5 * log_sum(ratio)
        if len(table) == 0:
            for p in range(count):
                best[start + p] = which[p]
                best_score[start + p] = 0.5 * math.log(lead[p]) if lead[p] > 0.0 else np.nan


def score_block(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
    """See :func:`.plain.score_block`; computed in float64."""
    U, subsets = np.ascontiguousarray(U), np.ascontiguousarray(subsets, dtype=np.int64)
    which, score, table = np.zeros(len(U), dtype=np.int64), np.empty(len(U)), np.empty((0, 0))
    # One partial total for each task and set, added in the order of the points: the number of threads cannot matter.
    # Tasks are taken in rounds, so that the partial totals stay within about 32 MB.
    span = TASK * max(8, min(64, (1 << 22) // max(1, len(subsets))))
    for start in range(0, len(U), span):
        part = U[start : start + span]
        partial = np.zeros((-(-len(part) // TASK), len(subsets)))

        def task(first: int, last: int, start: int = start, partial: Any = partial) -> None:
            score_task(U, subsets, start + first, start + last, partial[first // TASK], which, score, table)

        in_threads(task, len(part), TASK)
        for row in partial:
            totals += row
    best[:] = which
    best_score[:] = score


def log_volumes(U: Array, subsets: Array) -> Array:
    """See :func:`.plain.log_volumes`; computed in float64."""
    U, subsets = np.ascontiguousarray(U), np.ascontiguousarray(subsets, dtype=np.int64)
    table = np.empty((len(U), len(subsets)))
    none, nothing = np.empty(0), np.empty(0, dtype=np.int64)

    def task(first: int, last: int) -> None:
        score_task(U, subsets, first, last, none, nothing, none, table)

    in_threads(task, len(U), 8 * TASK)
    return table
