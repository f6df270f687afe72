"""Products, neighbours and order by fast kernels: what is true, on any input and in any number of threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain

from .kernel_sides import kernels_of, on_host, sparse_rows, twice

# --- spmm ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("types", "index"), [("dd", "i4"), ("dd", "i8"), ("fd", "i4"), ("ff", "i4"), ("df", "i4")])
@pytest.mark.parametrize("k", [None, 1, 2, 7, 8, 20, 41])
def test_spmm_is_the_product_of_dense_matrices(side, types, index, k):
    """With negative entries, and rows that are empty."""
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(60, 45, 0.05, format="csr", dtype=types[0], rng=rng)
    A.data[:] = rng.normal(size=A.nnz)
    V = rng.normal(size=(45, *(() if k is None else (k,)))).astype(types[1])
    found = side.run("spmm", A.indptr.astype(index), A.indices.astype(index), A.data, V)
    assert found.dtype == plain.spmm(A.indptr, A.indices, A.data, V).dtype
    tolerance = 1e-12 if types[1] == "d" else 1e-5
    assert_allclose(found, A.toarray().astype(float) @ V.astype(float), rtol=tolerance, atol=tolerance)


def test_spmm_with_strided_blocks_and_nothing(side):
    A = scipy.sparse.random(50, 30, 0.02, format="csr", rng=np.random.default_rng(1))
    there = [side.xp.asarray(part) for part in (A.indptr, A.indices, A.data, np.random.default_rng(1).random((30, 20)))]
    V = there[3][:, ::2]
    assert_allclose(on_host(side.module.spmm(*there[:3], V)), A @ on_host(V), rtol=1e-13, atol=1e-13)
    none = np.zeros(1, np.int32), np.zeros(0, np.int32), np.zeros(0)
    assert side.run("spmm", *none, np.ones((30, 10))).shape == (0, 10)
    for empty in (np.empty((0, 3)), np.empty(0)):
        assert_array_equal(side.run("spmm", np.zeros(4, np.int32), *none[1:], empty), np.zeros((3, *empty.shape[1:])))


def test_some_rows_are_scaled_and_no_others(side):
    indptr, indices, data = sparse_rows(41, 5)
    left, right = np.random.default_rng(0).uniform(1, 2, size=(2, 41))
    found = data.copy()
    side.run("scaled_entries", indptr[5:31], indices, found, left[5:30], right)
    part = slice(indptr[5], indptr[30])
    assert_allclose(found[part], data[part] * np.repeat(left[5:30], np.diff(indptr[5:31])) * right[indices[part]])
    assert_array_equal(np.delete(found, np.r_[part]), np.delete(data, np.r_[part]))


@pytest.mark.parametrize("shape", [(2000,), (2000, 12)])
def test_spmm_does_not_depend_on_the_number_of_threads(fused, shape):
    V = np.random.default_rng(0).normal(size=shape)
    assert_array_equal(*twice(fused, lambda: fused.spmm(*sparse_rows(2000, 30), V)))


# --- near_pairs, of CUDA only ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 3, 16])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize(("diagonal", "storage"), [(True, "float64"), (False, "float32")])
def test_near_pairs_are_those_of_all_distances(D, scattered, diagonal, storage):
    """Some points are equal. Scattered over 75 cells in no order, which of them are near is found in two turns."""
    rng = np.random.default_rng(D)
    Z = rng.random((150, D))
    Z = Z[np.argsort(Z[:, 0])]
    Z[7] = Z[6]
    starts, reach = np.array([0, 40, 41, 97, 150]), 0.3 * np.sqrt(D)
    if scattered:
        Z = Z.reshape(75, 2, D)[rng.permutation(75)].reshape(150, D)
        starts, reach = np.arange(0, 151, 2), 0.1
    parts = [Z[a:b] for a, b in pairwise(starts)]
    low, high = (np.array([end(part, axis=0) for part in parts]) for end in (np.min, np.max))
    with kernels_of("random") as cuda:
        found = cuda.run("near_pairs", Z, starts, low, high, reach**2, reach, diagonal, 2.0, storage)
        degrees = cuda.run("degrees", Z, np.arange(150)[::7], reach)
    distances = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
    near = (distances <= reach) & (diagonal | ~np.eye(150, dtype=bool))
    assert_array_equal(np.diff(found[0]), near.sum(axis=1))
    assert_array_equal(found[1], np.nonzero(near)[1])
    assert found[2].dtype == storage
    assert_allclose(found[2], 2 * distances[near], rtol=1e-6 if storage == "float32" else 1e-12)
    assert_array_equal(degrees, (distances <= reach).sum(axis=1)[::7])


# --- tile_graph ------------------------------------------------------------------------------------------------------


def true_pairs(rows, columns, radius):
    difference = rows[:, None, :].astype(np.float64) - columns[None].astype(np.float64)
    squared = (difference**2).sum(axis=2)
    i, j = np.nonzero(squared <= radius * radius)
    return np.bincount(i, minlength=len(rows)), j, np.sqrt(squared[i, j])


def assert_tile(fused, rows, columns, radius, tolerance=None):
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
def test_tile_graph_finds_the_true_pairs(fused, D, dtype, sizes):
    rng = np.random.default_rng(D)
    rows, columns = (rng.normal(size=(size, D)).astype(dtype) for size in sizes)
    radius = float(np.quantile(np.linalg.norm(rows[:, None] - columns[None], axis=2), 0.2)) + 1e-6
    assert_tile(fused, rows, columns, radius)
    if dtype == np.float64:  # in float32 plain rounds its differences, too
        arguments = rows, columns, radius
        for got, expected in zip(fused.tile_graph(*arguments), plain.tile_graph(*arguments), strict=True):
            assert got.dtype == expected.dtype
            assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("D", [2, 3, 24])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tile_graph_takes_pairs_exactly_on_the_sphere(fused, D, dtype):
    points = np.zeros((125, D), dtype=dtype)
    points[:, :2] = np.stack(np.divmod(np.arange(125), 12), axis=1)
    counts = assert_tile(fused, points, points, 5.0)  # 3-4-5: many pairs at distance 5 exactly
    fewer = assert_tile(fused, points, points, np.nextafter(5.0, 0))
    assert counts.sum() > fewer.sum()


@pytest.mark.parametrize("D", [3, 30])
def test_tile_graph_of_duplicates_and_of_points_far_from_the_origin(fused, D):
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(40, D)), 3, axis=0)
    assert_tile(fused, points, points, 0.0)
    assert_tile(fused, points, points, 2.0)
    assert_tile(fused, points + 1e6, points + 1e6, 2.0, tolerance=1e-8)


@pytest.mark.parametrize("D", [3, 30])
def test_tile_graph_of_strided_input_of_nothing_and_of_no_pairs(fused, D):
    points = np.random.default_rng(0).normal(size=(60, 2 * D))
    assert_tile(fused, points[::2, ::2], np.asfortranarray(points[:, 1::2]), 3.0)
    for r, c in [(0, 5), (5, 0), (0, 0)]:
        counts, indices, distances = fused.tile_graph(points[:r, :D], points[:c, :D], 1.0)
        assert_array_equal(counts, np.zeros(r))
        assert len(indices) == len(distances) == 0
    assert_tile(fused, points[:5, :D], points[10:20, :D] + 100, 1.0)


@pytest.mark.parametrize("D", [3, 30])
def test_tile_graph_does_not_depend_on_the_number_of_threads(fused, D):
    points = np.random.default_rng(0).normal(size=(500, D))
    for one, two in zip(*twice(fused, lambda: fused.tile_graph(points, points, 0.2 * D)), strict=True):
        assert_array_equal(one, two)


# --- kd_order --------------------------------------------------------------------------------------------------------


def cells(order, levels):
    return np.split(order, (len(order) * np.arange(1, 1 << levels)) >> levels)


@pytest.mark.parametrize(
    ("n", "k", "levels"), [(1, 1, 0), (1, 2, 3), (2, 1, 1), (7, 2, 2), (100, 1, 3), (1000, 3, 5), (1003, 2, 8)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kd_order_makes_the_cells_of_plain(fused, n, k, levels, dtype):
    Z = np.random.default_rng(n).normal(size=(n, k)).astype(dtype)
    order = fused.kd_order(Z, levels)
    assert order.dtype == np.int64
    assert_array_equal(np.sort(order), np.arange(n))
    if n >= 1 << levels:
        for cell, expected in zip(cells(order, levels), cells(plain.kd_order(Z, levels), levels), strict=True):
            assert_array_equal(np.sort(cell), np.sort(expected))


@pytest.mark.parametrize("kind", ["equal", "two values", "sorted", "falling", "organ pipe", "nan"])
def test_kd_order_cuts_at_the_median_for_any_input(fused, kind):
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


def test_kd_order_does_not_depend_on_the_number_of_threads_or_on_strides(fused):
    Z = np.random.default_rng(0).normal(size=(5000, 6))[:, ::2]
    one, two = twice(fused, lambda: fused.kd_order(Z, 9))
    assert_array_equal(one, two)
    assert_array_equal(one, fused.kd_order(np.ascontiguousarray(Z), 9))
    assert len(fused.kd_order(np.empty((0, 2)), 3)) == 0
