"""Backends by name."""

from __future__ import annotations

import pytest

from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.backend.kernels import plain


def cpu_backend(kernels: str) -> CpuBackend:
    backend = CpuBackend(reason="a test asks for it")
    if kernels == "plain":
        backend.kernels = plain
    else:
        backend.kernels = pytest.importorskip("ies_gpu.backend.kernels.fused")
    return backend
