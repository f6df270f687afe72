"""Arrays of other libraries, PyTorch's or JAX's, seen by NumPy or CuPy without a copy (DLPack)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DeviceError, first_line
from .array import Array

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLPack's numbers of kinds of devices


def is_foreign(array: Array) -> bool:
    """Return whether an array of neither NumPy nor CuPy can be shared by DLPack."""
    if isinstance(array, np.ndarray | np.generic) or not hasattr(type(array), "__dlpack__"):
        return False
    return type(array).__module__.partition(".")[0] not in ("cupy", "cupyx")


def cuda_device(array: Array) -> int | None:
    """Return the number of the CUDA device on which a foreign array lives; None for the host's memory."""
    try:
        kind, number = (int(part) for part in array.__dlpack_device__())
    except Exception as error:  # a tensor without memory
        said = f"does not say which device it is on ({error})"
        raise DeviceError(f"{type(array).__name__} {said}; move it to the host") from None
    if kind not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        said = f"is on a device (DLPack kind {kind}) that is neither the host nor CUDA"
        raise DeviceError(f"{type(array).__name__} {said}; move it to the host")
    return number if kind in (CUDA, CUDA_MANAGED) else None


def host_view(array: Array) -> Array:
    """Return an array that only knows DLPack as a NumPy view of the same memory; anything else as it is."""
    known = any(hasattr(array, name) for name in ("__array__", "__array_interface__"))
    return array if known or not is_foreign(array) else shared(array, np)


def shared(array: Array, xp: Any) -> Array:
    """Return a foreign array as one of ``xp`` over the same memory; a TypeError says what to do if it is refused."""
    try:
        return xp.from_dlpack(array)
    except MemoryError:
        raise
    except Exception as error:  # BufferError, RuntimeError, TypeError: each library has its own
        kind, said = type(array).__name__, first_line(error)
        if getattr(array, "requires_grad", False):
            way = f"this {kind} requires grad, but gradients cannot pass through here; pass its .detach()"
        elif "readonly" in said.lower().replace("-", "").replace(" ", ""):
            way = f"this {kind} is read-only and cannot be shared with {xp.__name__} ({said}); pass a copy"
        else:
            way = f"this {kind} cannot be shared with {xp.__name__} ({said}); pass a dense array of a common dtype"
        raise TypeError(way) from None
