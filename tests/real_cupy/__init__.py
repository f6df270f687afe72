"""The installed CuPy, run on the CPU without a GPU or a driver.

Its Python and Cython code, type and stride rules, memory pool, argument packing, sparse matrices, errors and kernel
texts are the real ones. What touches the machine is ours: memory, copies and launches (``machine``), g++ instead of
NVRTC, with headers of our own (``include``; none of NVIDIA's is compiled), and NumPy, SciPy and LAPACK in place of
cuBLAS, cuSOLVER, cuSPARSE, Thrust and CUB. It shows that CuPy accepts what we ask of it, and that its kernels and ours
compute what they should. It does not show speed, warps in lockstep, the memory model, nor how NVIDIA's libraries round
or fail.

What ``.ci/run`` puts through it, the thorough tests aside, may take 6 minutes, or 12 before its 400 texts are compiled.
It took 5.4 and at most 7.7 minutes of processor time on 2026-11-19, beside other work.

CuPy is prepared as it is first imported, by a hook that ``conftest`` sets. From then on it says that there is no
driver, as it would without us, except in the context ``plugged_in()``.
"""

import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from ies_gpu.backend import cuda
from ies_gpu.backend.kernels.cuda import text
from tests.cuda_emulator import check_types, compiler

from . import machine, memory, trampolines
from .machine import Machine

OWN_HEADERS = Path(__file__).with_name("include")
HEADERS = tuple(f"<cupy/{name}>" for name in ("complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h"))
UNUSED = ("half", "float16", "complex", "char", "short")  # types of instances of templates that nobody here calls
CONTRACTED = "-DCONTRACTED"  # tells texts apart that are compiled with fused multiply-add
by_nvrtc: Any = None  # what CuPy compiles with on a GPU
# functions of the library modules that may stay as they are, by the beginning of their names
HARMLESS = ("_", "is_", "get_build", "getBuild", "check_")


@cache
def missing() -> str:
    """Why CuPy cannot be run here; empty if it can."""
    if reason := compiler.missing():
        return reason
    found = [wheel for wheel in cuda.WHEELS if any(importlib.metadata.Distribution.discover(name=wheel))]
    version = importlib.metadata.version(found[0]) if found else "none"
    if not version.startswith("14.") or version.startswith(("14.0", "14.1")):
        return f"the tests of CUDA run CuPy 14.2, found {version}: pip install 'ies-gpu[test-cuda]'"
    return ""


class Preparation(importlib.abc.MetaPathFinder):
    """Prepares CuPy as it is first imported."""

    @contextmanager
    def out_of_the_way(self) -> Iterator[None]:
        """Whoever imports CuPy after this has failed is told why as well."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        try:
            yield
        except BaseException:
            sys.meta_path.insert(0, self)
            raise

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in ("cupy", "cupyx"):
            return None
        with self.out_of_the_way():
            before_import()
            if name == "cupyx":  # which imports cupy
                importlib.import_module("cupy")
                after_import()
                return None
        spec = importlib.machinery.PathFinder.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def prepare(module: ModuleType) -> None:
            with self.out_of_the_way():
                execute(module)
                after_import()

        spec.loader.exec_module = prepare  # type: ignore[method-assign]
        return spec


def install() -> None:
    """From now on, CuPy is prepared when somebody imports it."""
    if not missing() and "cupy" not in sys.modules:
        sys.meta_path.insert(0, Preparation())


def before_import() -> None:
    runtime, driver = (importlib.import_module(f"cupy_backends.cuda.api.{name}") for name in ("runtime", "driver"))
    machine.runtime = runtime
    trampolines.replace(runtime, machine.RUNTIME)
    runtime.getDeviceCount = lambda: machine.now().n_devices  # for Python; C asks once and makes room for each
    trampolines.replace(driver, machine.DRIVER)


def after_import() -> None:
    from cupy.cuda import _compiler_cache
    from cupy.cuda import compiler as nvrtc

    from . import algorithms, dense, sparse

    class NoCache(_compiler_cache.KernelCacheBackend):
        """Libraries are kept by the emulator's compiler, by what went into them."""

        def load(self, name: str) -> None:
            return None

        def save(self, name: str, cubin: bytes, source: str) -> None:
            pass

    for module, name in ((nvrtc, "_compile_using_nvrtc_no_warning"), (nvrtc, "_set_kernel_cache_backend")):
        if not hasattr(module, name):
            raise trampolines.InternalsChangedError(f"{module.__name__} has no {name}: the tests know CuPy 14.2")
    global by_nvrtc
    by_nvrtc = nvrtc._compile_using_nvrtc_no_warning
    nvrtc._set_kernel_cache_backend(NoCache())
    nvrtc._compile_using_nvrtc_no_warning = compile_text
    cuda_modules = importlib.import_module("cupy.cuda")
    known = {"cublas": dense.CUBLAS, "cusolver": dense.CUSOLVER, "cusparse": sparse.FUNCTIONS}
    for name, functions in known.items():
        module = getattr(cuda_modules, name)
        trampolines.replace(module, functions | refused(module, functions))
    trampolines.replace(cuda_modules.thrust, algorithms.THRUST)
    trampolines.replace(cuda_modules.cub, algorithms.CUB | refused(cuda_modules.cub, algorithms.CUB, "device_"))


def refused(module: ModuleType, known: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The other functions of a module: the real ones would take our handles for their own."""

    def made(name: str) -> Any:
        def refuse(*_: Any, **__: Any) -> None:
            raise NotImplementedError(f"{module.__name__}.{name} is not among what the tests know")

        return refuse

    kinds = ("cython_function_or_method", "builtin_function_or_method")
    names = [name for name, value in vars(module).items() if type(value).__name__ in kinds and name not in known]
    return {name: made(name) for name in names if name.startswith(prefix) and not name.startswith(HARMLESS)}


def compile_text(
    source: str, options: Any = (), arch: Any = None, filename: str = "", expressions: Any = None, *_: Any
) -> tuple[bytes, dict[str, str] | None]:
    """In place of NVRTC: the image of a text, and the names of the instances of its templates."""
    names = {expression: f"instance_{place}" for place, expression in enumerate(sorted(expressions or ()))}
    named = {name: text for text, name in names.items() if not any(word in text for word in UNUSED)}
    fused, includes = (compiler.FUSED, ()) if CONTRACTED in options else ((), HEADERS)
    defines = [*(option for option in options if option.startswith("-D")), *fused]
    path = compiler.build(source, named=named, defines=defines, includes=includes, headers=headers())
    return f"{path}\n{'reduction' if '#define REDUCE(' in source else 'text'}".encode(), names or None


@cache
def headers() -> tuple[tuple[str, str], ...]:
    """Names and texts of CuPy's headers, and of ours, which come in the place of some."""
    cupys = Path(importlib.import_module("cupy").__file__).parent / "_core" / "include"
    found = {str(path.relative_to(cupys)): path for path in (cupys / "cupy").glob("*.*h")}
    found |= {str(path.relative_to(OWN_HEADERS)): path for path in OWN_HEADERS.rglob("*") if path.is_file()}
    return tuple((name, path.read_text()) for name, path in sorted(found.items()))


class WatchedKernel:
    """One of the package's kernels: its arguments are held against its text, and its results may be spoiled."""

    def __init__(self, name: str, entry: str, kernel: Any) -> None:
        self.entry, self.kernel, self.source = entry, kernel, text.source(name, entry)

    def __call__(self, grid: Any, block: Any, args: Any, **more: Any) -> None:
        here = machine.now()
        if not here.compiles:
            from cupy.cuda.compiler import CompileException

            raise CompileException("kernel.cu(1): error: the tests compile nothing", self.source, self.entry, ())
        check_types(self.source, self.entry, args)
        self.kernel(grid, block, args, **more)
        if here.spoil is not None:
            here.spoil(self.entry, args)


@contextmanager
def plugged_in(**options: Any) -> Iterator[Machine]:
    """Context in which there is a machine with CUDA devices, made with ``options``; what says "auto" finds it."""
    if reason := missing():
        pytest.skip(reason)
    cupy = importlib.import_module("cupy")
    if not trampolines.kept:
        raise RuntimeError("CuPy was imported before tests/conftest.py could prepare it: by a plugin of pytest?")
    outer, machine.machine = machine.machine, Machine(**options)
    here, load, free_cache = machine.machine, text.load_kernel, cuda.CudaBackend.free_cache
    forget(load)

    def counted(backend: Any) -> None:
        here.count("freed")
        free_cache(backend)

    def watched(name: str, entry: str) -> WatchedKernel:
        made = cupy.RawKernel(text.source(name, entry), entry, options=(CONTRACTED,)) if here.contracted else None
        return WatchedKernel(name, entry, made or load(name, entry))

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ))
        os.environ.pop("IES_GPU_DEVICE", None)
        stack.callback(unplug, cupy, outer, load)
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc if here.pool else None)
        stack.enter_context(patch.object(text, "load_kernel", watched))
        stack.enter_context(patch.object(cuda.CudaBackend, "free_cache", counted))
        yield here


def unplug(cupy: Any, outer: Machine | None, load: Any) -> None:
    """Leave nothing behind: neither memory in the pool, nor what the package remembers of a device."""
    here = machine.now()
    here.queue.clear()
    machine.local.device = 0
    pool = cupy.get_default_memory_pool()
    for attempt in (0, 1):
        for number in range(here.n_devices):
            with cupy.cuda.Device(number):
                pool.set_limit(size=0)
                pool.free_all_blocks()
        if attempt or not memory.allocations:
            break
        gc.collect()
    cupy.cuda.set_allocator(pool.malloc)
    machine.machine = outer
    forget(load)


def forget(load: Any) -> None:
    cuda._device_backend.cache_clear()  # what was found out about the devices
    cuda._kernels.cache_clear()
    load.cache_clear()
