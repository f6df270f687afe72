"""What kernel modules share: one interface, threads, a cache, and nothing that is compiled on import."""

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


def parameters(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("kernels", [fused, launch, Kernels("cuda:0")], ids=["fused", "cuda", "guarded"])
def test_kernels_take_the_arguments_of_plain(kernels):
    for name in INTERFACE:
        assert parameters(getattr(kernels, name)) == parameters(vars(plain)[name]), name
    with pytest.raises(AttributeError):
        kernels.leap  # noqa: B018


def test_threads_are_set_bounded_and_restored():
    before = tasks.thread_count()
    for asked, given in ((1, 1), (10_000, numba.config.NUMBA_NUM_THREADS), (0, 1)):
        with pytest.raises(RuntimeError, match="stop"), fused.threads(asked):
            assert tasks.thread_count() == given
            raise RuntimeError("stop")
    assert tasks.thread_count() == before


def test_an_error_in_one_thread_is_raised_and_ends_the_others():
    done = []

    def task(first, last):
        done.append(first)
        raise ValueError("broken")

    with fused.threads(2), pytest.raises(ValueError, match="broken"):
        tasks.in_threads(task, 1000, 1)
    assert len(done) < 1000


def run_python(code, **environment):
    environment = os.environ | {"PYTHONPATH": str(Path(ies_gpu.__file__).parents[1])} | environment
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout


SMALL = """
import numpy as np
from ies_gpu.backend.kernels import fused
from ies_gpu.backend.kernels.fused import neighbours, products, tangent
modules = (neighbours, products, tangent)
compiled = [f for m in modules for f in vars(m).values() if hasattr(f, "signatures")]
assert len(compiled) > 10 and not any(f.signatures for f in compiled), "import compiles"
found = fused.kd_order(np.arange(8.0)[::-1].reshape(-1, 1), 3)
assert found.tolist() == list(range(8))[::-1], found
print(sum(neighbours.cut_cells.stats.cache_hits.values()))
"""


def test_import_compiles_nothing_and_the_cache_is_used_where_there_is_one(tmp_path):
    assert run_python(SMALL, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["0"]
    assert list(tmp_path.rglob("*.nbi"))
    assert run_python(SMALL, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["1"]
    nowhere = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
    assert run_python(nowhere + SMALL).split() == ["0"]


WHOLE = """
import hashlib
from ies_gpu import datasets, select_coordinates
X = datasets.load("D1", n_samples=300).X
found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.3, n_components=10, device="cpu")
parts = found.coordinates, found.bases, found.singular_values, found.ranking.scores, found.regrets
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""


@pytest.mark.slow  # compiles all kernels
def test_fresh_and_cached_kernels_give_the_same_bits(tmp_path):
    """A helper that was called, not inlined, was once another copy of it in a fresh process than in a cached one."""
    fresh = run_python(WHOLE, NUMBA_CACHE_DIR=str(tmp_path))
    assert list(tmp_path.rglob("*.nbc"))
    assert fresh == run_python(WHOLE, NUMBA_CACHE_DIR=str(tmp_path))
