"""What changes neither co-metric nor tangent bases; ``tests/validation`` compares them with their definitions."""

import numpy as np

from ies_gpu import cometric
from ies_gpu.choice.rmetric import tangents
from ies_gpu.embedding.laplacian import normalise
from ies_gpu.embedding.tiles import TiledMatrix
from tests.said import refused


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
