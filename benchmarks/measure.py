"""Seconds and bytes, and the rows of a long measurement."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any


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


def kept(path: str | None) -> list[dict[str, Any]]:
    """The rows of an earlier run that was cut short."""
    return [json.loads(text) for text in Path(path).read_text().splitlines()] if path and Path(path).exists() else []


def keep(path: str | None, row: dict[str, Any]) -> None:
    """Append a row to a file, if there is to be one."""
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(row, default=lambda value: value.tolist()) + "\n")
