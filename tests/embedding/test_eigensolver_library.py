"""``solver="eigsh"``: the library's eigensolver on both devices, and what happens when it does not keep its word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ies_gpu
from ies_gpu import datasets, diffusion_map, select_coordinates
from ies_gpu.embedding.eigensolvers.eigenpairs import SymmetricTransition, leading_eigenpairs
from ies_gpu.embedding.eigensolvers.library import check_pairs, library_eigenpairs
from ies_gpu.errors import NotConvergedError
from tests.backends import each_device, to_host

pytestmark = each_device


def square_laplacian(side: int = 24, upload=lambda array: array):
    """A grid on a square: eigenvalues come in pairs, since rows and columns can be exchanged."""
    a = np.arange(side, dtype=float)
    X = np.stack(np.meshgrid(a, a, indexing="ij"), axis=-1).reshape(-1, 2)
    return ies_gpu.laplacian_of_points(upload(X), bandwidth=1.5, radius=3.1)


@pytest.fixture(scope="module")
def exact():
    """All eigenvalues of the square's Laplacian, densely, from the plain matrix."""
    laplacian = square_laplacian()
    root = np.sqrt(laplacian.weights)
    S = root[:, None] * laplacian.transition.toarray() / root
    return 1 - np.linalg.eigvalsh(0.5 * (S + S.T))[::-1]


def test_eigenvalues_are_those_of_the_dense_problem(backend, exact):
    laplacian = square_laplacian(upload=backend.asarray)
    found = diffusion_map(laplacian, n_components=12, solver="eigsh")
    assert found.info["method"] == "eigsh"
    assert "fallback" not in found.info
    np.testing.assert_allclose(to_host(found.eigenvalues), exact[1:13], atol=1e-13)
    assert to_host(found.residuals).max() <= 1e-8
    own = diffusion_map(laplacian, n_components=12)
    np.testing.assert_allclose(to_host(found.eigenvalues), to_host(own.eigenvalues), atol=1e-13)


def test_the_start_vector_survives(backend):
    laplacian = square_laplacian(upload=backend.asarray)
    start = backend.asarray(np.random.default_rng(0).normal(size=laplacian.shape[0]))
    before = to_host(start).copy()
    leading_eigenpairs(SymmetricTransition(laplacian, backend), 8, start=start, solver="eigsh")
    np.testing.assert_array_equal(to_host(start), before)


def spoiled(monkeypatch, backend, change) -> None:
    """Let the library's solver return something else."""
    original = type(backend).eigsh

    def wrong(self, operator, count, start, tol, size, max_products):
        values, vectors = original(self, operator, count, start, tol, size, max_products)
        return change(self.xp, values, vectors)

    monkeypatch.setattr(type(backend), "eigsh", wrong)


FAULTS = {
    "residual of": lambda xp, w, v: (w, xp.linalg.qr(v + 1e-4 * v[:, ::-1] * xp.arange(len(v))[:, None] / len(v))[0]),
    "not finite": lambda xp, w, v: (w * xp.nan, v),
    "not orthonormal": lambda xp, w, v: (w, 1.001 * v),
    "found 3 of 9 pairs": lambda xp, w, v: (w[:3], v[:, :3]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_result_that_does_not_hold_gives_way_to_our_own_solver(backend, monkeypatch, exact, fault):
    spoiled(monkeypatch, backend, FAULTS[fault])
    found = diffusion_map(square_laplacian(upload=backend.asarray), n_components=8, solver="eigsh")
    assert found.info["method"] != "eigsh"
    assert fault in found.info["fallback"]
    np.testing.assert_allclose(to_host(found.eigenvalues), exact[1:9], atol=1e-13)


def test_silent_non_convergence_is_noticed(backend, monkeypatch, exact):
    """Given 40 products CuPy returns what it has, without a word; SciPy raises and keeps the pairs it has."""
    monkeypatch.setattr("ies_gpu.embedding.eigensolvers.library.MAX_PRODUCTS", 40)
    found = diffusion_map(square_laplacian(upload=backend.asarray), n_components=12, tol=1e-12, solver="eigsh")
    assert found.info["method"] != "eigsh"
    assert "eigsh" in found.info["fallback"]
    np.testing.assert_allclose(to_host(found.eigenvalues), exact[1:13], atol=1e-13)


def test_a_missed_copy_of_a_double_eigenvalue_is_found(backend, monkeypatch, exact):
    """Rows and columns of the square can be exchanged: 1 and 2 are equal. The solver returns one of them only."""
    assert exact[2] - exact[1] < 1e-12

    def lose_one(xp, values, vectors):
        order = xp.argsort(-values)
        keep = xp.concatenate([order[:1], order[2:]])  # behind the constant
        return values[keep], vectors[:, keep]

    spoiled(monkeypatch, backend, lose_one)
    found = diffusion_map(square_laplacian(upload=backend.asarray), n_components=8, solver="eigsh")
    assert found.info["method"] == "eigsh"
    np.testing.assert_allclose(to_host(found.eigenvalues), exact[1:9], atol=1e-12)


def test_our_own_solver_is_helped_where_it_fails(backend, monkeypatch, exact):
    original = ies_gpu.embedding.eigensolvers.lanczos.lanczos

    def lazy(*args, **options):
        return original(*args, **(options | {"max_products": 30}))

    monkeypatch.setattr("ies_gpu.embedding.eigensolvers.lanczos.lanczos", lazy)
    monkeypatch.setattr("ies_gpu.embedding.eigensolvers.eigenpairs.MOST_FILL", 0)
    laplacian = square_laplacian(upload=backend.asarray)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = diffusion_map(laplacian, n_components=8)
    assert found.info["method"] == "eigsh"
    assert "Lanczos reached a residual of" in found.info["fallback"]
    np.testing.assert_allclose(to_host(found.eigenvalues), exact[1:9], atol=1e-12)


def test_the_environment_chooses_it_for_the_pipeline(backend, monkeypatch):
    data = datasets.load("D1", n_samples=700)
    arguments = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.95, "n_components": 10, "device": backend.device}
    expected = select_coordinates(data.X, **arguments)
    monkeypatch.setenv("IES_GPU_SOLVER", "eigsh")
    found = select_coordinates(data.X, **arguments)
    assert found.diagnostics["solver"]["method"] == "eigsh"
    assert found.subset == expected.subset
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, atol=1e-13)
    monkeypatch.setenv("IES_GPU_SOLVER", "lobpcg")
    with pytest.raises(ValueError, match=r"IES_GPU_SOLVER must be one of 'auto', 'eigsh', got 'lobpcg'"):
        select_coordinates(data.X, **arguments)


def test_few_points_and_wrong_words(backend):
    small = square_laplacian(6, backend.asarray)
    assert diffusion_map(small, n_components=5, solver="eigsh").info["method"] == "dense"
    with pytest.raises(ValueError, match="solver must be one of 'auto', 'eigsh', got 'arpack'"):
        diffusion_map(small, n_components=5, solver="arpack")


def test_checks_of_pairs_state_what_they_check(backend):
    laplacian = square_laplacian(21, backend.asarray)
    operator = SymmetricTransition(laplacian, backend)
    start = backend.asarray(np.random.default_rng(0).normal(size=operator.n))
    values, vectors = library_eigenpairs(operator, 5, 3, start, 1e-9)
    assert (np.diff(to_host(values)) <= 1e-14).all()
    assert len(values) == 8
    check_pairs(operator, values, vectors, 5, 1e-9)
    with pytest.raises(NotConvergedError, match=r"residual of 1\.0e-06"):
        check_pairs(operator, values + 1e-6, vectors, 5, 1e-9)
