"""Device memory as the libraries beneath CuPy see it: by address, shape and leading dimension."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import machine, memory

CUDA_TYPES = {0: "float32", 1: "float64"}
LETTERS = {"s": "float32", "d": "float64"}


def view(
    address: int, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None = None, *, anywhere: bool = False
) -> np.ndarray:
    """Memory as a NumPy array, strides in elements. What is out of bounds, or on another device, is refused."""
    dtype, shape = np.dtype(dtype), tuple(int(n) for n in shape)
    if 0 in shape:
        return np.zeros(shape, dtype)
    steps = strides or [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    size = (sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + 1) * dtype.itemsize
    place = memory.at(address)
    if place is None and not anywhere:
        raise machine.LaunchError("CUDA_ERROR_ILLEGAL_ADDRESS: a library gets memory of the host")
    if place is not None and place.size < size:
        raise machine.LaunchError(f"a library would go beyond its array: {size} bytes, there are {place.size}")
    if place is not None and place.device != machine.get_device():
        raise machine.LaunchError(f"CUDA_ERROR_ILLEGAL_ADDRESS: a library gets memory of device {place.device}")
    buffer = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape, dtype, buffer, strides=tuple(step * dtype.itemsize for step in steps))


def matrix(address: int, dtype: Any, rows: int, columns: int, leading: int) -> np.ndarray:
    """A matrix by columns, as the libraries store it."""
    return view(address, dtype, (rows, columns), (1, leading))


def number(address: int, dtype: Any) -> Any:
    """A factor such as alpha, on the host or on the device."""
    return view(address, dtype, (1,), anywhere=True)[0]


def turned(A: Any, transposed: int) -> Any:
    return A.T if transposed else A


def as_stored(transposed: int, rows: int, columns: int) -> tuple[int, int]:
    return (columns, rows) if transposed else (rows, columns)


def added(out: np.ndarray, product: Any, beta: Any) -> None:
    """``out = product + beta out``, where ``out`` is not read if beta is 0: it may be anything."""
    out[...] = product + beta * out if beta else product


def on_device(functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """The same functions, each after what was begun before, and counted."""

    def made(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            machine.now().wait()
            machine.now().count("libraries")
            machine.now().count(f"library {name}")
            with np.errstate(all="ignore"):
                return function(*args, **more)

        return call

    return {name: made(name, function) for name, function in functions.items()}
