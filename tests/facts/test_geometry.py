"""The co-metric, the Laplacian and the extension on manifolds where the answer is known, and the paper's Lemma 1."""

from __future__ import annotations

import numpy as np

from ies_gpu import cometric, diffusion_map, laplacian_of_points, riemannian_metric
from tests.extension import nystrom_extension
from tests.manifolds import rectangle


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


def test_metric_is_the_pseudo_inverse_of_the_cometric(on, flat_strip):
    _, _, laplacian, embedding = flat_strip
    G, H, U, sigma = on(riemannian_metric)(embedding.coordinates, laplacian, intrinsic_dim=2)
    projector = U @ U.transpose(0, 2, 1)
    np.testing.assert_allclose(G @ H, projector, atol=1e-8)
    np.testing.assert_allclose(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(2), (len(U), 2, 2)), atol=1e-12)
    assert (np.diff(sigma, axis=1) <= 0).all()
    assert (sigma >= 0).all()


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
