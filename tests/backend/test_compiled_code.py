"""Compiled code: the same bits fresh or from the cache."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

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
