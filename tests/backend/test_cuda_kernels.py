"""The CUDA kernels without a GPU: their texts run on the CPU against the plain twins, and compile for real GPUs.

The launch code of ``launch`` runs as it is; only ``load_kernel`` is replaced, by kernels that g++ compiled. Bounds on
errors are roundings of the largest eigenvalue, divided by the gap where eigenvectors are compared.
"""

from __future__ import annotations

import functools
import itertools
import math
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import launch, text
from tests.cuda_emulator import SCHEDULES, DeadlockError, Kernel, SharedMemoryError, barriers, missing

needs_emulator = pytest.mark.skipif(bool(missing()), reason=missing() or "emulator")
SIZES = [1, 7, 20, 33, 64]
DTYPES = [np.float32, np.float64]


@pytest.fixture
def emulate(monkeypatch):
    """Replaces the kernels by emulated ones; few blocks, so that each of them does several rows or tiles."""
    monkeypatch.setattr(launch, "MAX_TANGENT_BLOCKS", 3)
    monkeypatch.setattr(launch, "MAX_SCORE_BLOCKS", 3)
    monkeypatch.setattr(launch, "MAX_SETS", 101)

    def use(schedule: str = "random", **options) -> None:
        def load(name, entry):
            return Kernel(text.source(name, entry), entry, schedule=schedule, **options)

        monkeypatch.setattr(text, "load_kernel", load)

    return use


class Problem(NamedTuple):
    """Arguments of ``tangent_rows`` without d."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    Y: np.ndarray
    rows: np.ndarray


def make_problem(m: int, dtype: type = np.float64, *, n_rows: int = 17, scale: float = 1e-3) -> Problem:
    """Rows of 0, 1, ... neighbours, some of them longer than a tile, in no order; a few rows twice."""
    rng = np.random.default_rng(m)
    n = 41
    counts = rng.integers(0, 90, n)
    counts[:4] = [0, 1, 2, 131]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    Y = scale * rng.normal(size=(n, m)) * 0.9 ** np.arange(m)
    rows = np.concatenate([[0, 3, 1, 2, 0], rng.permutation(n)])[:n_rows]
    indices = rng.integers(0, n, indptr[-1]).astype(np.int32)
    return Problem(indptr, indices, rng.random(indptr[-1]).astype(dtype), Y.astype(dtype), rows)


class Reference:
    """The co-metrics of a problem in float64, their eigenvectors, and the eigenvalues of the plain twin."""

    def __init__(self, problem: Problem) -> None:
        self.dtype = problem.Y.dtype
        self.H = plain.cometric_rows(
            *problem._replace(weights=problem.weights.astype(float), Y=problem.Y.astype(float))
        )
        self.values, self.vectors = plain.leading_eigenvectors(self.H, problem.Y.shape[1])[::-1]
        self.sigma = plain.tangent_rows(*problem, problem.Y.shape[1])[1]

    def error(self, U: np.ndarray, sigma: np.ndarray) -> float:
        """Largest error in roundings of the trace: of sigma, of H U = U sigma, of U'U = 1, of projectors times gaps."""
        r, m, d = U.shape
        assert (r, m) == self.H.shape[:2]
        assert sigma.shape == (r, d)
        assert U.dtype == sigma.dtype == self.dtype
        size = np.trace(self.H, axis1=1, axis2=2)
        size = np.where(size > 0, size, 1)
        gap = (self.values[:, d - 1] - self.values[:, d]) / size if d < m else np.ones(r)
        gap = np.where(gap > 1e-3, gap, 0)[:, None, None]
        leading = self.vectors[:, :, :d]
        errors = [
            np.abs(sigma - self.sigma[:, :d]) / size[:, None],
            np.abs(self.H @ U - U * sigma[:, None, :]) / size[:, None, None],
            np.abs(U.transpose(0, 2, 1) @ U - np.eye(d)),
            np.abs(U @ U.transpose(0, 2, 1) - leading @ leading.transpose(0, 2, 1)) * gap,
            np.where(sigma >= 0, 0, math.inf),
            np.where(np.diff(sigma, axis=1) <= 0, 0, math.inf),
        ]
        worst = [error.max(initial=0.0) for error in errors]
        return math.inf if np.isnan(worst).any() else max(worst) / np.finfo(self.dtype).eps


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", SIZES)
def test_tangent_rows_equal_plain(emulate, m, dtype, schedule):
    emulate(schedule)
    problem = make_problem(m, dtype)
    reference = Reference(problem)
    for d in range(1, min(m, 8) + 1):
        assert reference.error(*launch.tangent_rows(*problem, d)) < 40


@needs_emulator
@pytest.mark.parametrize("m", range(1, 65))
def test_tangent_rows_of_every_size(emulate, m):
    emulate()
    problem = make_problem(m, n_rows=7)
    assert Reference(problem).error(*launch.tangent_rows(*problem, 1)) < 40


@needs_emulator
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", SIZES)
def test_repeated_and_zero_eigenvalues_give_orthonormal_bases(emulate, m, dtype):
    emulate()
    d = min(m, 8)
    # star: steps along every axis, H a multiple of the identity; then half of the axes; then none
    Y = np.concatenate([np.zeros((3, m)), 0.3 * np.eye(m)]).astype(dtype)
    axes = [np.arange(m), np.arange(0, m, 2), np.arange(0)]
    indptr = np.concatenate([[0], np.cumsum([len(a) for a in axes]), np.full(m, m + len(axes[1]))]).astype(np.int32)
    indices = (3 + np.concatenate(axes)).astype(np.int32)
    problem = Problem(indptr, indices, np.full(len(indices), 0.5, dtype), Y, np.arange(3))
    U, sigma = launch.tangent_rows(*problem, d)
    assert Reference(problem).error(U, sigma) < 40
    np.testing.assert_allclose(sigma[0], 0.5 * 0.5 * 0.09, rtol=1e-6)
    # without neighbours: zero, and the same basis as plain
    assert_array_equal(sigma[2], 0)
    assert_array_equal(U[2], plain.tangent_rows(*problem, d)[0][2])


@needs_emulator
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-16), (np.float32, 1e15), (np.float64, 1e-150)])
def test_tangent_rows_of_very_small_or_large_coordinates(emulate, dtype, scale):
    # squares of H underflow or overflow
    emulate()
    problem = make_problem(20, dtype, scale=scale)
    assert Reference(problem).error(*launch.tangent_rows(*problem, 3)) < 40


@needs_emulator
def test_tangent_rows_take_any_layout_and_index_type(emulate):
    emulate()
    problem = make_problem(20)
    other = Problem(
        problem.indptr.astype(np.int64),
        np.repeat(problem.indices.astype(np.int64), 2)[::2],
        problem.weights.astype(np.float32).astype(float),
        np.asfortranarray(problem.Y),
        problem.rows.astype(np.int32)[::-1],
    )
    exact = problem._replace(weights=other.weights)
    U, sigma = launch.tangent_rows(*exact, 2)
    for same in (other, other._replace(weights=other.weights.astype(np.float32))):
        U_other, sigma_other = launch.tangent_rows(*same, 2)
        assert_array_equal(U_other, U[::-1])
        assert_array_equal(sigma_other, sigma[::-1])
    empty = exact._replace(rows=exact.rows[:0])
    assert [a.shape for a in launch.tangent_rows(*empty, 2)] == [(0, 20, 2), (0, 2)]
    with pytest.raises(TypeError, match="float32 or float64"):
        launch.tangent_rows(*exact._replace(Y=exact.Y.astype(np.float16)), 2)


@needs_emulator
def test_a_value_that_is_not_finite_spoils_its_own_row_only(emulate):
    emulate()
    problem = make_problem(20)._replace(rows=np.array([5, 6, 7, 8, 9]))
    expected = launch.tangent_rows(*problem, 2)
    for value in (np.nan, np.inf):
        weights = problem.weights.copy()
        weights[problem.indptr[7]] = value
        results = launch.tangent_rows(*problem._replace(weights=weights), 2)
        for result, before in zip(results, expected, strict=True):
            assert np.isnan(result[2]).all()
            assert_array_equal(np.delete(result, 2, axis=0), np.delete(before, 2, axis=0))


@needs_emulator
@pytest.mark.parametrize(("dtype", "stored"), [(np.float64, np.float32), (np.float32, np.float64)])
def test_weights_in_another_precision_are_not_copied(emulate, monkeypatch, dtype, stored):
    """What the kernel makes of them is what it makes of a copy in the precision of Y."""
    emulate()
    problem = make_problem(20, dtype)._replace(weights=make_problem(20).weights.astype(stored))
    expected = launch.tangent_rows(*problem._replace(weights=problem.weights.astype(dtype)), 3)
    seen = []
    load = text.load_kernel

    def watched(name, entry):
        kernel = load(name, entry)

        def run(grid, block, arguments, **options):
            seen.append((entry, arguments[3]))
            kernel(grid, block, arguments, **options)

        return run

    monkeypatch.setattr(text, "load_kernel", watched)
    for found, same in zip(launch.tangent_rows(*problem, 3), expected, strict=True):
        assert_array_equal(found, same)
    assert seen[0][0] == f"tangent_rows_f{8 * np.dtype(dtype).itemsize}_w{8 * np.dtype(stored).itemsize}"
    assert seen[0][1] is problem.weights


def vast(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Zeros that take memory only where they are written to."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=dtype).reshape(shape)
    except OSError:
        pytest.skip(f"no {size} bytes of address space")


@needs_emulator
def test_offsets_beyond_31_bits(emulate):
    emulate()
    small = make_problem(64, np.float32)
    n = 2**31 // 64 + 77
    shift = n - len(small.Y)
    Y, indptr, indices = vast((n, 64), np.float32), vast((n + 1,), np.int64), vast((2**31 + 9_999,), np.int32)
    weights = vast(indices.shape, np.float32)
    first = len(indices) - len(small.indices)
    Y[shift:], indptr[shift:] = small.Y, small.indptr.astype(np.int64) + first
    indices[first:], weights[first:] = small.indices + shift, small.weights
    expected = launch.tangent_rows(*small, 2)
    found = launch.tangent_rows(indptr, indices, weights, Y, small.rows + shift, 2)
    for a, b in zip(found, expected, strict=True):
        assert_array_equal(a, b)


def make_bases(m: int, d: int, dtype: type = np.float64, *, n_points: int = 71) -> np.ndarray:
    rng = np.random.default_rng([m, d])
    bases = np.linalg.qr(rng.normal(size=(n_points, m, d)))[0]
    return np.ascontiguousarray(bases, dtype=dtype)


def make_subsets(m: int, s: int, count: int) -> np.ndarray:
    """About ``count`` sets of s coordinates, in lexicographic order."""
    if math.comb(m, s) <= 3 * count:
        return np.array(list(itertools.combinations(range(m), s)))[:count]
    rng = np.random.default_rng([m, s])
    sets = np.sort(rng.permuted(np.tile(np.arange(m), (count, 1)), axis=1)[:, :s], axis=1)
    return np.unique(sets, axis=0)


def run_scores(kernels, U: np.ndarray, subsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    totals = np.full(len(subsets), 0.25)
    best, best_score = np.full(len(U), -1), np.full(len(U), np.nan)
    kernels.score_block(U, subsets, totals, best, best_score)
    return totals, best, best_score


def score_error(U: np.ndarray, subsets: np.ndarray, found: tuple[np.ndarray, ...]) -> float:
    """Largest error in units of what rounding does to a score: eps / sqrt(ratio)."""
    totals, best, best_score = found
    scores = plain.log_volumes(U, subsets)
    unit = np.finfo(U.dtype).eps * np.exp(-np.maximum(scores, -15))
    points = np.arange(len(U))
    chosen = scores[points, best]  # where two sets are as good, either may be found
    errors = [
        np.abs(totals - 0.25 - scores.sum(axis=0)) / unit.sum(axis=0),
        np.abs(best_score - scores.max(axis=1)) / unit[points, best],
        (scores.max(axis=1) - chosen) / unit[points, best],
    ]
    worst = [error.max() for error in errors]
    return math.inf if np.isnan(worst).any() else max(worst)


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", SIZES)
def test_scores_equal_plain(emulate, m, dtype, schedule):
    emulate(schedule)
    for d in range(1, min(m, 8) + 1):
        U = make_bases(m, d, dtype)
        for s, count in {d: 19, min(d + 1, m): 1, min(2 * d, m): 150, m: 3}.items():
            subsets = make_subsets(m, s, count)
            assert score_error(U, subsets, run_scores(launch, U, subsets)) < 40


@needs_emulator
def test_the_first_of_equal_sets_wins(emulate):
    emulate()
    U = make_bases(20, 2)
    subsets = make_subsets(20, 3, 40)
    once = run_scores(launch, U, subsets)
    # within a chunk, across chunks of 64 and across launches of 101 sets
    for twice in (np.repeat(subsets, 2, axis=0), np.tile(subsets, (6, 1))):
        _, best, best_score = run_scores(launch, U, twice)
        assert_array_equal(best_score, once[2])
        first = np.array([np.flatnonzero((twice == subsets[k]).all(axis=1))[0] for k in once[1]])
        assert_array_equal(best, first)
    # in one dimension every set has the score 0
    totals, best, best_score = run_scores(launch, make_bases(20, 1), subsets)
    assert_array_equal(totals, 0.25)
    assert_array_equal(best, 0)
    assert_array_equal(best_score, 0)


@needs_emulator
def test_floor_and_nan_are_those_of_plain(emulate):
    emulate()
    U, subsets = make_bases(7, 2), make_subsets(7, 2, 21)
    U[3] = 0
    U[4, :, 1] = 0
    U[5, :, 1] = U[5, :, 0]
    found, expected = run_scores(launch, U[3:6], subsets), run_scores(plain, U[3:6], subsets)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)
    np.testing.assert_allclose(found[2], 0.5 * np.log(1e-30), rtol=1e-14)
    assert_array_equal(found[1], 0)
    U = make_bases(7, 2)
    U[6, 4, 0] = np.nan
    totals, best, best_score = run_scores(launch, U, subsets)
    plain_totals, plain_best, plain_score = run_scores(plain, U, subsets)
    assert_array_equal(np.isnan(totals), np.isnan(plain_totals))
    assert_array_equal(best, plain_best)
    assert_array_equal(np.isnan(best_score), np.isnan(plain_score))


@needs_emulator
def test_columns_of_very_small_numbers(emulate):
    emulate()
    subsets = make_subsets(20, 4, 90)
    U = make_bases(20, 3) * [1e-140, 1e-100, 1]
    assert score_error(U, subsets, run_scores(launch, U, subsets)) < 40
    for result in run_scores(launch, U * [1e-18, 1, 1], subsets):  # squares are denormal or zero
        assert np.isfinite(result).all()


@needs_emulator
def test_scores_take_any_layout(emulate):
    emulate()
    U, subsets = make_bases(20, 2), make_subsets(20, 2, 90)
    expected = run_scores(launch, U, subsets)
    U_other = np.ascontiguousarray(U.transpose(2, 0, 1)).transpose(1, 2, 0)
    totals = np.full(2 * len(subsets), 0.25)[::2]
    best, best_score = np.zeros(2 * len(U), np.int32)[::2], np.zeros((len(U), 2))[:, 1]
    launch.score_block(U_other, np.asfortranarray(subsets.astype(np.int32)), totals, best, best_score)
    for a, b in zip((totals, best, best_score), expected, strict=True):
        assert_array_equal(a, b)
    launch.score_block(U[:0], subsets, totals, best[:0], best_score[:0])
    assert_array_equal(totals, expected[0])


@needs_emulator
def test_results_are_the_same_under_every_schedule(emulate):
    problem, subsets = make_problem(20), make_subsets(20, 4, 150)
    results = []
    for schedule, seed in [*((schedule, 0) for schedule in SCHEDULES), ("random", 1)]:
        emulate(schedule, seed=seed)
        U, sigma = launch.tangent_rows(*problem, 3)
        results.append([U, sigma, *run_scores(launch, make_bases(20, 3), subsets)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_array_equal(a, b)


TANGENT_BARRIERS, SCORE_BARRIERS = barriers(text.source("tangent_rows")), barriers(text.source("score_block"))


@needs_emulator
@pytest.mark.parametrize("line", TANGENT_BARRIERS)
def test_a_removed_barrier_of_tangent_rows_is_caught(emulate, line):
    problem = make_problem(20)
    assert any(caught(emulate, schedule, line, functools.partial(tangent_run, problem)) for schedule in SCHEDULES)


@needs_emulator
@pytest.mark.parametrize("line", SCORE_BARRIERS)
def test_a_removed_barrier_of_score_block_is_caught(emulate, line):
    U, subsets = make_bases(20, 3), make_subsets(20, 4, 150)
    assert any(caught(emulate, schedule, line, functools.partial(score_run, U, subsets)) for schedule in SCHEDULES)


def tangent_run(problem: Problem) -> float:
    return Reference(problem).error(*launch.tangent_rows(*problem, 8))


def score_run(U: np.ndarray, subsets: np.ndarray) -> float:
    return score_error(U, subsets, run_scores(launch, U, subsets))


def caught(emulate, schedule: str, line: int, run) -> bool:
    """Whether leaving out the barrier in a line gives a wrong result or a deadlock under a schedule."""
    emulate(schedule, skip_barrier=line)
    try:
        with np.errstate(all="ignore"):
            return run() > 40
    except (DeadlockError, ValueError):  # or a size that is none
        return True


RACE = r"""
extern "C" __global__ void turn(int* out) {
    extern __shared__ int values[];
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}
extern "C" __global__ void split(int* out) {
    if (threadIdx.x % 2) __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void too_far(int size) {
    extern __shared__ int values[];
    values[threadIdx.x + size] = 0;
}
"""


@needs_emulator
def test_the_emulator_notices_what_it_is_for():
    out = np.zeros(5, np.int32)
    expected = (np.arange(5) + 1) % 5
    for schedule in SCHEDULES:
        Kernel(RACE, "turn", schedule=schedule)((1,), (5,), (out,), shared_mem=20)
        assert_array_equal(out, expected)
        Kernel(RACE, "turn", schedule=schedule, skip_barrier=barriers(RACE)[0])((1,), (5,), (out,), shared_mem=20)
        assert (out == -1).any()  # shared memory that nobody has written yet
        with pytest.raises(DeadlockError, match=schedule):
            Kernel(RACE, "split", schedule=schedule)((1,), (5,), (out,))
    with pytest.raises(SharedMemoryError):
        Kernel(RACE, "too_far")((1,), (5,), (np.int32(1),), shared_mem=20)
    with pytest.raises(TypeError, match="typed"):
        Kernel(RACE, "too_far")((1,), (5,), (0,), shared_mem=20)
    with pytest.raises(TypeError, match="contiguous"):
        Kernel(RACE, "turn")((1,), (5,), (np.zeros(10, np.int32)[::2],), shared_mem=20)
    with pytest.raises(ValueError, match="48 KB"):
        Kernel(RACE, "turn")((1,), (5,), (out,), shared_mem=50_000)


@needs_emulator
def test_several_processes_may_fill_the_cache_at_once(tmp_path):
    code = f"from tests.cuda_emulator import compiler; print(compiler.build({RACE!r}))"
    environment = os.environ | {"IES_GPU_TEST_CACHE": str(tmp_path)}
    command = {"args": [sys.executable, "-c", code], "env": environment, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(**command, cwd=Path(__file__).parents[2]) for _ in range(4)]
    said = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(said) == 1 and not list(tmp_path.glob("tmp*"))


def test_sizes_beyond_the_kernels_run_on_plain_code():
    # load_kernel would fail here: no emulator, and perhaps no CuPy
    for m, d in ((65, 2), (20, 9)):
        problem = make_problem(m)
        for a, b in zip(launch.tangent_rows(*problem, d), plain.tangent_rows(*problem, d), strict=True):
            assert_array_equal(a, b)
        U, subsets = make_bases(m, d), make_subsets(m, d, 5)
        for a, b in zip(run_scores(launch, U, subsets), run_scores(plain, U, subsets), strict=True):
            assert_array_equal(a, b)


def test_every_launch_fits():
    for m, itemsize in itertools.product(range(1, 65), (4, 8)):
        side = -(-m // 4)
        tangent = launch.tangent_launch(10**9, m, itemsize)
        assert max(64, side * (side + 1) // 2) <= tangent.threads <= 160
        assert tangent.shared_bytes <= 48 << 10
        assert 0 < tangent.blocks < 2**31
        for d, q in itertools.product(range(1, 9), (1, 19, 64, 171, launch.MAX_SETS)):
            score = launch.score_launch(10**9, m, d, q, itemsize)
            tile, chunk = score.sizes
            assert score.shared_bytes <= 48 << 10
            assert 1 <= tile <= 64 and 1 <= chunk <= 64  # half of the block adds columns, the other searches rows
            assert score.blocks * q * 8 <= 32 << 20
