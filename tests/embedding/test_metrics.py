"""Metrics: distances against scikit-learn's, maps against those of the same distances, and what is refused."""

import numpy as np
import pytest
import sklearn.neighbors
from sklearn.metrics import pairwise_distances

from ies_gpu import radius_graph, select_coordinates
from ies_gpu.embedding.graph import SPHERICAL
from ies_gpu.options import METRICS
from tests.extension import nystrom_extension
from tests.said import refused

SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 6}


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    flat = rng.uniform(0, 1, (250, 2)) * [3, 1]
    return np.column_stack([flat, flat.sum(axis=1)]) + [1.0, 2.0, 0.5]


def distances(X, metric):
    """Of scikit-learn; chords where ours are chords."""
    found = pairwise_distances(X, metric=metric)
    found = np.sqrt(2 * np.maximum(found, 0)) if metric in SPHERICAL else found
    np.fill_diagonal(found, 0)
    return (found + found.T) / 2


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_those_of_scikit_learn(on, points, metric):
    expected = distances(points, metric)
    radius = float(np.quantile(expected, 0.3)) + 1e-6
    graph = on(radius_graph)(points, radius=radius, metric=metric)
    np.testing.assert_allclose(graph.toarray(), np.where(expected <= radius, expected, 0), atol=1e-7)


@pytest.mark.parametrize("metric", METRICS)
def test_a_map_is_that_of_its_distances(points, metric):
    X, dense = points, distances(points, metric)
    bandwidth = float(np.quantile(dense, 0.4)) / 3 + 1e-5
    # less their mean, three columns have two dimensions, and of length 1 they lie on a circle
    sizes = SIZES | {"intrinsic_dim": 1 if metric == "correlation" else 2}
    found = select_coordinates(X, bandwidth=bandwidth, metric=metric, untangle=False, **sizes)
    by_graph = select_coordinates(graph=dense, bandwidth=bandwidth, **sizes)
    np.testing.assert_allclose(found.eigenvalues, by_graph.eigenvalues, atol=1e-6)
    model = found.model(X)
    np.testing.assert_allclose(model.transform(X), found.embedding, atol=1e-6)
    new = X[:9] + 0.01
    options = {"bandwidth": bandwidth, "metric": metric, "isolated": "nearest"}
    extended = nystrom_extension(new, X, found.coordinates, found.eigenvalues, **options)
    np.testing.assert_allclose(model.transform(new), extended[:, list(found.subset)], rtol=1e-9)


def test_cosine_sees_directions_only(points):
    lengths = np.random.default_rng(1).uniform(0.1, 10, (len(points), 1))
    known = {"bandwidth": 0.06, "metric": "cosine", **SIZES}
    a, b = select_coordinates(points, **known), select_coordinates(points * lengths, **known)
    np.testing.assert_allclose(a.coordinates, b.coordinates, atol=1e-7)
    sphere = np.column_stack([points[:, :2] - points[:, :2].mean(axis=0), np.full(len(points), 2.0)])
    automatic = select_coordinates(sphere * lengths, metric="cosine", n_components=6)
    assert automatic.diagnostics["parameters"]["intrinsic_dim"] == 2 and automatic.subset[0] == 0


def test_the_error_for_a_foreign_metric_has_the_call_that_helps(points):
    """The line in the message is run as it stands."""
    with refused("metric.choice") as caught:
        select_coordinates(points, metric="manhattan", bandwidth=0.5, **SIZES)
    line = str(caught.value).partition("graph=")[2].partition(" instead of X")[0]
    graph = eval(line, {"sklearn": sklearn, "X": points, "radius": 1.5})
    np.testing.assert_allclose(graph.max(), 1.5, atol=0.05)
    assert select_coordinates(graph=graph, bandwidth=0.5, **SIZES).coordinates.shape == (250, 6)


@pytest.mark.parametrize("call", [select_coordinates, lambda X, **more: radius_graph(X, radius=1.0, **more)])
@pytest.mark.parametrize("metric", SPHERICAL)
def test_multiples_of_one_row_are_copies_in_a_metric_of_directions(call, metric):
    X = np.random.default_rng(0).uniform(1, 2, (300, 1)) * [[1.0, 2.0, 3.5]]
    with refused("X.copies"):
        call(X, metric=metric)
    with refused("metric.direction"):  # a row of zeros has none
        call(np.where(np.arange(300)[:, None] == 3, 0.0, X), metric=metric)
