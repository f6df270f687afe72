"""Coordinates that live on a few points only, and are no candidates for a map."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.kernels.arrays import column_maxima, column_sums

FEW = 10  # points, and fewer than 1 % of all: a coordinate that lives on so few says nothing about the shape


def stray_coordinates(coordinates: Array) -> list[int]:
    """Return the numbers of the coordinates (n, m) that live on a few points only.

    A vector lives on ``(sum v^2)^2 / sum v^4`` points: 1 for a single one, n for entries of one size. Points that hang
    on the rest by a thread have such coordinates, with small eigenvalues, and crowd out those of the shape.
    """
    n, m = coordinates.shape
    backend = backend_of(coordinates)
    limits: dict[str, Any] = {"bytes_per_row": 24.0 * m, "stage": "search", "sums": 1}
    (sizes,) = backend.sweep(lambda _, Y: (column_sums(abs(Y)),), coordinates, **limits)
    sizes = backend.to_host(sizes)
    units = np.where(sizes > 0, sizes, 1.0)  # powers neither overflow nor vanish

    def powers(home: Any, Y: Array) -> tuple[Array, Array]:
        squares = (Y / home.asarray(units)) ** 2
        return column_sums(squares), column_sums(squares * squares)

    second, fourth = map(backend.to_host, backend.sweep(powers, coordinates, **limits | {"sums": 2}))
    spread = second**2 / np.maximum(fourth, 1e-300)
    return np.flatnonzero(spread < min(FEW, n / 100)).tolist()


def stray_points(coordinates: Array, stray: list[int]) -> np.ndarray:
    """Return the rows of the points on which stray coordinates live."""
    if not stray:  # CuPy cannot reshape an array without columns
        return np.empty(0, dtype=np.int64)
    backend = backend_of(coordinates)
    sizes = abs(coordinates[:, backend.asarray(np.array(stray, dtype=np.int64))])
    return backend.to_host(backend.xp.nonzero((sizes >= 0.1**0.5 * column_maxima(sizes)).any(axis=1))[0])


def candidates(coordinates: Array, subset_size: int) -> list[int]:
    """Return the coordinates to choose from."""
    return without_stray(stray_coordinates(coordinates), coordinates.shape[1], subset_size)


def without_stray(stray: list[int], m: int, subset_size: int) -> list[int]:
    """Return the coordinates that are not stray, or all m if too few are left for a set."""
    kept = [k for k in range(m) if k not in stray]
    return kept if len(kept) >= subset_size else list(range(m))
