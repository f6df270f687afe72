"""The co-metric and what it implies."""

from __future__ import annotations

import numpy as np

from ies_gpu import cometric, tangent_bases
from ies_gpu.choice.rmetric import tangents
from ies_gpu.embedding.laplacian import Laplacian, normalise
from ies_gpu.embedding.tiles import TiledMatrix
from tests.said import refused


def by_definition(Y, laplacian):
    """Half the sum over neighbours, one point at a time."""
    P = laplacian.transition.toarray()
    differences = Y[None, :, :] - Y[:, None, :]
    return 0.5 * laplacian.scale * np.einsum("ij,ijk,ijl->ikl", P, differences, differences)


def test_cometric_is_its_definition(on, flat_strip):
    _, _, laplacian, embedding = flat_strip
    H = on(cometric)(embedding.coordinates, laplacian)
    np.testing.assert_allclose(H, by_definition(embedding.coordinates, laplacian), atol=1e-13 * np.abs(H).max())


def test_tangent_bases_are_the_leading_eigenvectors(on, flat_strip):
    _, _, laplacian, embedding = flat_strip
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


def test_blocks_do_not_matter(on, backend, flat_strip, monkeypatch):
    _, _, laplacian, embedding = flat_strip
    whole = on(tangents)(embedding.coordinates, laplacian, 2, backend)
    monkeypatch.setattr(type(backend), "block_bytes", lambda self: 1 << 17)
    parts = on(tangents)(embedding.coordinates, laplacian, 2, backend)
    np.testing.assert_allclose(np.abs(parts[0]), np.abs(whole[0]), atol=1e-9)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-10)


def test_tiles_give_the_same_geometry(on, backend, flat_strip):
    X, bandwidth, laplacian, embedding = flat_strip
    kernel = TiledMatrix(backend.asarray(X), bandwidth=bandwidth, radius=3 * bandwidth, store=True, side=150)
    tiled = normalise(kernel, bandwidth)
    H = on(cometric)(embedding.coordinates, laplacian)
    np.testing.assert_allclose(on(cometric)(embedding.coordinates, tiled), H, atol=1e-6 * np.abs(H).max())
    with refused("graph.too_large"):
        _ = tiled.matrix


def test_a_plain_matrix_gives_the_same_bases_without_the_scale(flat_strip):
    _, _, laplacian, embedding = flat_strip
    Y = embedding.coordinates
    bare = Laplacian(laplacian.transition)
    H = laplacian.scale * cometric(Y, bare)  # added up in the order of the input, and below in that of space
    np.testing.assert_allclose(cometric(Y, laplacian), H, rtol=1e-12, atol=1e-15 * abs(H).max())
    np.testing.assert_allclose(cometric(Y, laplacian.matrix), cometric(Y, bare), atol=1e-15)
