"""The smallest eigenpairs of a symmetric graph Laplacian, by the solvers of the pipeline and without the pipeline."""

from typing import Any

import numpy as np

from ..backend import backend_of, host_of, step, to_host
from ..backend.array import Array, column_norms, column_sums
from ..findings import DisconnectedGraphError, NotConvergedError, refusal, tell, warning
from ..options import explain_keywords
from ..validation import check_choice, check_integer, check_number, check_real_array, check_seed, check_square_sparse
from .diffusion import Embedding, leading_pairs, signs, start_vector
from .eigensolvers.accuracy import ANGLE, groups_of
from .eigensolvers.choose_solver import SOLVERS, SymmetricTransition
from .eigensolvers.factorised import ShiftedInverse
from .eigensolvers.lanczos import is_small, krylov, lanczos
from .eigensolvers.solver_costs import Factorisation
from .laplacian import Laplacian, SparseMatrix

SYMMETRIC = 1e-8  # of the largest entry: what L may differ from its transpose by
NULL = 1e-10  # of the sum of absolute values in a row: what is left of ``L v`` where v is the vector of eigenvalue 0
AIM = 1e-13  # residual of that vector where it is not known beforehand, in units of the largest eigenvalue
STEPS = 6  # of inverse iteration, enough unless the next eigenvalue is nearly as small


@explain_keywords
@step("eigenvectors")
def smallest_eigenpairs(
    laplacian: Any, k: int = 6, *, null: Any = None, tol: float = 1e-8, random_state: Any = 0, solver: str = "auto"
) -> Embedding:
    """Return the k smallest eigenpairs of a symmetric graph Laplacian.

    What ``scipy.sparse.linalg.eigsh(laplacian, k, sigma=0)`` is asked for: the method is chosen by the graph, copies of
    multiple eigenvalues are looked for, and eigenvectors whose eigenvalues are close are told apart as far as rounding
    allows.

    Parameters
    ----------
    laplacian : sparse matrix of shape (n, n)
        A symmetric Laplacian of a connected graph, of SciPy or CuPy, on whose device the work is done: combinatorial
        ``D - W``, normalised ``I - D^-1/2 W D^-1/2``, or of a mesh. Also one plus a nonnegative diagonal (Dirichlet
        conditions).
    k : int, default=6
        How many eigenpairs, zero included.
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
        ``laplacian`` as it is given, zero included. ``info`` has the ``method``.

    Raises
    ------
    DisconnectedGraphError
        If the graph is in parts: each has an eigenvalue 0, and is solved by itself.

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
    backend, n, xp = backend_of(L.data), L.shape[0], backend_of(L.data).xp
    k = check_integer("k", k, low=1, high=n, why=f" for {n} points")
    tol, seed = check_number("tol", tol, high=1.0), check_seed(random_state)
    top, lowest = lowest_pair(L, null, seed)
    scale = max(float(((abs(L) @ top) / top).max()), 1e-300)
    pairs, _ = leading_pairs(transition_of(L, top, lowest, scale), k, tol=tol, seed=seed, solver=solver)
    V = pairs.vectors * signs(pairs.vectors)
    LV = L @ V
    values = column_sums(V * LV)
    order = xp.argsort(values)
    exact = to_host(values[order])  # in which copies differ by rounding, and so must the gaps
    groups = groups_of(1 - exact / scale)
    apart = np.where(groups[:, None] == groups, np.inf, abs(exact[:, None] - exact)).min(axis=1)
    gaps = backend.asarray(np.minimum(scale * pairs.accuracy.gaps[to_host(order)], apart))
    residuals, angles = column_norms(LV - V * values)[order], backend.asarray(pairs.accuracy.angles)[order]
    if not (worst := float(residuals.max())) <= tol * scale:
        text = f"the eigensolver reached a residual of {worst:.1e} instead of {tol * scale:.0e}"
        tell(warning("eigenvectors.residual", text, "treat close eigenvalues with care or ask for fewer"))
    if mixed := np.flatnonzero(to_host(angles) > ANGLE).tolist():
        text = f"columns {mixed} may be mixed with each other or with the next (gap {to_host(gaps)[mixed].min():.1g})"
        tell(warning("eigenvectors.mixed", text, "lower tol, or ask for more or fewer eigenpairs"))
    return Embedding(V[:, order], values[order], residuals, gaps, angles, pairs.info | {"random_state": seed})


def symmetric_laplacian(laplacian: Any) -> Array:
    """Return the Laplacian of a connected graph as CSR, symmetric to the last digit and without stored zeros."""
    L = check_square_sparse("laplacian", laplacian)
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
    parts, labels = SparseMatrix(backend_of(L.data).csr(abs(L.data), L.indices, L.indptr, L.shape)).components()
    if parts > 1:
        largest = np.bincount(labels).max()
        text = f"the graph of laplacian has {parts} parts, the largest with {largest:,} of {L.shape[0]:,} points"
        advice = "pass each of them by itself; scipy.sparse.csgraph.connected_components finds them"
        raise refusal("graph.disconnected", text, advice, DisconnectedGraphError)
    return L


def is_null(L: Array, v: Array) -> bool:
    return bool((abs(L @ v) <= NULL * (abs(L) @ v)).all())


def transition_of(L: Array, top: Array, lowest: float, scale: float) -> Laplacian:
    """Return the P, of rows that sum to 1 if ``top`` belongs to ``lowest``, whose S is ``1 - (L - lowest) / scale``."""
    backend, n = backend_of(L.data), L.shape[0]
    P = (backend.sparse.identity(n, format="csr") * (1 + lowest / scale) - L / scale).tocsr()
    P.sort_indices()
    backend.kernels.scaled_entries(P.indptr, P.indices, P.data, 1 / top, top)
    return Laplacian(backend.csr(P.data, P.indices, P.indptr, P.shape), top * top)


def lowest_pair(L: Array, null: Any, seed: int) -> tuple[Array, float]:
    """Return the positive vector of the smallest eigenvalue, and that: given, guessed, or found."""
    backend, n = backend_of(L.data), L.shape[0]
    xp = backend.xp
    if null is not None:
        v = backend.asarray(check_real_array("null", null, 1))
        if len(v) != n or not bool((v > 0).all()) or not is_null(L, v):
            text = f"null must be {n} positive numbers v with laplacian @ v = 0, as the roots of the degrees are"
            raise refusal("null.vector", text, "leave it out to have it found")
        return v, 0.0
    neighbours = xp.maximum(xp.diff(L.indptr) - (L.diagonal() != 0), 1)
    for guess in (ones := xp.ones(n), xp.sqrt(neighbours.astype(xp.float64))):
        if is_null(L, guess):
            return guess, 0.0
    scale = max(float((abs(L) @ ones).max()), 1e-300)
    v = found_vector(SymmetricTransition(transition_of(L, ones, 0.0, scale), backend), abs(start_vector(n, seed)))
    v = v / (xp.linalg.norm(v) * (1.0 if float(v.sum()) > 0 else -1.0))
    value = float(v @ (L @ v))
    if float(xp.linalg.norm(L @ v - value * v)) > AIM * scale:
        raise NotConvergedError("the vector of the smallest eigenvalue was not found; pass it as null=")
    if not bool((v > 0).all()):
        text = "laplacian has no positive eigenvector of its smallest eigenvalue, as that of a connected graph has"
        raise refusal("laplacian.top", text, "pass D - W, I - D^-1/2 W D^-1/2, or one of them plus a diagonal")
    return v, value if value > AIM * scale else 0.0


def found_vector(operator: SymmetricTransition, start: np.ndarray) -> Array:
    """Find the vector of the smallest eigenvalue by Lanczos, with the inverse where a factorisation is cheap."""
    backend, n = operator.backend, len(start)
    if is_small(n, 1) or not (factor := Factorisation(operator, 1)).is_cheap:
        return krylov(operator, 1, backend.asarray(start), AIM)[1][:, 0]
    with (host := host_of(backend)).active():
        inverse, v = ShiftedInverse(factor.look, np.ones(n), host), start / np.linalg.norm(start)
        for _ in range(STEPS):
            before, v = v, inverse(v)
            v /= np.linalg.norm(v)
            if np.linalg.norm(v - before) <= 10 * AIM:  # each step takes a like part off the error
                return backend.asarray(v)
        enough = lambda values, residuals, _: bool(residuals[0] <= 0.1 * AIM * values[0])  # noqa: E731
        return backend.asarray(inverse(lanczos(inverse, 1, v, enough)[1][:, 0]))
