"""What an algorithm may ask of a device: arrays, sparse matrices, kernels, memory, and the way there and back."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

from ..errors import OutOfMemoryError, brief
from .array import Array

Result = TypeVar("Result")
current: ContextVar[Backend | None] = ContextVar("ies_gpu_backend", default=None)


# how the CUDA libraries and the driver, whose errors are RuntimeErrors, say that memory ran out
NO_MEMORY = (
    "ALLOC_FAILED", "OUT_OF_MEMORY", "INSUFFICIENT_RESOURCES", "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_NOT_INITIALIZED",  # what creating a handle gives when there is no memory for it
)  # fmt: skip


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error means that memory ran out here, so that less of it may help."""
    if isinstance(error, RuntimeError):
        return any(word in str(error) for word in NO_MEMORY)
    return isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError)


class Block:
    """One attempt at a block of rows, as a context: ``failed`` says why when memory ran out in it."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.failed: str | None = None

    def __enter__(self) -> slice:
        return self.rows

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not ran_out_of_memory(error):
            return False
        self.failed = str(error) or type(error).__name__
        return True


class Backend:
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
    """

    device: str
    reason: str
    xp: Any
    sparse: Any
    kernels: Any
    rows_a_tile: int  # rows of one tile of the neighbour graph: enough to keep the device busy

    def __init__(self, *, reason: str = "", memory_limit: int | None = None, n_threads: int | None = None) -> None:
        self.reason = reason
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

    def free_cache(self) -> None:
        """Give back memory that is kept for later only."""

    def blocks(
        self, n_rows: int, bytes_per_row: float, stage: str, *, rows_a_block: int | None = None
    ) -> Iterator[Block]:
        """Consecutive blocks of ``range(n_rows)`` whose temporaries fit; after running out of memory, smaller ones.

        The body of the loop works in the block's context and must write its results last. A block in which memory ran
        out comes again, half as long, with all that was cached given back::

            for block in backend.blocks(n, bytes_a_row, "tangents"):
                with block as rows:
                    U[rows] = ...

        Raises
        ------
        OutOfMemoryError
            When not even a single row fits.
        """
        step = rows_a_block or max(1, int(self.block_bytes() / max(bytes_per_row, 1)))
        start, smallest = 0, -1
        while start < n_rows:
            block = Block(slice(start, min(start + step, n_rows)))
            yield block
            if block.failed is None:
                start = block.rows.stop
                continue
            self.free_cache()
            if smallest == start:
                raise OutOfMemoryError(self._too_little(stage, block.failed))
            step = max(1, (block.rows.stop - start) // 2)
            smallest = start if step == 1 else -1

    def retried(self, stage: str, work: Callable[[], Result]) -> Result:
        """``work()``, and once more with all that was cached given back; for work that is not done in blocks."""
        whole = Block(slice(0, 1))
        with whole:
            return work()
        # not in an except clause: there the failed attempt's arrays would still be alive
        self.free_cache()
        with whole:
            return work()
        raise OutOfMemoryError(self._too_little(stage, whole.failed))

    def _too_little(self, stage: str, failure: str | None) -> str:
        return (
            f"{self.device} does not have enough memory for the stage {stage!r}: {failure} Use fewer points or "
            "components, dtype='mixed', or a device with more memory"
        )

    def owns(self, array: Array) -> bool:
        """Whether the array (dense or sparse) lives on this device."""
        raise NotImplementedError

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        """Upload; no copy when the array is already here with that dtype."""
        raise NotImplementedError

    def to_host(self, array: Array) -> Array:
        """Download as a NumPy array; no copy when it is one."""
        raise NotImplementedError

    def nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        """Distances and numbers (n, k) of each point's k nearest other points."""
        raise NotImplementedError

    def eigsh(
        self, operator: Any, count: int, start: Array, tol: float, size: int, max_products: int
    ) -> tuple[Array, Array]:
        """The library's eigensolver: ``count`` largest eigenpairs of a symmetric operator, unchecked, in any order.

        ``operator`` has ``n`` rows and takes a vector (n,); ``start`` may be overwritten; ``size`` vectors span the
        Krylov space. Fewer pairs may come back.
        """
        raise NotImplementedError

    def connected_components(self, matrix: Array) -> tuple[int, Array]:
        """How many connected parts a symmetric CSR has, and each row's part (n,)."""
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

    def synchronise(self) -> None:
        """Wait until all work that was begun is done."""

    def complaints(self) -> list[str]:
        """What was found wrong with the device's kernels, as sentences for ``diagnostics["warnings"]``."""
        return []

    def describe(self) -> dict[str, Any]:
        """Facts for ``diagnostics`` and ``ies-gpu doctor``."""
        return {"device": self.device, "device_reason": self.reason}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.device}: {self.reason}>"
