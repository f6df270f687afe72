"""The device of the tests for a GPU: a real one, or CuPy on the CPU."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest

from ies_gpu.backend.cuda import probe
from ies_gpu.backend.kernels.cuda import launch
from tests.backend.kernel_sides import Side
from tests.real_cupy import plugged_in

EMULATED = bool(os.environ.get("IES_GPU_EMULATED"))


def pytest_collection_modifyitems(items):
    for item in items:
        elsewhere = item.function.__module__.startswith("tests.backend") or item.name == "test_the_self_test_passes"
        if EMULATED and "/gpu/" in item.nodeid and elsewhere:
            item.add_marker(pytest.mark.skip(reason="runs through CuPy on the CPU in tests/backend or tests/cli"))


@pytest.fixture(scope="module", autouse=True)
def device():
    with plugged_in(n_devices=2) if EMULATED else nullcontext():
        found = probe()
        if not found.ok:
            pytest.skip(found.detail)
        yield


@pytest.fixture
def cupy(device):
    return pytest.importorskip("cupy")


@pytest.fixture
def machine(device):
    """No machine: a real device counts nothing."""


@pytest.fixture
def side(cupy):
    return Side(launch, cupy)
