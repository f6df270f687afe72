"""The same pipeline on the workers of a Dask cluster: the same sets, whoever computes them, and whatever is lost."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import warnings
import weakref
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

import ies_gpu
from ies_gpu import ClusterError, DisconnectedGraphError, datasets, select_coordinates
from ies_gpu.cli import main
from ies_gpu.paper.real_cases import CASES, features

from ..backends import needs_cupy, stand_in
from ..extras import needed
from ..paper.test_real import SHARED

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


def check_same(one, other, scores=1e-6):
    """Sets, path and eigenvalues agree; scores as far as sets that lose rank allow."""
    assert other.subset == one.subset
    assert [segment.subset for segment in other.path] == [segment.subset for segment in one.path]
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=0, atol=1e-9)
    score = {tuple(s): value for s, value in zip(one.ranking.subsets.tolist(), one.ranking.scores, strict=True)}
    found = np.array([score[tuple(s)] for s in other.ranking.subsets.tolist()])
    sound = found > -3
    np.testing.assert_allclose(other.ranking.scores[sound], found[sound], rtol=0, atol=scores)
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
    assert "on 2 workers of the Dask cluster" in found.diagnostics["device_reason"]


def expected_bytes(info, n, width, m, d, workers):
    """The formulas of docs/cluster.md."""
    cluster, solver = info["cluster"], info["solver"]
    H, blocks = cluster["rows_exchanged"], cluster["blocks"]
    segments = len(info["path"])

    def level(went, rows, once):
        exchanged = (4 * went["fine"] + 8 * went["exact"] + once) * rows
        through_cells = 4 * (went["cells"] * went["up"] + went["wanted_cells"] * went["down"])
        small = 8 * (blocks * went["gram"] + went["sums"] + went["coarse_entries"] + 2 * went["cells"])
        return exchanged + through_cells + small

    return {
        "order": 8 * width * n + (1 - 1 / workers) * 8 * (width + 1) * n,  # of so few points all are the sample
        "laplacian": 16 * H,
        "eigenvectors": level(solver["travelled"], H, 16) + 4 * n
        + sum(level(went, went["rows"], 24) for went in solver["travelled_below"]),
        "tangents": 8 * m * H,
        "result": 8 * n * (m + d + segments + 3),
    }  # fmt: skip


def test_counted_bytes_are_those_of_the_formulas(client, strip):
    X, options, _ = strip
    found = select_coordinates(X, client=client, keep_bases=False, **options)
    info = found.diagnostics | {"path": found.path}
    for stage, bytes_ in expected_bytes(info, len(X), X.shape[1], 20, 2, 2).items():
        assert info["cluster"][stage]["bytes"] == pytest.approx(bytes_, rel=0.1), stage


def test_points_in_a_file_or_a_dask_array_give_dask_arrays(client, tmp_path):
    da = needed("dask.array", "dask")
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "tol": 1e-10, "device": "cpu"}
    one = select_coordinates(X, **options)
    np.save(tmp_path / "points.npy", X)
    needed("zarr", "dask").save(tmp_path / "points.zarr", X)
    pq, pa = needed("pyarrow.parquet", "files"), needed("pyarrow", "files")
    table = pa.table({f"x{k}": column for k, column in enumerate(X.T)})
    pq.write_table(table, tmp_path / "points.parquet", row_group_size=400)
    paths = [tmp_path / f"points.{ending}" for ending in ("npy", "zarr", "parquet")]
    for given in (*paths, da.from_array(X, chunks=(470, 3))):
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


@pytest.mark.parametrize("percent", [0, 33.3, 50, 75, 100])
def test_percentile_over_blocks_is_that_of_numpy(client, percent):
    from ies_gpu.cluster import scores
    from ies_gpu.cluster.team import Team, as_it_is

    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(n, 4)) for n in (400, 1, 7500, 2)]
    for table in tables:
        table[::2, 1] = 0.0  # ties
        table[:, 2] = 5.0
        table[:, 3] = len(table)  # blocks that do not overlap
    team = Team(client, "cpu")
    found = scores.percentile_of(team, team.map(as_it_is, tables), percent, 7903)
    np.testing.assert_allclose(found, np.percentile(np.concatenate(tables), percent, axis=0), rtol=1e-12, atol=0)


def test_few_values_are_sent_to_find_a_percentile():
    from ies_gpu.cluster import scores

    tables = [np.sort(np.random.default_rng(k).normal(k / 10, 1, (10_000, 1)), axis=0) for k in range(4)]
    marks = [scores.marks_of(None, table) for table in tables]
    for ranks in ((0, 0), (12_345, 12_346), (39_999, 39_999)):
        ends = scores.enclosing([(at, values[:, 0]) for at, values in marks], ranks)
        found = [scores.inside_of(None, table, np.array([ends]))[0] for table in tables]
        below, inside = sum(first for first, _, _ in found), sum(counts.sum() for _, _, counts in found)
        assert below <= ranks[0] and ranks[1] < below + inside
        assert inside < 5 * np.sqrt(40_000 * 4)


def test_rows_of_a_block_on_the_same_worker_need_no_task_of_their_own(client):
    from ies_gpu.cluster.team import Team, as_it_is, joined

    rows = [np.arange(3.0), np.arange(10.0, 14.0)]
    for places, tasks in ((1, 0), (2, 2)):
        team = Team(client, "cpu")
        team.places = [team.workers[i % places] for i in range(2)]
        pieces, team.near = team.map(as_it_is, rows), [[1], [0]]
        team.outgoing = team.map(as_it_is, [{1: np.array([2])}, {0: np.array([0, 3])}])
        before = team.tasks
        others = team.exchanged(pieces)
        assert team.tasks - before == tasks
        one, other = team.gather(team.map(joined, pieces, others))
        assert one.tolist() == [0, 1, 2, 10, 13] and other.tolist() == [10, 11, 12, 13, 2]


def test_nothing_that_a_task_was_given_waits_for_the_garbage_collector(client):
    from ies_gpu.cluster.team import Call, Given, Team, Work, here, joined

    gc.disable()
    try:
        array = np.ones(3)
        seen = weakref.ref(array)
        assert len(here(Work(Call(joined, (Given(0), Given(0))), "cpu", 1), array)) == 6
        del array
        assert seen() is None
        team = Team(client, "cpu")
        future = team.submit(joined, np.ones(3))
        seen = weakref.ref(future)
        assert len(team.gather([team.submit(joined, future, Call(joined, (future,)))])[0]) == 6
        del future
        assert seen() is None
    finally:
        gc.enable()


def test_a_task_that_all_wait_for_takes_the_threads_of_its_machine_only(client):
    from ies_gpu.cluster.team import Team

    team = Team(client, "cpu")
    threads = {"tcp://10.0.0.1:1": 1, "tcp://10.0.0.1:2": 2, "tcp://10.0.0.2:1": 4}
    team.client, team.places = SimpleNamespace(nthreads=lambda: threads), list(threads)
    assert [team.threads_beside(block) for block in range(3)] == [3, 3, 4]


def test_memory_limits_are_known_while_the_client_renews_what_it_knows_of_the_scheduler(client, monkeypatch):
    from ies_gpu.cluster.team import Team

    monkeypatch.setattr(client, "scheduler_info", lambda **_: {"workers": {}})  # as for a moment every two seconds
    assert set(Team(client, "cpu").memory_limits()) == set(client.nthreads())


def test_workers_of_this_machine_keep_their_tasks_and_their_memory():
    from ies_gpu.cluster.client import connected

    with connected(workers=1) as client:
        (environment,) = client.run(lambda: dict(os.environ)).values()
        assert int(environment["MALLOC_MMAP_THRESHOLD_"]) >= 1 << 22 < int(environment["MALLOC_TRIM_THRESHOLD_"])
        assert environment["OPENBLAS_NUM_THREADS"] == "1"
        assert "stealing" not in client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.extensions))


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
    with pytest.raises(ValueError, match=r"\.npy, \.zarr or \.parquet"):
        select_coordinates("points.csv", client=client, **options)
    with pytest.raises(ValueError, match="row 7 is not"):
        select_coordinates(np.where(np.arange(300)[:, None] == 7, np.nan, X), client=client, **options)


SMALL = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "n_components": 8, "device": "cpu"}


def random_strip(n, length=6.0, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, (n, 2)) * [length, 1]


def test_a_map_that_was_changed_in_memory_only_is_not_read_from_its_file(client, tmp_path):
    np.save(tmp_path / "points.npy", random_strip(600))
    X = np.load(tmp_path / "points.npy", mmap_mode="c")
    X[:, 1] *= 4
    one, found = (select_coordinates(X, **SMALL | {"bandwidth": 0.5}, client=where) for where in (None, client))
    np.testing.assert_allclose(found.eigenvalues, one.eigenvalues, atol=1e-9)


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
            {"components": "largest", "n_components": 20},
            "the largest part holds 12 of 120 points, too few for n_components=20",
        ),
    ],
    ids=["columns", "copies", "tiny", "complete", "isolated", "small part"],
)
def test_what_one_machine_refuses_a_cluster_refuses_in_the_same_words(client, X, changed, words):
    da = needed("dask.array", "dask")
    uneven = da.concatenate([da.from_array(part) for part in np.split(X, [7, 7, 100])])  # one chunk is empty
    assert error_of(uneven, SMALL | changed, words, client) == error_of(X, SMALL | changed, words)


def test_parts_that_are_joined_by_rounding_only_are_no_graph(client):
    half, eps = random_strip(300, 3.0), SMALL["bandwidth"]
    X = np.concatenate([half, half + [3 + 5.95 * eps, 0]])
    for where in (None, client):
        with pytest.raises(DisconnectedGraphError, match="lost to rounding"):
            select_coordinates(X, radius=6.2 * eps, client=where, **SMALL)


def test_residuals_above_the_tolerance_are_told(client):
    with pytest.warns(ies_gpu.IESWarning, match=r"reached a residual of .* instead of 1e-18"):
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


def test_a_result_knows_its_points(client, tmp_path):
    X = np.concatenate([random_strip(500), [[30.0, 0.0]]])[np.random.default_rng(1).permutation(501)]
    options = SMALL | {"components": "most"}
    with pytest.warns(ies_gpu.IESWarning, match="2 parts"):
        one = select_coordinates(X, **options)
    for more in ({}, {"checkpoint": tmp_path}, {"checkpoint": tmp_path, "resume": True}):
        with pytest.warns(ies_gpu.IESWarning, match="2 parts"):
            found = select_coordinates(X, client=client, **options, **more)
        assert found.diagnostics["points_digest"] == one.diagnostics["points_digest"]
        assert found.diagnostics["seen_dimension"] == pytest.approx(one.diagnostics["seen_dimension"])
    assert ies_gpu.model_of(found, X).names == found.names
    with pytest.raises(ValueError, match="in the same order; these are different points"):
        ies_gpu.model_of(found, X[::-1])


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_curve_is_seen_to_have_fewer_dimensions_than_asked(client):
    t = np.linspace(0, 12, 600)
    X = np.column_stack([np.cos(t), np.sin(t), 0.3 * t])
    with pytest.warns(ies_gpu.IESWarning, match=r"look like a shape of dimension 1\.\d"):
        select_coordinates(X, client=client, **SMALL)


def test_refusals_name_what_was_given_and_a_way_out(client, tmp_path, capsys):
    X = np.concatenate([random_strip(300), random_strip(200, seed=1) + [0, 20]])
    np.save(tmp_path / "points.npy", X)
    for given in (X, tmp_path / "points.npy"):
        with pytest.raises(ValueError, match="components='each' does not work with client; pass components='largest'"):
            select_coordinates(given, client=client, components="each", **SMALL)
    with pytest.raises(DisconnectedGraphError, match=r"pass components='largest' to continue with the largest part$"):
        select_coordinates(X, client=client, **SMALL)
    for wrong, words in (
        ({"n_threads": 2}, "^n_threads=2 does not work with client; set it when"),
        ({"n_threads": 2, "memory_limit": 1 << 30}, "^memory_limit=1073741824 and n_threads=2 do not work.*; set them"),
        ({"n_neighbors": 10}, "^n_neighbors=10 does not work with client; pass a number for bandwidth instead"),
        ({"bandwidth": "local"}, "^bandwidth='local' does not work with client; pass a number for bandwidth instead"),
    ):
        with pytest.raises(ValueError, match=words):
            select_coordinates(X, client=client, **SMALL | wrong)
    fit = ["fit", str(tmp_path / "points.npy"), "-d", "2", "-s", "2", "--bandwidth", "0.4"]
    for wrong, words in (
        (["--workers", "1", "--threads", "1"], "--workers start with one thread each; leave out --threads"),
        (
            ["--workers", "1", "--neighbors", "10"],
            "--neighbors 10 does not work on a cluster; pass a number for --band",
        ),
        (["--workers", "1", "--components", "each"], "--components each does not work on a cluster"),
        (["--scheduler", "x", "--memory-limit", "1G"], "--memory-limit does not work with --scheduler; set it when"),
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


def test_a_coarse_level_stays_in_blocks_where_half_of_a_worker_is_too_small_for_it():
    from ies_gpu.cluster.levels import first_share, stays_in_blocks

    def of(gigabytes, cells=6_000_000, held=0):
        team = SimpleNamespace(memory_of=lambda block: gigabytes * 1e9)
        level = SimpleNamespace(team=team, points=np.full(8, 6 * cells // 8))
        return stays_in_blocks(level, cells, held, 25 * cells, 20 + 1 + 11, 3)

    need = 6e6 * (28 * 26 + 450 + 8 * 25) / 1e9
    assert of(1.99 * need) and not of(2.01 * need)
    assert not of(4e-3, cells=2000)  # the next level would have too few cells for the eigenvectors
    assert not of(1.5 * need, held=5_000_000)  # or not smaller, but this one fits
    with pytest.raises(ClusterError, match=r"8\.3 GB on one worker, which has 4\.0 GB.*5,000,000 points are almost"):
        of(4.0, held=5_000_000)
    team = SimpleNamespace(memory_limits=lambda: {"a": 2 * 10**9, "b": 4 * 10**9})
    shares = [first_share(team, n, 20) for n in (4_000_000, 40_000_000, 400_000_000)]
    assert shares == pytest.approx([1 / 6, 1 / 48, 1 / 384])  # the first worker gets blocks instead


def too_large(monkeypatch, client, cells, ratio=1):
    """Let coarse levels of more than so many cells be too large for a worker, and levels halve from one to the next."""
    from ies_gpu.cluster import levels
    from ies_gpu.cluster.team import Team
    from ies_gpu.embedding.eigensolvers import multilevel

    monkeypatch.setattr(levels, "ROOM", levels.coarse_bytes(cells, 25 * cells, 20) / Team(client, "cpu").least_memory())
    monkeypatch.setattr(multilevel, "RATIO", ratio)
    monkeypatch.setattr(multilevel, "SMALLEST", 200)


def test_coarse_levels_that_are_too_large_for_a_worker_stay_in_blocks(client, strip, monkeypatch):
    from ies_gpu.cluster import levels

    lone, begin = [], levels.LoneLevel.__init__

    def noted(self, *given):
        begin(self, *given)
        lone.append(self)

    monkeypatch.setattr(levels.LoneLevel, "__init__", noted)
    X, options = strip[0], strip[1] | {"tol": 1e-12}
    one = select_coordinates(X, **options)
    too_large(monkeypatch, client, 400)
    found = select_coordinates(X, client=client, keep_bases=False, **options)
    check_same(one, found, scores=1e-8)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "multilevel"
    assert solver["coarse_sizes"] == pytest.approx([1024, 512, 256], rel=0.1)  # cells of 6, 12 and 24 points
    assert len(solver["travelled_below"]) == 2
    (last,) = lone
    assert last.whole.result().n == last.n == solver["coarse_sizes"][-1]
    assert len(client.who_has([last.whole])[last.whole.key]) == 1
    info = found.diagnostics | {"path": found.path}
    counted = info["cluster"]["eigenvectors"]["bytes"]
    assert counted == pytest.approx(expected_bytes(info, len(X), 3, 20, 2, 2)["eigenvectors"], rel=0.1)


@pytest.mark.slow
def test_a_coarse_level_in_blocks_with_cells_of_the_usual_sizes(client, monkeypatch):
    X = datasets.load("D1", n_samples=16_500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.15, "tol": 4e-12, "device": "cpu"}
    one = select_coordinates(X, **options)
    too_large(monkeypatch, client, 2000, ratio=3)
    found = select_coordinates(X, client=client, keep_bases=False, **options)
    check_same(one, found, scores=1e-7)  # phi1 with phi6 nearly loses rank: 1.7e-8 with the level on one worker, too
    sizes = [selection.diagnostics["solver"]["coarse_sizes"] for selection in (one, found)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1) and len(sizes[1]) == 2


@contextmanager
def device_of_workers(name):
    """The CPU, or the stand-in for CuPy."""
    from ies_gpu.cluster import team

    with stand_in() if name == "cuda" else nullcontext():
        team._backend.cache_clear()
        try:
            yield
        finally:
            team._backend.cache_clear()


def there(backend, *arrays):
    """Arrays in the memory of a worker's device."""
    found = tuple(backend.asarray(array) for array in arrays)
    return found if len(found) > 1 else found[0]


def here(backend, array):
    return backend.to_host(array)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cupy)])
def test_rows_of_a_block_merged_by_cells_are_products_with_the_weights(device):
    from ies_gpu.backend import get_backend
    from ies_gpu.cluster.cells import Cells, cells_wanted, extents_of, merged_rows

    rng = np.random.default_rng(2)
    S = np.where(rng.random((40, 70)) < 0.3, rng.random((40, 70)), 0).astype(np.float32)
    starts = np.array([0, 8, 15, 16, 30, 40])
    own = np.stack([np.repeat(7 + np.arange(5), np.diff(starts)), rng.random(40)], axis=1)
    others = [np.stack([np.repeat(cells, 5), rng.random(15)], axis=1) for cells in ([0, 1, 4], [12, 13, 20])]
    labels, weights = np.concatenate([own, *others]).T
    wanted = [7, 8, 9, 10, 11, 0, 1, 4, 12, 13, 20]
    P0 = weights[:, None] * (labels[:, None] == wanted)
    A = csr_array(S)
    with device_of_workers(device):
        backend = get_backend(device)
        entries = there(backend, A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)
        cells = Cells(starts, starts, np.arange(0), np.ones(5), backend.asarray(own[:, 1].astype(np.float32)))
        found = merged_rows(backend, entries, cells, own, *others)
        product = csr_array(tuple(backend.to_host(part) for part in found.product[::-1]), shape=(40, 11))
        first = np.array([0, 7, 12, 21])  # cells of three blocks, of which this is the second
        away = {j: here(backend, want).tolist() for j, want in cells_wanted(backend, found, [0, 2], first).items()}
    assert found.wanted.tolist() == wanted and away == {0: [0, 1, 4], 2: [0, 1, 8]}
    assert extents_of(backend, found, first) == ({0: 3, 1: 5, 2: 3}, len(found.rows[2]))
    np.testing.assert_allclose(product.toarray(), S @ P0, rtol=1e-5)
    np.testing.assert_allclose(csr_array(found.rows[::-1], shape=(5, 11)).toarray(), P0[:40, :5].T @ S @ P0, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cupy)])
def test_conjugate_gradients_in_pieces_solve_the_shifted_equations_beside_some_vectors(client, device):
    from ies_gpu.cluster.levels import TallLevel
    from ies_gpu.cluster.team import Pieces, Several, Team

    rng = np.random.default_rng(5)
    sizes = np.array([70, 50])
    n, rows = sizes.sum(), [np.arange(70), np.arange(70, 120)]
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.sort(rng.uniform(0, 0.9, n))[::-1]
    values[:3] = 1, 0.99, 0.98
    S, Q, F = (vectors * values) @ vectors.T, vectors[:, :3], rng.normal(size=(n, 8))
    F[:, 5] = 0
    shift = np.linspace(0.97, 1.1, 8)
    beside = F - Q @ (Q.T @ F)
    expected = np.stack([np.linalg.solve(s * np.eye(n) - S, f) for s, f in zip(shift, beside.T, strict=True)], axis=1)

    def solved(steps):
        level.steps = steps
        Z = np.concatenate(team.gather(team.map(here, level.inverse(F_there, shift, Q_there).parts)))
        return Z, np.linalg.norm(beside - (Z * shift - S @ Z), axis=0)

    with device_of_workers(device):
        team = Team(client, device)
        team.places, team.near = team.workers, [[1], [0]]
        outgoing = [{1: np.arange(70)}, {0: np.arange(50)}]
        columns = [np.arange(n), np.concatenate([rows[1], rows[0]])]
        parts = [csr_array(S[own][:, others].astype(np.float32)) for own, others in zip(rows, columns, strict=True)]
        entries = team.map(there, [Several((A.indptr.astype(np.int64), A.indices, A.data)) for A in parts])
        level = TallLevel(team, sizes, sizes, entries, outgoing)
        F_there, Q_there = (
            Pieces(team, team.map(there, [A[own].astype(np.float32) for own in rows]), A.shape) for A in (F, Q)
        )
        found, _ = solved(25)
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
        assert (found[:, 5] == 0).all()
        (late,) = team.gather([level.late])
        # so many steps leave more than a tenth of some column, and one more leaves less
        goal = 0.1 * np.linalg.norm(beside, axis=0) + 1e-6
        assert (solved(late)[1] > 0.999 * goal).any() and (solved(late + 1)[1] <= 1.001 * goal).all()


@pytest.mark.parametrize("scale", ["rms", "diffusion"])
def test_scales_are_those_of_one_machine(client, scale):
    X = np.random.default_rng(3).uniform(0, 1, (600, 2)) * [4, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "n_components": 6, "device": "cpu"}
    one, found = (select_coordinates(X, scale=scale, client=where, **options) for where in (None, client))
    check_same_but_signs(found.coordinates, one.coordinates, 1e-5 * np.abs(one.coordinates).max())


@pytest.mark.parametrize("name", ["map.npy", "map.zarr"])
def test_rows_are_written_by_block_completely_or_not_at_all(client, tmp_path, name):
    from ies_gpu.cluster.returned import write_rows

    da = needed("dask.array", "dask")
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    array = da.from_array(rows, chunks=(300, 2))
    write_rows(array, tmp_path / name)
    written = np.load(tmp_path / name) if name.endswith("npy") else needed("zarr", "dask").open(str(tmp_path / name))[:]
    assert (written == rows).all()

    def broken(block):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_rows(array.map_blocks(broken, dtype=float), tmp_path / f"other-{name}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@contextmanager
def threads(count, **limits):
    """One worker of this process with so many threads; the limits are told, but Dask does not hold to them."""
    import dask

    free = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause", "terminate")}
    with (
        dask.config.set(free),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=count, processes=False, dashboard_address=":0", scheduler_port=0, **limits
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_rows_that_were_left_out_are_nan_in_what_is_written(client, tmp_path):
    """Also where a whole chunk is left out."""
    from ies_gpu.cluster.returned import padded, write_rows

    da = needed("dask.array", "dask")
    rows, points = np.random.default_rng(0).normal(size=(7, 2)), np.array([0, 1, 4, 11, 12, 13, 18])
    whole = padded(da.from_array(rows, chunks=(3, 2)), points, 20).compute()
    np.testing.assert_array_equal(whole[points], rows)
    assert np.isnan(np.delete(whole, points, axis=0)).all() and len(whole) == 20
    X = np.vstack([[[99, 0, 0], [0, 99, 0]], datasets.load("D1", n_samples=900).X, [[0, 0, 99]]])
    np.save(tmp_path / "points.npy", X)
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.6, "components": "largest", "device": "cpu"}
    with pytest.warns(ies_gpu.IESWarning, match="the graph has 4 parts"):
        found = select_coordinates(tmp_path / "points.npy", client=client, **options)
    write_rows(padded(found.embedding, found.points, len(X)), tmp_path / "map.npy")
    written = np.load(tmp_path / "map.npy")
    assert np.isnan(written[[0, 1, -1]]).all() and np.isfinite(written[2:-1]).all()


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_a_part_that_is_left_out_may_fill_whole_blocks():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.random((6000, 2)) * [40, 1], rng.random((2000, 2)) / 2 + [500, 0]])
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.25, "n_components": 8, "components": "largest"}
    one = select_coordinates(X, device="cpu", **options)
    with threads(8) as client:
        found = select_coordinates(X, device="cpu", client=client, **options)
    assert found.diagnostics["cluster"]["blocks"] < 8 and found.diagnostics["solver"]["method"] == "multilevel"
    assert found.subset == one.subset and (found.points == np.arange(6000)).all()


def test_the_index_of_a_frame_is_no_column_of_points(tmp_path):
    pandas = needed("pandas", "test")
    needed("pyarrow", "files")
    from ies_gpu.cluster.source import open_rows
    from ies_gpu.files.points import read_points

    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "y": [4, 5, 6]}, index=[10, 30, 20])
    frame.to_parquet(tmp_path / "points.parquet")
    opened = open_rows(str(tmp_path / "points.parquet"))
    assert opened.shape == (3, 2)
    np.testing.assert_array_equal(opened[0:3], read_points(tmp_path / "points.parquet"))


def test_one_worker_with_many_threads_has_all_of_its_memory_for_a_dense_graph():
    X = datasets.load("D6", n_samples=2000).X
    options = {"intrinsic_dim": 3, "subset_size": 3, "bandwidth": 0.5, "device": "cpu"}
    nnz = select_coordinates(X, **options).diagnostics["mean_degree"] * len(X)
    with threads(8, memory_limit=int(60 * nnz)) as client:  # 40 bytes per entry are asked for, an eighth of 60 is less
        assert select_coordinates(X, client=client, **options).diagnostics["solver"]["method"] != "multilevel"


def test_what_follows_a_stage_that_could_not_be_saved_belongs_to_no_other_run(tmp_path, monkeypatch):
    from ies_gpu.cluster import saved

    real = saved.write_block

    def full(backend, content, path):
        if "laplacian" in path:
            raise OSError(28, "No space left on device")
        return real(backend, content, path)

    monkeypatch.setattr(saved, "write_block", full)
    X = np.random.default_rng(0).random((1500, 2)) * [6, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.3, "n_components": 8, "device": "cpu"}
    for count in (2, 4):  # the second with other blocks
        with threads(count) as client, pytest.warns(ies_gpu.CheckpointWarning, match="was not saved"):
            found = select_coordinates(X, client=client, checkpoint=tmp_path, resume=count == 4, **options)
        assert found.diagnostics["checkpoint"]["resumed"] == []
    assert found.subset == select_coordinates(X, **options).subset
    assert "on 1 worker of the Dask cluster" in found.diagnostics["device_reason"]


class StruckError(Exception):
    pass


def test_a_run_goes_on_after_its_last_stage_on_other_workers(client, tmp_path):
    X = datasets.load("D1", n_samples=1500).X
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "device": "cpu"}
    whole = select_coordinates(X, client=client, **options)

    def strike(stage, done, total):
        if stage == "tangents":
            raise StruckError

    with pytest.raises(StruckError):
        select_coordinates(X, client=client, checkpoint=tmp_path, progress=strike, **options)
    with pytest.raises(ValueError, match="holds a checkpoint of this job"):
        select_coordinates(X, client=client, checkpoint=tmp_path, **options)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", scheduler_port=0) as cluster,
        distributed.Client(cluster) as other,
    ):
        again = select_coordinates(X, client=other, checkpoint=tmp_path, resume=True, **options)
    assert again.diagnostics["checkpoint"]["resumed"] == ["laplacian", "eigenvectors"]
    assert again.subset == whole.subset and (again.coordinates == whole.coordinates).all()
    damaged = tmp_path / "eigenvectors.block00001.npz"
    damaged.write_bytes(damaged.read_bytes()[:-2000])
    with pytest.warns(ies_gpu.CheckpointWarning, match=r"block00001\.npz is missing or damaged"):
        third = select_coordinates(X, client=client, checkpoint=tmp_path, resume=True, **options)
    assert third.diagnostics["checkpoint"]["resumed"] == ["laplacian", "tangents"]
    np.testing.assert_allclose(third.coordinates, whole.coordinates, atol=1e-10)
    with pytest.warns(ies_gpu.CheckpointWarning, match="another job"):
        select_coordinates(X, client=client, checkpoint=tmp_path, resume=True, **options | {"bandwidth": 0.45})


@needs_cupy
def test_the_stand_in_for_cuda_as_the_workers_device(client):
    X = np.random.default_rng(3).uniform(0, 1, (600, 2)) * [4, 1]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.4, "n_components": 6, "tol": 1e-10}
    one = select_coordinates(X, device="cpu", **options)
    with device_of_workers("cuda"):
        found = select_coordinates(X, device="cuda", client=client, **options)
    assert found.diagnostics["device"].startswith("cuda")
    check_same(one, found)


def test_other_versions_on_a_worker_and_no_workers_are_refused():
    from ies_gpu.cluster import team

    older = {"tcp://node:1": team.versions(), "tcp://node:2": team.versions() | {"numpy": "1.0"}}
    for answer, words in ((older, r"tcp://node:2 has numpy 1\.0 instead of 2"), ({}, "no workers")):
        client = SimpleNamespace(
            submit=print, nthreads=lambda: {"tcp://node:1": 1}, run=lambda function, answer=answer: answer
        )
        with pytest.raises(ClusterError, match=words):
            team.Team(client, "cpu").check_versions()


def problem(name):
    """Points and options of a data set in its full size, or of 2,000 frames of a molecule."""
    if name != "ethanol":
        data = datasets.load(name)
        known = {name: getattr(data, name) for name in ("intrinsic_dim", "subset_size", "bandwidth")}
        return data.X, known | {"tol": 1e-12}
    (case,) = (case for case in CASES if case.name == name)
    if not (SHARED / case.file).exists():
        pytest.skip(f"{SHARED / case.file} is not there")
    X = features(case, SHARED / case.file, 2000).X
    options = {"intrinsic_dim": case.d, "subset_size": case.s, "self_loops": case.self_loops, "components": "largest"}
    found = select_coordinates(X, device="cpu", **options)
    return X[found.points], options | {"bandwidth": found.diagnostics["parameters"]["bandwidth"], "tol": 1e-12}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", ["D1", "D6", "D7", "D8", "ethanol"])
def test_worker_processes_choose_what_one_process_chooses(name, workers):
    from ies_gpu.cluster.client import connected

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the molecule, that frames are left out
        X, options = problem(name)
        one = select_coordinates(X, device="cpu", **options)
        with connected(workers=workers) as client:
            found = select_coordinates(X, device="cpu", client=client, **options)
    check_same(one, found, scores=1e-8)


def await_file(path):
    while not path.exists():
        time.sleep(0.1)


@contextmanager
def scheduler_and_workers(folder, count):
    """A scheduler and workers as processes of their own: a client, and the scheduler's process."""
    address = folder / f"scheduler-{count}.json"
    command = [sys.executable, "-m", "dask"]
    to_file = ["--scheduler-file", str(address)]
    worker = [*command, "worker", *to_file, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    started = [subprocess.Popen([*command, "scheduler", *to_file, "--port", "0", "--dashboard-address", ":0"])]
    started += [subprocess.Popen(worker) for _ in range(count)]
    try:
        await_file(address)
        with distributed.Client(scheduler_file=str(address)) as client:
            client.wait_for_workers(count)
            yield client, started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_lost_scheduler_leaves_stages_from_which_a_new_cluster_goes_on(strip, tmp_path):
    X, options, one = strip
    with scheduler_and_workers(tmp_path, 2) as (client, scheduler):
        whole = select_coordinates(X, client=client, **options)

        def strike(stage, done, total):
            if stage == "tangents":
                scheduler.kill()

        with pytest.raises(ClusterError, match="scheduler was lost"):
            select_coordinates(X, client=client, checkpoint=tmp_path / "stages", progress=strike, **options)
    with scheduler_and_workers(tmp_path, 3) as (client, _):
        again = select_coordinates(X, client=client, checkpoint=tmp_path / "stages", resume=True, **options)
    assert again.diagnostics["checkpoint"]["resumed"] == ["laplacian", "eigenvectors"]
    assert (again.coordinates == whole.coordinates).all() and (again.regrets == whole.regrets).all()
    check_same(one, again)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "in_blocks"), [("graph", False), ("eigenvectors", False), ("eigenvectors", True), ("search", False)]
)
def test_a_killed_worker_costs_time_and_not_the_result(strip, stage, in_blocks, monkeypatch):
    X, options, one = strip
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", scheduler_port=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        if in_blocks:
            too_large(monkeypatch, client, 600)
        whole = select_coordinates(X, client=client, **options)
        assert len(whole.diagnostics["solver"]["coarse_sizes"]) == 1 + in_blocks
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

    X = datasets.load("D1", n_samples=1500).X
    np.save(tmp_path / "points.npy", X)
    fit = ["fit", str(tmp_path / "points.npy"), *["-d", "2", "-s", "2", "--bandwidth", "0.4", "--device", "cpu"]]
    one = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.4, device="cpu")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", scheduler_port=0, protocol="tcp"
    ) as cluster:
        found = tmp_path / "run.npz"
        place = str(tmp_path / "map.zarr")  # written by the workers
        assert main([*fit, "--scheduler", cluster.scheduler_address, "-o", str(found), "--coordinates", place]) == 0
        assert ies_gpu.load(found).subset == one.subset
    assert (needed("zarr", "dask").open(place)[:] == ies_gpu.load(found).embedding).all()
    assert main([*fit, "--scheduler", "nowhere"]) == 1
    assert "no Dask scheduler answers at" in capsys.readouterr().err
    assert main([*fit, "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"]) == 2
