"""The CUDA path without a GPU: all of it runs through the installed CuPy on the CPU, by the public entry points.

What is shown: CuPy takes what the array code asks of it, arrays stay on the device, the code waits for it no more often
than it must, computes what the CPU computes, and survives the faults that a GPU can have. What is not shown: that a GPU
computes what CuPy promises. That is for ``tests/gpu``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse

import ies_gpu
from benchmarks.device_counts import stages_named
from benchmarks.problems import strip
from ies_gpu import select_coordinates
from ies_gpu.backend import array, backend_of, base, compare, get_backend
from ies_gpu.backend.compare import ROWS, TYPES
from ies_gpu.backend.kernels import plain
from ies_gpu.choice.untangle import TURNED_BY
from ies_gpu.embedding.points import WORDS
from ies_gpu.findings import IESWarning
from ies_gpu.parameters.dimension import local_spectrum, times_each
from ies_gpu.parameters.distances import mean_degree, sampled_distances
from ies_gpu.parameters.judgement import LOOKED_SHORTLY
from ies_gpu.parameters.scan import unsuitable
from ies_gpu.validation import check_points
from tests.backend.test_compare import quietly
from tests.backends import ask_for, needs_cupy, on_cpu, on_cuda, problem, sent
from tests.comparison import assert_agreement, stored_as
from tests.real_cupy import plugged_in
from tests.said import warned
from tests.thorough import first_of

pytestmark = needs_cupy


# --- the whole ---


@pytest.fixture
def many(monkeypatch):
    """Arrays count as large, so that what is seen here is what a device does with many points."""
    monkeypatch.setattr(array, "FEW_BYTES", 0)


@pytest.fixture
def compared(monkeypatch):
    """Kernels were compared with plain code before, and their results need not come down for it."""
    monkeypatch.setattr(compare, "kernel_difference", lambda *_: 0.0)


def without_coefficients(sizes: set[int]) -> set[int]:
    """Sizes of downloads but those of Lanczos: 1 + 3 * 59 a product, and in search of copies beside 21 to 29 pairs."""
    products = 178, *(1 + 3 * (32 + pairs) for pairs in range(21, 30))
    return {size for size in sizes if all(size % (8 * product) for product in products)}


@pytest.mark.parametrize("name", ["greedy", "submodular", "branch_and_bound"])
def test_of_each_point_a_search_brings_down_nothing(machine, cupy, compared, many, name, rng):
    U, values = np.linalg.qr(rng.normal(size=(300, 10, 2)))[0], np.sort(rng.uniform(0.01, 0.3, 10))
    getattr(ies_gpu, f"search_{name}")(cupy.asarray(U), cupy.asarray(values), subset_size=4)
    downloads = [size for way, size in machine.transfers if way == "down"]
    assert downloads and max(downloads) < 8 * len(U)


def test_points_go_up_once_and_results_come_down_once(machine, compared, many, monkeypatch):
    n, m, d, double = 2503, 20, 2, 8  # a prime: multiples of it are what there is of each point
    audited, X, sample = set[int](), problem("D1", n)[0], compare.rows_on_host

    def rows_on_host(matrix, rows, backend):
        found = sample(matrix, rows, backend)
        entries = len(found[1])
        audited.update((4 * entries, double * entries, double * m * (len(rows) + entries)))
        return found

    monkeypatch.setattr(compare, "rows_on_host", rows_on_host)
    found = on_cuda("D1", n)
    large = {way: sorted(size for w, size in machine.transfers if w == way and size % n == 0) for way in ("up", "down")}
    # up: points, once; beside them vectors that are drawn on the host, and ways back to the order of the input
    assert large["up"].count(X.nbytes) == 1
    assert sum(large["up"]) - X.nbytes <= 9 * n * double
    # down: the order of the points, and what is in the result; of so few points the verdict looks at all, once more
    once = sorted(n * double * count for count in (1, m, m * d, d, 1, len(found.path)))
    assert set(large["down"]) == set(once) and sum(large["down"]) <= 2 * sum(once)
    # and of sampled points coordinates, bases and sigma for audits, a turn and the verdict
    others = {size for way, size in machine.transfers if way == "down" and size % n and size > n * double}
    looked = {rows * double * count for rows in (LOOKED_SHORTLY, TURNED_BY, ROWS) for count in (m, m * d, d)} | audited
    assert without_coefficients(others) <= without_coefficients(looked)


@pytest.mark.parametrize("name", first_of("D1", "D7"))
def test_a_run_waits_a_hundred_times_whatever_its_size(name):
    """A wait costs as much as several launches: one for each product of Lanczos would be more than the rest."""
    for n in (800, 1600):
        with plugged_in() as machine:
            products = on_cuda(name, n).diagnostics["solver"]["products"]
        assert machine.counts["syncs"] <= 100 + products / 10
        # a product is one launch, and each of two passes beside the basis a library call and a launch; the last divides
        assert machine.counts["launches"] + machine.counts["libraries"] <= 400 + 6 * products
        assert machine.counts["kernel cupy_copy__float64_float64"] <= 40
        # what NVRTC compiles, some of it for two shapes
        assert sum(name.startswith("kernel ") for name in machine.counts) <= 45


@pytest.mark.thorough
@pytest.mark.parametrize(("arguments", "texts"), [("500", 60), ("1000 --automatic", 80), ("6000", 110)])
def test_a_first_run_compiles_few_texts(arguments, texts):
    """In a process of its own, since CuPy keeps what was compiled."""
    command = [sys.executable, "-m", "benchmarks.device_counts", *arguments.split()]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert 40 < int(re.search(r"(\d+) texts", said)[1]) <= texts


@pytest.mark.parametrize("kept", [0, 100])
def test_a_run_says_that_cupy_compiles_where_it_has_kept_nothing(kept, machine, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    for k in range(kept):
        (tmp_path / f"{k}.cubin").touch()
    caplog.set_level("INFO", logger="ies_gpu")
    on_cuda("D1", 300, n_components=6)
    assert any(str(tmp_path) in text and "CUPY_CACHE_DIR" in text for text in caplog.messages) == (not kept)


class Tensor:
    """What Numba and others offer of an array on a GPU."""

    def __init__(self, data):
        self.kept = data
        self.__cuda_array_interface__ = {"data": (data.data.ptr, False), "shape": data.shape, "typestr": "<f8"}

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize("kind", [lambda array: array, Tensor], ids=["of CuPy", "of others"])
@pytest.mark.parametrize("device", ["cuda", "auto", "cpu"])
def test_arrays_on_the_device_are_seen_without_a_copy_and_results_join_them(cupy, machine, kind, device):
    X, arguments = problem("D1", 701)
    given = kind(cupy.asarray(X))
    if machine:
        machine.transfers.clear()
    found = select_coordinates(given, device=device, **arguments)
    assert found.diagnostics["device"] == (device if device == "cpu" else "cuda:0")
    assert isinstance(found.coordinates, cupy.ndarray) and isinstance(found.score(found.subset), cupy.ndarray)
    np.testing.assert_allclose(found.score(found.subset).get(), found.log_volumes.get(), atol=1e-10)
    assert_agreement(found, on_cpu("D1", 701))
    # a prime: multiples of it are what there is of each point; the verdict looks at up to 5,000 of them
    large = {size for way, size in machine.transfers if way == "down" and size % 701 == 0 and size > 8 * 701}
    if machine and device != "cpu":  # nothing is counted on a real device; of the CPU's results some go up
        assert large == {part.nbytes for part in (X, found.embedding, found.coordinates, found.bases)}
        assert ("up", X.nbytes) not in machine.transfers
    np.testing.assert_array_equal(cupy.asarray(given).get(), X)


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
    with warned("graph.left_out"):
        found = select_coordinates(both, device="cuda", disconnected="largest", **arguments)
    assert found.points.tolist() == list(range(700)) and found.subset == on_cpu("D1", 700).subset


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
    # a matrix in float32 alone moves these scores by 4e-6
    assert_agreement(on_cuda("D1", 700, dtype="mixed"), expected, 1e-5)


def test_parts_of_a_long_graph_are_found_in_few_rounds_in_any_order(machine, rng):
    """A path of 2,000 rows, each joined to the ten next to it, is 400 steps long."""
    path = scipy.sparse.diags([np.ones(2000 - k) for k in range(1, 6)], range(1, 6))
    path, backend, rounds = (path + path.T).tocsr(), get_backend("cuda"), []
    for order in (np.arange(2000), rng.permutation(2000)):
        machine.counts.clear()
        assert backend.connected_components(sent(path[order][:, order], backend))[0] == 1
        rounds.append(machine.counts["kernel smallest_label_f64"])
    assert max(rounds) <= 20


# --- launches, waits, transfers and memory by stage ---


@pytest.fixture(scope="module")
def counted():
    """One run by the multilevel method, the machine without a pool, which knows the size of every array, and the number
    of kernels of different names at each message."""
    (X, bandwidth), known, patch = strip(6000, 60), [0], pytest.MonkeyPatch()
    patch.setattr(array, "FEW_BYTES", 0)

    def progress(*_):
        known.append(sum(name.startswith("kernel ") for name in machine.counts))

    with plugged_in(pool=False) as machine, stages_named(machine):
        kernels = get_backend("cuda").kernels  # known to agree: comparisons are not counted
        kernels.compared |= {" ".join(map(str, (name, *one))) for name, kinds in TYPES.items() for one in kinds}
        given = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "device": "cuda"}
        found = select_coordinates(X, n_components=8, progress=progress, **given)
    patch.undo()
    assert found.diagnostics["solver"]["method"] == "multilevel"
    return found, machine, known


def test_no_sum_over_the_points_has_fewer_than_32_blocks(counted):
    """The blocks of a sum over rows depend on the columns alone: what has few for 6,000 rows has few for a million."""
    reductions = counted[1].reductions
    assert [name for name, size, blocks in reductions if "sum" in name and size >= 8 * 2 * 6000 and blocks < 32] == []


def test_a_first_run_is_not_silent_while_it_compiles(counted):
    """NVRTC takes about a twentieth of a second for a kernel."""
    assert max(np.diff(counted[2])) <= 45


def test_no_kernel_needs_cub(counted, cupy, machine, many, rng):
    """Of each, such as CuPy's ``any``, ``median`` and sums of masks, NVRTC takes nearly a second."""
    X = check_points(cupy.asarray(rng.random((900, 3))))
    distances = sampled_distances(X)
    assert times_each(distances) == 1 and mean_degree(distances, 0.1) > 1
    assert unsuitable(0.2, 0.3, distances, self_loops=True) == ""
    assert [name for name in counted[1].counts | machine.counts if re.search(r"cub_|_pass\d", name)] == []


@pytest.mark.parametrize("k", [1, 2, 3, 20])
def test_sums_maxima_and_spreads_of_columns(rng, k):
    A = rng.normal(size=(20_001, k))
    with plugged_in(pool=False) as machine:
        there = sys.modules["cupy"].asarray(A)
        for name in ("column_sums", "column_means", "column_maxima", "column_ends", "column_units", "column_norms"):
            found, expected = (getattr(array, name)(part) for part in (there, A))
            pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
            for part, other in pairs:
                np.testing.assert_allclose(part.get(), other, rtol=1e-10, atol=1e-10)
    assert min(blocks for _, size, blocks in machine.reductions if size >= 8 * 20_000) >= 32


def test_products_are_kernels_of_ours_whose_sums_do_not_vary(counted):
    counts = counted[1].counts
    assert counts["kernel product_f32_f32"] > 50
    assert counts["library spMV"] + counts["library spMM"] + counts["library spGEMM_compute"] <= 4  # of the audit


def test_signs_go_up_as_bits_and_boxes_stay_on_the_device(counted):
    up = [size for way, size in counted[1].transfers if way == "up" and size % 6000 == 0]
    assert max(up) <= 8 * 3 * 6000  # the points; drawn on the host, signs were 32 columns
    graph = counted[1].by_stage["graph"]
    assert graph["downloads"] + graph["syncs"] <= 12
    audited = 4 * 6001 + 32 * (4 + 8) * (counted[0].diagnostics["mean_degree"] + 6)
    assert graph["down"] < audited  # bytes: not even the boxes


def test_no_stage_holds_more_than_the_matrix_twice(counted):
    """Merging columns took 44 to 50 bytes per entry, components 32; the entries themselves are 12."""
    found, stages = counted[0], counted[1].by_stage
    entries = 12 * 6000 * (found.diagnostics["mean_degree"] + 1)
    for stage in ("graph", "components", "products", "laplacian"):
        assert stages[stage]["peak"] <= 2 * entries, stage
    vectors = 6000 * 20 * (8 + 5 * 4)  # of twenty pairs: X in float64, R, two kinds of directions and their images
    assert stages["eigenvectors"]["peak"] <= 2 * entries + 3 * vectors  # and what replaces them while they are turned


def test_the_order_in_space_takes_radix_sorts_and_no_wait(counted, cupy, monkeypatch, rng):
    """``lexsort`` is a merge sort through random reads, for each key; two stable sorts of one key give its order."""
    X = rng.random((3000, 3)).round(2)  # with equal numbers: the sorts must be stable
    expected = plain.kd_order(X, 6)
    monkeypatch.setattr(cupy, "lexsort", None)
    np.testing.assert_array_equal(plain.kd_order(cupy.asarray(X), 6).get(), expected)
    assert counted[1].by_stage["order"]["syncs"] == 0
