"""How the fused loops are compiled, and how their rows are shared out to threads."""

import contextlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import Any

import numba
import numpy as np

from ...array import Array

SPARSE_CHUNK = 1024  # rows of a sparse pass, for in_threads

# Not Numba's own number: asking for that takes a lock shared with forked processes, which a fork at that moment never
# gives back. By default as many as NUMBA_NUM_THREADS says, or as there are cores.
_threads: ContextVar[int] = ContextVar("threads", default=numba.config.NUMBA_NUM_THREADS)


def compiled(fast: bool = False, fused: bool = False, entry: bool = False) -> Callable[[Callable], Any]:
    """Decorate with ``numba.njit``, without the GIL.

    ``fused`` lets products be fused into sums, in the order given; ``fast`` also lets sums be reordered, as the
    vectoriser needs. An ``entry`` is called from Python: cached on disk where any folder can be written. The others are
    always inlined: a call would be linked with the copy that was compiled first, which the cache does not know, and
    results would change in their last bits.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if fast or fused:
        options["fastmath"] = {"contract", "nsz"} | ({"reassoc"} if fast else set())

    def decorate(function: Callable) -> Any:
        if not entry:
            return numba.njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
        try:
            return numba.njit(cache=True, no_cfunc_wrapper=True, **options)(function)
        except RuntimeError:  # neither the package's folder, NUMBA_CACHE_DIR nor the home folder can be written
            return numba.njit(no_cfunc_wrapper=True, **options)(function)

    return decorate


def aligned(*shape: int) -> Array:
    """Return zeros that begin with a cache line of eight numbers."""
    memory = np.zeros(math.prod(shape) + 8)
    first = -(memory.ctypes.data // 8) % 8
    return memory[first : first + math.prod(shape)].reshape(shape)


def thread_count() -> int:
    """Return how many threads the kernels use here."""
    return _threads.get()


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Context in which the kernels use ``count`` threads, or as many as Numba was started with if that is less."""
    token = _threads.set(max(1, min(count, numba.config.NUMBA_NUM_THREADS)))
    try:
        yield
    finally:
        _threads.reset(token)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="ies-gpu")


def in_threads(task: Callable[[int, int], Any], count: int, size: int) -> list[Any]:
    """Return ``task(first, last)`` of ranges of at most ``size`` of ``count`` rows, in as many threads as set.

    Threads take ranges as they become free, which evens out cores that are busy with something else. ``prange`` takes
    three times as long to compile and does not survive a fork: GNU OpenMP ends the child at its first parallel loop.
    """
    starts = range(0, count, size)
    workers, results, following = min(thread_count(), len(starts)), list[Any]([None] * len(starts)), enumerate(starts)

    def work() -> None:
        try:
            for i, first in following:
                results[i] = task(first, min(count, first + size))
        except BaseException:  # also Ctrl-C: the other threads finish the range that they are at
            deque(following, 0)
            raise

    # a pool does not survive a fork, so each process has its own; the calling thread is one of the workers
    others = [_pool(workers - 1, os.getpid()).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:  # one that has not begun is not waited for: its core is busy elsewhere
        errors = [other.exception() for other in others if not other.cancel()]
    for error in errors:
        if error is not None:
            raise error
    return results
