"""CuPy: whether CUDA can be used here, told in one sentence, and the backend that uses it."""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..errors import DeviceError, warn_caller
from .array import Array
from .base import Backend
from .dlpack import cuda_device, is_foreign, shared
from .kernels import agreement, plain
from .kernels.cuda import launch
from .nearest import nearest_by_products, without_self
from .out_of_memory import ran_out_of_memory

MIN_FREE = 256 << 20  # bytes of device memory below which a run is not begun
# what CUDA's status codes mean to somebody at a keyboard
STATUS = {
    3: ("forked", "CUDA does not start; after a fork it never does: start workers with 'spawn', or use device='cpu'"),
    100: ("no-device", "the NVIDIA driver finds no CUDA device; check nvidia-smi and CUDA_VISIBLE_DEVICES"),
    803: ("driver-mismatch", "the NVIDIA driver and its library have different versions; reboot, or reinstall it"),
    34: ("driver-missing", "only a stub of the CUDA driver library was found; install the NVIDIA driver"),
    209: ("device-too-old", "the GPU is too old for this CuPy; install cupy-cuda12x[ctk] or use another GPU"),
}
LIBRARIES = ("cublas", "cusolver", "cusparse")  # attributes of cupy.cuda, loaded when first asked for
LABEL_ROUNDS = 4  # between two looks at whether the labels of connected parts still change: each look waits
TREE_COLUMNS = 8  # points with more are compared all with all: a tree would look at most of them too
GUARD_TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
# kernels over the rows of a sparse matrix, and what they are compared with plain code together with: products and the
# like for each pair of types, those of the multilevel eigensolver all at once
LEVELS = (
    "symmetric_entries", "merge_columns", "merge_rows", "block_product", "restrict", "shifted_product", "descend",
    "turn", "column_products",
)  # fmt: skip
OVER_ROWS = dict.fromkeys(("spmm", "vector_product", "scaled_entries", "smallest_labels"), "rows")
OVER_ROWS |= dict.fromkeys(LEVELS, "levels") | dict.fromkeys(("near_pairs", "degrees"), "pairs")


class Probe(NamedTuple):
    """What looking for a CUDA device gave: ``detail`` is one sentence, with what to do where ``ok`` is false."""

    ok: bool
    code: str
    detail: str


def probe(number: int = 0) -> Probe:
    """Look for a CUDA device that works, without raising."""
    try:
        cupy = importlib.import_module("cupy")
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return Probe(False, "not-installed", "CuPy is not installed; pip install 'ies-gpu[cuda12]' brings it")
        return _broken(error)
    except Exception as error:  # a broken wheel can raise anything
        return _broken(error)
    for check in (_check_device, _check_libraries, _check_memory, _check_numbers):
        try:
            trouble = check(cupy, number)
        except Exception as error:
            trouble = Probe(False, "failed", f"a first CUDA call failed ({_short(error)}); run 'ies-gpu doctor'")
        if trouble is not None:
            return trouble
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
    return Probe(True, "ok", f"CUDA device {number} ({name}) works")


def _short(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__


def _broken(error: BaseException) -> Probe:
    how = "reinstall it with pip install --force-reinstall 'cupy-cuda12x[ctk]'"
    return Probe(False, "broken-install", f"importing CuPy failed ({_short(error)}); {how}")


def _check_device(cupy: Any, number: int) -> Probe | None:
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except Exception as error:
        status = getattr(error, "status", None)
        if status == 35:  # the same status for no driver and for an old one: only the version tells
            version = runtime.driverGetVersion()
            if version == 0:
                return Probe(False, "driver-missing", "no NVIDIA driver was found; install one, or use device='cpu'")
            have, need = (f"{v // 1000}.{v % 1000 // 10}" for v in (version, runtime.runtimeGetVersion()))
            detail = f"the NVIDIA driver supports CUDA {have}, CuPy needs {need}; update the driver"
            return Probe(False, "driver-too-old", detail)
        code, detail = STATUS.get(status or 0, ("failed", f"CUDA does not start ({_short(error)}); check nvidia-smi"))
        return Probe(False, code, detail)
    if count == 0:
        return Probe(False, *STATUS[100])
    if number >= count:
        return Probe(False, "no-such-device", f"there is no CUDA device {number}; the numbers go from 0 to {count - 1}")
    return None


def _check_libraries(cupy: Any, number: int) -> Probe | None:
    try:
        for name in LIBRARIES:
            getattr(cupy.cuda, name)
        importlib.import_module("cupyx.scipy.sparse.linalg")
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # ImportError, or pathfinder's own RuntimeError
        advice = "pip install 'cupy-cuda12x[ctk]' brings them"
        return Probe(False, "missing-library", f"CUDA libraries are missing ({_short(error)}); {advice}")
    return None


def _check_memory(cupy: Any, number: int) -> Probe | None:
    with cupy.cuda.Device(number):
        free = cupy.cuda.runtime.memGetInfo()[0]
    if free < MIN_FREE:
        need = f"{MIN_FREE >> 20} MB are needed to begin; close other programs on it"
        return Probe(False, "out-of-memory", f"CUDA device {number} has {free >> 20} MB free, {need}")
    return None


def _check_numbers(cupy: Any, number: int) -> Probe | None:
    """A small run of what is needed: elementwise, GEMM, sparse times dense, stacked eigh, repeats by array."""
    sparse = importlib.import_module("cupyx.scipy.sparse")
    with cupy.cuda.Device(number):
        a = np.arange(16.0).reshape(4, 4) / 7
        symmetric = a @ a.T + np.eye(4)
        device = cupy.asarray(symmetric)
        values = cupy.linalg.eigh(cupy.stack([device, 2 * device]))[0].get()
        product = (sparse.csr_matrix(device) @ (device @ cupy.exp(-device))).get()
        repeated = cupy.repeat(cupy.arange(3), cupy.asarray([2, 0, 1])).get()  # CuPy before 14.2 may refuse it
    expected = np.linalg.eigvalsh(symmetric)
    right = (
        np.allclose(values, [expected, 2 * expected])
        and np.allclose(product, symmetric @ symmetric @ np.exp(-symmetric))
        and repeated.tolist() == [0, 0, 2]
    )
    if not right:
        detail = f"CUDA device {number} computes wrongly on a 4 x 4 test; check the hardware"
        return Probe(False, "wrong-result", detail)
    return None


class Kernels:
    """The CUDA kernels of one device, compared with their plain twins before the first use; all else is plain code.

    Attributes
    ----------
    fault : str
        Why they are not used, if they are not.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.fault = ""
        self.compared: set[str] = set()  # precisions

    @property
    def NAME(self) -> str:  # noqa: N802 - as in the kernel modules
        return plain.NAME if self.fault else launch.NAME

    def __getattr__(self, name: str) -> Any:
        if name not in OVER_ROWS:
            return getattr(launch, name)

        def guarded(*arguments: Any) -> Any:
            """The kernel, if it agrees with plain code for arrays of these types."""
            group = OVER_ROWS[name]
            if group == "rows":
                group += "".join(f" {a.dtype}" for a in (arguments[2], arguments[3]) if a.dtype.kind == "f")
            return getattr(launch if self.trusted(group) else plain, name)(*arguments)

        return guarded

    def tangent_rows(
        self, indptr: Array, indices: Array, weights: Array, Y: Array, rows: Array, d: int
    ) -> tuple[Array, Array]:
        sound = self.trusted(str(Y.dtype)) and (weights.dtype == Y.dtype or self.trusted("mixed"))
        return (launch if sound else plain).tangent_rows(indptr, indices, weights, Y, rows, d)

    def score_bytes(self, q: int, s: int, d: int) -> float:
        return (plain if self.fault else launch).score_bytes(q, s, d)

    def score_block(self, U: Array, subsets: Array, totals: Array, best: Array, best_score: Array) -> None:
        sound = self.trusted(f"scores {min(U.shape[2], launch.MAX_DIM)} {U.dtype}")
        score = launch.score_block if sound else launch.score_in_parts
        score(U, subsets, totals, best, best_score)

    def tangent_bytes(self, m: int, d: int, degree: float) -> float:
        return (plain if self.fault else launch).tangent_bytes(m, d, degree)

    def scaled_bytes(self, degree: float) -> float:
        return (plain if self.fault else launch).scaled_bytes(degree)

    @property
    def complaint(self) -> str:
        """The fault as a sentence for people."""
        return self.fault and (
            f"the CUDA kernels are not used on {self.device}: {self.fault}. Plain code runs instead, slower; "
            "please report this with the output of 'ies-gpu doctor --selftest'"
        )

    def trusted(self, name: str) -> bool:
        """Whether the kernels agree with their twins in a precision; said once if they do not."""
        if self.fault or name in self.compared:
            return not self.fault
        xp = importlib.import_module("cupy")
        for kernel, difference in GUARDED[name.partition(" ")[0]].items():
            try:
                worst = difference(xp, name)
            except Exception as error:  # CompileException, a launch that failed, a driver that is too old for it
                if isinstance(error, MemoryError) or ran_out_of_memory(error):
                    raise
                self.fault = f"{kernel} does not run ({_short(error)})"
                break
            if worst > GUARD_TOLERANCE["float32" if name == "levels" or name.endswith("float32") else "float64"]:
                self.fault = f"{kernel} differs from plain code by {worst:.1e} on a small input"
                break
        self.compared.add(name)
        if self.fault:
            warn_caller(self.complaint)
        return not self.fault


def tangent_difference(xp: Any, precision: str) -> float:
    """How far ``tangent_rows`` is from plain code, in units of the largest eigenvalue, on 40 rows of up to 69."""
    dtype = "float64" if precision == "mixed" else precision
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 70, 40)
    counts[:2] = 0, 1
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = rng.integers(0, 40, indptr[-1]).astype(np.int32)
    Y = (rng.normal(size=(40, 20)) * 0.9 ** np.arange(20)).astype(dtype)
    weights = rng.random(indptr[-1]).astype("float32" if precision == "mixed" else dtype)
    on_host = (indptr, indices, weights, Y, rng.permutation(40))
    starts, places, entries, points, rows = (xp.asarray(array) for array in on_host)
    U, sigma = launch.tangent_rows(starts, places, entries, points, rows, 3)
    return agreement.tangent_rows(starts, places, entries, points, rows, U, sigma)


def score_difference(xp: Any, name: str) -> float:
    """How far ``score_block`` is from plain code, in volumes and mean scores, on 50 points and up to 252 sets."""
    _, d, dtype = name.split()
    bases = np.linalg.qr(np.random.default_rng(1).normal(size=(50, 10, int(d))))[0]
    U = xp.asarray(np.ascontiguousarray(bases, dtype=dtype))
    sets = xp.asarray(np.array(list(itertools.combinations(range(10), max(3, int(d)))), dtype=np.int32))
    totals, best, score = xp.zeros(len(sets)), xp.empty(50, dtype=xp.int32), xp.empty(50)
    launch.score_block(U, sets, totals, best, score)
    return agreement.score_block(U, sets, totals, best, score)


def small_matrix(xp: Any, dtype: str) -> tuple[Array, Array, Array]:
    """A CSR (80, 80) with rows of up to 69 positive entries; rows 0 and 1 have none and one."""
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 70, 80)
    counts[:2] = 0, 1
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = np.concatenate([np.sort(rng.choice(80, size=count, replace=False)) for count in counts])
    parts = indptr, columns.astype(np.int32), rng.random(indptr[-1]).astype(dtype)
    return tuple(xp.asarray(part) for part in parts)


def rows_difference(xp: Any, name: str) -> float:
    """How far products, scaled entries and labels are from plain code, for a matrix and vectors of some types."""
    stored, *others = name.split()[1:]
    matrix = small_matrix(xp, stored)
    rng = np.random.default_rng(3)
    if not others:  # labels, which are integers
        labels = xp.asarray(rng.permutation(80).astype(np.int32))
        found, expected = (module.smallest_labels(*matrix, labels) for module in (launch, plain))
        return float(xp.abs(found - expected).max())
    block = xp.asarray(rng.normal(size=(80, 21)), dtype=others[0])
    worst = max(agreement.spmm(*matrix, V, launch.spmm(*matrix, V)) for V in (block, xp.ascontiguousarray(block[:, 0])))
    if others[0] == "float64":
        left, right = (xp.asarray(rng.random(80)) for _ in range(2))
        entries = [matrix[2].copy() for _ in range(2)]
        for module, data in zip((launch, plain), entries, strict=True):
            module.scaled_entries(*matrix[:2], data, left, right)
        worst = max(worst, float(xp.abs(entries[0] - entries[1]).max()) * (1.0 if stored == "float64" else 1e-3))
    return worst


def levels_difference(xp: Any, name: str) -> float:
    """How far the loops of the multilevel eigensolver are from plain code, on 80 rows in 11 cells and 9 columns."""
    rng = np.random.default_rng(4)
    starts = xp.asarray(np.array([0, 1, 9, 17, 24, 32, 40, 41, 48, 60, 72, 80]))
    weights, R, P, shift = (
        xp.asarray(rng.random(shape).astype(np.float32)) for shape in ((80,), (80, 9), (80, 9), (9,))
    )
    shift += 100  # so that the shifted matrix is positive
    root, results = xp.asarray(1 + rng.random(80)), []
    indptr, indices, entries = small_matrix(xp, "float64")
    for module in (launch, plain):
        matrix = indptr, indices, module.symmetric_entries(indptr, indices, entries, root)
        merged = module.merge_columns(*matrix, starts, weights)
        Z, left, turned, image = xp.zeros_like(P), R.copy(), P.copy(), xp.empty_like(P)
        curvature = module.shifted_product(*matrix, shift, P, image)
        square = module.column_products(R, R)
        after = module.descend(Z, left, P, image, square, curvature)
        module.turn(left, turned, after, square)
        blocks = module.block_product(*matrix, P), module.block_product(*matrix, P, R, shift)
        smaller = module.merge_rows(*merged, starts, weights, 11)
        sums = module.restrict(starts, weights, R), curvature, after
        results.append((*merged, *smaller, *blocks, *sums, Z, left, turned, matrix[2], image))
    return max(float(xp.abs(a - b).max() / xp.abs(b).max()) for a, b in zip(*results, strict=True))


def pairs_difference(xp: Any, name: str) -> float:
    """How far the pairs of 150 points in three cells are from plain code, infinite where they are others."""
    Z = xp.asarray(np.sort(np.random.default_rng(5).random((150, 3)), axis=0))
    starts = xp.asarray(np.array([0, 50, 100, 150]))
    boxes = (xp.stack([Z[k : k + 50].min(axis=0) for k in (0, 50, 100)]), xp.stack([Z[k + 49] for k in (0, 50, 100)]))
    counts, columns, distances = plain.tile_graph(Z, Z, 0.2)
    found = launch.near_pairs(Z, starts, *boxes, 0.04, 0.2, True, 1.0, "float64")
    assert found is not None
    rows = xp.arange(150)
    ends, degrees = xp.concatenate([xp.zeros(1, dtype=xp.int64), xp.cumsum(counts)]), launch.degrees(Z, rows, 0.2)
    if not bool((found[0] == ends).all() & (degrees == counts).all()) or not bool((found[1] == columns).all()):
        return float("inf")
    return float(xp.abs(found[2] - distances).max())


GUARDED: dict[str, dict[str, Any]] = {
    "float64": {"tangent_rows": tangent_difference},
    "float32": {"tangent_rows": tangent_difference},
    "mixed": {"tangent_rows": tangent_difference},
    "scores": {"score_block": score_difference},
    "rows": {"csr": rows_difference},
    "levels": {"csr": levels_difference},
    "pairs": {"neighbours": pairs_difference},
}


def device_number(array: Array) -> int:
    """The device of a CuPy array or sparse matrix, whose own ``device`` raises; the ``data`` of either knows it."""
    return int(array.data.device.id)


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
        self.n_threads = 1

    def free_memory(self) -> int:
        with self.xp.cuda.Device(self.number):
            pool = self.xp.get_default_memory_pool()
            return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def free_cache(self) -> None:
        with self.xp.cuda.Device(self.number):
            self.xp.get_default_memory_pool().free_all_blocks()

    def block_bytes(self) -> int:
        # larger than on the host: a launch must keep every multiprocessor busy
        return max(16 << 20, min(512 << 20, self.memory_budget() // 16))

    def owns(self, array: Array) -> bool:
        mine = isinstance(array, self.xp.ndarray) or self.sparse.issparse(array)
        return mine and device_number(array) == self.number

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        with self.xp.cuda.Device(self.number):
            if is_foreign(array):  # a tensor of another library
                array = shared(array, np if cuda_device(array) is None else self.xp)
            return self.xp.asarray(array, dtype=dtype)

    def to_host(self, array: Array) -> Array:
        if is_foreign(array) or hasattr(array, "__cuda_array_interface__"):
            array = self.asarray(array)
        return array.get() if isinstance(array, self.xp.ndarray) else np.asarray(array)

    def all_to_host(self, *arrays: Array) -> list[Array]:
        flat = self.xp.concatenate([array.astype(np.float64, copy=False).ravel() for array in arrays]).get()
        ends = np.cumsum([array.size for array in arrays])[:-1]
        return [part.reshape(array.shape) for part, array in zip(np.split(flat, ends), arrays, strict=True)]

    def nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        xp, n = self.xp, len(X)
        distances, neighbours = xp.empty((n, k), dtype=X.dtype), xp.empty((n, k), dtype=xp.int32)
        low = X.shape[1] <= TREE_COLUMNS
        if low:
            tree = importlib.import_module("cupyx.scipy.spatial").KDTree(X)
        else:
            centred = X - X.mean(axis=0)
            squares = (centred * centred).sum(axis=1)
        for block in self.blocks(n, 40.0 * (k + 1) if low else 48.0 * n, "neighbours"):
            with block as rows:
                if low:
                    lengths, near = tree.query(X[rows], k + 1)
                    found = without_self(lengths, near, xp.arange(rows.start, rows.stop))
                else:
                    found = nearest_by_products(X, centred, squares, rows, k, xp)
                distances[rows], neighbours[rows] = found
        return distances, neighbours

    def eigsh(
        self, operator: Any, count: int, start: Array, tol: float, size: int, max_products: int
    ) -> tuple[Array, Array]:
        linalg = importlib.import_module("cupyx.scipy.sparse.linalg")
        # an operator and not a matrix: S is not stored, and P may be in float32
        wrapped = linalg.LinearOperator((operator.n, operator.n), matvec=operator, dtype=np.dtype("float64"))
        return linalg.eigsh(wrapped, k=count, which="LA", v0=start, ncv=size, tol=tol, maxiter=max_products)

    def connected_components(self, matrix: Array) -> tuple[int, Array]:
        """Smallest reachable number, by taking the neighbours' smallest and jumping to where that points."""
        xp, parts = self.xp, (matrix.indptr, matrix.indices, matrix.data)
        with self.active():
            labels = xp.arange(matrix.shape[0], dtype=xp.int32)
            while True:
                before = labels
                for _ in range(LABEL_ROUNDS):
                    smaller = self.kernels.smallest_labels(*parts, labels)
                    labels = smaller[smaller]
                if bool((labels == before).all()):
                    names, numbers = xp.unique(labels, return_inverse=True)
                    return len(names), numbers

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        cupyx = importlib.import_module("cupyx")
        with self.xp.cuda.Device(self.number), cupyx.errstate(linalg="raise"):
            yield

    def synchronise(self) -> None:
        self.xp.cuda.Device(self.number).synchronize()

    def complaints(self) -> list[str]:
        complaint = getattr(self.kernels, "complaint", "")
        return [complaint] if complaint else []

    def describe(self) -> dict[str, Any]:
        properties = self.xp.cuda.runtime.getDeviceProperties(self.number)
        fault = getattr(self.kernels, "fault", "")
        return super().describe() | {
            "kernels": self.kernels.NAME,
            **({"kernel_fault": fault} if fault else {}),
            "gpu": properties["name"].decode(),
            "compute_capability": f"{properties['major']}.{properties['minor']}",
            "cupy": self.xp.__version__,
            "driver": int(self.xp.cuda.runtime.driverGetVersion()),
        }


@cache
def _device_backend(number: int) -> CudaBackend:
    return CudaBackend(number, reason="the input is a CuPy array")


def forget_devices() -> None:
    """Forget what was found out about the devices, so that the next use looks again."""
    _device_backend.cache_clear()
    _kernels.cache_clear()


def backend_on(number: int) -> Backend:
    """The backend of a device on which a tensor of another library lives, which only CuPy can see."""
    try:
        importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(f"an array on a GPU needs CuPy ({_short(error)})") from None
    return _device_backend(number)


def backend_of_cupy(array: Array) -> Backend:
    """The backend of the device on which a CuPy array (or sparse matrix) lives, or a tensor that CuPy can view."""
    if type(array).__module__.partition(".")[0] not in ("cupy", "cupyx"):  # of PyTorch or JAX: seen without a copy
        try:
            array = importlib.import_module("cupy").asarray(array)
        except ImportError as error:
            raise DeviceError(f"an array on a GPU needs CuPy ({_short(error)})") from None
    return _device_backend(device_number(array))
