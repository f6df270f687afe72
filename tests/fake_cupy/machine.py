"""The make-believe GPU: its devices, its memory, and everything that is counted or made to fail on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np


class Memory:
    """What one NumPy buffer occupies on the device, until the last array over it is gone."""

    def __init__(self, machine: Machine, root: np.ndarray, device: int) -> None:
        self.machine, self.root, self.device, self.size = machine, root, device, root.nbytes

    def __del__(self) -> None:
        self.machine.used -= self.size


@dataclass
class Machine:
    """One host with CUDA devices.

    Attributes
    ----------
    kernels : {"twin", "emulated", "no-compiler"}
        What a ``RawKernel`` does: plain code with the kernel's own arguments, the kernel's text under the emulator, or
        a ``CompileException``.
    limit : int
        Bytes that may be in use at a time.
    refuse : callable, optional
        Given the size of an allocation, whether it fails, or the error that it fails with: the libraries have their
        own.
    spoil : callable, optional
        Given a kernel's name and its arguments after it ran, may overwrite its results.
    jacobi : {"sound", "needs rank"}
        Whether ``eigh`` of a stack fails, as reported of cuSOLVER, on a zero matrix or another that lacks rank.
    linalg : {"ignore", "raise"}
        What such a failure leads to, as ``cupyx.errstate`` sets it.
    counts : Counter
        ``syncs`` of every kind, ``uploads``, ``downloads``, ``freed`` (calls of ``free_all_blocks``), ``kernel ...``.
    transfers : list of (direction, shape)
    reductions : list of (shape, blocks)
        Sums over the rows of a matrix, and the blocks of threads that CuPy's own geometry gives them.
    """

    n_devices: int = 1
    kernels: str = "twin"
    limit: int = 8 << 30
    refuse: Callable[[int], bool | BaseException] | None = None
    spoil: Callable[[str, tuple[Any, ...]], None] | None = None
    jacobi: str = "sound"
    linalg: str = "ignore"
    counts: Counter[str] = field(default_factory=Counter)
    transfers: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    reductions: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    current: int = 0
    used: int = 0
    peak: int = 0
    pooled: int = 0  # the most in use since the pool was last emptied, as the pool keeps it
    buffers: WeakValueDictionary[int, Memory] = field(default_factory=WeakValueDictionary)

    def memory_of(self, array: np.ndarray) -> Memory:
        """The device memory behind a NumPy array, allocated now if it is a new one."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        found = self.buffers.get(id(root))
        if found is None or found.root is not root:
            self.allocate(root.nbytes)
            found = self.buffers[id(root)] = Memory(self, root, self.current)
        return found

    def allocate(self, size: int) -> None:
        from . import REAL

        refused = self.refuse(size) if self.refuse is not None else False
        if isinstance(refused, BaseException):
            raise refused
        if refused or self.used + size > self.limit:
            raise REAL["cupy.cuda.memory"].OutOfMemoryError(size, self.used, self.limit)
        self.used += size
        self.peak, self.pooled = max(self.peak, self.used), max(self.pooled, self.used)

    def synchronise(self, what: str = "") -> None:
        self.counts["syncs"] += 1
        if what:
            self.counts[what] += 1

    def upload(self, shape: tuple[int, ...]) -> None:
        self.counts["uploads"] += 1
        self.transfers.append(("up", shape))

    def download(self, shape: tuple[int, ...]) -> None:
        self.synchronise("downloads")
        self.transfers.append(("down", shape))

    def reduce(self, shape: tuple[int, ...]) -> None:
        """A reduction over axis 0 of a matrix in C order."""
        from . import REAL

        geometry = REAL["cupy._core._reduction"]._get_block_specs
        self.reductions.append((shape, geometry(shape[0] * shape[1], shape[1], min(shape[1], 32), -1)[2]))

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        before, self.current = self.current, number
        try:
            yield
        finally:
            self.current = before
