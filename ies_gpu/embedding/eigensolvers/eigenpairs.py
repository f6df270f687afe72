"""The leading eigenpairs of the symmetric transition operator: which solver, and whether its result is accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend import Backend, Block
from ...backend.array import Array
from ...errors import NotConvergedError
from ..laplacian import Laplacian
from .lanczos import GUARDS, add_missed, is_small, krylov
from .library import library_eigenpairs
from .multilevel import multilevel_eigenpairs

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

    def __call__(self, V: Array) -> Any:
        """``S V`` for a vector (n,) or a block (n, k)."""
        root = self.root if V.ndim == 1 else self.root[:, None]
        self.products += 1 if V.ndim == 1 else V.shape[1]
        return root * self.transition.product(V / root, self.backend)

    @property
    def top(self) -> Array:
        """The unit eigenvector of eigenvalue 1."""
        return self.root / self.backend.xp.linalg.norm(self.root)


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues (k,) falling, orthonormal vectors (n, k), residual norms ``|S v - mu v|`` (k,), and how it went."""

    values: Array
    vectors: Array
    residuals: Array
    info: dict[str, Any] = field(default_factory=dict)


def leading_eigenpairs(
    operator: SymmetricTransition,
    count: int,
    *,
    start: Array,
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
    small = is_small(operator.n, count)
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

    def solve() -> tuple[Array, Array]:
        return multilevel_eigenpairs(operator, count, tol=tol, last=last_level_pairs, info=info, progress=progress)

    return _accepted_or_none(operator, solve, tol, info, "multilevel", "recomputed in float64, a residual is")


def _library_or_none(
    operator: SymmetricTransition, count: int, start: Array, tol: float, info: dict[str, Any]
) -> tuple[Any, Any, Any] | None:
    """What the library's solver finds, if it is accepted."""

    def solve() -> tuple[Array, Array]:
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
    attempt = Block(slice(0, operator.n))
    with attempt:  # Lanczos takes less memory: no levels, one basis
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
    operator.backend.free_cache()
    info["fallback"] = f"no memory for it: {attempt.failed}"
    return None


def last_level_pairs(level: Any, count: int) -> tuple[Array, Array]:
    """Leading pairs of the smallest level of the multilevel method, only as good as they are needed there.

    On the host: a device would wait for each of its short products.
    """
    small = level.on_host() if level.backend.is_remote else level
    start = np.random.default_rng(level.n).normal(size=level.n)
    values, vectors = krylov(small, count, start, 1e-5)
    level.columns = small.columns
    return values, level.backend.asarray(vectors)
