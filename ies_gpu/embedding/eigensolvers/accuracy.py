"""How far computed eigenvectors may be from the true ones: what counts is the residual against the gap.

Where eigenvalues lie closer together than the tolerance, as on a graph whose parts hang by threads, small residuals do
not tell eigenvectors from mixtures of them. By the theorem of Davis and Kahan the sine of the angle to the true vector
is at most the residual over the distance to the nearest other eigenvalue. Within a block of vectors more is known: the
residuals, projected onto the block, say how much of one is left in another, and Rayleigh-Ritz takes that out. Copies of
a multiple eigenvalue are one group: any basis of their space is as good as another, so the angle is that to the space.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend.array import Array, column_norms
from .ritz import COLUMNS_AT_ONCE, FEWEST_COLUMNS

ANGLE = 0.01  # the sine of the angle to the true vector that is aimed for
SAME = 1e-6  # of 1 - mu: values that are closer are copies of one eigenvalue
ROUNDING = 1e-15  # of a value near 1, in float64
SPREAD = 1e-3  # of 1 - mu: values that only rounding makes one group may differ by this much, and are as good as copies


@dataclass(frozen=True)
class Accuracy:
    """What is known of each of k eigenvectors; those of one number in ``groups`` are copies, but for rounding."""

    residuals: np.ndarray  # |S v - mu v|
    gaps: np.ndarray  # to the nearest eigenvalue that is no copy
    angles: np.ndarray  # bounds on their sines, to the true vector or to the space of the copies
    groups: np.ndarray
    unavoidable: np.ndarray  # what rounding of the stored entries leaves of them, whatever the residuals are

    @property
    def doubtful(self) -> np.ndarray:
        return np.flatnonzero(self.angles > ANGLE)


def closeness(values: Array, noise: float = ROUNDING) -> Array:
    """Return how close another value may be to each of these to count as a copy of it."""
    return (SAME * (1 - values)).clip(noise, None)


def groups_of(values: np.ndarray, noise: float = ROUNDING) -> np.ndarray:
    apart = values[:-1] - values[1:] > closeness(values[1:], noise)
    return np.concatenate([[0], np.cumsum(apart)])


def distances_beyond(values: np.ndarray, count: int, noise: float = ROUNDING) -> np.ndarray:
    """Return how far each of the first ``count`` values is from the first behind them that is no copy, or infinity."""
    groups = groups_of(values, noise)
    following = np.append(values, -np.inf)[np.maximum(count, np.searchsorted(groups, groups[:count], side="right"))]
    return values[:count] - following


def is_separate(values: np.ndarray, residuals: np.ndarray) -> bool:
    """Whether residuals are so small that the vectors hold nearly nothing of those behind them."""
    return bool((residuals <= residuals_for(values, len(residuals))).all())


def residuals_for(values: np.ndarray, count: int) -> np.ndarray:
    """Return the residuals (count,) that keep the part of eigenvectors behind the first ``count`` small enough."""
    return np.maximum(0.5 * ANGLE * distances_beyond(values, count), ROUNDING)


def accuracy_of(
    values: np.ndarray,
    residuals: np.ndarray,
    coupling: np.ndarray | None = None,
    noise: float = ROUNDING,
    known: bool = True,
) -> Accuracy:
    """Bound the angles of the k vectors whose residuals are given; values behind the first k belong to guards.

    ``coupling`` (k, k) are inner products of vectors (rows) with residuals (columns); without them any part of a
    residual may be coupling. ``noise`` is what rounding of the stored entries couples two vectors by. The first vector
    may be ``known``: then the others have nothing of it.
    """
    k = len(residuals)
    groups = groups_of(values, noise)
    apart = np.where(groups[:k, None] == groups, np.inf, np.abs(values[:k, None] - values))
    apart = np.maximum(apart, 1e-30)  # values that are equal to the bit need not stand side by side
    beyond = distances_beyond(values, k, noise)

    def angles(residuals: np.ndarray, coupling: np.ndarray) -> np.ndarray:
        outside = (residuals + noise) / beyond
        inside = (coupling + noise + np.outer(outside, residuals)) / apart[:, :k]
        return np.minimum(outside + np.linalg.norm(inside[:, int(known) :], axis=1), 1.0)

    gaps, none = apart.min(axis=1), np.zeros((k, k))
    if coupling is None:
        found = np.minimum((residuals + noise) / gaps, 1.0)
    else:
        found = angles(residuals, np.maximum(np.abs(coupling), np.abs(coupling.T)))
    return Accuracy(residuals, gaps, found, groups[:k], angles(none[0], none))


def mixed_columns(values: np.ndarray, accuracy: Accuracy) -> np.ndarray:
    """Return the columns that may be mixtures: of large angles, or of values that only rounding makes equal."""
    groups, ends = accuracy.groups, np.searchsorted(accuracy.groups, accuracy.groups, side="right") - 1
    spread = values[np.searchsorted(groups, groups)] - values[ends]
    mixed = (accuracy.angles > ANGLE) | (spread > SPREAD * (1 - values[ends]))
    return np.flatnonzero(mixed[1:]) + 1


def measure(operator: Any, values: Array, vectors: Array) -> tuple[Array, np.ndarray]:
    """Return the norms ``|S v - mu v|`` (k,), and inner products of vectors with residuals, some columns at a time."""
    backend, xp = operator.backend, operator.backend.xp
    k = vectors.shape[1]
    step = max(FEWEST_COLUMNS, COLUMNS_AT_ONCE // len(vectors))
    norms, coupling = [], []
    for first in range(0, k, step):
        columns = slice(first, min(first + step, k))
        V = xp.ascontiguousarray(vectors[:, columns])
        R = operator(V) - V * values[columns]
        norms.append(column_norms(R))
        coupling.append(vectors.T @ R)
    return xp.concatenate(norms), backend.to_host(xp.concatenate(coupling, axis=1))


def separated(values: np.ndarray, gram: np.ndarray, coupling: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Ritz values of nearly orthonormal vectors whose residuals are known, falling, and the turn (k, k)."""
    U = np.linalg.inv(np.linalg.cholesky(gram)).T
    image = U.T @ (gram * (1 - values) - coupling) @ U  # of 1 - S, whose small eigenvalues keep their digits
    found, C = np.linalg.eigh(0.5 * (image + image.T))
    return 1 - found, U @ C
