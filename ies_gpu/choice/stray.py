"""Coordinates that live on a few points only, and are no candidates for a map."""

from __future__ import annotations

import numpy as np

from ..backend import Backend
from ..backend.array import Array
from ..backend.kernels.arrays import column_maxima, column_sums

FEW = 10  # points, and fewer than 1 % of all: a coordinate that lives on so few says nothing about the shape


def stray_limit(n: int) -> float:
    """Return how many of n points a coordinate must live on, so that it is not stray."""
    return min(FEW, n / 100)


def stray_coordinates(coordinates: Array, backend: Backend) -> tuple[list[int], np.ndarray]:
    """Return the numbers of the coordinates (n, m) that live on a few points only, and the rows of those points.

    A vector lives on ``(sum v^2)^2 / sum v^4`` points: 1 for a single one, n for entries of one size. Points that hang
    on the rest by a thread have such coordinates, with small eigenvalues, and crowd out those of the shape.
    """
    squares = (coordinates / backend.xp.maximum(column_maxima(abs(coordinates)), 1e-300)) ** 2
    spread = backend.to_host(column_sums(squares) ** 2 / backend.xp.maximum(column_sums(squares * squares), 1e-300))
    stray = np.flatnonzero(spread < stray_limit(len(coordinates)))
    if len(stray) == 0:
        return [], stray
    squares = squares[:, backend.asarray(stray)]
    rows = backend.xp.nonzero((squares >= 0.1 * squares.max(axis=0)).any(axis=1))[0]
    return stray.tolist(), backend.to_host(rows)


def candidates(coordinates: Array, subset_size: int, backend: Backend) -> list[int]:
    """Return the coordinates to choose from."""
    return without_stray(stray_coordinates(coordinates, backend)[0], coordinates.shape[1], subset_size)


def without_stray(stray: list[int], m: int, subset_size: int) -> list[int]:
    """Return the coordinates that are not stray, or all m if too few are left for a set."""
    kept = [k for k in range(m) if k not in stray]
    return kept if len(kept) >= subset_size else list(range(m))
