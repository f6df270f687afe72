"""The same pipeline on the workers of a Dask cluster: the same sets, whoever computes them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ies_gpu
from ies_gpu import DisconnectedGraphError, datasets, select_coordinates
from ies_gpu.cli import main

from ..backends import needs_cupy
from ..said import refused, warned
from .clusters import (
    SMALL,
    check_same,
    check_same_but_signs,
    device_of_workers,
    distributed,
    processes,
    random_strip,
    threads,
)


def test_strip_of_an_array(client, strip):
    X, options, one = strip
    found = select_coordinates(X, client=client, **options)
    check_same(one, found)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "multilevel"
    assert solver["coarse_sizes"][0] == pytest.approx(one.diagnostics["solver"]["coarse_sizes"][0], rel=0.1)
    assert isinstance(found.coordinates, np.ndarray) and (found.points == np.arange(len(X))).all()
    assert found.diagnostics["cluster"]["tasks"] < 600
    assert "on 2 workers of the Dask cluster" in found.diagnostics["device_reason"]


@pytest.mark.parametrize("name", ["D6", "D8"])
def test_small_dense_graphs_are_solved_on_one_worker(client, name):
    data = datasets.load(name, n_samples=2500)
    one, found = (select_coordinates(data.X, client=where, tol=1e-10, **known(data)) for where in (None, client))
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
    with refused("graph.disconnected", DisconnectedGraphError):
        select_coordinates(X, client=client, **options)
    with warned("graph.left_out"):
        found = select_coordinates(X, client=client, disconnected="largest", **options)
    assert (found.points == np.flatnonzero(X[:, 0] < 10)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = select_coordinates(X, disconnected="largest", **options)
    assert found.subset == one.subset
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5)


def test_parts_that_are_joined_by_rounding_only_are_no_graph(client):
    half, eps = random_strip(300, 3.0), SMALL["bandwidth"]
    X = np.concatenate([half, half + [3 + 5.95 * eps, 0]])
    for where in (None, client):
        with refused("graph.zero_eigenvalue", DisconnectedGraphError):
            select_coordinates(X, radius=6.2 * eps, client=where, **SMALL)


def test_residuals_above_the_tolerance_are_told(client):
    with warned("eigenvectors.residual"):
        found = select_coordinates(random_strip(300), tol=1e-18, client=client, **SMALL)
    assert any("instead of 1e-18" in message for message in found.diagnostics["warnings"])


def test_vectors_have_nothing_of_the_constant_one_where_parts_hang_by_a_thread(client):
    half, eps = random_strip(2600, 20.0), 0.3
    X = np.concatenate([half, half + [20 + 3.4 * eps, 0]])
    weights = ies_gpu.laplacian_of_points(X, bandwidth=eps, radius=3.5 * eps).weights
    options = SMALL | {"bandwidth": eps, "intrinsic_dim": 1, "subset_size": 1}
    found = select_coordinates(X, client=client, radius=3.5 * eps, **options)
    phi = found.coordinates
    constant = weights @ phi / np.sqrt(weights.sum() * (weights @ phi**2))
    assert found.diagnostics["solver"]["method"] == "multilevel" and found.eigenvalues[0] < 1e-8
    assert np.abs(constant).max() < 1e-13


def test_a_result_knows_its_points(client):
    X = np.concatenate([random_strip(500), [[30.0, 0.0]]])[np.random.default_rng(1).permutation(501)]
    options = SMALL | {"disconnected": "most"}
    with warned("graph.left_out"):
        one = select_coordinates(X, **options)
    with warned("graph.left_out"):
        found = select_coordinates(X, client=client, **options)
    assert found.diagnostics["points_digest"] == one.diagnostics["points_digest"]
    assert found.model(X).names == found.names
    with refused("X.other_points"):
        found.model(X[::-1])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_part_that_is_left_out_may_fill_whole_blocks():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.random((6000, 2)) * [40, 1], rng.random((2000, 2)) / 2 + [500, 0]])
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "n_components": 8, "disconnected": "largest"}
    one = select_coordinates(X, device="cpu", **options)
    with threads(8) as client:
        found = select_coordinates(X, device="cpu", client=client, **options)
    assert found.diagnostics["cluster"]["blocks"] < 8 and found.diagnostics["solver"]["method"] == "multilevel"
    assert found.subset == one.subset and (found.points == np.arange(6000)).all()


@pytest.mark.thorough
def test_one_worker_with_many_threads_has_all_of_its_memory_for_a_dense_graph():
    X = datasets.load("D6", n_samples=2000).X
    options = {"intrinsic_dim": 3, "subset_size": 3, "bandwidth": 0.5, "device": "cpu"}
    nnz = select_coordinates(X, **options).diagnostics["mean_degree"] * len(X)
    with threads(8, memory_limit=int(60 * nnz)) as client:  # 40 bytes per entry are asked for, an eighth of 60 is less
        assert select_coordinates(X, client=client, **options).diagnostics["solver"]["method"] != "multilevel"


@needs_cupy
def test_cuda_as_the_workers_device(client):
    X = np.random.default_rng(3).uniform(0, 1, (600, 2)) * [4, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "n_components": 6, "tol": 1e-10}
    one = select_coordinates(X, device="cpu", **options)
    with device_of_workers("cuda"):
        found = select_coordinates(X, device="cuda", client=client, **options)
    assert found.diagnostics["device"].startswith("cuda")
    check_same(one, found)


def known(data):
    return {name: getattr(data, name) for name in ("intrinsic_dim", "subset_size", "bandwidth")} | {"device": "cpu"}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", ["D1", "D6", "D7", "D8"])
def test_worker_processes_choose_what_one_process_chooses(name, workers):
    data = datasets.load(name)
    with processes(workers) as client:
        one, found = (select_coordinates(data.X, client=where, tol=1e-12, **known(data)) for where in (None, client))
    check_same(one, found, scores=1e-8)


def test_command_line_with_a_scheduler(strip, tmp_path, capsys):
    X = datasets.load("D1", n_samples=1500).X
    np.save(tmp_path / "points.npy", X)
    fit = ["fit", str(tmp_path / "points.npy"), *["-d", "2", "-s", "2", "--bandwidth", "0.4", "--device", "cpu"]]
    one = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.4, device="cpu")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", scheduler_port=0, protocol="tcp"
    ) as cluster:
        found = tmp_path / "run.npz"
        place = str(tmp_path / "map.npy")
        assert main([*fit, "--scheduler", cluster.scheduler_address, "-o", str(found), "--coordinates", place]) == 0
        assert ies_gpu.load(found).subset == one.subset
    np.testing.assert_allclose(np.load(place), ies_gpu.load(found).embedding, rtol=1e-12, atol=1e-12)
    assert main([*fit, "--scheduler", "nowhere"]) == 1
    assert "no Dask scheduler answers at" in capsys.readouterr().err
    assert main([*fit, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"]) == 2
