"""Rules for the bandwidth that need distances alone, each against a fact or brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ies_gpu.parameters.bandwidth import (
    Distances,
    consistency_curve,
    degree_bandwidth,
    kernel_sum_slopes,
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


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_kernel_sum_grows_with_the_dimension(d):
    """On a flat torus sum K = n (sqrt(pi) eps)^d / volume exactly in the mean: the slope is d where points are many."""
    rng = np.random.default_rng(d)
    n = 3000
    apart = np.abs(rng.uniform(0, 1, (200, 1, d)) - rng.uniform(0, 1, (n, d)))
    table = np.sqrt((np.minimum(apart, 1 - apart) ** 2).sum(axis=2))
    slopes = kernel_sum_slopes(Distances(np.arange(200), table), np.array([0.1, 0.15]))
    np.testing.assert_allclose(slopes, d, atol=0.05 * d)


def test_slopes_are_derivatives():
    distances = sampled_distances(plane(300, 2, 0.1))
    total = [np.log(np.exp(-((distances.table / eps) ** 2)).sum()) for eps in (0.3 * 0.999, 0.3 * 1.001)]
    expected = (total[1] - total[0]) / np.log(1.001 / 0.999)
    assert kernel_sum_slopes(distances, np.array([0.3]))[0] == pytest.approx(expected, rel=1e-5)


def test_the_metric_is_most_consistent_between_too_small_and_too_large():
    """Isolated points have co-metric 0, a distance of 1 from the identity; so has a blob within a large bandwidth."""
    X = plane(1000, 2)
    curve = consistency_curve(X, 2, np.array([0.003, 0.1, 10.0]))
    assert curve[0] == pytest.approx(1, abs=0.05)
    assert curve[2] == pytest.approx(1, abs=0.05)
    assert curve[1] < 0.45
