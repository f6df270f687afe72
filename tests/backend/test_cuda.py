"""The CUDA path without a GPU: all of it runs through the installed CuPy on the CPU, by the public entry points.

What is shown: CuPy takes what the array code asks of it, arrays stay on the device, the code waits for it no more often
than it must, computes what the CPU computes, and survives the faults that a GPU can have. What is not shown: that a GPU
computes what CuPy promises. That is for ``tests/gpu``.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import ies_gpu
import ies_gpu.embedding.diffusion
import ies_gpu.embedding.eigensolvers.eigenpairs
import ies_gpu.embedding.tiles
from benchmarks import gpu
from ies_gpu import select_coordinates
from ies_gpu.backend import backend_of, get_backend
from ies_gpu.backend.compare import ROWS
from ies_gpu.backend.kernels import plain
from ies_gpu.choice.criterion import candidate_subsets
from ies_gpu.choice.untangle import TURNED_BY
from ies_gpu.embedding.cost import WORDS
from ies_gpu.embedding.nystrom import nystrom_extension
from ies_gpu.errors import DeviceError, IESWarning
from ies_gpu.parameters.judgement import LOOKED
from tests.backends import ask_for, needs_cupy, on_cpu, on_cuda, problem
from tests.comparison import assert_agreement, stored_as
from tests.real_cupy import plugged_in
from tests.said import warned
from tests.thorough import first_of

pytestmark = needs_cupy
SEARCHES = ("greedy", "submodular", "branch_and_bound")


def close(found, expected, tolerance: float = 1e-10) -> None:
    """Equal relative to the largest entry, of a device array and a NumPy array."""
    found = found.get()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) <= tolerance * np.abs(expected).max(initial=0)


# --- each stage, fed the same input ---


def test_steps_take_and_return_device_arrays_and_agree_with_the_cpu(cupy):
    X, arguments = problem("D1", 700)
    bandwidth, d = arguments["bandwidth"], arguments["intrinsic_dim"]
    upload = cupy.asarray

    def sent(matrix):
        parts = (upload(a) for a in (matrix.data, matrix.indices, matrix.indptr))
        return sys.modules["cupyx.scipy.sparse"].csr_matrix(tuple(parts), shape=matrix.shape)

    graph = ies_gpu.radius_graph(X, radius=3 * bandwidth)
    found = ies_gpu.radius_graph(upload(X), radius=3 * bandwidth)
    np.testing.assert_array_equal(found.indices.get(), graph.indices)
    np.testing.assert_array_equal(found.indptr.get(), graph.indptr)
    close(found.data, graph.data)

    kernel = ies_gpu.gaussian_kernel(graph, bandwidth=bandwidth)
    found = ies_gpu.gaussian_kernel(sent(graph), bandwidth=bandwidth)
    np.testing.assert_array_equal(found.indices.get(), kernel.indices)
    close(found.data, kernel.data)

    laplacian = ies_gpu.graph_laplacian(kernel, bandwidth=bandwidth)
    there = ies_gpu.graph_laplacian(sent(kernel), bandwidth=bandwidth)
    close(there.transition.data, laplacian.transition.data)
    close(there.weights, laplacian.weights)
    close(there.matrix.toarray(), laplacian.matrix.toarray())

    embedding = ies_gpu.diffusion_map(laplacian, n_components=8, tol=1e-13)
    found = ies_gpu.diffusion_map(there, n_components=8, tol=1e-13)
    close(found.eigenvalues, embedding.eigenvalues)
    close(found.coordinates, embedding.coordinates, 1e-9)  # 1e-13 over the gaps between eigenvalues

    Y = embedding.coordinates
    H, metric = ies_gpu.cometric(Y, laplacian), ies_gpu.riemannian_metric(Y, laplacian, intrinsic_dim=d)
    close(ies_gpu.cometric(upload(Y), there), H)
    found = ies_gpu.riemannian_metric(upload(Y), there, intrinsic_dim=d)
    for ours, theirs in zip(found, metric, strict=True):
        assert isinstance(ours, cupy.ndarray)
        assert ours.shape == theirs.shape
    close(found.H, metric.H)
    close(found.sigma, metric.sigma)
    aligned = np.abs((found.U.get() * metric.U).sum(axis=1))  # up to sign
    apart = np.min(-np.diff(np.linalg.eigvalsh(H)[:, ::-1][:, : d + 1], axis=1), axis=1) > 1e-3 * metric.sigma[:, 0]
    assert apart.mean() > 0.8
    assert np.abs(aligned - 1)[apart].max() <= 1e-10

    U, sets = metric.U, candidate_subsets(8, arguments["subset_size"])
    scores = ies_gpu.score_subsets(U, sets)
    close(ies_gpu.score_subsets(upload(U), sets), scores)
    table = ies_gpu.score_subsets(U, sets[:5], per_point=True)
    close(ies_gpu.score_subsets(upload(U), sets[:5], per_point=True), table)
    regret = ies_gpu.leave_one_out_regret(U, sets[:3], candidates=sets)
    close(ies_gpu.leave_one_out_regret(upload(U), sets[:3], candidates=sets), regret)
    path = ies_gpu.regularization_path(scores, sets, embedding.eigenvalues)
    assert ies_gpu.regularization_path(upload(scores), sets, upload(embedding.eigenvalues)) == path
    s = arguments["subset_size"]
    expected = ies_gpu.search_exhaustive(U, embedding.eigenvalues, subset_size=s)
    found = ies_gpu.search_exhaustive(upload(U), upload(embedding.eigenvalues), subset_size=s)
    assert (found.subset, found.chosen, found.passed) == (expected.subset, expected.chosen, expected.passed)
    np.testing.assert_allclose(found.percentiles, expected.percentiles, atol=1e-10)
    new, values = X[:50] + 0.2, embedding.eigenvalues
    found = nystrom_extension(upload(new), upload(X), upload(Y), values, bandwidth=bandwidth)
    close(found, nystrom_extension(new, X, Y, values, bandwidth=bandwidth), 1e-12)


# --- the whole ---


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_takes_device_arrays_and_answers_as_on_the_cpu(machine, cupy, name, rng):
    U, values = np.linalg.qr(rng.normal(size=(300, 10, 2)))[0], np.sort(rng.uniform(0.01, 0.3, 10))
    search = getattr(ies_gpu, f"search_{name}")
    for zeta in ("auto", 0.05):
        expected = search(U, values, subset_size=4, zeta=zeta)
        found = search(cupy.asarray(U), cupy.asarray(values), subset_size=4, zeta=zeta)
        assert found.subset == expected.subset and found.details == expected.details
        np.testing.assert_array_equal(found.subsets, expected.subsets)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
        assert isinstance(found.regrets, cupy.ndarray)
    guards = 40 * 20 * 20 * 8  # bytes; but for those, what there is of each point stays on the device
    downloads = [size for way, size in machine.transfers if way == "down" and size != guards]
    assert downloads and max(downloads) < 8 * len(U)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_whole_run_with_each_search_in_float32(machine, name):
    arguments = {"search": name, "n_components": 8, "dtype": "float32"}
    found, expected = on_cuda("D7", 500, **arguments), on_cpu("D7", 500, **arguments)
    assert found.diagnostics["device"] == "cuda:0" and found.diagnostics["search"]["method"] == name
    assert found.subset == expected.subset and sorted(found.search_order) == list(found.subset)


def test_points_go_up_once_and_results_come_down_once(machine):
    n, m, d, double = 2503, 20, 2, 8  # a prime: multiples of it are what there is of each point
    X, _ = problem("D1", n)
    found = on_cuda("D1", n)
    large = {way: sorted(size for w, size in machine.transfers if w == way and size % n == 0) for way in ("up", "down")}
    # up: points, once; beside them vectors that are drawn on the host, and ways back to the order of the input
    assert large["up"].count(X.nbytes) == 1
    assert sum(large["up"]) - X.nbytes <= 9 * n * double
    # down: the order of the points, and what is in the result; of so few points the verdict looks at all, once more
    once = sorted(n * double * count for count in (1, m, m * d, d, 1, len(found.path)))
    assert set(large["down"]) == set(once) and sum(large["down"]) <= 2 * sum(once)
    # and co-metrics for LAPACK, and of sampled points coordinates, bases and sigma for a turn and the verdict
    others = {size for way, size in machine.transfers if way == "down" and size % n and size > n * double}
    others -= {size for size in others if size % (53 * 8) == 0}  # coefficients of Lanczos
    looked = {rows * double * count for rows in (LOOKED, TURNED_BY) for count in (m, m * d, d)}
    assert others == {40 * m * m * double, ROWS * m * m * double} | looked


@pytest.mark.parametrize("name", first_of("D1", "D7"))
def test_a_run_waits_a_hundred_times_whatever_its_size(name):
    """A wait costs as much as several launches: one for each product of Lanczos would be more than the rest."""
    for n in (800, 1600):
        with plugged_in() as machine:
            products = on_cuda(name, n).diagnostics["solver"]["products"]
        assert machine.counts["syncs"] <= 130 + products / 10
        # three and a half copies for each product would be a fifth of all launches
        assert machine.counts["kernel cupy_copy__float64_float64"] <= 200 + products


def test_no_search_tree_is_compiled_for_a_few_sampled_points(cupy, monkeypatch):
    """CuPy's takes NVRTC 10 s, in every first run with points on the device."""
    monkeypatch.setattr(importlib.import_module("cupyx.scipy.spatial"), "KDTree", None)
    X, arguments = problem("D1", 700)
    assert_agreement(select_coordinates(cupy.asarray(X), **arguments), on_cpu("D1", 700))


def test_a_first_run_says_that_cupy_compiles(machine, monkeypatch, tmp_path, caplog):
    """Where the look for a device made CuPy compile, a run will make it compile for longer, in silence."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    stack = sys.modules["cupy"].stack

    def compiles(*args):
        (tmp_path / "kernel.cubin").touch()
        return stack(*args)

    monkeypatch.setattr(sys.modules["cupy"], "stack", compiles)
    caplog.set_level("INFO", logger="ies_gpu")
    for expected in (1, 1):  # once, not in the second run
        on_cuda("D1", 300, n_components=6)
        assert len([text for text in caplog.messages if str(tmp_path) in text and "CUPY_CACHE_DIR" in text]) == expected


def test_device_arrays_stay_on_the_device(cupy, machine):
    X, arguments = problem("D1", 1500)
    given = cupy.asarray(X)
    machine.transfers.clear()
    for device in ("cuda", "auto"):
        found = select_coordinates(given, device=device, **arguments)
        assert isinstance(found.coordinates, cupy.ndarray)
        assert isinstance(found.score(found.subset), cupy.ndarray)
        close(found.score(found.subset), found.log_volumes.get())
        assert_agreement(found, on_cpu("D1", 1500))
    large = {size for way, size in machine.transfers if way == "down" and size > 8 * len(X) and size % (53 * 8)}
    # for LAPACK, by guard and audit, and for the verdict, on up to 5,000 of the points
    sampled = {part.nbytes for part in (X, found.embedding, found.coordinates, found.bases)}
    assert large == {8 * 40 * 20 * 20, 8 * ROWS * 20 * 20} | sampled
    np.testing.assert_array_equal(given.get(), X)


def test_device_arrays_may_be_worked_on_by_the_cpu(cupy):
    X, arguments = problem("D1", 700)
    found = select_coordinates(cupy.asarray(X), device="cpu", **arguments)
    assert found.diagnostics["device"] == "cpu"
    assert isinstance(found.coordinates, cupy.ndarray)
    assert_agreement(found, on_cpu("D1", 700), 1e-12)


class Tensor:
    """What Numba and others offer of an array on a GPU."""

    def __init__(self, data):
        self.kept = data
        self.__cuda_array_interface__ = {"data": (data.data.ptr, False), "shape": data.shape, "typestr": "<f8"}

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def test_tensors_of_other_libraries_live_where_they_are():
    """CuPy's ``asarray`` copies what is not on the current device to it, and so says the wrong home."""
    with plugged_in(n_devices=2) as machine:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            given = Tensor(cupy.asarray(problem("D1", 400)[0]))
        assert cupy.asarray(given).device.id == 0
        assert backend_of(given).device == "cuda:1"
        assert ies_gpu.radius_graph(given, radius=2.0).data.device.id == 1
        assert machine.current == 0


def test_tensors_of_other_libraries_are_seen_without_a_copy(cupy, machine):
    X, arguments = problem("D1", 1500)
    given = Tensor(cupy.asarray(X))
    assert backend_of(given).device == "cuda:0"
    uploads = machine.transfers.count(("up", X.nbytes))
    for device in ("auto", "cuda", "cpu"):
        found = select_coordinates(given, device=device, **arguments)
        assert isinstance(found.coordinates, cupy.ndarray)
        assert_agreement(found, on_cpu("D1", 1500))
    assert machine.transfers.count(("up", X.nbytes)) == uploads


def test_other_entries_run_on_the_device(machine):
    X, arguments = problem("D1", 700)
    bandwidth, expected = arguments["bandwidth"], on_cpu("D1", 700)
    graph = ies_gpu.radius_graph(X, radius=3 * bandwidth)
    kernel = ies_gpu.gaussian_kernel(graph, bandwidth=bandwidth)
    laplacian = ies_gpu.graph_laplacian(kernel, bandwidth=bandwidth)
    entries = (
        {"graph": graph},
        {"kernel": kernel},
        {"laplacian": laplacian, "coordinates": expected.coordinates, "eigenvalues": expected.eigenvalues},
    )
    for entry in entries:
        found = select_coordinates(**entry, device="cuda", **arguments)
        assert_agreement(found, expected)
        assert isinstance(found.coordinates, np.ndarray)


def test_without_self_loops(machine):
    assert_agreement(on_cuda("D1", 700, self_loops=False), on_cpu("D1", 700, self_loops=False))


@pytest.mark.parametrize("stored", [True, False])
def test_dense_graphs_run_as_tiles(stored, machine, monkeypatch):
    """1100 points make two blocks of tiles, 2.4 MB; within a limit of 4 MB they are computed for each product."""
    made = []
    original = ies_gpu.embedding.tiles.TiledKernel.__init__

    def watched(self, *args, **kwargs):
        made.append(kwargs["store"])
        original(self, *args, **kwargs)

    monkeypatch.setattr(ies_gpu.embedding.tiles.TiledKernel, "__init__", watched)
    X, arguments = problem("D7", 1100)
    arguments = arguments | {"memory_limit": (10 if stored else 4) << 20, "n_components": 5, "self_loops": stored}
    with monkeypatch.context() as patch:
        stored_as(patch, "tiles" if stored else "recomputed")
        expected = select_coordinates(X, device="cpu", **arguments)
    monkeypatch.setattr("ies_gpu.embedding.cost.MANY", 1000)
    with nullcontext() if stored else warned("memory.slow"):
        found = select_coordinates(X, device="cuda", **arguments)
    assert made == [stored, stored]
    assert found.diagnostics["approximations"]
    assert found.diagnostics["storage"]["kernel"] == WORDS["tiles" if stored else "recomputed"]
    assert_agreement(found, expected)


def test_the_multilevel_solver_runs_on_the_device(machine, monkeypatch):
    """On larger strips it is taken by itself; here it is asked for."""
    expected = on_cpu("D1")
    ask_for(monkeypatch, "multilevel")
    found = on_cuda("D1")
    solver = found.diagnostics["solver"]
    assert solver["method"] == "multilevel"
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert_agreement(found, expected)
    assert machine.counts["syncs"] <= 130 + 6 * solver["iterations"]  # the coarse levels iterate as well


def test_the_largest_part_of_a_disconnected_graph(machine):
    X, arguments = problem("D1", 700)
    both = np.concatenate([X, X[:300] + 1e3 * np.abs(X).max()])
    with pytest.raises(ies_gpu.DisconnectedGraphError, match="2 parts"):
        select_coordinates(both, device="cuda", **arguments)
    with pytest.warns(IESWarning, match="largest"):
        found = select_coordinates(both, device="cuda", disconnected="largest", **arguments)
    assert found.points.tolist() == list(range(700))
    assert found.subset == on_cpu("D1", 700).subset


def test_the_second_device_and_the_current_one_restored(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with plugged_in(n_devices=2) as machine:
        found = on_cuda("D1", 700, device="cuda:1")
        assert machine.current == 0
        assert found.diagnostics["device"] == "cuda:1"
        assert_agreement(found, on_cpu("D1", 700))
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            there = cupy.arange(3)
            points = cupy.asarray(problem("D1", 700)[0])
        assert backend_of(there).device == "cuda:1"
        # arrays of the second device stay there, whichever is the current one
        found = select_coordinates(points, device="cuda", **problem("D1", 700)[1])
        assert found.diagnostics["device"] == "cuda:1"
        found = select_coordinates(points, **problem("D1", 700)[1])
        assert found.diagnostics["device"] == "cuda:1"
        assert found.coordinates.device.id == found.score((0, 1)).device.id == 1
        assert_agreement(found, on_cpu("D1", 700))
        with pytest.raises(RuntimeError, match="boom"), get_backend("cuda:1").active():
            assert machine.current == 1
            raise RuntimeError("boom")
        assert machine.current == 0
        with pytest.raises(DeviceError, match="no CUDA device 2; the numbers go from 0 to 1"):
            on_cuda("D1", 700, device="cuda:2")


def test_tall_sums_of_the_multilevel_solver_keep_a_device_busy(rng):
    """CuPy sums 32 columns over all rows with one block of threads, of which a GPU runs hundreds at a time."""
    n, k = 100_000 + 77, 24
    a, b, c, d = (rng.random((n, k)).astype(np.float32) for _ in range(4))
    step = rng.random(k).astype(np.float32)
    with plugged_in(pool=False) as machine:
        cupy = sys.modules["cupy"]
        Z, R, P, image = (cupy.asarray(x) for x in (a, b, c, d))
        square = cupy.asarray(step.astype(float))
        squares = plain.descend(Z, R, P, image, square, cupy.ones(k)).get()
        np.testing.assert_allclose(squares, ((b - step * d).astype(float) ** 2).sum(axis=0), rtol=1e-6)
        indptr, indices = cupy.arange(n + 1), cupy.arange(n, dtype=cupy.int32)
        plain.shifted_product(indptr, indices, cupy.ones(n, dtype=cupy.float32), cupy.asarray(step), P, image)
        X, nothing = cupy.asarray(a.astype(float)), cupy.empty((n, 0), dtype=cupy.float32)
        small = cupy.zeros((k, 2 * k)), cupy.eye(k), cupy.eye(k), cupy.ones(k), cupy.arange(0)
        plain.update(X, R, nothing, nothing, P, image, *small)
    tall = [blocks for _, size, blocks in machine.reductions if size >= 4 * 10_000 * k]
    assert len(tall) == 3
    assert min(tall) >= 32


@pytest.mark.thorough
def test_the_comparison_with_others_runs(machine):
    """So that whoever has a GPU gets a table of ``benchmarks.gpu``, and no traceback."""
    rows = {row.who: row for row in gpu.rows(450, 40, ["cuda"])}
    assert rows["our eigenvectors, cuda"].residual < 1e-7
    assert rows["cupyx's eigsh"].residual < 1e-7
    assert [rows[peer].note.partition(" (")[0] for peer in ("cuml", "rapids")] == ["not installed"] * 2
