"""What a reading of the CUDA path against the sources of CuPy 14.2 found, each as a test through CuPy.

Tests have the numbers of the findings.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections import Counter

import numpy as np
import pytest

import ies_gpu
from benchmarks.device_counts import stages_named
from benchmarks.problems import strip
from ies_gpu import select_coordinates
from ies_gpu.backend import backend_of, base, compare, get_backend
from ies_gpu.backend.array import column_ends, column_maxima, column_means, column_sums, column_units
from ies_gpu.backend.compare import TYPES
from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import text
from ies_gpu.errors import OutOfMemoryError
from ies_gpu.parameters.bandwidth import sampled_distances
from ies_gpu.parameters.dimension import local_spectrum
from ies_gpu.parameters.explained import points_at, unexplained_variance
from tests.backend.test_compare import quietly
from tests.backend.test_cuda_memory import Watch, small_run, undisturbed
from tests.backends import ask_for, needs_cupy, on_cpu, on_cuda, problem
from tests.comparison import assert_agreement
from tests.real_cupy import plugged_in

pytestmark = needs_cupy


def test_f1_the_device_of_real_arrays_is_found(cupy):
    sparse = importlib.import_module("cupyx.scipy.sparse")
    matrix = sparse.csr_matrix(cupy.eye(3))
    for array in (matrix.data, matrix):
        assert backend_of(array).device == "cuda:0"
        assert backend_of(array).owns(array)
    # F13: its parts may be set, columns of 32 bits beside ends of 64, which the constructor would not keep
    matrix.indptr = matrix.indptr.astype(cupy.int64)
    assert (matrix.nnz, matrix.indices.dtype, matrix.indptr.dtype) == (3, np.int32, np.int64)
    # but CuPy makes no other matrix of it, nor looks at its order
    with pytest.raises(ValueError, match="indices and indptr must have the same dtype"):
        _ = matrix.T
    matrix.has_canonical_format = True
    assert matrix.has_sorted_indices


@pytest.mark.parametrize("columns", [2, 12])  # by a tree, and by products
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
def test_f2_nearest_neighbours_do_not_depend_on_where_the_points_are(cupy, rng, columns, offset):
    X = rng.random((600, columns)) + offset
    X[300:310] = X[300]  # equal points, more than there are neighbours
    X[450:] -= 2 * offset  # and two groups far apart, of which no centre is near
    distances, _ = get_backend("cpu").nearest(X, 7)
    there = cupy.asarray(np.asfortranarray(X))  # CuPy's tree would read it as if rows lay one after the other
    found, numbers = (part.get() for part in get_backend("cuda").nearest(there, 7))
    np.testing.assert_allclose(found, distances, rtol=1e-12, atol=1e-9)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (numbers != np.arange(600)[:, None]).all()
    assert all(len(set(row)) == 7 for row in numbers.tolist())
    np.testing.assert_allclose(np.linalg.norm(X[:, None] - X[numbers], axis=2), distances, rtol=1e-12)


def test_f2_the_search_for_neighbours_sorts_no_row_of_all_points(cupy, rng, monkeypatch):
    sizes, original = [], cupy.argsort
    monkeypatch.setattr(cupy, "argsort", lambda a, axis=-1: (sizes.append(a.size), original(a, axis))[1])
    get_backend("cuda").nearest(cupy.asarray(rng.normal(size=(900, 12)) + 1e8), 5)  # off the origin: centred first
    assert sizes and max(sizes) < 2 * 900 * 5


def test_a_partition_that_fails_costs_no_neighbours(cupy, rng, monkeypatch):
    """In CuPy's kernel the threads of a warp hand each other numbers without a barrier, which GPUs since Volta may
    not forgive. A k-th number that is too low left rows with the neighbours of the next."""
    X, original = rng.normal(size=(400, 12)), cupy.partition
    expected, _ = get_backend("cpu").nearest(X, 6)
    monkeypatch.setattr(cupy, "partition", lambda a, kth, axis: original(a, 0, axis=axis) * 0.5)
    found, numbers = (part.get() for part in get_backend("cuda").nearest(cupy.asarray(X), 6))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X[:, None] - X[numbers], axis=2), expected, rtol=1e-12)
    monkeypatch.setattr(cupy, "argpartition", lambda a, kth, axis: cupy.argsort(-a, axis=axis))
    back = points_at(cupy.asarray(X[:9]), cupy.asarray(X), cupy.asarray(X), 5)
    np.testing.assert_allclose(back.get(), points_at(X[:9], X, X, 5), rtol=1e-12)


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


@pytest.mark.thorough
def test_f14_memory_errors_of_the_libraries_are_memory_errors():
    expected, seen, _ = undisturbed()
    stages = ("eigenvectors", "tangents", "search", "graph", "laplacian", "checks")
    for stage, error in zip(stages, library_errors(), strict=True):
        assert not isinstance(error, MemoryError)
        with plugged_in(pool=False) as machine:
            watch = Watch(machine, stage, number=-(-seen[stage] // 2))
            machine.refuse = lambda size, watch=watch, error=error: error if watch.refuse(size) else False
            found = small_run(watch)
        assert machine.counts["freed"] == 1, stage
        assert_agreement(found, expected, 1e-12)
    with (
        plugged_in(pool=False) as machine,
        pytest.raises(OutOfMemoryError, match="stage 'tangents': CUSPARSE_STATUS_ALLOC"),
    ):
        watch = Watch(machine, "tangents", above=0)
        machine.refuse = lambda size: library_errors()[3] if watch.refuse(size) else False
        small_run(watch)
    with plugged_in(pool=False) as machine, pytest.raises(RuntimeError, match="CUBLAS_STATUS_EXECUTION_FAILED"):
        watch = Watch(machine, "tangents", number=1)  # another error of the same class stays what it is
        other = type(library_errors()[0])(13)
        machine.refuse = lambda size: other if watch.refuse(size) else False
        small_run(watch)


def test_f4_without_memory_for_its_levels_the_multilevel_solver_gives_way_to_lanczos(machine, monkeypatch):
    """The levels take several times what P does, Lanczos 60 vectors."""

    def refuse(*_, **__):
        raise sys.modules["cupy.cuda.memory"].OutOfMemoryError(10**10, 10**9, 0)

    expected = on_cpu("D1", 1500)
    monkeypatch.setattr(plain, "merge_columns", refuse)
    ask_for(monkeypatch, "multilevel")
    found = on_cuda("D1", 1500)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "lanczos"
    assert "no memory for it: Out of memory allocating 10,000,000,000 bytes" in solver["fallback"]
    assert machine.counts["freed"] == 1
    assert_agreement(found, expected)


@pytest.mark.parametrize("entry", [{}, {"memory_limit": 10 << 20, "n_components": 5}])
def test_f5_a_library_that_cannot_solve_zero_matrices_costs_neither_kernels_nor_the_run(entry):
    """As reported of cuSOLVER's batched Jacobi method. The guard has a row without neighbours; dense graphs use it."""
    with plugged_in(jacobi="needs rank"):
        with cupyx_errstate("raise"), pytest.raises(np.linalg.LinAlgError, match="devInfo"):
            sys.modules["cupy"].linalg.eigh(sys.modules["cupy"].zeros((2, 3, 3)))
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
    assert_agreement(found, on_cpu("D7", 1100, **entry | {"memory_limit": 1 << 30}))


def cupyx_errstate(linalg):
    return sys.modules["cupyx"].errstate(linalg=linalg)


def test_f5_copies_of_one_point_have_no_local_spectrum(cupy, machine):
    """Their covariance is zero, of which cuSOLVER is said to make NaN."""
    machine.jacobi = "needs rank"
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 30, axis=0)
    spectra = [local_spectrum(Z, sampled_distances(Z, queries=20), 1e-3) for Z in (X, cupy.asarray(X))]
    np.testing.assert_array_equal(*spectra)
    assert np.isfinite(spectra[0]).all()


@pytest.mark.parametrize("failure", [np.linalg.LinAlgError("no convergence"), OutOfMemoryError("too little")])
def test_f5_an_audit_that_fails_does_not_end_a_sound_run(failure, machine, monkeypatch):
    def fails(*_):
        raise failure

    expected = on_cpu("D1", 700)
    monkeypatch.setattr(compare, "eigenpair_difference", fails)
    monkeypatch.setattr(compare, "kernel_difference", lambda *_: 0.0)
    found, said = quietly("D1", 700)
    assert said == [f"the kernel tangent_rows was not compared with plain code on sampled rows: {failure}"]
    assert found.diagnostics["kernels"] == "cuda"
    assert "tangent_rows" not in found.diagnostics["audit"]
    assert_agreement(found, expected)


# --- the findings that are about time and memory, F3 to F20, each by its number ---


@pytest.fixture
def without_pool():
    """Every array is an allocation of its own: sizes are known."""
    with plugged_in(pool=False) as machine:
        yield machine


@pytest.fixture(scope="module")
def counted():
    """One run by the multilevel method, with what every stage took; ``transfers`` and ``reductions`` of all of it."""
    X, bandwidth = strip(6000, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("IES_GPU_DEVICE", raising=False)
        with plugged_in(pool=False) as machine, stages_named(machine):
            kernels = get_backend("cuda").kernels  # known to agree: comparisons are not counted
            kernels.compared |= {" ".join(map(str, (name, *one))) for name, kinds in TYPES.items() for one in kinds}
            given = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "device": "cuda"}
            found = select_coordinates(X, n_components=8, **given)
            kept = machine.by_stage, dict(machine.counts), list(machine.transfers), list(machine.reductions)
    assert found.diagnostics["solver"]["method"] == "multilevel"
    return found, *kept


def test_f3_no_sum_over_the_points_has_fewer_than_32_blocks(counted):
    """The blocks of a sum over rows depend on the columns alone: what has few for 6,000 rows has few for a million."""
    few = [name for name, size, blocks in counted[4] if "sum" in name and size >= 8 * 2 * 6000 and blocks < 32]
    assert few == []


@pytest.mark.parametrize("k", [1, 2, 3, 20])
def test_f3_sums_maxima_and_spreads_of_columns(without_pool, rng, k):
    A, cupy = rng.normal(size=(20_001, k)), sys.modules["cupy"]
    there = cupy.asarray(A)
    for function in (column_sums, column_means, column_maxima, column_ends, column_units):
        found, expected = ((made,) if not isinstance(made, tuple) else made for made in (function(there), function(A)))
        for part, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(part.get(), other, rtol=1e-10, atol=1e-10)
    assert min(blocks for _, size, blocks in without_pool.reductions if size >= 8 * 20_000) >= 32
    without_pool.reductions.clear()
    unexplained_variance(cupy.asarray(rng.normal(size=(20_001, 3))), there[:, :3])
    # CuPy's search tree takes extremes of columns by one block, and nothing else does
    assert {name for name, size, blocks in without_pool.reductions if size >= 8 * 20_000 and blocks < 32} <= {
        "cupy_min", "cupy_max",
    }  # fmt: skip


def test_f6_signs_go_up_as_bits(counted):
    up = [size for way, size in counted[3] if way == "up" and size % 6000 == 0]
    assert max(up) <= 8 * 3 * 6000  # the points; drawn on the host, signs were 32 columns


def test_f7_f18_products_need_no_library_whose_sums_vary(counted, monkeypatch):
    """Every product is a kernel of ours; CuPy's matrices only carry the arrays."""
    assert counted[2]["kernel product_f32_f32"] > 50
    X, bandwidth = strip(900, 60)

    def refuse(*_, **__):
        raise AssertionError("a product by cuSPARSE")

    with plugged_in():
        for name in ("spmv", "spmm", "spgemm"):
            monkeypatch.setattr(sys.modules["cupyx.cusparse"], name, refuse)
        monkeypatch.setattr(plain, "spmm", plain.spmm)
        points, given = sys.modules["cupy"].asarray(X), {"n_components": 5, "tol": 1e-10}
        with pytest.MonkeyPatch.context() as patch:  # the guard and the audit compare with it
            patch.setattr(compare, "kernel_difference", lambda *_: 0.0)
            patch.setattr(compare, "product_difference", lambda *_: 0.0)
            laplacian = ies_gpu.laplacian_of_points(points, bandwidth=bandwidth)
            runs = [ies_gpu.diffusion_map(laplacian, **given).coordinates.get() for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_f8_degrees_are_sampled_by_one_launch(counted):
    sampling = counted[1]["neighbours"]
    assert sampling["kernel degrees"] == 1
    assert sampling["syncs"] <= 12


def test_f4_f9_no_stage_holds_more_than_the_matrix_twice(counted):
    """Merging columns took 44 to 50 bytes per entry, components 32; the entries themselves are 12."""
    found, stages = counted[0], counted[1]
    entries = 12 * 6000 * (found.diagnostics["mean_degree"] + 1)
    for stage in ("graph", "components", "products", "laplacian"):
        assert stages[stage]["peak"] <= 2 * entries, stage
    vectors = 6000 * 20 * (8 + 5 * 4)  # of twenty pairs: X in float64, R, two kinds of directions and their images
    assert stages["eigenvectors"]["peak"] <= 2 * entries + 3 * vectors  # and what replaces them while they are turned


def test_f4_merging_takes_no_more_than_its_result(without_pool):
    """A general sparse product would copy the matrix and keep all products before they are added up."""
    n, width, machine, cupy = 4000, 40, without_pool, sys.modules["cupy"]
    indptr, weights = cupy.arange(0, n * width + 1, width), cupy.ones(n, dtype=cupy.float32)
    indices = cupy.asarray((np.arange(n)[:, None] // 2 + np.arange(width)).ravel().astype(np.int32))
    entries, starts = cupy.ones(n * width, dtype=cupy.float32), cupy.arange(0, n + 1, 8)
    kernels = get_backend("cuda").kernels
    assert kernels.trusted("merge_columns") and kernels.trusted("merge_rows")
    before = machine.peak = machine.used
    merged = kernels.merge_columns(indptr, indices, entries, starts, weights)
    smaller = kernels.merge_rows(*merged, starts, weights, n // 8)
    taken = sum(part.nbytes for part in (*merged, *smaller)) + 40 * n  # counts, their sums and labels
    assert machine.peak - before <= taken < 0.6 * (indices.nbytes + entries.nbytes)


def test_f10_a_kernel_is_compiled_alone():
    for name, entries in text.ENTRIES.items():
        for entry in entries:
            lines = [line for line in text.source(name, entry).splitlines() if line in entries.values()]
            assert lines == [entries[entry]]


def test_f11_restriction_is_no_difference_of_running_sums(cupy):
    """In float32 those lose what is small beside all rows before it."""
    n = 20_000
    R = np.ones((n, 1), dtype=np.float32)
    R[: n // 2] = 1e6
    starts, weights = np.arange(0, n + 1, 4), np.ones(n, dtype=np.float32)
    found = get_backend("cuda").kernels.restrict(*(cupy.asarray(part) for part in (starts, weights, R))).get()
    np.testing.assert_array_equal(found[-n // 8 :], 4)


def test_f12_f17_blocks_of_tangents_are_those_of_the_kernel_or_of_plain_code(cupy):
    kernels = get_backend("cuda").kernels
    assert kernels.tangent_bytes(20, 2, 2000) == kernels.tangent_bytes(20, 2, 10) < 1000
    assert kernels.tangent_bytes(65, 2, 2000) == plain.tangent_bytes(65, 2, 2000)  # F17: beyond the kernel's sizes


@pytest.mark.parametrize("solver", ["lanczos", "multilevel"])
def test_f13_many_entries_have_short_columns_that_are_never_copied(solver, monkeypatch):
    """From 2^31 entries on, here from 1,000: a library wants 64 bits for both arrays of indices, our kernels do not."""
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    ask_for(monkeypatch, solver)
    expected = on_cpu("D1", 1500, dtype="mixed")
    monkeypatch.setattr(base, "WIDE", 1000)
    sizes: Counter = Counter()
    seen = set()

    def spoil(name, values):
        if name.startswith(("product", "scaled", "smallest_label", "tangent_rows")):
            seen.add((values[0].dtype.name, values[2].dtype.name))

    with plugged_in(spoil=spoil, pool=False, refuse=lambda size: sizes.update([size])):
        found = on_cuda("D1", 1500, dtype="mixed")
        entries = int(1500 * (found.diagnostics["mean_degree"] + 1))
        X = sys.modules["cupy"].asarray(problem("D1", 1500)[0])
        there = ies_gpu.laplacian_of_points(X, bandwidth=0.7).transition
    assert found.diagnostics["solver"]["method"] == solver
    assert ("int64", "int32") in seen and all(columns == "int32" for _, columns in seen)
    assert (there.indptr.dtype, there.indices.dtype) == (np.int64, np.int32)
    assert sizes[4 * entries] <= 8  # columns, distances, S; a copy for each product would be hundreds
    assert_agreement(found, expected, 1e-6)


def test_f13_matrices_of_many_entries_can_be_given_back(cupy, monkeypatch):
    """CuPy's own functions refuse columns of 32 bits beside ends of 64; a user meets them in what we returned."""
    X = cupy.asarray(on_cpu_points())
    steps = {"n_components": 6, "intrinsic_dim": 2, "subset_size": 2}
    expected = in_steps(X, **steps)
    monkeypatch.setattr(base, "WIDE", 1000)
    graph = ies_gpu.radius_graph(X, radius=3.6)
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
    with pytest.raises(TypeError, match="Type is mismatched"):
        _ = graph.has_canonical_format
    for found, wanted in zip(in_steps(X, **steps), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def on_cpu_points() -> np.ndarray:
    """400 points of D1 and ten far away from them, which are a component of their own."""
    X = problem("D1", 400)[0]
    return np.concatenate([X, X[:10] + 100])


def in_steps(X, **options) -> list[np.ndarray]:
    """What the public functions make of each other's matrices."""
    near, given = X[:400], {"bandwidth": 1.2}
    graph = ies_gpu.radius_graph(near, radius=3.6)
    kernel = ies_gpu.gaussian_kernel(graph, **given)
    laplacian = ies_gpu.graph_laplacian(kernel, **given)
    apart = ies_gpu.gaussian_kernel(ies_gpu.radius_graph(X, radius=3.6), **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ies_gpu.IESWarning)
        runs = [
            select_coordinates(graph=graph, **given, **options),
            select_coordinates(kernel=kernel, **given, **options),
            select_coordinates(kernel=apart, **given, **options, disconnected="largest"),
            select_coordinates(graph=graph, device="cpu", **given, **options),
        ]
    found = ies_gpu.diffusion_map(laplacian, n_components=6)
    return [
        laplacian.scaled.toarray().get(),
        ies_gpu.cometric(found.coordinates, laplacian.matrix).get(),
        found.eigenvalues.get(),
        *(np.asarray(run.regret_percentiles) for run in runs),
    ]


def test_f15_the_order_in_space_takes_radix_sorts(counted, cupy, monkeypatch, rng):
    """``lexsort`` is a merge sort through random reads, for each key; two stable sorts of one key give its order."""

    def refuse(*_):
        raise AssertionError("lexsort")

    X = rng.random((3000, 3)).round(2)  # with equal numbers: the sorts must be stable
    expected = plain.kd_order(X, 6)
    monkeypatch.setattr(cupy, "lexsort", refuse)
    np.testing.assert_array_equal(plain.kd_order(cupy.asarray(X), 6).get(), expected)
    assert counted[1]["order"]["syncs"] == 0


def test_f16_boxes_are_compared_on_the_device(counted):
    graph = counted[1]["graph"]
    assert graph["downloads"] + graph["syncs"] <= 12
    assert graph["down"] < 6000  # bytes: not even the boxes


def test_a_run_waits_three_hundred_times_at_most(counted):
    found, stages, counts = counted[:3]
    solver = found.diagnostics["solver"]
    assert counts["syncs"] <= 300
    # each level iterates, with two transfers per iteration: the inner products and the lengths of the residuals
    assert stages["eigenvectors"]["syncs"] <= 40 + 2 * solver["iterations"] * (1 + len(solver["coarse_sizes"]))
