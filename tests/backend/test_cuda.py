"""The CUDA path without a GPU: all of it runs through the installed CuPy on the CPU, by the public entry points.

What is shown: CuPy takes what the array code asks of it, arrays stay on the device, the code waits for it no more often
than it must, computes what the CPU computes, and survives the faults that a GPU can have. What is not shown: that a GPU
computes what CuPy promises. That is for ``tests/gpu``.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse

import ies_gpu
from ies_gpu import select_coordinates
from ies_gpu.backend import audit, backend_of, base, compare, get_backend
from ies_gpu.backend.audit import ROWS, graph_difference
from ies_gpu.backend.kernels import plain
from ies_gpu.choice.criterion import candidate_subsets
from ies_gpu.choice.untangle import TURNED_BY
from ies_gpu.embedding.points import WORDS
from ies_gpu.findings import IESWarning
from ies_gpu.parameters.dimension import local_spectrum
from ies_gpu.parameters.distances import sampled_distances
from ies_gpu.parameters.judgement import LOOKED_SHORTLY
from tests.backend.test_compare import quietly
from tests.backends import ask_for, needs_cupy, on_cpu, on_cuda, problem, sent
from tests.comparison import assert_agreement, stored_as
from tests.extension import nystrom_extension
from tests.real_cupy import plugged_in
from tests.said import refused, warned
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
    assert (found.subset, found.passed) == (expected.subset, expected.passed)
    np.testing.assert_allclose(found.percentiles, expected.percentiles, atol=1e-10)
    new, values = X[:50] + 0.2, embedding.eigenvalues
    found = nystrom_extension(upload(new), upload(X), upload(Y), values, bandwidth=bandwidth)
    close(found, nystrom_extension(new, X, Y, values, bandwidth=bandwidth), 1e-12)


# --- the whole ---


@pytest.fixture
def compared(monkeypatch):
    """Kernels were compared with plain code before, and their results need not come down for it."""
    monkeypatch.setattr(compare, "kernel_difference", lambda *_: 0.0)


def without_coefficients(sizes: set[int]) -> set[int]:
    """Sizes of downloads but for those of Lanczos, in rows of 53 or 21."""
    return {size for size in sizes if size % (53 * 8) and size % (21 * 8)}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_takes_device_arrays_and_answers_as_on_the_cpu(machine, cupy, compared, name, rng):
    U, values = np.linalg.qr(rng.normal(size=(300, 10, 2)))[0], np.sort(rng.uniform(0.01, 0.3, 10))
    search = getattr(ies_gpu, f"search_{name}")
    for zeta in ("auto", 0.05):
        expected = search(U, values, subset_size=4, zeta=zeta)
        found = search(cupy.asarray(U), cupy.asarray(values), subset_size=4, zeta=zeta)
        assert found.subset == expected.subset and found.details == expected.details
        np.testing.assert_array_equal(found.subsets, expected.subsets)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
        assert isinstance(found.regrets, cupy.ndarray)
    downloads = [size for way, size in machine.transfers if way == "down"]  # of each point nothing
    assert downloads and max(downloads) < 8 * len(U)


def test_points_go_up_once_and_results_come_down_once(machine, compared, monkeypatch):
    n, m, d, double = 2503, 20, 2, 8  # a prime: multiples of it are what there is of each point
    audited, X = set[int](), problem("D1", n)[0]

    def audit_graph(points, rows, ends, distances, radius):
        audited.add(double * (5 * len(rows) + 1 + len(distances)))
        return graph_difference(points, rows, ends, distances, radius)

    monkeypatch.setattr(audit, "graph_difference", audit_graph)
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
    looked = {rows * double * count for rows in (LOOKED_SHORTLY, TURNED_BY) for count in (m, m * d, d)}
    looked = {size for size in looked if size > n * double} | {ROWS * m * m * double} | audited
    assert without_coefficients(others) == without_coefficients(looked)


@pytest.mark.parametrize("name", first_of("D1", "D7"))
def test_a_run_waits_a_hundred_times_whatever_its_size(name):
    """A wait costs as much as several launches: one for each product of Lanczos would be more than the rest."""
    for n in (800, 1600):
        with plugged_in() as machine:
            products = on_cuda(name, n).diagnostics["solver"]["products"]
        assert machine.counts["syncs"] <= 130 + products / 10
        assert machine.counts["launches"] <= 1000 + 6 * products  # a thousand compare kernels first
        # three and a half copies for each product would be a fifth of all launches
        assert machine.counts["kernel cupy_copy__float64_float64"] <= 200 + products


@pytest.mark.parametrize("kept", [0, 100])
def test_a_run_says_that_cupy_compiles_where_it_has_kept_nothing(kept, machine, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    for k in range(kept):
        (tmp_path / f"{k}.cubin").touch()
    caplog.set_level("INFO", logger="ies_gpu")
    on_cuda("D1", 300, n_components=6)
    assert any(str(tmp_path) in text and "CUPY_CACHE_DIR" in text for text in caplog.messages) == (not kept)


def test_device_arrays_stay_on_the_device(cupy, machine):
    X, arguments = problem("D1", 701)
    given = cupy.asarray(X)
    if machine:
        machine.transfers.clear()
    for device in ("cuda", "auto"):
        found = select_coordinates(given, device=device, **arguments)
        assert isinstance(found.coordinates, cupy.ndarray)
        assert isinstance(found.score(found.subset), cupy.ndarray)
        close(found.score(found.subset), found.log_volumes.get())
        assert_agreement(found, on_cpu("D1", 701))
    np.testing.assert_array_equal(given.get(), X)
    if not machine:  # on a real device nothing is counted
        return
    # a prime: multiples of it are what there is of each point; the verdict looks at up to 5,000 of them
    large = {size for way, size in machine.transfers if way == "down" and size % 701 == 0 and size > 8 * 701}
    assert large == {part.nbytes for part in (X, found.embedding, found.coordinates, found.bases)}


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
    for device in ("auto", "cpu"):
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
    assert_agreement(on_cuda("D1", 700, self_loops=False), on_cpu("D1", 700, self_loops=False))


@pytest.mark.parametrize("stored", [True, False])
def test_dense_graphs_run_as_tiles(stored, machine, monkeypatch):
    """1100 points make two blocks of tiles, 2.4 MB; within a limit of 4 MB they are computed for each product."""
    X, arguments = problem("D7", 1100)
    sizes = {"n_components": 8 if stored else 6, "self_loops": stored}
    arguments = arguments | sizes | {"memory_limit": (10 if stored else 4) << 20}
    with monkeypatch.context() as patch:
        stored_as(patch, "tiles" if stored else "recomputed")
        expected = select_coordinates(X, device="cpu", **arguments)
    monkeypatch.setattr("ies_gpu.embedding.points.MANY_ON_GPU", 1000)
    with nullcontext() if stored else pytest.warns(IESWarning):
        found = select_coordinates(X, device="cuda", **arguments)
    assert ("memory.slow" in {said.code for said in found.findings}) != stored
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
    with refused("graph.disconnected", ies_gpu.DisconnectedGraphError):
        select_coordinates(both, device="cuda", **arguments)
    with warned("graph.left_out"):
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
        with pytest.raises(ZeroDivisionError), get_backend("cuda:1").active():
            assert machine.current == 1
            raise ZeroDivisionError
        assert machine.current == 0


# --- where CuPy and its libraries differ from NumPy, as a reading of CuPy 14.2 found ---


@pytest.mark.parametrize("columns", [2, 12])  # by the host's tree, and by products
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_nearest_neighbours_do_not_depend_on_where_the_points_are(cupy, rng, columns, offset, monkeypatch):
    """Without CuPy's tree, of which a first run would compile ten seconds' worth."""
    monkeypatch.setitem(sys.modules, "cupyx.scipy.spatial", None)
    X = rng.random((600, columns)) + offset
    X[300:310] = X[300]  # equal points, more than there are neighbours
    X[450:] -= 2 * offset  # and two groups far apart, of which no centre is near
    distances, _ = get_backend("cpu").nearest(X, 7)
    there = cupy.asarray(np.asfortranarray(X))
    found, numbers = (part.get() for part in get_backend("cuda").nearest(there, 7))
    np.testing.assert_allclose(found, distances, rtol=1e-12, atol=1e-9)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (numbers != np.arange(600)[:, None]).all()
    assert all(len(set(row)) == 7 for row in numbers.tolist())
    np.testing.assert_allclose(np.linalg.norm(X[:, None] - X[numbers], axis=2), distances, rtol=1e-12)


def test_a_partition_that_fails_costs_no_neighbours(cupy, rng, monkeypatch):
    """In CuPy's kernel the threads of a warp hand each other numbers without a barrier, which GPUs since Volta may
    not forgive. A k-th number that is too low left rows with the neighbours of the next."""
    X, original = rng.normal(size=(400, 12)), cupy.partition
    expected, _ = get_backend("cpu").nearest(X, 6)
    monkeypatch.setattr(cupy, "partition", lambda a, kth, axis: original(a, 0, axis=axis) * 0.5)
    found, numbers = (part.get() for part in get_backend("cuda").nearest(cupy.asarray(X), 6))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X[:, None] - X[numbers], axis=2), expected, rtol=1e-12)


@pytest.mark.parametrize("entry", [{}, {"memory_limit": 10 << 20, "n_components": 8}])
def test_a_library_that_cannot_solve_zero_matrices_costs_neither_kernels_nor_the_run(entry):
    """As reported of cuSOLVER's batched Jacobi method. The guard has a row without neighbours; dense graphs use it."""
    with plugged_in(jacobi="needs rank"):
        cupy, state = sys.modules["cupy"], sys.modules["cupyx"].errstate
        with state(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="devInfo"):
            cupy.linalg.eigh(cupy.zeros((2, 3, 3)))
        assert not np.isfinite(cupy.linalg.eigvalsh(cupy.zeros((2, 3, 3))).get()).any()
        for asked in ("ignore", "raise"):
            with state(linalg=asked):
                U, sigma = plain.leading_eigenvectors(cupy.asarray(np.diag([1.0, 0.0, 0.0])[None]), 2)
            np.testing.assert_array_equal(sigma.get(), [[1.0, 0.0]])
            assert np.abs(U.get()[0].T @ U.get()[0] - np.eye(2)).max() < 1e-15
        found, said = quietly("D7", 1100, **entry)
        assert said == [] and found.diagnostics["kernels"] == "cuda"
    assert_agreement(found, on_cpu("D7", 1100, **entry | {"memory_limit": 1 << 30}))


def test_copies_of_one_point_have_no_local_spectrum(cupy, machine):
    """Their covariance is zero, of which cuSOLVER is said to make NaN."""
    machine.jacobi = "needs rank"
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 30, axis=0)
    spectra = [local_spectrum(Z, sampled_distances(Z, queries=20), 1e-3) for Z in (X, cupy.asarray(X))]
    np.testing.assert_array_equal(*spectra)
    assert np.isfinite(spectra[0]).all()


def test_matrices_of_many_entries_have_indices_of_64_bits(machine, monkeypatch):
    """From 2^31 entries on, here from 1,000; our kernels read columns of 32 bits, and are given copies."""
    expected = on_cpu("D1", 700, dtype="mixed")
    monkeypatch.setattr(base, "WIDE", 1000)
    assert_agreement(on_cuda("D1", 700, dtype="mixed"), expected, 1e-6)


def test_parts_of_a_long_graph_are_found_in_few_rounds_in_any_order(machine, rng):
    """A path of 2,000 rows, each joined to the ten next to it, is 400 steps long."""
    path = scipy.sparse.diags([np.ones(2000 - k) for k in range(1, 6)], range(1, 6))
    path, backend, rounds = (path + path.T).tocsr(), get_backend("cuda"), []
    for order in (np.arange(2000), rng.permutation(2000)):
        machine.counts.clear()
        assert backend.connected_components(sent(path[order][:, order], backend))[0] == 1
        rounds.append(machine.counts["kernel smallest_label_f64"])
    assert max(rounds) <= 20
