"""Compiled code: the same bits fresh or from the cache, and compiling in another process."""

from __future__ import annotations

import signal

import pytest

pytest.importorskip("numba")

from ies_gpu.backend.kernels.fused import ahead

from .test_kernel_modules import run_python

KERNELS = """
import hashlib
import numpy as np
from ies_gpu.backend.kernels import fused

rng = np.random.default_rng(0)
n, m = 200, 20
counts = rng.integers(5, 60, n)
indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
indices, weights = rng.integers(0, n, indptr[-1]).astype(np.int32), rng.random(indptr[-1])
Y = rng.normal(size=(n, m))
U, sigma = fused.tangent_rows(indptr, indices, weights, Y, np.arange(n), 2)
totals, best, score = np.zeros(3), np.zeros(n, dtype=int), np.zeros(n)
fused.score_block(U, np.array([[0, 1], [0, 2], [3, 4]]), totals, best, score)
results = [U, sigma, totals, score]
results += [fused.spmm(indptr, indices, weights, V) for V in (Y, Y[:, 0])]
results += list(fused.tile_graph(Y[:, :5], Y[:, :5], 2.0))
for a in results:
    print(hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest())
"""


@pytest.mark.slow  # compiles four kernels
def test_fresh_and_cached_kernels_give_the_same_bits(tmp_path):
    """A helper that was called, not inlined, was once another copy of it in a fresh process than in a cached one."""
    fresh = run_python(KERNELS, NUMBA_CACHE_DIR=str(tmp_path))
    assert list(tmp_path.rglob("*.nbc"))
    assert fresh == run_python(KERNELS, NUMBA_CACHE_DIR=str(tmp_path))


AHEAD = """
from ies_gpu.backend.kernels.fused import ahead, scores, tangent
ahead.begin(2)
assert ahead._others, "nothing was begun in an empty cache"
ahead.finish()
ahead.compile_late()
names = "cometric_task", "tridiagonal_task", "values_task", "inverse_task", "vectors_task"
tasks = *(getattr(tangent, name) for name in names), scores.score_task
print(*(sum(task.stats.cache_hits.values()) for task in tasks))
ahead.begin(2)
assert not ahead._others, "nothing is left to compile"
"""


@pytest.mark.slow  # compiles six kernels
def test_what_another_process_compiled_is_not_compiled_again(tmp_path):
    assert run_python(AHEAD, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["1"] * 6


@pytest.fixture
def cold(monkeypatch):
    monkeypatch.setattr(ahead, "is_cold", lambda: True)
    monkeypatch.setattr(ahead, "_others", {})
    monkeypatch.setattr(ahead, "PATIENCE", 600.0)
    yield monkeypatch
    ahead.stop()


def test_one_thread_is_for_the_run_itself(cold):
    ahead.begin(1)
    assert not ahead._others


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "pass"])
def test_a_process_that_compiles_nothing_is_no_error(cold, code):
    cold.setattr(ahead, "CODE", code)
    ahead.begin(2)
    (other,) = ahead._others.values()
    ahead.finish()
    assert other.returncode is not None and not ahead._others


def test_a_process_that_hangs_is_ended(cold):
    cold.setattr(ahead, "CODE", "import time; time.sleep(600)")
    cold.setattr(ahead, "PATIENCE", 0.2)
    ahead.begin(2)
    (other,) = ahead._others.values()
    ahead.finish()
    assert other.returncode != 0 and not ahead._others


def test_ctrl_c_ends_the_other_process_too(cold):
    cold.setattr(ahead, "CODE", "import time; time.sleep(600)")
    ahead.begin(2)
    (other,) = ahead._others.values()
    wait = other.wait
    cold.setattr(other, "wait", lambda *patience: wait() if not patience else signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        ahead.finish()
    assert other.returncode != 0 and not ahead._others


def test_no_python_to_start_is_no_error(cold):
    cold.setattr(ahead.spawn, "get_executable", lambda: "/nowhere/python")
    ahead.begin(2)
    ahead.finish()
    assert not ahead._others
