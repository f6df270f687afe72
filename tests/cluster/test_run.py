"""A run on a cluster: where its points come from, what it says of itself, and how it fails."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import ClusterError, datasets, select_coordinates

from ..extras import needed
from ..said import refused
from .clusters import SMALL, check_same, check_same_but_signs, random_strip


def test_points_in_a_file_or_a_dask_array_give_dask_arrays(client, tmp_path):
    da = needed("dask.array", "dask")
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "tol": 1e-10, "device": "cpu"}
    one = select_coordinates(X, **options)
    np.save(tmp_path / "points.npy", X)
    for given in (tmp_path / "points.npy", da.from_array(X, chunks=(470, 3))):
        found = select_coordinates(given, client=client, **options)
        assert isinstance(found.coordinates, da.Array)
        check_same(one, found)


@pytest.mark.parametrize("scale", ["rms", "diffusion"])
def test_scales_are_those_of_one_machine(client, scale):
    one, found = (select_coordinates(random_strip(300), scale=scale, client=where, **SMALL) for where in (None, client))
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5 * np.abs(one.coordinates).max())


def test_a_run_says_what_it_did_not_do(client):
    """Coordinates are not turned, and nobody looked at what the map loses of the points or at sampled rows."""
    one, found = (select_coordinates(random_strip(300), client=where, **SMALL) for where in (None, client))
    assert one.diagnostics["parameters"]["untangle"] and not found.diagnostics["parameters"]["untangle"]
    assert found.rotation is None and found.diagnostics["audit"] == {}
    assert found.verdict != "sure" and "rank.unchecked" in [finding.code for finding in found.findings]


def test_what_dask_gives_up_for_is_said_in_our_words(client):
    from distributed import CancelledError, KilledWorker

    for error, code in (
        (CancelledError("graph"), "cluster.scheduler_lost"),
        (KilledWorker("graph", None, 3), "cluster.workers_died"),
    ):

        def strike(stage, done, total, error=error):
            if stage == "graph":
                raise error

        with refused(code, ClusterError):
            select_coordinates(random_strip(300), client=client, progress=strike, **SMALL)
