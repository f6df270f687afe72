"""Backends by name, and the way there and back for whatever a function takes and returns."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import Selection, datasets, select_coordinates
from ies_gpu.backend import Backend, array, get_backend
from ies_gpu.backend.cpu import CpuBackend
from ies_gpu.backend.cuda import probe
from ies_gpu.backend.kernels import plain
from ies_gpu.embedding.diffusion import diffusion_map
from ies_gpu.embedding.laplacian import Laplacian
from ies_gpu.run import run as steps
from tests.real_cupy import missing, plugged_in

DEVICE = ["cuda", pytest.param("gpu", marks=pytest.mark.gpu)]
# for tests in which the CPU's kernels do not matter
each_device = pytest.mark.parametrize("backend", ["numba", *DEVICE], indirect=True)
needs_cupy = pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")
# points and the factor on the paper's bandwidth beside that for fewer points
SIZES = {"D1": (1500, 1.0), "D6": (1000, 0.8), "D7": (1500, 1.0)}


def ask_for(monkeypatch: pytest.MonkeyPatch, solver: str) -> None:
    asked = partial(diffusion_map, solver=solver)
    asked.step = diffusion_map.step
    monkeypatch.setattr(steps, "diffusion_map", asked)


def cpu_backend(kernels: str) -> CpuBackend:
    backend = CpuBackend(reason="a test asks for it")
    if kernels == "plain":
        backend.kernels = plain
    else:
        backend.kernels = pytest.importorskip("ies_gpu.backend.kernels.fused")
    return backend


@contextmanager
def active_backend(name: str) -> Iterator[Backend]:
    """The backend that answers ``backend_of`` in this context: "plain", "numba", "cuda" (CuPy on the CPU) or "gpu"."""
    with pytest.MonkeyPatch.context() as patch:
        if name in ("plain", "numba"):
            patch.setenv("IES_GPU_KERNELS", "plain" if name == "plain" else "")  # for runs with device="cpu"
            backend: Backend = cpu_backend(name)
            with backend.active():
                yield backend
            return
        patch.delenv("IES_GPU_DEVICE", raising=False)
        if name == "gpu" and not (found := probe()).ok:
            pytest.skip(found.detail)
        patch.setattr(array, "FEW_BYTES", 0)  # or of most tests' arrays the device would see nothing
        with nullcontext() if name == "gpu" else plugged_in():
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
    if isinstance(value, Laplacian):
        return Laplacian(change(value.transition), change(value.weights), value.bandwidth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: change(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value


@cache
def problem(name: str, n: int | None = None) -> tuple[np.ndarray, dict]:
    """Points of a data set, fewer than in the paper, and arguments with a bandwidth that keeps the degrees."""
    full = datasets.load(name)
    count, factor = SIZES[name]
    n = n or count
    data = datasets.load(name, n_samples=n)
    bandwidth = factor * full.bandwidth * (len(full.X) / n) ** (1 / full.intrinsic_dim)
    return data.X, {"intrinsic_dim": full.intrinsic_dim, "subset_size": full.subset_size, "bandwidth": bandwidth}


@cache
def on_cpu(name: str, n: int | None = None, **options) -> Selection:
    X, arguments = problem(name, n)
    return select_coordinates(X, device="cpu", **arguments, **options)


def on_cuda(name: str, n: int | None = None, *, device: str = "cuda", **options) -> Selection:
    X, arguments = problem(name, n)
    return select_coordinates(X, device=device, **arguments, **options)
