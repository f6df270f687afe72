"""Fused products, neighbours and order: what plain code finds, on any input and in any number of threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain

from .fused_inputs import fused, sparse_rows, twice

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
