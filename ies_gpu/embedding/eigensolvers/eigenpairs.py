"""The leading eigenpairs of the symmetric transition operator: which solver, and whether its result is accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend import Backend, Block
from ...backend.array import Array
from ...backend.forks import cached_property
from ...backend.kernels.arrays import column_norms, csr
from ...errors import NotConvergedError
from ..laplacian import Laplacian
from ..order import host_of
from ..transition import Kernel
from .factorised import Cost, expected_fill, factorised_eigenpairs, symmetric_on_host
from .lanczos import GUARDS, TooSlowError, add_missed, is_small, krylov
from .library import ORTHONORMAL, library_eigenpairs
from .multilevel import beside_top, multilevel_eigenpairs
from .returns import SOONER
from .ritz import COLUMNS_AT_ONCE, FEWEST_COLUMNS

MULTILEVEL_FROM = 5_000  # rows; below this either method takes a fraction of a second
NEIGHBOURHOODS = 2.0  # how many the points must make up for each wanted pair, for the multilevel method to be tried

SPARSE = 48  # entries per row up to which a factorisation is considered before anything else,
SPARSER = 20  # or, where the multilevel method can be taken, up to which it is quicker (strips, 40,000 points or more)
QUICK = 1.5e-4  # seconds per row that it may be expected to take then
COPIES = 6  # of the matrix at a time: P, S on the host, and what it takes to order S and count its fill (measured)
MOST_FILL = 1e8  # entries of a factor that are never exceeded
FACTORISED_FROM = 3_000  # rows of a last level from which a factorisation is considered
FACTORISED_UP_TO = 60_000  # and of a level that is made the last one for it,
STAYING = 0.8  # because a walk on it stays in its cell with this probability on average
MOST_PRODUCTS = 3_000  # of Lanczos, where a factorisation can take over
NO_MEMORY = "no memory for it"
RECOMPUTED = "recomputed in float64, a residual is"

Found = tuple[Any, Any, Any]  # values, vectors, residuals


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

    @cached_property
    def on_host(self) -> Any:
        """S on the host, where it is factorised."""
        return symmetric_on_host(self)

    @cached_property
    def factor_cost(self) -> Cost:
        """What that is expected to take."""
        return expected_fill(self.on_host)


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
    ordered: bool | np.ndarray = False,
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
    ordered : bool or array
        Whether the rows stand in KD order, or the edges of :func:`..order.matrix_order`: then the multilevel method may
        be taken, where it is expected to win.
    solver : {"auto", "eigsh"}
        ``eigsh`` takes the library's solver first; ``auto`` only where a residual of our own is too large.

    Returns
    -------
    Eigenpairs
        Whose ``info`` has ``method`` ("dense", "lanczos", "multilevel", "factorised" or "eigsh"), ``products`` (columns
        multiplied by S) and, where the multilevel method was tried, ``block_products``, ``iterations``,
        ``coarse_sizes``, ``coarse_products``; ``solves``, ``factor_entries`` and ``reason`` where the shifted matrix
        was factorised; and ``fallback``, the reason why a result was not taken.
    """
    info: dict[str, Any] = {}
    if is_small(operator.n, count):
        found = _krylov(operator, count, start, tol, info, progress)
    else:
        theirs = _library_or_none(operator, count, start, tol, info) if solver == "eigsh" else None
        found = theirs or _our_own(operator, count, start, tol, info, progress, ordered)
    return Eigenpairs(*found, info | {"products": operator.products})


def _our_own(
    operator: SymmetricTransition,
    count: int,
    start: Array,
    tol: float,
    info: dict[str, Any],
    progress: Callable[[int, int], None] | None,
    ordered: bool | np.ndarray,
) -> Found:
    """Factorise what is sparse, take the multilevel method where it wins and Lanczos elsewhere; then what is left.

    Where an iteration stalls, a factorisation that fits takes over, and the library's solver where none does.
    """
    factor = Factorisation(operator, count)
    found, hopeless = None, False
    if factor.is_quick:
        info["reason"] = factor.reason
        found = _factorised_or_none(factor, count, start, tol, info)
    elif ordered is not False and prefers_multilevel(operator, count):
        found = _multilevel_or_none(operator, count, tol, info, ordered, progress)
        stalled = found is None and not info["fallback"].startswith(NO_MEMORY) and not info["fallback"].endswith(SOONER)
        if stalled and factor.fits and factor.is_cheap:
            found = _factorised_or_none(factor, count, start, tol, info)
    if found is not None:
        return found
    # what a factorisation takes is found from a copy of the matrix, which is made only where Lanczos is slow
    soon = not operator.backend.is_remote and factor.may_fit
    for most in (MOST_PRODUCTS, 20_000) if soon else (20_000,):
        try:
            found = _krylov(operator, count, start, tol, info, progress, most)
            if float(found[2].max()) <= tol:
                return found
            info["fallback"] = f"Lanczos reached a residual of {float(found[2].max()):.1e}"
        except NotConvergedError as doubt:
            info["fallback"], hopeless = f"Lanczos: {doubt}", isinstance(doubt, TooSlowError)
        if factor.fits or hopeless:
            break
    better = _factorised_or_none(factor, count, start, tol, info) if factor.fits else None
    if better is None and not hopeless:  # the library's solver is Lanczos, too
        better = _library_or_none(operator, count, start, tol, info) or found
    if better is None:
        raise NotConvergedError(
            f"no eigensolver succeeded; the last one said: {info['fallback']}. If many eigenvalues are nearly "
            "equal, a factorised matrix is needed: raise memory_limit to make room for it, or raise bandwidth"
        )
    return better


class Factorisation:
    """Whether to factorise the shifted matrix of an operator; nothing is computed before it is asked for."""

    def __init__(self, operator: SymmetricTransition, count: int) -> None:
        self.operator, self.count = operator, count

    @property
    def is_quick(self) -> bool:
        """Whether the graph is so sparse that a factorisation is the quickest way."""
        P, n = self.operator.transition, self.operator.n
        sparse = SPARSER if prefers_multilevel(self.operator, self.count) else SPARSE
        return P.has_matrix and P.nnz <= sparse * n and self.fits and self.is_cheap

    @property
    def is_cheap(self) -> bool:
        """Whether it takes little time; on graphs in many dimensions, whose factors fill up, Lanczos is far sooner."""
        return is_quick(self.operator.n, self.operator.factor_cost)

    @property
    def may_fit(self) -> bool:
        """Whether the matrix alone is no reason against it."""
        P, budget = self.operator.transition, host_of(self.operator.backend).memory_budget()
        return P.has_matrix and 4.0 * P.nnz <= MOST_FILL and self.held <= budget

    @property
    def fits(self) -> bool:
        """Whether it ends in about a minute, within the memory budget of the host."""
        if not self.may_fit:
            return False
        cost, budget = self.operator.factor_cost, host_of(self.operator.backend).memory_budget()
        return cost.fill <= MOST_FILL and cost.bytes + self.held <= budget

    @property
    def held(self) -> float:
        """Bytes of the matrix and its copies on the way."""
        return COPIES * 12.0 * self.operator.transition.nnz

    @property
    def reason(self) -> str:
        """Why it was taken first, for ``diagnostics``."""
        degree = self.operator.transition.nnz / self.operator.n
        return f"with {degree:.0f} entries per row the shifted matrix is quick to factorise; that was done on the host"


def _krylov(
    operator: SymmetricTransition,
    count: int,
    start: Array,
    tol: float,
    info: dict[str, Any],
    progress: Callable[[int, int], None] | None,
    max_products: int = 20_000,
) -> Found:
    """Lanczos, or dense algebra for a few rows, whatever the residuals are."""
    info["method"] = "dense" if is_small(operator.n, count) else "lanczos"
    values, vectors = krylov(operator, count, start, tol, progress=progress, max_products=max_products)
    turned = beside_top(vectors, operator.top, operator.backend)
    residuals = residual_norms(operator, values, turned)
    if float(residuals.max()) <= tol:
        return values, turned, residuals
    # of entries in float32, the known vector is an eigenvector only to their digits
    return values, vectors, residual_norms(operator, values, vectors)


def residual_norms(operator: SymmetricTransition, values: Array, vectors: Array) -> Array:
    """``|S v - mu v|`` (k,), some columns at a time."""
    xp = operator.backend.xp
    step = max(FEWEST_COLUMNS, COLUMNS_AT_ONCE // len(vectors))
    parts = []
    for first in range(0, len(values), step):
        columns = slice(first, first + step)
        V = xp.ascontiguousarray(vectors[:, columns])
        parts.append(column_norms(operator(V) - V * values[columns]))
    return xp.concatenate(parts)


def wants_order(operator: SymmetricTransition, count: int) -> bool:
    """Whether an order of the rows, found from the matrix alone, would serve the method that is taken."""
    return prefers_multilevel(operator, count) and not Factorisation(operator, count).is_quick


def may_be_ordered(kernel: Kernel, count: int) -> bool:
    """The same, told from a kernel before its Laplacian is made: so sparse a graph is factorised in any order."""
    n, nnz = kernel.shape[0], kernel.nnz
    return kernel.has_matrix and nnz > SPARSER * n and has_many_neighbourhoods(n, nnz, count)


def prefers_multilevel(operator: SymmetricTransition, count: int) -> bool:
    """Whether the eigenvalues lie so close to 1 that Lanczos would be slow."""
    P = operator.transition
    return P.has_matrix and has_many_neighbourhoods(operator.n, P.nnz, count)


def has_many_neighbourhoods(n: int, nnz: float, count: int) -> bool:
    """Whether n points with nnz entries make up several neighbourhoods for each of ``count`` pairs.

    By Weyl's law the last wanted ``1 - mu`` is a power of ``count * degree / n``: where n points make up only a few
    neighbourhoods for each pair, it is large, Lanczos needs 150 to 300 products, and building levels is not worth it.
    On D1 to D12 (n = 10,000) the quotient ``n / (degree * count)`` is 2.9 for D1 and D2 and at most 1.0 for the others;
    on a strip of constant degree it grows like n.
    """
    return n >= max(MULTILEVEL_FROM, 100 * count) and float(n) ** 2 >= NEIGHBOURHOODS * count * nnz


def _multilevel_or_none(
    operator: SymmetricTransition,
    count: int,
    tol: float,
    info: dict[str, Any],
    ordered: bool | np.ndarray,
    progress: Callable[[int, int], None] | None = None,
) -> Found | None:
    """What the multilevel method finds, if it is accepted."""

    def solve() -> tuple[Array, Array]:
        return multilevel_eigenpairs(
            operator,
            count,
            tol=tol,
            last=last_level_pairs,
            ends=ends_here,
            info=info,
            ordered=ordered,
            progress=progress,
        )

    return _accepted_or_none(operator, solve, tol, info, "multilevel", RECOMPUTED)


def _library_or_none(
    operator: SymmetricTransition, count: int, start: Array, tol: float, info: dict[str, Any]
) -> Found | None:
    """What the library's solver finds, if it is accepted."""

    def solve() -> tuple[Array, Array]:
        values, vectors = library_eigenpairs(operator, count, GUARDS, start, tol)
        values, vectors = add_missed(operator, values, vectors, count, start, tol)
        return values[:count].copy(), operator.backend.xp.ascontiguousarray(vectors[:, :count])

    return _accepted_or_none(operator, solve, tol, info, "eigsh", "a residual of eigsh is")


def _factorised_or_none(
    factor: Factorisation, count: int, start: Array, tol: float, info: dict[str, Any]
) -> Found | None:
    """What the factorisation finds, if it is accepted."""

    def solve() -> tuple[Array, Array]:
        if "fallback" in info:
            info["reason"] = "the iteration did not get there, so the shifted matrix was factorised on the host"
        return factorised_eigenpairs(factor.operator, factor.operator.on_host, count, start, tol, info)

    complaint = "with the shifted matrix factorised, a residual is"
    return _accepted_or_none(factor.operator, solve, tol, info, "factorised", complaint)


def _accepted_or_none(
    operator: SymmetricTransition,
    solve: Callable[[], tuple[Any, Any]],
    tol: float,
    info: dict[str, Any],
    method: str,
    complaint: str,
) -> Found | None:
    """Values, vectors and residuals of a solver, or None and the reason in ``info["fallback"]``."""
    attempt = Block(slice(0, operator.n))
    with attempt:  # Lanczos takes less memory: no levels, one basis
        try:
            values, vectors = solve()
            xp = operator.backend.xp
            residuals = residual_norms(operator, values, vectors)
            gram = float(xp.abs(vectors.T @ vectors - xp.eye(len(values))).max())
            refuse_pairs(gram, float(residuals.max()), tol, complaint)
        except (NotConvergedError, np.linalg.LinAlgError) as doubt:
            info["fallback"] = str(doubt)
            return None
        info["method"] = method
        return values, vectors, residuals
    operator.backend.free_cache()
    info["fallback"] = f"{NO_MEMORY}: {attempt.failed}"
    return None


def refuse_pairs(gram: float, worst: float, tol: float, complaint: str = RECOMPUTED) -> None:
    """Raise where vectors are not orthonormal, by ``gram``, or the worst residual is above the tolerance."""
    if not gram <= ORTHONORMAL:
        raise NotConvergedError(f"the vectors are not orthonormal, by {gram:.1e}")
    if not worst <= tol:
        raise NotConvergedError(f"{complaint} {worst:.1e}")


def last_level_pairs(level: Any, count: int) -> tuple[Array, Array]:
    """Leading pairs of the smallest level of the multilevel method, only as good as they are needed there.

    On the host: a device would wait for each of its short products. A level that is long, because of points that are
    cells of their own, is factorised where that is quick: Lanczos would take tens of thousands of products.
    """
    small = level.on_host() if level.backend.is_remote else level
    start = np.random.default_rng(level.n).normal(size=level.n)
    found = None
    if level.n > FACTORISED_FROM:
        found = _factorised_level(small, count, start)
    values, vectors = found or krylov(small, count, start, 1e-5)
    level.columns = small.columns
    return values, level.backend.asarray(vectors)


def ends_here(level: Any) -> bool:
    """Whether to solve a coarse level as it is: a walk that hardly leaves its cell smooths nothing.

    So it is on deep levels, whose cells are far larger than the reach of the kernel. They are sparse, and factorised.
    """
    if not FACTORISED_FROM < level.n <= FACTORISED_UP_TO:
        return False
    indptr, indices, data = level.matrix
    rows = level.backend.xp.repeat(level.backend.xp.arange(level.n), level.backend.xp.diff(indptr))
    if float(data[rows == indices].sum()) < STAYING * level.n:
        return False
    small = level.on_host() if level.backend.is_remote else level
    return is_quick(level.n, expected_fill(symmetric_level(small)))


def symmetric_level(level: Any) -> Any:
    """S of a level on the host in float64, symmetric to the last digit."""
    indptr, indices, data = level.matrix
    S = csr(indptr, indices, data.astype(np.float64), level.n)
    return (0.5 * (S + S.T)).tocsr()


def is_quick(n: int, cost: Cost) -> bool:
    """Whether a level is expected to be factorised quickly."""
    return cost.fill <= MOST_FILL and cost.seconds <= max(1.0, QUICK * n)


def _factorised_level(level: Any, count: int, start: np.ndarray) -> tuple[Array, Array] | None:
    """The same by a factorisation, if it is expected to be quick."""
    S = symmetric_level(level)
    if not is_quick(level.n, expected_fill(S)):
        return None
    try:
        info: dict[str, Any] = {}
        found = factorised_eigenpairs(level, S, count, start, 1e-5, info)
        level.columns += info["solves"]
        return found
    except NotConvergedError:
        return None
