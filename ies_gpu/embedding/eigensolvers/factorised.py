"""Eigenpairs by a sparse factorisation of the shifted matrix: what sparse and long graphs need.

On such a graph many eigenvalues crowd at 1, to within 1e-7, and an iteration with S alone takes tens of thousands of
products. The inverse of ``1 + shift - S`` spreads them: Lanczos with it takes some 50 solves. The factor is found on
the host, by SuperLU with a minimum-degree order. It stays sparse where the graph has small separators, as strips,
surfaces and trees have, and fills up on an expander; :func:`.solver_costs.factor_cost` tells beforehand.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse

from ...backend import Backend, host_of
from ...backend.array import Array, csr
from ...findings import NotConvergedError
from .accuracy import residuals_for
from .lanczos import GUARDS, add_missed, krylov, lanczos
from .solver_costs import THIN, factor_cost, symmetric_factor

SHIFT = 1e-9  # keeps the matrix positive; the vector of eigenvalue 1 is known and left out, so nothing is lost to it
DRIFT = 4.0  # times as much as entries in float32 take that eigenvalue above 1 comes on top
SAME = 1e-9  # by how much a value of the inverse may exceed the last wanted one before it counts as missed
STRIDE = 8  # of the rows that stand beside each other for the factorisation of a thin graph
LOOK = 10  # solves after which it is usually clear that nothing was missed
FACTORISED_FROM = 3_000  # rows of a last level of the multilevel method from which a factorisation is considered


def symmetric_on_host(operator: Any) -> scipy.sparse.csr_matrix:
    P, host = operator.transition.matrix, operator.backend.to_host
    P, root = csr(host(P.indptr), host(P.indices), host(P.data).astype(np.float64), operator.n), host(operator.root)
    S = scipy.sparse.diags(root) @ P @ scipy.sparse.diags(1 / root)
    return (0.5 * (S + S.T)).tocsr()


class ShiftedInverse:
    """``scale * (1 + shift - S)^-1`` on the host, as an operator for Lanczos; ``top`` is the vector of eigenvalue 1."""

    def __init__(self, S: scipy.sparse.csr_matrix, top: np.ndarray, backend: Backend) -> None:
        self.backend, self.n, self.scale, self.solves = backend, S.shape[0], 1.0, 0
        self.shift = SHIFT + DRIFT * max(0.0, float(top @ (S @ top)) / float(top @ top) - 1)
        matrix = ((1 + self.shift) * scipy.sparse.identity(self.n) - S).tocsc()
        # minimum degree breaks ties by the order of the rows: where neighbours follow each other, a thin graph fills up
        # twice as much as one whose rows are shuffled
        self.order = np.argsort(np.arange(self.n) % STRIDE, kind="stable") if S.nnz <= THIN * self.n else None
        self.factor = symmetric_factor(matrix if self.order is None else matrix[self.order][:, self.order])

    def __call__(self, V: Array) -> Any:
        self.solves += 1 if V.ndim == 1 else V.shape[1]
        if self.order is None:
            return self.scale * self.factor.solve(np.ascontiguousarray(V))
        found = np.empty_like(V)
        found[self.order] = self.scale * self.factor.solve(V[self.order])
        return found


def factorised_eigenpairs(
    operator: Any, S: scipy.sparse.csr_matrix, count: int, start: Array, tol: float, info: dict[str, Any]
) -> tuple[Array, Array]:
    """Return the leading eigenpairs of S: values with those of guards, vectors (n, count), on the operator's device."""
    backend, host = operator.backend, operator.backend.to_host
    here = host_of(backend)
    with here.active():
        top, begin = host(operator.top), host(start)
        try:
            inverse = ShiftedInverse(S, top, here)
        except RuntimeError as failure:  # SuperLU: "Factor is exactly singular"
            raise NotConvergedError(f"the factorisation failed: {failure}") from failure
        values, vectors = _around(inverse, top, count, begin, tol)
        values, vectors = add_missed(inverse, values, vectors, count, SAME, size=LOOK)
        values, vectors = _polished(inverse, S, top, vectors[:, 1:], count, tol)
    info["solves"] = inverse.solves
    info["factor_entries"] = int(inverse.factor.nnz)
    return backend.asarray(values), backend.asarray(vectors)


def _around(
    inverse: ShiftedInverse, top: np.ndarray, count: int, start: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the known vector and the leading ones beside it, and set ``scale`` so that the last wanted value is 1."""
    wanted = min(count - 1 + GUARDS, inverse.n - 1)

    def enough(values: np.ndarray, residuals: np.ndarray, _: int) -> bool:
        first = slice(0, count - 1)
        # a residual of the inverse, over its value, is one of S; rounding leaves one of 1e-14 times the largest value
        return bool((residuals[first] <= np.maximum(0.05 * tol * values[first], 3e-15 * values[0])).all())

    values, vectors = lanczos(inverse, wanted, start, enough, locked=top[None])
    edge = float(values[max(0, count - 2)])
    inverse.scale = 1 / edge
    return np.append(1 / (inverse.shift * edge), values / edge), np.column_stack([top, vectors])


def _polished(
    inverse: ShiftedInverse, S: scipy.sparse.csr_matrix, top: np.ndarray, vectors: np.ndarray, count: int, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and vectors of S beside the known one, if need be after one step more with all at a time."""
    X = vectors
    for attempt in range(2):
        for _ in range(2):
            X = np.linalg.qr(X - top[:, None] * (top @ X))[0]
        values, rotation = np.linalg.eigh(X.T @ (S @ X))
        values, found = values[::-1], X @ rotation[:, ::-1][:, : count - 1]
        residuals = np.linalg.norm(S @ found - found * values[: count - 1], axis=0)
        limits = np.minimum(np.minimum(0.1 * tol, 1e-6 * (1 - values[: count - 1])), residuals_for(values, count - 1))
        if attempt == 1 or (residuals <= limits).all():
            break
        X = inverse(X)
    return np.append(top @ (S @ top), values), np.column_stack([top, found])


def last_level_pairs(level: Any, count: int) -> tuple[Array, Array]:
    """Return leading pairs of the smallest level of the multilevel method, only as good as they are needed there.

    On the host: a device would wait for each of its short products. A level that is long, because of points that are
    cells of their own, is factorised where that is quick: Lanczos would take tens of thousands of products.
    """
    small, found = level.on_host() if level.backend.is_remote else level, None
    start, info = np.random.default_rng(level.n).normal(size=level.n), dict[str, Any]()
    indptr, indices, data = small.matrix
    S = csr(indptr, indices, data.astype(np.float64), level.n)
    if level.n > FACTORISED_FROM and factor_cost(S := (0.5 * (S + S.T)).tocsr()).is_quick(level.n):
        with suppress(NotConvergedError):
            found = factorised_eigenpairs(small, S, count, start, 1e-5, info)
            small.columns += info["solves"]
    values, vectors = found or krylov(small, count, start, 1e-5)
    level.columns = small.columns
    return values, level.backend.asarray(vectors)
