"""CuPy: whether CUDA can be used here, and the backend that uses it."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .base import Backend, DeviceError


class Probe(NamedTuple):
    """What looking for a CUDA device gave: ``detail`` is one sentence, with what to do where ``ok`` is false."""

    ok: bool
    code: str
    detail: str


def probe(number: int = 0) -> Probe:
    """Look for a CUDA device without raising."""
    try:
        importlib.import_module("cupy")
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return Probe(False, "not-installed", "CuPy is not installed; pip install 'ies-gpu[cuda12]' brings it")
        return Probe(False, "broken-install", f"importing CuPy failed ({error}); reinstall cupy-cuda12x[ctk]")
    except Exception as error:  # a broken wheel can raise anything
        return Probe(False, "broken-install", f"importing CuPy failed ({error}); reinstall cupy-cuda12x[ctk]")
    return Probe(False, "not-built", "this version of ies_gpu has no CUDA backend yet; use device='cpu'")


class CudaBackend(Backend):
    """One CUDA device."""

    def __init__(self, number: int = 0, **options: Any) -> None:
        raise DeviceError("this version of ies_gpu has no CUDA backend yet; use device='cpu'")


def backend_of_cupy(array: Any) -> Backend:
    """The backend of the device on which a CuPy array lives."""
    return CudaBackend(int(array.device.id))
