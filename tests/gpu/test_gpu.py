"""What ``tests/backend/test_cuda.py`` shows on the CPU, on a real GPU against the real CPU path.

``python -m pytest -m gpu`` runs these, and every test of the fixture ``backend`` on the device. With
``IES_GPU_EMULATED=1`` they run through CuPy on the CPU, so that they do not rot while nobody runs them, but for those
of ``tests/backend`` and the self-test, which do so anyway.

Nobody has run these for us yet: we have no GPU. Please send what they say, with the output of ``ies-gpu doctor``.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import get_backend
from ies_gpu.backend.compare import TYPES, kernel_difference, tolerance
from ies_gpu.backend.kernels.cuda import launch
from ies_gpu.cli import selftest
from ies_gpu.findings import OutOfMemoryError
from ies_gpu.validation import check_points
from tests.backend.test_cuda import (  # noqa: F401 - collected here as well, for a real device
    test_arrays_on_the_device_are_seen_without_a_copy_and_results_join_them,
    test_dense_graphs_run_as_tiles,
    test_other_entries_run_on_the_device,
    test_the_largest_part_of_a_disconnected_graph,
)
from tests.backend.test_cuda_devices import COMPARED, assert_as_on_the_cpu, called
from tests.backend.test_tangents_and_scores import (  # noqa: F401
    test_leading_eigenpairs,
    test_scores_of_every_dimension_and_size,
)
from tests.backends import SIZES, on_cpu, on_cuda, problem
from tests.comparison import assert_agreement

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", COMPARED)
def test_functions_take_and_return_device_arrays_and_agree_with_the_cpu(cupy, name):
    assert_as_on_the_cpu(name, called(name, device="cuda:0"))


@pytest.mark.parametrize("kernel", TYPES)
def test_kernels_agree_with_plain_code(cupy, kernel):
    for types in TYPES[kernel]:
        assert kernel_difference(launch, cupy, kernel, types) <= tolerance(types), types


def test_totals_are_the_same_from_run_to_run(cupy):
    bases = np.linalg.qr(np.random.default_rng(0).normal(size=(20_000, 20, 2)))[0]
    sets = cupy.asarray(np.array([[0, k] for k in range(1, 20)], dtype=np.int32))
    runs = []
    for _ in range(3):
        totals, best, score = cupy.zeros(19), cupy.empty(20_000, dtype=cupy.int32), cupy.empty(20_000)
        launch.score_block(cupy.asarray(bases), sets, totals, best, score)
        runs.append(totals.get())
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


@pytest.mark.parametrize("name", SIZES)
def test_the_pipeline_agrees_with_the_cpu(name):
    found = on_cuda(name)
    assert found.diagnostics["kernels"] == "cuda"
    assert max(found.diagnostics["audit"].values()) < 1e-9
    assert_agreement(found, on_cpu(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_the_pipeline_agrees_with_the_cpu_at_full_size(name):
    data = datasets.load(name)
    sizes = {"intrinsic_dim": data.intrinsic_dim, "subset_size": data.subset_size}
    arguments = sizes | {"bandwidth": data.bandwidth, "tol": 1e-11}  # eigenvectors are as good as the gaps let them
    found = select_coordinates(data.X, device="cuda", **arguments)
    assert_agreement(found, select_coordinates(data.X, device="cpu", **arguments))
    assert found.subset == data.reference_subset


@pytest.mark.parametrize("dtype", ["float32", "mixed"])
@pytest.mark.parametrize("name", SIZES)
def test_other_precisions_find_the_same_set(name, dtype):
    found = on_cuda(name, dtype=dtype)
    assert found.diagnostics["kernels"] == "cuda"
    assert found.subset == on_cpu(name).subset
    assert_agreement(found, on_cpu(name, dtype=dtype), 1e-6 if dtype == "mixed" else selftest.BOUNDS["whole, float32"])


def test_the_self_test_passes():
    outcomes = list(selftest.compare(get_backend("cuda"), 1000))
    assert [outcome for outcome in outcomes if not outcome.ok] == []


def test_tensors_of_pytorch_are_seen_without_a_copy(cupy):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    X, arguments = problem("D1", 1500)
    tensor = torch.from_numpy(X).to("cuda")
    seen = check_points(tensor)
    assert seen.data.ptr == tensor.data_ptr()
    assert_agreement(select_coordinates(tensor, **arguments), on_cpu("D1", 1500))
    with pytest.raises((RuntimeError, TypeError), match="detach"):
        select_coordinates(tensor.requires_grad_(), **arguments)


def test_little_memory_is_enough_or_is_said(cupy):
    """Limits of the pool from what the run takes downwards: either the same result, or an error with stage and size."""
    pool = cupy.get_default_memory_pool()
    expected = on_cpu("D1", 700)
    outcomes = []
    try:
        for limit in (256, 32, 8, 2, 1):
            pool.free_all_blocks()
            pool.set_limit(size=limit << 20)
            try:
                assert_agreement(on_cuda("D1", 700), expected)
                outcomes.append(True)
            except OutOfMemoryError as error:
                assert "does not have enough memory for the stage" in str(error)
                outcomes.append(False)
            except RuntimeError as error:  # the probe's own test may not fit either
                assert "cannot be used" in str(error)
                outcomes.append(False)
    finally:
        pool.set_limit(size=0)
    assert outcomes[0]
    assert not outcomes[-1]
    assert outcomes == sorted(outcomes, reverse=True)


def test_the_second_device_and_the_current_one_restored(cupy):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one CUDA device only")
    found = on_cuda("D1", 700, device="cuda:1")
    assert cupy.cuda.runtime.getDevice() == 0
    assert found.diagnostics["device"] == "cuda:1"
    assert_agreement(found, on_cpu("D1", 700))


def test_the_backend_knows_its_device():
    facts = get_backend("cuda").describe()
    assert facts["device"] == "cuda:0"
    assert facts["gpu"]
    assert facts["cupy"] == sys.modules["cupy"].__version__
