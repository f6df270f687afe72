"""Every way in which CUDA can be out of order is told apart, in one sentence that says what to do.

Failures of the driver come from a driver of our own that has nothing to offer, seen by CuPy in another process;
failures of CuPy and of the device come from CuPy on the CPU.
"""

from __future__ import annotations

import builtins
import errno
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from ies_gpu.backend import get_backend
from ies_gpu.backend.cuda import probe
from ies_gpu.errors import DeviceError
from ies_gpu.findings import render
from tests.backends import needs_cupy
from tests.real_cupy import plugged_in

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="the fake driver is compiled with gcc")
SCRIPT = """
import json, warnings
from ies_gpu.errors import DeviceError
from ies_gpu.backend import get_backend
from ies_gpu.backend.cuda import probe
found = probe()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    backend = get_backend("auto")
try:
    get_backend("cuda")
    refused = ""
except DeviceError as error:
    refused = str(error)
print(json.dumps([found[:3], backend.device, backend.reason, [str(w.message) for w in caught], refused]))
"""


def check_sentence(sentence: str) -> None:
    """One line that names a way out after a semicolon."""
    assert "\n" not in sentence
    assert len(sentence.split(";")) >= 2, sentence
    assert 40 < len(sentence) < 400


def check_choice(code: str, *words: str) -> None:
    """What ``probe``, ``auto`` and ``cuda`` make of the state of things."""
    found = probe()
    assert (found.ok, found.code) == (False, code)
    check_sentence(found.detail)
    for word in words:
        assert word in found.detail
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        backend = get_backend("auto")
    assert backend.device == "cpu"
    assert found.detail in backend.reason
    # whoever has no CuPy did not expect a GPU, and is not warned
    expected = [] if code == "not-installed" else [f"running on the CPU: {render(found.detail)}"]
    assert [str(w.message) for w in caught] == expected
    with warnings.catch_warnings():  # nor is anybody told twice
        warnings.simplefilter("error")
        get_backend("auto")
    with pytest.raises(DeviceError) as refused:
        get_backend("cuda")
    assert str(refused.value) == f"device='cuda' cannot be used: {render(found.detail)}"


@pytest.fixture
def no_environment(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)


@pytest.fixture
def machine(no_environment):
    with plugged_in() as made:
        yield made


def without_cupy(monkeypatch, error: Exception) -> None:
    """Make ``import cupy`` raise."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]:
        monkeypatch.delitem(sys.modules, name)
    original, plain_import = importlib.import_module, builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "cupy":
            raise error
        return original(name, *args, **kwargs)

    def refuse_statement(name, *args, **kwargs):
        if name.partition(".")[0] == "cupy":
            raise error
        return plain_import(name, *args, **kwargs)

    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.setattr(builtins, "__import__", refuse_statement)


def test_not_installed(no_environment, monkeypatch):
    without_cupy(monkeypatch, ModuleNotFoundError("No module named 'cupy'", name="cupy"))
    check_choice("not-installed", "pip install 'ies-gpu[cuda12]'")


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'cupy_backends'", name="cupy_backends"),
        ImportError("libcudart.so.12: cannot open shared object file"),
        RuntimeError("numpy.core.multiarray failed to import\nsecond line"),
    ],
)
def test_broken_install(error, no_environment, monkeypatch):
    without_cupy(monkeypatch, error)
    check_choice("broken-install", str(error).splitlines()[0], "--force-reinstall")


def without_cusparse(monkeypatch) -> None:
    """CuPy loads the library when it is first asked for."""
    cuda = sys.modules["cupy"].cuda

    def refuse(key):
        raise ImportError(f"lib{key}.so.12: cannot open shared object file")

    monkeypatch.delitem(vars(cuda), "cusparse")
    monkeypatch.setattr(cuda, "__getattr__", refuse)


@needs_cupy
def test_missing_libraries(machine, monkeypatch):
    cuda = sys.modules["cupy"].cuda

    def missing_nvrtc():
        raise RuntimeError("Failure finding libnvrtc.so")

    with monkeypatch.context() as patch:
        patch.setattr(cuda.nvrtc, "getVersion", missing_nvrtc)
        check_choice("missing-library", "libnvrtc", "cupy-cuda12x[ctk]")
    without_cusparse(monkeypatch)
    check_choice("missing-library", "libcusparse", "cupy-cuda12x[ctk]")


@needs_cupy
@pytest.mark.parametrize("function", ["eigh", "exp", "repeat"])
def test_wrong_result(function, machine, monkeypatch):
    cupy = sys.modules["cupy"]
    module = cupy.linalg if function == "eigh" else cupy
    original = getattr(module, function)

    def wrong(*args):
        found = original(*args)
        (found[0] if isinstance(found, tuple) else found)[0] += 1
        return found

    monkeypatch.setitem(vars(module), function, wrong)
    check_choice("wrong-result", "computes wrongly", "check the hardware")


@needs_cupy
def test_too_little_memory(no_environment):
    with plugged_in(limit=100 << 20):
        check_choice("out-of-memory", "MB free", "256 MB", "close other programs")


@needs_cupy
def test_no_such_device(machine):
    with pytest.raises(DeviceError, match="there is no CUDA device 3; the numbers go from 0 to 0"):
        get_backend("cuda:3")


@needs_cupy
def test_a_first_call_that_fails(machine, monkeypatch):
    def refuse(*args):
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    monkeypatch.setitem(vars(sys.modules["cupy"].linalg), "eigh", refuse)
    check_choice("failed", "cudaErrorIllegalAddress", "ies-gpu doctor")


@needs_cupy
@pytest.mark.parametrize("who", ["compiler", "library"])
def test_a_gpu_that_is_too_old_shows_in_the_first_kernel(who, machine, monkeypatch):
    """CUDA 13 on a V100; the text is what NVRTC 12.9 says of sm_35."""
    runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    unknown = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
    compiling = sys.modules["cupy.cuda.compiler"].CompileException(unknown, "", "kernel.cu", ())
    error = {"compiler": compiling, "library": runtime.CUDARuntimeError(209)}[who]

    def refuse(*args):
        raise error

    monkeypatch.setitem(vars(sys.modules["cupy"]), "stack", refuse)
    check_choice("device-too-old", "too old", "cupy-cuda12x[ctk]")


@needs_cupy
@pytest.mark.parametrize("wheel", ["cupy-cuda12x", "cupy-cuda13x"])
def test_advice_names_the_package_that_is_installed(wheel, machine, monkeypatch):
    """A second package of CuPy beside the first breaks both."""
    found = classmethod(lambda cls, *, name: iter([name] * (name == wheel)))
    monkeypatch.setattr(importlib.metadata.Distribution, "discover", found)
    without_cusparse(monkeypatch)
    check_choice("missing-library", f"pip install '{wheel}[ctk]'")


@needs_cupy
@pytest.mark.parametrize(
    ("status", "code", "word"),
    [(209, "device-too-old", "too old"), (34, "driver-missing", "stub"), (999, "failed", "nvidia-smi")],
)
def test_other_states_of_the_driver(status, code, word, machine, monkeypatch):
    class CUDARuntimeError(RuntimeError):
        pass

    def refuse():
        error = CUDARuntimeError("cudaErrorUnknown: unknown error")
        error.status = status
        raise error

    monkeypatch.setitem(vars(sys.modules["cupy"].cuda.runtime), "getDeviceCount", refuse)
    check_choice(code, word)


@needs_cupy
def test_a_device_that_works_is_taken(machine):
    backend = get_backend("auto")
    assert backend.device == "cuda:0"
    assert backend.reason == "CUDA device 0 (CPU in disguise) works"
    np.testing.assert_array_equal(backend.to_host(backend.asarray(np.arange(3))), np.arange(3))


@needs_cupy
def test_the_environment_decides_for_auto_only(machine, monkeypatch):
    monkeypatch.setenv("IES_GPU_DEVICE", "cpu")
    assert get_backend("auto").device == "cpu"
    assert get_backend("cuda").device == "cuda:0"


# --- the real CuPy over a driver that has nothing to offer ---


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parents[1] / "fake_driver" / "libcuda.c"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", folder / "libcuda.so.1", source, "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def run_with_driver(folder: Path | None, **settings: str) -> list:
    ours = ("IES_GPU", "FAKE", "CUDA_VISIBLE")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    if folder is not None:
        environment["LD_LIBRARY_PATH"] = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment | settings,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_cupy
@needs_gcc
@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"FAKE_STATUS": "100"}, "no-device", ["no CUDA device", "CUDA_VISIBLE_DEVICES"]),
        ({"FAKE_STATUS": "803"}, "driver-mismatch", ["different versions", "reboot"]),
        ({"FAKE_VERSION": "11040"}, "driver-too-old", ["supports CUDA 11.4, CuPy needs 1", "update"]),
    ],
)
def test_driver_without_a_device(settings, code, words, fake_driver):
    (ok, found, detail), device, reason, said, refused = run_with_driver(fake_driver, **settings)
    assert (ok, found, device) == (False, code, "cpu")
    check_sentence(detail)
    for word in words:
        assert word in detail
    assert detail in reason
    assert said == [f"running on the CPU: {detail}"]
    assert refused == f"device='cuda' cannot be used: {detail}"


@needs_cupy
def test_a_cache_that_cannot_be_written_to(tmp_path):
    """CuPy 14.2 makes the folder for compiled kernels as it is imported: there is none in many containers."""
    (tmp_path / "file").touch()
    (ok, code, detail), device, _, said, refused = run_with_driver(
        None, CUPY_CACHE_DIR=str(tmp_path / "file" / "cache")
    )
    assert (ok, code, device) == (False, "no-cache", "cpu")
    check_sentence(detail)
    assert "CUPY_CACHE_DIR" in detail and "reinstall" not in detail
    assert said == [f"running on the CPU: {detail}"]
    assert render(detail) in refused


@needs_cupy
def test_a_cache_that_is_full(machine, monkeypatch):
    def refuse(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(vars(sys.modules["cupy"]), "stack", refuse)
    check_choice("no-cache", "No space left on device", "CUPY_CACHE_DIR")


@needs_cupy
def test_no_driver_at_all():
    try:
        importlib.import_module("ctypes").CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("there is a driver here")
    (ok, code, detail), device, _, said, refused = run_with_driver(None)
    assert (ok, code, device) == (False, "driver-missing", "cpu")
    check_sentence(detail)
    assert len(said) == 1
    assert render(detail) in refused
