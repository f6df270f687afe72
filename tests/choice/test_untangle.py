"""Turned coordinates, on manifolds whose eigenfunctions are known in closed form."""

from dataclasses import replace

import numpy as np
import pytest

from ies_gpu import (
    IndependentCoordinates,
    backend_of,
    diagnose,
    diffusion_map,
    gaussian_kernel,
    laplacian_of_points,
    load,
    radius_graph,
    select_coordinates,
)
from ies_gpu.choice.criterion import formula
from ies_gpu.choice.faults import ground_of_points
from ies_gpu.choice.rmetric import tangent_spaces
from ies_gpu.choice.untangle import best_turn, more_open, one_sided, shared_energy, sides, turns_said, untangle
from ies_gpu.datasets import load as sample_of

SIDES = np.array([2 * np.pi, 1.0])
OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.2}


def off_across(function, points):
    """The angle between a function and the first eigenfunction across the strip, in degrees, whatever their sign."""
    return np.degrees(np.arccos(abs(np.corrcoef(function, np.cos(np.pi * points[:, 1] / SIDES[1]))[0, 1])))


@pytest.fixture(scope="module")
def strip():
    """Points of a rectangle whose sixth harmonic along the length is as slow as the first across it."""
    return np.random.default_rng(3).uniform(size=(1500, 2)) * SIDES


@pytest.fixture(scope="module")
def selection(strip):
    return select_coordinates(strip, **OPTIONS)


def product_gradients(q):
    """Gradients (q^2, 4, 2) of cos x, cos y, cos 2x and cos x cos y on a regular grid of a square of side pi."""
    x, y = (part.ravel() for part in np.meshgrid(*[(np.arange(q) + 0.5) / q * np.pi] * 2))
    along = [-np.sin(x), 0 * x, -2 * np.sin(2 * x), -np.sin(x) * np.cos(y)]
    across = [0 * x, -np.sin(y), 0 * x, -np.cos(x) * np.sin(y)]
    return np.stack([along, across]).transpose(2, 1, 0)


def test_a_factor_of_a_product_shares_no_energy_and_its_mixtures_share_that_of_the_harmonic():
    F = product_gradients(40)
    Q, C = shared_energy(F, np.eye(4)[:2], 1)
    assert Q[1, 1] == pytest.approx(0, abs=1e-15)
    assert Q[2, 2] == pytest.approx(C[2, 2])  # a harmonic of the other factor shares all
    w = np.array([0, 0.8, 0.6, 0])
    assert w @ Q @ w / (w @ C @ w) == pytest.approx(0.36 * C[2, 2] / (0.64 * C[1, 1] + 0.36 * C[2, 2]))


def test_the_open_turn_unmixes_a_factor_and_costs_stop_it():
    F, values = product_gradients(30), np.array([1.0, 1.0, 4.0, 2.0])
    start = np.array([[1.0, 0, 0, 0], [0, np.cos(0.5), np.sin(0.5), 0]])
    free, dear = np.zeros((2, 4)), np.full((2, 4), 1e8) * (np.arange(4) != 1)
    assert abs(more_open(F, values, start, free)[1, 1]) > 0.99
    assert abs(more_open(F, values, start, dear)[1, 1]) == pytest.approx(1)
    np.testing.assert_array_equal(more_open(F, values, start, free)[0], start[0])


def test_a_map_that_is_turned_over_at_its_middle_is_turned_to_one_side():
    F, values = product_gradients(30), np.array([1.0, 1.0, 4.0, 2.0])
    x, y = (part.ravel() for part in np.meshgrid(*[(np.arange(30) + 0.5) / 30 * np.pi] * 2))
    flips = np.random.default_rng(0).choice([-1.0, 1.0], size=len(F))
    Y = np.column_stack([np.cos(x), np.cos(y), np.cos(2 * x), np.cos(x) * np.cos(y)])
    F[:, :, 1] *= flips[:, None]  # as no tangent basis knows which way its neighbours point
    found = [one_sided(F, np.eye(4)[[0, 3]], np.full((2, 4), 1e-4), signs) for signs in sides(F, values, Y)]
    assert all(abs(W[1, 1]) > 0.99 for W, _ in found)
    assert found[0][1] > one_sided(F, np.eye(4)[[0, 3]], np.full((2, 4), 1e-4), flips * np.sign(np.cos(x)))[1]
    for signs in sides(F, values, Y):
        assert abs((signs * flips).sum()) == len(F)


def test_both_arms_of_a_strip_with_a_cavity_show_the_same_side():
    for seed in (206, 213):  # the fourth eigenvector varies beside the cavity only
        data = sample_of("D2", n_samples=1000, random_state=seed)
        found = select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=0.41)
        before, after = (
            abs(np.corrcoef(Y[:, 1], data.truth[:, 1])[0, 1])
            for Y in (found.coordinates[:, list(found.subset)], found.embedding)
        )
        assert before < 0.8 and after > 0.95


def test_a_turn_is_taken_that_finds_the_missing_side_and_none_that_loses_it(strip):
    Y = np.column_stack([strip[:, 0], strip[:, 0] ** 2, strip[:, 1]])
    folded, right = np.eye(3)[[0, 1]], np.eye(3)[[0, 2]]
    ground, half = ground_of_points(strip, 2), np.array([[1.0, 0, 0], [0, 0.05, 1]])
    assert best_turn([folded, half], Y, ground) is half
    for turns in ([folded, right, half], [folded, half, right]):  # of two that pass, the one that explains more
        assert best_turn(turns, Y, ground) is right
    assert best_turn([right, folded], Y, ground) is None


def test_nothing_is_turned_where_every_axis_is_noise(rng):
    X, Y = rng.normal(size=(2, 300, 3))
    assert best_turn([np.eye(3)[[0, 1]], np.eye(3)[[0, 2]]], Y, ground_of_points(X, 2)) is None


@pytest.mark.parametrize(("share", "taken"), [(0.08, False), (0.5, True)])
def test_where_a_direction_is_lost_a_turn_has_to_mend_it(strip, rng, share, taken):
    side = (strip[:, 1] - 0.5) * 12**0.5
    noise, other = rng.normal(size=(2, len(strip)))
    Y = np.column_stack([strip[:, 0], noise, share**0.5 * side + (1 - share) ** 0.5 * other])
    lost, better = np.eye(3)[[0, 1]], np.eye(3)[[0, 2]]
    found = best_turn([lost, better], Y, ground_of_points(strip, 2))
    assert (found is better) == taken


def test_on_a_rectangle_the_turned_coordinate_is_nearer_to_the_true_eigenfunction(strip, selection):
    after = off_across(selection.embedding[:, 1], strip)
    assert after < 15 and after < 0.5 * off_across(selection.coordinates[:, selection.subset[1]], strip)
    np.testing.assert_allclose(np.linalg.norm(selection.embedding, axis=0), len(strip) ** 0.5)
    np.testing.assert_allclose(selection.embedding[:, 0], selection.coordinates[:, 0], rtol=1e-12)  # a product with W


def test_without_points_functions_on_the_graph_stand_in(strip, selection):
    kernel = gaussian_kernel(radius_graph(strip, radius=0.6), bandwidth=0.2)
    found = select_coordinates(kernel=kernel, intrinsic_dim=2, subset_size=2)
    assert found.subset == selection.subset
    assert off_across(found.embedding[:, 1], strip) < 15


def test_every_device_turns_alike(strip, backend):
    laplacian = laplacian_of_points(backend.asarray(strip), bandwidth=OPTIONS["bandwidth"])
    embedding = diffusion_map(laplacian, n_components=12)
    values = laplacian.scale * backend.to_host(embedding.eigenvalues)
    given = embedding.vectors, values, *tangent_spaces(laplacian, embedding, intrinsic_dim=2, dtype="float64"), (0, 5)
    W = untangle(*given, X=strip, rows=laplacian.rows.numbers)
    assert backend_of(embedding.vectors).device == backend.device
    turned = backend.to_host(embedding.vectors) @ W
    np.testing.assert_allclose(np.linalg.norm(turned, axis=0), 1)
    assert off_across(turned[:, 1], strip[laplacian.rows.numbers]) < 15


def test_without_untangling_the_result_is_that_of_the_paper_to_the_bit(strip, selection):
    paper = select_coordinates(strip, **OPTIONS, untangle=False)
    assert paper.rotation is None
    np.testing.assert_array_equal(paper.embedding, selection.coordinates[:, list(selection.subset)])
    np.testing.assert_array_equal(paper.coordinates, selection.coordinates)
    assert paper.ranking.subsets.tolist() == selection.ranking.subsets.tolist()


@pytest.mark.parametrize("columns", [3, 2])
def test_spheres_and_circles_are_not_turned(columns):
    x = np.random.default_rng(columns).normal(size=(800, columns))
    X = x / np.linalg.norm(x, axis=1, keepdims=True)
    own = {"intrinsic_dim": columns - 1, "subset_size": columns, "bandwidth": 0.4, "n_components": 12}
    assert select_coordinates(X, **own).rotation is None


@pytest.mark.parametrize("scale", ["rms", "unit", "diffusion"])
def test_files_models_and_estimators_keep_the_turn(strip, scale, tmp_path):
    found = select_coordinates(strip, **OPTIONS, scale=scale)
    found.save(tmp_path / "run.npz")
    again = load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.embedding, found.embedding)
    model = found.model(strip)
    model.save(tmp_path / "model.npz")
    model = load(tmp_path / "model.npz")
    np.testing.assert_allclose(model.transform(strip), found.embedding, atol=1e-9)
    np.testing.assert_array_equal(model.embedding, found.embedding)
    assert model.inverse_error.unexplained < 0.01
    chooser = IndependentCoordinates(**OPTIONS, scale=scale)
    np.testing.assert_array_equal(chooser.fit_transform(strip), found.embedding)
    off = IndependentCoordinates(**OPTIONS, scale=scale, untangle=False).fit(strip)
    np.testing.assert_array_equal(off.embedding_, found.coordinates[:, list(found.subset)])


def test_a_diagnosis_is_of_the_turned_map_unless_a_set_is_named(strip, selection):
    turned = diagnose(selection, X=strip)
    np.testing.assert_allclose(turned.embedding, selection.embedding / len(strip) ** 0.5)
    plain = diagnose(selection, X=strip, subset=selection.names)
    np.testing.assert_array_equal(plain.volumes, diagnose(replace(selection, rotation=None), X=strip).volumes)


def test_turns_are_said_in_words():
    assert formula([0, 0, 0.8, 0.4]) == "phi3 + 0.5 phi4"
    assert formula([0.02, -0.3, 0.6, 0]) == "phi3 - 0.5 phi2"
    W = np.array([[1, 0.0], [0, 0.6], [0, 0.8]])
    assert [finding.code for finding in turns_said(W, (0, 1))] == ["untangle.new_choice"]
    assert [finding.code for finding in turns_said(W, (0, 2))] == ["untangle.turned"]
    for tilt in (0.0, 0.01):  # what the formula rounds away is not said
        assert turns_said(np.array([[1, 0.0], [0, 1], [0, tilt]]), (0, 1)) == []
