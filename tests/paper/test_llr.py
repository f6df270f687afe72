"""LLR: what it says of coordinates that depend on each other exactly, and that blocks and units change nothing."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from benchmarks.paper.llr import llr_ranking


@pytest.fixture
def wave(rng):
    """phi1, a function of it, an independent one, and a function of phi1 and phi3."""
    x, y = rng.uniform(0, np.pi, (2, 800))
    return np.column_stack([np.cos(x), np.cos(2 * x), np.cos(y), np.cos(x) * np.cos(y)])


def test_a_function_of_those_before_has_a_small_residual_and_a_new_direction_about_one(wave):
    found = llr_ranking(wave)
    assert found.residuals[0] == 1 and found.residuals[2] == pytest.approx(1, abs=0.1)
    assert found.residuals[1] < 0.1 and found.residuals[3] < 0.2  # cos 2x = 2 cos^2 x - 1
    assert set(found.order[:2]) == {0, 2}


def brute_force(Y, k):
    """The same by one least-squares problem a point."""
    X, y, fit = Y[:, :k], Y[:, k], np.empty(len(Y))
    dist = cdist(X, X)
    h = np.median(dist[np.triu_indices(len(X), 1)]) / 3
    for i in range(len(X)):
        root = np.sqrt(np.exp(-((dist[i] / h) ** 2)))
        root[i] = 0
        A = np.column_stack([np.ones(len(X)), X])
        fit[i] = A[i] @ np.linalg.lstsq(root[:, None] * A, root * y, rcond=None)[0]
    return h, np.linalg.norm(fit - y) / np.linalg.norm(y)


def test_all_residuals_and_bandwidths_agree_with_one_fit_a_point(rng):
    Y = rng.uniform(-0.1, 0.1, (200, 4))  # no lonely points, whose fits the ridge would decide
    found = llr_ranking(Y)
    assert np.isnan(found.bandwidths[0])
    for k in (1, 2, 3):
        assert (found.bandwidths[k], found.residuals[k]) == pytest.approx(brute_force(Y, k), rel=1e-6)
    assert found.order == tuple(np.argsort(-found.residuals, kind="stable"))
