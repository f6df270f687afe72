"""Modules that offer what the installed CuPy offers, by its signatures, and run on NumPy."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from . import arrays
from .arrays import SCALARS, device, host, in_c_order, ndarray, operand, signature_of
from .costs import charge, charge_product
from .linalg import checked

CUSOLVER = {"svd", "solve", "qr", "inv", "cholesky"}
FROM_HOST = {"asarray", "array", "asanyarray"}
ELEMENTWISE = {"where", "clip", "nan_to_num", "round", "around", "real", "imag"}  # ufuncs there, functions in NumPy
SCAN = 512  # entries that CuPy's running sums add up one after the other
PERCENTILE_METHODS = ("lower", "higher", "midpoint", "nearest", "linear")


class Module(types.ModuleType):
    """A stand-in for a real module: its own names first, then NumPy's where the real one has them."""

    def __init__(self, name: str, real: Any, numpy: Any = None, own: dict[str, Any] | None = None) -> None:
        super().__init__(name)
        self.__dict__["_real"], self.__dict__["_numpy"] = real, numpy
        self.__path__: list[str] = []
        for key, value in (own or {}).items():
            if not hasattr(real, key):
                raise AttributeError(f"{name}.{key} does not exist in the installed CuPy")
            self.__dict__[key] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self._real, name):
            raise AttributeError(f"{self.__name__}.{name} does not exist in CuPy")
        ours, real = getattr(self._numpy, name, None), getattr(self._real, name)
        if ours is None:
            raise NotImplementedError(f"{self.__name__}.{name} exists in CuPy, but the stand-in does not know it")
        if isinstance(ours, types.ModuleType):
            made: Any = Module(f"{self.__name__}.{name}", real, ours)
        elif isinstance(ours, np.ufunc) and hasattr(real, "nin"):
            made = Ufunc(ours, real)
        elif isinstance(ours, type) or not callable(ours):
            made = ours  # dtypes, constants, finfo
        else:
            made = function(name, ours, real)
        self.__dict__[name] = made
        return made


def function(name: str, ours: Callable[..., Any], real: Any) -> Callable[..., Any]:
    """A function of the real module, with its signature, run by NumPy's."""
    signature = signature_of(real)

    def call(*args: Any, **kwargs: Any) -> Any:
        if signature is not None:
            signature.bind(*args, **kwargs)
        if name in FROM_HOST:
            return from_host(name, *args, **kwargs)
        if name in CUSOLVER:
            checked()
        if name in ("percentile", "quantile") and kwargs.get("method", "linear") not in PERCENTILE_METHODS:
            raise ValueError(f"Unexpected interpolation method: {kwargs['method']!r}")
        if name == "nonzero" or (name == "where" and len(args) == 1):
            return nonzero(host(args[0]))
        if name in ("argpartition", "argsort"):
            out = sorted_numbers(name, *map(host, args), **kwargs)
            charge(arrays.machine, name, (host(args[0]),), out)
            return device(out)
        if args and isinstance(args[0], list) and not all(isinstance(item, ndarray) for item in args[0]):
            raise TypeError(f"Unsupported type {type(args[0])}: cupy.{name} takes device arrays")
        values = tuple(map(host, args))
        out = ours(*values, **{key: host(value) for key, value in kwargs.items()})
        out = in_c_order(out) if name in ELEMENTWISE else out
        if name in ("matmul", "dot"):
            charge_product(arrays.machine, *values[:2], out)
        else:
            charge(arrays.machine, name, values, out, kwargs.get("axis", args[1] if len(args) > 1 else None))
        return device(out)

    call.__name__ = name
    return call


def nonzero(mask: np.ndarray) -> tuple[ndarray, ...]:
    """The columns of one array of places: with several axes, none of them lies in one piece."""
    places = np.stack(np.nonzero(mask), axis=1)
    charge(arrays.machine, "nonzero", (mask,), places)
    return tuple(device(places).T)


def sorted_numbers(name: str, a: np.ndarray, kth: int | None = None, axis: int = -1, kind: Any = None) -> np.ndarray:
    """``argsort`` is stable; ``argpartition`` selects, and what comes before and behind the place is in no order."""
    if name == "argsort":
        return a.argsort(axis=axis if kth is None else kth, kind="stable")
    order = np.moveaxis(a.argsort(axis=axis, kind="stable"), axis, -1)
    place = range(a.shape[axis])[kth]
    parts = order[..., :place][..., ::-1], order[..., place : place + 1], order[..., place + 1 :][..., ::-1]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)


def running_sums(a: np.ndarray) -> np.ndarray:
    """``cumsum`` along the first axis and a 0 before it, in the array's own type, block by block as CuPy scans."""
    blocks = [np.cumsum(a[k : k + SCAN], axis=0, dtype=a.dtype) for k in range(0, len(a), SCAN)]
    total, out = np.zeros(a.shape[1:], a.dtype), [np.zeros((1, *a.shape[1:]), a.dtype)]
    for block in blocks:
        out.append(block + total)
        total = out[-1][-1]
    return np.concatenate(out)


def reduceat(a: np.ndarray, indices: np.ndarray, axis: int = 0, dtype: Any = None, out: Any = None) -> np.ndarray:
    """``add.reduceat``: differences of running sums over everything, with the rounding of those."""
    if axis or out is not None:
        raise NotImplementedError("the stand-in sums along the first axis")
    acc = running_sums(a.astype(dtype or a.dtype))
    ends = np.append(indices[1:], len(a))
    single = (ends <= indices).reshape(-1, *[1] * (a.ndim - 1))
    arrays.machine.scratch(acc.nbytes + 2 * a.nbytes)  # the sums, and with a 0 before them
    arrays.machine.launch(10, 6 * a.nbytes)
    return np.where(single, a[indices], acc[ends] - acc[indices])


def from_host(name: str, obj: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> ndarray:
    """Upload, or pass on what is on the device already."""
    kwargs.pop("blocking", None)
    if isinstance(obj, ndarray):
        obj.check_device()
        if not dtype and name != "array":
            return obj
        out = getattr(np, name)(obj._host, dtype, *args, **kwargs)
        charge(arrays.machine, "asarray", (obj._host,), out)
        return device(out)
    if hasattr(obj, "__cuda_array_interface__"):
        interface = obj.__cuda_array_interface__
        seen = arrays.machine.memory_at(interface["data"][0])
        view = seen.root.view(interface["typestr"]).reshape(interface["shape"])
        return device(view if seen.device == arrays.machine.current else view.copy())
    if not isinstance(obj, SCALARS):
        made = np.array(obj, dtype)
        if made.dtype.kind not in "?biufc":
            raise ValueError(f"Unsupported dtype {made.dtype}")
        arrays.machine.upload(made.shape, made.nbytes)
        return device(made)
    return device(np.array(obj, dtype))


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    """The real one gets a capsule with a pointer; here a producer hands over the stand-in's own array."""
    if array.__dlpack_device__()[0] != 2:
        raise BufferError("CuPy cannot import an array on the host without a copy")
    return array.__dlpack__(stream=1)


class Ufunc:
    """A ufunc: device arrays and scalars only; ``reduceat`` exists for ``add`` alone."""

    def __init__(self, ours: np.ufunc, real: Any) -> None:
        self.ours, self.real = ours, real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not set(kwargs) <= {"out", "dtype", "casting", "where"}:
            raise TypeError(f"wrong arguments {sorted(kwargs)}")
        out = kwargs.get("out")
        values = tuple(map(operand, args))
        result = self.ours(*values, **{key: host(value) for key, value in kwargs.items()})
        if self.ours is np.matmul:
            charge_product(arrays.machine, *values, result)
        else:
            result = result if out is not None else in_c_order(result)
            charge(arrays.machine, self.ours.__name__, values, result)
        return out if out is not None else device(result)

    def __getattr__(self, name: str) -> Any:
        if name not in ("reduceat", "reduce", "at", "outer", "accumulate"):
            raise AttributeError(name)
        if name == "reduceat" and self.ours is not np.add:
            return self._refuse
        return partial(self._method, name)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"`{self.ours.__name__}.reduceat` is not supported yet")

    def _method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        signature = _method_signature(name)
        if signature is not None:
            signature.bind(None, *args, **kwargs)
        values = tuple(map(host, args))
        if name == "reduceat":
            return device(reduceat(*values, **kwargs))
        result = getattr(self.ours, name)(*values, **{key: host(value) for key, value in kwargs.items()})
        charge(arrays.machine, name, values, result)
        return device(result)


@cache
def _method_signature(name: str) -> Any:
    from . import REAL

    return signature_of(getattr(REAL["cupy"].add, name))
