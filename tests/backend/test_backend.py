"""Every way in which CUDA can be out of order is told apart, in one sentence that says what to do; and steps.

They come from CuPy on the CPU, and from the real CuPy without a driver, in another process.
"""

import builtins
import ctypes
import errno
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from ies_gpu.backend import Step, active_backend, backend_of, call, get_backend, report, step
from ies_gpu.backend.base import current
from ies_gpu.backend.cuda import probe
from ies_gpu.findings import DeviceError, render
from tests.backends import each_device, needs_cupy, sent, to_host
from tests.real_cupy import plugged_in
from tests.said import refused


def look() -> tuple[str, str]:
    """Return code and detail of what ``probe``, "auto" and "cuda" make of the state of things, in the same words."""
    found = probe()
    assert not found.ok
    assert "\n" not in found.detail and ";" in found.detail and 40 < len(found.detail) < 400  # and a way out
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        backend = get_backend("auto")
        get_backend("auto")  # nobody is told twice
    assert backend.device == "cpu" and found.detail in backend.reason
    # whoever has no CuPy did not expect a GPU, and is not warned
    expected = [] if found.code == "not-installed" else [f"running on the CPU: {render(found.detail)}"]
    assert [str(w.message) for w in caught] == expected
    with pytest.raises(DeviceError) as error:
        get_backend("cuda")
    assert str(error.value) == f"device='cuda' cannot be used: {render(found.detail)}"
    return found.code, found.detail


def raising(error: BaseException):
    def refuse(*_, **__):
        raise error

    return refuse


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (ModuleNotFoundError("No module named 'cupy'", name="cupy"), "not-installed", "pip install 'ies-gpu[cuda12]'"),
        (ModuleNotFoundError("No module named 'cupy_backends'", name="cupy_backends"), "broken-install", "backends"),
        (ImportError("libcudart.so.12: cannot open shared object file"), "broken-install", "--force-reinstall"),
        (RuntimeError("numpy.core.multiarray failed to import\nsecond line"), "broken-install", "multiarray failed"),
    ],
)
def test_a_cupy_that_cannot_be_imported(error, code, word, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]:
        monkeypatch.delitem(sys.modules, name)
    refuse = raising(error)

    def without_cupy(original):
        return lambda name, *a, **k: refuse() if name.partition(".")[0] == "cupy" else original(name, *a, **k)

    monkeypatch.setattr(importlib, "import_module", without_cupy(importlib.import_module))
    monkeypatch.setattr(builtins, "__import__", without_cupy(builtins.__import__))
    found, detail = look()
    assert found == code and word in detail


ILLEGAL = RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
FULL = OSError(errno.ENOSPC, "No space left on device")
NO_NVRTC = RuntimeError("Failure finding libnvrtc.so")
UNKNOWN_CARD = RuntimeError("nvrtc: error: invalid value for --gpu-architecture (-arch)\n")  # what 12.9 says of sm_35


@needs_cupy
@pytest.mark.parametrize(
    ("where", "error", "code", "words"),
    [
        ("cupy.cuda.runtime getDeviceCount", 209, "device-too-old", ["too old"]),
        ("cupy.cuda.runtime getDeviceCount", 34, "driver-missing", ["stub"]),
        ("cupy.cuda.runtime getDeviceCount", 999, "failed", ["nvidia-smi"]),
        ("cupy.cuda.runtime getDeviceCount", 100, "no-device", ["no CUDA device", "CUDA_VISIBLE_DEVICES"]),
        ("cupy.cuda.runtime getDeviceCount", 803, "driver-mismatch", ["different versions", "reboot"]),
        ("cupy.cuda.runtime getDeviceCount", 35, "driver-too-old", ["supports CUDA 11.4, CuPy needs 1", "update"]),
        ("cupy.cuda.nvrtc getVersion", NO_NVRTC, "missing-library", ["libnvrtc", "cupy-cuda12x[ctk]"]),
        ("cupy.linalg eigh", ILLEGAL, "failed", ["cudaErrorIllegalAddress", "ies-gpu doctor"]),
        ("cupy exp", UNKNOWN_CARD, "device-too-old", ["too old", "cupy-cuda12x[ctk]"]),  # CUDA 13 on a V100
        ("cupy exp", 209, "device-too-old", ["too old"]),
        ("cupy exp", FULL, "no-cache", ["No space left on device", "CUPY_CACHE_DIR"]),
    ],
)
def test_a_device_that_cannot_be_used(where, error, code, words, machine, monkeypatch):
    module, name = where.split()
    place = cupy = sys.modules["cupy"]
    if isinstance(error, int):  # a status of CUDA, in the words of CuPy
        error = cupy.cuda.runtime.CUDARuntimeError(error)
    monkeypatch.setattr(cupy.cuda.runtime, "driverGetVersion", lambda: 11040)
    for part in module.split(".")[1:]:
        place = getattr(place, part)
    monkeypatch.setitem(vars(place), name, raising(error))
    found, detail = look()
    assert found == code and all(word in detail for word in words)


@needs_cupy
@pytest.mark.parametrize("function", ["eigh", "exp"])
def test_wrong_result(function, cupy, monkeypatch):
    module = cupy.linalg if function == "eigh" else cupy
    original = getattr(module, function)

    def wrong(*args):
        found = original(*args)
        (found[0] if isinstance(found, tuple) else found)[0] += 1
        return found

    monkeypatch.setitem(vars(module), function, wrong)
    assert look()[0] == "wrong-result"


@needs_cupy
def test_a_device_with_too_little_memory_and_one_that_works(monkeypatch):
    with plugged_in(limit=100 << 20):
        code, detail = look()
        assert code == "out-of-memory" and "256 MB" in detail
    with plugged_in():
        backend = get_backend("auto")
        assert backend.device == "cuda:0" and backend.reason == "CUDA device 0 (CPU in disguise) works"
        np.testing.assert_array_equal(backend.to_host(backend.asarray(np.arange(3))), np.arange(3))
        with refused("device.unusable", DeviceError):
            get_backend("cuda:3")
        monkeypatch.setenv("IES_GPU_DEVICE", "cpu")  # decides for "auto" only
        assert (get_backend("auto").device, get_backend("cuda").device) == ("cpu", "cuda:0")


def look_elsewhere(**settings: str) -> list[str]:
    ours = ("IES_GPU", "CUDA_VISIBLE")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    given = {"capture_output": True, "text": True, "cwd": Path(__file__).parents[2]}
    code = "import json; from tests.backend.test_backend import look; print(json.dumps(look()))"
    done = subprocess.run([sys.executable, "-c", code], env=environment | settings, **given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_cupy
def test_no_driver_at_all_and_a_cache_that_cannot_be_written_to(tmp_path):
    """CuPy 14.2 makes the folder for compiled kernels as it is imported: there is none in many containers."""
    (tmp_path / "file").touch()
    code, detail = look_elsewhere(CUPY_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert code == "no-cache" and "CUPY_CACHE_DIR" in detail and "reinstall" not in detail
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert look_elsewhere()[0] == "driver-missing"


@each_device
def test_components_agree_with_scipy(backend):
    rng = np.random.default_rng(0)
    path = scipy.sparse.diags([np.ones(299)], [1], shape=(300, 300))
    scattered = scipy.sparse.random(300, 300, density=0.004, random_state=rng)
    apart = scipy.sparse.csr_matrix((300, 300))
    for matrix in (path, scattered, apart):
        matrix = (matrix + matrix.T).tocsr()
        count, labels = scipy.sparse.csgraph.connected_components(matrix, directed=False)
        found, numbers = backend.connected_components(sent(matrix, backend))
        assert found == count
        pairs = set(zip(to_host(numbers).tolist(), labels.tolist(), strict=True))
        assert len(pairs) == count  # the same parts under other numbers


@step("counted", kernel="spmm", again=False)
def counted(X, twice=False):
    """Report every row of some points."""
    for row in range(len(X)):
        report(row + 1, len(X))
    return backend_of(X), current.get()


def test_a_step_works_on_the_backend_of_its_arrays_which_is_active():
    assert current.get() is None or current.get() is active_backend()
    home, active = call(counted, np.zeros((3, 2)), twice=True)
    assert home is active and active.device == "cpu"
    assert counted.step == Step("counted", kernel="spmm", again=False) and counted.__name__ == "counted"
