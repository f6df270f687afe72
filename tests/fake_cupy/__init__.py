"""A strict stand-in for CuPy, for tests on machines without a GPU.

NumPy and SciPy run underneath, but only names that the *installed* CuPy has are there, and calls must fit its
signatures. Arrays refuse to become NumPy arrays or to meet them, scalars stay on the device, and whatever waits for
the device is counted. Where CuPy deviates from NumPy in ways that have bitten others, so does the stand-in;
``tests/gpu`` has tests of the same names for the real one. It shows that the array code fits CuPy. It does not show
that a GPU computes what CuPy promises, nor how fast.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import arrays, linalg, runtime, sparse
from .machine import Machine
from .namespaces import Module, from_dlpack

REAL: dict[str, Any] = {}  # real modules by name, for their names, signatures and exceptions
NAMES = (
    "cupy", "cupy.linalg", "cupy.cuda", "cupy.cuda.memory", "cupy.cuda.compiler", "cupy.cuda.runtime",
    "cupyx", "cupyx.scipy", "cupyx.scipy.sparse", "cupyx.scipy.sparse.csgraph",
    "cupyx.scipy.spatial",
)  # fmt: skip


@cache
def missing() -> str:
    """Why there can be no stand-in here; empty if there can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in (*NAMES, "cupy._core._reduction"):
                REAL[name] = importlib.import_module(name)
    except Exception as error:  # not installed, or without its libraries
        return f"the stand-in for CuPy needs the real one: pip install 'ies-gpu[test-cuda]' ({error})"
    arrays.ndarray.real = REAL["cupy"].ndarray
    return ""


@contextmanager
def standing_in(**options: Any) -> Iterator[Machine]:
    """Context in which ``import cupy`` gives the stand-in, on a fresh machine made with ``options``."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    replaced, arrays.machine = arrays.machine, Machine(**options)
    for name in before:
        del sys.modules[name]
    sys.modules.update(build_modules())
    forget()
    try:
        yield arrays.machine
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]:
            del sys.modules[name]
        sys.modules.update(before)
        arrays.machine = replaced
        forget()


def forget() -> None:
    """Drop what the package remembers of a device."""
    from ies_gpu.backend import cuda
    from ies_gpu.backend.kernels.cuda import text

    cuda.forget_devices()
    text.load_kernel.cache_clear()


def build_modules() -> dict[str, Module]:
    """All modules of the stand-in, by name."""
    own: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    own["cupy"] = {
        "ndarray": arrays.ndarray,
        "RawKernel": runtime.RawKernel,
        "from_dlpack": from_dlpack,
        "einsum": no_einsum,
        "get_default_memory_pool": lambda: runtime.POOL,
        "asnumpy": lambda a, stream=None, order="C", out=None, *, blocking=True: a.get(),
        "__version__": REAL["cupy"].__version__ + " (stand-in)",
    }
    libraries = {name: SimpleNamespace() for name in ("cublas", "cusolver", "cusparse")}
    nvrtc = SimpleNamespace(getVersion=lambda: (12, 9))
    own["cupy.cuda"] = {"Device": runtime.Device, "nvrtc": nvrtc, **libraries}
    own["cupy.cuda.memory"] = {"OutOfMemoryError": REAL["cupy.cuda.memory"].OutOfMemoryError}
    own["cupy.cuda.compiler"] = {"CompileException": REAL["cupy.cuda.compiler"].CompileException}
    made = runtime.Runtime()
    own["cupy.cuda.runtime"] = {name: getattr(made, name) for name in dir(made) if not name.startswith("_")}
    own["cupyx"] = {"errstate": linalg.errstate}
    own["cupy.linalg"] = {"eigh": linalg.eigh, "eigvalsh": linalg.eigvalsh}
    names = ("csr_matrix", "csc_matrix", "csr_array", "csc_array", "issparse", "identity")
    own["cupyx.scipy.sparse"] = {name: getattr(sparse, name) for name in names}
    own["cupyx.scipy.spatial"] = {"KDTree": runtime.KDTree}
    own["cupyx.scipy.sparse.csgraph"] = {"connected_components": needs_cugraph}
    numpy = {"cupy": np, "cupy.linalg": np.linalg}
    modules = {name: Module(name, REAL[name], numpy.get(name), own[name]) for name in NAMES}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent:
            modules[parent].__dict__[last] = module
    modules["cupy"].__dict__["random"] = SimpleNamespace()  # its streams are not NumPy's: draw on the host
    return modules


def no_einsum(*operands: Any, **kwargs: Any) -> Any:
    raise AssertionError("CuPy makes a batch of matrix products of it, of 'ij,ij->i' one per row")


def needs_cugraph(csgraph: Any, directed: bool = True, connection: str = "weak", return_labels: bool = True) -> Any:
    raise RuntimeError("pylibcugraph is not available")
