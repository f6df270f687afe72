"""Rules for the bandwidth that need distances alone, each against a fact or brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ies_gpu.parameters.bandwidth import (
    degree_bandwidth,
    mean_degree,
    sampled_distances,
)
from tests.manifolds import plane


def test_the_bandwidth_of_neighbours_has_the_degree_it_promises():
    X = plane(900, 2, 0.02)
    everyone = sampled_distances(X, queries=900)
    np.testing.assert_array_equal(everyone.rows, np.arange(900))
    np.testing.assert_allclose(everyone.table, cdist(X, X), atol=1e-14)
    eps = degree_bandwidth(everyone)
    within = (cdist(X, X) <= 3 * eps * (1 + 1e-12)).sum() / 900  # itself counted
    assert within == pytest.approx(0.06 * 900, abs=2 / 900)
    assert mean_degree(everyone, eps) == pytest.approx(within - 1, abs=2 / 900)
    # a sample of points comes close
    assert degree_bandwidth(sampled_distances(X)) == pytest.approx(eps, rel=0.05)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_a_point_is_no_copy_of_itself(n):
    """A third of three points is the point itself, and its distance from itself is 0."""
    X = np.random.default_rng(0).uniform(size=(n, 2))
    assert degree_bandwidth(sampled_distances(X)) > 0


def test_few_points_get_twenty_neighbours():
    X = plane(100, 2)
    eps = degree_bandwidth(sampled_distances(X))
    assert (cdist(X, X) <= 3 * eps * (1 + 1e-12)).sum() / 100 == pytest.approx(20, abs=0.02)
