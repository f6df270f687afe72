"""Points of uneven density: when the automatic choice follows the density, and what comes of it."""

import warnings

import numpy as np
import pytest

from benchmarks import shapes
from ies_gpu import DisconnectedGraphError, IndependentCoordinates, estimate_parameters, select_coordinates
from ies_gpu.parameters.distances import sampled_distances
from ies_gpu.parameters.judgement import unexplained_variance
from ies_gpu.parameters.scan import UNEVEN, unevenness
from tests.manifolds import plane
from tests.said import refused

QUIET = pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")


def fan(n, growth):
    """A sector in polar coordinates with a radius of exp(growth * u): the density falls by exp(2 * growth)."""
    flat = np.random.default_rng(0).uniform(size=(n, 2))
    return np.exp(growth * flat[:, :1]) * np.column_stack([np.cos(flat[:, 1]), np.sin(flat[:, 1])]), flat


@pytest.fixture(scope="module")
def followed():
    X, flat = fan(1000, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so uneven a shape is doubtful
        return X, flat, select_coordinates(X, device="cpu")


def test_the_ratio_of_two_densities():
    """Half of the points evenly on a circle of radius 1, half on one of radius 5: 5 times as dense, as a sheet 25."""
    angle = np.linspace(0, 2 * np.pi, 1500, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    distances = sampled_distances(np.vstack([circle, 5 * circle + 20]))
    assert unevenness(distances, 1) == pytest.approx(5)
    assert unevenness(distances, 2) == pytest.approx(25)
    square = plane(3000, 2)
    assert unevenness(sampled_distances(square), 2) < UNEVEN / 2  # in a corner there are a quarter of the neighbours
    assert unevenness(sampled_distances(np.repeat(square[:20], 150, axis=0)), 2) == 1  # copies


def test_it_is_followed_where_that_explains_more(followed):
    X, flat, found = followed
    report = found.diagnostics["automatic"]
    assert report["chosen"]["bandwidth"] == found.diagnostics["parameters"]["bandwidth"] == "local"
    assert report["local"]["taken"] and report["local"]["fvu"] == report["fvu"]
    assert report["fvu"] < min(row["fvu"] for row in report["scan"])
    assert unexplained_variance(flat, found.embedding) < 0.1
    assert "bandwidth local, intrinsic_dim 2" in repr(found)
    given = select_coordinates(X, device="cpu", **report["chosen"])
    assert given.subset == found.subset
    np.testing.assert_allclose(given.coordinates, found.coordinates, atol=1e-8)


@QUIET
def test_it_is_not_followed_where_that_explains_less():
    report = select_coordinates(shapes.load("uneven density", 1000, 2).X, device="cpu").diagnostics["automatic"]
    assert not report["local"]["taken"] and report["local"]["fvu"] > report["fvu"]
    assert report["chosen"]["bandwidth"] == report["bandwidth"]


@pytest.mark.thorough
@QUIET
def test_a_fixed_bandwidth_is_found_on_request_and_has_a_place_for_new_points(followed):
    X, _, found = followed
    fixed = select_coordinates(X, bandwidth="fixed", device="cpu")
    report = fixed.diagnostics["automatic"]
    assert report["local"] is None and report["fvu"] > found.diagnostics["automatic"]["fvu"]
    assert fixed.model(X).transform(X[:3]).shape == (3, len(fixed.subset))
    with refused("model.local"):
        found.model(X)
    estimated = estimate_parameters(X, bandwidth="fixed", device="cpu").bandwidth
    for eps in (estimated, IndependentCoordinates(device="cpu").fit(X).bandwidth_):
        assert eps == pytest.approx(report["chosen"]["bandwidth"])
    with refused("bandwidth.n_neighbors"):
        select_coordinates(X, bandwidth="fixed", n_neighbors=30)


@QUIET
def test_points_that_no_fixed_bandwidth_keeps_together():
    X, flat = fan(1000, 4)
    with pytest.raises(DisconnectedGraphError):
        select_coordinates(X, bandwidth="fixed", device="cpu")
    found = select_coordinates(X, device="cpu")
    assert len(found.points) == len(X) and found.verdict != "sure"
    assert "bandwidth.only_local" in {finding.code for finding in found.findings}
    assert unexplained_variance(flat, found.embedding) < 0.2


@pytest.mark.thorough
@QUIET
def test_it_is_followed_on_all_points_where_a_sample_was_tried(monkeypatch, tmp_path):
    monkeypatch.setattr("ies_gpu.parameters.automatic.calibrate.__defaults__", (700,))
    X, flat = fan(1200, 3)
    found = select_coordinates(X, device="cpu", checkpoint=tmp_path)
    assert found.diagnostics["parameters"]["bandwidth"] == "local"
    assert len(found.diagnostics["automatic"]["carried"]["tried"]) == 1
    assert unexplained_variance(flat, found.embedding) < 0.1
    again = select_coordinates(X, device="cpu", checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.coordinates, found.coordinates)
