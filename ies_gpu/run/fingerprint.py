"""SHA-256 of arrays, matrices and parameters: whether two jobs are the same, and whether a file is what was written."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from .. import __version__
from ..backend import backend_of, to_host
from ..backend.array import Array, spaced_rows
from ..embedding.laplacian import Laplacian
from ..validation import check_real_array

PIECE = 16 << 20  # bytes of a scattered array that are copied at a time
SIX_DIGITS = 2.0**20
ROWS = 64  # of points that tell whether they are the same; so few come from a device at no cost


def data_digest(given: Mapping[str, Any]) -> str:
    """Return the digest of all inputs that were given."""
    total = hashlib.sha256()
    for name, value in sorted(given.items()):
        if value is not None:
            total.update(f"{name}:".encode())
            _add_input(total, name, value)
    return total.hexdigest()


def points_digest(X: Array) -> str:
    """Return the digest of some rows of points (n, D), evenly spaced, whatever their type and device."""
    backend = backend_of(X)
    with backend.active():
        some = backend.to_host(X[backend.asarray(digest_rows(len(X)))])
    return digest_of_rows(X.shape, some)


def digest_rows(n: int) -> np.ndarray:
    """Return which of n rows are in the digest of points."""
    return spaced_rows(n, ROWS)


def digest_of_rows(shape: tuple[int, ...], some: np.ndarray) -> str:
    """Return the digest of points from their shape and those rows, to six digits: programs differ in the last ones."""
    mantissa, exponent = np.frexp(some.astype(np.float64))
    rounded = np.ldexp(np.round(mantissa * SIX_DIGITS) / SIX_DIGITS, exponent) + 0.0  # -0.0 is 0.0
    return hashlib.sha256(f"{shape}".encode() + rounded.tobytes()).hexdigest()


def content_digest(content: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the digest of a JSON value and the arrays that belong to it."""
    total = hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        total.update(f"{name}:".encode())
        add_array(total, arrays[name])
    return total.hexdigest()


def add_array(total: Any, array: np.ndarray) -> None:
    """Add type, shape, order in memory and bytes of a host array; a scattered one is copied piece by piece."""
    array = np.asarray(array)
    columns = array.flags.f_contiguous and not array.flags.c_contiguous
    total.update(f"{array.dtype.str}{array.shape}{'F' if columns else 'C'}".encode())
    array = array.T if columns else np.atleast_1d(array)
    rows = max(1, PIECE * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), rows):
        total.update(np.ascontiguousarray(array[first : first + rows]).reshape(-1).view(np.uint8).data)


def _add_input(total: Any, name: str, value: Any) -> None:
    if isinstance(value, Laplacian):
        total.update(f"Laplacian {value.bandwidth!r}".encode())
        label, parts = value.operator.parts()
        total.update(label.encode())
        for part in parts:
            add_array(total, to_host(part))
        if not value.rows.stand_as_given:
            add_array(total, value.rows.numbers)
        if value.operator_weights is not None:
            _add_input(total, name, value.operator_weights)
        return
    backend = backend_of(value)
    if backend.sparse.issparse(value):
        matrix = value.tocsr()
        total.update(f"sparse {matrix.shape}".encode())
        for part in (matrix.data, matrix.indices, matrix.indptr):
            add_array(total, backend.to_host(part))
        return
    if isinstance(value, np.ma.MaskedArray) or np.dtype(getattr(value, "dtype", object)).hasobject:
        # bytes of objects are addresses, and a mask is no part of the bytes
        value = check_real_array(name, value, np.ndim(value))
    add_array(total, backend.to_host(value))


def versions() -> dict[str, str]:
    """Return the versions of everything that touched the numbers."""
    found = {"ies_gpu": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "numba"):
        with suppress(ImportError):
            found[name] = import_module(name).__version__
    return found
