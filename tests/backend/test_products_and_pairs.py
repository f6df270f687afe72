"""Products, pairs of points and the order in space by fast kernels: what is true of them, on any input."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.compare import small_cases
from ies_gpu.backend.kernels import plain

from .kernel_sides import kernels_of, on_host, sparse_rows


@pytest.mark.parametrize(("types", "index"), [("dd", "i4"), ("dd", "i8"), ("fd", "i4"), ("ff", "i4"), ("df", "i4")])
@pytest.mark.parametrize("k", [None, 1, 20, 41])
def test_spmm_is_the_product_of_dense_matrices(side, types, index, k):
    """With negative entries, rows that are empty, and columns that lie apart."""
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(60, 45, 0.05, format="csr", dtype=types[0], rng=rng)
    A.data[:] = rng.normal(size=A.nnz)
    wide = rng.normal(size=(45, 2 * (k or 1))).astype(types[1])
    matrix = [side.xp.asarray(part) for part in (A.indptr.astype(index), A.indices.astype(index), A.data)]
    chosen = np.s_[:, 0] if k is None else np.s_[:, ::2]
    found, V = on_host(side.module.spmm(*matrix, side.xp.asarray(wide)[chosen])), wide[chosen]
    assert found.dtype == plain.spmm(A.indptr, A.indices, A.data, V).dtype
    tolerance = 1e-12 if types[1] == "d" else 1e-5
    assert_allclose(found, A.toarray().astype(float) @ V.astype(float), rtol=tolerance, atol=tolerance)


def test_spmm_with_nothing(side):
    none = np.zeros(0, np.int32), np.zeros(0)
    assert side.run("spmm", np.zeros(1, np.int32), *none, np.ones((30, 10))).shape == (0, 10)
    for empty in (np.empty((0, 3)), np.empty(0)):
        assert_array_equal(side.run("spmm", np.zeros(4, np.int32), *none, empty), np.zeros((3, *empty.shape[1:])))


def test_some_rows_are_scaled_and_no_others(side):
    indptr, indices, data = sparse_rows(41, 5)
    left, right = np.random.default_rng(0).uniform(1, 2, size=(2, 41))
    found = data.copy()
    side.run("scaled_entries", indptr[5:31], indices, found, left[5:30], right)
    part = slice(indptr[5], indptr[30])
    assert_allclose(found[part], data[part] * np.repeat(left[5:30], np.diff(indptr[5:31])) * right[indices[part]])
    assert_array_equal(np.delete(found, np.r_[part]), np.delete(data, np.r_[part]))


@pytest.mark.parametrize("k", [1, 8, 13, 40])
def test_products_with_chosen_columns_and_scaled_matrices(side, k):
    rng, run = np.random.default_rng(k), side.run
    ((*matrix, V, _, scale),) = small_cases("block_product", n=300, k=k)[1:]
    wide, columns = rng.normal(size=(300, 3 * k)).astype(np.float32), rng.integers(0, 3 * k, k)
    root, xp = rng.uniform(1, 2, 300), side.xp
    there = [xp.asarray(part) for part in (*matrix, V, wide, scale)]
    near = {"rtol": 1e-4, "atol": 1e-4}
    found = side.module.block_product(*there, chosen=(xp.asarray(columns), xp.asarray(scale)))
    assert found.dtype == np.float32
    assert_allclose(on_host(found), run("block_product", *matrix, V, wide[:, columns] * scale, scale), **near)
    roots = tuple(xp.asarray(part.astype(np.float32)) for part in (root, 1 / root))
    scaled = run("symmetric_entries", *matrix, root)
    found = side.module.block_product(*there[:4], root=roots)
    assert_allclose(on_host(found), run("block_product", *matrix[:2], scaled, V), **near)


def test_restriction_is_no_difference_of_running_sums(side):
    """In float32 those lose what is small beside all rows before it."""
    R = np.ones((20_000, 1), dtype=np.float32)
    R[:10_000] = 1e6
    found = side.run("restrict", np.arange(0, 20_001, 4), np.ones(20_000, dtype=np.float32), R)
    assert_array_equal(found[-2500:], 4)


def test_a_column_that_does_not_curve_up_takes_no_step(side):
    Z, R, P, image = (np.ones((3, 2), dtype=np.float32) for _ in range(4))
    side.run("descend", Z, R, P, image, np.array([1.0, 1.0]), np.array([-1.0, 2.0]))
    assert_array_equal(Z[0], [1.0, 1.5])


@pytest.mark.parametrize("kernels", ["plain", "fused"])
@pytest.mark.parametrize(("n", "k", "p", "t"), [(300, 0, 0, 5), (300, 4, 3, 3), (5000, 20, 16, 24)])
def test_inner_products_and_the_step_are_what_they_are_called(kernels, n, k, p, t):
    """Against dense algebra with S itself: the residuals and images that the step writes belong to its vectors."""
    module = plain if kernels == "plain" else pytest.importorskip("ies_gpu.backend.kernels.fused")
    rng = np.random.default_rng(k)
    S = scipy.sparse.random(n, n, 20 / n, format="csr", rng=rng)
    S, X = (S + S.T) / 20, np.linalg.qr(rng.normal(size=(n, k)))[0]
    before = np.linalg.eigvalsh(X.T @ (S @ X))[::-1]
    R = (S @ X - X * before).astype(np.float32)
    P, T = (rng.normal(size=(n, width)).astype(np.float32) for width in (p, t))
    tall = X, R, P, (S @ P).astype(np.float32), T, (S @ T).astype(np.float32)
    Y = np.concatenate([P, T], axis=1).astype(float)
    expected = X.T @ R, X.T @ Y, R.T @ Y, Y.T @ Y, Y.T @ (S @ Y)
    for ours, exact in zip(module.gram(*tall), expected, strict=True):
        assert_allclose(ours, exact, atol=1e-6 * n)
    assert_allclose(module.inner(X, R), X.T @ R, atol=1e-5)
    new = k or 3
    active, values = np.arange(new)[:: max(1, new // t + 1)], rng.normal(size=new)
    a, b, from_Y = rng.normal(size=(k, new)), rng.normal(size=(k, len(active))), rng.normal(size=(p + t, new))
    if not k:
        tall = (np.empty((n, new)), np.empty((n, new), dtype=np.float32), *tall[2:])
    from_X = np.concatenate([a, before[:, None] * a - a * values, -b, -before[:, None] * b], axis=1)
    step = Y @ from_Y
    moved, beside = X @ a + step, step[:, active] - X @ b
    idle = T[:, len(active) :].copy()
    squares = module.update(*tall, from_X, np.concatenate([a, -b], axis=1), from_Y, values, active)
    X, R, _, _, T, ST = tall
    residual = S @ moved - moved * values
    assert_allclose(X, moved, atol=1e-10)
    assert_allclose(R, residual, atol=1e-4)
    assert_allclose(squares, (residual**2).sum(axis=0), rtol=1e-4)
    assert_allclose(T[:, : len(active)], beside, atol=1e-4)
    assert_allclose(ST[:, : len(active)], S @ beside, atol=1e-4)
    assert_array_equal(T[:, len(active) :], idle)


@pytest.mark.parametrize(("D", "scattered"), [(1, False), (3, True), (16, False)])
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
    distances = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
    near = (distances <= reach) & (diagonal | ~np.eye(150, dtype=bool))
    assert_array_equal(np.diff(found[0]), near.sum(axis=1))
    assert_array_equal(found[1], np.nonzero(near)[1])
    assert found[2].dtype == storage
    assert_allclose(found[2], 2 * distances[near], rtol=1e-6 if storage == "float32" else 1e-12)


def assert_tile(fused, rows, columns, radius, tolerance=None):
    counts, indices, distances = fused.tile_graph(rows, columns, radius)
    squared = ((rows[:, None, :].astype(np.float64) - columns[None].astype(np.float64)) ** 2).sum(axis=2)
    i, j = np.nonzero(squared <= radius * radius)
    assert (counts.dtype, indices.dtype, distances.dtype) == (np.int64, np.int64, rows.dtype)
    assert_array_equal(counts, np.bincount(i, minlength=len(rows)))
    assert_array_equal(indices, j)
    tolerance = tolerance or (1e-10 if rows.dtype == np.float64 else 1e-5)
    assert_allclose(distances, np.sqrt(squared[i, j]), rtol=tolerance)
    return counts


@pytest.mark.parametrize("D", [1, 2, 3, 8, 20, 21, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tile_graph_finds_the_true_pairs(fused, D, dtype):
    rng = np.random.default_rng(D)
    for sizes in ((1, 1), (40, 255), (33, 257), (70, 600)):
        rows, columns = (rng.normal(size=(size, D)).astype(dtype) for size in sizes)
        radius = float(np.quantile(np.linalg.norm(rows[:, None] - columns[None], axis=2), 0.2)) + 1e-6
        assert_tile(fused, rows, columns, radius)
    strided, across = np.repeat(rows, 2, axis=1)[::2, ::2], np.asfortranarray(columns)
    assert_tile(fused, strided, across, radius)
    for r, c in [(0, 5), (5, 0), (0, 0)]:
        assert assert_tile(fused, rows[:r], columns[:c], 1.0).sum() == 0
    points = np.repeat(rng.normal(size=(40, D)), 3, axis=0)  # equal ones, also far from the origin
    for shift, reach in ((0, 0.0), (0, 2.0), (1e6, 2.0)):
        assert_tile(fused, points + shift, points + shift, reach, tolerance=1e-8)
    if D >= 2:  # 3-4-5: many pairs at distance 5 exactly
        points = np.zeros((125, D), dtype=dtype)
        points[:, :2] = np.stack(np.divmod(np.arange(125), 12), axis=1)
        fewer = assert_tile(fused, points, points, np.nextafter(5.0, 0))
        assert assert_tile(fused, points, points, 5.0).sum() > fewer.sum()


def cells(order, levels):
    return np.split(order, (len(order) * np.arange(1, 1 << levels)) >> levels)


@pytest.mark.parametrize(("n", "k", "levels"), [(1, 2, 3), (7, 2, 2), (100, 1, 3), (1000, 3, 5), (1003, 2, 8)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kd_order_makes_the_cells_of_plain(fused, n, k, levels, dtype):
    Z = np.random.default_rng(n).normal(size=(n, 2 * k)).astype(dtype)[:, ::2]
    order = fused.kd_order(Z, levels)
    assert order.dtype == np.int64
    assert_array_equal(np.sort(order), np.arange(n))
    if n >= 1 << levels:
        for cell, expected in zip(cells(order, levels), cells(plain.kd_order(Z, levels), levels), strict=True):
            assert_array_equal(np.sort(cell), np.sort(expected))


LINE = np.arange(20_000.0)
KINDS = {
    "equal": np.ones(20_000), "two values": LINE % 2, "sorted": LINE, "falling": -LINE,
    "organ pipe": np.minimum(LINE, 20_000 - LINE), "nan": np.where(LINE % 3 == 0, np.nan, LINE),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kd_order_cuts_at_the_median_for_any_input(fused, kind):
    Z = KINDS[kind][:, None]
    order = fused.kd_order(Z, 7)
    assert_array_equal(np.sort(order), np.arange(len(Z)))
    for level in range(1, 8) if kind != "nan" else ():
        for left, right in pairwise(cells(order, level)):
            assert Z[left].max() <= Z[right].min()
