"""Eigenpairs by a sparse factorisation of the shifted matrix: what sparse and long graphs need.

On such a graph many eigenvalues crowd at 1, to within 1e-7, and an iteration with S alone takes tens of thousands of
products. The inverse of ``1 + shift - S`` spreads them: block Lanczos with it takes some 100 solves, six at a time. The
factor is found on the host. It stays sparse where the graph has small separators, as strips, surfaces and trees have,
and fills up on an expander; :class:`.elimination.Elimination` tells beforehand.
"""

from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse

from ...backend import Backend, Report, host_of
from ...backend.array import Array, csr
from ...findings import NotConvergedError
from .accuracy import groups_of, residuals_for
from .elimination import Cholesky
from .lanczos import add_missed, expected_steps, krylov
from .solver_costs import Look

SHIFT = 1e-9  # keeps the matrix positive; the vector of eigenvalue 1 is known and left out, so nothing is lost to it
DRIFT = 4.0  # times as much as entries in float32 take that eigenvalue above 1 comes on top
SAME = 1e-9  # by how much a value of the inverse may exceed the last wanted one before it counts as missed
BLOCK = 6  # vectors that are solved for at a time
ROOM = 160  # columns of the basis at first
MOST_SOLVES = 800  # or three for each pair that is wanted
RESIDUAL = 3e-15  # that rounding leaves of S
NEAR = 1e3  # times as large as is aimed for may be a bound, for residuals of S to be computed
NOTHING = 1e-12  # of what a block was is as good as nothing
LOOK = 10  # solves after which it is usually clear that nothing was missed
FACTORISED_FROM = 3_000  # rows of a last level of the multilevel method from which a factorisation is considered


class ShiftedInverse:
    """``scale * (1 + shift - S)^-1`` on the host, as an operator; ``top`` is the vector of eigenvalue 1."""

    def __init__(self, look: Look, top: np.ndarray, backend: Backend) -> None:
        S = look.S
        self.backend, self.n, self.scale, self.solves = backend, S.shape[0], 1.0, 0
        self.shift = SHIFT + DRIFT * max(0.0, float(top @ (S @ top)) / float(top @ top) - 1)
        self.matrix = ((1 + self.shift) * scipy.sparse.identity(self.n) - S).tocsr()
        self.factor = Cholesky(self.matrix, look.plan())

    def __call__(self, V: Array) -> Any:
        self.solves += 1 if V.ndim == 1 else V.shape[1]
        return self.scale * self.factor.solve(V)


def factorised_eigenpairs(
    operator: Any,
    look: Look,
    count: int,
    start: Array,
    tol: float,
    info: dict[str, Any],
    progress: Report | None = None,
) -> tuple[Array, Array]:
    """Return the leading eigenpairs of S: values with those of guards, vectors (n, count), on the operator's device."""
    backend, host = operator.backend, operator.backend.to_host
    here = host_of(backend)
    with here.active():
        top, begin = host(operator.top), host(start)
        inverse = ShiftedInverse(look, top, here)
        values, vectors, copies = _around(inverse, top, count, begin, tol, progress)
        if copies:  # of an eigenvalue, as many copies as a block has vectors are seen at most
            inverse.scale = 1 / values[count - 1]
            values, vectors = add_missed(inverse, values * inverse.scale, vectors, count, SAME, size=LOOK)
        values, vectors = _polished(inverse, look.S, top, vectors[:, 1:], count, tol)
    info["solves"] = inverse.solves
    info["factor_entries"] = int(inverse.factor.plan.fill)
    return backend.asarray(values), backend.asarray(vectors)


def _around(
    inverse: ShiftedInverse, top: np.ndarray, count: int, start: np.ndarray, tol: float, progress: Report | None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return values of the inverse and vectors, the known one and those beside it, by block Lanczos.

    Also whether some eigenvalue has as many copies as a block can see: then there may be more.
    """
    n, wanted, pace, b, k = inverse.n, max(count - 1, 1), list[tuple[int, float]](), BLOCK, 0
    room = min(n - 1, max(MOST_SOLVES, 3 * wanted))
    basis, T = np.empty((n, min(ROOM, room)), order="F"), np.zeros((room, room))
    begin = np.random.default_rng(n).normal(size=(n, b))
    begin[:, 0] = start
    Q, *_ = _beside(inverse(begin), top, basis[:, :0])
    while True:
        if k + b > basis.shape[1]:
            basis = np.concatenate([basis, np.empty((n, min(basis.shape[1], room - k)), order="F")], axis=1)
        basis[:, k : k + b] = Q
        k += b
        Q, R, onto = _beside(inverse(np.ascontiguousarray(Q)), top, basis[:, :k])
        T[:k, k - b : k], T[k - b : k, :k] = onto, onto.T
        ended = k + b > room
        if k < wanted + b and not ended:
            continue
        theta, Y = (found[..., ::-1] for found in np.linalg.eigh(T[:k, :k]))
        # of the inverse, what is left of a Ritz vector is Q E; of S, the shifted matrix times that
        E, values = R @ Y[k - b :, :wanted], 1 + inverse.shift - 1 / theta[: wanted + b].clip(1e-300)
        goal, residuals = _limits(values, wanted, tol), np.linalg.norm(E, axis=0) / theta[:wanted]
        if ended or (residuals <= NEAR * goal).all():
            image = inverse.matrix @ Q
            residuals = np.sqrt(((image.T @ image) @ E * E).sum(axis=0).clip(0)) / theta[:wanted]
        pace.append((inverse.solves, float((residuals / goal).max())))
        if progress is not None:
            needed = expected_steps(pace, 1.0)
            progress(inverse.solves, max(inverse.solves + 1, int(needed)) if needed < room else 0)
        if ended or (residuals <= goal).all():
            break
    vectors = basis[:, :k] @ Y[:, : wanted + b]
    crowded = bool(np.bincount(groups_of(values)[: wanted + 1]).max() >= b)
    return np.append(1 / inverse.shift, theta[: wanted + b]), np.column_stack([top, vectors]), crowded


def _beside(W: np.ndarray, top: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return orthonormal Q and R, and the part C along the basis, of ``W = Q R + basis C`` beside the known vector."""
    b, C = W.shape[1], np.zeros((basis.shape[1], W.shape[1]))
    for first in (max(0, len(C) - 2 * b), 0):  # the last two blocks leave little for the others
        W = W - top[:, None] * (top @ W)
        onto = basis[:, first:].T @ W
        W -= basis[:, first:] @ onto
        C[first:] += onto
    Q, R = np.linalg.qr(W)
    if abs(np.diag(R)).min() < NOTHING * np.linalg.norm(C):  # rounding alone need not be beside the basis
        Q = Q - basis @ (basis.T @ Q) - top[:, None] * (top @ Q)
        Q = np.linalg.qr(Q)[0]
    return Q, R, C


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
        if attempt == 1 or (residuals <= 2 * _limits(values, count - 1, tol)).all():
            break
        X = inverse(X)
    return np.append(top @ (S @ top), values), np.column_stack([top, found])


def _limits(values: np.ndarray, count: int, tol: float) -> np.ndarray:
    """Return the residuals of S (count,) that are aimed for: also small beside ``1 - values`` and their gaps."""
    small = np.minimum(0.1 * tol, 1e-6 * (1 - values[:count]))
    return np.minimum(small, residuals_for(values, count)).clip(RESIDUAL)


def last_level_pairs(level: Any, count: int) -> tuple[Array, Array]:
    """Return leading pairs of the smallest level of the multilevel method, only as good as they are needed there.

    On the host: a device would wait for each of its short products. A level that is long, because of points that are
    cells of their own, is factorised where that is quick: Lanczos would take tens of thousands of products.
    """
    small, found = level.on_host() if level.backend.is_remote else level, None
    start, info = np.random.default_rng(level.n).normal(size=level.n), dict[str, Any]()
    indptr, indices, data = small.matrix
    S = csr(indptr, indices, data.astype(np.float64), level.n)
    if level.n > FACTORISED_FROM and (look := Look((0.5 * (S + S.T)).tocsr())).is_quick:
        with suppress(NotConvergedError):
            found = factorised_eigenpairs(small, look, count, start, 1e-5, info)
            small.columns += info["solves"]
    values, vectors = found or krylov(small, count, start, 1e-5)
    level.columns = small.columns
    return values, level.backend.asarray(vectors)
