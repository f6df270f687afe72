"""CUDA kernel texts on the CPU: compiled by g++ against ``cuda_cpu.h``, one fiber for each CUDA thread.

It shows missing barriers, wrong indices, reads of shared memory nobody wrote, writes beyond its end and launch
configurations that do not fit the text. It does not show what only hardware has: warps in lockstep, the memory model,
occupancy, speed, fused multiply-add.
"""

import ctypes
import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import compiler
from .compiler import missing

__all__ = ["SCHEDULES", "DeadlockError", "Kernel", "SharedMemoryError", "barriers", "check_types", "missing"]
SCHEDULES = ("forward", "reverse", "random")
ENTRY = r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s+)?'
DTYPES = {"float": "float32", "double": "float64", "int": "int32", "longlong": "int64"}


class DeadlockError(RuntimeError):
    """Threads of a block wait at different barriers, or one has ended while another waits."""


class SharedMemoryError(RuntimeError):
    """A block wrote beyond its dynamic shared memory."""


ERRORS = {1: DeadlockError, 2: SharedMemoryError}


def barriers(source: str) -> list[int]:
    """Line numbers of the barriers in a kernel's text."""
    return [number for number, line in enumerate(source.splitlines(), 1) if "__syncthreads()" in line]


@functools.cache
def parameters(source: str, name: str) -> tuple[str, ...]:
    """The C types of an entry point's parameters, such as ``float*`` and ``long long``."""
    found = re.search(rf"{ENTRY}{name}\(([^)]*)\)", compiler.preprocessed(source))
    assert found, name
    words = (re.sub(r"\bconst\b|\b\w+$", "", part.strip()) for part in found[1].split(","))
    return tuple("".join(word.split()) for word in words)


def check_types(source: str, name: str, args: Sequence[Any]) -> None:
    """Arrays and scalars must have the types of the parameters: a kernel would take their bytes for something else."""
    wanted = parameters(source, name)
    if len(wanted) != len(args):
        raise TypeError(f"{name} has {len(wanted)} parameters, got {len(args)} arguments")
    for place, (kind, argument) in enumerate(zip(wanted, args, strict=True)):
        is_array, pointed = not isinstance(argument, np.generic), kind.removesuffix("*")
        fits = argument.dtype == DTYPES[pointed] if pointed in DTYPES else is_array  # a void* may be anything
        nothing = not is_array and argument.dtype == np.uint64 and argument == 0  # a pointer to no array
        if not (nothing if kind.endswith("*") and not is_array else fits and is_array == kind.endswith("*")):
            raise TypeError(f"parameter {place} of {name} is {kind}, got {type(argument).__name__} {argument.dtype}")
        if is_array and not argument.flags.c_contiguous:
            raise TypeError("a kernel sees memory only: arrays must be C-contiguous")


@functools.cache
def load(source: str) -> ctypes.PyDLL:
    """The compiled text. It keeps Python's lock while it runs: all fibers of a process are one set."""
    return ctypes.PyDLL(str(compiler.build(source)))


class Kernel:
    """Called like a ``cupy.RawKernel``, with NumPy arrays; ``skip_barrier`` is a line whose barrier is left out."""

    def __init__(self, source: str, name: str, *, schedule: str = "forward", skip_barrier: int = 0) -> None:
        self.source, self.name = source, name
        self.launch = load(source)[f"launch_{name}"]
        self.order = (SCHEDULES.index(schedule), 0, 1, skip_barrier)

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        if len(grid) != 1 or len(block) != 1 or not 0 < block[0] <= 1024 or not 0 < grid[0] < 2**31:
            raise ValueError(f"one dimension, 1 to 1024 threads: got grid {grid}, block {block}")
        for argument in args:
            if not isinstance(argument, np.ndarray | np.generic):
                raise TypeError(f"scalars must be typed NumPy scalars, got {type(argument).__name__}")
        check_types(self.source, self.name, args)
        if shared_mem > 48 << 10:
            raise ValueError(f"{shared_mem} bytes of shared memory are more than 48 KB")
        # a pointer to each argument's value, which is an array's address or a scalar; `values` keeps them alive
        values = [np.array([np.uintp(a.ctypes.data) if isinstance(a, np.ndarray) else a]) for a in args]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        sizes = (ctypes.c_uint * 6)(grid[0], 1, 1, block[0], 1, 1)
        outcome = self.launch(sizes, ctypes.c_size_t(shared_mem), pointers, *self.order)
        if outcome:
            raise ERRORS[outcome](f"{self.name}, schedule {SCHEDULES[self.order[0]]}")
