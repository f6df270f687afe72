"""Lanczos with thick restarts for the largest eigenpairs of a symmetric operator, and the search for missed copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend import Backend, backend_of
from ...backend.array import Array
from ...errors import NotConvergedError

GUARDS = 4  # pairs asked for beyond those wanted: a missed copy would most likely be among the last


def is_small(n: int, count: int) -> bool:
    """Whether the whole operator as a dense matrix is the simplest."""
    return n <= max(400, 3 * (count + GUARDS))


def krylov(
    operator: Any,
    count: int,
    start: Array,
    tol: float,
    *,
    progress: Callable[[int, int], None] | None = None,
    max_products: int = 20_000,
) -> tuple[Array, Array]:
    """Values (count,) and vectors (n, count) of the largest eigenpairs, by Lanczos or, for a few rows, densely."""
    xp = operator.backend.xp
    wanted = min(count + GUARDS, operator.n)
    if is_small(operator.n, count):
        values, vectors = xp.linalg.eigh(operator(xp.eye(operator.n)))
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        settled: list[bool] = []

        def enough(_: np.ndarray, residuals: np.ndarray) -> bool:
            settled.append(bool((residuals[:count] <= 0.5 * tol).all()))
            return settled[-1]

        values, vectors = lanczos(
            operator, wanted, start, 0.0, sure=count, enough=enough, progress=progress, max_products=max_products
        )
        if not settled or settled[-1]:  # what has stalled is not worth the search; residuals of 0 were not looked at
            values, vectors = add_missed(operator, values, vectors, count, start, tol)
    return values[:count].copy(), xp.ascontiguousarray(vectors[:, :count])


def lanczos(
    operator: Callable[[Any], Any],
    count: int,
    start: Array,
    tol: float,
    *,
    sure: int,
    locked: Any = None,
    enough: Callable[[np.ndarray, np.ndarray], bool] | None = None,
    max_products: int = 20_000,
    size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Array, Array]:
    """Thick-restart Lanczos with full reorthogonalisation, for the ``count`` largest eigenpairs.

    Parameters
    ----------
    sure : int
        The first ``sure`` pairs must have a residual below ``tol``; those behind them are guards.
    locked : array (p, n), optional
        Orthonormal rows to which everything is kept orthogonal.
    enough : callable, optional
        Another end, looked at after every ``size`` vectors of the basis: given the values and residuals found so far.

    Returns
    -------
    values (count,), vectors (n, count)
    """
    backend = backend_of(start)
    xp = backend.xp
    n = len(start)
    size = min(n - (0 if locked is None else len(locked)), size or max(2 * count + 1, count + 20))
    basis = xp.empty((size + 1, n), dtype=xp.float64)
    projected = np.zeros((size, size))
    basis[0] = _orthonormal(start.astype(xp.float64), [] if locked is None else [locked], backend)[0]
    kept, products = 0, 0
    while True:
        coupling = 0.0
        for j in range(kept, size):
            image = operator(basis[j])
            products += 1
            others = [basis[: j + 1]] if locked is None else [basis[: j + 1], locked]
            basis[j + 1], coupling, onto = _orthonormal(image, others, backend)
            projected[: j + 1, j] = projected[j, : j + 1] = onto[0]
            if coupling == 0.0 and j + 1 < size:  # an invariant subspace: go on outside of it
                fresh = xp.asarray(np.random.default_rng(j).normal(size=n))
                others[0] = basis[: j + 1]
                basis[j + 1] = _orthonormal(fresh, others, backend)[0]
            if progress is not None and products % 10 == 0:
                progress(products, 0)  # how many are needed is not known
        values, rotation = np.linalg.eigh(projected)
        values, rotation = values[::-1], rotation[:, ::-1]
        residuals = coupling * np.abs(rotation[-1])
        done = bool((residuals[:sure] <= 0.5 * tol).all()) or (enough is not None and enough(values, residuals))
        if done or products >= max_products or coupling == 0.0:
            rotate = xp.asarray(np.ascontiguousarray(rotation[:, :count].T))
            return xp.asarray(values[:count].copy()), (rotate @ basis[:size]).T
        kept = min(count + (size - count) // 2, size - 1)
        rotate = xp.asarray(np.ascontiguousarray(rotation[:, :kept].T))
        basis[:kept] = rotate @ basis[:size]
        basis[kept] = basis[size]
        projected[:] = 0.0
        projected[np.arange(kept), np.arange(kept)] = values[:kept]


def _orthonormal(vector: Array, others: list[Any], backend: Backend) -> tuple[Array, float, list[np.ndarray]]:
    """The unit vector left of ``vector`` beside the rows of ``others``, its length, and the coefficients removed."""
    xp = backend.xp
    removed = [np.zeros(len(rows)) for rows in others]
    before = float(xp.linalg.norm(vector))
    if not np.isfinite(before):
        raise ArithmeticError("a product with the transition matrix is not finite")
    scale = before
    for _ in range(3):  # once more whenever most of the vector went: twice is enough, the third is for noise
        for rows, total in zip(others, removed, strict=True):
            part = rows @ vector
            vector = vector - part @ rows
            total += backend.to_host(part)
        length = float(xp.linalg.norm(vector))
        if length > 0.7 * before:
            break
        before = length
    if length <= 1e-14 * scale:  # an invariant subspace: nothing couples to what follows
        return xp.zeros_like(vector), 0.0, removed
    return vector / length, length, removed


def add_missed(
    operator: Any,
    values: Array,
    vectors: Array,
    count: int,
    start: Array,
    tol: float,
    rounds: int = 8,
    size: int | None = None,
) -> tuple[Array, Array]:
    """Look for eigenvalues that the pairs found so far leave out, and add them.

    One Krylov sequence cannot see a second copy of a multiple eigenvalue except through rounding. The operator on the
    complement of what was found must have no eigenvalue above the last wanted one; where it has, the pair is added.
    """
    xp = operator.backend.xp
    generator = np.random.default_rng(len(start))
    for _ in range(rounds):
        edge = float(values[count - 1])
        fresh = xp.asarray(generator.normal(size=operator.n))

        def enough(found: np.ndarray, residuals: np.ndarray, edge: float = edge) -> bool:
            return bool(found[0] + residuals[0] < edge) or bool(residuals[0] <= 0.5 * tol)

        more, _ = lanczos(
            operator, 1, fresh, tol, sure=1, locked=xp.ascontiguousarray(vectors.T), enough=enough, size=size,
            max_products=2000,
        )  # fmt: skip
        if float(more[0]) <= edge + tol:
            return values, vectors
        # guards are only roughly eigenvectors: what was found beside them is one only roughly, so once more without
        wanted = xp.ascontiguousarray(vectors[:, :count].T)
        more, new = lanczos(operator, 1, fresh, tol, sure=1, locked=wanted, max_products=2000)
        values, vectors = xp.concatenate([values, more]), xp.concatenate([vectors, new], axis=1)
        order = xp.argsort(-values)
        values, vectors = values[order], vectors[:, order]
    raise NotConvergedError(f"after {rounds} searches for missed eigenvalues there were still more")
