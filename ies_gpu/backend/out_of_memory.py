"""What happens when memory runs out: blocks are retried at half their length, other work once, then an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from ..errors import OutOfMemoryError
from ..findings import option, refusal

Result = TypeVar("Result")
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


class InPieces:
    """Work in blocks of rows that fit into memory, and work that is tried again; the base of every backend."""

    device: str
    xp: Any
    kernels: Any

    def block_bytes(self) -> int:
        """Bytes for the temporaries of one block."""
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
                raise self._too_little(stage, block.failed)
            step = max(1, (block.rows.stop - start) // 2)
            smallest = start if step == 1 else -1

    def sweep(
        self,
        work: Callable[..., Any],
        *tall: Any,
        bytes_per_row: float | Callable[[Any], float],
        stage: str,
        sums: int = 0,
        rows: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Any]:
        """Work through tall arrays, which have one row per point, by blocks of rows.

        Parameters
        ----------
        work : callable
            ``work(backend, *blocks)`` returns ``sums`` arrays that are added over all blocks, and then ``rows`` arrays
            with the rows of the block. It asks only the backend that it is given: on a cluster that is a worker's.
        *tall : array
            Arrays of equal length.
        bytes_per_row : float or callable
            Temporaries of the work for one row, or what gives them for the kernels of a backend.
        stage : str
            The name for an error.
        sums, rows : int
            How many results of either kind there are.
        progress : callable, optional
            Called with the number of rows that are done, and of all.

        Returns
        -------
        list of array
            The sums, and then the rows of all blocks.
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
        """The percentile of each column of a tall array (n, k)."""
        return self.xp.percentile(table, percent, axis=0)

    def retried(self, stage: str, work: Callable[[], Result]) -> Result:
        """``work()``, and once more with all that was cached given back; for work that is not done in blocks."""
        whole = Block(slice(0, 1))
        with whole:
            return work()
        # not in an except clause: there the failed attempt's arrays would still be alive
        self.free_cache()
        with whole:
            return work()
        raise self._too_little(stage, whole.failed)

    def _too_little(self, stage: str, failure: str | None) -> Exception:
        text = f"{self.device} does not have enough memory for the stage {stage!r}: {failure}"
        advice = f"use fewer points or components, {option('dtype', 'mixed')}, or a device with more memory"
        return refusal("memory.exhausted", text, advice, OutOfMemoryError)
