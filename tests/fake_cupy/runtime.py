"""``cupy.cuda``: devices that are entered and left, a memory pool, and kernels from text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.spatial

from ies_gpu.backend.kernels import plain

from .. import cuda_emulator
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
    """The default pool: it keeps what is freed, so that the driver counts it as taken, until it is emptied.

    An allocation finds it, as after CuPy's own retry. The driver does not know the pool's limit.
    """

    def free_all_blocks(self, stream: Any = None) -> None:
        arrays.machine.count("freed")
        arrays.machine.pooled = arrays.machine.used

    def free_bytes(self) -> int:
        return arrays.machine.pooled - arrays.machine.used

    def total_bytes(self) -> int:
        return arrays.machine.pooled

    def used_bytes(self) -> int:
        return arrays.machine.used

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        arrays.machine.pool_limit = size or 0

    def get_limit(self) -> int:
        return arrays.machine.pool_limit


class Runtime:
    """``cupy.cuda.runtime``."""

    def getDeviceCount(self) -> int:  # noqa: N802
        return arrays.machine.n_devices

    def getDevice(self) -> int:  # noqa: N802
        return arrays.machine.current

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        return max(0, arrays.machine.limit - arrays.machine.pooled), arrays.machine.limit

    def pointerGetAttributes(self, ptr: int) -> Any:  # noqa: N802
        return SimpleNamespace(device=arrays.machine.memory_at(ptr).device)

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
        points = arrays.host(data)
        self.tree = scipy.spatial.KDTree(points)
        arrays.machine.scratch(points.nbytes + 24 * len(points))  # keys, numbers and a sort of each of the levels
        arrays.machine.launch(8 * max(1, len(points).bit_length()), 2 * points.nbytes)

    def query(
        self, x: Any, k: int = 1, eps: float = 0.0, p: float = 2.0, distance_upper_bound: float = np.inf
    ) -> tuple[Any, Any]:
        points = arrays.host(x)
        if not points.flags.c_contiguous:
            raise TypeError("the kernel of the tree reads rows one after the other, without a look at the strides")
        distances, nodes = self.tree.query(points, k, eps, p, distance_upper_bound)
        arrays.machine.launch(3, self.tree.data.nbytes + distances.nbytes + nodes.nbytes)
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
        if not cuda_emulator.missing():
            cuda_emulator.check_types(self.code, self.name, values)
        machine.count(f"kernel {self.name}")
        machine.launch(1, sum(value.nbytes for value in values if isinstance(value, np.ndarray)))
        if machine.kernels == "emulated":
            cuda_emulator.Kernel(self.code, self.name)(grid, block, values, shared_mem=shared_mem)
        else:
            TWINS[re.sub(r"(_\d)?_f.*", "", self.name)](*values)
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
    U: Any, count: Any, m: Any, columns: Any, size: Any, n_sets: Any, start: Any, tile: Any, chunk: Any,
    partial: Any, winner: Any, highest: Any,
) -> None:  # fmt: skip
    assert U.shape[:2] == (count, m)
    assert columns.shape == (size, n_sets)
    assert columns.dtype == winner.dtype == np.int32
    totals, best, score = np.zeros(n_sets), np.empty(count, np.int32), np.empty(count)
    plain.score_block(U, columns.T, totals, best, score)
    partial[0] += totals
    better = np.ones(count, bool) if start == 0 else score > highest
    winner[better], highest[better] = best[better] + start, score[better]


def product_twin(
    indptr: Any, wide: Any, indices: Any, data: Any, V: Any, n_rows: Any, k: Any, width: Any, epilogue: Any,
    R: Any, factor: Any, out: Any, partial: Any,
) -> None:  # fmt: skip
    check_matrix(indptr, wide, indices, n_rows)
    assert (V.size, out.size, V.dtype) == (len(V) * k, n_rows * k, out.dtype)
    assert width <= 32 and width & (width - 1) == 0
    matrix = scipy.sparse.csr_matrix((data, indices, indptr), shape=(n_rows, len(V)))
    out[:] = product = matrix @ V
    if epilogue == 1:
        out[:] = R + product * factor
    if epilogue == 2:
        out[:] = factor * R - product
        partial[:] = 0
        partial[0] = (R.astype(float) * out).sum(axis=0)


def check_matrix(indptr: Any, wide: Any, indices: Any, n_rows: Any) -> None:
    assert (indptr.dtype.itemsize == 8) == bool(wide)
    assert (len(indptr), indices.dtype) == (n_rows + 1, np.int32)


def scaled_twin(
    indptr: Any, wide: Any, indices: Any, data: Any, left: Any, right: Any, n_rows: Any, out: Any
) -> None:  # fmt: skip
    check_matrix(indptr, wide, indices, n_rows)
    assert left.dtype == right.dtype == np.float64
    part = slice(indptr[0], indptr[-1])
    out[part] = data[part] * (np.repeat(left, np.diff(indptr)) * right[indices[part]])


def label_twin(
    indptr: Any, wide: Any, indices: Any, data: Any, labels: Any, n_rows: Any, out: Any
) -> None:  # fmt: skip
    check_matrix(indptr, wide, indices, n_rows)
    assert labels.dtype == out.dtype == np.int32
    out[:] = plain.smallest_labels(indptr, indices, data, labels)


def columns_twin(
    indptr: Any, wide: Any, indices: Any, data: Any, labels: Any, weights: Any, n_rows: Any, ends: Any, counts: Any,
    out_indices: Any, out_data: Any,
) -> None:  # fmt: skip
    check_matrix(indptr, wide, indices, n_rows)
    cells = int(labels.max()) + 1
    merged_twin(
        plain.merge_columns(indptr, indices, data, np.searchsorted(labels, np.arange(cells + 1)), weights),
        ends, counts, out_indices, out_data,
    )  # fmt: skip


def rows_twin(
    indptr: Any, wide: Any, indices: Any, data: Any, starts: Any, weights: Any, n_cells: Any, ends: Any, counts: Any,
    out_indices: Any, out_data: Any,
) -> None:  # fmt: skip
    check_matrix(indptr, wide, indices, len(weights))
    assert (len(starts), starts.dtype) == (n_cells + 1, np.int64)
    columns = int(indices.max(initial=0)) + 1
    merged_twin(plain.merge_rows(indptr, indices, data, starts, weights, columns), ends, counts, out_indices, out_data)


def merged_twin(matrix: Any, ends: Any, counts: Any, out_indices: Any, out_data: Any) -> None:
    if isinstance(ends, np.ndarray):
        np.testing.assert_array_equal(ends, matrix[0])
        out_indices[:], out_data[:] = matrix[1:]
    else:
        counts[:] = np.diff(matrix[0])


def restricted_twin(starts: Any, weights: Any, R: Any, n_cells: Any, k: Any, out: Any) -> None:
    assert starts.dtype == np.int64 and out.shape == (n_cells, k)
    out[:] = plain.restrict(starts, weights, R)


def descend_twin(
    Z: Any, R: Any, P: Any, image: Any, square: Any, curvature: Any, n_rows: Any, k: Any, width: Any, partial: Any
) -> None:  # fmt: skip
    assert P.shape == (n_rows, k) and square.dtype == curvature.dtype == np.float64
    partial[:] = 0
    partial[0] = plain.descend(Z, R, P, image, square, curvature) - 1e-30


def turn_twin(R: Any, P: Any, left: Any, square: Any, size: Any, k: Any) -> None:
    assert (P.size, P.shape[1]) == (size, k)
    plain.turn(R, P, left, square)


def column_twin(A: Any, B: Any, n_rows: Any, k: Any, width: Any, partial: Any) -> None:
    assert A.shape == (n_rows, k)
    partial[:] = 0
    partial[0] = (A.astype(float) * (B if isinstance(B, np.ndarray) else 1.0)).sum(axis=0)


def totals_twin(partial: Any, rows: Any, k: Any, plus: Any, out: Any) -> None:
    assert partial.shape == (rows, k) and isinstance(plus, np.float64)
    out[:] = partial.sum(axis=0) + plus


def pairs_twin(
    Z: Any, D: Any, starts: Any, low: Any, high: Any, cells: Any, A: Any, reach: Any, limit: Any, diagonal: Any,
    unit: Any, ends: Any, counts: Any, indices: Any, distances: Any,
) -> None:  # fmt: skip
    assert (Z.shape[1], len(starts), low.shape, high.shape) == (D, cells + 1, (cells, A), (cells, A))
    tree = scipy.spatial.cKDTree(Z)
    pairs = tree.sparse_distance_matrix(tree, reach * (1 + 1e-9), output_type="ndarray")
    i, j = pairs["i"], pairs["j"]
    difference = Z[i] - Z[j]
    squared = (difference * difference).sum(axis=1)
    keep = (squared <= reach * reach) & (bool(diagonal) | (i != j))
    order = np.lexsort((j[keep], i[keep]))
    i, j, squared = (part[keep][order] for part in (i, j, squared))
    if isinstance(ends, np.ndarray):
        np.testing.assert_array_equal(ends[1:], np.cumsum(np.bincount(i, minlength=len(Z))))
        indices[:], distances[:] = j, unit * np.sqrt(squared)
    else:
        counts[:] = np.bincount(i, minlength=len(Z))


def degrees_twin(Z: Any, n: Any, D: Any, rows: Any, reach: Any, out: Any) -> None:
    assert Z.shape == (n, D) and rows.dtype == out.dtype == np.int64
    for k, row in enumerate(rows):
        out[k] = (((Z - Z[row]) ** 2).sum(axis=1) <= reach * reach).sum()


TWINS = {
    "near_pairs": pairs_twin, "degrees": degrees_twin,
    "tangent_rows": tangent_twin, "score_block": score_twin, "product": product_twin, "scaled": scaled_twin,
    "smallest_label": label_twin, "merge_columns": columns_twin, "merge_rows": rows_twin,
    "restricted": restricted_twin, "descend": descend_twin, "turn": turn_twin, "column_products": column_twin,
    "totals": totals_twin,
}  # fmt: skip
POOL = MemoryPool()
