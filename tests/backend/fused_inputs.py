"""The fused kernels, if Numba is there, and what several of their tests give them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")
fused = pytest.importorskip("ies_gpu.backend.kernels.fused")


def sparse_rows(n, degree, *, seed=0, index=np.int32, dtype=np.float64):
    """A CSR with rows of unequal length, every seventh empty, whose rows sum to 1."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 2 * degree + 1, size=n)
    counts[::7] = 0
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = rng.integers(n, size=indptr[-1])
    weights = rng.uniform(0.1, 1, size=indptr[-1])
    weights /= np.repeat(np.add.reduceat(np.append(weights, 0), indptr[:-1]), counts)
    return indptr.astype(index), indices.astype(index), weights.astype(dtype)


def twice(function):
    """The same call with one thread and with two."""
    with fused.threads(1):
        one = function()
    with fused.threads(2):
        two = function()
    return one, two
