"""What a map loses of its worst local direction, on maps whose functions are known in closed form."""

import numpy as np
import pytest
from scipy.special import gegenbauer

from ies_gpu import gaussian_kernel, graph_laplacian, laplacian_of_points, radius_graph
from ies_gpu.choice import faults
from ies_gpu.parameters.judgement import HIDDEN, LAST, LOST, LOST_OF_GRAPH, NEXT
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
    of_points, of_graph = faults.ground_of_points(rectangle_points, 2), faults.ground_of_graph(graph, 2)
    for ground, limits in ((of_points, LOST), (of_graph, LOST_OF_GRAPH)):
        assert ground.lost(kept) < ground.lost(wave) < 1 < ground.lost(curve)
        lost = [ground.lost(Y, by_planes=True) for Y in (kept, wave, curve)]
        assert lost[0] < lost[1] < limits[1] < 1 < lost[2] and lost[0] < limits[0]
        assert ground.hidden(np.hstack([kept, wave])) < 0.3 < HIDDEN < ground.hidden(curve)


def test_a_plane_tells_a_linear_function_of_the_map():
    rng = np.random.default_rng(3)
    Y = rng.uniform(size=(4000, 2))
    X = Y @ rng.normal(size=(2, 3))
    error = X - faults.plane_through(X, Y, faults.nearest(Y, 15))
    inside = (np.abs(Y - 0.5) < 0.45).all(axis=1)
    assert np.abs(error[inside]).max() < 0.3 * np.abs(X - X[faults.nearest(Y, 1)[:, 0]])[inside].max()


def test_what_a_map_says_nothing_about_is_lost_with_the_error_of_the_mean():
    """The mean of k independent values predicts another one with 1 + 1/k times its variance."""
    points = np.random.default_rng(1).uniform(-1, 1, size=(5000, 2))
    for along in (0, 1):
        errors = points - points[faults.nearest(faults.blurred(points[:, [along]]))].mean(axis=1)
        everywhere = faults.regions_of(points, 1.0, 1, 2, regions=3)  # each of all points
        assert faults.lost_in([everywhere], errors) == pytest.approx(1 + 1 / faults.NEIGHBOURS, rel=0.03)


def test_units_of_points_and_map_do_not_matter(rectangle_points):
    Y = functions(rectangle_points, *WAVE)
    before = faults.ground_of_points(rectangle_points, 2).lost(Y)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(30, 2)))[0].T
    after = faults.ground_of_points(1e200 * rectangle_points @ turn + 1e201, 2).lost(Y * [1e-9, 3.0])
    assert after == pytest.approx(before)


def test_a_dimension_that_is_too_small_or_too_large_shows_in_the_spectrum(graph):
    square = laplacian_of_points(np.random.default_rng(0).uniform(size=(2000, 2)), bandwidth=0.06)
    one, two = (faults.ground_of_graph(square, d).steps for d in (1, 2))
    assert one[0] > NEXT[1][1] and NEXT[2][0] > two[1]
    assert faults.ground_of_graph(graph, 3).steps[1] < LAST[0] < faults.ground_of_graph(graph, 2).steps[0]


def test_functions_are_averaged_by_gegenbauer_polynomials_of_the_transition_matrix(rectangle_points):
    laplacian = laplacian_of_points(rectangle_points[:200], bandwidth=0.3)
    P = laplacian.transition.toarray()
    values, vectors = np.linalg.eig(P)
    for k, averaged in zip(range(1, 8), faults.averages_of(np.eye(200), lambda F: P @ F), strict=False):
        C = gegenbauer(k, faults.ORDER)
        expected = (vectors * (C(values) / C(1.0))) @ np.linalg.inv(vectors)
        np.testing.assert_allclose(averaged, expected, atol=1e-9)
    single, _ = faults.averaged_functions(laplacian)
    drawn = np.random.default_rng(0).normal(size=single.shape)
    double = zip(range(faults.STEPS), faults.averages_of(drawn, lambda F: P @ F), strict=False)
    assert min(abs(laplacian.rows.to_user(single) - F).max() for _, F in double) < 1e-5


@each_device
def test_every_device_gives_the_same(backend, rectangle_points):
    X, Y = rectangle_points[:600], functions(rectangle_points[:600], *WAVE)
    there = [backend.asarray(array) for array in (X, Y)]
    assert faults.ground_of_points(there[0], 2).lost(there[1]) == pytest.approx(faults.ground_of_points(X, 2).lost(Y))
    # in the order that each device finds itself
    own = faults.ground_of_graph(laplacian_of_points(there[0], bandwidth=0.2), 2)
    hosts = faults.ground_of_graph(graph_laplacian(gaussian_kernel(radius_graph(X, radius=0.6), bandwidth=0.2)), 2)
    seen = [(own.lost(there[1]), own.hidden(there[1]), *own.steps), (hosts.lost(Y), hosts.hidden(Y), *hosts.steps)]
    np.testing.assert_allclose(*seen, rtol=1e-5)
