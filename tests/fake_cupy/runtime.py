"""``cupy.cuda``: devices that are entered and left, a memory pool, and kernels from text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.spatial

from ies_gpu.backend.kernels import plain

from . import arrays


class Device:
    """Context in which a device is the current one."""

    def __init__(self, device: Any = None) -> None:
        self.id = arrays.machine.current if device is None else int(getattr(device, "id", device))
        self.before: list[int] = []

    def __enter__(self) -> Device:
        if not 0 <= self.id < arrays.machine.n_devices:
            raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.before.append(arrays.machine.current)
        arrays.machine.current = self.id
        return self

    def __exit__(self, *_: Any) -> None:
        arrays.machine.current = self.before.pop()

    def __int__(self) -> int:
        return self.id

    def synchronize(self) -> None:
        arrays.machine.synchronise()


class MemoryPool:
    """The default pool: what is freed is free at once, as after CuPy's own retry."""

    def free_all_blocks(self, stream: Any = None) -> None:
        arrays.machine.count("freed")
        arrays.machine.pooled = arrays.machine.used

    def free_bytes(self) -> int:
        return 0

    def total_bytes(self) -> int:
        return arrays.machine.pooled

    def used_bytes(self) -> int:
        return arrays.machine.used

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        arrays.machine.limit = size or 8 << 30


class Runtime:
    """``cupy.cuda.runtime``."""

    def getDeviceCount(self) -> int:  # noqa: N802
        return arrays.machine.n_devices

    def getDevice(self) -> int:  # noqa: N802
        return arrays.machine.current

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        return arrays.machine.limit - arrays.machine.used, arrays.machine.limit

    def getDeviceProperties(self, device: int) -> dict[str, Any]:  # noqa: N802
        return {"name": b"NumPy in disguise", "major": 8, "minor": 0, "multiProcessorCount": 1}

    def driverGetVersion(self) -> int:  # noqa: N802
        return 13000

    def runtimeGetVersion(self) -> int:  # noqa: N802
        return 12090


class KDTree:
    """``cupyx.scipy.spatial.KDTree``: nearest neighbours by distances from differences, rising."""

    def __init__(
        self, data: Any, leafsize: int = 10, compact_nodes: bool = True, copy_data: bool = False,
        balanced_tree: bool = True, boxsize: Any = None,
    ) -> None:  # fmt: skip
        self.tree = scipy.spatial.KDTree(arrays.host(data))

    def query(
        self, x: Any, k: int = 1, eps: float = 0.0, p: float = 2.0, distance_upper_bound: float = np.inf
    ) -> tuple[Any, Any]:
        distances, nodes = self.tree.query(arrays.host(x), k, eps, p, distance_upper_bound)
        return arrays.device(distances), arrays.device(nodes)


class RawKernel:
    """A kernel from its text: run under the emulator, or by its plain twin, which sees the same arguments."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = (), backend: str = "nvrtc", **_: Any) -> None:
        self.code, self.name = code, name

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        from . import REAL

        machine = arrays.machine
        values = []
        for value in args:
            if isinstance(value, arrays.ndarray):
                value.check_device()
                value = value._host
                if not value.flags.c_contiguous:
                    raise TypeError("a kernel sees memory only: arrays must be C-contiguous")
            elif not isinstance(value, np.generic):
                raise TypeError(f"a scalar must say its type, got {type(value).__name__}")
            values.append(value)
        if machine.kernels == "no-compiler":
            refused = REAL["cupy.cuda.compiler"].CompileException
            raise refused("kernel.cu(1): error: the stand-in compiles nothing", self.code, self.name, ())
        machine.count(f"kernel {self.name}")
        machine.launch(1, sum(value.nbytes for value in values if isinstance(value, np.ndarray)))
        if machine.kernels == "emulated":
            from ..cuda_emulator import Kernel

            Kernel(self.code, self.name)(grid, block, values, shared_mem=shared_mem)
        else:
            TWINS[self.name.partition("_f")[0].removesuffix("_low")](*values)
        if machine.spoil is not None:
            machine.spoil(self.name, tuple(values))


def tangent_twin(
    indptr: Any, wide: Any, indices: Any, weights: Any, Y: Any, rows: Any, count: Any, m: Any, d: Any,
    U: Any, sigma: Any,
) -> None:  # fmt: skip
    assert (indptr.dtype.itemsize == 8) == bool(wide)
    assert (Y.shape[1], len(rows), U.shape) == (m, count, (count, m, d))
    assert indices.dtype == np.int32
    assert Y.dtype == U.dtype == sigma.dtype
    U[:], sigma[:] = plain.tangent_rows(indptr, indices, weights, Y, rows, int(d))


def score_twin(
    U: Any, count: Any, m: Any, d: Any, columns: Any, size: Any, n_sets: Any, start: Any, tile: Any, chunk: Any,
    partial: Any, winner: Any, highest: Any,
) -> None:  # fmt: skip
    assert U.shape == (count, m, d)
    assert columns.shape == (size, n_sets)
    assert columns.dtype == winner.dtype == np.int32
    totals, best, score = np.zeros(n_sets), np.empty(count, np.int32), np.empty(count)
    plain.score_block(U, columns.T, totals, best, score)
    partial[0] += totals
    better = np.ones(count, bool) if start == 0 else score > highest
    winner[better], highest[better] = best[better] + start, score[better]


def product_twin(
    indptr: Any, wide: Any, indices: Any, data: Any, V: Any, n_rows: Any, k: Any, out: Any
) -> None:  # fmt: skip
    assert (indptr.dtype.itemsize == 8) == bool(wide)
    assert (len(indptr), V.size, out.size) == (n_rows + 1, len(V) * k, n_rows * k)
    assert (indices.dtype, data.dtype, V.dtype, out.dtype) == (np.int32, np.float32, np.float64, np.float64)
    out[:] = plain.spmm(indptr, indices, data, V)


TWINS = {"tangent_rows": tangent_twin, "score_block": score_twin, "csr_product": product_twin}
POOL = MemoryPool()
