"""Fused tangent bases: the leading eigenpairs of awkward co-metrics, and those of plain code."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain

from .fused_inputs import fused, sparse_rows, twice


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
