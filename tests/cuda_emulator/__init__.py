"""CUDA kernel texts on the CPU: compiled by g++ against ``cuda_cpu.h``, one fiber for each CUDA thread.

It shows missing barriers, wrong indices, reads of shared memory nobody wrote, writes beyond its end and launch
configurations that do not fit the text. It does not show what only hardware has: warps in lockstep, the memory model,
occupancy, speed, fused multiply-add.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

HEADER = Path(__file__).with_name("cuda_cpu.h")
SCHEDULES = ("forward", "reverse", "random")
ENTRY = r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s+)?'
DTYPES = {"float": "float32", "double": "float64", "int": "int32", "longlong": "int64"}
# no contraction: a multiply-add is rounded twice, as in NumPy
FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fcf-protection=none", "-shared", "-fPIC", "-w")


class DeadlockError(RuntimeError):
    """Threads of a block wait at different barriers, or one has ended while another waits."""


class SharedMemoryError(RuntimeError):
    """A block wrote beyond its dynamic shared memory."""


ERRORS = {1: DeadlockError, 2: SharedMemoryError}


def missing() -> str:
    """Why kernels cannot be emulated here; empty if they can."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return "the CUDA emulator switches stacks in x86-64 assembly, on Linux"
    return "" if shutil.which("g++") else "the CUDA emulator needs g++"


def barriers(source: str) -> list[int]:
    """Line numbers of the barriers in a kernel's text."""
    return [number for number, line in enumerate(source.splitlines(), 1) if "__syncthreads()" in line]


def preprocessed(text: str) -> str:
    """The text with its macros written out: they make the entry points."""
    return subprocess.run(["g++", "-E", "-P", "-"], input=text, capture_output=True, text=True, check=True).stdout


@functools.cache
def parameters(source: str, name: str) -> tuple[str, ...]:
    """The C types of an entry point's parameters, such as ``float*`` and ``long long``."""
    found = re.search(rf"{ENTRY}{name}\(([^)]*)\)", preprocessed(source))
    assert found, name
    words = (re.sub(r"\bconst\b|\b\w+$", "", part.strip()) for part in found[1].split(","))
    return tuple("".join(word.split()) for word in words)


def check_types(source: str, name: str, args: Sequence[Any]) -> None:
    """Arrays and scalars must have the types of the parameters: a kernel would take their bytes for something else."""
    wanted = parameters(source, name)
    if len(wanted) != len(args):
        raise TypeError(f"{name} has {len(wanted)} parameters, got {len(args)} arguments")
    for place, (kind, argument) in enumerate(zip(wanted, args, strict=True)):
        is_array, pointed = isinstance(argument, np.ndarray), kind.removesuffix("*")
        fits = argument.dtype == DTYPES[pointed] if pointed in DTYPES else is_array  # a void* may be anything
        nothing = not is_array and argument.dtype == np.uint64 and argument == 0  # a pointer to no array
        if not (nothing if kind.endswith("*") and not is_array else fits and is_array == kind.endswith("*")):
            raise TypeError(f"parameter {place} of {name} is {kind}, got {type(argument).__name__} {argument.dtype}")


def translate(source: str) -> str:
    """C++ for g++: the kernel's text, line numbers kept, and a launcher for each entry point."""
    text = re.sub(
        r"extern\s+__shared__\s+(\w+)\s+(\w+)\[\];",
        r"\1* \2 = reinterpret_cast<\1*>(emulator::shared.data());",
        source,
    )
    found = preprocessed(text)
    entries = sorted(set(re.findall(rf"{ENTRY}(\w+)", found)))
    launchers = [
        f'extern "C" int launch_{name}(unsigned blocks, unsigned threads, size_t shared_bytes, void** values,'
        " int schedule, unsigned seed, int skip) {\n"
        f"    return emulator::launch<{name}>({name}, blocks, threads, shared_bytes, values,"
        " static_cast<emulator::Schedule>(schedule), seed, skip);\n}\n"
        for name in entries
    ]
    return f'#include "{HEADER}"\n#line 1 "kernel.cu"\n{text}\n{"".join(launchers)}'


@functools.cache
def build(source: str) -> ctypes.CDLL:
    """The compiled text, kept in the temporary directory by the hash of all that went into it."""
    code = translate(source)
    key = hashlib.sha256("\0".join([code, HEADER.read_text(), *FLAGS]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"ies_gpu_cuda_emulator_{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:  # then renamed: another process may do the same
            text, made = Path(work, "kernel.cpp"), Path(work, "kernel.so")
            text.write_text(code)
            done = subprocess.run(["g++", *FLAGS, "-o", made, text], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"g++ refused the kernel:\n{done.stderr}")
            made.rename(library)
    return ctypes.CDLL(str(library))


class Kernel:
    """Called like a ``cupy.RawKernel``, with NumPy arrays.

    Parameters
    ----------
    source, name : str
        CUDA text and entry point.
    schedule : {"forward", "reverse", "random"}
        Order of the threads between two barriers, and of the blocks.
    seed : int
        Of the random schedule.
    skip_barrier : int
        Number of a line whose barrier is left out; 0 for none.
    """

    def __init__(
        self, source: str, name: str, *, schedule: str = "forward", seed: int = 0, skip_barrier: int = 0
    ) -> None:
        self.source, self.name = source, name
        self.launch = getattr(build(source), f"launch_{name}")
        self.order = (SCHEDULES.index(schedule), ctypes.c_uint(seed), skip_barrier)

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        if len(grid) != 1 or len(block) != 1 or not 0 < block[0] <= 1024 or not 0 < grid[0] < 2**31:
            raise ValueError(f"one dimension, 1 to 1024 threads: got grid {grid}, block {block}")
        if all(isinstance(argument, np.ndarray | np.generic) for argument in args):  # else said below
            check_types(self.source, self.name, args)
        if shared_mem > 48 << 10:
            raise ValueError(f"{shared_mem} bytes of shared memory are more than 48 KB")
        # a pointer to each argument's value; `values` keeps them alive
        values = [self.value(argument) for argument in args]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        schedule, seed, skip = self.order
        outcome = self.launch(
            ctypes.c_uint(grid[0]), ctypes.c_uint(block[0]), ctypes.c_size_t(shared_mem), pointers, schedule, seed, skip
        )
        if outcome:
            raise ERRORS[outcome](f"{self.name}, schedule {SCHEDULES[schedule]}")

    @staticmethod
    def value(argument: Any) -> np.ndarray:
        """What a kernel sees of an argument: an array's address, or a scalar, which has to say its type."""
        if isinstance(argument, np.ndarray):
            if not argument.flags.c_contiguous:
                raise TypeError("a kernel sees memory only: arrays must be C-contiguous")
            return np.array([argument.ctypes.data], dtype=np.uintp)
        if not isinstance(argument, np.generic):
            raise TypeError(f"scalars must be typed NumPy scalars, got {type(argument).__name__}")
        return np.array([argument])
