"""What ``tests/backend/test_cuda.py`` shows on the CPU, on a real GPU against the real CPU path.

``python -m pytest -m gpu`` runs these, and every test of the fixture ``backend`` on the device. With
``IES_GPU_EMULATED=1`` they run through CuPy on the CPU, so that they do not rot while nobody runs them.

Nobody has run these for us yet: we have no GPU. Please send what they say, with the output of ``ies-gpu doctor``.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import get_backend
from ies_gpu.backend.compare import TYPES, kernel_difference, tolerance
from ies_gpu.backend.kernels import plain
from ies_gpu.backend.kernels.cuda import launch
from ies_gpu.cli import selftest
from ies_gpu.errors import OutOfMemoryError
from ies_gpu.validation import check_points
from tests.backend.test_cuda import (  # noqa: F401 - collected here as well, with the real CuPy
    close,
    test_device_arrays_may_be_worked_on_by_the_cpu,
    test_steps_take_and_return_device_arrays_and_agree_with_the_cpu,
)
from tests.backends import SIZES, on_cpu, on_cuda, problem
from tests.comparison import assert_agreement

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kernel", TYPES)
def test_kernels_agree_with_plain_code(cupy, kernel):
    for types in TYPES[kernel]:
        assert kernel_difference(launch, cupy, kernel, types) <= tolerance(types), types


@pytest.mark.parametrize("m", [1, 7, 20, 33, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tangent_rows_of_many_sizes(m, dtype, cupy):
    rng = np.random.default_rng(m)
    counts = rng.integers(0, 200, 200)
    counts[:3] = 0, 1, 2
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    host = (
        indptr,
        rng.integers(0, 200, indptr[-1]).astype(np.int32),
        rng.random(indptr[-1]).astype(dtype),
        (rng.normal(size=(200, m)) * 0.9 ** np.arange(m)).astype(dtype),
        rng.permutation(200),
    )
    H = plain.cometric_rows(*host)
    values = plain.leading_eigenvectors(H, m)[1]
    scale = np.where(values[:, :1] > 0, values[:, :1], 1)
    tolerance = 1e-11 if dtype == "float64" else 1e-4
    for d in sorted({1, min(m, 3), min(m, 8)}):
        U, sigma = (a.get() for a in launch.tangent_rows(*(cupy.asarray(a) for a in host), d))
        assert (np.abs(sigma - values[:, :d]) / scale).max() < tolerance
        assert (np.abs(H @ U - U * sigma[:, None, :]) / scale[:, :, None]).max() < tolerance
        assert np.abs(U.transpose(0, 2, 1) @ U - np.eye(d)).max() < tolerance


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
    arguments = sizes | {"bandwidth": data.bandwidth}
    found = select_coordinates(data.X, device="cuda", **arguments)
    assert_agreement(found, select_coordinates(data.X, device="cpu", **arguments))
    assert found.subset == data.reference_subset


def test_device_arrays_stay_on_the_device(cupy):
    X, arguments = problem("D1", 1500)
    given = cupy.asarray(X)
    for chosen in ("cuda", "auto"):
        found = select_coordinates(given, device=chosen, **arguments)
        assert isinstance(found.coordinates, cupy.ndarray)
        close(found.score(found.subset), found.log_volumes.get())
        assert_agreement(found, on_cpu("D1", 1500))
    np.testing.assert_array_equal(given.get(), X)


def test_dense_graphs_run_as_tiles():
    X, arguments = problem("D7", 1100)
    arguments = arguments | {"memory_limit": 10 << 20, "n_components": 8}
    found = select_coordinates(X, device="cuda", **arguments)
    assert found.diagnostics["approximations"]
    arguments["memory_limit"] = 1 << 30
    assert_agreement(found, select_coordinates(X, device="cpu", **arguments))


@pytest.mark.parametrize("dtype", ["float32", "mixed"])
@pytest.mark.parametrize("name", SIZES)
def test_other_precisions_find_the_same_set(name, dtype):
    found = on_cuda(name, dtype=dtype)
    assert found.diagnostics["kernels"] == "cuda"
    assert found.subset == on_cpu(name).subset
    assert_agreement(found, on_cpu(name, dtype=dtype), 1e-6 if dtype == "mixed" else selftest.BOUNDS["whole, float32"])


def test_the_self_test_passes():
    reference, tested = selftest.sides("cuda")
    outcomes = list(selftest.compare(reference, tested, 1000))
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
    with pytest.raises(TypeError, match=r"requires grad.*\.detach\(\)"):
        select_coordinates(tensor.requires_grad_(), **arguments)


def test_little_memory_is_enough_or_is_said(cupy):
    """Limits of the pool from what the run takes downwards: either the same result, or an error with stage and size."""
    pool = cupy.get_default_memory_pool()
    expected = on_cpu("D1")
    outcomes = []
    try:
        for limit in (256, 64, 32, 16, 8, 4, 2, 1):
            pool.free_all_blocks()
            pool.set_limit(size=limit << 20)
            try:
                assert_agreement(on_cuda("D1"), expected)
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
    found = on_cuda("D1", 1500, device="cuda:1")
    assert cupy.cuda.runtime.getDevice() == 0
    assert found.diagnostics["device"] == "cuda:1"
    assert_agreement(found, on_cpu("D1", 1500))


def test_the_backend_knows_its_device():
    facts = get_backend("cuda").describe()
    assert facts["device"] == "cuda:0"
    assert facts["gpu"]
    assert facts["cupy"] == sys.modules["cupy"].__version__
