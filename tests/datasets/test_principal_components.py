"""Principal components against the singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import datasets
from ies_gpu.datasets.principal_components import DENSE
from tests.datasets.test_molecules import random_frames


@pytest.mark.parametrize("p", [8, DENSE + 40])
def test_components_are_those_of_the_svd(p, rng):
    X = rng.normal(size=(400, p)) * np.linspace(3, 0.5, p) + 100
    found = datasets.pca(X, 6)
    centred = X - X.mean(axis=0)
    _, sigma, axes = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(found.variances, sigma[:6] ** 2 / 399, rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.diag(axes[:6] @ found.axes)), 1, rtol=1e-7)
    np.testing.assert_allclose(np.abs(found.scores), np.abs(centred @ axes[:6].T), atol=1e-5)
    np.testing.assert_allclose(found.explained, (sigma[:6] ** 2).sum() / (sigma**2).sum(), rtol=1e-9)


def test_components_in_blocks_are_those_of_all_rows_at_once(rng, on, backend, monkeypatch):
    R = random_frames(rng, n=300)
    whole = on(datasets.pca)(on(datasets.planar_angles)(R), 5)
    monkeypatch.setattr(type(backend), "block_bytes", lambda self: 32 * 30 * 7)  # seven rows at a time
    blocked = on(datasets.pca)(R, 5, transform=datasets.planar_angles)
    np.testing.assert_allclose(blocked.scores, whole.scores, atol=1e-10)
    np.testing.assert_allclose(blocked.mean, whole.mean)


def test_fewer_components_than_asked_for(rng):
    found = datasets.pca(rng.normal(size=(5, 12)), 50)
    assert found.scores.shape == (5, 4)  # five points span four directions
    np.testing.assert_allclose(found.explained, 1)


@pytest.mark.parametrize("p", [8, DENSE + 40])
def test_rows_that_do_not_vary_have_no_variance(p):
    found = datasets.pca(np.full((9, p), 2.0), 6)
    assert found.scores.shape == (9, 6) and not found.scores.any() and not found.variances.any()
