"""Co-metric and tangent basis of each row, fused.

Jitted functions call only jitted functions of their own file: Numba's cache notices a change of the file that a
kernel is in, not of the files that it calls.
"""

from __future__ import annotations

import math

import numpy as np

from ...array import Array
from .tasks import compiled, in_threads

ROWS = 64  # rows in one task: enough to hide the cost of its scratch, with m = 20 within the second-level cache
WIDTH = 96  # neighbours in the scratch block: with m = 20 both copies fit the first-level cache
NARROW = 8  # the block is filled up with zeros to a multiple of this, so that no scalar remainder loop runs
CONVERGED = 1e-13  # largest residual of an accepted eigenvector, relative to the trace


# --- co-metric -------------------------------------------------------------------------------------------------------


@compiled()
def gather(indices, weights, start, stop, Y, i, plain, weighted):
    """Differences to the neighbours, one coordinate a row, alone and times their weights; returns the padded width."""
    m = Y.shape[1]
    count = stop - start
    width = (count + NARROW - 1) // NARROW * NARROW
    whole = count // 4 * 4
    for j in range(0, whole, 4):  # four at a time: their places in a row of the scratch share a cache line
        y0, y1 = Y[indices[start + j]], Y[indices[start + j + 1]]
        y2, y3 = Y[indices[start + j + 2]], Y[indices[start + j + 3]]
        for a in range(m):
            row = plain[a]
            row[j], row[j + 1], row[j + 2], row[j + 3] = y0[a], y1[a], y2[a], y3[a]
    for j in range(whole, count):
        for a in range(m):
            plain[a, j] = Y[indices[start + j], a]
    weight = weights[start:stop]
    for a in range(m):
        centre = np.float64(Y[i, a])
        row, scaled = plain[a], weighted[a]
        for j in range(count):
            difference = row[j] - centre
            row[j] = difference
            scaled[j] = difference * weight[j]
        for j in range(count, width):
            row[j] = 0.0
            scaled[j] = 0.0
    return width


@compiled(fast=True)
def add_products(plain, weighted, width, H):
    """Add the inner products of the rows to the upper triangle of H, by tiles of 2 x 4.

    Eight sums are as many as hide the latency of the additions, and need six loads for eight products.
    """
    m = H.shape[0]
    for b in range(0, m, 4):
        q0, q1, q2, q3 = plain[b], plain[b + 1], plain[b + 2], plain[b + 3]
        for a in range(0, b + 4, 2):
            p0, p1 = weighted[a], weighted[a + 1]
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            for j in range(width):
                s00 += p0[j] * q0[j]
                s01 += p0[j] * q1[j]
                s02 += p0[j] * q2[j]
                s03 += p0[j] * q3[j]
                s10 += p1[j] * q0[j]
                s11 += p1[j] * q1[j]
                s12 += p1[j] * q2[j]
                s13 += p1[j] * q3[j]
            H[a, b] += s00
            H[a, b + 1] += s01
            H[a, b + 2] += s02
            H[a, b + 3] += s03
            H[a + 1, b] += s10
            H[a + 1, b + 1] += s11
            H[a + 1, b + 2] += s12
            H[a + 1, b + 3] += s13


@compiled()
def cometric(indptr, indices, weights, Y, i, plain, weighted, H):
    """Co-metric of row i into H (full, scaled to trace 1); returns the trace."""
    m = Y.shape[1]
    for a in range(H.shape[0]):
        for b in range(H.shape[1]):
            H[a, b] = 0.0
    start = indptr[i]
    count = indptr[i + 1] - start
    pieces = (count + WIDTH - 1) // WIDTH
    for piece in range(pieces):  # of nearly equal length
        first, last = start + count * piece // pieces, start + count * (piece + 1) // pieces
        width = gather(indices, weights, first, last, Y, i, plain, weighted)
        add_products(plain, weighted, width, H)
    trace = 0.0
    for a in range(m):
        trace += H[a, a]
    factor = 1.0 / trace if trace > 0.0 else 0.0
    for a in range(m):
        for b in range(a, m):
            H[a, b] *= factor
            H[b, a] = H[a, b]
    return 0.5 * trace


@compiled(entry=True)
def cometric_task(indptr, indices, weights, Y, rows, H, traces):
    """Co-metrics of a few rows, all from one scratch."""
    plain, weighted = np.zeros((H.shape[1], WIDTH)), np.zeros((H.shape[1], WIDTH))
    for r in range(len(rows)):
        traces[r] = cometric(indptr, indices, weights, Y, rows[r], plain, weighted, H[r])


# --- eigenvectors of one small symmetric matrix ----------------------------------------------------------------------


@compiled(fast=True)
def tridiagonalise(A, m, diagonal, off, reflectors, work):
    """Householder's reduction from the last row up; row k of ``reflectors`` is v with I - v v' applied in step k.

    A is destroyed. Loops begin at 0: an index that may be negative for all the compiler knows is not vectorised.
    """
    for k in range(m - 1, 1, -1):
        v, row = reflectors[k], A[k]
        square = 0.0
        for c in range(k - 1):
            square += row[c] * row[c]
        diagonal[k] = row[k]
        last = row[k - 1]
        for c in range(m):
            v[c] = 0.0
        if square <= 1e-40:  # of a matrix with trace 1: nothing to remove
            off[k - 1] = last
            continue
        # I - v v' with |v|^2 = 2 sends the row to (0, ..., 0, off)
        length = math.sqrt(last * last + square)
        off[k - 1] = -length if last > 0.0 else length
        scale = 1.0 / math.sqrt(length * (length + abs(last)))
        for c in range(k - 1):
            v[c] = row[c] * scale
        v[k - 1] = (last - off[k - 1]) * scale
        dot = 0.0
        for r in range(k):
            entry = 0.0
            for c in range(k):
                entry += A[r, c] * v[c]
            work[r] = entry
            dot += entry * v[r]
        for c in range(k):
            work[c] -= 0.5 * dot * v[c]
        for r in range(k):
            x, y = v[r], work[r]
            for c in range(k):
                A[r, c] -= x * work[c] + y * v[c]
    diagonal[0] = A[0, 0]
    if m > 1:
        diagonal[1] = A[1, 1]
        off[0] = A[1, 0]


@compiled()
def tridiagonal_eigenvalues(d, e, m):
    """Eigenvalues of a tridiagonal matrix of norm about 1, by QL without roots (Pal, Walker and Kahan).

    Diagonal ``d`` is overwritten with the values in no order, ``e`` holds the squares of the off-diagonal entries.
    Returns whether the iteration ended.
    """
    left = 30 * m
    low = 0
    while low < m:
        high = low
        while high < m - 1 and e[high] > 1e-32:  # absolute: errors of 1e-16 of the trace do not matter
            high += 1
        if high == low:
            low += 1
            continue
        left -= 1
        if left < 0:
            return False
        root = math.sqrt(e[low])
        ratio = (d[low + 1] - d[low]) / (2.0 * root)
        length = math.sqrt(ratio * ratio + 1.0)
        shift = d[low] - root / (ratio + (length if ratio >= 0.0 else -length))
        c, s = 1.0, 0.0
        gamma = d[high] - shift
        p = gamma * gamma
        for i in range(high - 1, low - 1, -1):
            square = e[i]
            r = p + square
            if i != high - 1:
                e[i + 1] = s * r
            before = c
            inverse = 1.0 / r
            c = p * inverse
            s = square * inverse
            old = gamma
            gamma = c * (d[i] - shift) - s * old
            d[i + 1] = old + (d[i] - gamma)
            p = gamma * gamma / c if c != 0.0 else before * square
        e[low] = s * p
        d[low] = shift + gamma
    return True


@compiled()
def factor_shifted(diagonal, off, m, shift, lu, swapped):
    """LU with row exchanges of the tridiagonal matrix less ``shift``: rows 0-2 of lu are U's diagonals, 3 is L."""
    current, right = diagonal[0] - shift, off[0] if m > 1 else 0.0
    for i in range(m - 1):
        below = off[i]
        following = off[i + 1] if i + 2 < m else 0.0
        if abs(below) > abs(current):
            factor = current / below
            lu[0, i], lu[1, i], lu[2, i] = below, diagonal[i + 1] - shift, following
            current, right = right - factor * lu[1, i], -factor * following
            swapped[i] = 1.0
        else:
            if abs(current) < 1e-17:
                current = 1e-17
            factor = below / current
            lu[0, i], lu[1, i], lu[2, i] = current, right, 0.0
            current, right = diagonal[i + 1] - shift - factor * right, following
            swapped[i] = 0.0
        lu[3, i] = factor
    lu[0, m - 1] = current if abs(current) > 1e-17 else 1e-17
    for i in range(m):
        lu[0, i] = 1.0 / lu[0, i]


@compiled()
def solve_shifted(lu, swapped, m, x, forward):
    """Solve with the factors in place; the first half may be left out for an arbitrary start."""
    if forward:
        for i in range(m - 1):
            if swapped[i] > 0.0:
                x[i], x[i + 1] = x[i + 1], x[i] - lu[3, i] * x[i + 1]
            else:
                x[i + 1] -= lu[3, i] * x[i]
    after, second = 0.0, 0.0
    for i in range(m - 1, -1, -1):
        value = x[i]
        if i < m - 1:
            value -= lu[1, i] * after
        if i < m - 2:
            value -= lu[2, i] * second
        value *= lu[0, i]
        x[i] = value
        after, second = value, after


@compiled()
def orthonormalise(vectors, k, m):
    """Make row k of length 1 and orthogonal to the rows before it; False if nothing is left of it."""
    for attempt in range(3):
        square = 0.0
        for i in range(m):
            square += vectors[k, i] * vectors[k, i]
        # the last round takes nothing away, unless the one before left only rounding errors
        if not 1e-200 < square < 1e200 or (attempt == 2 and square < 0.99):
            return False
        scale = 1.0 / math.sqrt(square)
        for i in range(m):
            vectors[k, i] *= scale
        for other in range(k if attempt < 2 else 0):
            dot = 0.0
            for i in range(m):
                dot += vectors[other, i] * vectors[k, i]
            for i in range(m):
                vectors[k, i] -= dot * vectors[other, i]
    return True


@compiled()
def tridiagonal_residual(diagonal, off, m, value, x):
    """Largest entry of ``T x - value x``."""
    worst = 0.0
    for i in range(m):
        entry = (diagonal[i] - value) * x[i]
        if i > 0:
            entry += off[i - 1] * x[i - 1]
        if i < m - 1:
            entry += off[i] * x[i + 1]
        worst = max(worst, abs(entry))
    return worst


@compiled()
def inverse_iteration(diagonal, off, m, values, d, vectors, lu, swapped):
    """Eigenvectors of a tridiagonal matrix for known eigenvalues, into the rows of ``vectors``; False: give up."""
    for k in range(d):
        factor_shifted(diagonal, off, m, values[k], lu, swapped)
        x = vectors[k]
        for i in range(m):  # a start without structure, another one for each vector
            x[i] = 0.5 + ((i + 1) * (k + 1) * 0.6180339887498949) % 1.0
        done = False
        for attempt in range(5):
            solve_shifted(lu, swapped, m, x, attempt > 0)
            if not orthonormalise(vectors, k, m):
                return False
            if attempt > 0 and tridiagonal_residual(diagonal, off, m, values[k], x) <= CONVERGED:
                done = True
                break
        if not done:
            return False
    return True


@compiled(fast=True)
def reflect_back(reflectors, m, d, vectors):
    """From the basis of the tridiagonal matrix to that of the original one."""
    for k in range(2, m):
        v = reflectors[k]
        for j in range(d):
            x = vectors[j]
            dot = 0.0
            for i in range(m):
                dot += v[i] * x[i]
            for i in range(m):
                x[i] -= dot * v[i]


@compiled()
def jacobi(A, m, d, values, vectors, V):
    """All eigenvectors by cyclic rotations, the d leading ones into ``values`` and the rows of ``vectors``.

    Slow and always right: for repeated eigenvalues, and wherever inverse iteration did not converge.
    """
    for a in range(m):
        for b in range(m):
            V[a, b] = 1.0 if a == b else 0.0
    for _ in range(30):
        outside = 0.0
        for a in range(m - 1):
            for b in range(a + 1, m):
                outside += A[a, b] * A[a, b]
                if abs(A[a, b]) < 1e-30:
                    continue
                theta = 0.5 * (A[b, b] - A[a, a]) / A[a, b]
                t = 1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0))
                c = 1.0 / math.sqrt(t * t + 1.0)
                s = t * c if theta >= 0.0 else -t * c
                for i in range(m):
                    x, y = A[i, a], A[i, b]
                    A[i, a], A[i, b] = c * x - s * y, s * x + c * y
                for i in range(m):
                    x, y = A[a, i], A[b, i]
                    A[a, i], A[b, i] = c * x - s * y, s * x + c * y
                    x, y = V[a, i], V[b, i]
                    V[a, i], V[b, i] = c * x - s * y, s * x + c * y
        if outside <= 1e-33:
            break
    for k in range(d):
        lead = 0
        for a in range(m):
            if A[a, a] > A[lead, lead]:
                lead = a
        values[k] = A[lead, lead]
        A[lead, lead] = -np.inf
        for i in range(m):
            vectors[k, i] = V[lead, i]


@compiled()
def take_largest(values, m, d, chosen):
    """The d largest of m values, falling; ``values`` is destroyed."""
    for k in range(d):
        lead = 0
        for a in range(m):
            if values[a] > values[lead]:
                lead = a
        chosen[k] = values[lead]
        values[lead] = -np.inf


@compiled()
def direct(A, m, d, values, vectors, reflectors, work):
    """Leading eigenpairs of any symmetric matrix of norm about 1; A is destroyed; False: not accurate, or not found."""
    diagonal, off, spectrum, squares, lu = work[0], work[1], work[2], work[3], work[4:8]
    tridiagonalise(A, m, diagonal, off, reflectors, squares)
    for a in range(m):
        spectrum[a] = diagonal[a]
        squares[a] = off[a] * off[a] if a < m - 1 else 0.0
    if not tridiagonal_eigenvalues(spectrum, squares, m):
        return False
    take_largest(spectrum, m, d, values)
    if not inverse_iteration(diagonal, off, m, values, d, vectors, lu, work[8]):
        return False
    reflect_back(reflectors, m, d, vectors)
    return True


@compiled(entry=True)
def eigen_task(H, traces, d, U, sigma):
    """Leading eigenpairs of a few matrices of trace 1; H is destroyed."""
    m = U.shape[1]
    A, reflectors = np.empty((m, m)), np.empty((m, m))
    vectors, work, values = np.empty((d, m)), np.empty((9, m)), np.empty(d)
    for r in range(len(U)):
        trace = traces[r]
        if not 1e-290 < trace < 1e290:
            # no neighbour apart: any basis does; NaN and infinity go on to whoever looks at sigma
            for k in range(d):
                sigma[r, k] = 0.0 if trace <= 1e-290 else np.nan
                for a in range(m):
                    U[r, a, k] = 1.0 if a == k else 0.0
            continue
        for a in range(m):
            for b in range(m):
                A[a, b] = H[r, a, b]
        if not direct(A, m, d, values, vectors, reflectors, work):
            jacobi(H[r], m, d, values, vectors, reflectors)
        for k in range(d):
            sigma[r, k] = max(values[k], 0.0) * trace
            for a in range(m):
                U[r, a, k] = vectors[k, a]


def tangent_rows(indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int) -> tuple[Array, Array]:
    """See :func:`.plain.tangent_rows`; computed in float64, returned in the dtype of Y."""
    indptr, indices, weights, Y = (np.ascontiguousarray(array) for array in (indptr, indices, weights, Y))
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    m = Y.shape[1]
    U, sigma = np.empty((len(rows), m, d), dtype=Y.dtype), np.empty((len(rows), d), dtype=Y.dtype)

    def task(first: int, last: int) -> None:
        # two kernels, so that the larger one exists for float64 alone, whatever the types of the input
        H, traces = np.empty((last - first, -(-m // 4) * 4, -(-m // 4) * 4)), np.empty(last - first)
        vectors, values = np.empty((last - first, m, d)), np.empty((last - first, d))
        cometric_task(indptr, indices, weights, Y, rows[first:last], H, traces)
        eigen_task(H, traces, d, vectors, values)
        U[first:last], sigma[first:last] = vectors, values

    in_threads(task, len(rows), ROWS)
    return U, sigma
