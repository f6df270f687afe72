"""Where the points of a cluster run come from."""

from __future__ import annotations

import numpy as np

from ies_gpu import datasets, select_coordinates

from ..extras import needed
from .clusters import check_same


def test_points_in_a_file_or_a_dask_array_give_dask_arrays(client, tmp_path):
    da = needed("dask.array", "dask")
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "tol": 1e-10, "device": "cpu"}
    one = select_coordinates(X, **options)
    np.save(tmp_path / "points.npy", X)
    needed("zarr", "dask").save(tmp_path / "points.zarr", X)
    paths = [tmp_path / f"points.{ending}" for ending in ("npy", "zarr")]
    for given in (*paths, da.from_array(X, chunks=(470, 3))):
        found = select_coordinates(given, client=client, **options)
        assert isinstance(found.coordinates, da.Array)
        check_same(one, found)
