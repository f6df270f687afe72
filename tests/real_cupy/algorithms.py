"""Thrust and CUB, by NumPy, behind CuPy's wrappers."""

from typing import Any

import numpy as np

from .views import on_device, view

REDUCTIONS = (np.sum, np.min, np.max, np.argmin, np.argmax, np.cumsum, np.cumprod, np.prod)  # by CuPy's numbers


def sort(dtype: Any, data: int, keys: int, shape: Any) -> None:
    values = view(data, dtype, shape)
    values[...] = np.sort(values, axis=-1, kind="stable")


def argsort(dtype: Any, index: int, data: int, keys: int, shape: Any) -> None:
    values = view(data, dtype, shape)
    order = np.argsort(values, axis=-1, kind="stable")
    view(index, "int64", shape)[...] = order
    values[...] = np.take_along_axis(values, order, -1)


def lexsort(dtype: Any, index: int, keys: int, k: int, n: int) -> None:
    view(index, "int64", (n,))[...] = np.lexsort(view(keys, dtype, (k, n)))


def on_host(array: Any) -> np.ndarray:
    """The memory of a CuPy array, with its strides."""
    return view(array.data.ptr, array.dtype, array.shape, [step // array.itemsize for step in array.strides])


def reduce(x: Any, op: Any, axes: Any, others: Any, out: Any = None, keepdims: bool = False, size: int = 0) -> Any:
    """The last axes of an array in its own order."""
    import cupy

    found = REDUCTIONS[int(op)](on_host(x), axis=tuple(axes) or None, keepdims=bool(keepdims))
    made = cupy.ndarray(found.shape, found.dtype, order="C" if x.flags.c_contiguous else "F")
    on_host(made)[...] = found
    if out is None:
        return made
    out[...] = made
    return out


def reduce_all(x: Any, op: Any, axes: Any, others: Any, out: Any = None, keepdims: bool = False) -> Any:
    return reduce(x, op, (), others, out, keepdims)


def scan(x: Any, op: Any) -> Any:
    on_host(x)[...] = REDUCTIONS[int(op)](on_host(x)).reshape(x.shape)
    return x


def histogram(x: Any, y: Any, bins: Any) -> Any:
    """Counts between the levels given, or of the numbers below one less than their number."""
    levels = on_host(bins) if hasattr(bins, "data") else np.arange(bins)
    places = np.searchsorted(levels, on_host(x).ravel(), side="right") - 1
    on_host(y)[...] = np.bincount(places[(places >= 0) & (places < y.size)], minlength=y.size)
    return y


THRUST = on_device({"sort": sort, "argsort": argsort, "lexsort": lexsort})
CUB = on_device(
    {"device_reduce": reduce_all, "device_segmented_reduce": reduce, "device_scan": scan, "device_histogram": histogram}
)
