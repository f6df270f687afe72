"""The stand-in for CuPy has the names, signatures and deviations of the installed one, and counts what it promises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import deviations
from tests.backends import needs_cupy
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
        ("cupyx.scipy.sparse.linalg", "eigsh"),
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
        (lambda: cupy.nonzero(a), 12 * n),
        (lambda: block[:, :2].T @ block, 16 * n),
        (lambda: matrix @ matrix, 24 * n),
        (lambda: matrix @ block, 64 * n),
    ):
        machine.peak = before = machine.used
        call()
        assert machine.used == before
        assert machine.peak - before >= least


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
