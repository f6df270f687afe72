"""The fused kernels against the readable ones, on random and on awkward input."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

import ies_gpu
from ies_gpu.backend.guard import Kernels
from ies_gpu.backend.kernels import INTERFACE, plain
from ies_gpu.backend.kernels.cuda import launch

numba = pytest.importorskip("numba")
fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
tasks = pytest.importorskip("ies_gpu.backend.kernels.fused.tasks")

ROOT = Path(__file__).resolve().parents[2]


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


def bases(n, m, d, *, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.normal(size=(n, m, d)))[0].astype(dtype)


def all_sets(m, s):
    return np.array(list(combinations(range(m), s)))


def twice(function):
    """The same call with one thread and with two."""
    with fused.threads(1):
        one = function()
    with fused.threads(2):
        two = function()
    return one, two


def assert_eigenpairs(H, U, sigma, tolerance):
    """Orthonormal, a small residual, and the leading eigenvalues: true for repeated ones too, unlike equal vectors."""
    U, sigma = U.astype(np.float64), sigma.astype(np.float64)
    d = sigma.shape[1]
    scale = np.trace(H, axis1=1, axis2=2)[:, None]
    assert_allclose(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(d), (len(U), d, d)), atol=10 * tolerance)
    residual = H @ U - U * sigma[:, None, :]
    assert (np.abs(residual) <= tolerance * scale[:, :, None]).all()
    expected = np.linalg.eigvalsh(H)[:, ::-1][:, :d]
    assert (np.abs(sigma - expected) <= tolerance * scale).all()
    assert (sigma >= 0).all()
    assert (np.diff(sigma, axis=1) <= 0).all()


# --- tangent_rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "d"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 3), (8, 8), (20, 2), (20, 3), (33, 5), (64, 8)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tangent_rows_are_the_leading_eigenpairs(m, d, dtype):
    csr = sparse_rows(200, 12, index=np.int64 if m == 33 else np.int32)
    Y = np.random.default_rng(1).normal(size=(200, m)).astype(dtype)
    rows = np.random.default_rng(2).permutation(200)[:150]
    U, sigma = fused.tangent_rows(*csr, Y, rows, d)
    assert U.dtype == sigma.dtype == dtype
    assert U.shape == (150, m, d)
    assert U.flags.c_contiguous
    H = plain.cometric_rows(*csr, Y.astype(np.float64), rows)
    assert_eigenpairs(H, U, sigma, 1e-12 if dtype == np.float64 else 1e-6)


def test_tangent_rows_agrees_with_plain():
    csr = sparse_rows(300, 80, seed=3)
    Y = np.random.default_rng(4).normal(size=(300, 20)) * 0.7 ** np.arange(20)
    rows = np.arange(1, 300, 7)
    U, sigma = fused.tangent_rows(*csr, Y, rows, 2)
    V, expected = plain.tangent_rows(*csr, Y, rows, 2)
    assert_allclose(sigma, expected, rtol=1e-12)
    assert_allclose(np.abs((U * V).sum(axis=1)), 1, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 7, 8, 95, 96, 97, 193, 1000])
def test_tangent_rows_for_every_way_to_fill_the_scratch(degree):
    rng = np.random.default_rng(degree)
    n, m = 5, 6
    indptr, indices = np.array([0, degree]), rng.integers(n, size=degree)
    weights, Y = rng.uniform(size=degree), rng.normal(size=(n, m))
    rows = np.array([0])
    U, sigma = fused.tangent_rows(indptr, indices, weights, Y, rows, 3)
    assert_eigenpairs(plain.cometric_rows(indptr, indices, weights, Y, rows), U, sigma, 1e-12)


def spectrum_rows(values, seed=0):
    """A row whose co-metric has exactly these eigenvalues, up to rounding."""
    m = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(m, m)))[0]
    Y = np.vstack([np.zeros(m), Q.T * np.sqrt(2 * np.asarray(values))[:, None]])
    return np.array([0, m]), np.arange(1, m + 1), np.ones(m), Y, np.array([0])


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 6,
        [1.0] * 20,
        [2.0, 2, 2, 1, 1, 0, 0, 0],
        [1.0] + [0.0] * 9,
        [0.0] * 5,
        [1, 1 - 1e-15, 1 - 1e-14, 1 - 1e-9, 0.5, 0.5 + 1e-15, 0, 0],
        [1, 1e-8, 1e-16, 1e-24, 1e-32],
        list(10.0 ** -np.arange(20)),
        [3e-200, 2e-200, 1e-200, 0],
        [3e150, 2e150, 1e150, 0],
    ],
    ids=str,
)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_tangent_rows_with_repeated_tiny_and_zero_eigenvalues(values, d):
    for seed in range(10):
        csr_Y_rows = spectrum_rows(values, seed)
        U, sigma = fused.tangent_rows(*csr_Y_rows, d)
        assert_eigenpairs(plain.cometric_rows(*csr_Y_rows), U, sigma, 1e-12)


AWKWARD = {
    "one direction": lambda rng, n, m: np.repeat(rng.normal(size=(n, 1)), m, axis=1),
    "corners of a simplex": lambda rng, n, m: np.eye(m)[rng.integers(0, m, n)],
    "lattice": lambda rng, n, m: np.round(2 * rng.normal(size=(n, m))),
    "scales": lambda rng, n, m: rng.normal(size=(n, m)) * 10.0 ** rng.integers(-8, 3, m),
    "falling": lambda rng, n, m: rng.normal(size=(n, m)) * 0.5 ** np.arange(m),
}


@pytest.mark.parametrize(("m", "d"), [(6, 5), (20, 2), (39, 2), (39, 30)])
@pytest.mark.parametrize("kind", list(AWKWARD))
def test_tangent_rows_of_awkward_spectra_are_the_leading_ones_in_any_company(kind, m, d):
    """Matrices of low rank, that fall apart, or whose determinants are beyond the range of numbers.

    Eight rows are computed side by side: which ones must not matter to a bit.
    """
    csr, rng = sparse_rows(120, 30, seed=m), np.random.default_rng(d)
    Y = AWKWARD[kind](rng, 120, m)
    U, sigma = fused.tangent_rows(*csr, Y, np.arange(120), d)
    assert_eigenpairs(plain.cometric_rows(*csr, Y, np.arange(120)), U, sigma, 1e-11)
    some = rng.permutation(120)[:50]
    for found, expected in zip(fused.tangent_rows(*csr, Y, some, d), (U, sigma), strict=True):
        assert_array_equal(found, expected[some])


@pytest.mark.parametrize("m", [2, 4, 9])
def test_tangent_rows_of_axis_parallel_points_keeps_the_axes(m):
    values = np.arange(m, 0, -1.0)
    Y = np.vstack([np.zeros(m), np.diag(np.sqrt(2 * values))])
    U, sigma = fused.tangent_rows(np.array([0, m]), np.arange(1, m + 1), np.ones(m), Y, np.array([0]), m)
    assert_allclose(sigma[0], values, rtol=1e-14)
    assert_allclose(np.abs(U[0]), np.eye(m), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_whose_eigenpairs_cannot_be_trusted_are_computed_by_lapack(monkeypatch, dtype):
    monkeypatch.setattr(
        sys.modules["ies_gpu.backend.kernels.fused.tangent"], "vectors_task", lambda *a: a[-1].fill(False)
    )
    csr, Y = sparse_rows(50, 12), np.random.default_rng(1).normal(size=(50, 7)).astype(dtype)
    U, sigma = fused.tangent_rows(*csr, Y, np.arange(50), 3)
    H = plain.cometric_rows(*csr, Y.astype(np.float64), np.arange(50))
    assert_eigenpairs(H, U, sigma, 1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("m", [5, 20, 40])
def test_rows_that_can_be_trusted_are_nearly_all(m, monkeypatch):
    """No row of random problems goes to LAPACK, which is many times slower."""
    monkeypatch.setattr(sys.modules["ies_gpu.backend.kernels.fused.tangent"].plain, "tangent_rows", None)
    csr, Y = sparse_rows(400, 50), np.random.default_rng(1).normal(size=(400, m)) * 0.8 ** np.arange(m)
    fused.tangent_rows(*csr, Y, np.arange(400), 3)


def test_tangent_rows_of_duplicate_points_and_empty_rows_is_any_basis_with_sigma_zero():
    Y = np.ones((4, 3))
    U, sigma = fused.tangent_rows(np.array([0, 3, 3, 4, 4]), np.arange(4), np.ones(4), Y, np.arange(4), 2)
    assert_array_equal(sigma, 0)
    assert_array_equal(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(2), (4, 2, 2)))


def test_tangent_rows_of_no_rows():
    U, sigma = fused.tangent_rows(*sparse_rows(10, 3), np.ones((10, 5)), np.arange(0), 2)
    assert U.shape == (0, 5, 2)
    assert sigma.shape == (0, 2)


def test_tangent_rows_lets_nan_through_to_sigma():
    indptr, indices, weights = sparse_rows(20, 4)
    Y = np.random.default_rng(0).normal(size=(20, 4))
    Y[indices[indptr[3]]] = np.nan
    _, sigma = fused.tangent_rows(indptr, indices, weights, Y, np.array([3]), 2)
    assert np.isnan(sigma).all()


def test_tangent_rows_takes_strided_input_and_a_sample_gives_what_the_block_gave():
    csr = sparse_rows(100, 20)
    Y = np.random.default_rng(0).normal(size=(100, 12))[:, ::2]
    U, sigma = fused.tangent_rows(*csr, Y, np.arange(100), 3)
    sampled = fused.tangent_rows(*(np.repeat(a, 2)[::2] for a in csr), np.asfortranarray(Y), np.arange(100)[::-3], 3)
    assert_array_equal(sampled[0], U[::-3])
    assert_array_equal(sampled[1], sigma[::-3])


def test_tangent_rows_does_not_depend_on_the_number_of_threads():
    csr = sparse_rows(3000, 30)
    Y = np.random.default_rng(0).normal(size=(3000, 20))
    one, two = twice(lambda: fused.tangent_rows(*csr, Y, np.arange(3000), 2))
    assert_array_equal(one[0], two[0])
    assert_array_equal(one[1], two[1])


# --- score_block, log_volumes ----------------------------------------------------------------------------------------


def score(kernels, U, subsets):
    totals, best, best_score = np.zeros(len(subsets)), np.full(len(U), -1), np.full(len(U), np.nan)
    kernels.score_block(U, subsets, totals, best, best_score)
    return totals, best, best_score


@pytest.mark.parametrize("n", [1, 63, 64, 65, 700])
@pytest.mark.parametrize(
    ("m", "d", "s"), [(2, 1, 1), (6, 1, 3), (8, 2, 2), (8, 2, 4), (7, 3, 3), (8, 3, 5), (9, 4, 6), (9, 8, 8), (9, 5, 7)]
)
def test_scores_agree_with_plain(n, m, d, s):
    U, subsets = bases(n, m, d, seed=n), all_sets(m, s)
    totals, best, best_score = score(fused, U, subsets)
    expected = score(plain, U, subsets)
    assert_allclose(totals, expected[0], rtol=1e-12, atol=1e-12)
    assert_allclose(best_score, expected[2], rtol=1e-10, atol=1e-13)
    if d > 1:  # for d = 1 every set has ratio 1, up to rounding in plain
        assert_array_equal(best, expected[1])
    assert_allclose(fused.log_volumes(U, subsets), plain.log_volumes(U, subsets), rtol=1e-10, atol=1e-13)


def test_scores_of_float32_are_those_of_the_same_numbers_in_float64():
    U, subsets = bases(300, 8, 3, dtype=np.float32), all_sets(8, 4)
    got, expected = score(fused, U, subsets), score(plain, U.astype(np.float64), subsets)
    assert_allclose(got[0], expected[0], rtol=1e-12)
    assert_array_equal(got[1], expected[1])


def test_totals_are_added_to_and_outputs_may_be_strided_and_narrow():
    U, subsets = bases(100, 6, 2), all_sets(6, 3)
    totals, wide = np.ones(len(subsets)), np.zeros((100, 2))
    best = np.zeros(200, dtype=np.int32)[::2]
    fused.score_block(U[:, :, ::-1], subsets.astype(np.int32), totals, best, wide[:, 1])
    expected = score(plain, U[:, :, ::-1], subsets)
    assert_allclose(totals, 1 + expected[0], rtol=1e-12)
    assert_array_equal(best, expected[1])
    assert_allclose(wide[:, 1], expected[2], rtol=1e-10, atol=1e-13)


def test_dependent_columns_and_columns_of_zeros_count_as_the_floor():
    U = np.zeros((3, 5, 2))
    U[0, :, 0] = U[0, :, 1] = [1, 2, 3, 4, 5]  # dependent
    U[1, :, 0] = 1  # a column of zeros
    U[2, :2] = np.eye(2)  # zeros in every set but the first
    subsets = all_sets(5, 2)
    floor = 0.5 * np.log(plain.FLOOR)
    table = fused.log_volumes(U, subsets)
    assert_allclose(table[:2], floor)
    assert_allclose(table[2], [0] + [floor] * 9)
    totals, best, best_score = score(fused, U, subsets)
    assert_allclose(totals, table.sum(axis=0))
    assert_array_equal(best, 0)
    assert_allclose(best_score, [floor, floor, 0], atol=1e-15)


def test_nearly_dependent_sets_keep_their_digits():
    """A determinant of U'U would be noise from 1e-8 on."""
    for angle in 10.0 ** -np.arange(1, 13):
        U = np.array([[[1.0, 1.0], [1.0, 1.0 + angle], [0, 0]]])
        difference = U[0, 1, 1] - 1
        ratio = difference**2 / (2 * (1 + (1 + difference) ** 2))
        assert_allclose(fused.log_volumes(U, [[0, 1]])[0, 0], 0.5 * np.log(ratio), rtol=1e-4 * 1e-12 / angle + 1e-9)


def test_of_equal_sets_the_first_is_best():
    U = bases(50, 3, 2)[:, [0, 1, 0, 1, 2]]  # rows 0 = 2 and 1 = 3
    subsets = np.array([[0, 2], [0, 1], [0, 3], [2, 3], [1, 3]])  # the first and the last are dependent
    _, best, _ = score(fused, U, subsets)
    assert_array_equal(best, 1)


def test_a_point_with_nan_spoils_the_totals_and_nothing_else():
    U, subsets = bases(10, 5, 2), all_sets(5, 3)
    expected = score(fused, U, subsets)
    U[4] = np.nan
    totals, best, best_score = score(fused, U, subsets)
    assert np.isnan(totals).all()
    assert np.isnan(best_score[4])
    assert_array_equal(np.delete(best, 4), np.delete(expected[1], 4))


def test_scores_of_no_points():
    totals, best, best_score = score(fused, np.empty((0, 5, 2)), all_sets(5, 3))
    assert_array_equal(totals, 0)
    assert len(best) == len(best_score) == 0
    assert fused.log_volumes(np.empty((0, 5, 2)), all_sets(5, 3)).shape == (0, 10)


def test_scores_of_more_points_than_fit_one_round_of_partial_totals():
    U, subsets = bases(40_000, 4, 2), all_sets(4, 2)
    for got, expected in zip(score(fused, U, subsets), score(plain, U, subsets), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def test_scores_do_not_depend_on_the_number_of_threads():
    U, subsets = bases(5000, 10, 2), all_sets(10, 3)
    for one, two in zip(*twice(lambda: score(fused, U, subsets)), strict=True):
        assert_array_equal(one, two)
    assert_array_equal(*twice(lambda: fused.log_volumes(U, subsets)))


# --- spmm ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("types", "index"), [("dd", "i4"), ("dd", "i8"), ("fd", "i4"), ("ff", "i4"), ("df", "i4")])
@pytest.mark.parametrize("k", [None, 1, 2, 7, 8, 20, 41])
def test_spmm_agrees_with_plain(types, index, k):
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(60, 45, 0.2, format="csr", dtype=types[0], rng=rng)
    A.data[:] = rng.normal(size=A.nnz)
    csr = A.indptr.astype(index), A.indices.astype(index), A.data
    shape = () if k is None else (k,)
    V = rng.normal(size=(45, *shape)).astype(types[1])
    tolerance = 1e-12 if types[1] == "d" else 1e-5
    got, expected = fused.spmm(*csr, V), plain.spmm(*csr, V)
    assert got.dtype == expected.dtype
    assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_spmm_with_empty_rows_strided_blocks_and_nothing():
    rng = np.random.default_rng(1)
    A = scipy.sparse.random(50, 30, 0.02, format="csr", rng=rng)
    V = rng.normal(size=(30, 20))[:, ::2]
    assert_allclose(fused.spmm(A.indptr, A.indices, A.data, V), A @ V, rtol=1e-13, atol=1e-13)
    none = np.zeros(1, np.int32), np.zeros(0, np.int32), np.zeros(0)
    assert fused.spmm(*none, V).shape == (0, 10)
    assert_array_equal(fused.spmm(np.zeros(4, np.int32), *none[1:], np.empty((0, 3))), np.zeros((3, 3)))
    assert_array_equal(fused.spmm(np.zeros(4, np.int32), *none[1:], np.empty(0)), np.zeros(3))


@pytest.mark.parametrize("shape", [(2000,), (2000, 12)])
def test_spmm_does_not_depend_on_the_number_of_threads(shape):
    V = np.random.default_rng(0).normal(size=shape)
    assert_array_equal(*twice(lambda: fused.spmm(*sparse_rows(2000, 30), V)))


# --- tile_graph ------------------------------------------------------------------------------------------------------


def true_pairs(rows, columns, radius):
    difference = rows[:, None, :].astype(np.float64) - columns[None].astype(np.float64)
    squared = (difference**2).sum(axis=2)
    i, j = np.nonzero(squared <= radius * radius)
    return np.bincount(i, minlength=len(rows)), j, np.sqrt(squared[i, j])


def assert_tile(rows, columns, radius, tolerance=None):
    counts, indices, distances = fused.tile_graph(rows, columns, radius)
    expected = true_pairs(rows, columns, radius)
    assert counts.dtype == indices.dtype == np.int64
    assert distances.dtype == rows.dtype
    assert_array_equal(counts, expected[0])
    assert_array_equal(indices, expected[1])
    tolerance = tolerance or (1e-10 if rows.dtype == np.float64 else 1e-5)
    assert_allclose(distances, expected[2], rtol=tolerance)
    return counts


@pytest.mark.parametrize("D", [1, 2, 3, 4, 5, 8, 20, 21, 22, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(1, 1), (40, 255), (33, 257), (70, 600)])
def test_tile_graph_finds_the_true_pairs(D, dtype, sizes):
    rng = np.random.default_rng(D)
    rows, columns = (rng.normal(size=(size, D)).astype(dtype) for size in sizes)
    radius = float(np.quantile(np.linalg.norm(rows[:, None] - columns[None], axis=2), 0.2)) + 1e-6
    assert_tile(rows, columns, radius)
    if dtype == np.float64:  # in float32 plain rounds its differences, too
        arguments = rows, columns, radius
        for got, expected in zip(fused.tile_graph(*arguments), plain.tile_graph(*arguments), strict=True):
            assert got.dtype == expected.dtype
            assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("D", [2, 3, 24])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tile_graph_takes_pairs_exactly_on_the_sphere(D, dtype):
    points = np.zeros((125, D), dtype=dtype)
    points[:, :2] = np.stack(np.divmod(np.arange(125), 12), axis=1)
    counts = assert_tile(points, points, 5.0)  # 3-4-5: many pairs at distance 5 exactly
    fewer = assert_tile(points, points, np.nextafter(5.0, 0))
    assert counts.sum() > fewer.sum()


@pytest.mark.parametrize("D", [3, 30])
def test_tile_graph_of_duplicates_and_of_points_far_from_the_origin(D):
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(40, D)), 3, axis=0)
    assert_tile(points, points, 0.0)
    assert_tile(points, points, 2.0)
    assert_tile(points + 1e6, points + 1e6, 2.0, tolerance=1e-8)


@pytest.mark.parametrize("D", [3, 30])
def test_tile_graph_of_strided_input_of_nothing_and_of_no_pairs(D):
    points = np.random.default_rng(0).normal(size=(60, 2 * D))
    assert_tile(points[::2, ::2], np.asfortranarray(points[:, 1::2]), 3.0)
    for r, c in [(0, 5), (5, 0), (0, 0)]:
        counts, indices, distances = fused.tile_graph(points[:r, :D], points[:c, :D], 1.0)
        assert_array_equal(counts, np.zeros(r))
        assert len(indices) == len(distances) == 0
    assert_tile(points[:5, :D], points[10:20, :D] + 100, 1.0)


@pytest.mark.parametrize("D", [3, 30])
def test_tile_graph_does_not_depend_on_the_number_of_threads(D):
    points = np.random.default_rng(0).normal(size=(500, D))
    for one, two in zip(*twice(lambda: fused.tile_graph(points, points, 0.2 * D)), strict=True):
        assert_array_equal(one, two)


# --- kd_order --------------------------------------------------------------------------------------------------------


def cells(order, levels):
    return np.split(order, (len(order) * np.arange(1, 1 << levels)) >> levels)


@pytest.mark.parametrize(
    ("n", "k", "levels"), [(1, 1, 0), (1, 2, 3), (2, 1, 1), (7, 2, 2), (100, 1, 3), (1000, 3, 5), (1003, 2, 8)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kd_order_makes_the_cells_of_plain(n, k, levels, dtype):
    Z = np.random.default_rng(n).normal(size=(n, k)).astype(dtype)
    order = fused.kd_order(Z, levels)
    assert order.dtype == np.int64
    assert_array_equal(np.sort(order), np.arange(n))
    if n >= 1 << levels:
        for cell, expected in zip(cells(order, levels), cells(plain.kd_order(Z, levels), levels), strict=True):
            assert_array_equal(np.sort(cell), np.sort(expected))


@pytest.mark.parametrize("kind", ["equal", "two values", "sorted", "falling", "organ pipe", "nan"])
def test_kd_order_cuts_at_the_median_for_any_input(kind):
    n = 20_000
    line = np.arange(n, dtype=float)
    Z = {
        "equal": np.ones(n),
        "two values": line % 2,
        "sorted": line,
        "falling": -line,
        "organ pipe": np.minimum(line, n - line),
        "nan": np.where(line % 3 == 0, np.nan, line),
    }[kind][:, None]
    order = fused.kd_order(Z, 7)
    assert_array_equal(np.sort(order), np.arange(n))
    if kind == "nan":
        return
    for level in range(1, 8):
        parts = cells(order, level)
        for left, right in pairwise(parts):
            assert Z[left].max() <= Z[right].min()


def test_kd_order_does_not_depend_on_the_number_of_threads_or_on_strides():
    Z = np.random.default_rng(0).normal(size=(5000, 6))[:, ::2]
    one, two = twice(lambda: fused.kd_order(Z, 9))
    assert_array_equal(one, two)
    assert_array_equal(one, fused.kd_order(np.ascontiguousarray(Z), 9))
    assert len(fused.kd_order(np.empty((0, 2)), 3)) == 0


# --- the module ------------------------------------------------------------------------------------------------------


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
    asked -= {"NAME", "__file__", "products", "ahead"}  # for doctor; the last two for compiling
    assert asked == set(INTERFACE)


def test_threads_are_set_bounded_and_restored():
    before = numba.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), fused.threads(1):
        assert numba.get_num_threads() == 1
        raise RuntimeError("stop")
    assert numba.get_num_threads() == before
    with fused.threads(10_000):
        assert numba.get_num_threads() == numba.config.NUMBA_NUM_THREADS
    with fused.threads(0):
        assert numba.get_num_threads() == 1


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


def test_kernels_work_where_no_folder_can_be_written():
    nowhere = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
    assert run_python(nowhere + SMALL).split() == ["0"]
