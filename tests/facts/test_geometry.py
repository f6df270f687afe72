"""The co-metric, the Laplacian and the extension on manifolds where the answer is known, and the paper's Lemma 1."""

import numpy as np
import pytest

from ies_gpu import cometric, diffusion_map, laplacian_of_points, riemannian_metric, select_coordinates
from tests.extension import nystrom_extension
from tests.manifolds import identified, neumann, rectangle
from tests.thorough import first_of


def test_cometric_of_flat_coordinates_is_the_identity():
    """grad x . grad x = 1 and grad x . grad y = 0: away from the edge the co-metric of a flat chart is the identity.

    Less the weight of a point itself, about 9 / 500 at this degree.
    """
    X, flat, bandwidth = rectangle(6000, 1.7, degree=500)
    laplacian = laplacian_of_points(X, bandwidth=bandwidth)
    inner = (np.abs(flat - [0.85, 0.5]) < [0.85 - 3 * bandwidth, 0.5 - 3 * bandwidth]).all(axis=1)
    H = cometric(flat, laplacian)[inner]
    np.testing.assert_allclose(H.mean(axis=0), np.eye(2), atol=0.03)


def test_lemma_1_a_subset_has_the_submatrix(on, flat_strip):
    _, _, laplacian, embedding = flat_strip
    Y = embedding.coordinates
    S = [0, 3, 6]
    H = on(cometric)(Y, laplacian)
    np.testing.assert_allclose(on(cometric)(Y[:, S], laplacian), H[:, S][:, :, S], atol=1e-14 * np.abs(H).max())
    metric = on(riemannian_metric)(Y, laplacian, intrinsic_dim=2)
    low_rank = np.einsum("nkd,nd,nld->nkl", metric.U[:, S], metric.sigma, metric.U[:, S])
    np.testing.assert_allclose(metric.H[:, S][:, :, S], low_rank, atol=1e-13 * np.abs(H).max())


def test_dirichlet_identity(on, flat_strip):
    """``sum_i wt_i H_kk(i) = (4/eps^2) lambda_k sum_i wt_i phi_k(i)^2``: the energy of an eigenfunction."""
    _, _, laplacian, embedding = flat_strip
    Y, wt = embedding.coordinates, laplacian.weights
    energy = wt @ np.einsum("nkk->nk", on(cometric)(Y, laplacian))
    np.testing.assert_allclose(energy, laplacian.scale * embedding.eigenvalues * (wt @ Y**2), rtol=1e-8)
    # to rounding for a converged pair: lambda replaced by the Rayleigh quotient of the very vector
    quotient = (wt * Y.T) @ (Y - laplacian.transition @ Y)
    np.testing.assert_allclose(energy, laplacian.scale * np.diag(quotient), rtol=1e-12)


def test_density_is_divided_out():
    """Without the first normalisation the limit depends on the density; with it, it does not.

    On a circle sampled with density proportional to ``1 + .8 cos t`` the first two eigenvalues of the limit are equal.
    """
    rng = np.random.default_rng(1)
    t = rng.uniform(0, 2 * np.pi, 20_000)
    t = t[rng.uniform(size=len(t)) < (1 + 0.8 * np.cos(t)) / 1.8][:6000]
    X = np.column_stack([np.cos(t), np.sin(t)])
    laplacian = laplacian_of_points(X, bandwidth=0.1, radius=0.3)
    for function in (np.cos(t), np.sin(t)):  # L f = f for both, which a drift towards the dense side would break
        assert abs(function @ (laplacian.scaled @ function) / (function @ function) - 1) < 0.02
    drift = laplacian.scaled @ np.sin(t) - np.sin(t)
    assert abs(drift @ np.sin(2 * t)) / len(t) < 0.05


def test_on_a_circle_the_extension_is_the_eigenfunction(on):
    # On equally spaced points of a circle eigenvectors are sines and cosines, and so are their extensions: the sum of a
    # Gaussian over shifted, fine, equal steps does not depend on the shift. What the cut at 6 eps loses is exp(-36).
    n, eps = 400, 0.12
    angle = 2 * np.pi * np.arange(n) / n
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    found = diffusion_map(laplacian_of_points(X, bandwidth=eps, radius=6 * eps), n_components=4, tol=1e-12)
    between = angle + np.pi / n
    new = np.column_stack([np.cos(between), np.sin(between)])
    got = on(nystrom_extension)(new, X, found.coordinates, found.eigenvalues, bandwidth=eps, radius=6 * eps)
    waves = [np.column_stack([f(k * a) for k in (1, 2) for f in (np.cos, np.sin)]) for a in (angle, between)]
    amplitudes = np.linalg.lstsq(waves[0], found.coordinates, rcond=None)[0]
    np.testing.assert_allclose(got, waves[1] @ amplitudes, rtol=0, atol=1e-9)


SLOPE = 3.0  # of log p on [0, 1]


@pytest.fixture(scope="module")
def points():
    """Quantiles of the density proportional to exp(SLOPE x)."""
    u = (np.arange(3000) + 0.5) / 3000
    return np.log1p(u * np.expm1(SLOPE))[:, None] / SLOPE


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_eigenvalues_and_eigenvectors(points, alpha):
    """The limit for points of density p is ``f'' + b f' = -lambda f``, b = 2 (1 - alpha) (log p)', f' = 0 at both ends:

    ``lambda_k = (k pi)^2 + (b / 2)^2`` and ``f_k = exp(-b x / 2) (cos(k pi x) + b / (2 k pi) sin(k pi x))``.
    """
    bandwidth = 0.03
    embedding = diffusion_map(laplacian_of_points(points, bandwidth=bandwidth, alpha=alpha), n_components=3)
    half, k = (1 - alpha) * SLOPE, np.arange(1, 4)
    exact = (k * np.pi) ** 2 + half**2
    np.testing.assert_allclose(4 / bandwidth**2 * embedding.eigenvalues, exact, rtol=0.06)
    functions = np.exp(-half * points) * (np.cos(k * np.pi * points) + half / (k * np.pi) * np.sin(k * np.pi * points))
    functions /= np.linalg.norm(functions, axis=0)
    assert (np.abs((embedding.coordinates * functions).sum(axis=0)) > 0.995).all()


def select(points, bandwidth):
    return select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth)


@pytest.mark.parametrize("noise", first_of(0.2, 0.0))
@pytest.mark.parametrize("ratio", first_of(6.3, 1.3, 2.3, 3.4, 4.7, 7.6))
def test_the_two_sides_are_chosen(ratio, noise):
    points, flat, bandwidth = rectangle(10_000, ratio, noise=noise)
    selection = select(points, bandwidth)
    labels, exact, functions = neumann(flat, ratio, 30)
    names = [labels[k] for k in identified(selection.coordinates, functions)]
    assert {names[k] for k in selection.subset} == {(1, 0), (0, 1)}
    scaled = selection.laplace_beltrami_eigenvalues
    assert scaled[0] == pytest.approx(exact[0], rel=0.12)
    np.testing.assert_allclose(scaled[:6] / scaled[0], exact[:6] / exact[0], rtol=0.05)


@pytest.mark.slow
def test_a_very_long_strip_may_swap_two_nearly_equal_eigenvalues():
    """At 9.5 the eigenvalues of (0,1) and (1,1) differ by 1.1 %: mostly (0,1) is taken, and if not then (1,1)."""
    second = []
    for seed in range(6):
        for noise in (0.0, 0.2):
            points, flat, bandwidth = rectangle(10_000, 9.5, noise=noise, seed=seed)
            selection = select(points, bandwidth)
            labels, _, functions = neumann(flat, 9.5, 30)
            second.append(labels[identified(selection.coordinates, functions)[selection.subset[1]]])
    assert set(second) <= {(0, 1), (1, 1)}
    assert second.count((0, 1)) >= 8


def test_the_first_eigenvalue_gets_closer_as_eps_shrinks_at_fixed_degree():
    errors = []
    for n in (2500, 5000, 10_000):
        points, flat, bandwidth = rectangle(n, 2.3)
        laplacian = laplacian_of_points(points, bandwidth=bandwidth)
        value = laplacian.scale * diffusion_map(laplacian, n_components=1).eigenvalues[0]
        errors.append(abs(value / neumann(flat, 2.3, 1)[1][0] - 1))
    assert errors[0] > errors[1] > errors[2]
