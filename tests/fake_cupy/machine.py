"""The make-believe GPU: its devices, its memory, and everything that is counted or made to fail on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

TALL = 100_000  # numbers from which on a reduction should fill a GPU


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
    pool_limit : int
        The same as a limit of CuPy's memory pool, which ``memGetInfo`` does not see; 0 for none.
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
        ``syncs`` of every kind, ``launches``, ``moved`` (bytes), ``uploads``, ``downloads``, ``freed`` (calls of
        ``free_all_blocks``), ``kernel ...``.
    stage, by_stage : str, dict of Counter
        The same by the stage that is named, with the ``peak`` of memory in it.
    transfers : list of (direction, shape)
    reductions : list of (shape, blocks)
        Reductions of arrays along some axes, and the blocks of threads that CuPy's own geometry gives them.
    """

    n_devices: int = 1
    kernels: str = "twin"
    limit: int = 8 << 30
    pool_limit: int = 0
    refuse: Callable[[int], bool | BaseException] | None = None
    spoil: Callable[[str, tuple[Any, ...]], None] | None = None
    jacobi: str = "sound"
    linalg: str = "ignore"
    counts: Counter[str] = field(default_factory=Counter)
    stage: str = ""
    by_stage: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
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

    def memory_at(self, pointer: int) -> Memory:
        """The device memory that begins at an address."""
        return next(memory for memory in self.buffers.values() if memory.root.ctypes.data == pointer)

    def allocate(self, size: int) -> None:
        from . import REAL

        refused = self.refuse(size) if self.refuse is not None else False
        if isinstance(refused, BaseException):
            raise refused
        limit = min(self.limit, self.pool_limit or self.limit)
        if refused or self.used + size > limit:
            raise REAL["cupy.cuda.memory"].OutOfMemoryError(size, self.used, limit)
        self.used += size
        self.peak, self.pooled = max(self.peak, self.used), max(self.pooled, self.used)
        counts = self.by_stage[self.stage]
        counts["peak"] = max(counts["peak"], self.used)

    def scratch(self, size: int) -> None:
        """Memory that a function takes while it runs."""
        if size:
            self.allocate(size)
            self.used -= size

    def count(self, what: str, amount: int = 1) -> None:
        self.counts[what] += amount
        self.by_stage[self.stage][what] += amount

    def launch(self, count: int, moved: int) -> None:
        self.count("launches", count)
        self.count("moved", moved)

    def synchronise(self, what: str = "") -> None:
        self.count("syncs")
        if what:
            self.count(what)

    def upload(self, shape: tuple[int, ...], size: int = 0) -> None:
        self.count("uploads")
        self.count("up", size)
        self.transfers.append(("up", shape))

    def download(self, shape: tuple[int, ...], size: int = 0) -> None:
        self.synchronise("downloads")
        self.count("down", size)
        self.transfers.append(("down", shape))

    def reduce(self, array: np.ndarray, axis: Any) -> None:
        """A reduction of an array along some axes; along the last ones of an array in C order CUB takes it."""
        from . import REAL

        axes = range(array.ndim) if axis is None else sorted(k % array.ndim for k in np.atleast_1d(axis))
        kept = [k for k in range(array.ndim) if k not in axes]
        if not array.size or not kept or (kept == [*range(len(kept))] and array.flags.c_contiguous):
            return
        by_stride = sorted(range(array.ndim), key=lambda k: -array.strides[k])
        inner = by_stride[max(by_stride.index(k) for k in axes) + 1 :]
        out, run = (int(np.prod([array.shape[k] for k in some])) for some in (kept, inner))
        blocks = REAL["cupy._core._reduction"]._get_block_specs(array.size, out, min(run, 32), -1)[2]
        self.reductions.append((array.shape, blocks))
        if array.size >= TALL:
            counts = self.by_stage[self.stage]
            counts["fewest blocks"] = min(counts["fewest blocks"] or blocks, blocks)

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        before, self.current = self.current, number
        try:
            yield
        finally:
            self.current = before
