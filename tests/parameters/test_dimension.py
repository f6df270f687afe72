"""Estimates of the intrinsic dimension and of a bandwidth from distances, each against a fact or brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ies_gpu import estimate_dimension
from ies_gpu.parameters.dimension import local_spectrum
from ies_gpu.parameters.distances import Distances, degree_bandwidth, mean_degree, sampled_distances
from tests.manifolds import plane


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_local_spectrum_of_a_flat_sample_is_one_along_it_and_zero_across(d):
    """``exp(-r^2/eps^2)`` has variance eps^2/2 in every direction, seen from points far from the edges."""
    rng, eps = np.random.default_rng(d), 0.15 if d < 3 else 0.2
    X = np.column_stack([rng.uniform(-1, 1, (6000, d)), 0.01 * rng.normal(size=(6000, 2))])
    inner = np.flatnonzero((np.abs(X[:, :d]) < 1 - 3 * eps).all(axis=1))[:200]
    spectrum = local_spectrum(X, Distances(inner, cdist(X[inner], X)), eps)
    np.testing.assert_allclose(spectrum[:d].mean(), 1, atol=0.05)
    np.testing.assert_allclose(spectrum[d:].mean(), 0.01**2 / (eps**2 / 2), rtol=0.3)


@pytest.mark.parametrize("d", [3, 4, 5])
def test_few_neighbours_do_not_flatten_the_spectrum(d):
    """All directions of a cube are alike; a spectrum of the points that chose them would fall from 1.4 to .4."""
    X = np.random.default_rng(d).uniform(size=(1500, d))
    spectrum = estimate_dimension(X).curve
    assert spectrum.min() > 0.7 and spectrum.max() < 1.3
    noisy = np.column_stack([X, 0.02 * np.random.default_rng(0).normal(size=(1500, 6))])
    assert estimate_dimension(noisy).value == d


def test_noise_below_the_threshold_is_not_counted():
    for d in (2, 3):
        found = estimate_dimension(plane(3000, d, noise=0.05))
        assert found.value == d and (found.curve[d:] < 0.45).all()
    assert estimate_dimension(plane(300, 2, noise=1e-3, columns=400)).value == 2  # more columns than points


def test_every_backend_estimates_the_same_and_copies_take_no_dimension_away(on):
    """The radius is one of the distances, so that their last digit decides whether a neighbour is on its edge."""
    X = plane(500, 2, 0.05)
    np.testing.assert_allclose(on(estimate_dimension)(X).curve, estimate_dimension(X).curve, rtol=1e-3)
    X = np.random.default_rng(0).uniform(size=(300, 2)) * [4, 1.3]
    for times in (2, 3, 5):
        found = on(estimate_dimension)(np.repeat(X, times, axis=0))
        assert found.value == 2 and found.curve[1] == pytest.approx(estimate_dimension(X).curve[1], rel=0.1)


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
    # few points get twenty neighbours
    X = plane(100, 2)
    eps = degree_bandwidth(sampled_distances(X))
    assert (cdist(X, X) <= 3 * eps * (1 + 1e-12)).sum() / 100 == pytest.approx(20, abs=0.02)
    for n in (3, 4, 5):  # a third of three points is the point itself, whose distance from itself is 0
        assert degree_bandwidth(sampled_distances(X[:n])) > 0
