"""Argument checks, our warnings and our errors: bad input ends here, with its name, its value and the way out."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import scipy.sparse

from .backend import Backend, at_home, backend_of


def check_number(name: str, value: Any, *, low: float = 0.0, high: float = math.inf, closed: bool = False) -> float:
    """A finite real number in (low, high), or [low, high] when closed."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | np.number):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    inside = low <= number <= high if closed else low < number < high
    if not (math.isfinite(number) and inside):
        if closed:
            wanted = f"lie between {low:g} and {high:g}" if high < math.inf else f"be a finite number, {low:g} or more"
        else:
            wanted = f"be a finite number greater than {low:g}" + (f" and below {high:g}" if high < math.inf else "")
        raise ValueError(f"{name} must {wanted}, got {value!r}")
    return number


def check_integer(name: str, value: Any, *, low: int, high: int | None = None, why: str = "") -> int:
    """An integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = int(value)
    if number < low or (high is not None and number > high):
        span = f"be {low} or more" if high is None else f"lie between {low} and {high}"
        raise ValueError(f"{name} must {span}{why}, got {value}")
    return number


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


@at_home
def check_real_array(name: str, array: Any, ndim: int, dtype: Any = np.float64) -> Any:
    """A dense array of finite real numbers with ``ndim`` axes, on the device where it is.

    Frames, lists, integers, half precision, foreign byte orders and numeric objects are converted.
    """
    if scipy.sparse.issparse(array):
        raise TypeError(f"{name} must be a dense array, got a sparse {type(array).__name__}; use {name}.toarray()")
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(f"{name} has masked entries; drop those rows or fill them")
    backend = backend_of(array)
    try:
        array = backend.asarray(array)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real, got dtype {array.dtype}; pass its real and imaginary parts as columns")
    if array.dtype.kind not in "buifO":
        raise TypeError(f"{name} must be numeric, got dtype {array.dtype}")
    if array.ndim != ndim:
        hint = f"; use {name}.reshape(-1, 1) for one column" if (array.ndim, ndim) == (1, 2) else ""
        raise ValueError(f"{name} must have {ndim} axes, got shape {array.shape}{hint}")
    if array.dtype.kind == "O":
        array = _from_objects(name, array)
    array = backend.xp.ascontiguousarray(array, dtype=dtype)
    _check_finite(name, array, backend)
    return array


def _from_objects(name: str, array: Any) -> Any:
    """Numbers that came as Python objects, as a column of integers and floats of a data frame does."""
    if not all(isinstance(value, numbers.Real | np.number) or value is None for value in array.flat):
        odd = next(v for v in array.flat if not isinstance(v, numbers.Real | np.number) and v is not None)
        raise TypeError(f"{name} must be numeric, but it contains {odd!r}")
    return array.astype(np.float64)


def _check_finite(name: str, array: Any, backend: Backend) -> None:
    xp = backend.xp
    # a sum is finite only if every entry is (or it overflows, which the second look clears): one pass, no copy
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(array))):
            return
    bad = ~xp.isfinite(array)
    bad = bad.any(axis=tuple(range(1, array.ndim))) if array.ndim > 1 else bad
    rows = backend.to_host(xp.nonzero(bad)[0])
    if len(rows):
        shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        what = "row" if array.ndim > 1 else "entry"
        axes = {1: "", 2: ".all(axis=1)"}.get(array.ndim, f".all(axis={tuple(range(1, array.ndim))})")
        raise ValueError(
            f"{name} contains NaN or infinite values in {len(rows)} {what}{'s' * (len(rows) > 1)} ({shown}); "
            f"drop them, e.g. {name}[np.isfinite({name}){axes}]"
        )


@at_home
def check_points(X: Any, dtype: Any = np.float64) -> Any:
    """Points (n, D), at least two of them and not all the same."""
    X = check_real_array("X", X, 2, dtype)
    if X.shape[0] < 2 or X.shape[1] < 1:
        raise ValueError(f"X must hold at least 2 points with at least 1 column, got shape {X.shape}")
    if not bool((X[:1] != X[:1000]).any()) and not bool((X[:1] != X).any()):  # a few rows settle it nearly always
        raise ValueError(f"X must not consist of {X.shape[0]} copies of one point")
    return X


@at_home
def check_square_sparse(name: str, matrix: Any, dtype: Any = np.float64) -> Any:
    """A square matrix, sparse in any format or dense, as CSR with sorted indices and finite entries.

    Zeros that are stored stay stored; zeros of a dense matrix do not.
    """
    backend = backend_of(matrix)
    if not backend.sparse.issparse(matrix):
        matrix = check_real_array(name, matrix, 2, dtype)
        if matrix.shape[0] == matrix.shape[1]:
            matrix = backend.sparse.csr_array(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be square, got shape {matrix.shape}")
    if matrix.shape[0] < 2:
        raise ValueError(f"{name} must be for at least 2 points, got shape {matrix.shape}")
    if matrix.dtype.kind not in "buif":
        raise TypeError(f"{name} must be real and numeric, got dtype {matrix.dtype}")
    matrix = matrix.tocsr()
    if matrix.dtype != dtype:
        matrix = matrix.astype(dtype)
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    _check_finite(name, matrix.data, backend)
    return matrix


@at_home
def check_symmetric(name: str, matrix: Any, *, stored_zeros: bool = False) -> None:
    """A CSR matrix without negative entries that equals its transpose to 1e-8 of its largest entry.

    With ``stored_zeros`` a zero that is stored is an entry too, and must be stored on both sides.
    """
    if matrix.nnz == 0:
        return
    if bool((matrix.data < 0).any()):
        raise ValueError(f"{name} must not have negative entries, got {float(matrix.data.min()):g}")
    largest = float(matrix.data.max())
    if stored_zeros:
        matrix = matrix.copy()
        matrix.data = matrix.data + (largest or 1.0)
    difference = abs(matrix - matrix.T)
    if difference.nnz and float(difference.data.max()) > 1e-8 * (largest or 1.0):
        way = "store every distance on both sides" if stored_zeros else f"use {name}.maximum({name}.T)"
        raise ValueError(
            f"{name} must be symmetric, but it differs from its transpose by up to {float(difference.data.max()):.3g}; "
            f"{way}"
        )


def check_sizes(n: int | None, intrinsic_dim: Any, subset_size: Any, n_components: Any) -> tuple[int, int, int]:
    """d, s and m that fit together and, where it is known, to the number n of points."""
    m = check_integer("n_components", n_components, low=1)
    if n is not None and m > n - 2:
        raise ValueError(f"n_components must be at most {n - 2} for {n} points, got {m}; lower it or add points")
    d = check_integer("intrinsic_dim", intrinsic_dim, low=1, high=m, why=f" (n_components is {m})")
    why = f" (intrinsic_dim is {d}, n_components is {m})"
    return d, check_integer("subset_size", subset_size, low=d, high=m, why=why), m
