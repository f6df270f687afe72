"""Tangent bases by Numba and by CUDA: the leading eigenpairs of awkward co-metrics, whatever stands beside them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import launch, text

from .kernel_sides import kernels_of, sparse_rows, twice


def assert_eigenpairs(H, U, sigma, tolerance):
    """Orthonormal, a small residual, and the leading eigenvalues: true for repeated ones too, unlike equal vectors."""
    U, sigma = U.astype(np.float64), sigma.astype(np.float64)
    d = sigma.shape[1]
    scale = np.trace(H, axis1=1, axis2=2)[:, None]
    assert_allclose(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(d), (len(U), d, d)), atol=10 * tolerance)
    assert (np.abs(H @ U - U * sigma[:, None, :]) <= tolerance * scale[:, :, None]).all()
    assert (np.abs(sigma - np.linalg.eigvalsh(H)[:, ::-1][:, :d]) <= tolerance * scale).all()
    assert (sigma >= 0).all()
    assert (np.diff(sigma, axis=1) <= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 20, 33, 64])
def test_leading_eigenpairs_in_every_dimension(side, m, dtype):
    csr = sparse_rows(60, 12, index=np.int64 if m == 33 else np.int32)
    Y = np.random.default_rng(1).normal(size=(60, m)).astype(dtype)
    rows = np.random.default_rng(2).permutation(60)[:25]
    H = plain.cometric_rows(*csr, Y.astype(np.float64), rows)
    for d in range(1, min(m, 8) + 1):
        U, sigma = side.run("tangent_rows", *csr, Y, rows, d)
        assert U.dtype == sigma.dtype == dtype
        assert U.shape == (25, m, d) and U.flags.c_contiguous
        assert_eigenpairs(H, U, sigma, 1e-12 if dtype == np.float64 else 2e-6)


def test_tangent_rows_with_every_number_of_columns():
    with kernels_of("random") as cuda:
        for m in range(1, 65):
            csr, Y = sparse_rows(9, 12), np.random.default_rng(m).normal(size=(9, m))
            U, sigma = cuda.run("tangent_rows", *csr, Y, np.arange(9), 1)
            assert_eigenpairs(plain.cometric_rows(*csr, Y, np.arange(9)), U, sigma, 1e-12)


@pytest.mark.parametrize("degree", [1, 7, 8, 64, 65, 95, 96, 97, 193, 1000])
def test_every_way_to_fill_the_scratch(side, degree):
    rng = np.random.default_rng(degree)
    n, m = 5, 6
    indptr, indices = np.array([0, degree]), rng.integers(n, size=degree)
    weights, Y = rng.uniform(size=degree), rng.normal(size=(n, m))
    rows = np.array([0])
    U, sigma = side.run("tangent_rows", indptr, indices, weights, Y, rows, 3)
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
def test_repeated_tiny_and_zero_eigenvalues(side, values):
    for d, seed in zip((1, 2, 4) * 3, range(9), strict=True):
        csr_Y_rows = spectrum_rows(values, seed)
        U, sigma = side.run("tangent_rows", *csr_Y_rows, d)
        assert_eigenpairs(plain.cometric_rows(*csr_Y_rows), U, sigma, 1e-12)


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


@pytest.mark.parametrize(("m", "d"), [(6, 5), (20, 2), (39, 2), (39, 30)])
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


@pytest.mark.parametrize("m", [2, 4, 8])
def test_axis_parallel_points_keep_the_axes(side, m):
    values = np.arange(m, 0, -1.0)
    Y = np.vstack([np.zeros(m), np.diag(np.sqrt(2 * values))])
    U, sigma = side.run("tangent_rows", np.array([0, m]), np.arange(1, m + 1), np.ones(m), Y, np.array([0]), m)
    assert_allclose(sigma[0], values, rtol=1e-14)
    assert_allclose(np.abs(U[0]), np.eye(m), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_whose_eigenpairs_cannot_be_trusted_are_computed_by_lapack(fused, monkeypatch, dtype):
    tangent = sys.modules["ies_gpu.backend.kernels.fused.tangent"]
    monkeypatch.setattr(tangent, "vectors_task", lambda *a: a[-1].fill(False))
    csr, Y = sparse_rows(50, 12), np.random.default_rng(1).normal(size=(50, 7)).astype(dtype)
    U, sigma = fused.tangent_rows(*csr, Y, np.arange(50), 3)
    H = plain.cometric_rows(*csr, Y.astype(np.float64), np.arange(50))
    assert_eigenpairs(H, U, sigma, 1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("m", [5, 20, 40])
def test_rows_that_can_be_trusted_are_nearly_all(fused, m, monkeypatch):
    """No row of random problems goes to LAPACK, which is many times slower."""
    monkeypatch.setattr(sys.modules["ies_gpu.backend.kernels.fused.tangent"].plain, "tangent_rows", None)
    csr, Y = sparse_rows(400, 50), np.random.default_rng(1).normal(size=(400, m)) * 0.8 ** np.arange(m)
    fused.tangent_rows(*csr, Y, np.arange(400), 3)


def test_duplicate_points_and_empty_rows_have_any_basis_and_sigma_zero(side):
    given = np.array([0, 3, 3, 4, 4]), np.arange(4), np.ones(4), np.ones((4, 3)), np.arange(4)
    U, sigma = side.run("tangent_rows", *given, 2)
    assert_array_equal(sigma, 0)
    assert_array_equal(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(2), (4, 2, 2)))
    if side.xp is not np:  # the same basis as plain code
        assert_array_equal(U[1], plain.tangent_rows(*given, 2)[0][1])
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


@pytest.mark.parametrize(("dtype", "stored"), [(np.float64, np.float32), (np.float32, np.float64)])
def test_weights_in_another_precision_are_not_copied(dtype, stored, monkeypatch):
    """What the kernel makes of them is what it makes of a copy in the precision of Y."""
    csr = sparse_rows(40, 12, dtype=stored)
    Y, seen = np.random.default_rng(0).normal(size=(40, 20)).astype(dtype), []
    with kernels_of("random") as cuda:
        load = text.load_kernel

        def watched(name, entry):
            kernel = load(name, entry)
            return lambda grid, block, given, **more: (
                seen.append((entry, given[3])),
                kernel(grid, block, given, **more),
            )

        expected = cuda.run("tangent_rows", *csr[:2], csr[2].astype(dtype), Y, np.arange(40), 3)
        there = [cuda.xp.asarray(a) for a in (*csr, Y, np.arange(40))]
        with monkeypatch.context() as patch:
            patch.setattr(text, "load_kernel", watched)
            found = launch.tangent_rows(*there, 3)
        for one, two in zip(found, expected, strict=True):
            assert_array_equal(one.get(), two)
        with pytest.raises(TypeError, match="float32 or float64"):
            launch.tangent_rows(*there[:3], there[3].astype(np.float16), there[4], 2)
    assert seen[0][0] == f"tangent_rows_f{8 * np.dtype(dtype).itemsize}_w{8 * np.dtype(stored).itemsize}"
    assert seen[0][1] is there[2]


def test_the_number_of_threads_does_not_matter(fused):
    csr = sparse_rows(3000, 30)
    Y = np.random.default_rng(0).normal(size=(3000, 20))
    for one, two in zip(*twice(fused, lambda: fused.tangent_rows(*csr, Y, np.arange(3000), 2)), strict=True):
        assert_array_equal(one, two)
