"""Diffusion maps: the slowest eigenvectors of the Laplacian as coordinates, how long they are, which way they point."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..backend import active_backend, at_home, backend_of, cached_property, report, step
from ..backend.array import Array, column_ends, column_maxima, column_means, column_norms, column_sums, few_on_host
from ..findings import DisconnectedGraphError, NotConvergedError, option, refusal, tell, warning
from ..options import documented, explain_keywords
from ..validation import check_choice, check_integer, check_number, check_seed
from .eigensolvers.accuracy import ANGLE, Accuracy, mixed_columns
from .eigensolvers.choose_solver import SOLVERS, Eigenpairs, SymmetricTransition, leading_eigenpairs, wants_order
from .laplacian import Laplacian, Rows, check_laplacian, reorder, with_weights

CLEAR = 4.0  # standard errors from zero: no other sample of the same points' distribution would say the opposite
ROUNDING = 1e-3  # standard errors that may be nothing but rounding
COLUMNS = 64  # of the points that are looked at together
WORTHLESS = 0.1  # sine of the angle of the first eigenvector from which on nothing is returned


@dataclass(frozen=True)
class Embedding:
    """A diffusion map.

    Attributes
    ----------
    vectors : ndarray of shape (n_samples, n_components)
        The coordinates in the order in which ``rows`` stand on the device.
    eigenvalues : ndarray of shape (n_components,)
        The eigenvalues of the unscaled Laplacian ``L = I - P``, ascending.
    residuals : ndarray of shape (n_components,)
        The residual of each pair, ``|S v - mu v|`` of the symmetric eigenproblem that was solved.
    gaps : ndarray of shape (n_components,)
        The distance from each eigenvalue to the nearest one that is not a copy of it.
    angles : ndarray of shape (n_components,)
        Bounds on the sine of the angle between each computed eigenvector and the true one (Davis and Kahan), or the
        space of the true ones where an eigenvalue comes several times. With entries in float32 their rounding counts.
    info : dict
        Which solver ran and how much work it did.
    rows : Rows or None
        Which rows of the input they are, and in which order they stand; None for the order of the input.
    coordinates : ndarray of shape (n_samples, n_components)
        The eigenvectors ``phi_1 .. phi_m``, each of unit Euclidean length, without the constant ``phi_0``, in the order
        of the input.
    """

    vectors: Array
    eigenvalues: Array
    residuals: Array
    gaps: Array
    angles: Array
    info: dict[str, Any] = field(default_factory=dict)
    rows: Rows | None = None

    @property
    def anchor(self) -> Array:
        """An array that lives where the map does."""
        return self.vectors

    @property
    @at_home
    def multiplicities(self) -> Array:
        """How many of the eigenvalues are copies of each; of the last there may be more beyond them."""
        return (abs(self.eigenvalues[:, None] - self.eigenvalues) < self.gaps[:, None]).sum(axis=1)

    @cached_property
    @at_home
    def coordinates(self) -> Array:
        """The eigenvectors, in the order of the input."""
        return self.vectors if self.rows is None else self.rows.to_user(self.vectors)


def packed_map(found: Embedding) -> dict[str, Any]:
    return {part.name: getattr(found, part.name) for part in fields(found) if part.name != "rows"}  # the Laplacian's


def unpacked_map(content: dict[str, Any], load: Any, laplacian: Laplacian, **_: Any) -> Embedding:
    vectors = active_backend().asarray(content["vectors"])
    return Embedding(**content | {"vectors": vectors, "rows": laplacian.rows})


@explain_keywords
@documented
@step("eigenvectors", pack=packed_map, unpack=unpacked_map)
def diffusion_map(
    laplacian: Any, *, n_components: int = 20, tol: float = 1e-8, random_state: Any = 0, solver: str = "auto"
) -> Embedding:
    """Return the slowest non-constant eigenvectors of a renormalised Laplacian.

    The unsymmetric P is never decomposed: the largest eigenpairs ``(mu, v)`` of ``S = Wt^1/2 P Wt^-1/2`` give
    ``lambda = 1 - mu`` and ``phi = Wt^-1/2 v``.

    Parameters
    ----------
    laplacian : Laplacian or sparse matrix
        The Laplacian of a connected graph, from :func:`graph_laplacian` or :func:`laplacian_of_points`; or a sparse
        ``I - P`` of your own whose walk is reversible, as that of a symmetric kernel is.
    n_components : int, default=20
        How many eigenvectors to compute.
    {tol}
    random_state : int, RandomState, Generator or None, default=0
        The seed of the start vector, which is the same on every device; ``info`` has the one that was used. Signs do
        not depend on it: the third moment of each eigenvector is positive, or where that is near zero its correlation
        with ``laplacian.weights``.
    solver : {"auto", "lanczos", "multilevel", "factorised"}, default="auto"
        The method to try first. "auto" chooses by the graph. Where the result of one is not accepted, another takes
        over, and ``info["fallback"]`` says why.

    Returns
    -------
    Embedding
        The coordinates, their eigenvalues and residuals, and what the solver did.

    Raises
    ------
    DisconnectedGraphError
        If the parts of the graph are joined only by weights that are lost to rounding.
    NotConvergedError
        If no solver came near ``tol`` and the first eigenvector is not known by then.

    Warns
    -----
    RuntimeWarning
        If eigenvectors may be mixtures: where eigenvalues are closer together than rounding or residuals can tell, the
        warning names them. All others are within 0.01 of the true ones (``angles``).

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
    if laplacian.operator_weights is None:
        laplacian = with_weights(laplacian)
    n = laplacian.shape[0]
    m = check_integer("n_components", n_components, low=1, high=n - 2, why=f" for {n} points")
    tol, seed = check_number("tol", tol, high=1.0), check_seed(random_state)
    pairs, root = leading_pairs(laplacian, m + 1, tol=tol, seed=seed, solver=solver)
    backend, accuracy = backend_of(root), pairs.accuracy
    check_pairs(pairs.values, accuracy, tol, backend.device)
    phi = pairs.vectors[:, 1:] / root[:, None]
    phi /= column_norms(phi)
    phi *= signs(phi, weights=laplacian.operator_weights)  # a run decides again, where it has points to go by
    few = {name: backend.asarray(getattr(accuracy, name)[1:]) for name in ("residuals", "gaps", "angles")}
    phi, info = backend.xp.ascontiguousarray(phi), pairs.info | {"random_state": seed}
    return Embedding(phi, 1.0 - pairs.values[1:], **few, info=info, rows=laplacian.rows)


def leading_pairs(laplacian: Laplacian, count: int, *, tol: float, seed: int, solver: str) -> tuple[Eigenpairs, Array]:
    """Return the leading eigenpairs of S and the roots of the weights, in the order of the Laplacian's rows."""
    backend, sorted_rows = backend_of(laplacian.operator_weights), False
    if laplacian.rows.stand_as_given:
        sorted_rows = solver == "multilevel" or (solver == "auto" and wants_order(laplacian.operator, count))
    laplacian = reorder(laplacian) if sorted_rows else laplacian
    rows, fits = laplacian.rows, laplacian.facts.get("storage", {}).get("multilevel_fits", True)
    with backend.active():
        S = SymmetricTransition(laplacian, backend)
        start, ordered = backend.asarray(start_vector(rows.n_input, seed)[rows.numbers]), rows.edges if fits else False
        pairs = leading_eigenpairs(S, count, start=start, tol=tol, ordered=ordered, solver=solver, progress=report)
    if not sorted_rows:
        return pairs, S.root
    vectors = backend.xp.ascontiguousarray(rows.to_user(pairs.vectors))
    return replace(pairs, vectors=vectors), rows.to_user(S.root)


def check_pairs(values: Array, accuracy: Accuracy, tol: float, place: str) -> None:
    """Warn of large residuals and mixed eigenvectors; an error where they are worthless, or the graph is in parts."""
    worst, first = float(accuracy.residuals.max()), 1.0 - float(values[1])
    if not np.isfinite(worst):
        text = f"the eigenvectors computed on {place} are not finite"
        advice = f"check the weights of the kernel, or try {option('device', 'cpu')}"
        raise refusal("eigenvectors.not_finite", text, advice, ArithmeticError)
    if first < 1e-13:
        text = "the graph is numerically disconnected (its first eigenvalue is 0)"
        advice = f"raise {option('bandwidth')}, or keep one of its parts"
        raise refusal("graph.zero_eigenvalue", text, advice, DisconnectedGraphError)
    if worst > tol:
        if accuracy.angles[1] > WORTHLESS:
            text = f"the eigenvectors did not converge: a residual is {worst:.1e} beside a first eigenvalue "
            text += f"of {first:.1e}"
            advice = f"raise {option('bandwidth')} or add neighbours, or ask for fewer components"
            raise refusal("eigenvectors.not_converged", text, advice, NotConvergedError)
        text = f"the eigensolver reached a residual of {worst:.1e} instead of {tol:.0e}"
        advice = "treat close eigenvalues with care or use fewer components"
        tell(warning("eigenvectors.residual", text, advice))
    mixed = mixed_columns(np.asarray(backend_of(values).to_host(values)), accuracy)
    if mixed.size:
        largest, gap = accuracy.angles[mixed].max(), accuracy.gaps[mixed].min()
        why = f"residuals are as large as {accuracy.residuals[mixed].max():.1g}"
        advice = f"lower {option('tol')}, or change {option('n_components')}"
        if (accuracy.unavoidable[mixed] > ANGLE).any() or largest <= ANGLE:
            why = "rounding cannot tell so close eigenvalues apart"
            advice = f"raise {option('bandwidth')}, or store the kernel in float64"
        text = f"{', '.join(f'phi{k}' for k in mixed)} may be mixed with each other or with the next eigenvector "
        text += f"(sine of the angle up to {largest:.2g}, gap {gap:.1g}): {why}"
        tell(warning("eigenvectors.mixed", text, advice))


def start_vector(n: int, random_state: int) -> np.ndarray:
    """Return the seeded start vector (n,), in the user's order of points."""
    return np.random.default_rng(random_state).normal(size=n)


# --- scale and sign, chosen after everything else --------------------------------------------------------------------


def scale_factors(Y: Array, eigenvalues: Array, scale: str, weights: Array, diffusion_time: float) -> Array:
    """Return what to multiply each eigenvector (n,) by; see ``scale`` of :func:`ies_gpu.select_coordinates`.

    "diffusion" makes distances in all n - 1 coordinates the diffusion distances at that time: with ``pi`` the weights
    divided by their sum, ``sum_i pi_i y_k(i)^2 = (1 - lambda_k)^(2 t)``.
    """
    backend = backend_of(Y)
    xp = backend.xp
    if scale == "diffusion":
        lengths = xp.sqrt((weights @ (Y * Y)) / weights.sum())
        return abs(1.0 - backend.asarray(eigenvalues)) ** diffusion_time / lengths
    return (len(Y) ** 0.5 if scale == "rms" else 1.0) / column_norms(Y)


def signs(Y: Array, *, X: Array = None, weights: Array = None) -> Array:
    """Return the sign, 1 or -1, of each eigenvector (n,), by the rule in the notes of :func:`select_coordinates`.

    Without points, the weights of the Laplacian take their place. Where all that the rule looks at is zero to rounding,
    the order of the rows counts.
    """
    backend, home = backend_of(few := few_on_host(Y)), backend_of(Y)
    Y, X, weights = few, *(backend.asarray(home.to_host(part)) if part is not None else None for part in (X, weights))
    best = np.zeros(Y.shape[1])
    for found in _invariants(Y, X, weights):
        scores = backend.to_host(found)
        for k in np.flatnonzero(np.abs(best) < CLEAR):
            clear = np.flatnonzero(np.abs(scores[k]) >= CLEAR)
            candidate = scores[k][clear[0] if len(clear) else np.abs(scores[k]).argmax()]
            if abs(candidate) > abs(best[k]):
                best[k] = candidate
        if (np.abs(best) >= CLEAR).all():
            break
    if (np.abs(best) < ROUNDING).any():
        rows = backend.xp.exp(-backend.xp.arange(len(Y), dtype=Y.dtype) / len(Y))[:, None]  # neither even nor odd
        best = np.where(np.abs(best) < ROUNDING, backend.to_host(_standard_errors(Y, rows))[:, 0], best)
    return home.asarray(np.where(best < 0, -1.0, 1.0))


def _invariants(Y: Array, X: Array, weights: Array) -> Iterator[Array]:
    """Yield how many standard errors from zero quantities are that change sign with Y, in the order of the rule."""
    xp = backend_of(Y).xp
    Z = Y / column_maxima(xp.abs(Y))
    cubes = Z * Z * Z
    yield (column_sums(cubes) / column_norms(cubes))[:, None]
    if X is None:
        if weights is not None:
            yield _standard_errors(Y, weights[:, None])
        return
    centre, (low, high) = column_means(X), column_ends(X)
    unit = float(xp.maximum(high - centre, centre - low).max())  # squares neither overflow nor vanish
    parts = [slice(first, first + COLUMNS) for first in range(0, X.shape[1], COLUMNS)]
    squared = xp.zeros((len(X), 1))
    for part in parts:
        squared[:, 0] += (((X[:, part] - centre[part]) / unit) ** 2).sum(axis=1)
    yield _standard_errors(Y, squared)
    for part in parts:
        yield _standard_errors(Y, (X[:, part] - centre[part]) / unit)


def _standard_errors(Y: Array, V: Array) -> Array:
    """Return the covariance (m, q) of every column of Y with every column of V, in its own standard errors."""
    xp = backend_of(Y).xp
    V = V - column_sums(V) / len(V)
    spread = xp.sqrt((Y * Y).T @ (V * V))
    return (Y.T @ V) / xp.where(spread > 0, spread, 1.0)
