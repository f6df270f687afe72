"""The same pipeline on the workers of a Dask cluster: the same sets, whoever computes them, and whatever is lost."""

from __future__ import annotations

import os
import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import ies_gpu
from ies_gpu import ClusterError, DisconnectedGraphError, datasets, select_coordinates

from ..extras import needed

distributed = needed("distributed", "dask")


@pytest.fixture(scope="module")
def client():
    """Two workers as threads of this process: quick to start."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", scheduler_port=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def strip():
    """A long strip, large enough for the multilevel method, with its parameters and its selection on one machine."""
    X = datasets.load("D1", n_samples=6000).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "tol": 1e-10, "device": "cpu"}
    return X, options, select_coordinates(X, **options)


def check_same_but_signs(found, expected, atol):
    """Signs follow the seed on a cluster, and the points on one machine."""
    np.testing.assert_allclose(found * np.sign((found * expected).sum(axis=0)), expected, atol=atol)


def check_same(one, other):
    """Sets, path and eigenvalues agree; scores as far as sets that lose rank allow."""
    assert other.subset == one.subset
    assert [segment.subset for segment in other.path] == [segment.subset for segment in one.path]
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=0, atol=1e-9)
    score = {tuple(s): value for s, value in zip(one.ranking.subsets.tolist(), one.ranking.scores, strict=True)}
    found = np.array([score[tuple(s)] for s in other.ranking.subsets.tolist()])
    sound = found > -3
    np.testing.assert_allclose(other.ranking.scores[sound], found[sound], rtol=0, atol=1e-6)
    assert other.zeta == pytest.approx(one.zeta, rel=1e-5)
    check_same_but_signs(np.asarray(other.coordinates), one.coordinates, 1e-7)
    np.testing.assert_allclose(other.regret_percentiles, one.regret_percentiles, atol=1e-5)


def test_strip_of_an_array(client, strip):
    X, options, one = strip
    found = select_coordinates(X, client=client, **options)
    check_same(one, found)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "multilevel"
    assert solver["coarse_sizes"][0] == pytest.approx(one.diagnostics["solver"]["coarse_sizes"][0], rel=0.1)
    assert isinstance(found.coordinates, np.ndarray) and (found.points == np.arange(len(X))).all()
    assert set(found.diagnostics["cluster"]) >= {"blocks", "graph", "eigenvectors", "search"}
    assert "Dask" in found.diagnostics["device_reason"]


def test_points_in_a_file_or_a_dask_array_give_dask_arrays(client, tmp_path):
    da = needed("dask.array", "dask")
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "tol": 1e-10, "device": "cpu"}
    one = select_coordinates(X, **options)
    np.save(tmp_path / "points.npy", X)
    needed("zarr", "dask").save(tmp_path / "points.zarr", X)
    for given in (tmp_path / "points.npy", str(tmp_path / "points.zarr"), da.from_array(X, chunks=(470, 2))):
        found = select_coordinates(given, client=client, **options)
        assert isinstance(found.coordinates, da.Array)
        check_same(one, found)


@pytest.mark.parametrize("name", ["D6", "D8"])
def test_small_dense_graphs_are_solved_on_one_worker(client, name):
    data = datasets.load(name, n_samples=2500)
    options = {"intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size, "bandwidth": data.bandwidth}
    options |= {"tol": 1e-10, "device": "cpu"}
    one = select_coordinates(data.X, **options)
    found = select_coordinates(data.X, client=client, **options)
    check_same(one, found)
    assert found.diagnostics["solver"]["method"] != "multilevel"


def test_float32_storage_and_no_self_loops(client):
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "device": "cpu"}
    for more in ({"dtype": "mixed"}, {"self_loops": False}):
        one, found = (select_coordinates(X, **options, **more, client=where) for where in (None, client))
        assert found.subset == one.subset
        np.testing.assert_allclose(found.eigenvalues, one.eigenvalues, atol=1e-7)


def test_parts_of_a_graph(client):
    rng = np.random.default_rng(0)
    line = np.column_stack([np.linspace(0, 6, 900), rng.uniform(0, 1, 900)])
    X = np.concatenate([line, line[:60] + [20, 0]])[rng.permutation(960)]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "n_components": 8, "device": "cpu"}
    with pytest.raises(DisconnectedGraphError, match=r"2 parts \(900, 60 points\)"):
        select_coordinates(X, client=client, **options)
    with pytest.warns(ies_gpu.IESWarning, match="900 of 960"):
        found = select_coordinates(X, client=client, components="largest", **options)
    assert (found.points == np.flatnonzero(X[:, 0] < 10)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = select_coordinates(X, components="largest", **options)
    assert found.subset == one.subset
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5)


def as_it_is(backend, table):
    return table


@pytest.mark.parametrize(("percent", "window"), [(0, 20_000), (33.3, 4), (75, 20_000), (100, 4)])
def test_percentile_over_blocks_is_that_of_numpy(client, monkeypatch, percent, window):
    from ies_gpu.cluster import scores
    from ies_gpu.cluster.team import Team

    monkeypatch.setattr(scores, "WINDOW", window)
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(n, 3)) for n in (40, 1, 75)]
    for table in tables:
        table[::2, 1] = 0.0  # ties
        table[:, 2] = 5.0
    team = Team(client, "cpu")
    found = scores.percentile_of(team, team.map(as_it_is, tables), percent, 116)
    np.testing.assert_allclose(found, np.percentile(np.concatenate(tables), percent, axis=0), rtol=1e-12, atol=0)


def test_what_does_not_work_is_said_before_the_work(client, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.0, "device": "cpu"}
    for wrong, words in (
        ({"bandwidth": "auto"}, "does not work with client"),
        ({"search": "greedy"}, "use 'exhaustive'"),
        ({"checkpoint": tmp_path}, "checkpoint does not work with client"),
        ({"n_threads": 2}, "when you start the workers"),
        ({"intrinsic_dim": 3}, "subset_size"),
    ):
        with pytest.raises(ValueError, match=words):
            select_coordinates(X, client=client, **options | wrong)
    with pytest.raises(TypeError, match=r"dask\.distributed\.Client"):
        select_coordinates(X, client="tcp://127.0.0.1:8786", **options)
    with pytest.raises(ValueError, match=r"\.npy or \.zarr"):
        select_coordinates("points.csv", client=client, **options)
    with pytest.raises(ValueError, match="row 7 is not"):
        select_coordinates(np.where(np.arange(300)[:, None] == 7, np.nan, X), client=client, **options)


def test_other_versions_on_a_worker_and_no_workers_are_refused():
    from ies_gpu.cluster import team

    older = {"tcp://node:1": team.versions(), "tcp://node:2": team.versions() | {"numpy": "1.0"}}
    for answer, words in ((older, r"tcp://node:2 has numpy 1\.0 instead of 2"), ({}, "no workers")):
        client = SimpleNamespace(
            submit=print, nthreads=lambda: {"tcp://node:1": 1}, run=lambda function, answer=answer: answer
        )
        with pytest.raises(ClusterError, match=words):
            team.Team(client, "cpu").check_versions()


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["graph", "eigenvectors", "search"])
def test_a_killed_worker_costs_time_and_not_the_result(strip, stage):
    X, options, one = strip
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", scheduler_port=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        whole = select_coordinates(X, client=client, **options)
        victims = list(client.run(os.getpid).values())

        def strike(name, done, total):
            if name == stage and victims and (done > 2 or stage != "eigenvectors"):
                os.kill(victims.pop(), signal.SIGKILL)
                victims.clear()

        again = select_coordinates(X, client=client, progress=strike, **options)
    assert not victims
    check_same(one, again)
    np.testing.assert_allclose(again.coordinates, whole.coordinates, atol=1e-10)  # sums may round another way


def test_two_runs_on_one_cluster_do_not_take_each_others_results(client):
    da = needed("dask.array", "dask")
    X = np.random.default_rng(3).uniform(0, 1, (600, 2)) * [4, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "n_components": 6, "device": "cpu"}
    first, second = (
        select_coordinates(da.from_array(points), client=client, **options) for points in (X, X[::-1] * 0.9)
    )
    one = select_coordinates(X, **options)
    check_same_but_signs(first.coordinates.compute(), one.coordinates, 1e-5)
    assert second.eigenvalues[0] != first.eigenvalues[0]


def test_command_line_with_a_scheduler(strip, tmp_path, capsys):
    from ies_gpu.cli import main

    X = datasets.load("D1", n_samples=1500).X
    np.save(tmp_path / "points.npy", X)
    fit = ["fit", str(tmp_path / "points.npy"), *["-d", "2", "-s", "2", "--bandwidth", "0.4", "--device", "cpu"]]
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", scheduler_port=0, protocol="tcp"
    ) as cluster:
        found = tmp_path / "run.npz"
        assert main([*fit, "--scheduler", cluster.scheduler_address, "-o", str(found)]) == 0
    one = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.4, device="cpu")
    assert ies_gpu.load(found).subset == one.subset
    assert main([*fit, "--scheduler", "nowhere"]) == 1
    assert "no Dask scheduler answers at" in capsys.readouterr().err
    assert main([*fit, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"]) == 2
