"""Metrics: distances against scikit-learn's, maps against those of the same distances, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from ies_gpu import laplacian_of_points, model_of, nystrom_extension, radius_graph, select_coordinates
from ies_gpu.embedding.metrics import MEASURED, METRICS, SPHERICAL
from ies_gpu.run.options import CHOICES

SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 6}


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    flat = rng.uniform(0, 1, (250, 2)) * [3, 1]
    return np.column_stack([flat, flat.sum(axis=1)]) + [1.0, 2.0, 0.5]


def distances(X, Y, metric):
    """Of scikit-learn; chords where ours are chords."""
    found = pairwise_distances(X, Y, metric=metric)
    return np.sqrt(2 * np.maximum(found, 0)) if metric in SPHERICAL else found


def usable(X, metric):
    if metric == "hamming":  # a walk that changes one entry at a time
        return np.array([(np.arange(40) < k % 41).astype(float) for k in range(0, 100)])
    return X[:, :2] / 4 if metric == "haversine" else X


def test_the_options_know_them_all():
    assert CHOICES["metric"] == METRICS


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_those_of_scikit_learn(on, points, metric):
    X = usable(points, metric)
    expected = distances(X, X, metric)
    radius = float(np.quantile(expected, 0.3)) + 1e-6
    graph = on(radius_graph)(X, radius=radius, metric=metric)
    np.fill_diagonal(expected, 0)
    expected[expected > radius] = 0
    np.testing.assert_allclose(graph.toarray(), expected, atol=1e-7)


@pytest.mark.parametrize("metric", METRICS)
def test_a_map_is_that_of_its_distances(points, metric):
    X = usable(points, metric)
    dense = distances(X, X, metric)
    np.fill_diagonal(dense, 0)
    dense = (dense + dense.T) / 2
    bandwidth = float(np.quantile(dense, 0.4)) / 3 + 1e-5
    found = select_coordinates(X, bandwidth=bandwidth, metric=metric, **SIZES)
    by_graph = select_coordinates(graph=dense, bandwidth=bandwidth, **SIZES)
    np.testing.assert_allclose(found.eigenvalues, by_graph.eigenvalues, atol=1e-6)
    model = model_of(found, X)
    np.testing.assert_allclose(model.transform(X, columns=range(3)), found.coordinates[:, :3], atol=1e-6)
    new = X[:9] if metric == "hamming" else X[:9] + 0.01
    extended = nystrom_extension(
        new, X, found.coordinates, found.eigenvalues, bandwidth=bandwidth, metric=metric, isolated="nearest"
    )
    np.testing.assert_allclose(model.transform(new), extended[:, list(found.subset)], rtol=1e-9)


def test_cosine_sees_directions_only(points):
    lengths = np.random.default_rng(1).uniform(0.1, 10, (len(points), 1))
    known = {"bandwidth": 0.06, "metric": "cosine", **SIZES}
    a, b = select_coordinates(points, **known), select_coordinates(points * lengths, **known)
    np.testing.assert_allclose(a.coordinates, b.coordinates, atol=1e-7)
    sphere = np.column_stack([points[:, :2] - points[:, :2].mean(axis=0), np.full(len(points), 2.0)])
    automatic = select_coordinates(sphere * lengths, metric="cosine", n_components=6)
    assert automatic.diagnostics["parameters"]["intrinsic_dim"] == 2 and automatic.subset[0] == 0


@pytest.mark.parametrize("self_loops", [True, False])
def test_measured_neighbours_with_and_without_themselves(points, self_loops):
    found = select_coordinates(points, bandwidth=0.4, metric="manhattan", self_loops=self_loops, **SIZES)
    again = model_of(found, points).transform(points)
    np.testing.assert_allclose(again, found.embedding, atol=1e-6)


def test_what_is_refused(points):
    known = {"bandwidth": 0.5, **SIZES}
    with pytest.raises(ValueError, match=r"metric must be one of 'euclidean', 'cosine'.*got 'cosin'"):
        select_coordinates(points, metric="cosin", **known)
    with pytest.raises(ValueError, match=r"bandwidth='auto' does not work with metric='manhattan'.* pass numbers"):
        select_coordinates(points, metric="manhattan")
    with pytest.raises(ValueError, match="metric='cosine' works only with X, not with graph"):
        select_coordinates(graph=np.ones((9, 9)), metric="cosine", **known)
    with pytest.raises(ValueError, match=r"direction for every row of X, but row 3 is all zeros; drop it"):
        select_coordinates(np.where(np.arange(250)[:, None] == 3, 0.0, points), metric="cosine", **known)
    with pytest.raises(ValueError, match="haversine' needs 2 columns, latitude and longitude in radians; X has 3"):
        select_coordinates(points, metric="haversine", **known)
    with pytest.raises(ValueError, match="alpha must be between 0 and 1, got 2"):
        laplacian_of_points(points, bandwidth=1.0, alpha=2)
    assert "precomputed" not in METRICS + MEASURED  # graph= is the way


def test_degrees_and_longitude_first_are_no_radians(rng):
    earth = np.column_stack([rng.uniform(-60, 60, 200), rng.uniform(-170, 170, 200)])
    for wrong in (earth, np.radians(earth)[:, ::-1]):
        with pytest.raises(ValueError, match=r"needs latitude, from -pi/2 to pi/2, before longitude.*np\.radians"):
            radius_graph(wrong, radius=0.5, metric="haversine")
    assert radius_graph(np.radians(earth), radius=0.5, metric="haversine").nnz > 0
