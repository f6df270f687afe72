"""The leading eigenpairs of the symmetric transition operator, with a check that none was missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend import Backend, backend_of
from ..laplacian import Laplacian
from .library import library_eigenpairs
from .multilevel import NotConvergedError, multilevel_eigenpairs

GUARDS = 4  # pairs asked for beyond those wanted: a missed copy would most likely be among the last
MULTILEVEL_FROM = 5_000  # rows; below this either method takes a fraction of a second
NEIGHBOURHOODS = 2.0  # how many the points must make up for each wanted pair, for the multilevel method to be tried


class SymmetricTransition:
    """``S = Wt^1/2 P Wt^-1/2``: symmetric, spectrum in about [0, 1], top eigenvalue 1 with the vector ``sqrt(wt)``.

    Attributes
    ----------
    root : array (n,)
        ``sqrt(wt)``, scaled to mean 1.
    products : int
        Columns multiplied so far.
    """

    def __init__(self, laplacian: Laplacian, backend: Backend) -> None:
        if laplacian.weights is None:
            raise ValueError("the weights of the Laplacian are not known; pass what graph_laplacian returns")
        xp = backend.xp
        self.backend = backend
        self.transition = laplacian.operator
        self.n = self.transition.shape[0]
        self.root = xp.sqrt(laplacian.weights)
        self.root = self.root / self.root.mean()
        self.products = 0

    def __call__(self, V: Any) -> Any:
        """``S V`` for a vector (n,) or a block (n, k)."""
        root = self.root if V.ndim == 1 else self.root[:, None]
        self.products += 1 if V.ndim == 1 else V.shape[1]
        return root * self.transition.product(V / root, self.backend)

    @property
    def top(self) -> Any:
        """The unit eigenvector of eigenvalue 1."""
        return self.root / self.backend.xp.linalg.norm(self.root)


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues (k,) falling, orthonormal vectors (n, k), residual norms ``|S v - mu v|`` (k,), and how it went."""

    values: Any
    vectors: Any
    residuals: Any
    info: dict[str, Any] = field(default_factory=dict)


def leading_eigenpairs(
    operator: SymmetricTransition,
    count: int,
    *,
    start: Any,
    tol: float = 1e-8,
    progress: Callable[[int, int], None] | None = None,
    ordered: bool = False,
    solver: str = "auto",
) -> Eigenpairs:
    """The ``count`` largest eigenpairs of S.

    Parameters
    ----------
    operator : SymmetricTransition
    count : int
    start : array (n,)
        Seeded start vector, the same on every device.
    tol : float
        Bound on every residual.
    ordered : bool
        Whether the rows stand in KD order: then the multilevel method may be taken, where it is expected to win.
    solver : {"auto", "eigsh"}
        ``eigsh`` takes the library's solver first; ``auto`` only where a residual of our own is too large.

    Returns
    -------
    Eigenpairs
        Whose ``info`` has ``method`` ("dense", "lanczos", "multilevel" or "eigsh"), ``products`` (columns multiplied by
        S) and, where the multilevel method was tried, ``block_products``, ``iterations``, ``coarse_sizes``,
        ``coarse_products``; and ``fallback``, the reason why a result was not taken.
    """
    xp = operator.backend.xp
    info: dict[str, Any] = {}
    found = None
    small = _is_small(operator.n, count)
    if solver == "eigsh" and not small:
        found = _library_or_none(operator, count, start, tol, info)
    elif ordered and prefers_multilevel(operator, count):
        found = _multilevel_or_none(operator, count, tol, info, progress)
    if found is None:
        info["method"] = "dense" if small else "lanczos"
        values, vectors = krylov(operator, count, start, tol, progress=progress)
        found = values, vectors, xp.linalg.norm(operator(vectors) - vectors * values, axis=0)
        if not small and solver == "auto" and not float(found[2].max()) <= tol:
            info["fallback"] = f"Lanczos reached a residual of {float(found[2].max()):.1e}"
            found = _library_or_none(operator, count, start, tol, info) or found
    return Eigenpairs(*found, info | {"products": operator.products})


def prefers_multilevel(operator: SymmetricTransition, count: int) -> bool:
    """Whether the eigenvalues lie so close to 1 that Lanczos would be slow.

    By Weyl's law the last wanted ``1 - mu`` is a power of ``count * degree / n``: where n points make up only a few
    neighbourhoods for each pair, it is large, Lanczos needs 150 to 300 products, and building levels is not worth it.
    On D1 to D12 (n = 10,000) the quotient ``n / (degree * count)`` is 2.9 for D1 and D2 and at most 1.0 for the others;
    on a strip of constant degree it grows like n.
    """
    P = operator.transition
    enough = operator.n >= max(MULTILEVEL_FROM, 100 * count)
    return enough and P.has_matrix and operator.n**2 >= NEIGHBOURHOODS * count * P.nnz


def _multilevel_or_none(
    operator: SymmetricTransition,
    count: int,
    tol: float,
    info: dict[str, Any],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Any, Any, Any] | None:
    """What the multilevel method finds, if it is accepted."""

    def solve() -> tuple[Any, Any]:
        return multilevel_eigenpairs(operator, count, tol=tol, last=last_level_pairs, info=info, progress=progress)

    return _accepted_or_none(operator, solve, tol, info, "multilevel", "recomputed in float64, a residual is")


def _library_or_none(
    operator: SymmetricTransition, count: int, start: Any, tol: float, info: dict[str, Any]
) -> tuple[Any, Any, Any] | None:
    """What the library's solver finds, if it is accepted."""

    def solve() -> tuple[Any, Any]:
        values, vectors = library_eigenpairs(operator, count, GUARDS, start, tol)
        values, vectors = add_missed(operator, values, vectors, count, start, tol)
        return values[:count].copy(), operator.backend.xp.ascontiguousarray(vectors[:, :count])

    return _accepted_or_none(operator, solve, tol, info, "eigsh", "a residual of eigsh is")


def _accepted_or_none(
    operator: SymmetricTransition,
    solve: Callable[[], tuple[Any, Any]],
    tol: float,
    info: dict[str, Any],
    method: str,
    complaint: str,
) -> tuple[Any, Any, Any] | None:
    """Values, vectors and residuals of a solver, or None and the reason in ``info["fallback"]``."""
    try:
        values, vectors = solve()
        residuals = operator.backend.xp.linalg.norm(operator(vectors) - vectors * values, axis=0)
        if not float(residuals.max()) <= tol:
            raise NotConvergedError(f"{complaint} {float(residuals.max()):.1e}")
    except (NotConvergedError, np.linalg.LinAlgError) as doubt:
        info["fallback"] = str(doubt)
        return None
    info["method"] = method
    return values, vectors, residuals


def last_level_pairs(level: Any, count: int) -> tuple[Any, Any]:
    """Leading pairs of the smallest level of the multilevel method, only as good as they are needed there."""
    start = level.backend.asarray(np.random.default_rng(level.n).normal(size=level.n))
    return krylov(level, count, start, 1e-5)


def _is_small(n: int, count: int) -> bool:
    return n <= max(400, 3 * (count + GUARDS))


def krylov(
    operator: Any, count: int, start: Any, tol: float, *, progress: Callable[[int, int], None] | None = None
) -> tuple[Any, Any]:
    """Values (count,) and vectors (n, count) of the largest eigenpairs, by Lanczos or, for a few rows, densely."""
    xp = operator.backend.xp
    wanted = min(count + GUARDS, operator.n)
    if _is_small(operator.n, count):
        values, vectors = xp.linalg.eigh(operator(xp.eye(operator.n)))
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        values, vectors = lanczos(operator, wanted, start, tol, sure=count, progress=progress)
        values, vectors = add_missed(operator, values, vectors, count, start, tol)
    return values[:count].copy(), xp.ascontiguousarray(vectors[:, :count])


def lanczos(
    operator: Callable[[Any], Any],
    count: int,
    start: Any,
    tol: float,
    *,
    sure: int,
    locked: Any = None,
    enough: Callable[[np.ndarray, np.ndarray], bool] | None = None,
    max_products: int = 20_000,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Any, Any]:
    """Thick-restart Lanczos with full reorthogonalisation, for the ``count`` largest eigenpairs.

    Parameters
    ----------
    sure : int
        The first ``sure`` pairs must have a residual below ``tol``; those behind them are guards.
    locked : array (p, n), optional
        Orthonormal rows to which everything is kept orthogonal.
    enough : callable, optional
        Another end: given the values and residuals found so far.

    Returns
    -------
    values (count,), vectors (n, count)
    """
    backend = backend_of(start)
    xp = backend.xp
    n = len(start)
    size = min(n - (0 if locked is None else len(locked)), max(2 * count + 1, count + 20))
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


def _orthonormal(vector: Any, others: list[Any], backend: Backend) -> tuple[Any, float, list[np.ndarray]]:
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
    operator: SymmetricTransition, values: Any, vectors: Any, count: int, start: Any, tol: float
) -> tuple[Any, Any]:
    """Look for eigenvalues that the pairs found so far leave out, and add them.

    One Krylov sequence cannot see a second copy of a multiple eigenvalue except through rounding. The operator on the
    complement of what was found must have no eigenvalue above the last wanted one; where it has, the pair is added.
    """
    xp = operator.backend.xp
    generator = np.random.default_rng(len(start))
    for _ in range(8):
        edge = float(values[count - 1])
        fresh = xp.asarray(generator.normal(size=operator.n))

        def enough(found: np.ndarray, residuals: np.ndarray, edge: float = edge) -> bool:
            return bool(found[0] + residuals[0] < edge) or bool(residuals[0] <= 0.5 * tol)

        more, _ = lanczos(
            operator, 1, fresh, tol, sure=1, locked=xp.ascontiguousarray(vectors.T), enough=enough, max_products=2000
        )
        if float(more[0]) <= edge + tol:
            return values, vectors
        # guards are only roughly eigenvectors: what was found beside them is one only roughly, so once more without
        wanted = xp.ascontiguousarray(vectors[:, :count].T)
        more, new = lanczos(operator, 1, fresh, tol, sure=1, locked=wanted, max_products=2000)
        values, vectors = xp.concatenate([values, more]), xp.concatenate([vectors, new], axis=1)
        order = xp.argsort(-values)
        values, vectors = values[order], vectors[:, order]
    return values, vectors
