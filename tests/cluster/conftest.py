"""Two workers, and a strip with its selection on one machine."""

from __future__ import annotations

import pytest

from ies_gpu import datasets, select_coordinates

from ..extras import needed


@pytest.fixture(scope="package")
def client():
    """Two workers as threads of this process: quick to start."""
    distributed = needed("distributed", "dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", scheduler_port=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="package")
def strip():
    """A long strip, large enough for the multilevel method, with its parameters and its selection on one machine."""
    X = datasets.load("D1", n_samples=6000).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "tol": 1e-10, "device": "cpu"}
    return X, options, select_coordinates(X, **options)
