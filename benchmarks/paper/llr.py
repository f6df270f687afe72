"""The baseline: ranking by local linear regression (Dsilva et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ies_gpu.backend import Backend, at_home, backend_of
from ies_gpu.backend.array import Array
from ies_gpu.findings import refusal
from ies_gpu.validation import check_integer, check_real_array, check_seed

MEDIAN_POINTS = 2000  # the bandwidth comes from the distances between at most this many points
RIDGE = 1e-10  # of the mean diagonal: negligible where a fit is determined, and singular fits still have an answer


class LLRRanking(NamedTuple):
    """Coordinates, ranked by how badly the earlier ones predict them.

    Attributes
    ----------
    order : tuple of int
        0-based, largest residual first; ties stay in order.
    residuals : ndarray of shape (n_components,)
        ``r_k``: 1 for the first coordinate, about 0 for a function of the earlier ones, and more for a new direction,
        though less than 1 the more earlier coordinates there are to predict it from: about .5 to 1 on rectangles.
    bandwidths : ndarray of shape (n_components,)
        The bandwidth h of each regression; NaN for the first coordinate, which has none.
    """

    order: tuple[int, ...]
    residuals: np.ndarray
    bandwidths: np.ndarray


@at_home
def llr_ranking(coordinates: Array, *, n_samples: int | None = 2000, random_state: Any = 0) -> LLRRanking:
    """Rank coordinates by local linear regression on the earlier ones.

    For k = 2..m a weighted linear fit with intercept predicts ``phi_k`` at each point from ``phi_1..phi_{k-1}`` at the
    other points. The weights are ``exp(-dist^2 / h^2)``, with h a third of the median distance, and
    ``r_k = |fit - phi_k| / |phi_k|``. This is algorithm LLRCoordSearch, the baseline in the paper.

    Parameters
    ----------
    coordinates : ndarray of shape (n_samples, n_components)
        Eigenvectors, without the constant one.
    n_samples : int or None, default=2000
        How many points to use, drawn at random; None uses all. The work grows with its square, the memory does not.
    random_state : int, RandomState, Generator or None, default=0
        Seed for drawing the points.

    Returns
    -------
    LLRRanking
        The order of the coordinates, with residuals and bandwidths.

    References
    ----------
    Dsilva, Talmon, Coifman, Kevrekidis: Parsimonious representation of nonlinear dynamical systems through manifold
    learning, 2018.
    """
    Y = check_real_array("coordinates", coordinates, 2)
    if Y.shape[0] < 3 or Y.shape[1] < 1:
        raise refusal("coordinates.shape", f"coordinates must have at least 3 rows and 1 column, got shape {Y.shape}")
    seed = check_seed(random_state)
    backend = backend_of(Y)
    rng = np.random.default_rng(seed)
    n = len(Y)
    if n_samples is not None and check_integer("n_samples", n_samples, low=3) < n:
        Y = Y[backend.asarray(np.sort(rng.choice(n, n_samples, replace=False)))]
        n = n_samples
    flat = np.flatnonzero(backend.to_host((Y[:1] == Y).all(axis=0)))
    if len(flat):
        text = f"column {flat[0]} of coordinates is constant on the {n} points used"
        raise refusal("coordinates.constant", text, "leave it out")
    few = np.sort(rng.choice(n, MEDIAN_POINTS, replace=False)) if n > MEDIAN_POINTS else np.arange(n)
    with backend.active():
        unit = float(abs(Y).max())  # neither h nor r_k depends on it, and squares neither overflow nor vanish
        Y = Y / unit
        bandwidths = median_distances(Y[backend.asarray(few)], backend) / 3
        residuals = np.ones(Y.shape[1])
        for k in range(1, Y.shape[1]):
            residuals[k] = leave_one_out(Y[:, :k] / bandwidths[k], Y[:, k], backend)
    order = tuple(int(k) for k in np.argsort(-residuals, kind="stable"))
    return LLRRanking(order, residuals, bandwidths * unit)


def median_distances(Y: Array, backend: Backend) -> np.ndarray:
    """The median distance between two points in the first k coordinates, for k = 0 (NaN) to m - 1."""
    xp = backend.xp
    m = Y.shape[1]
    first, second = (backend.asarray(part) for part in np.triu_indices(len(Y), 1))
    squares = xp.zeros(len(first))
    found = np.full(m, np.nan)
    for k in range(1, m):
        squares += (Y[first, k - 1] - Y[second, k - 1]) ** 2
        middle = float(xp.median(squares))
        if middle == 0 and bool((squares > 0).any()):  # most points are copies: let the others define what is near
            middle = float(xp.median(squares[squares > 0]))
        if middle == 0:
            text = f"the first {k} columns of coordinates are constant"
            raise refusal("coordinates.constant", text, "leave constant coordinates out")
        found[k] = np.sqrt(middle)
    return found


def leave_one_out(X: Array, y: Array, backend: Backend) -> float:
    """``|fit - y| / |y|`` for weights ``exp(-dist^2)`` between the rows of X, each point left out of its own fit."""
    xp = backend.xp
    n = len(X)
    A = xp.concatenate([xp.ones((n, 1)), X], axis=1)
    rows, columns = (backend.asarray(part) for part in np.triu_indices(A.shape[1]))
    products = A[:, rows] * A[:, columns]  # the moments of all fits of a block are one matrix product with the weights
    lengths = (X * X).sum(axis=1)
    fit = xp.empty(n)
    for block in backend.blocks(n, 8 * (4 * n + 4 * A.shape[1] ** 2), "llr"):
        with block as part:
            own = xp.arange(part.start, part.stop)
            squares = lengths[part, None] + lengths[None, :] - 2 * (X[part] @ X.T)
            squares[own - part.start, own] = xp.inf
            # a factor common to all weights of a fit does not change it, and keeps far points from having none
            weights = xp.exp(squares.min(axis=1, keepdims=True) - squares)
            normal = xp.empty((len(own), A.shape[1], A.shape[1]))
            normal[:, rows, columns] = normal[:, columns, rows] = weights @ products
            diagonal = xp.arange(A.shape[1])
            normal[:, diagonal, diagonal] += RIDGE * normal[:, diagonal, diagonal].mean(axis=1, keepdims=True)
            slopes = xp.linalg.solve(normal, (weights @ (A * y[:, None]))[:, :, None])[:, :, 0]
            fit[part] = (A[part] * slopes).sum(axis=1)
    return float(xp.linalg.norm(fit - y) / xp.linalg.norm(y))
