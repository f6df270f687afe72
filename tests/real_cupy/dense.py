"""cuBLAS and cuSOLVER, as far as the package asks for them, by NumPy and LAPACK behind CuPy's wrappers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

from . import machine
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


def tell(info: int, value: int = 0) -> None:
    view(info, "int32", (1,))[0] = value


def eigenpairs(a: np.ndarray, values: np.ndarray, vectors: int, upper: int) -> None:
    part = "U" if upper else "L"
    if vectors:
        values[...], a[...] = np.linalg.eigh(a, UPLO=part)
    else:
        values[...] = np.linalg.eigvalsh(a, UPLO=part)


def xsyevd(_, params, vectors, upper, n, kind, A, lda, kind_w, W, compute, work, size, host, host_size, info):
    eigenpairs(matrix(A, CUDA_TYPES[kind], n, n, lda), view(W, CUDA_TYPES[kind_w], (n,)), vectors, upper)
    tell(info)


def of_type(letter: str) -> tuple[dict[str, Callable[..., Any]], dict[str, Callable[..., Any]]]:
    """Functions of cuBLAS and of cuSOLVER for one type of numbers."""
    dtype, geqrf_, orgqr_ = LETTERS[letter], getattr(lapack, f"{letter}geqrf"), getattr(lapack, f"{letter}orgqr")

    def geam(_, ta, tb, m, n, alpha, A, lda, beta, B, ldb, C, ldc):
        result = number(alpha, dtype) * turned(matrix(A, dtype, *as_stored(ta, m, n), lda), ta)
        if factor := number(beta, dtype):
            result = result + factor * turned(matrix(B, dtype, *as_stored(tb, m, n), ldb), tb)
        matrix(C, dtype, m, n, ldc)[...] = result

    def vector(address, n, step):
        return view(address, dtype, (n,), (step,))

    def nrm2(_, n, x, step, out):
        view(out, dtype, (1,), anywhere=True)[0] = np.linalg.norm(vector(x, n, step))

    def dot(_, n, x, step, y, step_y, out):
        view(out, dtype, (1,), anywhere=True)[0] = vector(x, n, step) @ vector(y, n, step_y)

    def axpy(_, n, alpha, x, step, y, step_y):
        if factor := number(alpha, dtype):  # else x is not read: it may be anything
            vector(y, n, step_y)[...] += factor * vector(x, n, step)

    def gemv(_, ta, m, n, alpha, A, lda, x, step, beta, y, step_y):
        a = turned(matrix(A, dtype, m, n, lda), ta)
        product = number(alpha, dtype) * (a @ vector(x, a.shape[1], step))
        added(vector(y, a.shape[0], step_y), product, number(beta, dtype))

    def syevj_batched(_, vectors, upper, n, A, lda, W, work, size, info, params, count):
        a, values = view(A, dtype, (count, n, n), (lda * n, 1, lda)), view(W, dtype, (count, n))
        eigenpairs(a, values, vectors, upper)
        failed = np.zeros(count, bool)
        if machine.now().jacobi == "needs rank":
            failed = np.abs(values).min(axis=1, initial=np.inf) <= 1e-12 * np.abs(values).max(axis=1, initial=0)
        values[failed], a[failed] = np.nan, np.nan
        view(info, "int32", (count,))[...] = np.where(failed, n + 1, 0)

    def geqrf(_, m, n, A, lda, tau, work, size, info):
        a = matrix(A, dtype, m, n, lda)
        a[...], view(tau, dtype, (min(m, n),))[...], _work, failed = geqrf_(a)
        tell(info, failed)

    def orgqr(_, m, n, k, A, lda, tau, work, size, info):
        a = matrix(A, dtype, m, n, lda)
        a[...], _work, failed = orgqr_(a, view(tau, dtype, (k,)))
        tell(info, failed)

    solver = {f"{letter}syevjBatched": syevj_batched, f"{letter}geqrf": geqrf, f"{letter}orgqr": orgqr}
    blas = {"geam": geam, "nrm2": nrm2, "dot": dot, "axpy": axpy, "gemv": gemv}
    return {f"{letter}{name}": function for name, function in blas.items()}, solver


pointer_mode = [0]
OF_BLAS, OF_SOLVER = ({**single, **double} for single, double in zip(of_type("s"), of_type("d"), strict=True))
CUBLAS = {
    "create": new_handle, "destroy": nothing, "setStream": nothing, "getStream": always(0), "setMathMode": nothing,
    "getMathMode": always(0), "getPointerMode": lambda _: pointer_mode[0],
    "setPointerMode": lambda _, mode: pointer_mode.__setitem__(0, mode),
    **on_device({"gemmEx": gemm_ex, "gemmStridedBatchedEx": gemm_strided} | OF_BLAS),
}  # fmt: skip
CUSOLVER = {
    **dict.fromkeys(("create", "createParams", "createSyevjInfo"), new_handle),
    **dict.fromkeys(("destroy", "destroyParams", "destroySyevjInfo", "setStream"), nothing),
    **{f"{name}_bufferSize": always(64) for name in OF_SOLVER},
    "xsyevd_bufferSize": always((64, 64)),
    **on_device({"xsyevd": xsyevd} | OF_SOLVER),
}
