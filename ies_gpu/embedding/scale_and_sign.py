"""How long the coordinates are and which way they point; both are chosen after everything else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..backend import backend_of
from ..backend.array import Array, column_ends, column_maxima, column_means, column_norms, column_sums

CLEAR = 4.0  # standard errors from zero: no other sample of the same points' distribution would say the opposite
ROUNDING = 1e-3  # standard errors that may be nothing but rounding
COLUMNS = 64  # of the points that are looked at together


def scale_factors(
    Y: Array, eigenvalues: Array, scale: str, *, weights: Array = None, diffusion_time: float = 1.0
) -> Array:
    """What to multiply each eigenvector (n,) by; see ``scale`` of :func:`ies_gpu.select_coordinates`.

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
    """The sign, 1 or -1, that each eigenvector (n,) gets, by a rule that knows nothing of seeds and the order of rows.

    The first of these that is at least four standard errors from zero becomes positive: the third moment; the
    correlation with the squared distance from the mean of the points; that with each column of the points, in turn.
    Without points, the weights of the Laplacian take their place. Where none is so clear, the clearest counts, and
    where all are zero to rounding, the order of the rows.
    """
    backend = backend_of(Y)
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
    return backend.asarray(np.where(best < 0, -1.0, 1.0))


def _invariants(Y: Array, X: Array, weights: Array) -> Iterator[Array]:
    """How many standard errors quantities that change sign with the eigenvectors are from zero, in the rule's order."""
    xp = backend_of(Y).xp
    Z = Y / column_maxima(xp.abs(Y))
    cubes = Z * Z * Z
    yield (column_sums(cubes) / column_norms(cubes))[:, None]
    if X is None:
        if weights is not None:
            yield _standard_errors(Y, weights[:, None])
        return
    centre = column_means(X)
    low, high = column_ends(X)
    unit = float(xp.maximum(high - centre, centre - low).max())  # squares neither overflow nor vanish
    squared = xp.zeros((len(X), 1))
    for first in range(0, X.shape[1], COLUMNS):
        part = slice(first, first + COLUMNS)
        squared[:, 0] += (((X[:, part] - centre[part]) / unit) ** 2).sum(axis=1)
    yield _standard_errors(Y, squared)
    for first in range(0, X.shape[1], COLUMNS):
        part = slice(first, first + COLUMNS)
        yield _standard_errors(Y, (X[:, part] - centre[part]) / unit)


def _standard_errors(Y: Array, V: Array) -> Array:
    """The covariance (m, q) of every column of Y with every column of V, in its own standard errors."""
    xp = backend_of(Y).xp
    V = V - column_sums(V) / len(V)
    spread = xp.sqrt((Y * Y).T @ (V * V))
    return (Y.T @ V) / xp.where(spread > 0, spread, 1.0)
