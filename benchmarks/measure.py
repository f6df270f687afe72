"""Seconds, bytes, and what the hardware allows."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np


class Seconds(float):
    """Seconds by the clock, which also know the processor time of all threads."""

    processor: float | None = None


def seconds(function: Callable[[], Any], repeat: int = 1) -> tuple[Seconds, Any]:
    """The shortest of ``repeat`` runs, and the last result."""
    best, result = Seconds("inf"), None
    for _ in range(repeat):
        gc.collect()
        begin, worked = time.perf_counter(), time.process_time()
        result = function()
        took = Seconds(time.perf_counter() - begin)
        took.processor = time.process_time() - worked
        best = min(best, took)
    return best, result


def peak_bytes(function: Callable[[], Any]) -> tuple[int, Any]:
    """The most memory that a call allocates through NumPy and Python (a kernel's scratch is small beside it)."""
    gc.collect()
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def hardware(threads: int) -> dict[str, float]:
    """Copy bandwidth (bytes moved a second, read and write) and multiply-add rate (flops a second) on ``threads``."""
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def copy(a, b):
        for i in numba.prange(len(a)):
            b[i] = a[i]

    @numba.njit(parallel=True, fastmath=True)
    def multiply(x, rounds):
        for i in numba.prange(x.shape[0]):
            row = x[i]
            for _ in range(rounds):
                for k in range(64):
                    row[k] = row[k] * 0.999999 + 1e-9

    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        a = np.ones(1 << 25)
        b = np.empty_like(a)
        x = np.ones((64, 64))
        copy(a, b)
        multiply(x, 10)
        move, _ = seconds(lambda: copy(a, b), 5)
        work, _ = seconds(lambda: multiply(x, 100_000), 3)
    finally:
        numba.set_num_threads(before)
    return {"copy_bytes_per_second": 2 * a.nbytes / move, "flops_per_second": 2 * 64 * 64 * 100_000 / work}
