"""CuPy: whether CUDA can be used here, told in one sentence, and the backend that uses it."""

import contextlib
import importlib
import importlib.metadata
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..findings import DeviceError, Finding, one_line, option
from .array import Array, column_sums, is_few, row_counts
from .base import Backend, Block
from .compare import Kernels
from .cpu import CpuBackend

KEPT = 40  # compiled kernels in CuPy's folder, with fewer of which a run will compile in silence for a while
MIN_FREE = 256 << 20  # bytes of device memory below which a run is not begun
# what CUDA's status codes mean to somebody at a keyboard
USE_CPU = f"use {option('device', 'cpu')}"
STATUS = {
    3: ("forked", "CUDA does not start; after a fork it never does: start workers with 'spawn', or " + USE_CPU),
    100: ("no-device", "the NVIDIA driver finds no CUDA device; check nvidia-smi and CUDA_VISIBLE_DEVICES"),
    803: ("driver-mismatch", "the NVIDIA driver and its library have different versions; reboot, or reinstall it"),
    34: ("driver-missing", "only a stub of the CUDA driver library was found; install the NVIDIA driver"),
    209: ("device-too-old", "the GPU is too old for this CuPy; install cupy-cuda12x[ctk] instead, or " + USE_CPU),
}
# how NVRTC, CUDA 13's for a V100, and the driver say the same
TOO_OLD = ("invalid value for --gpu-architecture", "CUDA_ERROR_NO_BINARY_FOR_GPU")
WHEELS = ("cupy-cuda13x", "cupy-cuda12x")
LIBRARIES = ("cublas", "cusolver", "cusparse")  # attributes of cupy.cuda, loaded when first asked for
DOUBLE_RATIO, SLOW = 87, 8  # CUDA's attribute: the rate of float32 over that of float64, 2 or 32 to 64 on most cards
LABEL_ROUNDS = 4  # between two looks at whether the labels of connected parts still change: each look waits
# Up to so many columns the host's tree answers: CuPy's takes NVRTC ten seconds. With more columns a tree would look at
# most of the points, and all are compared with all.
TREE_COLUMNS = 8


class Probe(NamedTuple):
    """What looking for a CUDA device gave: ``detail`` is one sentence, with what to do where ``ok`` is false."""

    ok: bool
    code: str
    detail: str


def probe(number: int = 0) -> Probe:
    """Look for a CUDA device that works, without raising."""
    try:
        cupy = importlib.import_module("cupy")
    except Exception as error:  # a broken wheel can raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return Probe(False, "not-installed", "CuPy is not installed; install it: pip install 'ies-gpu[cuda12]'")
        how = f"reinstall it with pip install --force-reinstall '{_wheel()}[ctk]'"
        return _known(error) or Probe(False, "broken-install", f"importing CuPy failed ({one_line(error)}); {how}")
    for check in (_check_device, _check_libraries, _check_memory, _check_numbers):
        try:
            trouble = check(cupy, number)
        except Exception as error:
            unknown = f"a first CUDA call failed ({one_line(error)}); run 'ies-gpu doctor'"
            return _known(error) or Probe(False, "failed", unknown)
        if trouble is not None:
            return Probe(False, *trouble)
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
    return Probe(True, "ok", f"CUDA device {number} ({name}) works")


def _known(error: BaseException) -> Probe | None:
    """Explain an error that may come up in several places."""
    said = one_line(error)
    if isinstance(error, OSError) and error.errno is not None:  # which those of a missing library have not
        how = "set the environment variable CUPY_CACHE_DIR to a folder that can be written to"
        return Probe(False, "no-cache", f"CuPy cannot keep the kernels that it compiles ({said}); {how}")
    if getattr(error, "status", None) == 209 or any(words in said for words in TOO_OLD):
        return Probe(False, *STATUS[209])
    return None


def _wheel() -> str:
    """Return the package of CuPy that is installed: advice must not name another, two do not work side by side."""
    found = (wheel for wheel in WHEELS if any(importlib.metadata.Distribution.discover(name=wheel)))
    return next(found, WHEELS[-1])


def _check_device(cupy: Any, number: int) -> tuple[str, str] | None:
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except Exception as error:
        status = getattr(error, "status", None)
        if status != 35:
            return STATUS.get(status or 0, ("failed", f"CUDA does not start ({one_line(error)}); check nvidia-smi"))
        version = runtime.driverGetVersion()  # the same status for no driver and for an old one
        if version == 0:
            return "driver-missing", f"no NVIDIA driver was found; install one, or {USE_CPU}"
        have, need = (f"{v // 1000}.{v % 1000 // 10}" for v in (version, runtime.runtimeGetVersion()))
        return "driver-too-old", f"the NVIDIA driver supports CUDA {have}, CuPy needs {need}; update the driver"
    if count == 0:
        return STATUS[100]
    if number >= count:
        return "no-such-device", f"there is no CUDA device {number}; the numbers go from 0 to {count - 1}"
    return None


def _check_libraries(cupy: Any, number: int) -> tuple[str, str] | None:
    try:
        for name in LIBRARIES:
            getattr(cupy.cuda, name)
        importlib.import_module("cupyx.scipy.sparse")
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # ImportError, or pathfinder's own RuntimeError
        advice = f"install them with: pip install '{_wheel()}[ctk]'"
        return "missing-library", f"CUDA libraries are missing ({one_line(error)}); {advice}"
    return None


def _check_memory(cupy: Any, number: int) -> tuple[str, str] | None:
    with cupy.cuda.Device(number):
        free = cupy.cuda.runtime.memGetInfo()[0]
        if free < MIN_FREE:  # CuPy keeps what an earlier run has freed, and the driver counts it as taken
            cupy.get_default_memory_pool().free_all_blocks()
            free = free_bytes(cupy)
    if free < MIN_FREE:
        need = f"{MIN_FREE >> 20} MB are needed to start; close other programs on it"
        return "out-of-memory", f"CUDA device {number} has {free >> 20} MB free, {need}"
    return None


def _check_numbers(cupy: Any, number: int) -> tuple[str, str] | None:
    """Try what is needed on small inputs: elementwise, GEMM, sparse times dense, stacked eigh."""
    sparse = importlib.import_module("cupyx.scipy.sparse")
    with cupy.cuda.Device(number):
        a = np.arange(16.0).reshape(4, 4) / 7
        symmetric = a @ a.T + np.eye(4)
        device, both = cupy.asarray(symmetric), cupy.asarray(np.stack([symmetric, 2 * symmetric]))
        values = cupy.linalg.eigh(both)[0].get()
        matrix = sparse.csr_matrix(device)
        matrix.has_canonical_format = True  # or CuPy would compile how to look
        product = (matrix @ (device @ cupy.exp(device))).get()
    expected = np.linalg.eigvalsh(symmetric)
    right = symmetric @ symmetric @ np.exp(symmetric)
    if np.allclose(values, [expected, 2 * expected]) and np.allclose(product, right):
        return None
    return "wrong-result", f"CUDA device {number} computes wrongly on a 4 x 4 test; check the hardware"


def pool_in_use(xp: Any) -> Any:
    """Return the memory pool from which CuPy takes new arrays; None where it takes them elsewhere, such as RMM."""
    pool = getattr(xp.cuda.get_allocator(), "__self__", None)
    return pool if hasattr(pool, "free_bytes") else None


def free_bytes(xp: Any) -> int:
    """Return the bytes that new arrays may take on the current device: those free, and those their allocator keeps.

    RMM's allocator, or one of your own, does not say what it keeps, but grants it: it is asked for more than is free.
    """
    free, total = map(int, xp.cuda.runtime.memGetInfo())
    if (pool := pool_in_use(xp)) is not None:
        free, limit = free + int(pool.free_bytes()), int(pool.get_limit())
        return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free  # the driver knows of no limit
    while total > free:
        with Block(slice(0)):  # where memory may run out
            xp.cuda.alloc(total)  # and given back
            return total
        total //= 2
    return free


def device_number(array: Array) -> int:
    """Return the device of a CuPy array or sparse matrix, whose own ``device`` raises; ``data`` knows it."""
    return int(array.data.device.id)


def nearest_by_products(X: Array, centred: Any, squares: Any, rows: slice, k: int, xp: Any) -> tuple[Array, Array]:
    """Return distances and numbers (r, k) of the k nearest other points of some rows, rising.

    Matrix products of centred points, with ``squares`` their squared lengths, are off by a few roundings of the largest
    norm. They only rule points out: what they leave, k per row and hardly more, is measured again by differences.
    """
    own = xp.arange(rows.start, rows.stop)
    squared = squares[rows][:, None] + squares - 2 * (centred[rows] @ centred.T)
    squared[own - rows.start, own] = xp.inf
    # off by the slack at most: the true k-th is no further than this k-th and the slack, so it shows within two
    slack = (64 + 4 * X.shape[1]) * float(xp.finfo(X.dtype).eps) * squares.max()
    for selected in (lambda: xp.partition(squared, k - 1, axis=1), lambda: xp.sort(squared, axis=1)):
        i, j = xp.nonzero(squared <= selected()[:, k - 1 : k] + 2 * slack)
        counts = row_counts(i, len(own))
        # threads of CuPy's partition hand each other numbers without a barrier: a k-th that is too low would show here
        if int(counts.min()) >= k:
            break
    difference = X[i + rows.start] - X[j]
    distance = xp.sqrt((difference * difference).sum(axis=1))
    order = xp.argsort(distance)
    order = order[xp.argsort(i[order])]  # stable: by row, and within a row by distance
    first = order[(xp.cumsum(counts) - counts)[:, None] + xp.arange(k)]
    return distance[first], j[first]


@cache
def _kernels(number: int) -> Kernels:
    return Kernels(f"cuda:{number}")


class CudaBackend(Backend):
    """One CUDA device, through CuPy."""

    is_remote = True
    rows_a_tile = 4096

    def __init__(self, number: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.number = number
        self.device = f"cuda:{number}"
        self.xp = importlib.import_module("cupy")
        self.sparse = importlib.import_module("cupyx.scipy.sparse")
        self.kernels = _kernels(number)
        self.slow_double = self.xp.cuda.runtime.deviceGetAttribute(DOUBLE_RATIO, number) >= SLOW
        self.n_threads = 1

    def free_memory(self) -> int:
        with self.xp.cuda.Device(self.number):
            return free_bytes(self.xp)

    def free_cache(self) -> None:
        with self.xp.cuda.Device(self.number):
            for pool in {self.xp.get_default_memory_pool(), pool_in_use(self.xp)} - {None}:
                pool.free_all_blocks()

    def first_run(self) -> str:
        folder = Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")
        if folder.is_dir() and sum(1 for _ in folder.iterdir()) >= KEPT:
            return ""
        kept = f"{folder} (CUPY_CACHE_DIR names another folder, such as one that outlives a container)"
        return f"CuPy compiles its kernels for this GPU, which may take a while, once; it keeps them in {kept}"

    def block_bytes(self) -> int:
        # larger than on the host: a launch must keep every multiprocessor busy
        return max(16 << 20, min(512 << 20, self.memory_budget() // 16))

    def owns(self, array: Array) -> bool:
        mine = isinstance(array, self.xp.ndarray) or self.sparse.issparse(array)
        return mine and device_number(array) == self.number

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        with self.xp.cuda.Device(self.number):
            return self.xp.asarray(array, dtype=dtype)

    def to_host(self, array: Array) -> Array:
        if hasattr(array, "__cuda_array_interface__"):
            array = self.asarray(array)
        if not isinstance(array, self.xp.ndarray):
            return np.asarray(array)
        with self.xp.cuda.Device(self.number):  # CuPy waits for the stream of the current device, whichever computes it
            return array.get()

    def all_to_host(self, *arrays: Array) -> list[Array]:
        flat = self.xp.concatenate([array.astype(np.float64, copy=False).ravel() for array in arrays]).get()
        ends = np.cumsum([array.size for array in arrays])[:-1]
        return [part.reshape(array.shape) for part, array in zip(np.split(flat, ends), arrays, strict=True)]

    def nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        xp, n = self.xp, len(X)
        if X.shape[1] <= TREE_COLUMNS:
            found = CpuBackend().nearest(self.to_host(X), k)
            return self.asarray(found[0], dtype=X.dtype), self.asarray(found[1], dtype=np.int32)
        distances, neighbours = xp.empty((n, k), dtype=X.dtype), xp.empty((n, k), dtype=xp.int32)
        centred = X - column_sums(X) / n
        squares = (centred * centred).sum(axis=1)
        for block in self.blocks(n, 48.0 * n, "neighbours"):
            with block as rows:
                distances[rows], neighbours[rows] = nearest_by_products(X, centred, squares, rows, k, xp)
        return distances, neighbours

    def connected_components(self, matrix: Array) -> tuple[int, Array]:
        """Return the smallest row number that each row can reach.

        A row takes the smallest number of its neighbours, hands it to the row whose number it had, and jumps to where
        it points. Without handing it on, a long graph in random order would take as many rounds as it has steps across.
        """
        xp, parts = self.xp, (matrix.indptr, matrix.indices, matrix.data)
        if is_few(matrix.data):
            return CpuBackend().connected_components(matrix.get())
        with self.active():
            labels = xp.arange(matrix.shape[0], dtype=xp.int32)
            while True:
                before = labels
                for _ in range(LABEL_ROUNDS):
                    roots = self.kernels.smallest_labels(*parts, labels)
                    labels = roots[roots]
                if int((before - labels).max()) == 0:
                    if int(labels.max()) == 0:  # one part needs no numbers, nor what NVRTC would compile for them
                        return 1, labels
                    names, numbers = xp.unique(labels, return_inverse=True)
                    return len(names), numbers

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        cupyx = importlib.import_module("cupyx")
        with self.xp.cuda.Device(self.number), cupyx.errstate(linalg="raise"):
            yield

    def synchronise(self) -> None:
        self.xp.cuda.Device(self.number).synchronize()

    def complaints(self) -> list[Finding]:
        return self.kernels.complaints() if isinstance(self.kernels, Kernels) else []

    def describe(self) -> dict[str, Any]:
        properties = self.xp.cuda.runtime.getDeviceProperties(self.number)
        faults = getattr(self.kernels, "faults", {})
        return super().describe() | {
            "kernels": self.kernels.NAME,
            **({"kernel_fault": "; ".join(f"{name}: {why}" for name, why in faults.items())} if faults else {}),
            "gpu": properties["name"].decode(),
            "compute_capability": f"{properties['major']}.{properties['minor']}",
            "cupy": self.xp.__version__,
            "driver": int(self.xp.cuda.runtime.driverGetVersion()),
        }


@cache
def _device_backend(number: int) -> CudaBackend:
    return CudaBackend(number, reason="the input is a CuPy array")


def backend_on_device(array: Array) -> Backend:
    """Return the backend of the device on which an array lives: CuPy's own, or a tensor that CuPy can view."""
    if type(array).__module__.partition(".")[0] in ("cupy", "cupyx"):
        return _device_backend(device_number(array))
    try:
        runtime = importlib.import_module("cupy").cuda.runtime
    except (ImportError, OSError) as error:
        raise DeviceError(f"an array on a GPU needs CuPy ({one_line(error)})") from None
    pointer = array.__cuda_array_interface__["data"][0]  # asarray would first copy it to the current device
    return _device_backend(int(runtime.pointerGetAttributes(pointer).device) if pointer else runtime.getDevice())
