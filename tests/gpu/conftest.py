"""The device of the tests for a GPU: a real one, or CuPy on the CPU."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest

from ies_gpu.backend.cuda import probe
from tests.real_cupy import plugged_in


@pytest.fixture(scope="module", autouse=True)
def device():
    with plugged_in(n_devices=2) if os.environ.get("IES_GPU_EMULATED") else nullcontext():
        found = probe()
        if not found.ok:
            pytest.skip(found.detail)
        yield


@pytest.fixture
def cupy(device):
    return pytest.importorskip("cupy")
