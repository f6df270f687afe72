"""All tests for a GPU on the stand-in, as they are, so that they do not rot while nobody runs them.

``test_gpu_suite_in_short.py`` runs those of them that take no time with the default tests.
"""

from __future__ import annotations

import sys

import pytest

from tests.backends import needs_cupy
from tests.fake_cupy import standing_in
from tests.gpu.test_gpu import *  # noqa: F403
from tests.gpu.test_gpu import test_the_pipeline_agrees_with_the_cpu_at_full_size

del test_the_pipeline_agrees_with_the_cpu_at_full_size  # test_cuda.py has it

pytestmark = [pytest.mark.slow, needs_cupy]


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """Instead of the probe for a real one: two of them."""
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with standing_in(n_devices=2):
        yield


@pytest.fixture
def cupy(device):
    return sys.modules["cupy"]
