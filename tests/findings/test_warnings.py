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


SIZES = {"intrinsic_dim": 2, "subset_size": 2}
FITTED = IndependentCoordinates(**SIZES, bandwidth=1.0, disconnected="largest")
PIPELINE = make_pipeline(StandardScaler(with_std=False), FITTED)  # whose wrappers are no lines of the user's either


def damaged_checkpoint(X, folder):
    options = {**SIZES, "bandwidth": 1.0, "checkpoint": folder / "saved"}
    select_coordinates(X, **options)
    for path in (folder / "saved").rglob("*.npz"):
        path.write_bytes(b"damaged")
    select_coordinates(X, resume=True, **options)


def counted_table(X, folder):
    (folder / "points.csv").write_text("0,1\n1.5,2.5\n2.5,1.5\n")
    read_points(folder / "points.csv")


@pytest.mark.parametrize(
    "call",
    [
        lambda X, _: select_coordinates(X, **SIZES, bandwidth=1.0, disconnected="largest"),
        lambda X, _: select_coordinates(X, **SIZES, disconnected="largest"),
        lambda X, _: FITTED.fit(X),
        lambda X, _: PIPELINE.fit_transform(X),
        lambda X, _: FITTED.fit(X[:600]).transform(X[:3] + 1000.0),
        lambda X, _: select_coordinates(X[:600], **SIZES, bandwidth=1.0).model(X[:600]).transform(X[:3] + 1000.0),
        lambda X, folder: damaged_checkpoint(X[:600], folder),
        counted_table,
    ],
)
def test_a_warning_points_at_the_line_that_called(call, parted, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(parted, tmp_path)
    assert {w.filename for w in caught if issubclass(w.category, IESWarning | CheckpointWarning)} == {__file__}
