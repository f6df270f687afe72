"""What a cluster does not do is said before the work, in the words of one machine."""

from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import ClusterError, select_coordinates, select_each_part
from ies_gpu.cluster.team import Team
from ies_gpu.run.run import versions

from ..extras import needed
from ..said import refused
from .clusters import SMALL, random_strip


def test_what_does_not_work_is_said_before_the_work(client, tmp_path):
    X = random_strip(300)
    for wrong, code in (
        ({"bandwidth": "auto"}, "client.automatic"), ({"bandwidth": "local"}, "client.automatic"),
        ({"search": "greedy"}, "client.search"), ({"n_neighbors": 10}, "client.n_neighbors"),
        ({"n_threads": 2}, "client.n_threads"), ({"n_threads": 2, "memory_limit": 1 << 30}, "client.memory_limit"),
        ({"checkpoint": tmp_path}, "client.checkpoint"), ({"intrinsic_dim": 3}, "subset_size.range"),
    ):  # fmt: skip
        with refused(code):
            select_coordinates(X, client=client, **SMALL | wrong)
    with refused("client.type", TypeError):
        select_coordinates(X, client="tcp://127.0.0.1:8786", **SMALL)
    with refused("client.each"):
        select_each_part(X, client=client, **SMALL)
    for given, code, kind in (
        ("points.csv", "X.format", ValueError), ("no.npy", "X.missing", FileNotFoundError),
        (np.broadcast_to(X[:1], (1 << 44, 2)), "cluster.result_too_large", ClusterError),
    ):  # fmt: skip
        with refused(code, kind):
            select_coordinates(given, client=client, keep_bases=False, **SMALL)
    with refused("X.not_finite") as told:
        select_coordinates(np.where(np.arange(300)[:, None] == 7, np.nan, X), client=client, **SMALL)
    assert "row 7" in str(told.value)


def test_masked_entries_and_numbers_without_squares_are_refused_as_on_one_machine(client):
    da = needed("dask.array", "dask")
    X = np.ma.array(random_strip(300), mask=False)
    X[5] = np.ma.masked
    for given in (X, da.from_array(X, chunks=(100, 2), asarray=False)):
        with refused("X.masked"):
            select_coordinates(given, client=client, **SMALL)
    with refused("X.too_large"):
        select_coordinates(random_strip(300) * 1e160, client=client, **SMALL)


ISLANDS = np.concatenate([random_strip(12, 0.5, k) * [1, 0.3] + [0, 20 * k] for k in range(10)])


@pytest.mark.parametrize(("X", "changed", "code"), [
    pytest.param(random_strip(300), {"intrinsic_dim": 3, "subset_size": 3}, "intrinsic_dim.range", id="columns"),
    pytest.param(np.tile([[1.0, 2.0]], (200, 1)), {}, "X.copies", id="copies"),
    pytest.param(random_strip(300) * 1e-160, {}, "X.too_small", id="tiny"),
    pytest.param(random_strip(300), {"bandwidth": 50}, "graph.all_pairs", id="complete"),
    pytest.param(random_strip(300), {"bandwidth": 0.004}, "graph.isolated", id="isolated"),
    pytest.param(ISLANDS, {"disconnected": "largest", "n_components": 20}, "graph.small_part", id="small part"),
])  # fmt: skip
def test_what_one_machine_refuses_a_cluster_refuses_in_the_same_words(client, X, changed, code):
    da = needed("dask.array", "dask")
    uneven = da.concatenate([da.from_array(part) for part in np.split(X, [7, 7, 100])])  # one chunk is empty
    said = []
    for given, where in ((X, None), (uneven, client)):
        with refused(code) as caught:
            select_coordinates(given, client=where, **SMALL | changed)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_of_many_points_a_sample_tells_that_all_are_joined():
    from ies_gpu.cluster.blocks import check_sample
    from ies_gpu.options import Options

    X = random_strip(300)
    check_sample(X, 10**6, Options(entry="X", **SMALL | {"bandwidth": 0.004}))  # too few of them to miss neighbours
    with refused("graph.all_pairs"):
        check_sample(X, 10**6, Options(entry="X", **SMALL | {"bandwidth": 50.0}))


def test_other_versions_on_a_worker_and_no_workers_are_refused():
    older = {"tcp://node:1": versions(), "tcp://node:2": versions() | {"numpy": "1.0"}}
    for answer, code, words in ((older, "versions", "tcp://node:2 has numpy 1.0"), ({}, "no_workers", "")):
        client = SimpleNamespace(
            submit=print, nthreads=lambda: {"tcp://node:1": 1}, run=lambda function, answer=answer: answer,
            scheduler=SimpleNamespace(identity=None), sync=lambda function: {"workers": {}},
        )  # fmt: skip
        with refused(f"cluster.{code}", ClusterError) as told:
            Team(client, "cpu").check_versions()
        assert words in str(told.value)
