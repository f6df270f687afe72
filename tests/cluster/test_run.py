"""A run on a cluster: where its points come from, what it says of itself, and how it fails."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import ClusterError, datasets, select_coordinates

from ..extras import needed
from ..said import refused
from .clusters import SMALL, check_same, check_same_but_signs, random_strip


def test_points_in_a_file_or_a_dask_array_give_dask_arrays(client, tmp_path):
    """They are read when both runs have ended: two runs on a cluster do not take each other's results."""
    da = needed("dask.array", "dask")
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "tol": 1e-10, "device": "cpu"}
    np.save(tmp_path / "points.npy", X)
    other = 0.9 * X[::-1]
    given = [(tmp_path / "points.npy", X), (da.from_array(other, chunks=(470, 3)), other)]
    results = [select_coordinates(points, client=client, **options) for points, _ in given]
    for found, (_, points) in zip(results, given, strict=True):
        assert isinstance(found.coordinates, da.Array)
        check_same(select_coordinates(points, **options), found)


@pytest.mark.parametrize("scale", ["rms", "diffusion"])
def test_scales_are_those_of_one_machine(client, scale):
    one, found = (select_coordinates(random_strip(300), scale=scale, client=where, **SMALL) for where in (None, client))
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5 * np.abs(one.coordinates).max())


@pytest.mark.parametrize("n", [900, 7000])
def test_the_map_is_turned_and_judged_as_on_one_machine(client, n):
    """Judged up to 5,000 points, and turned up to 1,000, by the same ones; only sampled rows are not computed again."""
    X, options = random_strip(n), SMALL | {"n_components": 10}
    one, found = (select_coordinates(X, client=where, **options) for where in (None, client))
    assert found.diagnostics["parameters"]["untangle"] and found.diagnostics["audit"] == {}
    assert found.verdict == one.verdict and found.judgement.keys() == one.judgement.keys()
    same = n <= 5000
    assert found.judgement["rank"].figure == pytest.approx(one.judgement["rank"].figure, abs=0.01 if same else 0.05)
    codes, others = ({finding.code for finding in result.findings} for result in (one, found))
    assert codes ^ others <= (set() if same else {"untangle.turned"})  # other points may pass a small turn, or not
    check_same_but_signs(found.embedding, one.embedding, 1e-4 if same else 1)


def test_what_dask_gives_up_for_is_said_in_our_words(client):
    from distributed import CancelledError, KilledWorker

    lost = SimpleNamespace(address="tcp://node:1")
    for error in (CancelledError("graph"), KilledWorker("graph", lost, 3)):

        def strike(stage, done, total, error=error):
            if stage == "graph":
                raise error

        with refused("cluster.lost", ClusterError):
            select_coordinates(random_strip(300), client=client, progress=strike, **SMALL)
