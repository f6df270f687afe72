"""Sparse Cholesky factors along a tree of separators: a dense front for each block, by BLAS.

A block is a run of rows that are eliminated together. Its *border* is the later rows that it is joined to by then. What
eliminating a block changes in its border is kept on a stack until the separator above takes it up: blocks come in the
order of :func:`.dissection.dissect`, so those are the last two.
"""

from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from .tasks import compiled

SEPARATOR = 2  # the kind of a block with others below it
LETTERS, REALS = np.frombuffer(b"LRTN", dtype=np.int8), np.array([1.0, -1.0, 0.0])  # BLAS wants addresses of these


@cache
def blas() -> tuple[int, ...]:
    """Return the addresses of SciPy's own dpotrf, dtrsm, dsyrk and dgemm, and of constants."""
    places = ("lapack", "dpotrf"), ("blas", "dtrsm"), ("blas", "dsyrk"), ("blas", "dgemm")
    functions = [get_cython_function_address(f"scipy.linalg.cython_{library}", name) for library, name in places]
    return *functions, LETTERS.ctypes.data, REALS.ctypes.data


@intrinsic
def call(typing, function, addresses):
    """Call a Fortran function by its address, with those of its arguments: what is cached must not hold pointers."""

    def generate(context, builder, signature, values):
        pointer = ir.IntType(8).as_pointer()
        given = [builder.inttoptr(builder.extract_value(values[1], i), pointer) for i in range(addresses.count)]
        kind = ir.FunctionType(ir.VoidType(), len(given) * [pointer])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(types.intp, types.UniTuple(types.intp, addresses.count)), generate


@compiled(entry=True)
def find_borders(indptr, indices, sizes, order, starts, separates):
    """Return where the border of each block begins, the places in it (and more), and the largest stack in entries."""
    n, m, end, n_waiting = len(order), len(starts) - 1, 0, 0
    place, seen, waiting = np.empty(n, np.int32), np.zeros(n, np.int32), np.empty(m, np.int32)
    begins, found, below, held, most = np.zeros(m + 1, np.int64), np.empty(4 * n, np.int32), np.zeros(m), 0.0, 0.0
    for q in range(n):
        place[order[q]] = q
    for s in range(m):
        if end + n > len(found):
            larger = np.empty(2 * (end + n), np.int32)
            for p in range(end):
                larger[p] = found[p]
            found = larger
        last = starts[s + 1]
        for q in range(starts[s], last):
            for p in range(indptr[order[q]], indptr[order[q] + 1]):
                j = place[indices[p]]
                if j >= last and seen[j] != s + 1:
                    seen[j], found[end] = s + 1, j
                    end += 1
        for _ in range(2 if separates[s] else 0):
            n_waiting -= 1
            held -= below[waiting[n_waiting]] * below[waiting[n_waiting]]
            for p in range(begins[waiting[n_waiting]], begins[waiting[n_waiting] + 1]):
                j = found[p]
                if j >= last and seen[j] != s + 1:
                    seen[j], found[end] = s + 1, j
                    end += 1
        for p in range(begins[s], end):
            below[s] += sizes[order[found[p]]]
        held += below[s] * below[s]
        most = max(most, held)
        begins[s + 1], waiting[n_waiting] = end, s
        n_waiting += 1
    return begins, found, most


@compiled(entry=True)
def factorise(
    indptr, indices, data, order, place, starts, separates, begins, rows, panels, use, counts, waiting, state, work,
    stack, local, first, last, factor
):  # fmt: skip
    """Fill in the panels of some blocks, the first columns of each front; return a block that is not positive, or -1.

    ``state`` has the entries of the stack and the number of waiting blocks.
    """
    potrf, trsm, syrk, _, letters, one = use
    lower, right, turned, no = letters, letters + 1, letters + 2, letters + 3
    front, at_k = np.intp(work.ctypes.data), np.intp(counts.ctypes.data)
    at_h, at_u, failed = at_k + 4, at_k + 8, at_k + 16
    top, n_waiting = state
    for s in range(first, last):
        begin, low = starts[s], begins[s]
        k, u = starts[s + 1] - begin, begins[s + 1] - low
        h = k + u
        for j in range(k):
            local[begin + j] = j
        for j in range(u):
            local[rows[low + j]] = k + j
        work[: h * h] = 0.0
        for j in range(k):
            row = order[begin + j]
            for p in range(indptr[row], indptr[row + 1]):
                i = place[indices[p]]
                if i >= begin + j:
                    work[j * h + local[i]] = data[p]
        for _ in range(2 if separates[s] else 0):
            n_waiting -= 1
            half = waiting[n_waiting]
            inner, v = begins[half], begins[half + 1] - begins[half]
            top -= v * v
            for j in range(v):
                to = local[rows[inner + j]]
                for i in range(j, v):
                    at = local[rows[inner + i]]
                    work[min(to, at) * h + max(to, at)] += stack[top + j * v + i]
        counts[0], counts[1], counts[2], counts[4] = k, h, u, 0
        call(potrf, (lower, at_k, front, at_h, failed))
        if counts[4] != 0:
            return s
        if u > 0:
            below, corner = front + 8 * k, front + 8 * (k * h + k)
            call(trsm, (right, lower, turned, no, at_u, at_k, one, front, at_h, below, at_h))
            call(syrk, (lower, no, at_u, at_k, one + 8, below, at_h, one, corner, at_h))
        for j in range(u):
            for i in range(j, u):
                stack[top + j * u + i] = work[(k + j) * h + k + i]
        for i in range(k * h):
            factor[panels[s] + i] = work[i]
        top += u * u
        waiting[n_waiting] = s
        n_waiting += 1
    state[0], state[1] = top, n_waiting
    return -1


@compiled(entry=True)
def solve(starts, begins, rows, panels, use, counts, factor, X, border):
    """Replace right-hand sides X (n, b) by the solutions, with scratch for the largest ``border`` (., b)."""
    m, b = len(starts) - 1, X.shape[1]
    _, trsm, _, gemm, letters, one = use
    lower, right, turned, no = letters, letters + 1, letters + 2, letters + 3
    minus, zero = one + 8, one + 16
    at_k, values, first_x = np.intp(counts.ctypes.data), np.intp(factor.ctypes.data), np.intp(X.ctypes.data)
    at_h, at_u, at_b, beside = at_k + 4, at_k + 8, at_k + 12, np.intp(border.ctypes.data)
    counts[3] = b
    for turn in range(2 * m):  # down to the last block, and up again
        s = turn if turn < m else 2 * m - 1 - turn
        low, k, u = begins[s], starts[s + 1] - starts[s], begins[s + 1] - begins[s]
        x, panel = first_x + 8 * b * starts[s], values + 8 * panels[s]
        below = panel + 8 * k
        counts[0], counts[1], counts[2] = k, k + u, u
        # the rows of X are the columns of its transpose, which is solved from the right
        if turn < m:
            call(trsm, (right, lower, turned, no, at_b, at_k, one, panel, at_h, x, at_b))
            if u > 0:
                call(gemm, (no, turned, at_b, at_u, at_k, one, x, at_b, below, at_h, zero, beside, at_b))
            for i in range(u):
                for c in range(b):
                    X[rows[low + i], c] -= border[i, c]
        else:
            for i in range(u):
                for c in range(b):
                    border[i, c] = X[rows[low + i], c]
            if u > 0:
                call(gemm, (no, no, at_b, at_k, at_u, minus, beside, at_b, below, at_h, one, x, at_b))
            call(trsm, (right, lower, no, no, at_b, at_k, one, panel, at_h, x, at_b))
