"""The kernel of a graph and the transition matrix made from it, as CSR; graphs too dense for that are in :mod:`.tiles`.

Both storages offer the same methods, so that no algorithm asks which one it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend import Backend, Block, backend_of, to_device
from ..backend.array import Array
from ..backend.kernels import plain


class SparseKernel:
    """Symmetric affinities K of n points, as CSR."""

    has_matrix = True
    approximations: tuple[str, ...] = ()

    def __init__(self, matrix: Array) -> None:
        self.matrix, self.shape, self.nnz = matrix, matrix.shape, matrix.nnz
        self.backend = backend_of(matrix.data)
        self.degree = self.nnz / max(1, self.shape[0])

    def __matmul__(self, V: Array) -> Array:
        """Return ``K V`` for a vector or a block of vectors."""
        K = self.matrix
        with self.backend.active():
            return self.backend.kernels.spmm(K.indptr, K.indices, K.data, V)

    def components(self) -> tuple[int, np.ndarray]:
        """Return how many connected parts the graph has, and each row's part, on the host."""
        count, labels = self.backend.connected_components(self.matrix)
        # one part needs no labels, and no way to the host for them
        return int(count), self.backend.to_host(labels) if count > 1 else np.zeros(self.shape[0], dtype=np.int32)

    def drop_diagonal(self) -> None:
        """Set ``K_ii = 0``; the entries stay, as zeros."""
        K, xp = self.matrix, self.backend.xp
        for block in self.backend.blocks(self.shape[0], 24.0 * self.degree, "kernel"):
            with block as rows:
                ends = K.indptr[rows.start : rows.stop + 1]
                part, counts = slice(int(ends[0]), int(ends[-1])), ends[1:] - ends[:-1]
                own = xp.repeat(xp.arange(rows.start, rows.stop, dtype=K.indices.dtype), counts)
                K.data[part] *= K.indices[part] != own

    def scaled(self, left: Array, right: Array) -> Array:
        """Return ``diag(left) K diag(right)`` on the kernel's own storage, as ``Laplacian.transition`` holds it."""
        K, kernels = self.matrix, self.backend.kernels
        for block in self.backend.blocks(self.shape[0], kernels.scaled_bytes(self.degree), "laplacian"):
            with block as rows:
                ends = K.indptr[rows.start : rows.stop + 1]
                kernels.scaled_entries(ends, K.indices, K.data, left[rows], right)
        return K


class SparseTransition:
    """The transition matrix P, whose rows sum to 1, as CSR."""

    has_matrix = True

    def __init__(self, matrix: Array) -> None:
        self.matrix, self.shape, self.nnz = matrix, matrix.shape, matrix.nnz
        self.degree = self.nnz / max(1, self.shape[0])

    def product(self, V: Array, backend: Backend) -> Array:
        """Return ``P V`` for a vector (n,) or a block (n, k)."""
        P = self.matrix
        return backend.kernels.spmm(P.indptr, P.indices, P.data, V)

    def blocks(self, m: int, backend: Backend, d: int | None = None) -> Iterator[Block]:
        """Return blocks whose co-metrics of m coordinates, or d leading eigenvectors of them, fit into memory."""
        kernels = plain if d is None else backend.kernels
        return backend.blocks(self.shape[0], kernels.tangent_bytes(m, d or m, self.degree), "tangents")

    def cometric(self, Y: Array, block: slice, backend: Backend) -> tuple[slice, Array]:
        """Return the rows of one of :meth:`blocks`, and their co-metric (r, m, m) without ``4/eps^2``."""
        P, rows = self.matrix, backend.xp.arange(block.start, block.stop)
        return block, backend.kernels.cometric_rows(P.indptr, P.indices, P.data, Y, rows)

    def tangents(self, Y: Array, block: slice, d: int, backend: Backend) -> tuple[slice, Array, Array]:
        """Return the rows of one of :meth:`blocks`, and d leading eigenvectors and eigenvalues of their co-metric."""
        P, rows = self.matrix, backend.xp.arange(block.start, block.stop)
        single = backend.slow_double and P.data.dtype == "float32" and Y.dtype == "float64"
        kernel = backend.kernels.tangent_rows_single if single else backend.kernels.tangent_rows
        return block, *kernel(P.indptr, P.indices, P.data, Y, rows, d)

    def on(self, backend: Backend) -> Array:
        """Return the same on another device, as ``Laplacian.transition`` holds it."""
        return to_device(self.matrix, backend)

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        """Return how it is stored, in words, and the arrays that tell it from any other."""
        return f"sparse {self.shape}", (self.matrix.data, self.matrix.indices, self.matrix.indptr)
