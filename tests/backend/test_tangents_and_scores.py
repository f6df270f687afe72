"""Tangent bases and scores by Numba and by CUDA: what is true of them, on any input and in any company."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import launch

from .kernel_sides import Side, bases, on_host, some_sets, sparse_rows

ON_HOST = Side(plain, np)


def assert_eigenpairs(H, U, sigma, tolerance):
    """Orthonormal, a small residual, and the leading eigenvalues: true for repeated ones too, unlike equal vectors."""
    U, sigma = U.astype(np.float64), sigma.astype(np.float64)
    d = sigma.shape[1]
    scale = np.trace(H, axis1=1, axis2=2)[:, None]
    assert_allclose(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(d), (len(U), d, d)), atol=10 * tolerance)
    assert (np.abs(H @ U - U * sigma[:, None, :]) <= tolerance * scale[:, :, None]).all()
    assert (np.abs(sigma - np.linalg.eigvalsh(H)[:, ::-1][:, :d]) <= tolerance * scale).all()
    assert (sigma >= 0).all() and (np.diff(sigma, axis=1) <= 0).all()


def spectrum_rows(values, seed=0):
    """A row whose co-metric has exactly these eigenvalues, up to rounding."""
    m = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(m, m)))[0]
    Y = np.vstack([np.zeros(m), Q.T * np.sqrt(2 * np.asarray(values))[:, None]])
    return np.array([0, m]), np.arange(1, m + 1), np.ones(m), Y, np.array([0])


def random_rows(m, dtype=np.float64):
    csr, rng = sparse_rows(60, 12, index=np.int64 if m == 33 else np.int32), np.random.default_rng(1)
    return *csr, rng.normal(size=(60, m)).astype(dtype), rng.permutation(60)[:25]


def long_row(degree):
    rng = np.random.default_rng(degree)
    row = np.array([0, degree]), rng.integers(5, size=degree), rng.uniform(size=degree)
    return *row, rng.normal(size=(5, 6)), np.array([0])


def signed_rows():
    """Entries on the diagonal do not matter, whatever their sign; others may be negative by rounding."""
    indptr, indices, weights = sparse_rows(40, 12)
    indices[indptr[3]], weights[indptr[3]], weights[indptr[4]] = 3, -0.5, -1e-9
    return indptr, indices, weights, np.random.default_rng(0).normal(size=(40, 6)), np.arange(1, 7)


SPECTRA = [
    [1.0] * 20, [2.0, 2, 2, 1, 1, 0, 0, 0], [1.0] + [0.0] * 9, [0.0] * 5,
    [1, 1 - 1e-15, 1 - 1e-14, 1 - 1e-9, 0.5, 0.5 + 1e-15, 0, 0], list(10.0 ** -np.arange(20)),
    [3e-200, 2e-200, 1e-200, 0], [3e150, 2e150, 1e150, 0],
]  # fmt: skip
ROWS = {
    **{f"{m} columns": lambda m=m: [random_rows(m)] for m in (1, 2, 5, 20, 33, 64)},
    **{f"{m} columns, float32": lambda m=m: [random_rows(m, np.float32)] for m in (1, 2, 5, 20, 33, 64)},
    **{f"degree {degree}": lambda degree=degree: [long_row(degree)] for degree in (1, 8, 65, 97, 193, 1000)},
    **{f"{values}": lambda values=values: [spectrum_rows(values, seed) for seed in range(3)] for values in SPECTRA},
    "signs": lambda: [signed_rows()],
}


@pytest.mark.parametrize("name", ROWS)
def test_leading_eigenpairs(side, name):
    """In every dimension, for every way to fill the scratch, and where eigenvalues are equal, tiny or zero."""
    for given in ROWS[name]():
        (*csr, Y, rows), m = given, given[3].shape[1]
        H = plain.cometric_rows(*csr, Y.astype(np.float64), rows)
        for d in range(1, min(m, 8) + 1):
            U, sigma = side.run("tangent_rows", *given, d)
            assert U.dtype == sigma.dtype == Y.dtype
            assert U.shape == (len(rows), m, d) and U.flags.c_contiguous
            assert_eigenpairs(H, U, sigma, 1e-12 if Y.dtype == np.float64 else 2e-6)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-16), (np.float32, 1e15), (np.float64, 1e-150)])
def test_coordinates_whose_squares_are_beyond_the_range_of_numbers(side, dtype, scale):
    csr, Y = sparse_rows(40, 12), np.random.default_rng(0).normal(size=(40, 20))
    scale = max(scale, 1e-100) if side.xp is np else scale  # Numba's takes what is smaller for nothing
    U, sigma = side.run("tangent_rows", *csr, (scale * Y).astype(dtype), np.arange(40), 3)
    H = plain.cometric_rows(*csr, ((scale * Y).astype(dtype) / scale).astype(float), np.arange(40))
    assert_eigenpairs(H, U, sigma.astype(float) / scale**2, 1e-12 if dtype == np.float64 else 2e-6)


AWKWARD = {
    "one direction": lambda rng, n, m: np.repeat(rng.normal(size=(n, 1)), m, axis=1),
    "corners of a simplex": lambda rng, n, m: np.eye(m)[rng.integers(0, m, n)],
    "lattice": lambda rng, n, m: np.round(2 * rng.normal(size=(n, m))),
    "scales": lambda rng, n, m: rng.normal(size=(n, m)) * 10.0 ** rng.integers(-8, 3, m),
    "falling": lambda rng, n, m: rng.normal(size=(n, m)) * 0.5 ** np.arange(m),
}


@pytest.mark.parametrize(("m", "d"), [(6, 5), (20, 2), (39, 30)])
@pytest.mark.parametrize("kind", list(AWKWARD))
def test_awkward_spectra_in_any_company(side, kind, m, d):
    """Matrices of low rank, that fall apart, or whose determinants are beyond the range of numbers.

    Numba computes eight rows side by side: which ones must not matter to a bit.
    """
    if d > launch.MAX_DIM and side.xp is not np:
        pytest.skip("plain code")
    csr, rng = sparse_rows(120, 30, seed=m), np.random.default_rng(d)
    Y, rows = AWKWARD[kind](rng, 120, m), np.arange(120)
    U, sigma = side.run("tangent_rows", *csr, Y, rows, d)
    assert_eigenpairs(plain.cometric_rows(*csr, Y, rows), U, sigma, 1e-11)
    some = rng.permutation(120)[:50]
    for found, expected in zip(side.run("tangent_rows", *csr, Y, some, d), (U, sigma), strict=True):
        assert_array_equal(found, expected[some])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_whose_eigenpairs_cannot_be_trusted_are_computed_by_lapack(fused, monkeypatch, dtype):
    tangent = sys.modules["ies_gpu.backend.kernels.fused.tangent"]
    csr, Y = sparse_rows(50, 12), np.random.default_rng(1).normal(size=(50, 7)).astype(dtype)
    with monkeypatch.context() as patch:  # and only those, which are none of random ones: it is many times slower
        patch.setattr(tangent.plain, "tangent_rows", None)
        fused.tangent_rows(*csr, Y, np.arange(50), 3)
    monkeypatch.setattr(tangent, "eigenpairs_task", lambda *a: a[-1].fill(False))
    U, sigma = fused.tangent_rows(*csr, Y, np.arange(50), 3)
    H = plain.cometric_rows(*csr, Y.astype(np.float64), np.arange(50))
    assert_eigenpairs(H, U, sigma, 1e-12 if dtype == np.float64 else 1e-6)


def test_duplicate_points_and_empty_rows_have_any_basis_and_sigma_zero(side):
    given = np.array([0, 3, 3, 4, 4]), np.arange(4), np.ones(4), np.ones((4, 3)), np.arange(4)
    U, sigma = side.run("tangent_rows", *given, 2)
    assert_array_equal(sigma, 0)
    assert_array_equal(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(2), (4, 2, 2)))
    shapes = [a.shape for a in side.run("tangent_rows", *given[:4], np.arange(0), 2)]
    assert shapes == [(0, 3, 2), (0, 2)]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_spoils_its_own_row_only(side, value):
    indptr, indices, weights = sparse_rows(40, 12)
    Y, rows, spoiled = np.random.default_rng(0).normal(size=(40, 20)), np.arange(8, 14), weights.copy()
    spoiled[indptr[10]] = value
    expected = side.run("tangent_rows", indptr, indices, weights, Y, rows, 2)
    with np.errstate(all="ignore"):
        found = side.run("tangent_rows", indptr, indices, spoiled, Y, rows, 2)
    assert np.isnan(found[1][2]).all()
    for one, two in zip(found, expected, strict=True):
        assert_array_equal(np.delete(one, 2, axis=0), np.delete(two, 2, axis=0))


def test_any_layout_and_index_type(side):
    xp, csr = side.xp, [side.xp.asarray(a) for a in sparse_rows(100, 20)]
    Y = xp.asarray(np.random.default_rng(0).normal(size=(100, 12)))[:, ::2]
    expected = side.module.tangent_rows(*csr, xp.ascontiguousarray(Y), xp.arange(100), 3)
    for kind in (np.int32, np.int64):
        given = [xp.repeat(a.astype(kind if a.dtype.kind == "i" else a.dtype), 2)[::2] for a in csr]
        for layout in (Y, xp.asfortranarray(Y)):
            found = side.module.tangent_rows(*given, layout, xp.arange(100, dtype=kind)[::-3], 3)
            for one, two in zip(found, expected, strict=True):
                assert bool((one == two[::-3]).all())


def score(side, U, subsets):
    totals, best, best_score = np.zeros(len(subsets)), np.full(len(U), -1), np.full(len(U), np.nan)
    side.run("score_block", U, subsets, totals, best, best_score)
    return totals, best, best_score


def score_error(U, subsets, found) -> float:
    """Largest error in units of what rounding does to a score: eps / sqrt(ratio)."""
    totals, best, best_score = found
    scores = plain.log_volumes(U, subsets)
    unit = np.finfo(U.dtype).eps * np.exp(-np.maximum(scores, -15))
    points = np.arange(len(U))
    errors = [
        np.abs(totals - scores.sum(axis=0)) / unit.sum(axis=0),
        np.abs(best_score - scores.max(axis=1)) / unit[points, best],
        (scores.max(axis=1) - scores[points, best]) / unit[points, best],  # of two sets as good, either may be found
    ]
    worst = [error.max() for error in errors]
    return np.inf if np.isnan(worst).any() else max(worst)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2, 7, 33, 64])
def test_scores_of_every_dimension_and_size(side, m, dtype):
    for d in range(1, min(m, 8) + 1):
        U = bases(71, m, d, dtype)
        for s, count in {d: 19, min(d + 1, m): 1, min(2 * d, m): 150, m: 3}.items():
            subsets = some_sets(m, s, count)
            assert score_error(U, subsets, score(side, U, subsets)) < 40


@pytest.mark.parametrize(("n", "dtype"), [(1, "f8"), (64, "f8"), (65, "f4"), (700, "f8"), (40_000, "f4")])
def test_scores_of_any_number_of_points_and_their_table(fused, n, dtype):
    """Numba computes in float64 whatever is given; of 40,000 points the totals come in several rounds."""
    for m, d, s in [(4, 2, 2)] if n > 1000 else [(6, 1, 3), (8, 2, 4), (8, 3, 5), (9, 8, 8), (9, 5, 7)]:
        U, subsets = bases(n, m, d, dtype), some_sets(m, s)
        found, expected = score(Side(fused, np), U, subsets), score(ON_HOST, U.astype(float), subsets)
        assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
        assert_allclose(found[2], expected[2], rtol=1e-10, atol=1e-13)
        if d > 1:  # for d = 1 every set has ratio 1, up to rounding in plain
            assert_array_equal(found[1], expected[1])
        assert_allclose(
            fused.log_volumes(U, subsets), plain.log_volumes(U.astype(float), subsets), rtol=1e-10, atol=1e-13
        )


def test_totals_are_added_to_and_any_layout_will_do(side):
    xp, U, subsets = side.xp, bases(100, 6, 2)[:, :, ::-1], some_sets(6, 3)
    expected = score(side, np.ascontiguousarray(U), subsets)
    there = xp.ascontiguousarray(xp.asarray(U).transpose(2, 0, 1)).transpose(1, 2, 0)
    totals, wide, best = xp.ones(2 * len(subsets))[::2], xp.zeros((100, 2)), xp.zeros(200, dtype=np.int32)[::2]
    sets = xp.asfortranarray(xp.asarray(subsets.astype(np.int32)))
    side.module.score_block(there, sets, totals, best, wide[:, 1])
    for found, wanted in zip((totals, best, wide[:, 1]), (1 + expected[0], *expected[1:]), strict=True):
        assert_allclose(on_host(found), wanted, rtol=1e-14)
    side.module.score_block(there[:0], sets, totals, best[:0], wide[:0, 1])  # of no points
    assert_allclose(on_host(totals), 1 + expected[0], rtol=1e-14)


def test_dependent_columns_and_columns_of_zeros_count_as_the_floor(side, fused):
    U = np.zeros((3, 5, 2))
    U[0, :, 0] = U[0, :, 1] = [1, 2, 3, 4, 5]  # dependent
    U[1, :, 0] = 1  # a column of zeros
    U[2, :2] = np.eye(2)  # zeros in every set but the first
    subsets, floor = some_sets(5, 2), 0.5 * np.log(plain.FLOOR)
    table = fused.log_volumes(U, subsets)
    assert_allclose(table[:2], floor)
    assert_allclose(table[2], [0] + [floor] * 9)
    totals, best, best_score = score(side, U, subsets)
    assert_allclose(totals, table.sum(axis=0))
    assert_array_equal(best, 0)
    assert_allclose(best_score, [floor, floor, 0], atol=1e-15)


def test_columns_of_very_small_numbers(side):
    subsets = some_sets(20, 4, 90)
    U = bases(71, 20, 3) * [1e-140, 1e-100, 1]
    assert score_error(U, subsets, score(side, U, subsets)) < 40
    if side.xp is not np:
        for result in score(side, U * [1e-18, 1, 1], subsets):  # squares are denormal or zero
            assert np.isfinite(result).all()


def test_nearly_dependent_sets_keep_their_digits(side):
    """A determinant of U'U would be noise from 1e-8 on."""
    for angle in 10.0 ** -np.arange(1, 13):
        U = np.array([[[1.0, 1.0], [1.0, 1.0 + angle], [0, 0]]])
        apart = U[0, 1, 1] - 1
        ratio = apart**2 / (2 * (1 + (1 + apart) ** 2))
        found = score(side, U, np.array([[0, 1]]))[2][0]
        assert_allclose(found, 0.5 * np.log(ratio), rtol=1e-4 * 1e-12 / angle + 1e-9)


def test_of_equal_sets_the_first_is_best(side):
    U = bases(50, 3, 2)[:, [0, 1, 0, 1, 2]]  # rows 0 = 2 and 1 = 3
    subsets = np.array([[0, 2], [0, 1], [0, 3], [2, 3], [1, 3]])  # the first and the last are dependent
    assert_array_equal(score(side, U, subsets)[1], 1)
    U, subsets = bases(71, 20, 2), some_sets(20, 3, 40)
    once = score(side, U, subsets)
    for again in (np.repeat(subsets, 2, axis=0), np.tile(subsets, (6, 1))):  # within and across chunks and launches
        _, best, best_score = score(side, U, again)
        assert_array_equal(best_score, once[2])
        assert_array_equal(best, [np.flatnonzero((again == subsets[k]).all(axis=1))[0] for k in once[1]])


def test_a_point_with_nan_spoils_the_totals_and_nothing_else(side):
    U, subsets = bases(10, 5, 2), some_sets(5, 3)
    expected = score(side, U, subsets)
    U[4] = np.nan
    totals, best, best_score = score(side, U, subsets)
    assert np.isnan(totals).all() and np.isnan(best_score[4])
    assert_array_equal(np.delete(best, 4), np.delete(expected[1], 4))


RANDOM = np.random.default_rng(0)
IN_THREADS = {
    "tangent_rows": lambda: (*sparse_rows(3000, 30), RANDOM.normal(size=(3000, 20)), np.arange(3000), 2),
    "spmm of a vector": lambda: (*sparse_rows(2000, 30), RANDOM.normal(size=2000)),
    "spmm of a block": lambda: (*sparse_rows(2000, 30), RANDOM.normal(size=(2000, 12))),
    "tile_graph of few columns": lambda: (RANDOM.normal(size=(500, 3)),) * 2 + (0.6,),
    "tile_graph of many": lambda: (RANDOM.normal(size=(500, 30)),) * 2 + (6.0,),
    "kd_order": lambda: (RANDOM.normal(size=(5000, 3)), 9),
    "log_volumes": lambda: (bases(5000, 10, 2), some_sets(10, 3)),
    "score_block": lambda: (bases(5000, 10, 2), some_sets(10, 3), np.zeros(120), np.zeros(5000, int), np.zeros(5000)),
}


@pytest.mark.parametrize("name", IN_THREADS)
def test_the_number_of_threads_does_not_matter(fused, name):
    given, found = IN_THREADS[name](), []
    for count in (1, 2):
        case = [part.copy() if isinstance(part, np.ndarray) else part for part in given]
        with fused.threads(count):
            made = getattr(fused, name.partition(" ")[0])(*case)
        found.append([*(made if isinstance(made, tuple) else [made]), *case])
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)
