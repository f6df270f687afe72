"""The kernel of a graph and the transition matrix made from it: what an algorithm may ask of them, however stored.

Here are the two interfaces and their form as CSR; graphs too dense for that are stored as tiles, in :mod:`.tiles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend import Backend, Block, backend_of, to_device
from ..backend.array import Array
from ..backend.kernels import plain
from ..findings import refusal


class Kernel:
    """Symmetric affinities K of n points."""

    shape: tuple[int, int]
    nnz: int
    backend: Backend
    matrix: Array
    has_matrix = False
    approximations: tuple[str, ...] = ()

    def __matmul__(self, V: Array) -> Array:
        """``K V`` for a vector or a block of vectors."""
        raise NotImplementedError

    def sample(self) -> Array | None:
        """Some of the first rows as CSR, for an audit of products; None where there are no single entries."""
        return None

    def components(self) -> tuple[int, np.ndarray]:
        """How many connected parts the graph has, and each row's part, on the host."""
        raise NotImplementedError

    def drop_diagonal(self) -> None:
        """``K_ii = 0`` from now on; the entries stay, as zeros."""
        raise NotImplementedError

    def scaled(self, left: Array, right: Array) -> Array:
        """``diag(left) K diag(right)`` on the kernel's own storage, as ``Laplacian.transition`` holds it."""
        raise NotImplementedError


class Transition:
    """The transition matrix P, whose rows sum to 1, as an operator."""

    shape: tuple[int, int]
    nnz: int
    has_matrix = False

    @property
    def matrix(self) -> Array:
        """P as CSR."""
        text = "this graph is too large for a CSR matrix"
        raise refusal("graph.too_large", text, "use the operator laplacian.transition instead")

    def product(self, V: Array, backend: Backend) -> Array:
        """``P V`` for a vector (n,) or a block (n, k)."""
        raise NotImplementedError

    @property
    def degree(self) -> float:
        """Entries per row."""
        return self.nnz / max(1, self.shape[0])

    def blocks(self, m: int, backend: Backend, d: int | None = None) -> Iterator[Block]:
        """Blocks whose co-metrics of m coordinates fit into memory; what they count is the storage's own affair.

        With d, only the d leading eigenvectors of each are wanted, and a kernel may need less for them.
        """
        raise NotImplementedError

    def cometric(self, Y: Array, block: slice, backend: Backend) -> tuple[slice, Array]:
        """The rows of one of :meth:`blocks`, and their co-metric (r, m, m) without ``4/eps^2``."""
        raise NotImplementedError

    def tangents(self, Y: Array, block: slice, d: int, backend: Backend) -> tuple[slice, Array, Array]:
        """The rows of one of :meth:`blocks`, and the d leading eigenvectors and eigenvalues of their co-metric."""
        rows, H = self.cometric(Y, block, backend)
        return rows, *backend.kernels.leading_eigenvectors(H, d)

    def on(self, backend: Backend) -> Array:
        """The same on another device, as ``Laplacian.transition`` holds it; tiles stay where they are."""
        raise NotImplementedError

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        """How it is stored, in words, and the arrays that tell it from any other."""
        raise NotImplementedError


class SparseKernel(Kernel):
    """K as CSR."""

    has_matrix = True

    def __init__(self, matrix: Array) -> None:
        self.matrix, self.shape, self.nnz = matrix, matrix.shape, matrix.nnz
        self.backend = backend_of(matrix.data)

    def __matmul__(self, V: Array) -> Array:
        K = self.matrix
        with self.backend.active():
            return self.backend.kernels.spmm(K.indptr, K.indices, K.data, V)

    def sample(self) -> Array | None:
        return self.matrix

    def components(self) -> tuple[int, np.ndarray]:
        count, labels = self.backend.connected_components(self.matrix)
        # one part needs no labels, and no way to the host for them
        return int(count), self.backend.to_host(labels) if count > 1 else np.zeros(self.shape[0], dtype=np.int32)

    def drop_diagonal(self) -> None:
        K, xp = self.matrix, self.backend.xp
        for block in self._row_blocks("kernel", 24.0 * self.degree):
            with block as rows:
                part, counts = self._entries(rows)
                own = xp.repeat(xp.arange(rows.start, rows.stop, dtype=K.indices.dtype), counts)
                K.data[part] *= K.indices[part] != own

    def scaled(self, left: Array, right: Array) -> Array:
        K, kernels = self.matrix, self.backend.kernels
        for block in self._row_blocks("laplacian", kernels.scaled_bytes(self.degree)):
            with block as rows:
                ends = K.indptr[rows.start : rows.stop + 1]
                kernels.scaled_entries(ends, K.indices, K.data, left[rows], right)
        return K

    @property
    def degree(self) -> float:
        """Entries per row."""
        return self.nnz / max(1, self.shape[0])

    def _row_blocks(self, stage: str, bytes_per_row: float) -> Iterator[Block]:
        return self.backend.blocks(self.shape[0], bytes_per_row, stage)

    def _entries(self, rows: slice) -> tuple[slice, Array]:
        """Where the entries of some rows are, and how many each row has."""
        ends = self.matrix.indptr[rows.start : rows.stop + 1]
        return slice(int(ends[0]), int(ends[-1])), ends[1:] - ends[:-1]


class SparseTransition(Transition):
    """P as CSR."""

    has_matrix = True

    def __init__(self, matrix: Array) -> None:
        self._matrix, self.shape, self.nnz = matrix, matrix.shape, matrix.nnz

    @property
    def matrix(self) -> Array:
        return self._matrix

    def product(self, V: Array, backend: Backend) -> Array:
        P = self._matrix
        return backend.kernels.spmm(P.indptr, P.indices, P.data, V)

    def blocks(self, m: int, backend: Backend, d: int | None = None) -> Iterator[Block]:
        kernels = plain if d is None else backend.kernels
        return backend.blocks(self.shape[0], kernels.tangent_bytes(m, d or m, self.degree), "tangents")

    def cometric(self, Y: Array, block: slice, backend: Backend) -> tuple[slice, Array]:
        P, rows = self._matrix, backend.xp.arange(block.start, block.stop)
        return block, backend.kernels.cometric_rows(P.indptr, P.indices, P.data, Y, rows)

    def tangents(self, Y: Array, block: slice, d: int, backend: Backend) -> tuple[slice, Array, Array]:
        P, rows = self._matrix, backend.xp.arange(block.start, block.stop)
        return block, *backend.kernels.tangent_rows(P.indptr, P.indices, P.data, Y, rows, d)

    def on(self, backend: Backend) -> Array:
        return to_device(self._matrix, backend)

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        P = self._matrix
        return f"sparse {P.shape}", (P.data, P.indices, P.indptr)
