"""The CUDA path without a GPU: all of it runs on a strict stand-in for CuPy, through the public entry points.

What is shown: the array code uses only what the installed CuPy has, keeps its arrays on the device, waits for it no
more often than it must, computes what the CPU computes, and survives the faults that a GPU can have. What is not
shown: that a GPU computes what CuPy promises. That is for ``tests/gpu``.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ies_gpu
import ies_gpu.embedding.diffusion
import ies_gpu.embedding.eigensolvers.eigenpairs
import ies_gpu.embedding.tiles
from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import backend_of, get_backend
from ies_gpu.backend.cuda import GUARDED
from ies_gpu.backend.kernels import agreement, plain
from ies_gpu.backend.kernels.cuda import launch
from ies_gpu.choice.criterion import candidate_subsets
from ies_gpu.errors import DeviceError, IESWarning, OutOfMemoryError
from ies_gpu.parameters.bandwidth import sampled_distances
from ies_gpu.parameters.dimension import local_spectrum
from ies_gpu.run.audit import ROWS, audit_tangents, sampled_rows
from tests import deviations
from tests.backends import SIZES, needs_cupy, on_cpu, on_cuda, problem
from tests.comparison import assert_agreement
from tests.cuda_emulator import missing as emulator_missing
from tests.deviations import *  # noqa: F403 - the same facts as in tests/gpu
from tests.fake_cupy import REAL, arrays, sparse, standing_in

pytestmark = needs_cupy
SEARCHES = ("greedy", "submodular", "branch_and_bound")


def close(found, expected, tolerance: float = 1e-10) -> None:
    """Equal relative to the largest entry, of a device array and a NumPy array."""
    found = found.get()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) <= tolerance * np.abs(expected).max(initial=0)


# --- the stand-in itself ---


def test_every_name_of_the_sparse_stand_in_is_real(machine):
    real = REAL["cupyx.scipy.sparse"].csr_matrix
    own = {name for name in vars(sparse.compressed) if not name.startswith("_") and name not in ("format", "is_array")}
    assert own <= set(dir(real))
    for name in ("sum", "astype", "diagonal", "transpose", "toarray", "tocsr", "sorted_indices", "get"):
        expected = list(arrays.signature_of(getattr(real, name)).parameters)
        assert list(arrays.signature_of(getattr(sparse.compressed, name)).parameters) == expected, name
    for module, name in (
        ("cupyx", "errstate"),
        ("cupyx.scipy.sparse", "identity"),
        ("cupy", "asnumpy"),
        ("cupyx.scipy.sparse.linalg", "eigsh"),
        ("cupyx.scipy.sparse.csgraph", "connected_components"),
    ):
        ours, real = getattr(sys.modules[module], name), getattr(REAL[module], name)
        assert list(arrays.signature_of(ours).parameters) == list(arrays.signature_of(real).parameters), name


def test_the_device_of_real_arrays_is_found():
    """Objects of the installed CuPy over memory of the host: all but launches is real."""
    real, sparse = REAL["cupy"], REAL["cupyx.scipy.sparse"]

    def over(host):
        memory = real.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, 0)
        return real.ndarray(host.shape, host.dtype, real.cuda.MemoryPointer(memory, 0))

    parts = (over(np.ones(3)), over(np.arange(3, dtype=np.int32)), over(np.arange(4, dtype=np.int32)))
    matrix = sparse.csr_matrix._from_parts(*parts, (3, 3))
    for array in (parts[0], matrix):
        assert backend_of(array).device == "cuda:0"
        assert backend_of(array).owns(array)


def test_every_deviation_is_tested_on_a_gpu_as_well():
    """By the same name: ``tests/gpu`` takes all tests of ``deviations``, and none is left out of its list."""
    own = {name for name in vars(deviations) if name.startswith("test_")}
    assert own == set(deviations.__all__)
    text = Path(__file__).parents[1].joinpath("gpu", "test_gpu.py").read_text()
    assert "from tests.deviations import *" in text


def test_names_and_signatures_are_those_of_the_installed_cupy(cupy):
    for name in ("vecdot", "insert", "nanpercentile", "block", "geomspace", "errstate"):
        assert not hasattr(cupy, name)
    matrix = cupy.eye(3)
    for wrong in (
        lambda: cupy.linalg.svd(matrix, hermitian=True),
        lambda: cupy.sort(matrix, order="f"),
        lambda: matrix.sum(axis=0, initial=1.0),
        lambda: cupy.asarray(["a"]),
        lambda: cupy.percentile(matrix, 50, method="hazen"),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_what_waits_for_the_device_is_counted(cupy, machine):
    a = cupy.arange(4)
    a = a * 2 + a[::2].sum()
    assert machine.counts["syncs"] == 0
    for count, wait in enumerate(
        (lambda: float(a.max()), lambda: bool(a.any()), a.get, lambda: cupy.nonzero(a), lambda: a[a > 2]), 1
    ):
        wait()
        assert machine.counts["syncs"] == count


def test_memory_is_counted_and_limited():
    with standing_in(limit=1 << 20) as machine:
        cupy = sys.modules["cupy"]
        a = cupy.zeros(1 << 16)
        view = a[10:].reshape(2, -1)
        assert machine.used == 1 << 19
        with pytest.raises(REAL["cupy.cuda.memory"].OutOfMemoryError, match="524,288 bytes"):
            cupy.zeros(1 << 16) + a
        del a, view
        assert machine.used == 0


def test_it_leaves_no_trace():
    before = {name: id(module) for name, module in sys.modules.items() if name.startswith("cupy")}
    with standing_in():
        assert "stand-in" in sys.modules["cupy"].__version__
    assert {name: id(module) for name, module in sys.modules.items() if name.startswith("cupy")} == before


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
    found = ies_gpu.nystrom_extension(upload(new), upload(X), upload(Y), values, bandwidth=bandwidth)
    close(found, ies_gpu.nystrom_extension(new, X, Y, values, bandwidth=bandwidth), 1e-12)


@pytest.mark.parametrize("columns", [2, 12])  # by a tree, and by products
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
def test_nearest_neighbours_do_not_depend_on_where_the_points_are(cupy, rng, columns, offset):
    X = rng.random((600, columns)) + offset
    X[300:310] = X[300]  # equal points, more than there are neighbours
    distances, _ = get_backend("cpu").nearest(X, 7)
    found, numbers = (part.get() for part in get_backend("cuda").nearest(cupy.asarray(X), 7))
    np.testing.assert_allclose(found, distances, rtol=1e-12, atol=1e-9)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (numbers != np.arange(600)[:, None]).all()
    assert all(len(set(row)) == 7 for row in numbers.tolist())
    np.testing.assert_allclose(np.linalg.norm(X[:, None] - X[numbers], axis=2), distances, rtol=1e-12)


def test_the_search_for_neighbours_sorts_no_row_of_all_points(cupy, machine, rng, monkeypatch):
    sizes = []
    original = arrays.device
    monkeypatch.setattr(cupy, "argsort", lambda a, axis=-1: (sizes.append(a.size), original(a._host.argsort(axis)))[1])
    get_backend("cuda").nearest(cupy.asarray(rng.normal(size=(900, 12))), 5)
    assert sizes and max(sizes) < 2 * 900 * 5


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
    downloads = [shape for direction, shape in machine.transfers if direction == "down" and shape != (40, 20, 20)]
    assert downloads and max(np.prod(shape, dtype=int) for shape in downloads) < len(
        U
    )  # but for the guard's, points stay there


@pytest.mark.parametrize("name", SEARCHES)
def test_a_whole_run_with_each_search_in_float32(machine, name):
    arguments = {"search": name, "n_components": 8, "dtype": "float32"}
    found, expected = on_cuda("D7", 900, **arguments), on_cpu("D7", 900, **arguments)
    assert found.diagnostics["device"] == "cuda:0" and found.diagnostics["search"]["method"] == name
    assert found.subset == expected.subset and sorted(found.search_order) == list(found.subset)


@pytest.mark.parametrize("name", SIZES)
def test_the_pipeline_agrees_with_the_cpu(name, machine):
    found = on_cuda(name)
    assert_agreement(found, on_cpu(name))
    assert found.diagnostics["device"] == "cuda:0"
    assert found.diagnostics["kernels"] == "cuda"
    assert {"tangent_rows", "score_block", "spmm", "tile_graph"} <= set(found.diagnostics["audit"])
    assert max(found.diagnostics["audit"].values()) < 1e-9
    assert machine.counts["kernel tangent_rows_f64"] >= 2  # the guard's and ours
    assert isinstance(found.coordinates, np.ndarray)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_the_pipeline_agrees_with_the_cpu_at_full_size(name, machine):
    data = datasets.load(name)
    sizes = {"intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    arguments = sizes | {"bandwidth": data.bandwidth}
    found = select_coordinates(data.X, device="cuda", **arguments)
    assert_agreement(found, select_coordinates(data.X, device="cpu", **arguments))
    assert found.subset == data.reference_subset


@pytest.mark.skipif(bool(emulator_missing()), reason=emulator_missing() or "emulator")
def test_the_kernel_texts_serve_the_pipeline():
    with standing_in(kernels="emulated") as machine:
        found = on_cuda("D1", 300, n_components=8)
    assert found.diagnostics["kernels"] == "cuda"
    assert_agreement(found, on_cpu("D1", 300, n_components=8))
    assert machine.counts["kernel score_block_low_f64"] >= 2


def test_points_go_up_once_and_results_come_down_once(machine):
    X, _ = problem("D1", 2500)
    found = on_cuda("D1", 2500)
    n, m, d = len(X), 20, 2
    large = [(way, shape) for way, shape in machine.transfers if np.prod(shape) >= n]
    # up: the points; vectors drawn on the host for the eigensolver's start, its proof and the audit; the way back
    assert sorted(shape for way, shape in large if way == "up") == sorted([X.shape, (n,), (n,), (n,), (n,)])
    # down: the order of the points, the co-metrics of the guard and the audit for LAPACK, and what is in the result
    results = [(n, m), (n, m, d), (n, d), (n,), (n, len(found.path))]
    assert sorted(shape for way, shape in large if way == "down") == sorted([(n,), (40, m, m), (ROWS, m, m), *results])


@pytest.mark.parametrize("name", ["D1", "D7"])
def test_waiting_grows_with_blocks_and_products_only(name, monkeypatch):
    blocks = []
    original = ies_gpu.backend.Backend.blocks

    def counted(self, *args, **kwargs):
        for block in original(self, *args, **kwargs):
            blocks.append(block)
            yield block

    monkeypatch.setattr(ies_gpu.backend.Backend, "blocks", counted)
    for n in (800, 1600):
        blocks.clear()
        with standing_in() as machine:
            products = on_cuda(name, n).diagnostics["solver"]["products"]
        # 300: checks, sampled degrees, audits, components, path; 12 a product: lengths, coefficients, construction
        assert machine.counts["syncs"] <= 300 + 12 * products + 40 * len(blocks)


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
    large = {shape for way, shape in machine.transfers if way == "down" and np.prod(shape) > len(X)}
    assert large == {(40, 20, 20), (ROWS, 20, 20)}  # for LAPACK, by guard and audit
    np.testing.assert_array_equal(given.get(), X)


def test_device_arrays_may_be_worked_on_by_the_cpu(cupy):
    X, arguments = problem("D1", 1500)
    found = select_coordinates(cupy.asarray(X), device="cpu", **arguments)
    assert found.diagnostics["device"] == "cpu"
    assert isinstance(found.coordinates, cupy.ndarray)
    assert_agreement(found, on_cpu("D1", 1500), 1e-12)


def test_tensors_of_other_libraries_are_seen_without_a_copy(cupy, machine):
    class Tensor:
        """What PyTorch and JAX offer of an array on a GPU."""

        def __init__(self, data):
            self.__cuda_array_interface__ = {"data": data}

        def __array__(self, *_, **__):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

    X, arguments = problem("D1", 1500)
    given = Tensor(cupy.asarray(X))
    assert backend_of(given).device == "cuda:0"
    uploads = len([shape for way, shape in machine.transfers if way == "up" and shape == X.shape])
    for device in ("auto", "cuda", "cpu"):
        found = select_coordinates(given, device=device, **arguments)
        assert isinstance(found.coordinates, cupy.ndarray)
        assert_agreement(found, on_cpu("D1", 1500))
    assert len([shape for way, shape in machine.transfers if way == "up" and shape == X.shape]) == uploads


def test_other_entries_run_on_the_device(machine):
    X, arguments = problem("D1", 1500)
    bandwidth, expected = arguments["bandwidth"], on_cpu("D1", 1500)
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
    assert_agreement(on_cuda("D1", 1500, self_loops=False), on_cpu("D1", 1500, self_loops=False))


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
    expected = select_coordinates(X, device="cpu", **arguments)
    found = select_coordinates(X, device="cuda", **arguments)
    assert made == [stored, stored]
    assert found.diagnostics["approximations"]
    assert_agreement(found, expected)


def test_the_multilevel_solver_runs_on_the_device(machine, monkeypatch):
    """On larger strips it is taken by itself; here it is asked for."""
    expected = on_cpu("D1")
    monkeypatch.setattr(ies_gpu.embedding.eigensolvers.eigenpairs, "prefers_multilevel", lambda *_: True)
    found = on_cuda("D1")
    solver = found.diagnostics["solver"]
    assert solver["method"] == "multilevel"
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-9)
    assert_agreement(found, expected)
    steps = solver["iterations"] + sum(solver["coarse_products"]) + solver["block_products"]
    assert machine.counts["syncs"] <= 400 + 12 * steps


def test_tall_sums_of_the_multilevel_solver_keep_a_device_busy(cupy, machine, rng):
    """CuPy sums 32 columns over all rows with one block of threads, of which a GPU runs hundreds at a time."""
    n, k = 100_000 + 77, 24
    a, b, c, d = (rng.random((n, k)).astype(np.float32) for _ in range(4))
    step = rng.random(k).astype(np.float32)
    Z, R, P, image = (cupy.asarray(x) for x in (a, b, c, d))
    squares = plain.descend(Z, R, P, image, cupy.asarray(step)).get()
    np.testing.assert_allclose(squares, ((b - step * d).astype(float) ** 2).sum(axis=0), rtol=1e-6)
    indptr, indices = cupy.arange(n + 1), cupy.arange(n, dtype=cupy.int32)
    plain.shifted_product(indptr, indices, cupy.ones(n, dtype=cupy.float32), cupy.asarray(step), P, image)
    W, SW = cupy.asarray(a.astype(float)), cupy.asarray(b.astype(float))
    plain.update(W, SW, k, P, image, cupy.eye(k), cupy.eye(k), cupy.ones(k))
    tall = [blocks for shape, blocks in machine.reductions if shape[0] * shape[1] >= 10_000 * k]
    assert len(tall) == 3
    assert min(tall) >= 32


def test_float32_runs_on_the_device(machine):
    found = on_cuda("D1", dtype="float32")
    assert found.subset == on_cpu("D1").subset
    assert machine.counts["kernel tangent_rows_f32"] >= 2


def test_the_largest_part_of_a_disconnected_graph(machine):
    X, arguments = problem("D1", 1500)
    both = np.concatenate([X, X[:300] + 1e3 * np.abs(X).max()])
    with pytest.raises(ies_gpu.DisconnectedGraphError, match="2 parts"):
        select_coordinates(both, device="cuda", **arguments)
    with pytest.warns(IESWarning, match="largest"):
        found = select_coordinates(both, device="cuda", components="largest", **arguments)
    assert found.points.tolist() == list(range(1500))
    assert found.subset == on_cpu("D1", 1500).subset


def test_the_second_device_and_the_current_one_restored(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with standing_in(n_devices=2) as machine:
        found = on_cuda("D1", 1500, device="cuda:1")
        assert machine.current == 0
        assert found.diagnostics["device"] == "cuda:1"
        assert_agreement(found, on_cpu("D1", 1500))
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            there = cupy.arange(3)
            points = cupy.asarray(problem("D1", 1500)[0])
        assert backend_of(there).device == "cuda:1"
        # arrays of the second device stay there, whichever is the current one
        found = select_coordinates(points, **problem("D1", 1500)[1])
        assert found.diagnostics["device"] == "cuda:1"
        assert found.coordinates.device.id == found.score((0, 1)).device.id == 1
        assert_agreement(found, on_cpu("D1", 1500))
        with pytest.raises(RuntimeError, match="boom"), get_backend("cuda:1").active():
            assert machine.current == 1
            raise RuntimeError("boom")
        assert machine.current == 0
        with pytest.raises(DeviceError, match="no CUDA device 2; the numbers go from 0 to 1"):
            on_cuda("D1", 1500, device="cuda:2")


def two_device_calls(X, graph, kernel, laplacian, Y, values, U) -> dict:
    """Public functions on arrays of one device, whichever it is."""
    bandwidth, sets = 1.2, np.array([[0, k] for k in range(1, 6)])
    given = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "n_components": 6}
    return {
        "radius_graph": lambda: ies_gpu.radius_graph(X, radius=3 * bandwidth),
        "knn_graph": lambda: ies_gpu.knn_graph(X, n_neighbors=5),
        "gaussian_kernel": lambda: ies_gpu.gaussian_kernel(graph, bandwidth=bandwidth),
        "graph_laplacian": lambda: ies_gpu.graph_laplacian(kernel, bandwidth=bandwidth),
        "laplacian_of_points": lambda: ies_gpu.laplacian_of_points(X, bandwidth=bandwidth),
        "diffusion_map": lambda: ies_gpu.diffusion_map(laplacian, n_components=6),
        "cometric": lambda: ies_gpu.cometric(Y, laplacian),
        "tangent_bases": lambda: ies_gpu.tangent_bases(Y, laplacian, intrinsic_dim=2),
        "riemannian_metric": lambda: ies_gpu.riemannian_metric(Y, laplacian, intrinsic_dim=2),
        "score_subsets": lambda: ies_gpu.score_subsets(U, sets, per_point=True),
        "leave_one_out_regret": lambda: ies_gpu.leave_one_out_regret(U, sets[:3], candidates=sets),
        "regularization_path": lambda: ies_gpu.regularization_path(ies_gpu.score_subsets(U, sets), sets, values),
        **{
            f"search_{name}": lambda name=name: getattr(ies_gpu, f"search_{name}")(U, values, subset_size=2)
            for name in ("exhaustive", *SEARCHES)
        },
        "nystrom_extension": lambda: ies_gpu.nystrom_extension(X[:20], X, Y, values, bandwidth=bandwidth),
        "levina_bickel_dimension": lambda: ies_gpu.levina_bickel_dimension(X),
        "two_nn_dimension": lambda: ies_gpu.two_nn_dimension(X),
        "estimate_dimension": lambda: ies_gpu.estimate_dimension(X),
        "estimate_bandwidth": lambda: ies_gpu.estimate_bandwidth(X),
        "select_coordinates": lambda: select_coordinates(X, **given).embedding,
        "select_coordinates(graph)": lambda: select_coordinates(graph=graph, **given).coordinates,
        "select_coordinates(cpu)": lambda: select_coordinates(X, device="cpu", **given).coordinates,
        "select_coordinates(cuda:0)": lambda: select_coordinates(X, device="cuda:0", **given).coordinates,
    }


def devices_in(value) -> set[int]:
    if isinstance(value, arrays.ndarray):
        return {value.data.device.id}
    if isinstance(value, sparse.compressed):
        return {value.data.data.device.id}
    parts = (
        value if isinstance(value, tuple) else vars(value).values() if hasattr(value, "__dataclass_fields__") else ()
    )
    return set().union(*map(devices_in, parts))


def test_public_functions_work_where_their_arrays_live(monkeypatch):
    """On the second device while the first is the current one, where CuPy would start their kernels."""
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    X = datasets.load("D1", n_samples=400).X
    laplacian = ies_gpu.laplacian_of_points(X, bandwidth=1.2)
    embedding = ies_gpu.diffusion_map(laplacian, n_components=6)
    Y, values = embedding.coordinates, embedding.eigenvalues
    U = ies_gpu.tangent_bases(Y, laplacian, intrinsic_dim=2)
    numbers = ("regularization_path", "levina_bickel_", "two_nn_", "estimate_")  # no arrays come back
    with standing_in(n_devices=2) as machine:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            points = cupy.asarray(X)
            graph = ies_gpu.radius_graph(points, radius=3.6)
            kernel = ies_gpu.gaussian_kernel(graph, bandwidth=1.2)
            there = ies_gpu.graph_laplacian(kernel, bandwidth=1.2)
            others = [cupy.asarray(part) for part in (Y, values, U)]
        with pytest.raises(ValueError, match="Array device must be same"):
            abs(points)
        with pytest.raises(ValueError, match="Array device must be same"):
            abs(graph)
        for name, call in two_device_calls(points, graph, kernel, there, *others).items():
            found = devices_in(call())
            assert found == (set() if name.startswith(numbers) else {1}), name
            assert machine.current == 0, name


# --- memory ---

STAGES = (
    "checks", "order", "graph", "kernel", "components", "laplacian", "eigenvectors", "tangents", "search", "result",
)  # fmt: skip


class Watch:
    """Follows the stages of a run, counts the allocations in each, and refuses some of those in one of them."""

    def __init__(self, machine, stage: str = "", *, number: int = -1, above: float = np.inf) -> None:
        self.machine, self.stage, self.number, self.above = machine, stage, number, above
        self.now = "probe"
        self.seen = dict.fromkeys(("probe", *STAGES), 0)
        self.largest = dict.fromkeys(("probe", *STAGES), 0)
        machine.refuse = self.refuse

    def progress(self, stage: str, done: int, total: int) -> None:
        after = {"kernel": "components", "search": "result"}
        self.now = after.get(stage, stage) if done == total == 1 else stage

    def refuse(self, size: int) -> bool:
        self.seen[self.now] += 1
        self.largest[self.now] = max(self.largest[self.now], size)
        return self.now == self.stage and (self.seen[self.now] == self.number or size > self.above)


def small_run(watch: Watch) -> ies_gpu.Selection:
    return on_cuda("D1", 700, n_components=8, progress=watch.progress)


@cache
def undisturbed() -> tuple[ies_gpu.Selection, dict, dict]:
    """The result of a run with memory enough, and the number and largest size of the allocations of each stage."""
    with standing_in() as machine:
        watch = Watch(machine)
        return small_run(watch), watch.seen, watch.largest


@pytest.mark.parametrize("stage", STAGES)
def test_memory_that_runs_out_once_changes_nothing(stage):
    expected, seen, _ = undisturbed()
    assert seen[stage] > 0
    for number in sorted({1, max(1, seen[stage] // 2), seen[stage]}):
        with standing_in() as machine:
            found = small_run(Watch(machine, stage, number=number))
        assert machine.counts["freed"] == 1, (stage, number)
        assert_agreement(found, expected, 1e-12)


def library_errors() -> list[BaseException]:
    """How the libraries beneath CuPy say that there is no memory: none of them is a MemoryError."""
    libraries, api = importlib.import_module("cupy_backends.cuda.libs"), "cupy_backends.cuda.api.runtime"
    return [
        libraries.cublas.CUBLASError(3),
        libraries.cusolver.CUSOLVERError(2),
        libraries.cusparse.CuSparseError(11),
        libraries.cusparse.CuSparseError(2),
        importlib.import_module(api).CUDARuntimeError(2),
        RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),  # of the driver: its class needs one to be made
    ]


def test_memory_errors_of_the_libraries_are_memory_errors():
    expected, seen, _ = undisturbed()
    stages = ("eigenvectors", "tangents", "search", "graph", "laplacian", "checks")
    for stage, error in zip(stages, library_errors(), strict=True):
        assert not isinstance(error, MemoryError)
        with standing_in() as machine:
            watch = Watch(machine, stage, number=seen[stage] // 2)
            machine.refuse = lambda size, watch=watch, error=error: error if watch.refuse(size) else False
            found = small_run(watch)
        assert machine.counts["freed"] == 1, stage
        assert_agreement(found, expected, 1e-12)
    with standing_in() as machine, pytest.raises(OutOfMemoryError, match="stage 'tangents': CUSPARSE_STATUS_ALLOC"):
        watch = Watch(machine, "tangents", above=0)
        machine.refuse = lambda size: library_errors()[3] if watch.refuse(size) else False
        small_run(watch)
    with standing_in() as machine, pytest.raises(RuntimeError, match="CUBLAS_STATUS_EXECUTION_FAILED"):
        watch = Watch(machine, "tangents", number=1)  # another error of the same class stays what it is
        other = type(library_errors()[0])(13)
        machine.refuse = lambda size: other if watch.refuse(size) else False
        small_run(watch)


def test_without_memory_for_its_levels_the_multilevel_solver_gives_way_to_lanczos(machine, monkeypatch):
    """The levels take several times what P does, Lanczos 60 vectors."""

    def refuse(*_, **__):
        raise REAL["cupy.cuda.memory"].OutOfMemoryError(10**10, 10**9, 0)

    monkeypatch.setattr(plain, "merge_columns", refuse)
    monkeypatch.setattr(ies_gpu.embedding.eigensolvers.eigenpairs, "prefers_multilevel", lambda *_: True)
    found = on_cuda("D1", 1500)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "lanczos"
    assert "no memory for it: Out of memory allocating 10,000,000,000 bytes" in solver["fallback"]
    assert machine.counts["freed"] == 1
    assert_agreement(found, on_cpu("D1", 1500))


@pytest.mark.filterwarnings("ignore:the CUDA kernels are not used")  # plain code needs more memory
def test_blocks_are_halved_until_they_fit():
    """Scores agree to 1e-12. Only other tiles of the graph round distances differently, by an ulp, which the
    eigenvectors magnify: 4e-12 was seen."""
    with standing_in(kernels="no-compiler") as machine:
        watch = Watch(machine)
        expected = on_cuda("D1", 1200, progress=watch.progress)
    for stage, parts in {"graph": 3, "kernel": 3, "laplacian": 3, "tangents": 8, "search": 4}.items():
        with standing_in(kernels="no-compiler") as machine:
            tight = Watch(machine, stage, above=watch.largest[stage] / parts)
            found = on_cuda("D1", 1200, progress=tight.progress)
        assert machine.counts["freed"] >= 1, stage
        assert_agreement(found, expected, 1e-10 if stage == "graph" else 1e-12)


@pytest.mark.filterwarnings("ignore:the kernel spmm was not compared")  # its check comes first, and does not fit either
@pytest.mark.parametrize("stage", STAGES)
def test_too_little_memory_is_said_with_stage_and_size(stage):
    with standing_in() as machine, pytest.raises(OutOfMemoryError) as caught:
        small_run(Watch(machine, stage, above=0))
    assert isinstance(caught.value, MemoryError)
    assert f"the memory of cuda:0 does not suffice for the stage {stage!r}" in str(caught.value)
    assert "bytes" in str(caught.value)
    assert machine.current == 0


def test_a_whole_card_too_small():
    with standing_in(limit=300 << 20) as machine:
        machine.limit = 6 << 20  # another program took the rest after the probe
        with pytest.raises(DeviceError, match="has 6 MB free, 256 MB are needed"):
            on_cuda("D1", 700)
        machine.limit = 300 << 20
        assert_agreement(on_cuda("D1", 700), on_cpu("D1", 700))


@pytest.mark.parametrize("name", SEARCHES)
def test_memory_that_runs_out_in_a_search_changes_nothing(name):

    def run(refused: int | None) -> tuple[ies_gpu.Selection, int]:
        seen, now = 0, ""

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal now
            now = stage if done != total or total == 0 else ""

        def refuse(size: int) -> bool:
            nonlocal seen
            seen += now == "search"
            return now == "search" and seen == refused

        with standing_in() as made:
            made.refuse = refuse
            return on_cuda("D7", 700, n_components=7, search=name, progress=progress), seen

    expected, count = run(None)
    for refused in (1, count // 3, count - 1):
        found, _ = run(refused)
        assert found.subset == expected.subset
        np.testing.assert_allclose(found.ranking.scores, expected.ranking.scores, atol=1e-12)


# --- kernels that fail ---


def quietly(*args, **kwargs) -> tuple[ies_gpu.Selection, list[str]]:
    """A run on the device, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = on_cuda(*args, **kwargs)
    return found, [str(warning.message) for warning in caught]


def test_kernels_that_do_not_compile_give_way_to_plain_code():
    with standing_in(kernels="no-compiler"):
        found, said = quietly("D1", 700)
        assert len(said) == 1
        assert "the CUDA kernels are not used on cuda:0: tangent_rows does not run (kernel.cu(1): error" in said[0]
        assert found.diagnostics["kernels"] == "plain"
        assert "does not run" in found.diagnostics["kernel_fault"]
        assert said[0] in found.diagnostics["warnings"]
        assert_agreement(found, on_cpu("D1", 700))
        again, said_again = quietly("D1", 700)
        assert said_again == []  # said once for each device
        assert again.diagnostics["warnings"] == (said[0],)  # but kept with every result


@pytest.mark.parametrize("kernel", ["tangent_rows", "score_block"])
def test_the_guard_finds_a_wrong_kernel_before_its_first_use(kernel):
    def spoil(name, values):
        if name.startswith(kernel):
            values[-1 if kernel == "tangent_rows" else -3].flat[0] += 0.01  # sigma; partial totals

    with standing_in(spoil=spoil) as machine:
        found, said = quietly("D1", 700)
        assert len(said) == 1
        assert f"{kernel} differs from plain code by" in said[0]
        assert machine.counts["kernel tangent_rows_f64"] == 1  # the guard's
        assert_agreement(found, on_cpu("D1", 700))


def test_the_audit_finds_what_appears_after_the_guard():
    """Sizes that the guard did not try: both kernels are wrong from a hundred rows on."""

    def spoil(name, values):
        if name.startswith("tangent_rows") and len(values[-1]) > 100:
            values[-1][:] *= 1.001
        if name.startswith("score_block") and len(values[-1]) > 100:
            values[-1][:] += 0.01

    with standing_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1  # after tangent_rows all of the run is plain
    assert "tangent_rows differs from plain code by 1.0e-03 on sampled rows" in said[0]
    assert found.diagnostics["kernels"] == "plain"
    assert said[0] in found.diagnostics["warnings"]
    assert_agreement(found, on_cpu("D1", 700))


def test_the_audit_of_scores():
    def spoil(name, values):
        if name.startswith("score_block") and len(values[-1]) > 100:
            values[-1][:] += 0.01

    with standing_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1
    assert "score_block differs" in said[0]
    assert_agreement(found, on_cpu("D1", 700))


@pytest.mark.parametrize("kernel", ["tangent_rows", "score_block"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_number_that_is_not_finite_is_always_found(kernel, value):
    """Wherever it stands: here in a row that is not among the sampled ones."""
    sampled = np.random.default_rng(700).choice(700, size=ROWS, replace=False)
    row = int(np.setdiff1d(np.arange(700), sampled)[0])

    def spoil(name, values):
        if name.startswith(kernel) and len(values[-1]) > ROWS:
            values[-1][row] = value

    with standing_in(spoil=spoil):
        found, said = quietly("D1", 700)
    assert len(said) == 1
    assert f"{kernel} differs from plain code by inf" in said[0]
    assert_agreement(found, on_cpu("D1", 700))


@pytest.mark.parametrize("entry", [{}, {"memory_limit": 4 << 20, "n_components": 5}])
def test_a_library_that_cannot_solve_zero_matrices_costs_neither_kernels_nor_the_run(entry):
    """As reported of cuSOLVER's batched Jacobi method. The guard has a row without neighbours; dense graphs use it."""
    with standing_in(jacobi="needs rank") as machine:
        with cupyx_errstate("raise"), pytest.raises(np.linalg.LinAlgError, match="devInfo"):
            sys.modules["cupy"].linalg.eigh(sys.modules["cupy"].zeros((2, 3, 3)))
        assert machine.linalg == "ignore"
        assert not np.isfinite(sys.modules["cupy"].linalg.eigvalsh(sys.modules["cupy"].zeros((2, 3, 3))).get()).any()
        H = sys.modules["cupy"].asarray(np.diag([1.0, 0.0, 0.0])[None])
        for state in ("ignore", "raise"):
            with cupyx_errstate(state):
                U, sigma = plain.leading_eigenvectors(H, 2)
            np.testing.assert_array_equal(sigma.get(), [[1.0, 0.0]])
            assert np.abs(U.get()[0].T @ U.get()[0] - np.eye(2)).max() < 1e-15
        found, said = quietly("D7", 1100, **entry)
        assert said == []
        assert found.diagnostics["kernels"] == "cuda"
    assert_agreement(found, on_cpu("D7", 1100, **entry))


def cupyx_errstate(linalg):
    return sys.modules["cupyx"].errstate(linalg=linalg)


def test_copies_of_one_point_have_no_local_spectrum(cupy, machine):
    """Their covariance is zero, of which cuSOLVER is said to make NaN."""
    machine.jacobi = "needs rank"
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 30, axis=0)
    spectra = [local_spectrum(Z, sampled_distances(Z, queries=20), 1e-3) for Z in (X, cupy.asarray(X))]
    np.testing.assert_array_equal(*spectra)
    assert np.isfinite(spectra[0]).all()


@pytest.mark.parametrize("failure", [np.linalg.LinAlgError("no convergence"), OutOfMemoryError("too little")])
def test_an_audit_that_fails_does_not_end_a_sound_run(failure, machine, monkeypatch):
    def fails(*_):
        raise failure

    expected = on_cpu("D1", 700)
    monkeypatch.setattr(agreement, "eigenpairs", fails)
    monkeypatch.setitem(GUARDED["float64"], "tangent_rows", lambda *_: 0.0)
    found, said = quietly("D1", 700)
    assert said == [f"the kernel tangent_rows was not compared with plain code on sampled rows: {failure}"]
    assert found.diagnostics["kernels"] == "cuda"
    assert "tangent_rows" not in found.diagnostics["audit"]
    assert_agreement(found, expected)


def test_eigenvectors_that_are_not_finite_are_an_error(machine, monkeypatch):
    original = ies_gpu.embedding.diffusion.leading_eigenpairs

    def wrong(*args, **kwargs):
        pairs = original(*args, **kwargs)
        pairs.residuals[3] = np.nan
        return pairs

    monkeypatch.setattr(ies_gpu.embedding.diffusion, "leading_eigenpairs", wrong)
    with pytest.raises(ArithmeticError, match="computed on cuda:0 are not finite"):
        on_cuda("D1", 700)


def test_odds_of_the_audit_with_one_wrong_row_in_a_thousand(cupy):
    """256 rows are computed again, so one wrong row in a thousand is found with odds of 1 - 0.999^256, or 23 %.

    Of n rows with k wrong ones the odds are ``1 - C(n - k, 256) / C(n, 256)``. The sample is seeded by n: a
    fault that depends on the row alone is found always or never for a given n, and over many n at these odds. Wrong
    rows that are not found are few, so a mean score moves by no more than their share. What is not finite, or wrong
    in a whole tile, block or size, is found with certainty or nearly so (64 rows of 10,000: 81 %).
    """
    X, arguments = problem("D1", 1500)
    laplacian = ies_gpu.laplacian_of_points(cupy.asarray(X), bandwidth=arguments["bandwidth"])
    Y = cupy.asarray(on_cpu("D1", 1500).coordinates)
    metric = ies_gpu.riemannian_metric(Y, laplacian, intrinsic_dim=2)
    backend = backend_of(Y)
    sampled = set(sampled_rows(1500, backend).get().tolist())
    assert len(sampled) == ROWS
    found = []
    for residue in range(0, 500, 10):
        wrong = [row for row in range(1500) if row % 1000 == residue]  # two of them
        U = metric.U.copy()
        U[cupy.asarray(wrong)] *= 1.01
        caught = audit_tangents(laplacian, Y, U, metric.sigma, backend) > 1e-3
        assert caught == bool(sampled & set(wrong))
        found.append(caught)
    odds = 1 - (1 - ROWS / 1500) * (1 - ROWS / 1499)
    assert abs(np.mean(found) - odds) < 4 * np.sqrt(odds * (1 - odds) / len(found))
    assert abs((1 - 0.999**ROWS) - 0.23) < 0.005
    assert abs((1 - (1 - 64 / 10_000) ** ROWS) - 0.81) < 0.005


@pytest.mark.parametrize("kernel", ["tile_graph", "spmm"])
def test_the_audit_of_the_other_kernels(kernel, machine, monkeypatch):
    """These are plain code on CuPy's libraries today; should one be wrong, what was computed with it is not used."""
    original = getattr(plain, kernel)

    def wrong(*args, **kwargs):
        found = original(*args, **kwargs)
        if kernel == "spmm":
            return found * 1.001
        counts, indices, distances = found
        return counts, indices, distances * 1.001

    monkeypatch.setattr(launch, kernel, wrong)
    found, said = quietly("D1", 700)
    assert len(said) == 1
    assert f"the kernel {kernel} differs from plain code by" in said[0]
    assert_agreement(found, on_cpu("D1", 700))
