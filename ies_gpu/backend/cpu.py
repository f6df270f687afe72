"""The host: NumPy and SciPy, with Numba kernels where Numba is installed, and what the machine gives this process.

That is memory, processors, threads of BLAS, and locks that a fork must not leave taken: a child that finds one taken,
by a thread that it does not have, waits forever. Containers, Slurm jobs and systemd units set limits by control groups
(version 2): that of any group above the process holds. In a container ``/proc/self/cgroup`` often names no path.
"""

import contextlib
import ctypes
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.spatial
import threadpoolctl
from threadpoolctl import ThreadpoolController

from .array import Array
from .base import Backend, cached_property
from .kernels import plain

ROOT = Path("/")  # of the file system
COMPILING = "compiling kernels (neighbours, products, tangents, scores): about ten seconds, only the first time"


def available_memory(root: Path = ROOT) -> int:
    """Return the bytes this process could still take, by the kernel or the tightest limit; cached files are free."""
    sizes = []
    with contextlib.suppress(OSError, ValueError, StopIteration, IndexError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        sizes.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    for group in _groups(root):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
            sizes.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
            with contextlib.suppress(OSError, ValueError, IndexError):
                pairs = (line.split() for line in (group / "memory.stat").read_text().splitlines())
                sizes[-1] += next((int(pair[1]) for pair in pairs if pair[:1] == ["inactive_file"]), 0)
    if not sizes:  # no Linux: total memory is the best that the standard library knows
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 << 30)
    return max(min(sizes), 64 << 20)


def available_threads(root: Path = ROOT) -> int:
    """Return the threads this process may use: affinity, cgroup quota or ``OMP_NUM_THREADS``, whichever is least."""
    counts = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    for group in _groups(root):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = map(int, (group / "cpu.max").read_text().split())
            counts.append(max(1, quota // period))
    with contextlib.suppress(KeyError, ValueError):
        counts.append(max(1, int(os.environ["OMP_NUM_THREADS"].split(",")[0])))
    return min(counts)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the group of this process, and those above it."""
    with contextlib.suppress(OSError):  # no Linux
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                inside = Path(line[3:].lstrip("/"))
                yield from (root / "sys/fs/cgroup" / group for group in (inside, *inside.parents))


def peak_memory() -> int:
    """Return the most memory that this process has held so far, in bytes (0 if the system does not say)."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def resident_memory() -> int:
    """Return the memory that this process holds now, in bytes; or the peak if the system reports only that."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_memory()


def for_any_thread() -> None:
    """Let any thread change BLAS's number: since 3.7 threadpoolctl ignores all but the one that did it first."""
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread()


class SingleThread:
    """The runs at work, by thread, and the limit that they share: one thread for BLAS until the last of them ends.

    They overlap in any order: if each restored what it had found, the last would leave the one thread of the first.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # entered again by a signal's handler, or by a fork in the same thread
        self.runs: Counter[int] = Counter()
        self.limit: Any = None
        self.loaded, self.libraries = 0, ThreadpoolController()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep BLAS to one thread."""
        me = threading.get_ident()
        with self.lock:
            self.runs[me] += 1
            if self.limit is None:
                if self.loaded != len(sys.modules):  # a look for libraries takes as long as many a task
                    self.loaded, self.libraries = len(sys.modules), ThreadpoolController()
                self.limit = self.libraries.limit(limits=1, user_api="blas")
                for_any_thread()  # the last run may end in another one
        try:
            yield
        finally:
            with self.lock:
                self.runs -= Counter([me])  # without those at zero
                self.restore_at_the_end()

    def restore_at_the_end(self) -> None:
        """Give BLAS its threads back if no run is left."""
        if not self.runs and self.limit is not None:
            self.limit.restore_original_limits()
            for_any_thread()
            self.limit = None


single_thread = SingleThread()
loading = threading.RLock()  # held while the kernels are imported: Python's own locks on modules do not survive a fork
_taken = threading.local()  # two threads may fork at once, and each releases its own


def before_fork() -> None:
    """Take the locks, in the order in which a thread that loads kernels takes them."""
    compiling = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    _taken.process = os.getpid()
    _taken.locks = [lock for lock in (loading, compiling, single_thread.lock) if lock is not None]
    for lock in _taken.locks:
        lock.acquire()


def after_fork() -> None:
    """Release them; in a child, BLAS has its threads back if only other threads were in a run."""
    if os.getpid() != _taken.process:
        single_thread.runs &= Counter({threading.get_ident(): sys.maxsize})
        single_thread.restore_at_the_end()
    for lock in reversed(_taken.locks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)


def load_kernels() -> Any:
    """Return the Numba kernels, or the plain ones without Numba (or with ``IES_GPU_KERNELS=plain``)."""
    asked = os.environ.get("IES_GPU_KERNELS", "")
    if asked not in ("", "plain"):
        raise ValueError(f"the environment variable IES_GPU_KERNELS must be 'plain' or empty, got {asked!r}")
    if asked:
        return plain
    try:
        with loading:
            from .kernels import fused
    except ImportError:
        return plain
    return fused


def compiles_first() -> bool:
    """Return whether the Numba kernels are still to be compiled: nothing of theirs is in the cache on disk."""
    kernels = load_kernels()
    if kernels is plain or not hasattr(kernels.products.multiply_block, "stats"):  # NUMBA_DISABLE_JIT
        return False
    folder = kernels.products.multiply_block.stats.cache_path
    return folder is None or not any(Path(folder).glob("*.nbi"))


class CpuBackend(Backend):
    """The host."""

    device = "cpu"
    xp = np
    sparse = scipy.sparse
    rows_a_tile = 512

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.n_threads = self.n_threads or available_threads()

    @cached_property
    def kernels(self) -> Any:  # loaded when first used: Numba takes its time
        return load_kernels()

    def free_memory(self) -> int:
        return available_memory()

    def free_cache(self) -> None:
        # only glibc keeps so much, and has a way to give it back
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)

    def owns(self, array: Array) -> bool:
        return isinstance(array, np.ndarray) or scipy.sparse.issparse(array)

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        return np.asarray(array, dtype=dtype)

    def to_host(self, array: Array) -> Array:
        return self.asarray(array)

    def nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        distances, neighbours = scipy.spatial.KDTree(X).query(X, k + 1, workers=self.n_threads)
        # the point itself need not come first among equal points, nor be there at all
        other = neighbours != np.arange(len(X))[:, None]
        other[other.all(axis=1), -1] = False
        return distances[other].reshape(len(X), k), neighbours[other].reshape(len(X), k)

    def connected_components(self, matrix: Array) -> tuple[int, Array]:
        if not (matrix.data > 0).all():  # a weight that has rounded to zero joins nothing
            matrix = matrix.copy()
            matrix.eliminate_zeros()
        # SciPy looks at the pattern alone, but would copy all entries to float64: one number stands for all of them.
        # Of a symmetric matrix strong parts are the parts, and need no transposed copy of it: a third of the time.
        ones = np.broadcast_to(np.float64(1), matrix.nnz)
        pattern = scipy.sparse.csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
        return scipy.sparse.csgraph.connected_components(pattern, directed=True, connection="strong")

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        # One BLAS thread: with more, OpenBLAS spins between the kernels' own threads and makes tall-and-skinny
        # products many times slower. The kernels use n_threads.
        kernels = self.kernels  # before the libraries are looked for, since it loads some
        with single_thread.held(), kernels.threads(self.n_threads):
            yield

    def first_run(self) -> str:
        return COMPILING if compiles_first() else ""

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"kernels": self.kernels.NAME, "n_threads": self.n_threads}
