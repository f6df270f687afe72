"""A process that is forked after a fit works as its parent does, and processes agree whatever their threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ies_gpu
from ies_gpu.backend.forks import cached_property
from tests.thorough import first_of

SCRIPT = """
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
    if sys.argv[1] == "joblib":
        import joblib
        return joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(job)(m) for m in sizes)
    for m in sizes:  # os.fork
        child = os.fork()
        if child == 0:
            os._exit(0 if job(m) == expected[m] else 3)
        assert os.waitpid(child, 0)[1] == 0
    return [expected[m] for m in sizes]

sizes = [10, 8]
expected = {m: job(m) for m in sizes}
assert children(sizes) == [expected[m] for m in sizes]
print(expected)
"""
SEEN: set[str] = set()  # what parents found, whatever their number of threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("case", first_of("Pool 2", "Pool 1", "joblib 2", "os.fork 2"))
def test_a_forked_child_computes_the_same_bits(case):
    way, threads = case.split()
    if way == "joblib":
        pytest.importorskip("joblib")
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "IES_GPU_DEVICE": "cpu",
        "IES_GPU_KERNELS": "",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, way],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    SEEN.add(done.stdout)
    assert len(SEEN) == 1


def test_no_kernel_uses_openmp():
    """Numba's ``prange`` takes GNU OpenMP where that is installed, which kills a forked process."""
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    for module in (fused.multilevel, fused.neighbours, fused.order, fused.products, fused.scores, fused.tangent):
        loops = [value for value in vars(module).values() if hasattr(value, "targetoptions")]
        assert not any(loop.targetoptions.get("parallel") for loop in loops)


WHILE_LOADING = """
import os, signal, sys, threading, time
from ies_gpu.backend.cpu import load_kernels
inside, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)  # handlers run in reverse order: before those of the package

class Slow:
    def find_spec(self, name, *_):
        if name == "ies_gpu.backend.kernels.fused.tangent" and not inside.is_set():
            inside.set()
            forking.wait()
            time.sleep(0.1)

sys.meta_path.insert(0, Slow())
other = threading.Thread(target=load_kernels)
other.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(300)
    load_kernels()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
other.join()
"""

WHILE_COMPILING = """
import os, signal, threading, time
import numba
from numba.core.compiler_lock import global_compiler_lock
from ies_gpu.backend import get_backend
inside, forking = threading.Event(), threading.Event()
os.register_at_fork(before=forking.set)  # handlers run in reverse order: before those of the package

def compiling():
    with get_backend("cpu").active(), global_compiler_lock:
        inside.set()
        forking.wait()
        time.sleep(0.1)

other = threading.Thread(target=compiling)
other.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(300)  # Numba's lock is deaf to all but a signal that ends the process
    assert numba.njit(lambda x: x + 1)(1) == 2
    with get_backend("cpu").active():
        pass
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
other.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("script", [WHILE_COMPILING, WHILE_LOADING], ids=["compiling", "loading"])
def test_a_fork_waits_for_what_another_thread_compiles_or_loads(script):
    """The child would find Numba's lock, or that of a module, taken by a thread that it does not have."""
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        env=os.environ | {"IES_GPU_KERNELS": ""}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


WHILE_FITTING = """
import os, signal, threading, time
from ies_gpu import datasets, select_coordinates
X = datasets.load("D1", n_samples=900).X

def fit():
    return select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.8, n_components=8, device="cpu").subset

expected, done = fit(), []

def fits():
    while not done:
        fit()

other = threading.Thread(target=fits)
other.start()
try:
    for k in range(12):
        time.sleep(0.013 * k)
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            os._exit(0 if fit() == expected else 3)
        assert os.waitpid(child, 0)[1] == 0, k
finally:
    done.append(True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_another_thread_is_in_a_fit():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WHILE_FITTING],
        env=os.environ | {"IES_GPU_KERNELS": ""},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_property_that_is_being_computed_holds_no_lock():
    """That of Python 3.11 is one for all instances of a class, and a child of a fork would find it taken for ever."""
    entered, go_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def value(self) -> int:
            if self.waits:
                entered.set()
                go_on.wait(60)
            return 7

    first, second, found = Slow(True), Slow(False), []
    threads = [threading.Thread(target=lambda one=one: found.append(one.value), daemon=True) for one in (first, second)]
    threads[0].start()
    assert entered.wait(60)
    threads[1].start()
    threads[1].join(60)
    assert found == [7]
    go_on.set()
    threads[0].join(60)
    assert found == [7, 7] and first.value == 7


def test_no_property_of_the_package_has_such_a_lock():
    files = sorted(Path(ies_gpu.__file__).parent.rglob("*.py"))
    wrong = [
        str(path) for path in files if re.search(r"^from functools import .*cached_property", path.read_text(), re.M)
    ]
    assert len(files) > 100 and wrong == []
