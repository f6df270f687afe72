"""The same pipeline on the workers of a Dask cluster: the same sets, whoever computes them, and how it fails."""

from types import SimpleNamespace

import numpy as np
import pytest

import ies_gpu
from ies_gpu import ClusterError, DisconnectedGraphError, datasets, select_coordinates
from ies_gpu.cli import main

from ..backends import needs_cupy
from ..extras import needed
from ..said import refused, warned
from .clusters import SMALL, check_same, check_same_but_signs, device_of_workers, processes, random_strip, threads

D1 = datasets.load("D1", n_samples=1500).X
STRIP = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "device": "cpu"}


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


def on_both(X, client, **options):
    """The same run on one machine and on the workers."""
    return (select_coordinates(X, client=where, **options) for where in (None, client))


def known(data):
    return {name: getattr(data, name) for name in ("intrinsic_dim", "subset_size", "bandwidth")} | {"device": "cpu"}


@pytest.mark.parametrize("name", ["D6", "D8"])
def test_small_dense_graphs_are_solved_on_one_worker(client, name):
    data = datasets.load(name, n_samples=2500)
    one, found = on_both(data.X, client, tol=1e-10, **known(data))
    check_same(one, found)
    assert found.diagnostics["solver"]["method"] != "multilevel"


@pytest.mark.parametrize("more", [{"dtype": "mixed"}, {"self_loops": False}])
def test_float32_storage_and_no_self_loops(client, more):
    one, found = on_both(D1, client, **STRIP, **more)
    assert found.subset == one.subset
    np.testing.assert_allclose(found.eigenvalues, one.eigenvalues, atol=1e-7)


def test_parts_of_a_graph(client):
    rng = np.random.default_rng(0)
    line = np.column_stack([np.linspace(0, 6, 900), rng.uniform(0, 1, 900)])
    X = np.concatenate([line, line[:40] + [20, 0]])[rng.permutation(940)]
    options = SMALL | {"bandwidth": 0.4}
    with refused("graph.disconnected", DisconnectedGraphError):
        select_coordinates(X, client=client, **options)
    with warned("graph.left_out"):
        one, found = on_both(X, client, disconnected="most", **options)
    assert (found.points == np.flatnonzero(X[:, 0] < 10)).all() and found.subset == one.subset
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5)
    assert found.diagnostics["points_digest"] == one.diagnostics["points_digest"]
    assert found.model(X).names == found.names  # it knows its points
    with refused("X.other_points"):
        found.model(X[::-1])


def test_parts_that_are_joined_by_rounding_only_are_no_graph(client):
    half, eps = random_strip(300, 3.0), SMALL["bandwidth"]
    X = np.concatenate([half, half + [3 + 5.95 * eps, 0]])
    with refused("graph.zero_eigenvalue", DisconnectedGraphError):
        select_coordinates(X, radius=6.2 * eps, client=client, **SMALL)


def test_residuals_above_the_tolerance_are_told(client):
    with warned("eigenvectors.residual") as told:
        select_coordinates(random_strip(300), tol=1e-18, client=client, **SMALL)
    assert "instead of 1e-18" in str(told[0])


def test_vectors_have_nothing_of_the_constant_one_where_parts_hang_by_a_thread(client):
    half, eps = random_strip(2600, 20.0), 0.3
    X = np.concatenate([half, half + [20 + 3.4 * eps, 0]])
    weights = ies_gpu.laplacian_of_points(X, bandwidth=eps, radius=3.5 * eps).weights
    options = SMALL | {"bandwidth": eps, "radius": 3.5 * eps, "intrinsic_dim": 1, "subset_size": 1}
    found = select_coordinates(X, client=client, **options)
    assert found.diagnostics["solver"]["method"] == "multilevel" and found.eigenvalues[0] < 1e-8
    constant = weights @ found.coordinates / np.sqrt(weights.sum() * (weights @ found.coordinates**2))
    assert np.abs(constant).max() < 1e-13


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_part_that_is_left_out_may_fill_whole_blocks():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.random((6000, 2)) * [40, 1], rng.random((2000, 2)) / 2 + [500, 0]])
    with threads(8) as client:
        one, found = on_both(X, client, disconnected="largest", **SMALL)
    assert found.diagnostics["cluster"]["blocks"] < 8 and found.diagnostics["solver"]["method"] == "multilevel"
    assert found.subset == one.subset and (found.points == np.arange(6000)).all()


@pytest.mark.thorough
def test_one_worker_with_many_threads_has_all_of_its_memory_for_a_dense_graph():
    data = datasets.load("D6", n_samples=2000)
    nnz = select_coordinates(data.X, **known(data)).diagnostics["mean_degree"] * 2000
    with threads(8, memory_limit=int(60 * nnz)) as client:  # 40 bytes per entry are asked for, an eighth of 60 is less
        found = select_coordinates(data.X, client=client, **known(data))
    assert found.diagnostics["solver"]["method"] != "multilevel"


@needs_cupy
def test_cuda_as_the_workers_device(client):
    X, options = random_strip(600, 4.0, 3), SMALL | {"bandwidth": 0.4, "n_components": 6, "tol": 1e-10}
    one = select_coordinates(X, **options)
    with device_of_workers("cuda"):
        found = select_coordinates(X, client=client, **options | {"device": "cuda"})
    assert found.diagnostics["device"].startswith("cuda")
    check_same(one, found)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", ["D1", "D6", "D7", "D8"])
def test_worker_processes_choose_what_one_process_chooses(name, workers):
    data = datasets.load(name)
    with processes(workers) as client:
        one, found = on_both(data.X, client, tol=1e-12, **known(data))
    check_same(one, found, scores=1e-8)


def test_command_line_with_a_scheduler(tmp_path, capsys):
    points, run, place = (str(tmp_path / name) for name in ("points.npy", "run.npz", "map.npy"))
    np.save(points, D1)
    fit = ["fit", points, *["-d", "2", "-s", "2", "--bandwidth", "0.4", "--device", "cpu"]]
    with threads(2, protocol="tcp") as client:
        address = client.scheduler.address
        assert main([*fit, "--scheduler", address, "-o", run, "--coordinates", place]) == 0
    assert ies_gpu.load(run).subset == select_coordinates(D1, **STRIP).subset
    np.testing.assert_allclose(np.load(place), ies_gpu.load(run).embedding, rtol=1e-12, atol=1e-12)
    assert main([*fit, "--scheduler", "nowhere"]) == 1
    assert "no Dask scheduler answers at" in capsys.readouterr().err
    assert main([*fit, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"]) == 2


def test_points_in_a_file_or_a_dask_array_give_dask_arrays(client, tmp_path):
    """They are read when both runs have ended: two runs on a cluster do not take each other's results."""
    da = needed("dask.array", "dask")
    np.save(tmp_path / "points.npy", D1)
    options, other = STRIP | {"tol": 1e-10}, 0.9 * D1[::-1]
    given = [(tmp_path / "points.npy", D1), (da.from_array(other, chunks=(470, 3)), other)]
    results = [select_coordinates(points, client=client, **options) for points, _ in given]
    for found, (_, points) in zip(results, given, strict=True):
        assert isinstance(found.coordinates, da.Array)
        check_same(select_coordinates(points, **options), found)


@pytest.mark.parametrize("scale", ["rms", "diffusion"])
def test_scales_are_those_of_one_machine(client, scale):
    one, found = on_both(random_strip(300), client, scale=scale, **SMALL)
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5 * np.abs(one.coordinates).max())


@pytest.mark.parametrize("n", [900, 7000])
def test_the_map_is_turned_and_judged_as_on_one_machine(client, n):
    """Judged up to 5,000 points, and turned up to 1,000, by the same ones; only sampled rows are not computed again."""
    X, options = random_strip(n), SMALL | {"n_components": 10}
    one, found = on_both(X, client, **options)
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
