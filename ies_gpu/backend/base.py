"""What an algorithm may ask of a device: arrays, kernels, memory, and work in blocks of rows that fit into it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from ..constraints import Integer
from ..findings import Finding, OutOfMemoryError, option, refusal
from .array import Array, few_on_host, namespace

Result = TypeVar("Result")
current: ContextVar[Backend | None] = ContextVar("ies_gpu_backend", default=None)
WIDE = 2**31  # from this number of entries on, places in a sparse matrix have 64 bits
# how the CUDA libraries and the driver, whose errors are RuntimeErrors, say that memory ran out
NO_MEMORY = (
    "ALLOC_FAILED", "OUT_OF_MEMORY", "INSUFFICIENT_RESOURCES", "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_NOT_INITIALIZED",  # what creating a handle gives when there is no memory for it
)  # fmt: skip


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error means that memory ran out here, so that less of it may help."""
    if isinstance(error, RuntimeError):
        return any(word in str(error) for word in NO_MEMORY)
    return isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError)


def index_type(entries: int) -> str:
    """Return the type of a matrix's indices: 32 bits where its number of entries fits into them."""
    return "int32" if entries < WIDE else "int64"


class cached_property(functools.cached_property[Result], Generic[Result]):  # noqa: N801  # in the place of Python's
    """Python's own, without the lock that 3.11 holds, for all instances of a class, while a value is computed."""

    def __init__(self, function: Callable[[Any], Result]) -> None:
        super().__init__(function)
        self.lock: Any = nullcontext()


class Block:
    """One attempt at a block of rows, as a context: ``failed`` says why when memory ran out in it."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.failed: str | None = None

    def __enter__(self) -> slice:
        return self.rows

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not ran_out_of_memory(error):
            return False
        self.failed = str(error) or type(error).__name__
        return True


class Backend:
    """One device, with the libraries that work on it."""

    device: str  # "cpu" or "cuda:0"
    reason: str  # why this device was chosen, in words
    xp: Any  # NumPy or CuPy
    sparse: Any  # scipy.sparse or cupyx.scipy.sparse
    kernels: Any  # the fused loops that run here
    is_remote = False  # whether reading a number means waiting for all work that was begun
    slow_double = False  # whether float64 is so slow that ``dtype="mixed"`` avoids it where it can
    rows_a_tile: int  # rows of one tile of the neighbour graph: enough to keep the device busy
    free_memory: Callable[[], int]  # bytes of the device's memory that are free now
    owns: Callable[[Array], bool]  # whether an array, dense or sparse, lives here
    asarray: Callable[..., Array]  # (array, dtype=None): an array here, without a copy where it is one of that dtype
    to_host: Callable[[Array], Array]  # a NumPy array, without a copy where it is one
    nearest: Callable[[Array, int], tuple[Array, Array]]  # distances and numbers (n, k) of the k nearest other points
    # how many parts a symmetric CSR has, and each row's part (n,); entries that are 0 join nothing
    connected_components: Callable[[Array], tuple[int, Array]]

    def __init__(
        self, *, reason: str = "", code: str = "", memory_limit: int | None = None, n_threads: int | None = None
    ) -> None:
        for name, value, most in (("memory_limit", memory_limit, 1 << 62), ("n_threads", n_threads, 1 << 16)):
            if value is not None:
                Integer(1, most).check(name, value)
        self.reason, self.code, self.memory_limit, self.n_threads = reason, code, memory_limit, n_threads

    def memory_budget(self) -> int:
        """Return the bytes that a run may take in all: ``memory_limit``, or half of what is free now."""
        return self.free_memory() // 2 if self.memory_limit is None else self.memory_limit

    def block_bytes(self) -> int:
        """Return the bytes for the temporaries of one block: few enough for the caches, and within the budget."""
        return max(1 << 20, min(64 << 20, self.memory_budget() // 16))

    def free_cache(self) -> None:
        """Give back memory that is kept for later only."""

    def all_to_host(self, *arrays: Array) -> list[Array]:
        """Return small arrays of float64 as NumPy arrays, in one transfer."""
        return [self.to_host(array) for array in arrays]

    def csr(self, data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> Array:
        """Return a CSR from its parts, with indices no longer than they must be."""
        kind = index_type(len(data))
        parts = data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False)
        return self.sparse.csr_matrix(parts, shape=shape)

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
        """Return the device and thread settings of :meth:`active`."""
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
        """Return facts for ``diagnostics`` and ``ies-gpu doctor``."""
        return {"device": self.device, "device_reason": self.reason, "device_code": self.code}

    def blocks(self, n_rows: int, bytes_per_row: float, stage: str, *, rows_a_block: int = 0) -> Iterator[Block]:
        """Yield consecutive blocks of ``range(n_rows)`` whose temporaries fit.

        The body of the loop works in the block's context and must write its results last. A block in which memory ran
        out comes again, half as long, with all that was cached given back, down to a single row::

            for block in backend.blocks(n, bytes_a_row, "tangents"):
                with block as rows:
                    U[rows] = ...
        """
        step, start, smallest = rows_a_block or max(1, int(self.block_bytes() / max(bytes_per_row, 1))), 0, -1
        while start < n_rows:
            block = Block(slice(start, min(start + step, n_rows)))
            yield block
            if block.failed is None:
                start = block.rows.stop
                continue
            self.free_cache()
            if smallest == start:
                raise self._too_little(stage, block.failed)
            step = max(1, (block.rows.stop - start) // 2)
            smallest = start if step == 1 else -1

    def sweep(
        self, work: Callable[..., Any], *tall: Any, bytes_per_row: float | Callable[[Any], float], stage: str,
        sums: int = 0, rows: int = 0, progress: Callable[[int, int], None] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Work through tall arrays of equal length, one row per point, by blocks of rows.

        ``work(backend, *blocks)`` returns ``sums`` arrays that are added over all blocks, then ``rows`` arrays with the
        rows of the block; so does this method, with those of all blocks. Work asks only the backend it is given, on
        a cluster a worker's. ``bytes_per_row`` are its temporaries for one row, or a function of the kernels.
        """
        n, out = len(tall[0]), []
        for block in self.blocks(n, bytes_per_row(self.kernels) if callable(bytes_per_row) else bytes_per_row, stage):
            with block as part:
                found = list(work(self, *(array[part] for array in tall)))
                if part == slice(0, n):
                    out = found
                else:
                    out = out or [0.0] * sums + [self.xp.empty((n, *own.shape[1:]), own.dtype) for own in found[sums:]]
                    for whole, own in zip(out[sums:], found[sums:], strict=True):
                        whole[part] = own
                    # last, and not in place: a block in which memory runs out is repeated
                    out[:sums] = [total + own for total, own in zip(out[:sums], found[:sums], strict=True)]
                if progress is not None:
                    progress(part.stop, n)
        return out

    def percentile(self, table: Any, percent: float) -> Any:
        """Return the percentile of each column of a tall array (n, k)."""
        table = few_on_host(table)
        return namespace(table).percentile(table, percent, axis=0)

    def retried(self, stage: str, work: Callable[[], Result]) -> Result:
        """Call ``work``, and once more with all that was cached given back; for work that is not done in blocks."""
        whole = Block(slice(0, 1))
        with whole:
            return work()
        self.free_cache()  # not in an except clause: there the failed attempt's arrays would still be alive
        with whole:
            return work()
        raise self._too_little(stage, whole.failed)

    def _too_little(self, stage: str, failure: str | None) -> Exception:
        text = f"{self.device} does not have enough memory for the stage {stage!r}: {failure}"
        advice = f"use fewer points or components, {option('dtype', 'mixed')}, or a device with more memory"
        return refusal("memory.exhausted", text, advice, OutOfMemoryError)

    def __reduce__(self) -> tuple[Any, ...]:
        from . import get_backend  # the same device in another process

        return get_backend, (self.device,)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.device}: {self.reason}>"
