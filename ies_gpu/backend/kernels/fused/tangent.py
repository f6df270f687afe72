"""Tangent bases and the volumes of sets in them, fused: eight small matrices, or points, side by side, in float64.

See :mod:`..plain` for what is returned. Jitted functions call only jitted functions of their own file: Numba's cache
notices a change of the file that a kernel is in, not of the files that it calls. After a change of :mod:`.lanes`,
empty the cache.
"""

import math
import threading
from typing import Any

import numpy as np

from ...array import Array
from .. import plain
from .lanes import LANES, any_of, lanes_of, load, store, where
from .tasks import aligned, compiled, in_threads

ROWS = 64  # rows in one task: enough to hide the cost of its scratch
WIDTH = 192  # neighbours in the scratch block: with m = 20 it fits the first-level cache
CONVERGED = 1e-13  # largest residual of an accepted eigenvector, relative to the trace
CERTAIN = 1e-14  # distance, relative to the trace, within which an eigenvalue is proved to lie
STEPS = 10  # of Laguerre's method, which needs four or five; then bisection
HALVINGS = 56
SOLVES = 3  # of inverse iteration: one more than is nearly always enough
POINTS = 8 * LANES  # points of one round: the product of eight ratios above 1e-30 takes one logarithm
TASK = 512  # points in one task of the scores: one partial total for each set
FLOOR = plain.FLOOR


@compiled(fast=True)
def add_products(apart, weights, count, m, H):
    """Add weighted inner products of the rows of ``apart`` to the lower triangle of H, eight at a time."""
    for a in range(0, m, 2):
        x, y = apart[a, :count], apart[a + 1, :count]
        for b in range(0, a + 2, 4):
            z0, z1, z2, z3 = apart[b, :count], apart[b + 1, :count], apart[b + 2, :count], apart[b + 3, :count]
            s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = 0.0
            for j in range(count):
                p, q = x[j] * np.float64(weights[j]), y[j] * np.float64(weights[j])
                s0, s1, s2, s3 = s0 + p * z0[j], s1 + p * z1[j], s2 + p * z2[j], s3 + p * z3[j]
                t0, t1, t2, t3 = t0 + q * z0[j], t1 + q * z1[j], t2 + q * z2[j], t3 + q * z3[j]
            for k, sums in enumerate(((s0, s1, s2, s3), (t0, t1, t2, t3))):
                for c in range(4):
                    H[a + k, b + c] += sums[c]


@compiled(fast=True, entry=True)
def cometric_task(starts, stops, indices, weights, Y, rows, apart, H, A, traces):
    """Co-metrics of a few rows, scaled to trace 1: the lower triangles of eight side by side in one row of A."""
    m = Y.shape[1]
    for r in range(len(rows)):
        own, out, lane = Y[rows[r]], A[r // LANES], r % LANES
        H[:, :] = 0.0
        for first in range(starts[r], stops[r], WIDTH):
            count = min(WIDTH, stops[r] - first)
            for j in range(count):
                other = Y[np.uint32(indices[first + j])]
                for a in range(m):
                    apart[a, j] = np.float64(other[a]) - np.float64(own[a])
            add_products(apart, weights[first : first + count], count, m, H)
        trace = 0.0
        for a in range(m):
            trace += H[a, a]
        traces[r] = 0.5 * trace
        ordinary = 1e-290 < trace < 1e290
        factor = 1.0 / trace if ordinary else 0.0
        for a in range(m):
            for b in range(a + 1):
                out[(a * m + b) * LANES + lane] = H[a, b] * factor if ordinary else 0.0


@compiled()
def tridiagonalise(A, m, diagonal, off, work):
    """Householder's reduction from the last row up, on the lower triangle; row k of A becomes v of I - v v'."""
    for k in range(m - 1, 1, -1):
        row, square = k * m * LANES, lanes_of(0.0)
        for c in range(k - 1):
            x = load(A, row + c * LANES)
            square += x * x
        last = load(A, row + (k - 1) * LANES)
        store(diagonal, k * LANES, load(A, row + k * LANES))
        # I - v v' with |v|^2 = 2 sends the row to (0, ..., 0, other); v = 0 where there is nothing to remove
        length = math.sqrt(last * last + square)
        other = where(last > 0.0, 0.0 - length, length)
        apart = square > 1e-40
        store(off, (k - 1) * LANES, where(apart, other, last))
        scale = where(apart, 1.0 / math.sqrt(length * (length + abs(last))), 0.0)
        for c in range(k - 1):
            store(A, row + c * LANES, load(A, row + c * LANES) * scale)
        store(A, row + (k - 1) * LANES, (last - other) * scale)
        dot = lanes_of(0.0)
        for r in range(k):
            x, entry, base = load(A, row + r * LANES), lanes_of(0.0), r * m * LANES
            for c in range(0, r * LANES, LANES):
                a = load(A, base + c)
                entry += a * load(A, row + c)
                store(work, c, load(work, c) + a * x)
            dot += x * (entry + entry + load(A, base + r * LANES) * x)
            store(work, r * LANES, entry + load(A, base + r * LANES) * x)
        for c in range(0, k * LANES, LANES):
            store(work, c, load(work, c) - 0.5 * dot * load(A, row + c))
        for r in range(k):
            x, y, base = load(A, row + r * LANES), load(work, r * LANES), r * m * LANES
            for c in range(0, (r + 1) * LANES, LANES):
                store(A, base + c, load(A, base + c) - (x * load(work, c) + y * load(A, row + c)))
    store(diagonal, 0, load(A, 0))
    if m > 1:
        store(diagonal, LANES, load(A, (m + 1) * LANES))
        store(off, 0, load(A, m * LANES))


@compiled()
def rescaling(q):
    """A factor that brings a characteristic polynomial back to 1, from which four steps lead to 1e-80 or so."""
    return where(abs(q) > 1e-290, 1.0 / abs(q), 1e290)


@compiled()
def count_above(diagonal, off, m, x):
    """How many eigenvalues are above x: changes of sign in the sequence of characteristic polynomials."""
    before, q, count, square = lanes_of(0.0), lanes_of(1.0), lanes_of(0.0), lanes_of(0.0)
    for i in range(0, m * LANES, LANES):
        following = (x - load(diagonal, i)) * q - square * before
        following = where(abs(following) > 0.0, following, 1e-20 * q)  # x is an eigenvalue: as if it were next to it
        # not by the sign of a product, which may vanish
        count += where(following < 0.0, where(q < 0.0, 0.0, 1.0), where(q < 0.0, 1.0, 0.0))
        before, q = q, following
        e = load(off, i)
        square = e * e
        if i % (4 * LANES) == 0:
            factor = rescaling(q)
            before, q = before * factor, q * factor
    return count


@compiled()
def laguerre_step(diagonal, off, m, x, values, k):
    """The next step down from x, above the eigenvalue k, with those before it divided out."""
    p = dp = dq = sp = sq = square = lanes_of(0.0)
    q = lanes_of(1.0)
    for i in range(0, m * LANES, LANES):
        t = x - load(diagonal, i)
        p, q, dp, dq, sp, sq = (
            q, t * q - square * p, dq, q + t * dq - square * dp, sq, dq + t * sq - square * sp,
        )  # fmt: skip
        e = load(off, i)
        square = e * e
        if i % (4 * LANES) == 0:
            factor = rescaling(q)
            p, q, dp, dq, sp, sq = p * factor, q * factor, dp * factor, dq * factor, sp * factor, sq * factor
    slope = dq / q
    bend = slope * slope - 2.0 * (sq / q)
    for j in range(k):
        inverse = 1.0 / (x - load(values, j * LANES))
        slope -= inverse
        bend -= inverse * inverse
    n = np.float64(m - k)
    root = (n - 1.0) * (n * bend - slope * slope)
    step = n / (slope + math.sqrt(where(root > 0.0, root, 0.0)))
    return where(abs(q) > 0.0, step, 0.0)


@compiled()
def leading_values(diagonal, off, m, d, values):
    """The d leading eigenvalues, by Laguerre's method, or by halving where counts do not prove its result."""
    bound = before = lanes_of(0.0)
    for i in range(0, m * LANES, LANES):
        e = abs(load(off, i))
        reach = abs(load(diagonal, i)) + e + before
        bound, before = where(reach > bound, reach, bound), e
    last = bound = 1.001 * bound
    for k in range(d):
        x, rank, moving = bound, np.float64(k) + 0.5, lanes_of(1.0)
        for _ in range(STEPS):
            step = where(moving > 0.5, laguerre_step(diagonal, off, m, x, values, k), 0.0)
            x -= step
            moving = where(abs(step) > 1e-15, moving, 0.0)  # no lane may depend on how long the others take
            if not any_of(moving > 0.5):
                break
        sure = where(count_above(diagonal, off, m, x + CERTAIN) < rank, 1.0, 0.0)
        sure = where(count_above(diagonal, off, m, x - CERTAIN) > rank, sure, 0.0)
        if any_of(sure < 0.5):
            low, high = 0.0 - bound, bound
            for _ in range(HALVINGS):
                middle = 0.5 * (low + high)
                above = count_above(diagonal, off, m, middle) > rank
                low, high = where(above, middle, low), where(above, high, middle)
            x = where(sure > 0.5, x, 0.5 * (low + high))
        last = where(x < last, x, last)  # falling, also where the difference is below what was proved
        store(values, k * LANES, last)


@compiled()
def factor_shifted(diagonal, off, m, shift, lu):
    """LU of the tridiagonal matrix less ``shift``: U's inverse diagonal, the two beside it, L, 1 for exchanged rows."""
    row = m * LANES
    current, right = load(diagonal, 0) - shift, load(off, 0)
    for i in range(0, row - LANES, LANES):
        below, after, following = load(off, i), load(diagonal, i + LANES) - shift, load(off, i + LANES)
        swap = abs(below) > abs(current)
        safe = where(abs(current) > 1e-17, current, 1e-17)
        pivot, rest = where(swap, below, safe), where(swap, safe, below)
        inverse = 1.0 / pivot
        factor = rest * inverse
        store(lu, i, inverse)
        store(lu, row + i, where(swap, after, right))
        store(lu, 2 * row + i, where(swap, following, 0.0))
        store(lu, 3 * row + i, factor)
        store(lu, 4 * row + i, where(swap, 1.0, 0.0))
        current = where(swap, right - factor * after, after - factor * right)
        right = where(swap, 0.0 - factor * following, following)
    store(lu, row - LANES, 1.0 / where(abs(current) > 1e-17, current, 1e-17))


@compiled()
def solve_shifted(lu, m, x, forward):
    """Solve in place; the first half may be left out for an arbitrary start."""
    row = m * LANES
    if forward:
        value = load(x, 0)
        for i in range(0, row - LANES, LANES):
            swap, factor, following = load(lu, 4 * row + i) > 0.5, load(lu, 3 * row + i), load(x, i + LANES)
            store(x, i, where(swap, following, value))
            value = where(swap, value - factor * following, following - factor * value)
        store(x, row - LANES, value)
    after, second = load(x, row - LANES) * load(lu, row - LANES), lanes_of(0.0)
    store(x, row - LANES, after)
    for i in range(row - 2 * LANES, -1, -LANES):
        value = load(x, i) - load(lu, row + i) * after - load(lu, 2 * row + i) * second
        after, second = value * load(lu, i), after
        store(x, i, after)


@compiled()
def orthonormalise(vectors, k, m):
    """Make row k of length 1 and orthogonal to the rows before it; returns its square before the last scaling."""
    row, square = m * LANES, lanes_of(0.0)
    for attempt in range(3):  # the last round takes nothing away, unless the one before left only rounding errors
        square = lanes_of(0.0)
        for i in range(k * row, (k + 1) * row, LANES):
            square += load(vectors, i) * load(vectors, i)
        scale = 1.0 / math.sqrt(square)
        for i in range(k * row, (k + 1) * row, LANES):
            store(vectors, i, load(vectors, i) * scale)
        if k == 0:
            return lanes_of(1.0)
        for other in range(k if attempt < 2 else 0):
            dot, shift = lanes_of(0.0), (k - other) * row
            for i in range(other * row, (other + 1) * row, LANES):
                dot += load(vectors, i) * load(vectors, i + shift)
            for i in range(other * row, (other + 1) * row, LANES):
                store(vectors, i + shift, load(vectors, i + shift) - dot * load(vectors, i))
    return square


@compiled()
def tridiagonal_residual(diagonal, off, m, value, vectors, k):
    """Largest entry of ``T x - value x`` for row k; NaN where x has one."""
    row = k * m * LANES
    worst, before, x, left = lanes_of(0.0), lanes_of(0.0), load(vectors, row), lanes_of(0.0)
    for i in range(0, m * LANES, LANES):
        right = load(off, i)
        after = load(vectors, row + i + LANES) if i < (m - 1) * LANES else lanes_of(0.0)
        entry = abs((load(diagonal, i) - value) * x + left * before + right * after)
        worst = where(entry <= worst, worst, entry)
        before, x, left = x, after, right
    return worst


@compiled()
def tridiagonal_vectors(diagonal, off, m, d, values, vectors, lu):
    """Eigenvectors for known eigenvalues; returns 1 in the lanes where all are accurate."""
    good = square = lanes_of(1.0)
    for k in range(d):
        value = load(values, k * LANES)
        factor_shifted(diagonal, off, m, value, lu)
        x = vectors[k * m * LANES : (k + 1) * m * LANES]
        for i in range(m):  # a start without structure, another one for each vector
            store(x, i * LANES, 0.5 + ((i + 1) * (k + 1) * 0.6180339887498949) % 1.0)
        for attempt in range(SOLVES):
            solve_shifted(lu, m, x, attempt > 0)
            square = orthonormalise(vectors, k, m)
        accurate = tridiagonal_residual(diagonal, off, m, value, vectors, k) <= CONVERGED
        good = where(accurate, where(square > 0.99, good, 0.0), 0.0)
    return good


@compiled(entry=True)
def eigenpairs_task(matrices, traces, m, d, diagonal, off, lu, values, vectors, fine, U, sigma, good):
    """Eigenvectors and eigenvalues of the original matrices; ``good`` says which can be trusted."""
    for r in range(len(traces)):
        A, lane = matrices[r // LANES], r % LANES
        if lane == 0:
            tridiagonalise(A, m, diagonal, off, lu)
            leading_values(diagonal, off, m, d, values)
            store(fine, 0, tridiagonal_vectors(diagonal, off, m, d, values, vectors, lu))
            for x in range(0, d * m * LANES, m * LANES):  # to the basis of the original matrices
                for k in range(2, m):
                    row, dot = k * m * LANES, lanes_of(0.0)
                    for i in range(0, k * LANES, LANES):
                        dot += load(A, row + i) * load(vectors, x + i)
                    for i in range(0, k * LANES, LANES):
                        store(vectors, x + i, load(vectors, x + i) - dot * load(A, row + i))
        trace = traces[r]
        ordinary = 1e-290 < trace < 1e290
        good[r] = fine[lane] > 0.5 or not ordinary
        for k in range(d):
            # no neighbour apart: any basis does; NaN and infinity go on to whoever looks at sigma
            none, value = 0.0 if trace <= 1e-290 else np.nan, values[k * LANES + lane]
            sigma[r, k] = (value * trace if value > 0.0 else 0.0) if ordinary else none
            for a in range(m):
                one = 1.0 if a == k else 0.0
                U[r, a, k] = vectors[(k * m + a) * LANES + lane] if ordinary else one


def tangent_bytes(m: int, d: int, degree: float) -> float:
    return 16.0 * (m * d + d + 2)  # of the results, and of what they are copied to


def tangent_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int) -> tuple[Array, Array]:
    indptr, indices, weights, Y = (np.ascontiguousarray(array) for array in (indptr, indices, weights, Y))
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    starts, stops = indptr[rows].astype(np.int64), indptr[rows + 1].astype(np.int64)
    (n,), m, memory = rows.shape, Y.shape[1], threading.local()
    U, sigma, good = np.empty((n, m, d)), np.empty((n, d)), np.empty(n, dtype=np.bool_)

    def task(first: int, last: int) -> None:
        # the first kernel depends on the types of the input, the others are for float64 alone
        if not hasattr(memory, "traces"):
            wide, row = -(-m // 4) * 4, m * LANES
            memory.products = np.zeros((wide, WIDTH)), np.empty((wide, wide))
            memory.matrices, memory.traces = aligned(ROWS // LANES, m * row), np.empty(ROWS)
            # those of one batch at a time: tridiagonal forms, factors, values and vectors, and which are fine
            memory.batch = [aligned(size) for size in (row, row, 5 * row, d * LANES, d * row, LANES)]
        own, traces = slice(first, last), memory.traces[: last - first]
        scratch = *memory.products, memory.matrices, traces
        cometric_task(starts[own], stops[own], indices, weights, Y, rows[own], *scratch)
        eigenpairs_task(memory.matrices, traces, m, d, *memory.batch, U[own], sigma[own], good[own])

    in_threads(task, n, ROWS)
    for r in np.flatnonzero(~good):  # LAPACK knows what to do; one by one, since sums may depend on the company
        own = Y.astype(np.float64, copy=False), rows[r : r + 1]
        U[r], sigma[r] = plain.tangent_rows(indptr, indices, weights, *own, d)
    return U.astype(Y.dtype, copy=False), sigma.astype(Y.dtype, copy=False)


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
    return 8.0 * (q + 64)  # the sets are walked one at a time


table_bytes = score_bytes  # of log_volumes, which walks them too


def score_rows(U: Array, subsets: Array, first: int, last: int, *written: Array) -> None:
    """Call :func:`score_task` with what it works in."""
    m, d, s = U.shape[1], U.shape[2], subsets.shape[1]
    frames, sizes = aligned(POINTS // LANES, m * d * LANES), (d * s * LANES, d * LANES)
    score_task(U, subsets, first, last, frames, *map(aligned, sizes), aligned(4, POINTS), *written)


def score_block(U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
    U, subsets = np.ascontiguousarray(U), np.ascontiguousarray(subsets, dtype=np.int64)
    which, score, table = np.zeros(len(U), dtype=np.int64), np.empty(len(U)), np.empty((0, 0))
    # One partial total for each task and set, added in the order of the points: the number of threads cannot matter.
    # Tasks are taken in rounds, so that the partial totals stay within about 32 MB.
    span = TASK * max(8, min(64, (1 << 22) // max(1, len(subsets))))
    for start in range(0, len(U), span):
        part = U[start : start + span]
        partial = np.zeros((-(-len(part) // TASK), len(subsets)))

        def task(first: int, last: int, start: int = start, partial: Any = partial) -> None:
            score_rows(U, subsets, start + first, start + last, partial[first // TASK], which, score, table)

        in_threads(task, len(part), TASK)
        for row in partial:
            totals += row
    best[:], best_score[:] = which, score


def log_volumes(U: Array, subsets: Array) -> Array:
    U, subsets = np.ascontiguousarray(U), np.ascontiguousarray(subsets, dtype=np.int64)
    table, none, nothing = np.empty((len(U), len(subsets))), np.empty(0), np.empty(0, dtype=np.int64)
    in_threads(lambda a, b: score_rows(U, subsets, a, b, none, nothing, none, table), len(U), 8 * TASK)
    return table
