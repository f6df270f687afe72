"""Points ordered in space: neighbours stand close in memory, and runs of consecutive points are small cells.

The order is that of a KD-tree with cuts at medians. Its cells need no storage: after ``l`` cuts the i-th of the
``2**l`` cells begins at ``(n * i) >> l``. The graph skips pairs of cells that are too far apart, and the eigensolver
takes cells as the unknowns of its coarse levels.
"""

from __future__ import annotations

import mmap
import tempfile

import numpy as np

from ..backend import backend_of
from ..backend.array import Array

MAX_AXES = 8  # cells are cut along at most this many axes: the leading principal ones when there are more columns


def n_levels(n: int, leaf: int) -> int:
    """How many cuts leave at most ``leaf`` points in a cell."""
    levels = 0
    while -(-n >> levels) > leaf:  # the largest cell holds ceil(n / 2**levels) points
        levels += 1
    return levels


def cell_starts(n: int, levels: int) -> np.ndarray:
    """Where the ``2**levels`` cells begin, and n at the end."""
    return (n * np.arange((1 << levels) + 1, dtype=np.int64)) >> levels


def principal_axes(X: Array) -> Array:
    """Orthonormal directions (D, k) along which the points extend most; the identity when there are few columns.

    Projection onto them never lengthens a distance, so what it proves about distances from below holds for X.
    """
    xp = backend_of(X).xp
    n, D = X.shape
    if D <= MAX_AXES:
        return xp.eye(D, dtype=X.dtype)
    sample = X[:: max(1, n // 10_000)]
    sample = sample - sample.mean(axis=0)
    _, vectors = xp.linalg.eigh(sample.T @ sample)
    return vectors[:, ::-1][:, :MAX_AXES]


def spatial_order(X: Array, leaf: int = 8) -> Array:
    """Permutation (n,) that puts the points into KD order, with at most ``leaf`` points in the smallest cells."""
    backend = backend_of(X)
    Z = backend.xp.ascontiguousarray(X @ principal_axes(X)) if X.shape[1] > MAX_AXES else X
    with backend.active():
        return backend.kernels.kd_order(Z, n_levels(len(X), leaf))


def is_mapped(X: Array) -> bool:
    """Whether an array on the host is a view of a file."""
    while isinstance(X, np.ndarray):
        X = X.base
    return isinstance(X, mmap.mmap)


def in_order(X: Array, order: Array) -> Array:
    """The points in a new order; those of a mapped file that would fill the memory go into another, temporary one."""
    backend = backend_of(X)
    if not is_mapped(X) or X.nbytes <= backend.memory_budget() // 4:
        return X[order]
    with tempfile.TemporaryFile(prefix="ies-gpu-") as file:  # stays as long as it is mapped
        ordered = np.memmap(file, dtype=X.dtype, mode="w+", shape=(len(order), X.shape[1]))
    step = max(1, backend.block_bytes() // (X.shape[1] * X.itemsize))
    for first in range(0, len(order), step):
        ordered[first : first + step] = X[order[first : first + step]]
    return ordered


def inverse_order(order: Array) -> Array:
    """The permutation that undoes ``order``."""
    xp = backend_of(order).xp
    inverse = xp.empty_like(order)
    inverse[order] = xp.arange(len(order), dtype=order.dtype)
    return inverse
