"""The smallest eigenpairs of a symmetric graph Laplacian, by the solvers of the pipeline and without the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..backend import backend_of, to_host
from ..backend.array import Array
from ..backend.kernels.arrays import column_norms, column_sums
from ..backend.steps import step
from ..errors import NotConvergedError
from ..findings import refusal, tell, warning
from ..options import answers
from ..validation import check_choice, check_integer, check_number, check_real_array, check_seed, check_square_sparse
from .diffusion import Embedding, start_vector
from .eigensolvers.accuracy import ANGLE, groups_of
from .eigensolvers.eigenpairs import (
    SOLVERS,
    Eigenpairs,
    SymmetricTransition,
    leading_eigenpairs,
    wants_order,
)
from .eigensolvers.factorised import ShiftedInverse
from .eigensolvers.lanczos import krylov
from .eigensolvers.looks import LANCZOS
from .given import part_of
from .laplacian import Laplacian
from .order import host_of
from .scale_and_sign import signs
from .transition import SparseKernel

SYMMETRIC = 1e-8  # of the largest entry: what L may differ from its transpose by
NULL = 1e-10  # of the sum of absolute values in a row: what is left of ``L v`` where v is the vector of eigenvalue 0
AIM = 1e-13  # residual of that vector where it is not known beforehand, in units of the largest eigenvalue
TURNS = 30  # of inverse iteration, at most


@answers
@step("eigenvectors")
def smallest_eigenpairs(
    laplacian: Any, k: int = 6, *, null: Any = None, tol: float = 1e-8, random_state: Any = 0, solver: str = "auto"
) -> Embedding:
    """Return the k smallest eigenpairs of a symmetric graph Laplacian.

    What ``scipy.sparse.linalg.eigsh(laplacian, k, sigma=0)`` is asked for: the method is chosen by the graph, copies of
    multiple eigenvalues are looked for, and eigenvectors whose eigenvalues are close are told apart as far as rounding
    allows. Each connected part of a graph has an eigenvalue 0, and is solved by itself.

    Parameters
    ----------
    laplacian : sparse matrix of shape (n, n)
        A symmetric Laplacian of SciPy or CuPy, on whose device the work is done: combinatorial ``D - W``, normalised
        ``I - D^-1/2 W D^-1/2``, or of a mesh. Also one plus a nonnegative diagonal (Dirichlet conditions).
    k : int, default=6
        How many eigenpairs, zeros included.
    null : ndarray of shape (n,), optional
        A positive vector with ``laplacian @ null = 0``: for a normalised Laplacian the roots of the degrees, as
        ``scipy.sparse.csgraph.laplacian(normed=True, return_diag=True)`` returns them. It is found where it is not
        given, which takes time unless it is constant or all weights are equal.
    tol : float, default=1e-8
        The largest residual that a pair may have, in units of a bound on the largest eigenvalue.
    random_state : int, RandomState, Generator or None, default=0
        The seed of the start vector.
    solver : {"auto", "lanczos", "multilevel", "factorised"}, default="auto"
        The method to try first.

    Returns
    -------
    Embedding
        With ``eigenvalues``, orthonormal ``vectors``, ``residuals``, ``gaps``, ``angles`` and ``multiplicities`` of
        ``laplacian`` as it is given, zeros included. ``info`` has the ``method`` ("dense", "lanczos", "multilevel" or
        "factorised"; of the largest part) and ``parts``, the number of connected parts.

    Warns
    -----
    RuntimeWarning
        If a residual is above ``tol``, or eigenvectors may be mixtures.

    Examples
    --------
    >>> import ies_gpu
    >>> import scipy.sparse
    >>> square = scipy.sparse.csr_array([[2, -1, 0, -1], [-1, 2, -1, 0], [0, -1, 2, -1], [-1, 0, -1, 2]])
    >>> found = ies_gpu.smallest_eigenpairs(square, 4)
    >>> abs(found.eigenvalues.round(9)).tolist(), found.multiplicities.tolist()
    ([0.0, 2.0, 2.0, 4.0], [1, 2, 2, 1])
    """
    check_choice("solver", solver, SOLVERS)
    L = symmetric_laplacian(laplacian)
    backend, n = backend_of(L.data), L.shape[0]
    k = check_integer("k", k, low=1, high=n, why=f" for {n} points")
    tol, seed = check_number("tol", tol, high=1.0), check_seed(random_state)
    if null is not None:
        null = backend.asarray(check_real_array("null", null, 1))
        if len(null) != n or not bool((null > 0).all()) or not is_null(L, null):
            text = f"null must be {n} positive numbers v with laplacian @ v = 0, as the roots of the degrees are"
            raise refusal("null.vector", text, "leave it out to have it found")
    whole = [Part(L, np.arange(n), null)]
    count, labels = SparseKernel(backend.csr(abs(L.data), L.indices, L.indptr, L.shape)).components()
    if count > 1:
        ordered = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
        whole = [Part(L, rows, null) for rows in sorted(ordered, key=len, reverse=True)]
    each = k
    if all(part.top is not None for part in whole):  # each has a 0, so that no other is among more than are left
        whole = whole[:k]
        each = k - len(whole) + 1
    solved = [part.pairs(min(each, part.n), tol, start_vector(n, seed)[part.rows], solver) for part in whole]
    found = merged(L, whole, solved, k)
    check_smallest(found, tol * max(part.scale for part in whole))
    return replace(found, info=solved[0].info | {"parts": count, "random_state": seed})


def symmetric_laplacian(laplacian: Any) -> Array:
    """Return a matrix as CSR, symmetric to the last digit and without stored zeros, if it can be a Laplacian."""
    L = check_square_sparse("laplacian", laplacian)
    backend = backend_of(L.data)
    L = backend.uniform(L)
    apart = abs(L - L.T)
    largest, apart = float(abs(L.data).max()) if L.nnz else 0.0, float(apart.data.max()) if apart.nnz else 0.0
    if apart > SYMMETRIC * largest:
        text = f"laplacian must be symmetric, but it differs from its transpose by up to {apart:.3g}"
        raise refusal("laplacian.asymmetric", text, "pass an I - P of a random walk to diffusion_map instead")
    if float(L.diagonal().min()) < 0:
        raise refusal("laplacian.sign", "laplacian has a negative entry on its diagonal", "pass -laplacian")
    L = (0.5 * (L + L.T)).tocsr()
    L.eliminate_zeros()
    L.sort_indices()
    return L


def is_null(L: Array, v: Array) -> bool:
    """Whether ``L v`` is 0 but for rounding."""
    return bool((abs(L @ v) <= NULL * (abs(L) @ v)).all())


class Part:
    """One connected part of a Laplacian, as the symmetric operator ``S = 1 - (L - lowest) / scale``.

    Attributes
    ----------
    rows : array (r,)
        Rows of the whole.
    top : array (r,) or None
        The positive eigenvector of the smallest eigenvalue, ``lowest``, once it is known.
    """

    def __init__(self, L: Array, rows: np.ndarray, null: Array | None) -> None:
        self.backend, self.rows, self.n, self.lowest = backend_of(L.data), rows, len(rows), 0.0
        xp, there = self.backend.xp, self.backend.asarray(rows)
        self.L = L if self.n == L.shape[0] else self.backend.uniform(part_of(L, there))
        self.inverse: ShiftedInverse | None = None
        self.scale = max(float((abs(self.L) @ xp.ones(self.n)).max()), 1e-300)
        counted = xp.sqrt(xp.maximum(xp.diff(self.L.indptr) - (self.L.diagonal() != 0), 1).astype(xp.float64))
        guesses = [xp.ones(self.n), counted] if null is None else [null[there]]
        self.top = next((v for v in guesses if is_null(self.L, v)), None)

    def operator(self) -> SymmetricTransition:
        """S, by its similar matrix P of rows that sum to 1."""
        xp, kernels = self.backend.xp, self.backend.kernels
        top = xp.ones(self.n) if self.top is None else self.top
        if self.top is not None and self.inverse is None:  # a closer bound on the spectrum than that of the plain rows
            self.scale = max(float(((abs(self.L) @ top) / top).max()), 1e-300)
        identity = self.backend.sparse.identity(self.n, format="csr")
        P = (identity * (1 + self.lowest / self.scale) - self.L / self.scale).tocsr()
        P.sort_indices()
        kernels.scaled_entries(P.indptr, P.indices, P.data, 1 / top, top)
        P = self.backend.csr(P.data, P.indices, P.indptr, P.shape)
        return SymmetricTransition(Laplacian(P, top * top), self.backend)

    def pairs(self, count: int, tol: float, start: np.ndarray, solver: str) -> Eigenpairs:
        """Return the leading eigenpairs of S, in the order of ``rows``."""
        if self.top is None:
            self.find_top(start)
        operator, rows = self.operator(), None
        operator.inverse = self.inverse
        sort = solver == "multilevel" or (solver == "auto" and self.inverse is None)
        if sort and wants_order(operator.transition, count):
            laplacian = Laplacian(operator.transition.matrix, operator.root**2).arranged
            operator, rows = SymmetricTransition(laplacian, self.backend), laplacian.rows
        elif solver == "auto" and self.inverse is not None:
            solver = "factorised"
        begin, edges = (start, False) if rows is None else (start[rows.order], rows.edges)
        begin = self.backend.asarray(begin)
        found = leading_eigenpairs(operator, count, start=begin, tol=tol, ordered=edges, solver=solver)
        return found if rows is None else replace(found, vectors=rows.to_user(found.vectors))

    def find_top(self, start: np.ndarray) -> None:
        """Find the vector of the smallest eigenvalue: by Lanczos, or by a factorisation where that takes less."""
        operator, host = self.operator(), host_of(self.backend)
        cost = operator.factor_cost()
        fits = cost.bytes <= host.memory_budget()
        product = LANCZOS[0] * self.L.nnz + LANCZOS[1] * self.n
        most = int(np.clip(cost.seconds / product, 50, 20_000)) if fits else 20_000
        v = krylov(operator, 1, self.backend.asarray(abs(start)), AIM, max_products=most)[1][:, 0]
        if not self.settle(v) and fits:
            with host.active():
                inverse = self.inverse = ShiftedInverse(operator.on_host, to_host(v), host)
                for _ in range(TURNS):
                    v = inverse(to_host(v))
                    v /= np.linalg.norm(v)
                    if self.settle(self.backend.asarray(v)):
                        break
        if self.top is None:
            raise NotConvergedError("the vector of the smallest eigenvalue was not found; pass it as null=")
        if not bool((self.top > 0).all()):
            text = "laplacian has no positive eigenvector of its smallest eigenvalue, as that of a connected graph has"
            raise refusal("laplacian.top", text, "pass D - W, I - D^-1/2 W D^-1/2, or one of them plus a diagonal")

    def settle(self, v: Array) -> bool:
        """Take a vector if it is an eigenvector to rounding."""
        v = v * (1.0 if float(v.sum()) > 0 else -1.0)
        image = self.L @ v
        value = float(v @ image) / float(v @ v)
        small = float(((image - value * v) ** 2).sum() ** 0.5) <= AIM * self.scale * float(v @ v) ** 0.5
        if small:
            self.top = v
            if value > AIM * self.scale:  # the factor is that of another matrix
                self.lowest, self.inverse = value, None
        return small


def merged(L: Array, parts: list[Part], solved: list[Eigenpairs], k: int) -> Embedding:
    """Return the k smallest of the pairs of all parts, with residuals and gaps with respect to the whole."""
    backend = backend_of(L.data)
    xp, scale = backend.xp, max(part.scale for part in parts)
    values = [part.lowest + part.scale * (1 - to_host(one.values)) for part, one in zip(parts, solved, strict=True)]
    owner = np.repeat(np.arange(len(parts)), [len(some) for some in values])
    place = np.concatenate([np.arange(len(some)) for some in values])
    chosen = np.argsort(np.concatenate(values), kind="stable")[:k]
    V, bounds = xp.zeros((L.shape[0], k)), []
    for column, (at, own) in enumerate(zip(owner[chosen], place[chosen], strict=True)):
        V[backend.asarray(parts[at].rows), column] = solved[at].vectors[:, own]
        bounds.append((parts[at].scale * solved[at].accuracy.gaps[own], solved[at].accuracy.angles[own]))
    V *= signs(V)
    LV = L @ V
    found = column_sums(V * LV)
    residuals, eigenvalues = to_host(column_norms(LV - V * found)), to_host(found)
    order = np.argsort(eigenvalues, kind="stable")
    V, residuals, eigenvalues = V[:, backend.asarray(order)], residuals[order], eigenvalues[order]
    gaps, angles = np.array(bounds)[order].T
    groups = groups_of(1 - eigenvalues / scale)
    apart = np.where(groups[:, None] == groups, np.inf, abs(eigenvalues[:, None] - eigenvalues))
    known = eigenvalues, residuals, np.minimum(gaps, apart.min(axis=1)), angles
    return Embedding(V, *map(backend.asarray, known))


def check_smallest(found: Embedding, limit: float) -> None:
    """Warn of residuals above the tolerance and of eigenvectors that may be mixtures."""
    worst, angles, gaps = float(found.residuals.max()), to_host(found.angles), to_host(found.gaps)
    if not worst <= limit:
        text = f"the eigensolver reached a residual of {worst:.1e} instead of {limit:.0e}"
        tell(warning("eigenvectors.residual", text, "treat close eigenvalues with care or ask for fewer"))
    if mixed := np.flatnonzero(angles > ANGLE).tolist():
        text = f"columns {mixed} may be mixed with each other or with the next (gap {gaps[mixed].min():.1g})"
        tell(warning("eigenvectors.mixed", text, "lower tol, or ask for more or fewer eigenpairs"))
