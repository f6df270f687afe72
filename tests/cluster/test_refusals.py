"""What a cluster does not do is said before the work, in the words of one machine."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import ClusterError, DisconnectedGraphError, select_coordinates, select_each_part
from ies_gpu.cli import main
from tests.said import refused

from ..extras import needed
from .clusters import SMALL, random_strip


def test_what_does_not_work_is_said_before_the_work(client, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.0, "device": "cpu"}
    for wrong, words in (
        ({"bandwidth": "auto"}, "does not work with client"),
        ({"search": "greedy"}, "use 'exhaustive'"),
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


def test_masked_entries_and_numbers_without_squares_are_refused_as_on_one_machine(client):
    da = needed("dask.array", "dask")
    X = np.ma.array(random_strip(300), mask=False)
    X[5] = np.ma.masked
    for given in (X, da.from_array(X, chunks=(100, 2), asarray=False)):
        with pytest.raises(ValueError, match="X has masked entries"):
            select_coordinates(given, client=client, **SMALL)
    with pytest.raises(ValueError, match="whose squares no float can hold"):
        select_coordinates(random_strip(300) * 1e160, client=client, **SMALL)


def error_of(X, options, words, client=None):
    """The error of a run as text, which has these words."""
    with pytest.raises(ValueError, match=words) as caught:  # DisconnectedGraphError is one, too
        select_coordinates(X, client=client, **options)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("X", "changed", "words"),
    [
        (random_strip(300), {"intrinsic_dim": 3, "subset_size": 3}, "intrinsic_dim must be at most 2"),
        (np.tile([[1.0, 2.0]], (200, 1)), {}, "200 copies of one point"),
        (random_strip(300) * 1e-160, {}, "smaller squares vanish"),
        (random_strip(300), {"bandwidth": 50}, "connects every sampled point to all 300 points"),
        (random_strip(300), {"bandwidth": 0.004}, "sampled points have no neighbour within radius=0.012"),
        (
            np.concatenate([random_strip(12, 0.5, k) * [1, 0.3] + [0, 20 * k] for k in range(10)]),
            {"disconnected": "largest", "n_components": 20},
            "the largest part holds 12 of 120 points, too few for n_components=20",
        ),
    ],
    ids=["columns", "copies", "tiny", "complete", "isolated", "small part"],
)
def test_what_one_machine_refuses_a_cluster_refuses_in_the_same_words(client, X, changed, words):
    da = needed("dask.array", "dask")
    uneven = da.concatenate([da.from_array(part) for part in np.split(X, [7, 7, 100])])  # one chunk is empty
    assert error_of(uneven, SMALL | changed, words, client) == error_of(X, SMALL | changed, words)


def test_refusals_name_what_was_given_and_a_way_out(client, tmp_path, capsys):
    X = np.concatenate([random_strip(300), random_strip(200, seed=1) + [0, 20]])
    np.save(tmp_path / "points.npy", X)
    with refused("client.each"):
        select_each_part(X, client=client, **SMALL)
    with refused("graph.disconnected", DisconnectedGraphError):
        select_coordinates(X, client=client, **SMALL)
    for wrong, code in (
        ({"n_threads": 2}, "client.n_threads"),
        ({"n_threads": 2, "memory_limit": 1 << 30}, "client.memory_limit"),
        ({"n_neighbors": 10}, "client.n_neighbors"),
        ({"bandwidth": "local"}, "client.automatic"),
    ):
        with refused(code):
            select_coordinates(X, client=client, **SMALL | wrong)
    fit = ["fit", str(tmp_path / "points.npy"), "-d", "2", "-s", "2", "--bandwidth", "0.4"]
    for wrong, words in (
        (["--workers", "1", "--threads", "1"], "--workers start with one thread each; leave out --threads"),
        (
            ["--workers", "1", "--neighbors", "10"],
            "--neighbors 10 does not work with a cluster; pass a number for --bandwidth",
        ),
        (["--workers", "1", "--each-part"], "--workers is for one map, and --each-part makes one per part"),
        (["--scheduler", "x", "--memory-limit", "1G"], "--memory-limit 1G does not work with a cluster; set it when"),
    ):
        assert main([*fit, *wrong]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_a_result_that_does_not_fit_the_client_is_refused_before_the_work(client, monkeypatch):
    from ies_gpu.cluster import blocks, returned

    def never(*_):
        raise AssertionError("the work began")

    monkeypatch.setattr(blocks, "shared_out", never)
    small = SimpleNamespace(free_memory=lambda: 8 * 300 * (20 + 2 + 10) - 1)
    monkeypatch.setattr(returned, "get_backend", lambda device: small)
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.raises(ClusterError, match="pass X as a Dask array or as a path"):
        select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.0, keep_bases=False, client=client)


def test_other_versions_on_a_worker_and_no_workers_are_refused():
    from ies_gpu.cluster import team

    older = {"tcp://node:1": team.versions(), "tcp://node:2": team.versions() | {"numpy": "1.0"}}
    for answer, words in ((older, r"tcp://node:2 has numpy 1\.0 instead of 2"), ({}, "no workers")):
        client = SimpleNamespace(
            submit=print, nthreads=lambda: {"tcp://node:1": 1}, run=lambda function, answer=answer: answer,
            scheduler=SimpleNamespace(identity=None), sync=lambda function: {"workers": {}},
        )  # fmt: skip
        with pytest.raises(ClusterError, match=words):
            team.Team(client, "cpu").check_versions()
