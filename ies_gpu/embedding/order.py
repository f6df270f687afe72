"""Points ordered in space: neighbours stand close in memory, and runs of consecutive points are small cells.

The order is that of a KD-tree with cuts at medians. Its cells need no storage: after ``l`` cuts the i-th of the
``2**l`` cells begins at ``(n * i) >> l``. The graph skips pairs of cells that are too far apart, and the eigensolver
takes cells as the unknowns of its coarse levels.

Where there are no points but only a matrix, rows that belong together are matched, then pairs of pairs and so on; the
tree of them gives the order, and its branches are the cells.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import NamedTuple

import numpy as np

from ..backend import Backend, backend_of, get_backend
from ..backend.array import Array

FEWEST_GROUPS = 256  # matching stops when no more groups than this are left
END = 127  # depth of the edge behind the last row: it is one of all cells
LEAF = 8  # points in the smallest cells of the order in space
MAX_AXES = 8  # cells are cut along at most this many axes: the leading principal ones when there are more columns
# with more columns, axes are found from this many rows: a covariance of 20,000 columns takes 3 GB and an hour
WIDE = 1024
MANY, LOST = 64, 1e-5  # columns from which on fewer are looked for, and the part of the extent they may leave out


class Rows(NamedTuple):
    """Which rows of the input a Laplacian is of, and their order on the device.

    Of ``n_input`` rows those in ``used``, rising, are used; ``order`` has the number in ``used`` of the row at each
    place. ``edges`` is True for the order in space, has the edges of groups if the order was found from a matrix, and
    is False for the order of the input.
    """

    n_input: int
    used: np.ndarray
    order: np.ndarray
    edges: bool | np.ndarray = False

    @classmethod
    def every(cls, n: int) -> Rows:
        return cls(n, np.arange(n), np.arange(n))

    @property
    def stand_as_given(self) -> bool:
        return self.edges is False

    @property
    def numbers(self) -> np.ndarray:
        """The row of the input at each place on the device."""
        return self.used[self.order]

    def to_user(self, array: Array) -> Array:
        """Return an array of one row per point in the order of the input; the same array if it stands so."""
        return array if self.stand_as_given else array[backend_of(array).asarray(np.argsort(self.order))]

    def to_device(self, array: Array) -> Array:
        """Return an array of one row per point that is used, given in the order of the input, in that of the device."""
        return array if self.stand_as_given else array[backend_of(array).asarray(self.order)]


def n_levels(n: int, leaf: int) -> int:
    return (-(-n // leaf) - 1).bit_length()  # the largest cell holds ceil(n / 2**levels) points


def cell_starts(n: int, levels: int) -> np.ndarray:
    """Return where the ``2**levels`` cells begin, and n at the end."""
    return (n * np.arange((1 << levels) + 1, dtype=np.int64)) >> levels


def cells_of(n: int, ordered: bool | np.ndarray, cuts: int) -> np.ndarray:
    """Return where cells of at most ``2**cuts`` rows begin, and n at the end; ``ordered`` is as ``Rows.edges``."""
    if isinstance(ordered, np.ndarray):
        return np.flatnonzero(ordered >= min(cuts, int(ordered[:-1].max())))
    return cell_starts(n, max(0, n_levels(n, LEAF) + 3 - cuts))


def host_of(backend: Backend) -> Backend:
    return backend if backend.device == "cpu" else get_backend("cpu")


def matrix_order(matrix: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of the rows of a symmetric matrix of affinities, none of them negative, found on the host.

    Each row is matched with the one that it is tied to most, pairs are added up and matched in turn, small groups
    first; what ties two groups is measured per pair of rows in them. Returned are the old row at each new place (n,),
    and the depth of the edge before each row (n + 1,): those of depth r or more are edges of groups of up to ``2**r``.
    """
    backend = backend_of(matrix.data)
    host, kernels = backend.to_host, host_of(backend).kernels
    parts = host(matrix.indptr).astype(np.int64), host(matrix.indices), host(matrix.data).astype(np.float32)
    n = matrix.shape[0]
    sizes, rounds = np.ones(n, dtype=np.float32), []
    generator = np.random.default_rng(n)
    while len(sizes) > FEWEST_GROUPS:
        visits = np.argsort(sizes + generator.uniform(0, 0.5, len(sizes)), kind="stable")
        mates = kernels.heavy_matching(*parts, (1 / sizes).astype(np.float32), visits)
        leaders = np.flatnonzero(mates >= np.arange(len(mates)))
        if len(leaders) > 0.9 * len(mates):  # a star, or what is like one
            break
        *parts, labels = kernels.contract_pairs(*parts, leaders, mates)
        sizes = np.bincount(labels, weights=sizes).astype(np.float32)
        rounds.append(labels)
    place, edges = np.arange(len(sizes)), np.full(len(sizes) + 1, len(rounds), dtype=np.int8)
    edges[-1] = END
    for depth in reversed(range(len(rounds))):
        group = place[rounds[depth]]
        order = np.argsort(group, kind="stable")
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        finer = np.full(len(group) + 1, depth, dtype=np.int8)
        finer[first], finer[-1] = edges[:-1], END
        place, edges = inverse_order(order), finer
    return inverse_order(place), edges


def principal_axes(X: Array) -> Array:
    """Return orthonormal directions (D, k) along which points of many columns extend most.

    Projection onto them never lengthens a distance, so what it proves about distances from below holds for X.
    """
    return leading_axes(X[:: max(1, len(X) // 10_000)], MAX_AXES)


def leading_axes(X: Array, count: int) -> Array:
    """Return up to ``count`` orthonormal directions (D, k) along which points extend most, the longest first."""
    xp = backend_of(X).xp
    wide = X.shape[1] > WIDE
    centred = X[:: -(-len(X) // WIDE)] if wide else X
    centred = centred - centred.mean(axis=0)
    if not wide:
        return xp.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    weights = xp.linalg.eigh(centred @ centred.T)[1][:, ::-1][:, :count]
    return xp.linalg.qr(centred.T @ weights)[0]  # orthonormal also where the points extend in fewer directions


def essential_columns(X: Array) -> Array:
    """Return points turned onto their principal axes, without those along which they hardly extend.

    Of many columns only, and where at most half of them are left; X itself otherwise. Points move by about ``LOST`` of
    their distance from the mean, and none by more than ten times that, so that squared distances change by 1e-10 of it.
    """
    xp, D = backend_of(X).xp, X.shape[1]
    if not MANY < D <= WIDE or len(X) < 2:
        return X
    sample = X[:: max(1, len(X) // 4_000)]
    centre = sample.mean(axis=0)
    axes = leading_axes(sample, D)
    squares = ((sample - centre) @ axes) ** 2
    left = xp.cumsum(squares.sum(axis=0)[::-1])[::-1]
    kept = int((left > LOST**2 * left[0]).sum())
    if 2 * kept > D:
        return X
    Z = (X - centre) @ axes[:, :kept]
    lost = ((X - centre) ** 2).sum(axis=1) - (Z * Z).sum(axis=1)
    return Z if float(lost.max()) <= 100 * LOST**2 * float(squares.sum(axis=1).mean()) else X


def spatial_order(X: Array) -> Array:
    backend = backend_of(X)
    Z = backend.xp.ascontiguousarray(X @ principal_axes(X)) if X.shape[1] > MAX_AXES else X
    with backend.active():
        return backend.kernels.kd_order(Z, n_levels(len(X), LEAF))


def is_mapped(X: Array) -> bool:
    while isinstance(X, np.ndarray):
        X = X.base
    return isinstance(X, mmap.mmap)


def in_order(X: Array, order: Array) -> Array:
    """Return points in a new order; those of a mapped file that would fill the memory go into a temporary one."""
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
    xp = backend_of(order).xp
    inverse = xp.empty_like(order)
    inverse[order] = xp.arange(len(order), dtype=order.dtype)
    return inverse
