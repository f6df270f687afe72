"""The CUDA sources compiled for real GPUs by NVRTC, without a GPU: resources, and the time that a first run waits."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from benchmarks.device_counts import counted
from ies_gpu.backend.kernels.cuda import text
from tests.backends import needs_cupy
from tests.extras import needed
from tests.thorough import first_of

FIRST_USE = 8.0  # seconds of processor time

ARCHITECTURES = (80, 70, 75, 86, 89, 90, 100, 120)


@pytest.fixture(scope="module")
def nvrtc():
    needed("cupy", "test-cuda")
    module = pytest.importorskip("tests.cuda_emulator.nvrtc", exc_type=ImportError)
    try:
        module.version()
    except RuntimeError as error:  # cuda-pathfinder's: CuPy without the CUDA libraries
        pytest.skip(f"NVRTC cannot be loaded: {error}")
    return module


@pytest.mark.parametrize("arch", first_of(*ARCHITECTURES))
@pytest.mark.parametrize("name", text.ENTRIES)
def test_kernels_compile_for_real_gpus_without_spills(nvrtc, name, arch):
    if arch not in nvrtc.architectures():
        pytest.skip(f"NVRTC {nvrtc.version()} does not know sm_{arch}")
    entries = nvrtc.compile_source(name, arch)
    assert set(entries) == set(text.ENTRIES[name])
    for entry, resources in entries.items():
        assert resources.spills == 0, entry
        assert resources.stack == 0, entry
        assert resources.static_shared + nvrtc.dynamic_shared(entry) <= 48 << 10, entry


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize("name", text.ENTRIES)
def test_kernels_compile_with_nvcc(tmp_path, name):
    path = tmp_path / f"{name}.cu"
    path.write_text(text.source(name), encoding="utf-8")
    command = ["nvcc", "-std=c++17", "-arch=sm_80", "-Werror", "all-warnings", "-cubin", "-o", tmp_path / "out", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_cupy
@pytest.mark.slow  # about four seconds, and a time
def test_f10_what_a_first_run_compiles_takes_seconds(nvrtc, monkeypatch):
    """One default run by each solver; NVRTC took 33 seconds when every entry point of a file was compiled for one."""
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    for n, m in ((2000, 20), (6000, 8)):
        machine, found = counted(n, 60, n_components=m)
        entries = sorted(name.partition(" ")[2] for name in machine.counts if name.startswith("kernel "))
        sources = {entry: name for name, found in text.ENTRIES.items() for entry in found}
        begin = os.times()
        for entry in entries:
            nvrtc.compile_source(sources[entry], 80, entry)
        took = sum(os.times()[:2]) - sum(begin[:2])
        print(f"{found.diagnostics['solver']['method']}: {len(entries)} kernels in {took:.1f} s: {' '.join(entries)}")
        assert took < FIRST_USE
