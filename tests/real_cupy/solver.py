"""cuSOLVER, by NumPy and LAPACK, behind CuPy's wrappers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

from . import machine
from .machine import always, new_handle, nothing
from .views import CUDA_TYPES, LETTERS, matrix, on_device, view


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


def by_jacobi(letter: str) -> dict[str, Callable[..., Any]]:
    dtype = LETTERS[letter]

    def syevj(_, vectors, upper, n, A, lda, W, work, size, info, params):
        eigenpairs(matrix(A, dtype, n, n, lda), view(W, dtype, (n,)), vectors, upper)
        tell(info)

    def syevj_batched(_, vectors, upper, n, A, lda, W, work, size, info, params, count):
        a, values = view(A, dtype, (count, n, n), (lda * n, 1, lda)), view(W, dtype, (count, n))
        eigenpairs(a, values, vectors, upper)
        failed = np.zeros(count, bool)
        if machine.now().jacobi == "needs rank":
            failed = np.abs(values).min(axis=1, initial=np.inf) <= 1e-12 * np.abs(values).max(axis=1, initial=0)
        values[failed], a[failed] = np.nan, np.nan
        view(info, "int32", (count,))[...] = np.where(failed, n + 1, 0)

    def gesvdj_batched(_, vectors, m, n, A, lda, S, U, ldu, V, ldv, work, size, info, params, count):
        u, s, vh = np.linalg.svd(view(A, dtype, (count, m, n), (lda * n, 1, lda)))
        view(S, dtype, (count, min(m, n)))[...] = s
        if vectors:
            view(U, dtype, (count, m, m), (ldu * m, 1, ldu))[...] = u
            view(V, dtype, (count, n, n), (ldv * n, 1, ldv))[...] = vh.swapaxes(1, 2)
        view(info, "int32", (count,))[...] = 0

    found = {"syevj": syevj, "syevjBatched": syevj_batched, "gesvdjBatched": gesvdj_batched}
    return {f"{letter}{name}": function for name, function in found.items()}


def by_factors(letter: str) -> dict[str, Callable[..., Any]]:
    dtype = LETTERS[letter]
    known = {name: getattr(lapack, letter + name) for name in ("geqrf", "orgqr", "getrf", "getrs", "potrf")}

    def geqrf(_, m, n, A, lda, tau, work, size, info):
        a = matrix(A, dtype, m, n, lda)
        a[...], view(tau, dtype, (min(m, n),))[...], _work, failed = known["geqrf"](a)
        tell(info, failed)

    def orgqr(_, m, n, k, A, lda, tau, work, size, info):
        a = matrix(A, dtype, m, n, lda)
        a[...], _work, failed = known["orgqr"](a, view(tau, dtype, (k,)))
        tell(info, failed)

    def getrf(_, m, n, A, lda, work, pivots, info):
        a = matrix(A, dtype, m, n, lda)
        a[...], rows, failed = known["getrf"](a)
        view(pivots, "int32", (min(m, n),))[...] = rows + 1
        tell(info, failed)

    def getrs(_, trans, n, columns, A, lda, pivots, B, ldb, info):
        b = matrix(B, dtype, n, columns, ldb)
        b[...], failed = known["getrs"](matrix(A, dtype, n, n, lda), view(pivots, "int32", (n,)) - 1, b, trans=trans)
        tell(info, failed)

    def potrf(_, upper, n, A, lda, work, size, info):
        a = matrix(A, dtype, n, n, lda)
        a[...], failed = known["potrf"](a, lower=not upper, clean=0)
        tell(info, failed)

    def gesvd(_, left, right, m, n, A, lda, S, U, ldu, VT, ldvt, work, size, rwork, info):
        a, k, wanted = matrix(A, dtype, m, n, lda), min(m, n), {chr(left), chr(right)}
        u, s, v = np.linalg.svd(a, full_matrices="A" in wanted)
        for job, whole, part, place in ((chr(left), u, a[:, :k], (U, m, u.shape[1], ldu)),
                                        (chr(right), v, a[:k], (VT, v.shape[0], n, ldvt))):  # fmt: skip
            if job == "O":
                part[...] = whole[: part.shape[0], : part.shape[1]]
            elif job != "N":
                matrix(place[0], dtype, *place[1:])[...] = whole
        view(S, dtype, (k,))[...] = s
        tell(info)

    found = {"geqrf": geqrf, "orgqr": orgqr, "getrf": getrf, "getrs": getrs, "potrf": potrf, "gesvd": gesvd}
    return {f"{letter}{name}": function for name, function in found.items()}


COMPUTED = {"xsyevd": xsyevd, **by_jacobi("s"), **by_jacobi("d"), **by_factors("s"), **by_factors("d")}
FUNCTIONS = {
    **dict.fromkeys(("create", "spCreate", "createParams", "createSyevjInfo", "createGesvdjInfo"), new_handle),
    **dict.fromkeys(("destroy", "spDestroy", "destroyParams", "destroySyevjInfo", "destroyGesvdjInfo"), nothing),
    "setStream": nothing,
    **{f"{name}_bufferSize": always(64) for name in COMPUTED if not name.endswith("getrs")},
    "xsyevd_bufferSize": always((64, 64)),
    **on_device(COMPUTED),
}
