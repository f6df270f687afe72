"""The limit operator for points of density p: f'' + 2 (1 - alpha) (log p)' f', in closed form on an interval."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import diffusion_map, laplacian_of_points, select_coordinates

SLOPE = 3.0  # of log p on [0, 1]


@pytest.fixture(scope="module")
def points():
    """Quantiles of the density proportional to exp(SLOPE x)."""
    u = (np.arange(3000) + 0.5) / 3000
    return np.log1p(u * np.expm1(SLOPE))[:, None] / SLOPE


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_eigenvalues_and_eigenvectors(points, alpha):
    """With drift b = 2 (1 - alpha) SLOPE: ``f'' + b f' = -lambda f``, f' = 0 at both ends.

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


def test_new_points_with_another_alpha(points):
    """At a training point the extension is the eigenvector equation, for every alpha."""
    found = select_coordinates(points, bandwidth=0.05, intrinsic_dim=1, subset_size=1, n_components=5, alpha=0.25)
    np.testing.assert_allclose(found.model(points).transform(points), found.embedding, atol=1e-7)
