"""What a reading of the CUDA path against the sources of CuPy found, each as a test on the stand-in."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import ies_gpu
from benchmarks.device_counts import stages_named
from benchmarks.problems import strip
from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import backend_of, get_backend
from ies_gpu.backend.guard import GUARDED
from ies_gpu.backend.kernels import agreement, plain
from ies_gpu.backend.kernels.cuda import text
from ies_gpu.errors import OutOfMemoryError
from ies_gpu.parameters.bandwidth import sampled_distances
from ies_gpu.parameters.dimension import local_spectrum
from tests.backend.test_cuda_faults import SEARCHES, quietly
from tests.backend.test_cuda_memory import Watch, small_run, undisturbed
from tests.backends import needs_cupy, on_cpu, on_cuda
from tests.comparison import assert_agreement
from tests.fake_cupy import REAL, arrays, sparse, standing_in

pytestmark = needs_cupy


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

    expected = on_cpu("D1", 1500)
    monkeypatch.setattr(plain, "merge_columns", refuse)
    monkeypatch.setattr(ies_gpu.embedding.eigensolvers.eigenpairs, "prefers_multilevel", lambda *_: True)
    found = on_cuda("D1", 1500)
    solver = found.diagnostics["solver"]
    assert solver["method"] == "lanczos"
    assert "no memory for it: Out of memory allocating 10,000,000,000 bytes" in solver["fallback"]
    assert machine.counts["freed"] == 1
    assert_agreement(found, expected)


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
    assert_agreement(found, on_cpu("D7", 1100, **entry | {"memory_limit": 1 << 30}))


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


# --- the findings that are about time and memory, F3 to F20, each by its number ---


@pytest.fixture(scope="module")
def counted():
    """One run by the multilevel method, with what every stage took; ``transfers`` and ``reductions`` of all of it."""
    X, bandwidth = strip(6000, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("IES_GPU_DEVICE", raising=False)
        with standing_in() as machine, stages_named(machine):
            given = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "device": "cuda"}
            found = select_coordinates(X, n_components=8, **given)
            kept = machine.by_stage, dict(machine.counts), list(machine.transfers), list(machine.reductions)
    assert found.diagnostics["solver"]["method"] == "multilevel"
    return found, *kept


def test_f3_no_sum_over_the_points_has_fewer_than_32_blocks(counted):
    """The blocks of a sum over rows depend on the columns alone: what has few for 6,000 rows has few for a million."""
    few = [shape for shape, blocks in counted[4] if len(shape) == 2 and shape[0] >= 6000 and blocks < 32]
    assert few == []


def test_f6_signs_go_up_as_bits(counted):
    up = [shape for way, shape in counted[3] if way == "up" and shape[0] == 6000]
    assert max(np.prod(shape) for shape in up) <= 3 * 6000  # the points; drawn on the host, signs were 32 columns


def test_f7_f18_products_need_no_library_whose_sums_vary(counted, monkeypatch):
    """Every product is a kernel of ours; CuPy's matrices only carry the arrays."""
    assert counted[2]["kernel product_f32_f32"] > 50
    X, bandwidth = strip(900, 60)

    def refuse(*_):
        raise AssertionError("a product by cuSPARSE")

    with standing_in():
        monkeypatch.setattr(sparse.compressed, "__matmul__", refuse)
        monkeypatch.setattr(plain, "spmm", plain.spmm)
        points, given = sys.modules["cupy"].asarray(X), {"n_components": 5, "tol": 1e-10}
        with pytest.MonkeyPatch.context() as patch:  # the guard and the audit compare with it
            patch.setattr(agreement, "spmm", lambda *_: 0.0)
            laplacian = ies_gpu.laplacian_of_points(points, bandwidth=bandwidth)
            runs = [ies_gpu.diffusion_map(laplacian, **given).coordinates.get() for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_f8_degrees_are_sampled_by_one_launch(counted):
    checks = counted[1]["checks"]
    assert checks["kernel degrees"] == 2  # the guard's and ours
    assert checks["syncs"] <= 12


def test_f4_f9_no_stage_holds_more_than_the_matrix_twice(counted):
    """Merging columns took 44 to 50 bytes per entry, components 32; the entries themselves are 12."""
    found, stages = counted[0], counted[1]
    entries = 12 * 6000 * (found.diagnostics["mean_degree"] + 1)
    for stage in ("graph", "components", "laplacian"):
        assert stages[stage]["peak"] <= 2 * entries, stage
    vectors = 6000 * 8 * 2 * 2 * 20  # W and SW of twenty pairs, twice as wide
    assert stages["eigenvectors"]["peak"] <= 2 * entries + 2 * vectors


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


def test_f12_blocks_of_tangents_are_those_of_the_kernel(cupy):
    kernels = get_backend("cuda").kernels
    assert kernels.tangent_bytes(20, 2, 2000) == kernels.tangent_bytes(20, 2, 10) < 1000
    assert kernels.tangent_bytes(65, 2, 2000) == plain.tangent_bytes(65, 2, 2000)  # F17: beyond the kernel's sizes


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


def test_estimators_and_models_work_where_their_points_live(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    pytest.importorskip("sklearn")
    from ies_gpu import DiffusionMap, IndependentCoordinates

    X = datasets.load("D1", n_samples=400).X
    given = {"bandwidth": 1.2, "n_components": 6}
    with standing_in(n_devices=2) as machine:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            points = cupy.asarray(X)
        chosen = select_coordinates(points, intrinsic_dim=2, subset_size=2, **given)
        assert devices_in(chosen.coordinates) == {1}
        assert devices_in(chosen.embedding) == {1}
        assert machine.current == 0
        model = ies_gpu.model_of(chosen, points)
        assert devices_in(model.transform(points[:7])) == {1}
        assert machine.current == 0
        for estimator in (DiffusionMap(**given), IndependentCoordinates(intrinsic_dim=2, subset_size=2, **given)):
            assert devices_in(estimator.fit_transform(points)) == {1}
            assert devices_in(estimator.transform(points[:7])) == {1}
            assert machine.current == 0
