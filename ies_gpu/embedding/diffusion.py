"""Diffusion maps: the slowest eigenvectors of the Laplacian as coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..backend import at_home, backend_of
from ..backend.array import Array
from ..backend.kernels.arrays import column_norms
from ..errors import DisconnectedGraphError, NotConvergedError, warn_caller
from ..keywords import answers
from ..validation import check_choice, check_integer, check_number, check_seed
from .eigensolvers.eigenpairs import SymmetricTransition, leading_eigenpairs, wants_order
from .eigensolvers.library import SOLVERS
from .laplacian import Laplacian, check_laplacian, with_weights
from .order import inverse_order
from .scale_and_sign import signs


@dataclass(frozen=True)
class Embedding:
    """A diffusion map.

    Attributes
    ----------
    coordinates : ndarray of shape (n_samples, n_components)
        The eigenvectors ``phi_1 .. phi_m``, each of unit Euclidean length, without the constant ``phi_0``.
    eigenvalues : ndarray of shape (n_components,)
        The eigenvalues of the unscaled Laplacian ``L = I - P``, ascending.
    residuals : ndarray of shape (n_components,)
        The residual of each pair, ``|S v - mu v|`` of the symmetric eigenproblem that was solved.
    info : dict
        Which solver ran and how much work it did.
    """

    coordinates: Array
    eigenvalues: Array
    residuals: Array
    info: dict[str, Any] = field(default_factory=dict)


@answers
@at_home
def diffusion_map(
    laplacian: Any, *, n_components: int = 20, tol: float = 1e-8, random_state: Any = 0, solver: str = "auto"
) -> Embedding:
    """Return the slowest non-constant eigenvectors of a renormalised Laplacian.

    The unsymmetric P is never decomposed: the largest eigenpairs ``(mu, v)`` of ``S = Wt^1/2 P Wt^-1/2`` give
    ``lambda = 1 - mu`` and ``phi = Wt^-1/2 v``.

    Parameters
    ----------
    laplacian : Laplacian or sparse matrix of shape (n_samples, n_samples)
        The Laplacian of a connected graph, from :func:`graph_laplacian` or :func:`laplacian_of_points`, or a sparse
        ``I - P`` of your own whose walk is reversible, as that of a symmetric kernel is.
    n_components : int, default=20
        How many eigenvectors to compute.
    tol : float, default=1e-8
        The largest residual that a pair may have.
    random_state : int, RandomState, Generator or None, default=0
        The seed of the start vector, which is the same on every device; ``info`` has the one that was used. Signs do
        not depend on it: the third moment of each eigenvector is positive, or where that is near zero its correlation
        with ``laplacian.weights``.
    solver : {"auto", "eigsh"}, default="auto"
        "auto" uses our own solver, and the library's if a residual stays above ``tol``. "eigsh" uses SciPy's or CuPy's
        solver, recomputes every residual and searches for missed copies of multiple eigenvalues; if a check fails, our
        own solver takes over, and ``info["fallback"]`` says why.

    Returns
    -------
    Embedding
        The coordinates, their eigenvalues and residuals, and what the solver did.

    Raises
    ------
    DisconnectedGraphError
        If the parts of the graph are joined only by weights that are lost to rounding.
    NotConvergedError
        If no solver came near ``tol``; vectors that are mixtures are never returned.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> embedding = ies_gpu.diffusion_map(laplacian, n_components=5)
    >>> embedding.coordinates.shape
    (400, 5)
    >>> bool((embedding.residuals < 1e-8).all())
    True
    """
    check_choice("solver", solver, SOLVERS)
    laplacian = check_laplacian(laplacian)
    if laplacian.weights is None:
        laplacian = with_weights(laplacian)
    n = laplacian.shape[0]
    m = check_integer("n_components", n_components, low=1, high=n - 2, why=f" for {n} points")
    tol = check_number("tol", tol, high=1.0)
    seed = check_seed(random_state)
    backend = backend_of(laplacian.weights)
    start = backend.asarray(start_vector(n, seed))
    with backend.active():
        operator = SymmetricTransition(laplacian, backend)
        ordered = solver == "auto" and wants_order(operator, m + 1)
    if not ordered:
        found = eigenmap(laplacian, m, start, tol, solver=solver, operator=operator)
        return replace(found, info=found.info | {"random_state": seed})
    inner, order, edges = laplacian.arranged
    found = eigenmap(inner, m, start[order], tol, ordered=edges, solver=solver)
    phi = backend.xp.ascontiguousarray(found.coordinates[inverse_order(order)])
    return replace(found, coordinates=phi, info=found.info | {"random_state": seed})


def check_pairs(values: Array, residuals: Array, tol: float, place: str, warn: Callable[[str], None]) -> None:
    """Warn of residuals above ``tol``; an error where vectors are not finite or mixtures, or the graph is in parts.

    Parameters
    ----------
    values, residuals : array (m + 1,)
        The leading eigenvalues of S, and the residuals of the pairs.
    place : str
        Where they were computed, for the message.
    """
    worst = float(residuals.max())
    if not np.isfinite(worst):
        raise ArithmeticError(
            f"the eigenvectors computed on {place} are not finite; check the weights of the kernel, or try device='cpu'"
        )
    if worst > tol:
        refuse_garbage(1.0 - float(values[1]), worst, tol)
        warn(
            f"the eigensolver reached a residual of {worst:.1e} instead of {tol:.0e}; treat close eigenvalues with "
            "care or use fewer components"
        )
    if float(values[1]) > 1 - 1e-13:
        raise DisconnectedGraphError(
            "the graph is in parts, or its parts are joined only by weights that are lost to rounding (the "
            "first eigenvalue is 0); raise bandwidth, or keep one of its parts"
        )


def refuse_garbage(first: float, worst: float, tol: float) -> None:
    """Raise where residuals are not small beside the first eigenvalue: such vectors would be mixtures."""
    if worst > 0.01 * first:
        raise NotConvergedError(
            f"the eigenvectors did not converge: a residual is {worst:.1e} instead of {tol:.0e}, beside a first "
            f"eigenvalue of {first:.1e}. Raise bandwidth or add neighbours, so that the graph is better connected, "
            "or ask for fewer components"
        )


def start_vector(n: int, random_state: int) -> np.ndarray:
    """The seeded start vector (n,), in the user's order of points."""
    return np.random.default_rng(random_state).normal(size=n)


def eigenmap(
    laplacian: Laplacian,
    m: int,
    start: Array,
    tol: float,
    *,
    ordered: bool | np.ndarray = False,
    solver: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    warn: Callable[[str], None] | None = None,
    operator: SymmetricTransition | None = None,
) -> Embedding:
    """The map from a given start vector; ``ordered``: in spatial order, or where groups of rows end.

    An ``operator`` of this Laplacian brings along what is known of its factor.
    """
    backend = backend_of(start)
    xp = backend.xp
    with backend.active():
        operator = operator or SymmetricTransition(laplacian, backend)
        pairs = leading_eigenpairs(
            operator, m + 1, start=start, tol=tol, ordered=ordered, solver=solver, progress=progress
        )
    check_pairs(pairs.values, pairs.residuals, tol, backend.device, warn or warn_caller)
    phi = pairs.vectors[:, 1:] / operator.root[:, None]
    phi /= column_norms(phi)
    phi *= signs(phi, weights=laplacian.weights)
    return Embedding(xp.ascontiguousarray(phi), 1.0 - pairs.values[1:], pairs.residuals[1:], pairs.info)
