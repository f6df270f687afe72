"""The stand-in for CuPy has the names, signatures and deviations of the installed one, and counts what it promises."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ies_gpu.backend.kernels.cuda import text
from tests import deviations
from tests.backends import needs_cupy
from tests.cuda_emulator import missing as emulator_missing
from tests.deviations import *  # noqa: F403 - the same facts as in tests/gpu
from tests.fake_cupy import REAL, arrays, sparse, standing_in

pytestmark = needs_cupy
SEARCHES = ("greedy", "submodular", "branch_and_bound")


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
        ("cupyx.scipy.sparse.csgraph", "connected_components"),
    ):
        ours, real = getattr(sys.modules[module], name), getattr(REAL[module], name)
        assert list(arrays.signature_of(ours).parameters) == list(arrays.signature_of(real).parameters), name


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
    for wait in (lambda: cupy.repeat(a, a), lambda: cupy.bincount(a)):  # both look at the largest count and the length
        before = machine.counts["syncs"]
        wait()
        assert machine.counts["syncs"] == before + 2


def test_launches_are_counted_and_views_cost_none(cupy, machine):
    a = cupy.ones((6, 4))
    before = machine.counts["launches"]
    a[1:3].T.reshape(2, 4).ravel()[None]  # one copy: the transpose has no reshape as a view
    assert machine.counts["launches"] == before + 1
    before = machine.counts["launches"], machine.counts["moved"]
    a += a * 2.0
    assert machine.counts["launches"] == before[0] + 2
    assert machine.counts["moved"] == before[1] + 5 * a.nbytes  # the operands that are arrays, and the result
    before = machine.counts["launches"]
    a[:, :2] @ a[:2]  # a slice of columns is copied for cuBLAS
    assert machine.counts["launches"] == before + 2


def test_temporaries_inside_functions_take_memory(cupy, machine):
    n = 1 << 16
    a, times = cupy.ones(n), cupy.ones(n, dtype=cupy.int64)
    matrix = sparse.csr_matrix((a, cupy.arange(n, dtype=cupy.int32), cupy.arange(n + 1, dtype=cupy.int32)), (n, n))
    matrix.has_canonical_format = True
    block = cupy.ones((n, 4))
    for call, least in (
        (lambda: cupy.repeat(a, times), 24 * n),  # the result, and two arrays of numbers
        (lambda: cupy.argsort(a), 24 * n),
        (lambda: cupy.lexsort(cupy.stack([a, a])), 32 * n),  # beside the stack: a copy of the keys, two of the numbers
        (lambda: cupy.lexsort((a, a)), 24 * n),
        (lambda: cupy.unique(a), 36 * n),
        (lambda: cupy.add.reduceat(block, cupy.arange(0, n, 2)), 3 * 32 * n),
        (lambda: cupy.asfortranarray(block), 32 * n),
        (lambda: block[:, :2].get(), 16 * n),
        (lambda: cupy.nonzero(a), 12 * n),
        (lambda: block[:, :2].T @ block, 16 * n),
        (lambda: matrix @ matrix, 24 * n),
        (lambda: matrix @ block, 64 * n),
    ):
        machine.peak = before = machine.used
        call()
        assert machine.used == before
        assert machine.peak - before >= least


def test_ufuncs_give_c_order_whatever_they_take(cupy):
    """NumPy keeps the order of its operands; code that relies on it would hand a kernel columns for rows."""
    columns = cupy.asfortranarray(cupy.ones((3, 2)))
    for made in (columns + 1, -columns, columns * columns, cupy.sqrt(columns), cupy.where(columns > 0, columns, 0)):
        assert made.flags.c_contiguous and not made.flags.f_contiguous
    assert (columns + 1).sum().shape == ()
    assert columns.astype(cupy.float32).flags.f_contiguous


def test_places_in_a_matrix_are_columns_of_one_array(cupy):
    i, j = cupy.nonzero(cupy.eye(3))
    assert not i.flags.c_contiguous and not j.flags.c_contiguous
    assert i.get().tolist() == j.get().tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="C-contiguous"):
        cupy.RawKernel("", "totals")((1,), (1,), (i,))
    assert [part.get().tolist() for part in cupy.where(cupy.arange(3) > 0)] == [[1, 2]]


def test_sums_of_cells_have_the_rounding_of_running_sums(cupy):
    a, starts = np.ones(4096, dtype=np.float32), np.array([0, 5, 5, 2050, 2053])
    a[0] = 1e8
    found = cupy.add.reduceat(cupy.asarray(a), cupy.asarray(starts)).get()
    assert found[1] == 1  # an empty cell is its first entry, as in NumPy
    assert found[3] != np.add.reduceat(a, starts)[3] == 3
    exact = np.add.reduceat(a.astype(float), starts)
    np.testing.assert_allclose(cupy.add.reduceat(cupy.asarray(a.astype(float)), cupy.asarray(starts)).get(), exact)


def test_a_partition_is_no_sort(cupy, rng):
    a = rng.random((4, 9))
    parts = cupy.argpartition(cupy.asarray(a), 3, axis=1).get()
    assert (np.sort(parts, axis=1) == np.arange(9)).all()
    chosen = np.take_along_axis(a, parts, axis=1)
    assert (chosen[:, :3] < chosen[:, 3:4]).all() and (chosen[:, 4:] > chosen[:, 3:4]).all()
    assert (np.diff(chosen[:, :3], axis=1) < 0).all() and (np.diff(chosen[:, 4:], axis=1) < 0).all()


def test_what_a_sparse_matrix_costs(cupy, machine):
    """A constructor reads the ends of ``indptr``, and of arrays with 64 bits the extremes; methods are launches too."""
    n = 100
    for kind, waits in ((cupy.int32, 1), (cupy.int64, 5)):
        before = machine.counts["syncs"]
        made = sparse.csr_matrix((cupy.ones(n), cupy.arange(n, dtype=kind), cupy.arange(n + 1, dtype=kind)), (n, n))
        assert machine.counts["syncs"] - before == waits
        assert made.indices.dtype == made.indptr.dtype == cupy.int32
    for call in (made.copy, made.diagonal, made.sum, lambda: abs(made), lambda: made + made, made.tocsc, made.toarray):
        before = machine.counts["launches"]
        call()
        assert machine.counts["launches"] > before
    before = machine.counts["launches"]
    assert made.T.nnz == n and machine.counts["launches"] == before  # the same arrays, read by columns


def test_chosen_columns_come_in_no_order_and_products_are_said_to_be_sorted(cupy, machine):
    dense = np.arange(1.0, 13).reshape(3, 4)
    made = sparse.csr_matrix(cupy.asarray(dense))
    chosen = made[:, cupy.asarray([0, 2, 3])]
    assert not chosen.has_sorted_indices
    np.testing.assert_array_equal(chosen.toarray().get(), dense[:, [0, 2, 3]])
    product = made @ sparse.csr_matrix(cupy.asarray(dense.T))
    before = machine.counts["syncs"]
    assert product.has_canonical_format and product.has_sorted_indices
    assert machine.counts["syncs"] == before
    np.testing.assert_allclose(product.toarray().get(), dense @ dense.T)


def test_every_operation_on_an_array_of_another_device_is_refused():
    with standing_in(n_devices=2):
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            a, numbers = cupy.ones((4, 4)), cupy.arange(4)
            matrix = sparse.csr_matrix(cupy.eye(4))
        here = cupy.ones((4, 4))
        for call in (
            lambda: a + 1, lambda: -a, lambda: here * a, lambda: a @ here, lambda: here @ a, lambda: a.sum(),
            lambda: cupy.sum(a), lambda: cupy.sqrt(a), lambda: cupy.concatenate([here, a]), lambda: a[numbers],
            lambda: here[numbers], lambda: a.__setitem__(0, 1.0), lambda: here.__setitem__(0, a[0]),
            lambda: cupy.nonzero(a), lambda: cupy.argsort(a), lambda: a.argsort(), lambda: a.astype(cupy.float32),
            lambda: cupy.linalg.eigh(a), lambda: cupy.linalg.norm(a), lambda: cupy.linalg.solve(a, a),
            lambda: cupy.repeat(numbers, numbers), lambda: cupy.add.reduceat(a, numbers), lambda: cupy.where(a > 0),
            lambda: matrix @ here, lambda: matrix.copy(), lambda: matrix.sum(axis=1), lambda: matrix + matrix,
            lambda: matrix.diagonal(), lambda: cupy.RawKernel("", "totals")((1,), (1,), (a,)),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="device must be same"):
                call()
        assert a[1:].T.shape == (4, 3)  # views and copies to the host are free
        assert a.get().sum() == 16


def test_failures_of_cusolver_are_heard_only_if_asked_for(cupy, machine):
    machine.jacobi = "needs rank"
    zeros, errstate = cupy.zeros((3, 2, 2)), sys.modules["cupyx"].errstate
    assert np.isnan(cupy.linalg.eigvalsh(zeros).get()).all()
    before = machine.counts["syncs"]
    with errstate(linalg="raise"):
        with pytest.raises(np.linalg.LinAlgError, match="devInfo"):
            cupy.linalg.eigh(zeros)
        cupy.linalg.solve(cupy.eye(2), cupy.ones(2))
    assert machine.counts["syncs"] == before + 2  # each looks at what the library says, on the device


def test_reductions_have_the_blocks_of_threads_that_cupy_gives_them(cupy, machine):
    tall = cupy.ones((4096, 32))
    tall.sum(axis=1), cupy.sum(tall), tall.max()  # CUB's
    assert machine.reductions == []
    tall.sum(axis=0), cupy.linalg.norm(tall, axis=0), cupy.asfortranarray(tall).sum(axis=1)
    assert [blocks for _, blocks in machine.reductions] == [1, 1, 128]


def test_counts_are_kept_by_stage(cupy, machine):
    machine.stage = "graph"
    float(cupy.ones(1000).sum())
    machine.stage = "kernel"
    cupy.asarray([1.0, 2.0]).get()
    graph, kernel = machine.by_stage["graph"], machine.by_stage["kernel"]
    assert (graph["syncs"], graph["uploads"], kernel["syncs"], kernel["uploads"]) == (1, 0, 1, 1)
    assert graph["peak"] >= 8000
    assert kernel["down"] == kernel["up"] == 16


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


@pytest.mark.skipif(bool(emulator_missing()), reason="types are read from the kernels' text, by g++")
def test_kernels_refuse_arguments_of_other_types(cupy):
    """A kernel takes the bytes for what its text says; neither CuPy nor CUDA looks."""
    kernel = text.load_kernel("csr", "turn")
    R, P, left = cupy.zeros((5, 3), dtype="float32"), cupy.zeros((5, 3), dtype="float32"), cupy.ones(3)
    sizes = np.int64(15), np.int32(3)
    kernel((1,), (128,), (R, P, left, left, *sizes))
    for wrong in (
        (R, P.astype("float64"), left, left, *sizes),
        (R, P, left, left.astype("float32"), *sizes),
        (R, P, left, left, np.int32(15), np.int32(3)),
        (R, P, left, np.float64(1), *sizes),
        (R, P, left, left, *sizes, np.int32(0)),
    ):
        with pytest.raises(TypeError, match=r"parameter \d of turn is|turn has 6 parameters"):
            kernel((1,), (128,), wrong)
    with pytest.raises(TypeError, match="parameter 2 of turn is double"):
        kernel((1,), (128,), (R, P, R, left, *sizes))
