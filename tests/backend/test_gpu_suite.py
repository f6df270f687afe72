"""The tests for a GPU on the stand-in, as they are, so that they do not rot while nobody runs them."""

from __future__ import annotations

import sys

import pytest

from tests.backends import needs_cupy, stand_in
from tests.gpu.test_gpu import *  # noqa: F403
from tests.gpu.test_gpu import test_the_pipeline_agrees_with_the_cpu_at_full_size

del test_the_pipeline_agrees_with_the_cpu_at_full_size  # test_cuda.py has it

pytestmark = [pytest.mark.slow, needs_cupy]


@pytest.fixture(autouse=True)
def device():
    with stand_in():
        yield


@pytest.fixture
def cupy(device):
    return sys.modules["cupy"]
