"""Backends by name, and the way there and back for whatever a function takes and returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from ies_gpu.backend import Backend, get_backend
from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.backend.cuda import probe
from ies_gpu.backend.kernels import plain
from tests.fake_cupy import missing, standing_in


def cpu_backend(kernels: str) -> CpuBackend:
    backend = CpuBackend(reason="a test asks for it")
    if kernels == "plain":
        backend.kernels = plain
    else:
        backend.kernels = pytest.importorskip("ies_gpu.backend.kernels.fused")
    return backend


@contextmanager
def active_backend(name: str) -> Iterator[Backend]:
    """The backend that answers ``backend_of`` in this context: "plain", "numba", "cuda" (the stand-in) or "gpu"."""
    with pytest.MonkeyPatch.context() as patch:
        if name in ("plain", "numba"):
            patch.setenv("IES_GPU_KERNELS", "plain" if name == "plain" else "")  # for runs with device="cpu"
            backend: Backend = cpu_backend(name)
            with backend.active():
                yield backend
            return
        patch.delenv("IES_GPU_DEVICE", raising=False)
        if name == "gpu":
            found = probe()
            if not found.ok:
                pytest.skip(found.detail)
            backend = get_backend("cuda")
            with backend.active():
                yield backend
            return
        if missing():
            pytest.skip(missing())
        with standing_in():
            backend = get_backend("cuda")
            with backend.active():
                yield backend


def sent(value: Any, backend: Backend) -> Any:
    """The same with every floating array, dense or sparse, on the backend."""

    def again(part: Any) -> Any:
        return sent(part, backend)

    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return backend.asarray(value)
    if scipy.sparse.issparse(value):
        parts = (backend.asarray(a) for a in (value.data, value.indices, value.indptr))
        return backend.sparse.csr_matrix(tuple(parts), shape=value.shape)
    return rebuilt(value, again)


def to_host(value: Any) -> Any:
    """The same with every array on the host."""
    if hasattr(value, "get") and hasattr(value, "shape"):
        return value.get()
    return rebuilt(value, to_host)


def rebuilt(value: Any, change: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if isinstance(value, tuple | list):
        return type(value)(map(change, value))
    if isinstance(value, dict):
        return {key: change(part) for key, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: change(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value
