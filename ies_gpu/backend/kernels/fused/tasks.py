"""How the fused loops are compiled, and how their rows are shared out to threads."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import cache
from threading import Event
from typing import Any

import numba

SPARSE_CHUNK = 1024  # rows of a sparse pass, for over_chunks


def compiled(fast: bool = False, entry: bool = False) -> Callable[[Callable], Any]:
    """Decorator: ``numba.njit`` without the GIL.

    Parameters
    ----------
    fast : bool
        Let sums be reordered and products fused, which is what the vectoriser needs; NaN and infinity stay.
    entry : bool
        Called from Python: cached on disk where any folder can be written. The others are part of their callers and
        get neither a cache nor a wrapper, which saves a good part of the time to compile them.
    """
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"} if fast else False}

    def decorate(function: Callable) -> Any:
        if not entry:
            return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package's folder, NUMBA_CACHE_DIR nor the home folder can be written
            return numba.njit(**options)(function)

    return decorate


def in_threads(task: Callable[[int, int], None], count: int, size: int) -> None:
    """``task(first, last)`` for consecutive ranges of at most ``size`` of ``count`` rows, in as many threads as set.

    Rows are shared out here and in :func:`over_chunks`, never with ``prange``. That makes Numba optimise the whole
    kernel three more times (10 s for ``tangent_rows``), shares rows evenly where one thread may be slower than the
    other, and does not survive a fork: GNU OpenMP ends the child at its first parallel loop.
    """
    ranges = [(first, min(count, first + size)) for first in range(0, count, size)]
    workers = min(numba.get_num_threads(), len(ranges))
    if workers <= 1:
        for first, last in ranges:
            task(first, last)
        return
    shared, stopped = iter(ranges), Event()

    def work() -> None:
        for first, last in shared:
            if stopped.is_set():
                return
            task(first, last)

    # a new pool each time costs 0.1 ms, and nothing of it is left to break in a forked process
    with ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(work) for _ in range(workers)]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:  # after an error or Ctrl-C the other threads finish the range that they are at
            stopped.set()
    for job in jobs:
        job.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="ies-gpu-levels")


def over_chunks(function: Callable[[int, int], Any], n: int, rows: int) -> list[Any]:
    """``function(first, last)`` of every chunk of rows, in their order, on as many threads as Numba would use."""
    bounds = [(first, min(first + rows, n)) for first in range(0, n, rows)]
    threads = min(numba.get_num_threads(), len(bounds))
    results: list[Any] = [None] * len(bounds)
    following = itertools.count()

    def work() -> None:
        while (i := next(following)) < len(bounds):
            results[i] = function(*bounds[i])

    # a pool does not survive a fork, so each process has its own; the calling thread is one of the workers
    others = [_pool(threads - 1, os.getpid()).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun is not waited for: its core is busy elsewhere
            other.result()
    return results
