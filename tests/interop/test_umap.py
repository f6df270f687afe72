"""The start of UMAP: a row for every input point, and a way out where something does not fit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from ies_gpu import datasets, diffusion_map, laplacian_of_points, select_coordinates, select_each_part, umap_init
from tests.extras import needed
from tests.said import refused, warned

pytestmark = pytest.mark.usefixtures("plain_kernels")


@pytest.fixture(scope="module")
def stray(plain_kernels):
    """A strip with 20 points far away, half of them at the end, and its selection."""
    X = datasets.load("D1", n_samples=600).X
    X[:10] += 500
    X[-10:] -= 500
    with warned("graph.left_out"):
        found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.1, disconnected="largest")
    return X, found


def test_points_left_out_get_the_row_of_their_nearest_kept_point(stray):
    X, selection = stray
    start = umap_init(selection, X=X)
    assert start.shape == (600, 2) and np.isfinite(start).all()
    scale = 10 / np.abs(selection.embedding).max()
    np.testing.assert_allclose(start[selection.points], scale * selection.embedding, atol=1e-3)
    left_out = np.setdiff1d(np.arange(600), selection.points)
    nearest = cdist(X[left_out], X[selection.points]).argmin(axis=1)
    assert len(left_out) == 20
    np.testing.assert_allclose(start[left_out], scale * selection.embedding[nearest], atol=1e-3)


def test_a_laplacian_leaves_nothing_out_and_a_part_does(stray):
    X, asked = stray[0][10:-10], {"intrinsic_dim": 2, "subset_size": 2}
    laplacian = laplacian_of_points(X, bandwidth=1.1)
    found = diffusion_map(laplacian, n_components=8)
    given = {"coordinates": found.coordinates, "eigenvalues": found.eigenvalues}
    assert umap_init(select_coordinates(laplacian=laplacian, **given, **asked)).shape == (580, 2)
    two = np.vstack([X, X[:400] + 500])
    for part in select_each_part(two, bandwidth=1.1, n_components=8, **asked):
        with refused("umap.left_out"):
            umap_init(part)
        assert umap_init(part, X=two).shape == (980, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:n_jobs value")
def test_umap_runs_where_points_were_left_out(stray):
    umap = needed("umap", "umap")
    X, selection = stray
    model = umap.UMAP(init=umap_init(selection, X=X), n_epochs=5, random_state=0)
    assert model.fit_transform(X).shape == (600, 2)


def test_the_start_is_that_of_umap_with_the_chosen_coordinates(stray):
    X, selection = stray
    start = umap_init(selection, X=X)
    assert start.dtype == np.float32 and np.abs(start).max() == pytest.approx(10, abs=1e-3)
    np.testing.assert_array_equal(start, umap_init(selection, X=X))
    np.testing.assert_array_equal(umap_init(selection, ("phi1", "phi3"), X=X), umap_init(selection, (0, 2), X=X))
    rounded = replace(selection, coordinates=selection.coordinates.round(2), rotation=None)
    assert len(np.unique(umap_init(rounded, X=X), axis=0)) == 600  # no two points coincide
    for bad in ((), (0, 0), (0, 99), (0, 1.5)):
        with refused("subset*", (TypeError, ValueError)):
            umap_init(selection, bad, X=X)
