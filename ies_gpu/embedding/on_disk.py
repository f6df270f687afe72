"""A kernel whose rows lie in a temporary file: for graphs that fit on the disk but not into the memory limit.

Every product reads the rows once, in blocks, into one buffer: memory holds that buffer, the vectors, and the page
cache of the system, which it gives up whenever somebody needs the room. Rows are read, not mapped, so that what the
process holds is what it is charged for. The entries and all sums are those of the CSR matrix, to the bit.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from ..backend import Backend, Block
from ..backend.array import Array
from .graph import csr
from .transition import Kernel, SparseKernel, SparseTransition, Transition

OTHER = "/var/tmp"  # nosec B108 # files there have no name, so nobody can guess it
IN_MEMORY = ("tmpfs", "ramfs")  # file systems whose files take memory


class Rows(NamedTuple):
    """Consecutive rows of a CSR matrix: where they are, and their own ``indptr``, ``indices`` and ``data``."""

    place: slice
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


def scratch_folder() -> str:
    """Where temporary files go: ``TMPDIR`` and its like; ``/var/tmp`` where none is set and ``/tmp`` is in memory."""
    folder = tempfile.gettempdir()
    asked = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if not asked and in_memory(folder) and os.access(OTHER, os.W_OK) and not in_memory(OTHER):
        return OTHER
    return folder


def in_memory(folder: str) -> bool:
    """Whether the files of a folder take memory, as far as the system says."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return False
    path = os.path.realpath(folder)
    above = [(len(point), kind) for point, kind in mounts if os.path.commonpath([path, point]) == point]
    return max(above, default=(0, ""))[1] in IN_MEMORY


def room_on_disk(folder: str) -> int:
    """Bytes that a temporary file may take; 0 where it would take memory."""
    return 0 if in_memory(folder) else shutil.disk_usage(folder).free


class RowFile:
    """Rows of a sparse matrix, appended in order, in two files that have no name and so end with the process.

    Parameters
    ----------
    folder : str
    dtype, index : str
        Of the entries and of their column numbers.
    """

    def __init__(self, folder: str, dtype: str, index: str) -> None:
        self.folder, self.dtype, self.index = folder, np.dtype(dtype), np.dtype(index)
        self.counts: list[np.ndarray] = []
        self.indptr = np.zeros(1, dtype=np.int64)
        self.columns, self.entries = unnamed(folder), unnamed(folder)
        weakref.finalize(self, close, self.columns, self.entries)
        self.end = 0

    def append(self, counts: np.ndarray, indices: np.ndarray, data: np.ndarray) -> None:
        """Write some more rows."""
        self.write(self.columns, indices.astype(self.index, copy=False), self.end)
        self.write(self.entries, data.astype(self.dtype, copy=False), self.end)
        self.end += len(data)
        self.counts.append(counts)

    def finish(self) -> None:
        """All rows are there."""
        counts = np.concatenate(self.counts)
        self.indptr = np.concatenate([self.indptr, np.cumsum(counts, dtype=np.int64)])
        self.counts = []

    def write(self, file: IO[bytes], array: np.ndarray, first: int) -> None:
        """Write entries from number ``first`` on."""
        view = np.ascontiguousarray(array).view(np.uint8).data
        try:
            file.seek(first * array.itemsize)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            size = self.end * (self.index.itemsize + self.dtype.itemsize)
            raise type(error)(
                error.errno,
                f"the temporary file for the kernel could not be written after {size / 1e9:.2f} GB: {error.strerror}; "
                "set TMPDIR to a folder with more room, or raise memory_limit",
                self.folder,
            ) from None

    def read(self, file: IO[bytes], out: np.ndarray, first: int) -> np.ndarray:
        """Read entries from number ``first`` on into an array."""
        view = out.view(np.uint8).data
        file.seek(first * out.itemsize)
        while view:
            count = file.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise OSError(f"the temporary file for the kernel in {self.folder} is shorter than what was written")
            view = view[count:]
        return out

    def blocks(self, most: int) -> Iterator[Rows]:
        """All rows in order, in blocks of at most ``most`` bytes or a single row; each block overwrites the last."""
        per_entry = self.index.itemsize + self.dtype.itemsize
        room = max(int(np.diff(self.indptr).max(initial=0)), min(self.end, most // per_entry))
        indices, data = np.empty(room, dtype=self.index), np.empty(room, dtype=self.dtype)
        first, n = 0, len(self.indptr) - 1
        while first < n:
            start = int(self.indptr[first])
            last = max(first + 1, int(np.searchsorted(self.indptr, start + room, side="right")) - 1)
            count = int(self.indptr[last]) - start
            self.read(self.columns, indices[:count], start)
            self.read(self.entries, data[:count], start)
            indptr = (self.indptr[first : last + 1] - start).astype(self.index)  # as in memory: one compiled kernel
            yield Rows(slice(first, last), indptr, indices[:count], data[:count])
            first = last

    def row(self, row: int) -> np.ndarray:
        """The entries of one row."""
        first, last = (int(end) for end in self.indptr[row : row + 2])
        return self.read(self.entries, np.empty(last - first, dtype=self.dtype), first)

    def mapped(self, function: Callable[[Rows], np.ndarray], most: int) -> None:
        """Replace the entries of all rows by what a function gives for them."""
        for rows in self.blocks(most):
            self.write(self.entries, function(rows), int(self.indptr[rows.place.start]))

    def loaded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``data``, ``indices`` and ``indptr`` in memory; the files are closed."""
        data, indices = np.empty(self.end, dtype=self.dtype), np.empty(self.end, dtype=self.index)
        self.read(self.entries, data, 0)
        self.read(self.columns, indices, 0)
        close(self.columns, self.entries)
        return data, indices, self.indptr  # in 64 bits: entries may outnumber what the type of a column counts to


def unnamed(folder: str) -> IO[bytes]:
    """A file without a name: it ends with the process, however that ends."""
    try:
        return tempfile.TemporaryFile(dir=folder, buffering=0)
    except OSError as error:
        reason = f"no temporary file can be made for the kernel: {error.strerror}; set TMPDIR, or raise memory_limit"
        raise type(error)(error.errno, reason, folder) from None


def close(*files: IO[bytes]) -> None:
    for file in files:
        file.close()


class KernelOnDisk(Kernel):
    """K by rows from a file."""

    def __init__(self, rows: RowFile, backend: Backend) -> None:
        n = len(rows.indptr) - 1
        self.rows, self.backend, self.shape, self.nnz = rows, backend, (n, n), rows.end

    def __matmul__(self, V: Array) -> Array:
        with self.backend.active():
            return product(self.rows, V, self.backend.kernels.spmm, self.backend)

    def sample(self) -> Array:
        """The first block of rows as CSR, for an audit."""
        first = next(self.rows.blocks(self.backend.block_bytes()))
        shape = (first.place.stop, self.shape[1])
        return scipy.sparse.csr_matrix((first.data, first.indices, first.indptr), shape=shape)

    def components(self) -> tuple[int, np.ndarray]:
        labels, parts = np.arange(self.shape[0]), self.shape[0]
        for rows in self.rows.blocks(self.backend.block_bytes() // 4):
            own = np.repeat(labels[rows.place], np.diff(rows.indptr))
            other = labels[rows.indices]
            joins = (own != other) & (rows.data > 0)  # a weight that has rounded to zero joins nothing
            pairs = scipy.sparse.coo_matrix(
                (np.ones(int(joins.sum()), dtype=np.int8), (own[joins], other[joins])), shape=(parts, parts)
            )
            parts, merged = scipy.sparse.csgraph.connected_components(pairs, directed=False)
            labels = merged[labels]
        return int(parts), labels

    def drop_diagonal(self) -> None:
        def dropped(rows: Rows) -> np.ndarray:
            own = np.repeat(np.arange(rows.place.start, rows.place.stop), np.diff(rows.indptr))
            return rows.data * (rows.indices != own)

        self.rows.mapped(dropped, self.backend.block_bytes() // 4)

    def scaled(self, left: Array, right: Array) -> Array:
        def scaled(rows: Rows) -> np.ndarray:
            data = rows.data
            data *= np.repeat(left[rows.place], np.diff(rows.indptr)) * right[rows.indices]
            return data

        self.rows.mapped(scaled, self.backend.block_bytes() // 4)
        return TransitionOnDisk(self.rows, self.backend)

    def loaded(self) -> SparseKernel:
        """The same in memory."""
        return SparseKernel(csr(self.backend, *self.rows.loaded()))


class TransitionOnDisk(Transition):
    """P by rows from a file."""

    has_rows = True

    def __init__(self, rows: RowFile, backend: Backend) -> None:
        n = len(rows.indptr) - 1
        self.rows, self.backend, self.shape, self.nnz = rows, backend, (n, n), rows.end

    def product(self, V: Array, backend: Backend) -> Array:
        kernel = backend.kernels.vector_product if V.ndim == 1 else backend.kernels.spmm
        return product(self.rows, V, kernel, backend)

    def __matmul__(self, V: Array) -> Array:
        return self.product(V, self.backend)

    def blocks(self, m: int, backend: Backend, d: int | None = None) -> Iterator[Block]:
        ends = self.rows.indptr
        most = max(int(np.diff(ends).max()), backend.block_bytes() // (self.rows.index.itemsize + 8))
        per_row = max(1, most * self.shape[0] // max(1, int(ends[-1])))
        return backend.blocks(self.shape[0], 0, "tangents", rows_a_block=per_row)

    def _shifted(self, block: slice) -> SparseTransition:
        """A few rows under their own numbers: the others are empty."""
        first, last = (int(self.rows.indptr[row]) for row in (block.start, block.stop))
        indices = self.rows.read(self.rows.columns, np.empty(last - first, dtype=self.rows.index), first)
        data = self.rows.read(self.rows.entries, np.empty(last - first, dtype=self.rows.dtype), first)
        indptr = np.clip(self.rows.indptr, first, last) - first
        return SparseTransition(csr(self.backend, data, indices, indptr.astype(self.rows.index)))

    def some_rows(self, rows: Array) -> Array:
        counts = np.zeros(self.shape[0] + 1, dtype=np.int64)
        counts[rows + 1] = np.diff(self.rows.indptr)[rows]
        read, parts = self.rows.read, [[np.empty(0, dtype=self.rows.index)], [np.empty(0, dtype=self.rows.dtype)]]
        for row in rows.tolist():
            for found, file in zip(parts, (self.rows.columns, self.rows.entries), strict=True):
                found.append(read(file, np.empty(counts[row + 1], found[0].dtype), int(self.rows.indptr[row])))
        indices, data = (np.concatenate(found) for found in parts)
        return csr(self.backend, data, indices, np.cumsum(counts).astype(self.rows.index))

    def cometric(self, Y: Array, block: slice, backend: Backend) -> tuple[slice, Array]:
        return self._shifted(block).cometric(Y, block, backend)

    def tangents(self, Y: Array, block: slice, d: int, backend: Backend) -> tuple[slice, Array, Array]:
        return self._shifted(block).tangents(Y, block, d, backend)

    def on(self, backend: Backend) -> TransitionOnDisk:
        return self

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        return "rows in a file", (self.rows.indptr, self @ np.arange(float(self.shape[0])))


def product(rows: RowFile, V: Array, kernel: Callable[..., Array], backend: Backend) -> Array:
    """All rows times V, block by block."""
    out = np.empty(V.shape, dtype=np.result_type(V, np.float64))
    for part in rows.blocks(backend.block_bytes()):
        out[part.place] = kernel(part.indptr, part.indices, part.data, V)
    return out
