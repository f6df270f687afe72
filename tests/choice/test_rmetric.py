"""The co-metric and what it implies."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import (
    cometric,
    diffusion_map,
    laplacian_of_points,
    riemannian_metric,
    tangent_bases,
)
from ies_gpu.choice.rmetric import tangents
from ies_gpu.embedding.laplacian import Laplacian, laplacian_in_place
from ies_gpu.embedding.order import spatial_order
from ies_gpu.embedding.tiles import TiledKernel
from tests.manifolds import rectangle


@pytest.fixture(scope="module")
def strip():
    """Points in spatial order, their bandwidth, Laplacian and map of a 3 x 1 rectangle."""
    X, _, bandwidth = rectangle(800, 3.0, degree=60)
    X = X[spatial_order(X)]
    laplacian = laplacian_of_points(X, bandwidth=bandwidth)
    return X, bandwidth, laplacian, diffusion_map(laplacian, n_components=8)


def by_definition(Y, laplacian):
    """Half the sum over neighbours, one point at a time."""
    P = laplacian.transition.toarray()
    differences = Y[None, :, :] - Y[:, None, :]
    return 0.5 * laplacian.scale * np.einsum("ij,ijk,ijl->ikl", P, differences, differences)


def test_cometric_is_its_definition(on, strip):
    _, _, laplacian, embedding = strip
    H = on(cometric)(embedding.coordinates, laplacian)
    np.testing.assert_allclose(H, by_definition(embedding.coordinates, laplacian), atol=1e-13 * np.abs(H).max())


def test_cometric_of_flat_coordinates_is_the_identity():
    """grad x . grad x = 1 and grad x . grad y = 0: away from the edge the co-metric of a flat chart is the identity.

    Less the weight of a point itself, about 9 / 500 at this degree.
    """
    X, flat, bandwidth = rectangle(6000, 1.7, degree=500)
    laplacian = laplacian_of_points(X, bandwidth=bandwidth)
    inner = (np.abs(flat - [0.85, 0.5]) < [0.85 - 3 * bandwidth, 0.5 - 3 * bandwidth]).all(axis=1)
    H = cometric(flat, laplacian)[inner]
    np.testing.assert_allclose(H.mean(axis=0), np.eye(2), atol=0.03)


def test_lemma_1_a_subset_has_the_submatrix(on, strip):
    _, _, laplacian, embedding = strip
    Y = embedding.coordinates
    S = [0, 3, 6]
    H = on(cometric)(Y, laplacian)
    np.testing.assert_allclose(on(cometric)(Y[:, S], laplacian), H[:, S][:, :, S], atol=1e-14 * np.abs(H).max())
    metric = on(riemannian_metric)(Y, laplacian, intrinsic_dim=2)
    low_rank = np.einsum("nkd,nd,nld->nkl", metric.U[:, S], metric.sigma, metric.U[:, S])
    np.testing.assert_allclose(metric.H[:, S][:, :, S], low_rank, atol=1e-13 * np.abs(H).max())


def test_dirichlet_identity(on, strip):
    """``sum_i wt_i H_kk(i) = (4/eps^2) lambda_k sum_i wt_i phi_k(i)^2``: the energy of an eigenfunction."""
    _, _, laplacian, embedding = strip
    Y, wt = embedding.coordinates, laplacian.weights
    energy = wt @ np.einsum("nkk->nk", on(cometric)(Y, laplacian))
    np.testing.assert_allclose(energy, laplacian.scale * embedding.eigenvalues * (wt @ Y**2), rtol=1e-8)
    # to rounding for a converged pair: lambda replaced by the Rayleigh quotient of the very vector
    quotient = (wt * Y.T) @ (Y - laplacian.transition @ Y)
    np.testing.assert_allclose(energy, laplacian.scale * np.diag(quotient), rtol=1e-12)


def test_metric_is_the_pseudo_inverse_of_the_cometric(on, strip):
    _, _, laplacian, embedding = strip
    G, H, U, sigma = on(riemannian_metric)(embedding.coordinates, laplacian, intrinsic_dim=2)
    projector = U @ U.transpose(0, 2, 1)
    np.testing.assert_allclose(G @ H, projector, atol=1e-8)
    np.testing.assert_allclose(U.transpose(0, 2, 1) @ U, np.broadcast_to(np.eye(2), (len(U), 2, 2)), atol=1e-12)
    assert (np.diff(sigma, axis=1) <= 0).all()
    assert (sigma >= 0).all()


def test_tangent_bases_are_the_leading_eigenvectors(on, strip):
    _, _, laplacian, embedding = strip
    Y = embedding.coordinates
    H = on(cometric)(Y, laplacian)
    values, vectors = np.linalg.eigh(H)
    for d in (1, 2, 3, 8):
        U = on(tangent_bases)(Y, laplacian, intrinsic_dim=d)
        leading = vectors[:, :, ::-1][:, :, :d]
        clear = (values[:, -d] - values[:, -d - 1] > 1e-3 * values[:, -1]) if d < 8 else np.ones(len(U), dtype=bool)
        assert clear.mean() > 0.5
        difference = U @ U.transpose(0, 2, 1) - leading @ leading.transpose(0, 2, 1)
        assert np.abs(difference[clear]).max() < 1e-8


def test_blocks_do_not_matter(on, backend, strip, monkeypatch):
    _, _, laplacian, embedding = strip
    whole = on(tangents)(embedding.coordinates, laplacian, 2, backend)
    monkeypatch.setattr(type(backend), "block_bytes", lambda self: 1 << 17)
    parts = on(tangents)(embedding.coordinates, laplacian, 2, backend)
    np.testing.assert_allclose(np.abs(parts[0]), np.abs(whole[0]), atol=1e-9)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-10)


def test_tiles_give_the_same_geometry(on, backend, strip, monkeypatch):
    monkeypatch.setattr("ies_gpu.embedding.tiles.TILE", 150)
    X, bandwidth, laplacian, embedding = strip
    kernel = TiledKernel(backend.asarray(X), bandwidth=bandwidth, radius=3 * bandwidth, store=True)
    tiled = laplacian_in_place(kernel, bandwidth)
    H = on(cometric)(embedding.coordinates, laplacian)
    np.testing.assert_allclose(on(cometric)(embedding.coordinates, tiled), H, atol=1e-6 * np.abs(H).max())
    with pytest.raises(ValueError, match="too dense"):
        _ = tiled.matrix


def test_a_plain_matrix_gives_the_same_bases_without_the_scale(strip):
    _, _, laplacian, embedding = strip
    Y = embedding.coordinates
    bare = Laplacian(laplacian.transition)
    np.testing.assert_allclose(cometric(Y, laplacian), laplacian.scale * cometric(Y, bare), rtol=1e-12)
    np.testing.assert_allclose(cometric(Y, laplacian.matrix), cometric(Y, bare), atol=1e-15)
