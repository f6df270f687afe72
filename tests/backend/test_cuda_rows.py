"""The CUDA kernels over the rows of a sparse matrix and over neighbours: their texts on the CPU against plain code."""

from __future__ import annotations

import itertools
import sys
from importlib import resources

import numpy as np
import pytest
import scipy.sparse

from ies_gpu.backend.compare import kernel_difference
from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import csr, neighbours, text
from tests.backend import test_cuda_kernels as kernels
from tests.backend.test_cuda_kernels import caught, needs_emulator
from tests.cuda_emulator import SCHEDULES, Kernel, barriers

TYPES = [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64)]
N = 41
STARTS = np.array([0, 1, 9, 10, 18, 30, 41])


@pytest.fixture
def emulate(monkeypatch):
    """Replaces the kernels by emulated ones; few blocks, so that each of them does several rows."""
    for module in (csr, neighbours):
        monkeypatch.setattr(module, "MAX_BLOCKS", 3)
    monkeypatch.setattr(csr, "MAX_SUM_BLOCKS", 3)

    def use(schedule: str = "random", **options) -> None:
        def load(name, entry):
            return Kernel(text.source(name), entry, schedule=schedule, **options)

        monkeypatch.setattr(text, "load_kernel", load)

    return use


def make_matrix(dtype: type = np.float32, wide: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Square, rows of 0, 1, 2, 41 and other numbers of entries, a tenth of them zero."""
    rng = np.random.default_rng(3)
    counts = np.concatenate([[0, 1, 2, N], rng.integers(0, N, N)])[:N]
    indices = np.concatenate([np.sort(rng.choice(N, size=count, replace=False)) for count in counts])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64 if wide else np.int32)
    data = rng.random(len(indices)) * (rng.random(len(indices)) > 0.1)
    return indptr, indices.astype(np.int32), data.astype(dtype)


def off(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference in roundings of float32 of the largest number; infinite where something is not finite."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if not found.size:
        return 0.0
    error = np.abs(found.astype(float) - expected).max() / max(np.abs(expected).max(), 1e-30)
    return np.inf if not np.isfinite(error) else error / np.finfo(np.float32).eps


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("k", [0, 1, 7, 33])
def test_products_equal_plain(emulate, schedule, k):
    """k = 0 stands for a vector (n,)."""
    emulate(schedule)
    V = np.random.default_rng(k).normal(size=(N, k) if k else N)
    for (stored, dtype), wide in zip(TYPES * 2, [True] * 3 + [False] * 3, strict=True):
        matrix = make_matrix(stored, wide)
        dense = scipy.sparse.csr_matrix(matrix[::-1], shape=(N, N)).toarray().astype(float)
        found = csr.spmm(*matrix, V.astype(dtype))
        assert found.dtype == dtype
        unit = 40 if dtype == np.float32 else 1e-6
        assert off(found.astype(float), dense @ V.astype(dtype).astype(float)) < unit
    if k > 1:
        R, factor = V.astype(np.float32)[::-1].copy(), np.linspace(1, 2, k, dtype=np.float32)
        matrix = make_matrix()
        expected = plain.block_product(*matrix, V.astype(np.float32), R, factor)
        assert off(csr.block_product(*matrix, V.astype(np.float32), R, factor), expected) < 40
        wide, chosen = np.concatenate([R, R[:, ::-1]], axis=1), (np.arange(2 * k - 1, k - 1, -1), np.ones_like(factor))
        assert off(csr.block_product(*matrix, V.astype(np.float32), wide, factor, chosen=chosen), expected) < 40


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_scaled_entries_and_labels_equal_plain(emulate, schedule):
    emulate(schedule)
    rng = np.random.default_rng(0)
    left, right = rng.uniform(1, 2, size=(2, N))
    labels = rng.permutation(N).astype(np.int32)
    for dtype in (np.float32, np.float64):
        indptr, indices, data = make_matrix(dtype)
        np.testing.assert_array_equal(
            csr.smallest_labels(indptr, indices, data, labels), plain.smallest_labels(indptr, indices, data, labels)
        )
        expected = plain.symmetric_entries(indptr, indices, data, left)
        assert off(csr.symmetric_entries(indptr, indices, data, left), expected) < 2
        parts = [data.copy() for _ in range(2)]
        for module, own in zip((csr, plain), parts, strict=True):
            module.scaled_entries(indptr[5:31], indices, own, left[5:30], right)
        assert off(*parts) < 2
        for others in (slice(0, indptr[5]), slice(indptr[30], None)):
            np.testing.assert_array_equal(parts[0][others], data[others])


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_merged_matrices_equal_plain(emulate, schedule):
    emulate(schedule)
    weights = np.random.default_rng(1).random(N).astype(np.float32)
    indptr, indices, data = make_matrix()
    matrix = indptr, indices, data + 1  # SciPy would drop sums that are 0
    expected = plain.merge_columns(*matrix, STARTS, weights)
    expected += plain.merge_rows(*expected, STARTS, weights, 6)
    merged = csr.merge_columns(*matrix, STARTS, weights)
    for found, same in zip(merged + csr.merge_rows(*merged, STARTS, weights, 6), expected, strict=True):
        assert off(found, same) < 4
    R = np.random.default_rng(2).normal(size=(N, 5)).astype(np.float32)
    assert off(csr.restrict(STARTS, weights, R), plain.restrict(STARTS, weights, R)) < 40


def step_of_conjugate_gradients(module, k: int) -> list[np.ndarray]:
    rng = np.random.default_rng(k)
    matrix, shift = make_matrix(), np.linspace(40, 50, k, dtype=np.float32)
    Z, R, P = rng.normal(size=(3, N, k)).astype(np.float32)
    image = np.empty_like(P)
    curvature = module.shifted_product(*matrix, shift, P, image)
    square = module.column_products(R, R)
    left = module.descend(Z, R, P, image, square, curvature)
    module.turn(R, P, left, square)
    return [curvature, square, left, image, Z, R, P, module.column_products(P.astype(float))]


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("k", [1, 8, 40])
def test_a_step_of_conjugate_gradients_equals_plain(emulate, schedule, k):
    emulate(schedule)
    for found, expected in zip(*(step_of_conjugate_gradients(module, k) for module in (csr, plain)), strict=True):
        assert off(found, expected) < 100


def test_a_column_that_does_not_curve_up_takes_no_step():
    Z, R, P, image = (np.ones((3, 2), dtype=np.float32) for _ in range(4))
    plain.descend(Z, R, P, image, np.array([1.0, 1.0]), np.array([-1.0, 2.0]))
    np.testing.assert_array_equal(Z[0], [1.0, 1.5])


def cells_of(Z: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [Z[a:b] for a, b in itertools.pairwise(starts)]
    return np.array([part.min(axis=0) for part in parts]), np.array([part.max(axis=0) for part in parts])


def pairs_off(D: int = 2, diagonal: bool = True, scattered: bool = False) -> float:
    """What the kernel finds among 150 points, some of them equal, against all distances.

    Scattered, in 75 cells in no order: which of them are near has to be found in two turns.
    """
    rng = np.random.default_rng(D)
    Z = rng.random((150, D))
    Z = Z[np.argsort(Z[:, 0])]
    Z[7] = Z[6]
    starts, reach = np.array([0, 40, 41, 97, 150]), 0.3 * np.sqrt(D)
    if scattered:
        Z = Z.reshape(75, 2, D)[rng.permutation(75)].reshape(150, D)
        starts, reach = np.arange(0, 151, 2), 0.1
    low, high = cells_of(Z, starts)
    indptr, indices, distances = neighbours.near_pairs(
        Z, starts, low, high, reach**2, reach, diagonal, 2.0, "float64" if diagonal else "float32"
    )
    all_pairs = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
    near = (all_pairs <= reach) & (diagonal | ~np.eye(150, dtype=bool))
    i, j = np.nonzero(near)
    same = len(indices) == len(i) and (indices == j).all() and (np.diff(indptr) == near.sum(axis=1)).all()
    degrees = neighbours.degrees(Z, np.arange(150)[::7], reach)
    same = same and (degrees == (all_pairs <= reach).sum(axis=1)[::7]).all()
    return off(distances.astype(float), 2 * all_pairs[near]) if same else np.inf


@needs_emulator
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("D", [1, 3, 16])
def test_near_pairs_are_those_of_all_distances(emulate, schedule, D):
    emulate(schedule)
    assert pairs_off(D) < 1e-6
    assert pairs_off(D, scattered=True) < 1e-6
    assert pairs_off(D, diagonal=False) < 2


def test_points_with_many_columns_are_left_to_products():
    Z = np.zeros((4, neighbours.MAX_COLUMNS + 1))
    assert neighbours.degrees(Z, np.arange(2), 1.0) is None
    assert neighbours.near_pairs(Z, np.array([0, 4]), Z[:1], Z[:1], 1.0, 1.0, True, 1.0, "float64") is None


@needs_emulator
@pytest.mark.parametrize("line", barriers(text.source("csr")))
def test_a_removed_barrier_over_rows_is_caught(emulate, line):
    matrix, labels = make_matrix(), np.arange(N, dtype=np.int32)[::-1].copy()
    x = np.random.default_rng(0).random(N)

    def run() -> float:
        errors = [
            off(csr.spmm(*matrix, x), plain.spmm(*matrix, x)),
            off(csr.smallest_labels(*matrix, labels), plain.smallest_labels(*matrix, labels)),
            *(kernel_difference(csr, np, name, (), n=N) * 1e7 for name in ("merge_columns", "merge_rows")),
            *(off(*pair) for pair in zip(*(step_of_conjugate_gradients(m, 40) for m in (csr, plain)), strict=True)),
        ]
        return max(errors) / 3

    assert any(caught(emulate, schedule, line, run) for schedule in SCHEDULES)


@needs_emulator
@pytest.mark.parametrize("line", barriers(text.source("neighbours")))
def test_a_removed_barrier_of_near_pairs_is_caught(emulate, line):
    def run() -> float:
        return max(pairs_off(), pairs_off(1, scattered=True))

    assert any(caught(emulate, schedule, line, run) for schedule in SCHEDULES)


def test_every_source_and_barrier_has_its_test():
    """A removed barrier is noticed, one by one, by the tests named ``..._barrier_...`` of the two modules."""
    sources = {file.name[:-3] for file in resources.files(text.__package__).iterdir() if file.name.endswith(".cu")}
    assert sources == set(text.ENTRIES)
    tested = [
        mark.args[1]
        for module in (kernels, sys.modules[__name__])
        for test in vars(module).values()
        for mark in getattr(test, "pytestmark", [])
        if mark.name == "parametrize" and mark.args[0] == "line"
    ]
    assert sorted(tested) == sorted(barriers(text.source(name)) for name in sources)


@needs_emulator
@pytest.mark.parametrize("kernel", ["merge_columns", "merge_rows"])
def test_a_warp_takes_a_row_of_a_merged_matrix(emulate, monkeypatch, kernel):
    """A thread for each would read its row by itself, every number from another place than its neighbours."""
    emulate()
    seen, load = [], text.load_kernel
    monkeypatch.setattr(csr, "MAX_BLOCKS", 65_535)

    def watched(name, entry):
        run = load(name, entry)
        return lambda grid, block, *rest, **more: (seen.append(grid[0] * block[0]), run(grid, block, *rest, **more))

    monkeypatch.setattr(text, "load_kernel", watched)
    assert kernel_difference(csr, np, kernel, (), n=N) < 1e-7
    assert min(seen) >= 32 * (N if kernel == "merge_columns" else 5)
