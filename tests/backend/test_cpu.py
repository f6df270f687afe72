"""Memory, processors and threads of this process, and what a fork finds: the same bits, no lock taken for ever."""

import mmap
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import ies_gpu
from ies_gpu.backend import cached_property, cpu, get_backend
from ies_gpu.backend.cpu import for_any_thread, single_thread
from tests.thorough import first_of

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
GB = 1 << 30
OPEN = {"memory.max": "max", "memory.current": str(GB), "memory.stat": "anon 5\ninactive_file 0\n"}
JOB = "system.slice/slurmstepd.scope/job_7"


def limited(size, **more):
    return OPEN | {"memory.max": str(int(size * GB))} | {name.replace("_", "."): text for name, text in more.items()}


@pytest.mark.parametrize(
    ("membership", "groups", "memory", "count"),
    [
        pytest.param("0::/\n", {"": limited(3, cpu_max="190000 100000")}, 2, 1, id="a container sees itself as root"),
        pytest.param("0::/docker/4f1c\n", {"": limited(3)}, 2, None, id="the path of the host need not exist"),
        pytest.param(f"0::/{JOB}/step/task\n", {f"{JOB}/step/task": OPEN, JOB: limited(5)}, 4, None, id="of any above"),
        pytest.param(
            f"0::/{JOB}/step\n", {f"{JOB}/step": limited(2, cpu_max="50000 100000"), JOB: limited(5)}, 1, 1, id="least"
        ),
        pytest.param(
            "what is this\n0::/\n",
            {"": {"memory.max": str(3 * GB), "memory.current": str(GB), "cpu.max": "100000 0"}}, 2, None,
            id="what cannot be read does not hide a limit",
        ),
        pytest.param(
            "0::/a\n", {"a": limited(2, memory_stat=f"anon 9\ninactive_file {GB // 2}\n")}, 1.5, None,
            id="files in memory give way",
        ),
        pytest.param("0::/\n", {"": OPEN | {"cpu.max": "max 100000"}}, None, None, id="no limit"),
        pytest.param(None, {}, None, None, id="no Linux"),
    ],
)  # fmt: skip
def test_the_tightest_limit_above_the_process_holds(membership, groups, memory, count, tmp_path, monkeypatch):
    for group, files in groups.items():
        place = tmp_path / "sys/fs/cgroup" / group
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(text + "\n")
    if membership is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(membership)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    nowhere = tmp_path / "nowhere"
    assert cpu.available_memory(tmp_path) == (memory * GB if memory else cpu.available_memory(nowhere))
    assert cpu.available_threads(tmp_path) == (count or cpu.available_threads(nowhere))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc as on Linux")
def test_an_array_that_is_filled_is_held_and_the_peak_stays_when_it_is_gone():
    before = cpu.resident_memory()
    with mmap.mmap(-1, 32 << 20) as fresh:  # of NumPy's memory, some may have been held before
        fresh.write(bytes(32 << 20))
        held = cpu.resident_memory() - before
    assert held > 28 << 20 and cpu.peak_memory() - before > 28 << 20  # Linux counts a little late


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def other_run():
    """A run in another thread, where BLAS has two: what starts it, and what ends it and says what it saw last."""
    assert (np.eye(2) @ np.eye(2)).any()  # loads BLAS
    limit = threadpool_limits(2, user_api="blas")
    for_any_thread()
    if blas_threads() != {2}:
        pytest.skip("this BLAS does not use two threads")
    begun, ended, seen = threading.Event(), threading.Event(), []

    def run():
        with get_backend("cpu").active():
            begun.set()
            ended.wait(60)
            seen.append(blas_threads())

    other = threading.Thread(target=run)
    yield lambda: (other.start(), begun.wait(60)), lambda: (ended.set(), other.join(), seen)[-1]
    ended.set()
    other.join()
    limit.restore_original_limits()
    for_any_thread()


def test_the_last_run_gives_back_what_the_first_found(other_run):
    """Two runs that overlap, the first of which ends first, by an error."""
    start, end = other_run
    with pytest.raises(ZeroDivisionError), get_backend("cpu").active():
        start()
        with get_backend("cpu").active():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        1 / 0  # noqa: B018
    assert end() == [{1}]  # also while it is alone
    assert blas_threads() == {2}


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_does_not_wait_for_threads_that_it_does_not_have(other_run):
    other_run[0]()

    def child_has(wanted):
        child = os.fork()
        if child == 0:
            os._exit(0 if blas_threads() == {wanted} and single_thread.lock.acquire(timeout=60) else 3)
        return os.waitpid(child, 0)[1] == 0

    assert child_has(2)
    with single_thread.held():  # the thread that forks is in a run itself
        assert child_has(1)


def run_script(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        env=os.environ | {"IES_GPU_KERNELS": "", "IES_GPU_DEVICE": "cpu"} | environment,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


CHILDREN = """
import hashlib, multiprocessing, os, sys
from ies_gpu import datasets, select_coordinates
X = datasets.load("D1", n_samples=1500).X

def job(m):
    found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.7, n_components=m)
    parts = (found.coordinates, found.eigenvalues, found.regrets, found.bases)
    return found.subset, hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

def children(sizes):
    if sys.argv[1] == "Pool":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map_async(job, sizes).get(timeout=600)
    import joblib
    return joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(job)(m) for m in sizes)

sizes = [10, 8]
expected = [job(m) for m in sizes]
assert children(sizes) == expected
print(expected)
"""
SEEN: set[str] = set()  # what parents found, whatever their number of threads


@forks
@pytest.mark.parametrize("case", first_of("Pool 2", "Pool 1", "joblib 2"))
def test_a_forked_child_computes_the_same_bits(case):
    way, threads = case.split()
    SEEN.add(run_script(CHILDREN, way, OMP_NUM_THREADS=threads))
    assert len(SEEN) == 1


# handlers of forks run in reverse order: the event is set before those of the package
WAITING = """
import os, signal, sys, threading, time
inside, forking = threading.Event(), threading.Event()

def wait():
    inside.set()
    forking.wait()
    time.sleep(0.1)

{setting}
os.register_at_fork(before=forking.set)
other = threading.Thread(target=busy)
other.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(300)  # Numba's lock is deaf to all but a signal that ends the process
    in_child()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
other.join()
"""
LOADING = """
from ies_gpu.backend.cpu import load_kernels as busy
in_child = busy

class Slow:
    def find_spec(self, name, *_):
        if name == "ies_gpu.backend.kernels.fused.tangent" and not inside.is_set():
            wait()

sys.meta_path.insert(0, Slow())
"""
COMPILING = """
import numba
from numba.core.compiler_lock import global_compiler_lock
from ies_gpu.backend import get_backend

def busy():
    with get_backend("cpu").active(), global_compiler_lock:
        wait()

def in_child():
    assert numba.njit(lambda x: x + 1)(1) == 2
    with get_backend("cpu").active():
        pass
"""


@forks
@pytest.mark.parametrize("setting", [LOADING, COMPILING], ids=["loading", "compiling"])
def test_a_fork_waits_for_what_another_thread_compiles_or_loads(setting):
    """The child would find Numba's lock, or that of a module, taken by a thread that it does not have."""
    pytest.importorskip("numba")
    run_script(WAITING.replace("{setting}", setting))


def test_two_threads_may_fork_at_once():
    """The other takes the last lock before the first is done with its own, and each releases those that it took."""
    cpu.before_fork()
    other = threading.Thread(target=lambda: (cpu.before_fork(), cpu.after_fork()))
    other.start()
    cpu.after_fork()
    other.join(60)
    assert not other.is_alive() and single_thread.lock.acquire(blocking=False)
    single_thread.lock.release()


def test_a_property_that_is_being_computed_holds_no_lock():
    """That of Python 3.11 is one for all instances of a class, and a child of a fork would find it taken for ever."""
    assert not hasattr(cached_property(len).lock, "acquire")
    files = sorted(Path(ies_gpu.__file__).parent.rglob("*.py"))
    python_s = re.compile(r"^from functools import .*cached_property", re.M)
    assert len(files) > 100 and [path for path in files if python_s.search(path.read_text())] == []
