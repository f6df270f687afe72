"""What kernel modules share: one interface, threads, a cache, and nothing that is compiled on import."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ies_gpu
from ies_gpu.backend.compare import Kernels
from ies_gpu.backend.kernels import INTERFACE, plain
from ies_gpu.backend.kernels.cuda import launch

numba = pytest.importorskip("numba")
fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
tasks = pytest.importorskip("ies_gpu.backend.kernels.fused.tasks")
ROOT = Path(__file__).resolve().parents[2]


def parameters(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("kernels", [fused, launch, Kernels("cuda:0")], ids=["fused", "cuda", "guarded"])
def test_kernels_take_the_arguments_of_plain(kernels):
    for name in INTERFACE:
        assert parameters(getattr(kernels, name)) == parameters(vars(plain)[name]), name
    with pytest.raises(AttributeError, match="no kernel 'leap'"):
        kernels.leap  # noqa: B018


def test_nothing_outside_the_interface_is_asked_for():
    asked = set()
    for path in Path(ies_gpu.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
                asked |= {node.attr} if owner == "kernels" else set()
    asked -= {"NAME", "__file__", "complaints", "products", "ahead"}  # for doctor; the last two for compiling
    asked -= {"numbers"}  # which the kernels of a cluster count
    assert asked == set(INTERFACE)


def test_threads_are_set_bounded_and_restored():
    before = tasks.thread_count()
    with pytest.raises(RuntimeError, match="stop"), fused.threads(1):
        assert tasks.thread_count() == 1
        raise RuntimeError("stop")
    assert tasks.thread_count() == before
    with fused.threads(10_000):
        assert tasks.thread_count() == numba.config.NUMBA_NUM_THREADS
    with fused.threads(0):
        assert tasks.thread_count() == 1


def test_a_run_takes_no_lock_that_a_fork_could_leave_held(monkeypatch):
    """Numba's number of threads is behind a lock that forked processes share: one that was taken at a fork stays so."""

    def refuse(*_):
        pytest.fail("Numba's lock was asked for")

    monkeypatch.setattr("numba.np.ufunc.parallel._launch_threads", refuse)
    X = ies_gpu.datasets.load("D1", n_samples=500).X
    given = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.8, "n_components": 8, "device": "cpu"}
    assert ies_gpu.select_coordinates(X, **given).diagnostics["kernels"] == "numba"


def test_an_error_in_one_thread_is_raised_and_ends_the_others():
    done = []

    def task(first, last):
        done.append(first)
        raise ValueError("broken")

    with fused.threads(2), pytest.raises(ValueError, match="broken"):
        tasks.in_threads(task, 1000, 1)
    assert len(done) < 1000


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout


SMALL = """
import numpy as np
from ies_gpu.backend.kernels import fused
from ies_gpu.backend.kernels.fused import neighbours, order, products, scores, tangent
modules = (neighbours, order, products, scores, tangent)
compiled = [f for m in modules for f in vars(m).values() if hasattr(f, "signatures")]
assert len(compiled) > 10 and not any(f.signatures for f in compiled), "import compiles"
found = fused.kd_order(np.arange(8.0)[::-1].reshape(-1, 1), 3)
assert found.tolist() == list(range(8))[::-1], found
print(sum(order.cut_cells.stats.cache_hits.values()))
"""


def test_import_compiles_nothing_and_the_cache_is_used(tmp_path):
    assert run_python(SMALL, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["0"]
    assert list(tmp_path.rglob("*.nbi"))
    assert run_python(SMALL, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["1"]


@pytest.mark.thorough
def test_kernels_work_where_no_folder_can_be_written():
    nowhere = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
    assert run_python(nowhere + SMALL).split() == ["0"]
