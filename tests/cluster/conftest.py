"""Two workers, and a strip with its selection on one machine."""

import pytest

from ies_gpu import datasets, select_coordinates


@pytest.fixture(scope="package")
def client():
    """Two workers as threads of this process: quick to start."""
    from .clusters import threads

    with threads(1, workers=2) as client:
        yield client


@pytest.fixture(scope="package")
def strip():
    """A long strip, large enough for the multilevel method, with its parameters and its selection on one machine."""
    X = datasets.load("D1", n_samples=6000).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "tol": 1e-10, "device": "cpu"}
    return X, options, select_coordinates(X, **options)
