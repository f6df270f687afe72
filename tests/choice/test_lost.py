"""What a map loses of its worst local direction, on maps whose functions are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import gaussian_kernel, graph_laplacian, laplacian_of_points, radius_graph
from ies_gpu.choice.lost import NEIGHBOURS, lost_in_regions, lost_of_graph, lost_of_points, nearest_in_map
from tests.backends import each_device

SIDES = np.array([5.0, 1.0])


def functions(points, *modes):
    """The eigenfunctions of a rectangle, by how often they change sign along each side."""
    return np.stack([np.cos(np.pi * np.array(mode) * points / SIDES).prod(axis=1) for mode in modes], axis=1)


@pytest.fixture(scope="module")
def rectangle_points():
    return np.random.default_rng(0).uniform(size=(3000, 2)) * SIDES


@pytest.fixture(scope="module")
def graph(rectangle_points):
    return laplacian_of_points(rectangle_points, bandwidth=0.09)


GOOD, CURVE, WAVE = ((1, 0), (0, 1)), ((1, 0), (2, 0)), ((1, 0), (3, 1))


def test_a_map_of_full_rank_loses_little_and_a_curve_its_whole_second_direction(rectangle_points, graph):
    kept, curve, wave = (functions(rectangle_points, *modes) for modes in (GOOD, CURVE, WAVE))
    for lost, of in ((lost_of_points, rectangle_points), (lost_of_graph, graph)):
        good, bad, worse = (each.share for each in lost(of, (kept, wave, curve), 2))
        assert good < bad < 1 < worse
    assert lost_of_points(rectangle_points, [kept], 2)[0].share < 0.2


def test_what_a_map_says_nothing_about_is_lost_with_the_error_of_the_mean():
    """The mean of k independent values predicts another one with 1 + 1/k times its variance."""
    points = np.random.default_rng(1).uniform(-1, 1, size=(5000, 2))
    for along in (0, 1):
        errors = points - points[nearest_in_map(points[:, [along]])].mean(axis=1)
        shares, _ = lost_in_regions(points, errors, len(points), 2)  # the region of all points
        np.testing.assert_allclose(shares, 1 + 1 / NEIGHBOURS, rtol=0.03)


def test_units_of_points_and_map_do_not_matter(rectangle_points):
    Y = functions(rectangle_points, *WAVE)
    (before,) = lost_of_points(rectangle_points, [Y], 2)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(30, 2)))[0].T
    (after,) = lost_of_points(1e200 * rectangle_points @ turn + 1e201, [Y * [1e-9, 3.0]], 2)
    assert after.share == pytest.approx(before.share)


def test_a_dimension_that_is_too_small_or_too_large_shows_in_the_spectrum(rectangle_points, graph):
    Y = functions(rectangle_points, *GOOD)
    square = laplacian_of_points(np.random.default_rng(0).uniform(size=(2000, 2)), bandwidth=0.06)
    (one,), (two,) = (lost_of_graph(square, [Y[:2000]], d) for d in (1, 2))
    assert one.next > 0.45 > 0.3 > two.next
    assert lost_of_graph(graph, [Y], 3)[0].last < 0.2 < lost_of_graph(graph, [Y], 2)[0].last


@each_device
def test_every_device_gives_the_same(backend, rectangle_points):
    X, Y = rectangle_points[:600], functions(rectangle_points[:600], *WAVE)
    there = [backend.asarray(array) for array in (X, Y)]
    (own,), (hosts,) = (lost_of_points(points, [values], 2) for points, values in (there, (X, Y)))
    assert own.share == pytest.approx(hosts.share)
    own, hosts = (  # in the order in space, which each device finds for itself, and as given
        lost_of_graph(laplacian, [values], 2)[0]
        for laplacian, values in (
            (laplacian_of_points(there[0], bandwidth=0.2), there[1]),
            (graph_laplacian(gaussian_kernel(radius_graph(X, radius=0.6), bandwidth=0.2)), Y),
        )
    )
    np.testing.assert_allclose(own, hosts, rtol=1e-6)
