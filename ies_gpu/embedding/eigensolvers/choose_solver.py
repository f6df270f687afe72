"""The leading eigenpairs of the symmetric transition operator: which solver, and whether its result is accepted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend import Backend, Block, Report, cached_property
from ...backend.array import Array
from ...findings import NotConvergedError
from .accuracy import ANGLE, ROUNDING, Accuracy, accuracy_of, closeness, measure, separated
from .lanczos import is_small, krylov
from .multilevel import beside_top, multilevel_eigenpairs
from .solver_costs import Factorisation, expected_seconds, prefers_cells

if TYPE_CHECKING:
    from ..laplacian import Laplacian

MULTILEVEL_FROM = 5_000  # rows; below this either method takes a fraction of a second
ONE_LAUNCH = 50_000  # rows up to which launches on a device cost more than reading the root for every entry
NEIGHBOURHOODS = 1.2  # how many the points must make up for each wanted pair, for the multilevel method to be tried,
NEIGHBOURHOODS_IN_ORDER = 0.12  # and where they stand in KD order anyway, so that a look is all that it costs

LOOKED_AT = 200  # entries per row up to which a graph of few neighbourhoods is looked at: Lanczos is quick on others
SPARSER = 20  # entries per row up to which one that is on a device is factorised on the host
MOST_PRODUCTS = 3_000  # of Lanczos, where a factorisation can take over
SOLVERS = ("auto", "lanczos", "multilevel", "factorised")
ORTHONORMAL = 1e-8  # what ``|V'V - I|`` may be


class SymmetricTransition:
    """``S = Wt^1/2 P Wt^-1/2``: symmetric, spectrum in about [0, 1], top eigenvalue 1 with the vector ``sqrt(wt)``."""

    def __init__(self, laplacian: Laplacian, backend: Backend) -> None:
        xp = backend.xp
        self.backend = backend
        self.transition = laplacian.operator
        self.n = self.transition.shape[0]
        # entries in float32 are symmetric only to their digits, and so may tiles be
        self.is_exact = self.transition.has_matrix and self.transition.matrix.data.dtype == "float64"
        self.root = xp.sqrt(laplacian.operator_weights)
        self.root = self.root / self.root.mean()
        self.products = 0

    def __call__(self, V: Array) -> Any:
        """``S V`` for a vector (n,) or a block (n, k)."""
        root = self.root if V.ndim == 1 else self.root[:, None]
        self.products += 1 if V.ndim == 1 else V.shape[1]
        if self.backend.is_remote and self.transition.has_matrix and V.ndim == 1 and self.n <= ONE_LAUNCH:
            P = self.transition.matrix
            return self.backend.kernels.symmetric_product(P.indptr, P.indices, P.data, self.root, self.inverse, V)
        return root * self.transition.product(V / root, self.backend)

    @cached_property
    def inverse(self) -> Array:
        return 1 / self.root

    @property
    def top(self) -> Array:
        """The unit eigenvector of eigenvalue 1."""
        return self.root / self.backend.xp.linalg.norm(self.root)


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues (k,) falling, orthonormal vectors (n, k), how accurate each of them is, and how it went."""

    values: Array
    vectors: Array
    accuracy: Accuracy
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def residuals(self) -> np.ndarray:
        return self.accuracy.residuals


def leading_eigenpairs(operator: SymmetricTransition, count: int, *, solver: str = "auto", **known: Any) -> Eigenpairs:
    """Return the ``count`` largest eigenpairs of S, with how they were found in ``info``.

    ``solver`` is tried first; others take over where its result is not accepted. What is ``known`` are other fields of
    :class:`Problem`.
    """
    problem = Problem(operator, count, **known)
    found = problem.lanczos() if is_small(operator.n, count) else problem.refined(problem.solved(solver))
    return replace(found, info=problem.info | {"products": operator.products})


@dataclass
class Problem:
    """One eigenproblem: each solver is tried on it, and its result accepted or not.

    ``ordered`` says whether the rows stand in KD order, or has the edges of :func:`..graph.matrix_order`: then the
    multilevel method may be taken.
    """

    operator: SymmetricTransition
    count: int
    start: Array
    tol: float = 1e-8
    progress: Report | None = None
    ordered: bool | np.ndarray = False
    info: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)  # seconds of each method, where it was looked

    @cached_property
    def factor(self) -> Factorisation:
        return Factorisation(self.operator, self.count, self.ordered)

    def solved(self, solver: str) -> Eigenpairs:
        """Return the first result that is accepted: of the solver asked for, or of the one that suits the graph."""
        found, first = None, self.first_choice() if solver == "auto" else solver
        if first == "multilevel":
            found = self.accepted("multilevel")
        others = {name: seconds for name, seconds in self.expected.items() if name != first}
        second = min(others, key=others.__getitem__, default="")
        gave_up = first == "multilevel" and found is None
        if first == "factorised" or (gave_up and (second == "factorised" or self.factor.is_cheap)):
            found = self.accepted("factorised")
        return found or self.by_what_is_left()

    def first_choice(self) -> str:
        """Return the method that is expected to be the quickest; looks are worth it only where Lanczos is slow."""
        P, n, factor, ordered = self.operator.transition, self.operator.n, self.factor, self.ordered
        if not wants_order(P, self.count):
            if not P.has_matrix or P.nnz > LOOKED_AT * n:  # Lanczos is quick: few eigenvalues lie close to 1
                few = P.has_matrix and has_many_neighbourhoods(n, P.nnz, self.count, NEIGHBOURHOODS_IN_ORDER)
                # nobody has measured a device
                cells = few and ordered is True and not self.operator.backend.is_remote
                return "multilevel" if cells and prefers_cells(self.operator, self.count) else "lanczos"
            ordered = False
        # a device's own seconds are not known: only what is very sparse is left to the host
        here = not self.operator.backend.is_remote or P.nnz <= SPARSER * n

        def seconds() -> float:
            return factor.look.seconds if here and factor.fits else np.inf

        self.expected = expected_seconds(self.operator, self.count, ordered, seconds)
        self.info["expected_seconds"] = {name: float(f"{value:.2g}") for name, value in self.expected.items()}
        return min(self.expected, key=self.expected.__getitem__, default="lanczos")

    def by_what_is_left(self) -> Eigenpairs:
        """Return the pairs of Lanczos, or of a factorisation where Lanczos is slow and that fits."""
        found, soon = None, not self.operator.backend.is_remote and self.factor.may_fit
        # what a factorisation takes is found from a copy of the matrix, which is made only where Lanczos is slow
        for most in (MOST_PRODUCTS, 20_000) if soon else (20_000,):
            try:
                found = self.lanczos(most)
                if (worst := found.residuals.max()) <= self.tol:
                    return found
                self.info["fallback"] = f"Lanczos reached a residual of {worst:.1e}"
            except NotConvergedError as doubt:
                self.info["fallback"] = f"Lanczos: {doubt}"
            if self.factor.fits:
                found = self.accepted("factorised") or found
                break
        if found is None:
            raise NotConvergedError(
                f"no eigensolver succeeded; the last one said: {self.info['fallback']}. If many eigenvalues are nearly "
                "equal, a factorised matrix is needed: raise memory_limit to make room for it, or raise bandwidth"
            )
        return found

    def lanczos(self, max_products: int = 20_000) -> Eigenpairs:
        """Return pairs by Lanczos, or dense algebra for a few rows, whatever the residuals are."""
        operator, count = self.operator, self.count
        self.info["method"] = "dense" if is_small(operator.n, count) else "lanczos"
        values, vectors = krylov(operator, count, self.start, self.tol, self.progress, max_products)
        found = self.examined(values, beside_top(vectors, operator.top, operator.backend))
        if found.residuals.max() <= self.tol:
            return found
        # of entries in float32, the known vector is an eigenvector only to their digits
        return self.examined(values, vectors, known=False)

    def unexamined(self, method: str) -> tuple[Array, Array]:
        """Return pairs by the multilevel method, or by Lanczos on the inverse of the shifted matrix, as they come."""
        operator, count, tol, info = self.operator, self.count, self.tol, self.info
        if method == "multilevel":
            return multilevel_eigenpairs(operator, count, tol, info, self.ordered, self.progress)
        from .factorised import factorised_eigenpairs

        info["reason"] = "the shifted matrix was factorised on the host"
        return factorised_eigenpairs(operator, self.factor.look, count, self.start, tol, info, self.progress)

    def accepted(self, method: str) -> Eigenpairs | None:
        """Return the pairs of a solver if they are good; if not None, with the reason in ``info``."""
        operator, attempt = self.operator, Block(slice(0, self.operator.n))
        with attempt:  # Lanczos takes less memory: no levels, one basis
            try:
                found = self.examined(*self.unexamined(method))
                xp, V = operator.backend.xp, found.vectors
                gram = float(xp.abs(V.T @ V - xp.eye(self.count)).max())
                refuse_pairs(gram, found.residuals.max(), self.tol)
            except (NotConvergedError, np.linalg.LinAlgError) as doubt:
                self.info["fallback"] = f"{method}: {doubt}"
                return None
            self.info["method"] = method
            return found
        operator.backend.free_cache()
        self.info["fallback"] = f"{method}: no memory for it: {attempt.failed}"
        return None

    def examined(self, values: Array, vectors: Array, known: bool = True) -> Eigenpairs:
        """Measure pairs, and separate by Rayleigh-Ritz vectors that are mixed, or whose values are not theirs.

        Values behind the first ``count`` belong to guards. The first vector may be the ``known`` one, which stays.
        """
        host, beyond, first = self.operator.backend.to_host, values[self.count :], int(known)
        values = values[: self.count]
        found, coupling = self.measured(values, vectors, beyond, known)
        wrong = (np.abs(np.diag(coupling)) > closeness(host(values)))[1:].any()
        if not (wrong or found.accuracy.doubtful.size) or not np.isfinite(found.residuals).all():
            return found
        V = vectors[:, first:]
        apart, turn = separated(host(values)[first:], host(V.T @ V), coupling[first:, first:])
        xp = self.operator.backend.xp
        values = xp.concatenate([values[:first], xp.asarray(apart)])
        vectors = xp.concatenate([vectors[:, :first], V @ xp.asarray(turn)], axis=1)
        better, _ = self.measured(values, vectors, beyond, known)
        return better if wrong or better.accuracy.angles.sum() < found.accuracy.angles.sum() else found

    def measured(self, values: Array, vectors: Array, beyond: Array, known: bool) -> tuple[Eigenpairs, np.ndarray]:
        operator, host = self.operator, self.operator.backend.to_host
        residuals, coupling = measure(operator, values, vectors)
        # what rounding couples two vectors by shows in what is left of (S - 1) v for the known vector v
        onto = coupling[1:, 0] if known else host(vectors[:, 1:].T @ (operator(operator.top) - operator.top))
        noise = max(ROUNDING, float(np.abs(onto).max(initial=0.0)))
        every = np.concatenate([host(values), host(beyond)])
        return Eigenpairs(values, vectors, accuracy_of(every, host(residuals), coupling, noise, known)), coupling

    def refined(self, found: Eigenpairs) -> Eigenpairs:
        """Factorise the matrix where an iteration left eigenvectors mixed that arithmetic can tell apart."""
        accuracy = found.accuracy
        lost = accuracy.angles > np.maximum(ANGLE, 2 * accuracy.unavoidable)
        if self.info["method"] == "factorised" or not lost.any() or not self.factor.fits:
            return found
        before = self.info["method"]
        self.info["fallback"] = f"{before}: an angle of {accuracy.angles.max():.1g} to the true eigenvector is possible"
        better = self.accepted("factorised")
        if better is not None and better.accuracy.angles.max() < accuracy.angles.max():
            return better
        self.info["method"] = before
        return found


def wants_order(matrix: Any, count: int) -> bool:
    """Whether an order of the rows of a kernel or transition matrix would serve the choice of a method."""
    return matrix.has_matrix and has_many_neighbourhoods(matrix.shape[0], matrix.nnz, count)


def has_many_neighbourhoods(n: int, nnz: float, count: int, fewest: float = NEIGHBOURHOODS) -> bool:
    """Whether n points with nnz entries make up so many neighbourhoods, at least, for each of ``count`` pairs.

    By Weyl's law the last wanted ``1 - mu`` is a power of ``count * degree / n``: where that is large, Lanczos needs
    150 to 300 products, and building levels is not worth it.
    """
    return n >= max(MULTILEVEL_FROM, 100 * count) and float(n) ** 2 >= fewest * count * nnz


def refuse_pairs(gram: float, worst: float, tol: float) -> None:
    """Raise where vectors are not orthonormal, by ``gram``, or the worst residual is above the tolerance."""
    if not gram <= ORTHONORMAL:
        raise NotConvergedError(f"the vectors are not orthonormal, by {gram:.1e}")
    if not worst <= tol:
        raise NotConvergedError(f"recomputed in float64, a residual is {worst:.1e}")
