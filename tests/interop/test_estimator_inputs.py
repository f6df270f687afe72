"""What the transformers take besides points: distances and affinities, dense or sparse; neighbours; few points."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph
from sklearn.pipeline import make_pipeline

from ies_gpu import (
    DiffusionMap,
    IndependentCoordinates,
    datasets,
    diffusion_map,
    gaussian_kernel,
    graph_laplacian,
    knn_graph,
    load,
    radius_graph,
    select_coordinates,
)
from tests.said import refused, warned

SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 10}


@pytest.fixture(scope="module")
def strip():
    return datasets.load("D1", n_samples=700)


def same_map(a, b, atol=1e-6):
    signs = np.sign((a * b).sum(axis=0))
    np.testing.assert_allclose(a * signs, b, rtol=0, atol=atol)


# --- neighbours ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("make", [DiffusionMap, IndependentCoordinates])
def test_a_map_of_nearest_neighbours_takes_new_points(strip, make, self_loops, tmp_path):
    sizes = SIZES if make is IndependentCoordinates else {"n_components": 4}
    fitted = make(n_neighbors=20, bandwidth=1.0, self_loops=self_loops, **sizes).fit(strip.X)
    np.testing.assert_allclose(fitted.transform(strip.X), fitted.embedding_, rtol=0, atol=1e-6)
    fitted.model_.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz").transform(strip.X[:9] + 0.01)
    np.testing.assert_allclose(again, fitted.transform(strip.X[:9] + 0.01), rtol=0, atol=1e-12)
    assert np.abs(again - fitted.embedding_[:9]).max() < 0.2  # near their neighbours


def test_the_bandwidth_of_nearest_neighbours_is_the_median_distance_to_the_last(strip):
    fitted = DiffusionMap(4, n_neighbors=20).fit(strip.X)
    nearest = np.sort(pairwise_distances(strip.X), axis=1)
    assert fitted.bandwidth_ == pytest.approx(np.median(nearest[:, 20]), rel=1e-9)
    with warned("points.fewer_neighbors"):
        DiffusionMap(4, n_neighbors=20).fit(strip.X[:15])


# --- distances and affinities ----------------------------------------------------------------------------------------


def test_nearest_neighbours_of_scikit_learn_in_a_pipeline(strip):
    """Its graph is one-way, with the zero distance of each point to itself."""
    X, new = strip.X[:500], strip.X[500:]
    pipe = make_pipeline(
        KNeighborsTransformer(n_neighbors=20, mode="distance"), DiffusionMap(3, metric="precomputed", bandwidth=0.9)
    )
    found = pipe.fit_transform(X)
    kernel = gaussian_kernel(knn_graph(X, n_neighbors=20), bandwidth=0.9)
    expected = diffusion_map(graph_laplacian(kernel), n_components=3).coordinates * np.sqrt(len(X))
    same_map(found, expected)
    placed = pipe.transform(new)
    nearest = pairwise_distances(new, X).argmin(axis=1)
    assert placed.shape == (200, 3) and np.corrcoef(placed[:, 0], found[nearest, 0])[0, 1] > 0.99
    regression = make_pipeline(*(step for _, step in pipe.steps), LinearRegression())
    assert cross_val_score(regression, strip.X, strip.truth[:, 0], error_score="raise").min() > 0.5


def test_a_one_way_graph_is_made_symmetric_and_that_is_said(strip):
    one_way = kneighbors_graph(strip.X, 20, mode="distance")
    assert abs(one_way - one_way.T).max() > 0
    found = select_coordinates(graph=one_way, bandwidth=0.9, **SIZES)
    both = select_coordinates(graph=knn_graph(strip.X, n_neighbors=20), bandwidth=0.9, **SIZES)
    np.testing.assert_allclose(found.eigenvalues, both.eigenvalues, rtol=0, atol=1e-9)
    assert any("one-way" in note for note in found.diagnostics["approximations"])
    assert not both.diagnostics["approximations"]
    torn = one_way.tolil()
    torn[0, 1], torn[1, 0] = 1.0, 2.0
    with refused("graph.asymmetric"):
        select_coordinates(graph=torn.tocsr(), bandwidth=0.9, **SIZES)


@pytest.mark.parametrize("kind", ["distances", "distances without loops", "affinities", "sparse affinities"])
@pytest.mark.parametrize("make", [DiffusionMap, IndependentCoordinates])
def test_distances_and_affinities_are_as_good_as_points(strip, make, kind, tmp_path):
    sizes = SIZES | {"untangle": False} if make is IndependentCoordinates else {"n_components": 4}
    X, new = strip.X[:500], strip.X[500:600]
    given, cross = pairwise_distances(X), pairwise_distances(new, X)
    known = {"bandwidth": 1.0, "self_loops": "without" not in kind}
    points = make(**known, **sizes).fit(X)
    if "affinities" in kind:
        given = gaussian_kernel(radius_graph(X, radius=3.0), bandwidth=1.0)
        given = given if "sparse" in kind else given.toarray()
        cross = np.where(cross <= 3.0, np.exp(-(cross**2)), 0.0)
        cross = scipy.sparse.csr_array(cross) if "sparse" in kind else cross
        known = {}
    fitted = make(metric="precomputed_affinity" if "affinities" in kind else "precomputed", **known, **sizes).fit(given)
    same_map(fitted.embedding_, points.embedding_)
    same_map(fitted.transform(cross), points.transform(new))
    assert fitted.bandwidth_ == known.get("bandwidth")
    fitted.model_.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz").transform(cross)
    np.testing.assert_allclose(again, fitted.transform(cross), rtol=0, atol=1e-12)
    if known == {}:
        with warned("new_points.isolated"):
            assert np.isnan(fitted.transform(0 * cross)).all()


def test_errors_speak_of_what_was_passed(strip):
    D, known = pairwise_distances(strip.X[:200]), {"metric": "precomputed", "bandwidth": 1.0}
    fitted = DiffusionMap(3, **known).fit(D)
    for code, call in (
        ("bandwidth.missing", lambda: IndependentCoordinates(5, metric="precomputed").fit(D)),
        ("entry.automatic", lambda: IndependentCoordinates(5, **known).fit(D)),
        ("X.affinities", lambda: DiffusionMap(3, **known).fit(np.exp(-(D**2)))),
        ("X.shape", lambda: DiffusionMap(3, **known).fit(D[:, :50])),
        ("X_new.distances", lambda: fitted.transform(-D)),
    ):
        with refused(code):
            call()
    with pytest.raises(ValueError, match="Negative values in data passed to DiffusionMap"):
        DiffusionMap(3, **known).fit(np.where(D > 3, D, -D))


@pytest.mark.parametrize("metric", ["precomputed", "precomputed_affinity"])
def test_what_is_no_number_is_refused_in_a_square_matrix_too(strip, metric):
    D, estimator = pairwise_distances(strip.X[:200]), DiffusionMap(3, metric=metric, bandwidth=2.0)
    fitted = clone(estimator).fit(D if metric == "precomputed" else np.exp(-(D**2) / 4))
    for bad in (np.nan, np.inf):
        D[3, 5] = D[5, 3] = bad
        if metric == "precomputed" and bad == np.inf:  # not neighbours
            assert np.isfinite(estimator.fit_transform(D)).all()
            continue
        with refused("X.not_finite"):
            estimator.fit(D)
        with refused("X_new.not_finite"):
            fitted.transform(D)


# --- few points ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
@pytest.mark.parametrize("metric", ["cosine", "correlation"])
@pytest.mark.parametrize("make", [DiffusionMap, IndependentCoordinates])
def test_few_points_have_the_bandwidth_of_their_metric(make, metric):
    """Between the longest edge of the tree and the diameter, both in chords; lengths of rows say nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) + [4, 0, 0, 0, 0, 0]
    chords = np.sqrt(2 * np.maximum(pairwise_distances(X, metric=metric), 0))
    found = make(5, metric=metric).fit(X).bandwidth_
    assert np.sort(chords, axis=1)[:, 1].max() / 3 < found < chords.max() / 3
    assert make(5, metric=metric).fit(X * rng.uniform(1, 100, (80, 1))).bandwidth_ == pytest.approx(found)
    if metric == "correlation":  # in two columns it is 1 or -1: the longest edge is the diameter
        assert make(1, metric=metric).fit(X[:21, 1:3]).bandwidth_ == pytest.approx(2 / 3)
