"""``cupy.linalg`` and ``cupyx.errstate``: what cuSOLVER says of a failure, and who listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import arrays
from .arrays import device, host
from .costs import charge


@contextmanager
def errstate(
    *, divide: Any = None, over: Any = None, under: Any = None, invalid: Any = None, linalg: Any = None
) -> Iterator[None]:
    """CuPy ignores failures of cuSOLVER unless told otherwise."""
    machine = arrays.machine
    before, machine.linalg = machine.linalg, linalg or machine.linalg
    try:
        yield
    finally:
        machine.linalg = before


def eigh(a: Any, UPLO: str = "L") -> Any:
    """One matrix by ``syevd``, a stack by ``syevjBatched``: both may be told to fail, on zeros or for lack of rank."""
    matrices = host(a)
    values, vectors = np.linalg.eigh(matrices, UPLO)
    if arrays.machine.jacobi == "needs rank":
        least = 0 if matrices.ndim == 2 else 1e-12
        lacking = np.abs(values).min(axis=-1, initial=np.inf) <= least * np.abs(values).max(axis=-1, initial=0)
        lacking &= matrices.ndim > 2 or not matrices.any()
        values[lacking], vectors[lacking] = np.nan, np.nan
    charge(arrays.machine, "eigh", (matrices,), (values, vectors))
    checked(failed=matrices.ndim > 2 and not np.isfinite(values).all())
    return device((values, vectors))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return eigh(a, UPLO)[0]


def checked(*, failed: bool = False) -> None:
    """Look at ``devInfo``, which is on the device; nobody does unless told to."""
    if arrays.machine.linalg == "raise":
        arrays.machine.synchronise()
        if failed:
            raise np.linalg.LinAlgError("Error reported by syevjBatched in cuSOLVER. devInfo = [21]")
