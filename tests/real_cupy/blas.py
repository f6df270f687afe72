"""cuBLAS, by NumPy and LAPACK, behind CuPy's wrappers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

from .machine import always, new_handle, nothing
from .views import CUDA_TYPES, LETTERS, added, as_stored, matrix, number, on_device, turned, view


def gemm_ex(_, ta, tb, m, n, k, alpha, A, At, lda, B, Bt, ldb, beta, C, Ct, ldc, compute, algorithm):
    a, b = matrix(A, CUDA_TYPES[At], *as_stored(ta, m, k), lda), matrix(B, CUDA_TYPES[Bt], *as_stored(tb, k, n), ldb)
    dtype = CUDA_TYPES[Ct]
    product = number(alpha, dtype) * (turned(a, ta) @ turned(b, tb))
    added(matrix(C, dtype, m, n, ldc), product, number(beta, dtype))


def gemm_strided(
    _, ta, tb, m, n, k, alpha, A, At, lda, step_a, B, Bt, ldb, step_b, beta, C, Ct, ldc, step_c, count, compute, how
):
    dtype = CUDA_TYPES[Ct]
    a = view(A, dtype, (count, *as_stored(ta, m, k)), (step_a, 1, lda))
    b = view(B, dtype, (count, *as_stored(tb, k, n)), (step_b, 1, ldb))
    a, b = (x.swapaxes(1, 2) if flag else x for x, flag in ((a, ta), (b, tb)))
    added(view(C, dtype, (count, m, n), (step_c, 1, ldc)), number(alpha, dtype) * (a @ b), number(beta, dtype))


def of_vectors(letter: str) -> dict[str, Callable[..., Any]]:
    dtype = LETTERS[letter]

    def gemv(_, trans, m, n, alpha, A, lda, x, step_x, beta, y, step_y):
        a = turned(matrix(A, dtype, m, n, lda), trans)
        product = number(alpha, dtype) * (a @ view(x, dtype, (a.shape[1],), (step_x,)))
        added(view(y, dtype, (a.shape[0],), (step_y,)), product, number(beta, dtype))

    def nrm2(_, n, x, step, result):
        view(result, dtype, (1,), anywhere=True)[0] = np.linalg.norm(view(x, dtype, (n,), (step,)))

    def dot(_, n, x, step_x, y, step_y, result):
        value = view(x, dtype, (n,), (step_x,)) @ view(y, dtype, (n,), (step_y,))
        view(result, dtype, (1,), anywhere=True)[0] = value

    def axpy(_, n, alpha, x, step_x, y, step_y):
        if factor := number(alpha, dtype):  # else BLAS does not read x, of which CuPy's eigsh makes use
            view(y, dtype, (n,), (step_y,))[...] += factor * view(x, dtype, (n,), (step_x,))

    def scal(_, n, alpha, x, step):
        view(x, dtype, (n,), (step,))[...] *= number(alpha, dtype)

    found = {"gemv": gemv, "nrm2": nrm2, "dot": dot, "axpy": axpy, "scal": scal}
    return {f"{letter}{name}": function for name, function in found.items()}


def of_matrices(letter: str) -> dict[str, Callable[..., Any]]:
    dtype = LETTERS[letter]

    def gemm(_, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc):
        a, b = matrix(A, dtype, *as_stored(ta, m, k), lda), matrix(B, dtype, *as_stored(tb, k, n), ldb)
        product = number(alpha, dtype) * (turned(a, ta) @ turned(b, tb))
        added(matrix(C, dtype, m, n, ldc), product, number(beta, dtype))

    def gemm_batched(_, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, count):
        for a, b, c in zip(*(view(part, "uint64", (count,)) for part in (A, B, C)), strict=True):
            gemm(_, ta, tb, m, n, k, alpha, int(a), lda, int(b), ldb, beta, int(c), ldc)

    def trsm(_, side, upper, trans, unit, m, n, alpha, A, lda, B, ldb):
        size = n if side else m
        a, b = matrix(A, dtype, size, size, lda), matrix(B, dtype, m, n, ldb)
        a = np.triu(a) if upper else np.tril(a)
        if unit:
            np.fill_diagonal(a, 1)
        a = turned(a, trans)
        b[...] = number(alpha, dtype) * (np.linalg.solve(a.T, b.T).T if side else np.linalg.solve(a, b))

    def geam(_, ta, tb, m, n, alpha, A, lda, beta, B, ldb, C, ldc):
        result = number(alpha, dtype) * turned(matrix(A, dtype, *as_stored(ta, m, n), lda), ta)
        if factor := number(beta, dtype):
            result = result + factor * turned(matrix(B, dtype, *as_stored(tb, m, n), ldb), tb)
        matrix(C, dtype, m, n, ldc)[...] = result

    def syrk(_, upper, trans, n, k, alpha, A, lda, beta, C, ldc):
        a = turned(matrix(A, dtype, *as_stored(trans, n, k), lda), trans)
        c, factor = matrix(C, dtype, n, n, ldc), number(beta, dtype)
        full = number(alpha, dtype) * (a @ a.T) + (factor * c if factor else 0)
        part = np.triu_indices(n) if upper else np.tril_indices(n)
        c[part] = full[part]

    found = {"gemm": gemm, "gemmBatched": gemm_batched, "trsm": trsm, "geam": geam, "syrk": syrk}
    return {f"{letter}{name}": function for name, function in found.items()} | of_stacks(letter)


def of_stacks(letter: str) -> dict[str, Callable[..., Any]]:
    dtype, factor, solve = LETTERS[letter], getattr(lapack, f"{letter}getrf"), getattr(lapack, f"{letter}getrs")

    def getrf_batched(_, n, A, lda, pivots, info, count):
        rows, failed = view(pivots, "int32", (count, n)), view(info, "int32", (count,))
        for k, address in enumerate(view(A, "uint64", (count,))):
            a = matrix(int(address), dtype, n, n, lda)
            a[...], found, failed[k] = factor(a)
            rows[k] = found + 1

    def getrs_batched(_, trans, n, columns, A, lda, pivots, B, ldb, info, count):
        rows = view(pivots, "int32", (count, n))
        pairs = zip(view(A, "uint64", (count,)), view(B, "uint64", (count,)), strict=True)
        for k, (a, b) in enumerate(pairs):
            x = matrix(int(b), dtype, n, columns, ldb)
            x[...], _failed = solve(matrix(int(a), dtype, n, n, lda), rows[k] - 1, x, trans=trans)
        ctypes.c_int.from_address(info).value = 0

    return {f"{letter}getrfBatched": getrf_batched, f"{letter}getrsBatched": getrs_batched}


pointer_mode = [0]
FUNCTIONS = {
    "create": new_handle, "destroy": nothing, "setStream": nothing, "getStream": always(0), "setMathMode": nothing,
    "getMathMode": always(0), "getPointerMode": lambda _: pointer_mode[0],
    "setPointerMode": lambda _, mode: pointer_mode.__setitem__(0, mode),
    **on_device({"gemmEx": gemm_ex, "gemmStridedBatchedEx": gemm_strided}),
    **on_device(of_vectors("s") | of_vectors("d") | of_matrices("s") | of_matrices("d")),
}  # fmt: skip
