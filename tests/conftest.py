"""Fixtures of all tests."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends import cpu_backend


@pytest.fixture(autouse=True, scope="session")
def auto_is_the_cpu():
    """``device="auto"`` means the CPU in tests: with CuPy and no driver it would warn, which is an error here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_DEVICE", "cpu")
        yield


@pytest.fixture(scope="module")
def plain_kernels():
    """For modules in which nothing depends on the kernels: a fresh machine would compile the others first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        yield


@pytest.fixture(params=["plain", "numba"])
def backend(request):
    """A backend that answers ``backend_of`` during the test."""
    chosen = cpu_backend(request.param)
    with chosen.active():
        yield chosen


@pytest.fixture
def rng():
    return np.random.default_rng(0)
