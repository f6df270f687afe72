"""The library's own eigensolver, ``eigsh`` of SciPy or CuPy, and the checks that it leaves to the caller.

CuPy's neither raises nor says when it stops unconverged, overwrites its start vector and returns NaN when its Krylov
space ends; SciPy's raises, but its tolerance is relative to the eigenvalue. Neither sees a second copy of a multiple
eigenvalue except by rounding. So everything it returns is looked at: how many pairs, whether they are finite and
orthonormal, and every residual, computed anew. Missed copies are looked for by the caller, on the complement.
"""

from __future__ import annotations

from typing import Any

from ...backend.array import Array
from ...backend.kernels.arrays import column_norms
from ...errors import NotConvergedError

SOLVERS = ("auto", "eigsh")
MAX_PRODUCTS = 20_000
ORTHONORMAL = 1e-8  # what ``|V'V - I|`` may be


def library_eigenpairs(operator: Any, count: int, guards: int, start: Array, tol: float) -> tuple[Array, Array]:
    """The ``count + guards`` largest eigenpairs: values, falling, and vectors (n, k), the first ``count`` checked.

    Parameters
    ----------
    operator : SymmetricTransition
    start : array (n,)
        Not changed.
    tol : float
        Bound on the first ``count`` residuals.

    Raises
    ------
    NotConvergedError
        If anything is wrong with the result; the message says what.
    """
    wanted = count + guards
    size = min(operator.n - 1, max(2 * wanted + 1, wanted + 32))
    # a copy: CuPy's solver works in the memory of its start vector
    values, vectors = operator.backend.eigsh(operator, wanted, start.copy(), 0.25 * tol, size, MAX_PRODUCTS)
    if len(values) < count:
        raise NotConvergedError(f"eigsh found {len(values)} of {count} pairs in {MAX_PRODUCTS} products")
    order = operator.backend.xp.argsort(-values)
    values, vectors = values[order], vectors[:, order]
    check_pairs(operator, values, vectors, count, tol)
    return values, vectors


def check_pairs(operator: Any, values: Array, vectors: Array, count: int, tol: float) -> None:
    """Raise unless the pairs are finite and orthonormal and the first ``count`` have residuals within ``tol``."""
    xp = operator.backend.xp
    if not bool(xp.isfinite(values.sum()) & xp.isfinite(vectors.sum())):
        raise NotConvergedError("eigsh returned numbers that are not finite")
    gram = float(xp.abs(vectors.T @ vectors - xp.eye(len(values))).max())
    if not gram <= ORTHONORMAL:
        raise NotConvergedError(f"eigsh returned vectors that are not orthonormal, by {gram:.1e}")
    first = xp.ascontiguousarray(vectors[:, :count])
    worst = float(column_norms(operator(first) - first * values[:count]).max())
    if not worst <= tol:
        raise NotConvergedError(f"eigsh returned a pair with a residual of {worst:.1e}, and did not say so")
