"""What an algorithm may ask of a device: arrays, sparse matrices, kernels, memory, and the way there and back."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from ..errors import brief
from ..findings import Finding
from .array import Array
from .out_of_memory import InPieces

current: ContextVar[Backend | None] = ContextVar("ies_gpu_backend", default=None)
WIDE = 2**31  # from this number of entries on, places in a sparse matrix have 64 bits


def index_type(entries: int) -> str:
    """The type of a matrix's indices: 32 bits where its number of entries fits into them, as ``indptr`` holds it."""
    return "int32" if entries < WIDE else "int64"


class Backend(InPieces):
    """One device, with the libraries that work on it.

    Attributes
    ----------
    device : str
        ``"cpu"`` or ``"cuda:0"``.
    reason : str
        In words, why this device was chosen.
    xp, sparse : module
        NumPy and ``scipy.sparse``, or CuPy and ``cupyx.scipy.sparse``.
    kernels : module
        The fused loops of ``ies_gpu.backend.kernels`` that run here.
    is_remote : bool
        Whether reading a number means waiting for all work that was begun.
    """

    device: str
    reason: str
    xp: Any
    sparse: Any
    kernels: Any
    is_remote = False
    rows_a_tile: int  # rows of one tile of the neighbour graph: enough to keep the device busy

    def __init__(
        self, *, reason: str = "", code: str = "", memory_limit: int | None = None, n_threads: int | None = None
    ) -> None:
        self.reason, self.code = reason, code
        for name, value, most in (("memory_limit", memory_limit, 1 << 62), ("n_threads", n_threads, 1 << 16)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 1 <= value <= most
            ):
                raise ValueError(f"{name} must be an integer from 1 to {most}, or None, got {brief(value)}")
        self.memory_limit = memory_limit
        self.n_threads = n_threads

    def memory_budget(self) -> int:
        """Bytes that a run may take in all: ``memory_limit``, or half of what is free now."""
        return self.memory_limit if self.memory_limit is not None else self.free_memory() // 2

    def block_bytes(self) -> int:
        """Bytes for the temporaries of one block: small enough to stay near the caches, and within the budget."""
        return max(1 << 20, min(64 << 20, self.memory_budget() // 16))

    def free_memory(self) -> int:
        """Bytes of the device's memory that are free now."""
        raise NotImplementedError

    def owns(self, array: Array) -> bool:
        """Whether the array (dense or sparse) lives on this device."""
        raise NotImplementedError

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        """Upload; no copy when the array is already here with that dtype."""
        raise NotImplementedError

    def to_host(self, array: Array) -> Array:
        """Download as a NumPy array; no copy when it is one."""
        raise NotImplementedError

    def all_to_host(self, *arrays: Array) -> list[Array]:
        """Small arrays of float64 as NumPy arrays, in one transfer."""
        return [self.to_host(array) for array in arrays]

    def column_type(self, entries: int) -> str:
        """The type of the columns of a matrix, which the library wants to be that of ``indptr``."""
        return index_type(entries)

    def csr(self, data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> Array:
        """A CSR from its parts, with indices no longer than they must be."""
        kind = index_type(len(data))
        parts = data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False)
        return self.sparse.csr_matrix(parts, shape=shape)

    def uniform(self, matrix: Array) -> Array:
        """A sparse matrix as the library's own functions take it: columns of the type of ``indptr``."""
        return matrix

    def copied(self, matrix: Array) -> Array:
        """A copy of a sparse matrix."""
        return matrix.copy()

    def nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        """Distances and numbers (n, k) of each point's k nearest other points."""
        raise NotImplementedError

    def connected_components(self, matrix: Array) -> tuple[int, Array]:
        """How many connected parts a symmetric CSR has, and each row's part (n,); entries that are 0 join nothing."""
        raise NotImplementedError

    @contextmanager
    def active(self) -> Iterator[None]:
        """Context in which this backend answers ``backend_of`` and its device and threads are set."""
        if current.get() is self:
            yield
            return
        token = current.set(self)
        try:
            with self.settings():
                yield
        finally:
            current.reset(token)

    def settings(self) -> AbstractContextManager[Any]:
        """The device and thread settings of :meth:`active`."""
        return nullcontext()

    def first_run(self) -> str:
        """Say why the first run takes longer than all others, if this one does: a sentence, or nothing."""
        return ""

    def synchronise(self) -> None:
        """Wait until all work that was begun is done."""

    def complaints(self) -> list[Finding]:
        """Return what was found wrong with the device's kernels."""
        return []

    def describe(self) -> dict[str, Any]:
        """Facts for ``diagnostics`` and ``ies-gpu doctor``."""
        return {"device": self.device, "device_reason": self.reason, "device_code": self.code}

    def __reduce__(self) -> tuple[Any, ...]:
        from . import get_backend  # the same device in another process

        return get_backend, (self.device,)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.device}: {self.reason}>"
