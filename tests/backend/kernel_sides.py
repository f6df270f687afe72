"""The two sets of fast kernels, Numba's on NumPy arrays and CUDA's on CuPy arrays, and what several tests give them."""

import importlib
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from ies_gpu.backend.kernels.cuda import csr, launch
from tests.real_cupy import plugged_in


class Side(NamedTuple):
    """Kernels, and the library of their arrays."""

    module: Any
    xp: Any

    def run(self, kernel: str, *arguments: Any) -> Any:
        """What a kernel makes of NumPy arrays; those that it writes to are written to."""
        there = [self.xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        found = getattr(self.module, kernel)(*there)
        for given, own in zip(arguments, there, strict=True):
            if isinstance(given, np.ndarray) and own is not given:
                given[...] = own.get()
        return tuple(map(on_host, found)) if isinstance(found, tuple) else on_host(found)


def on_host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


@contextmanager
def few_blocks() -> Iterator[None]:
    """Context in which each block of threads takes several rows, tiles or launches."""
    with patch.multiple(csr, MAX_BLOCKS=3, MAX_SUM_BLOCKS=3), patch.multiple(launch, MAX_SCORE_BLOCKS=3, MAX_SETS=101):
        yield


@contextmanager
def kernels_of(name: str) -> Iterator[Side]:
    """ "numba", or the schedule of CUDA's threads."""
    if name == "numba":
        pytest.importorskip("numba")
        yield Side(pytest.importorskip("ies_gpu.backend.kernels.fused"), np)
        return
    with few_blocks(), plugged_in(schedule=name):
        importlib.import_module("cupyx.scipy.sparse")
        yield Side(launch, sys.modules["cupy"])


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


def bases(n: int, m: int, d: int, dtype: Any = np.float64) -> np.ndarray:
    """Orthonormal frames (n, m, d)."""
    return np.linalg.qr(np.random.default_rng([n, m, d]).normal(size=(n, m, d)))[0].astype(dtype)


def some_sets(m: int, s: int, count: int = 10**6) -> np.ndarray:
    """All sets of s coordinates, or about ``count`` of them, in lexicographic order."""
    if math.comb(m, s) <= 3 * count:
        return np.array(list(combinations(range(m), s)))[:count]
    rng = np.random.default_rng([m, s])
    return np.unique(np.sort(rng.permuted(np.tile(np.arange(m), (count, 1)), axis=1)[:, :s], axis=1), axis=0)
