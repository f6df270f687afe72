"""Which device runs, and why; and steps, which work there. The only folder of the package that may import CuPy.

Steps of the pipeline are functions that anyone may call. A step knows no run: it reports how far it is to whoever
listens, and one made of others calls them through ``do``, which is :func:`call` unless a run takes its place.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from ..findings import DeviceError, brief, option, refusal, tell, warning
from .array import Array
from .base import Backend, Block, cached_property, current
from .cpu import CpuBackend

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Do = Callable[..., Any]
Report = Callable[[int, int], None]
_report: ContextVar[Report | None] = ContextVar("report", default=None)
__all__ = [
    "Backend", "Block", "Do", "Report", "Step", "active_backend", "at_home", "backend_of", "cached_property", "call",
    "device_near", "get_backend", "host_of", "report", "reporting", "step", "to_device", "to_host",
]  # fmt: skip


def get_backend(device: str = "auto", **options: Any) -> Backend:
    """Return the backend for "cpu", "cuda", "cuda:N" or "auto", with ``memory_limit`` in bytes and ``n_threads``.

    "auto" is CUDA if it works and the CPU otherwise, unless the environment variable ``IES_GPU_DEVICE`` names another.
    """
    name, reason, known = "device", f"requested by {option('device', device)}", isinstance(device, str)
    if known and device == "auto" and (os.environ.get("IES_GPU_DEVICE") or "auto") != "auto":
        name, device = "the environment variable IES_GPU_DEVICE", os.environ["IES_GPU_DEVICE"]
        reason = f"requested by {name}={device}"
    match = re.fullmatch(r"auto|cpu|cuda(?::(\d{1,6}))?", device) if known else None
    if match is None:
        raise refusal("device.choice", f"{option(name)} must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {brief(device)}")
    if device == "cpu":
        return CpuBackend(reason=reason, **options)
    from .cuda import CudaBackend, probe

    found = probe(number := int(match[1] or 0))
    if found.ok:
        return CudaBackend(number, reason=found.detail if device == "auto" else reason, **options)
    if device != "auto":
        raise refusal("device.unusable", f"{option('device', device)} cannot be used: {found.detail}", kind=DeviceError)
    if found.code != "not-installed":  # a CuPy that is installed is expected to run
        _warn_once(f"running on the CPU: {found.detail}")
    return CpuBackend(reason=f"CUDA is not used: {found.detail}", code=found.code, **options)


def device_near(home: Backend, device: str) -> str:
    """Return the device for arrays that live on ``home``: on a GPU they stay, unless another one is named.

    "cuda" names none, and "auto" only that of IES_GPU_DEVICE.
    """
    named = device if isinstance(device, str) else ""
    if named == "auto" and (named := os.environ.get("IES_GPU_DEVICE") or "auto") == "auto":
        named = "cuda"
    return home.device if named == "cuda" and home.device != "cpu" else device


def to_device(value: Any, backend: Backend, dtype: Any = None) -> Array:
    """Return an array or CSR on a backend's device: unchanged if it is there already, else copied through the host."""
    home = backend_of(value)
    if home.sparse.issparse(value):
        data, indices, indptr = (to_device(part, backend) for part in (value.data, value.indices, value.indptr))
        data = backend.asarray(data, dtype=dtype)
        return backend.csr(data, indices, indptr, value.shape)
    return backend.asarray(value if home.device == backend.device else home.to_host(value), dtype=dtype)


def host_of(backend: Backend) -> Backend:
    """Return the backend itself if it is of the host, else that of the host."""
    return backend if backend.device == "cpu" else get_backend("cpu")


def to_host(array: Array) -> Array:
    """Return a dense array as a NumPy array, wherever it lives; no copy when it is one."""
    return backend_of(array).to_host(array)


def backend_of(array: Array) -> Backend:
    """Return the backend on which an array lives.

    Inside ``with backend.active():`` that backend answers for its own arrays, with its threads and memory limit.

    Parameters
    ----------
    array : array-like or sparse matrix
        A NumPy or CuPy array, a sparse matrix of either library, or a tensor of another library on a GPU. Lists and
        other objects belong to the CPU.

    Returns
    -------
    Backend
        The backend of that device.

    Examples
    --------
    >>> import numpy as np
    >>> import ies_gpu
    >>> ies_gpu.backend_of(np.zeros(3)).device
    'cpu'
    """
    active = current.get()
    if active is not None and active.owns(array):
        return active
    ours = "cupy" in sys.modules and type(array).__module__.partition(".")[0] in ("cupy", "cupyx")
    if not ours and not hasattr(array, "__cuda_array_interface__"):
        return _host()
    from .cuda import backend_on_device

    return backend_on_device(array)


def at_home(function: Callable[Arguments, Result], *, or_host: bool = False) -> Callable[Arguments, Result]:
    """Decorate public functions: they work where their first array on a GPU lives, whichever device is current.

    CuPy starts some kernels without a look at where the arrays are. ``or_host`` lets the host's backend be active where
    no other is.
    """

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        home = _device_of(chain(args, kwargs.values()))
        if home is None and or_host and current.get() is None:
            home = _host()
        with nullcontext() if home is None else home.active():
            return function(*args, **kwargs)

    return call


def _device_of(values: Iterable[Any]) -> Backend | None:
    """Return the backend of the first value on a GPU, or None if there is none."""
    for value in values:
        names = ("anchor",) if hasattr(value, "anchor") else ("weights", "coordinates")
        for part in (value, *(getattr(value, name, None) for name in names)):
            if part is not None and (home := backend_of(part)).device != "cpu":
                return home
    return None


def active_backend() -> Backend:
    """Return the backend that is active, or that of the host."""
    return current.get() or _host()


@cache
def _warn_once(message: str) -> None:  # every run meets the same device
    tell(warning("device.cpu", message), RuntimeWarning)


@cache
def _host() -> CpuBackend:
    return CpuBackend(reason="the input is a NumPy array")


@dataclass(frozen=True)
class Step:
    """What a run may do with a function, beside calling it."""

    name: str  # in the log, in progress reports, and of its file in a checkpoint
    composite: bool = False  # made of other steps, which it calls through ``do``: only these are timed and retried
    calls: bool = False  # calls other steps through ``do``, and is timed and retried with them
    kernel: str = ""  # the fused kernel that the audit is of
    # audit(result, *args, **kwargs): how far sampled rows are from plain code; None where there are none
    audit: Callable[..., float | None] | None = None
    again: bool = True  # compute once more where the audit fails; not if only a later step uses the kernel
    single: bool = False  # the kernel computes in the precision that was asked for, not always in float64
    pack: Callable[[Any], dict[str, Any] | None] | None = None  # what a checkpoint saves, as named values
    # unpack(content, load, *args, **kwargs) is the way back; load() gives what ``heavy`` gave, or computes the result
    unpack: Callable[..., Any] | None = None
    heavy: Callable[[Any], dict[str, Any] | None] | None = None  # saved in a file of its own, read if it is needed
    heavy_name: str = ""


def step(name: str, **more: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Mark a function as a step, which works on the backend of its arrays.

    It has the threads of that backend, which decide how BLAS rounds: the same bits in a run and by itself.
    """

    def marked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        found = at_home(function, or_host=True)
        found.step = Step(name, **more)  # type: ignore[attr-defined]
        return found

    return marked


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a step: the simplest ``do``."""
    return function(*args, **kwargs)


def report(done: int, total: int) -> None:
    """Report how far a step is; ``total`` is 0 where it is not known."""
    listener = _report.get()
    if listener is not None:
        listener(done, total)


@contextmanager
def reporting(listener: Report) -> Iterator[None]:
    """Let :func:`report` call a function."""
    token = _report.set(listener)
    try:
        yield
    finally:
        _report.reset(token)
