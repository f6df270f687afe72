"""``cupy.ndarray`` over NumPy: it stays on its device, and says no where CuPy says no."""

from __future__ import annotations

import inspect
import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from .costs import REDUCTIONS, charge, charge_product
from .machine import Machine

machine = Machine()  # of the stand-in in use; replaced by ``standing_in``
SCALARS = (bool, int, float, complex, np.generic)


def signature_of(real: Any) -> inspect.Signature | None:
    """A real CuPy callable's signature: its own, or for Cython's what the first line of its docstring says."""
    try:
        return inspect.signature(real)
    except (TypeError, ValueError):
        pass
    first = (getattr(real, "__doc__", None) or "").strip().splitlines()
    match = re.match(r"[\w.]+\((.*)\)", first[0]) if first else None
    if match is None:
        return None
    arguments = re.sub(r"(^|, )(?:int|str|bool|bint|_ndarray_base|Py_ssize_t|tuple)\s+(\w)", r"\1\2", match[1])
    try:
        made = eval(f"lambda {arguments}: None", {})  # text of the installed CuPy
    except SyntaxError:
        return None
    return inspect.signature(made)


def host(value: Any) -> Any:
    """The NumPy form of an operand of a device function; what CuPy would refuse is refused."""
    if isinstance(value, ndarray):
        value.check_device()
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: a NumPy array of shape {value.shape} beside device arrays")
    if isinstance(value, list | tuple) and any(isinstance(item, ndarray | np.ndarray) for item in value):
        return type(value)(host(item) for item in value)
    return value


def operand(value: Any) -> Any:
    """Of a ufunc: device arrays and scalars only."""
    if value is None or isinstance(value, list | tuple):
        raise TypeError(f"Unsupported type {type(value)}")
    return host(value)


def device(value: Any) -> Any:
    """Results of NumPy as results of CuPy: scalars become 0-d arrays on the device."""
    if isinstance(value, np.ndarray):
        return ndarray._of(value)
    if isinstance(value, np.generic):
        return ndarray._of(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(device, value))
    return type(value)(map(device, value)) if isinstance(value, tuple | list) else value


def in_c_order(result: Any) -> Any:
    """What a ufunc gives: CuPy writes it in C order, whatever the order of the operands."""
    return np.asarray(result, order="C") if isinstance(result, np.ndarray) else result


class Flags:
    def __init__(self, flags: Any) -> None:
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = flags.owndata


class ndarray:  # noqa: N801 - CuPy's name
    """An array on the device."""

    __array_ufunc__ = None  # NumPy's operators hand over to ours
    __hash__ = None  # type: ignore[assignment]
    real: type  # the real class, set by ``standing_in``

    @classmethod
    def _of(cls, array: np.ndarray) -> ndarray:
        made = object.__new__(cls)
        made._host = array
        made._memory = machine.memory_of(array)
        return made

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> Any:
        return cls._of(np.empty(shape, dtype, order))

    def check_device(self) -> None:
        if self._memory.device != machine.current:
            raise ValueError(
                "Array device must be same as the current device: array device = "
                f"{self._memory.device} while current = {machine.current}"
            )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct one")

    # --- to the host: each of these waits for the device ---
    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        if not (self._host.flags.c_contiguous or self._host.flags.f_contiguous):  # gathered on the device first
            machine.scratch(self._host.nbytes)
            machine.launch(1, 2 * self._host.nbytes)
        machine.download(self._host.shape, self._host.nbytes)
        return self._host.copy(order)

    def item(self) -> Any:
        machine.synchronise()
        return self._host.item()

    def tolist(self) -> Any:
        machine.download(self._host.shape)
        return self._host.tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        machine.synchronise()
        return bool(self._host)

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<stand-in array {self._host.shape} {self._host.dtype}>"

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self._host)))

    # --- attributes ---
    @property
    def device(self) -> Any:
        from .runtime import Device

        return Device(self._memory.device)

    @property
    def data(self) -> Any:
        """The memory pointer: where it is, and on which device."""
        return SimpleNamespace(ptr=self._host.ctypes.data, device=self.device)

    @property
    def flags(self) -> Flags:
        return Flags(self._host.flags)

    @property
    def T(self) -> ndarray:  # noqa: N802
        return device(self._host.T)

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)

    def argsort(self, axis: int = -1, kind: Any = None) -> ndarray:
        self.check_device()
        out = self._host.argsort(axis=axis, kind="stable")
        charge(machine, "argsort", (self._host,), out)
        return device(out)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(type(self).real, name):
            raise AttributeError(f"cupy.ndarray has no attribute {name!r}")
        self.check_device()
        return method(self._host, name)

    # --- indexing ---
    def __getitem__(self, key: Any) -> ndarray:
        if any(isinstance(k, list | np.ndarray | ndarray) for k in (key if isinstance(key, tuple) else (key,))):
            self.check_device()  # a view can be taken from anywhere
        used = index(self._host.shape, key, reading=True)
        out = self._host[used]
        charge_index(used, out, reading=True)
        return device(out)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.check_device()
        if not isinstance(value, SCALARS):
            value = operand(value)
        used = index(self._host.shape, key, reading=False)
        self._host[used] = value
        charge_index(used, value, reading=False)


def method(array: np.ndarray, name: str) -> Any:
    """A method of the real array, with its signature, run by NumPy's."""
    signature = signature_of_method(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if signature is not None:
            signature.bind(None, *args, **kwargs)
        out = getattr(array, name)(*map(host, args), **{key: host(value) for key, value in kwargs.items()})
        charge(machine, name, (array, *args), out, (*args, kwargs.get("axis"))[0] if name in REDUCTIONS else None)
        return device(out)

    return call


@cache
def signature_of_method(name: str) -> inspect.Signature | None:
    return signature_of(getattr(ndarray.real, name))


def index(shape: tuple[int, ...], key: Any, *, reading: bool) -> Any:
    """A NumPy index that does what CuPy's does: arrays of integers wrap around, masks cost a synchronisation."""
    keys = key if isinstance(key, tuple) else (key,)
    used = sum(1 if not _is_mask(k) else k.ndim for k in keys if k is not None and k is not Ellipsis)
    axis, out = 0, []
    for k in keys:
        if isinstance(k, list | np.ndarray):  # CuPy uploads it
            k = np.asarray(k)
            machine.upload(k.shape, k.nbytes)
        elif isinstance(k, ndarray):
            k.check_device()
            k = k._host
        if isinstance(k, slice) and any(isinstance(end, ndarray) for end in (k.start, k.stop, k.step)):
            raise TypeError("slice ends must be integers, not device arrays")
        if isinstance(k, np.ndarray) and k.dtype == bool:
            machine.synchronise()
            axis += k.ndim
        elif isinstance(k, np.ndarray):
            if k.dtype.kind not in "iu":
                raise IndexError(f"arrays used as indices must be of integer or boolean type, got {k.dtype}")
            k = k % shape[axis] if k.size and shape[axis] else k
            axis += 1
        elif k is Ellipsis:
            axis += len(shape) - used
        elif k is not None:
            axis += 1
        out.append(k)
    return tuple(out)


def charge_index(key: tuple[Any, ...], value: Any, *, reading: bool) -> None:
    """Views cost nothing; arrays of numbers are made into one, by a few launches each; masks become numbers first."""
    used = [k for k in key if isinstance(k, np.ndarray)]
    size = value.nbytes if isinstance(value, np.ndarray) else 0
    if not used:
        if not reading:
            machine.launch(1, 2 * size)
        return
    for mask in (k for k in used if k.dtype == bool):
        machine.scratch(4 * mask.size)
        machine.launch(4, 5 * mask.size)
    machine.launch(1 if len(used) == 1 else 1 + 3 * len(used), 2 * size + sum(k.nbytes for k in used))


def _is_mask(key: Any) -> bool:
    return isinstance(key, ndarray | np.ndarray) and key.dtype == bool


def _operator(name: str) -> Any:
    def call(self: ndarray, other: Any) -> Any:
        from .sparse import compressed

        if isinstance(other, compressed):
            return NotImplemented
        self.check_device()
        value = operand(other)
        result = getattr(self._host, name)(value)
        if "matmul" in name:
            charge_product(machine, self._host, value, result)
        elif result is not self._host:
            charge(machine, name, (self._host, value), result := in_c_order(result))
        else:
            charge(machine, name, (self._host, value), result)
        return self if result is self._host else device(result)

    return call


def _unary(array: np.ndarray, name: str) -> ndarray:
    out = in_c_order(getattr(array, name)())
    charge(machine, name, (array,), out)
    return device(out)


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
for _name in [f"__{prefix}{op}__" for op in BINARY for prefix in ("", "r", "i")] + [
    f"__{op}__" for op in ("lt", "le", "gt", "ge", "eq", "ne")
]:
    if _name != "__imatmul__":  # CuPy has none
        setattr(ndarray, _name, _operator(_name))
for _name in ("__neg__", "__pos__", "__abs__", "__invert__"):
    setattr(ndarray, _name, lambda self, _name=_name: _unary(host(self), _name))
ndarray.__module__, ndarray.__qualname__ = "cupy", "ndarray"
