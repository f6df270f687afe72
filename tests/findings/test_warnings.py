"""A warning points at the line that called the package, wherever inside its reason was found."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ies_gpu import IESWarning, IndependentCoordinates, datasets, select_coordinates
from ies_gpu.files.points import read_points
from ies_gpu.findings import CheckpointWarning


@pytest.fixture(scope="module")
def parted():
    """A strip, and a few points far away."""
    X = datasets.load("D1", n_samples=600).X
    return np.concatenate([X, X[:40] + 100.0])


def place_of(call, category=IESWarning):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    places = {w.filename for w in caught if issubclass(w.category, category)}
    assert places, "no warning"
    return places


def test_given_and_automatic_parameters(parted):
    for bandwidth in (1.0, "auto"):
        found = place_of(
            lambda bandwidth=bandwidth: select_coordinates(
                parted, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth, disconnected="largest"
            )
        )
        assert found == {__file__}


def test_estimators(parted):
    estimator = IndependentCoordinates(intrinsic_dim=2, subset_size=2, bandwidth=1.0, disconnected="largest")
    assert place_of(lambda: estimator.fit(parted)) == {__file__}


def test_estimators_inside_scikit_learn(parted):
    """Whose wrappers and pipelines are no lines of the user's either."""
    estimator = IndependentCoordinates(intrinsic_dim=2, subset_size=2, bandwidth=1.0, disconnected="largest")
    assert place_of(lambda: make_pipeline(StandardScaler(with_std=False), estimator).fit_transform(parted)) == {
        __file__
    }
    estimator.fit(parted[:600])
    assert place_of(lambda: estimator.transform(parted[:3] + 1000.0)) == {__file__}


def test_new_points(parted):
    X = parted[:600]
    found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.0)
    assert place_of(lambda: found.model(X).transform(X[:3] + 1000.0)) == {__file__}


def test_files(tmp_path):
    (tmp_path / "points.csv").write_text("0,1\n1.5,2.5\n2.5,1.5\n")
    assert place_of(lambda: read_points(tmp_path / "points.csv")) == {__file__}


def test_checkpoints(tmp_path):
    X = datasets.load("D1", n_samples=400).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.0, "checkpoint": tmp_path / "saved"}
    select_coordinates(X, **options)
    for path in (tmp_path / "saved").rglob("*.npz"):
        path.write_bytes(b"damaged")
    assert place_of(lambda: select_coordinates(X, resume=True, **options), CheckpointWarning) == {__file__}
