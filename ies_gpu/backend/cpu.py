"""NumPy and SciPy, with Numba kernels where Numba is installed."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.spatial

from .array import Array
from .base import Backend
from .kernels import plain
from .machine import available_memory, available_threads, cached_property, loading, single_thread


def load_kernels() -> Any:
    """Return the Numba kernels, or the plain ones without Numba (or with ``IES_GPU_KERNELS=plain``)."""
    asked = os.environ.get("IES_GPU_KERNELS", "")
    if asked not in ("", "plain"):
        raise ValueError(f"the environment variable IES_GPU_KERNELS must be 'plain' or empty, got {asked!r}")
    if asked:
        return plain
    try:
        with loading:
            from .kernels import fused
    except ImportError:
        return plain
    return fused


COMPILING = "compiling kernels (neighbours, products, tangents, scores): about ten seconds, only the first time"


def compiles_first() -> bool:
    """Return whether the Numba kernels are still to be compiled: nothing of theirs is in the cache on disk."""
    kernels = load_kernels()
    if kernels is plain or not hasattr(kernels.products.multiply_block, "stats"):  # NUMBA_DISABLE_JIT
        return False
    folder = kernels.products.multiply_block.stats.cache_path
    return folder is None or not any(Path(folder).glob("*.nbi"))


class CpuBackend(Backend):
    """The host."""

    device = "cpu"
    xp = np
    sparse = scipy.sparse
    rows_a_tile = 512

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.n_threads = self.n_threads or available_threads()

    @cached_property
    def kernels(self) -> Any:  # loaded when first used: Numba takes its time
        return load_kernels()

    def free_memory(self) -> int:
        return available_memory()

    def free_cache(self) -> None:
        # only glibc keeps so much, and has a way to give it back
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)

    def owns(self, array: Array) -> bool:
        return isinstance(array, np.ndarray) or scipy.sparse.issparse(array)

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        return np.asarray(array, dtype=dtype)

    def to_host(self, array: Array) -> Array:
        return self.asarray(array)

    def nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        distances, neighbours = scipy.spatial.KDTree(X).query(X, k + 1, workers=self.n_threads)
        # the point itself need not come first among equal points, nor be there at all
        other = neighbours != np.arange(len(X))[:, None]
        other[other.all(axis=1), -1] = False
        return distances[other].reshape(len(X), k), neighbours[other].reshape(len(X), k)

    def connected_components(self, matrix: Array) -> tuple[int, Array]:
        if not (matrix.data > 0).all():  # a weight that has rounded to zero joins nothing
            matrix = matrix.copy()
            matrix.eliminate_zeros()
        # SciPy looks at the pattern alone, but would copy all entries to float64: one number stands for all of them.
        # Of a symmetric matrix strong parts are the parts, and need no transposed copy of it: a third of the time.
        ones = np.broadcast_to(np.float64(1), matrix.nnz)
        pattern = scipy.sparse.csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
        return scipy.sparse.csgraph.connected_components(pattern, directed=True, connection="strong")

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        # One BLAS thread: with more, OpenBLAS spins between the kernels' own threads and makes tall-and-skinny
        # products many times slower. The kernels use n_threads.
        kernels = self.kernels  # before the libraries are looked for, since it loads some
        with single_thread.held(), kernels.threads(self.n_threads):
            yield

    def first_run(self) -> str:
        return COMPILING if compiles_first() else ""

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"kernels": self.kernels.NAME, "n_threads": self.n_threads}
