"""Argument checks: bad input ends here, with an error that gives the argument, its value and the way out."""

import math
import numbers
import os
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse

from .backend import Backend, at_home, backend_of
from .backend.array import Array, any_true, on_host, spaced_rows
from .constraints import LARGEST, TEXT, Integer, Length, Number, Seed, Switch, Words
from .findings import brief, first_few, one_line, option, refusal

# single values, by the same constraints as the table of options
check_length, check_flag, check_text = Length().check, Switch().check, TEXT.check
check_seed = partial(Seed(0).check, "random_state")


def wrong(name: str, code: str, text: str, advice: str = "", kind: type[Exception] = ValueError) -> Any:
    """Return the error that an argument is not what it must be."""
    return refusal(f"{name}.{code}", f"{option(name)} {text}", advice, kind)


def check_number(name: str, value: Any, *, low: float = 0.0, high: float = math.inf, closed: bool = False) -> float:
    return Number(low, high, closed).check(name, value)


def check_integer(name: str, value: Any, *, low: int, high: int | None = None, why: str = "") -> int:
    return Integer(low, high, why).check(name, value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    return Words(*choices).check(name, value)


def check_members(name: str, value: Any, wanted: str) -> list[Any]:
    """Return the members of a collection as a list; text is refused, not split into letters."""
    try:
        if not isinstance(value, str | bytes):
            return list(value)
    except Exception:  # not iterable, or an iterator that fails
        pass
    raise wrong(name, "type", f"must be {wanted}, got {brief(value)}", kind=TypeError) from None


@at_home
def check_real_array(
    name: str, array: Array, ndim: int, dtype: Any = np.float64, *, largest: float = LARGEST, columns: Any = None
) -> Array:
    """Return a dense array of finite real numbers, on its device; ``columns`` are their names for messages."""
    if ("anndata", "AnnData") in {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(array).__mro__}:
        advice = f"use ies_gpu.anndata.select({name}), or pass an array of it such as {name}.obsm['X_pca']"
        raise wrong(name, "anndata", "is an AnnData object", advice, TypeError)
    if isinstance(array, str | os.PathLike):
        advice = "load the file first, e.g. with np.load, or pass client= to let the workers of a cluster read it"
        raise wrong(name, "path", f"must be an array, got the path {brief(array)}", advice, TypeError)
    if scipy.sparse.issparse(array):
        text = f"must be a dense array, got a sparse {type(array).__name__}"
        raise wrong(name, "sparse", text, f"use {name}.toarray()", TypeError)
    given, backend, array = array, backend_of(array), check_array(name, array)
    if array.dtype.kind == "c":
        way = "pass its real and imaginary parts as columns"
        raise wrong(name, "complex", f"must be real, got dtype {array.dtype}", way, TypeError)
    if array.dtype.kind not in "buifO":
        text = f"must be numeric, got dtype {array.dtype}"
        raise wrong(name, "type", text, _way_out_of_bfloat16(name, given), TypeError)
    if array.ndim != ndim:
        one = f"{name}.to_frame()" if hasattr(given, "to_frame") else f"{name}.reshape(-1, 1)"
        advice = f"use {one} for one column" if (array.ndim, ndim) == (1, 2) else ""
        if array.ndim > ndim == 2:  # images
            advice = f"use {name}.reshape(len({name}), -1) to make each of the {len(array)} a row"
        raise wrong(name, "shape", f"must have {ndim} axes, got shape {array.shape}", advice)
    if array.dtype.kind == "O":
        array = _from_objects(name, array)
    array = backend.xp.ascontiguousarray(array, dtype=dtype)
    with suppress(Exception):  # no frame; objects may fail as they like
        columns = [str(column) for column in given.columns] or columns
    _check_finite(name, array, backend, largest, columns=columns)
    return array


def check_unmasked(name: str, array: Any) -> None:
    """Raise if entries of an array are masked: plain arrays would show what is behind the mask."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise wrong(name, "masked", "has masked entries", "drop those rows or fill them")


def check_array(name: str, array: Array) -> Array:
    """Return whatever becomes an array as one, on the device where it is."""
    check_unmasked(name, array)
    try:
        return backend_of(array).asarray(array)
    except MemoryError:
        raise
    except Exception as error:  # objects may convert themselves, and fail as they like
        text = f"must be an array of numbers: {one_line(error)}"
        raise wrong(name, "type", text, _way_out_of_bfloat16(name, array), TypeError) from None


def _way_out_of_bfloat16(name: str, array: Any) -> str:
    if not str(getattr(array, "dtype", "")).endswith("bfloat16"):
        return ""
    return f"use {name}.float()" if hasattr(array, "float") else f'use {name}.astype("float32")'


def _from_objects(name: str, array: Array) -> Array:
    """Return numbers that came as Python objects, as a column of integers and floats of a data frame does."""
    missing = np.array([value is None or type(value).__name__ == "NAType" for value in array.flat], dtype=bool)
    array = np.where(missing.reshape(array.shape), np.nan, array)  # None, and what pandas has for it
    odd = [value for value in array.flat if not isinstance(value, numbers.Real | np.number)]
    if odd:
        raise wrong(name, "type", f"must be numeric, but it contains {brief(odd[0])}", kind=TypeError)
    try:
        return array.astype(np.float64)
    except (OverflowError, ValueError, TypeError):
        raise wrong(name, "too_large", "contains numbers that no float can hold", "scale them down") from None


def _check_finite(
    name: str, array: Array, backend: Backend, largest: float = LARGEST, indptr: Array = None, columns: Any = None
) -> None:
    """Refuse entries that are no numbers, or too large; with ``indptr`` they are those of a CSR."""
    xp = backend.xp
    if array.size == 0:
        return
    high, low = map(float, backend.all_to_host(array.max(), array.min()))  # nothing else is copied
    if np.maximum(high, -low) <= largest:  # False for NaN
        return
    bad = ~xp.isfinite(array)
    rows = backend.to_host(xp.nonzero(bad.any(axis=tuple(range(1, array.ndim))) if array.ndim > 1 else bad)[0])
    if len(rows) == 0:
        text = f"has entries as large as {float(abs(array).max()):.0e}, whose squares no float can hold"
        raise wrong(name, "too_large", text, f"divide {name} by a constant")
    if indptr is not None:
        rows = np.unique(np.searchsorted(backend.to_host(indptr), rows, side="right") - 1)
    where, way = _counted("row", rows), "drop these rows"
    if array.ndim == 2:
        numbers = backend.to_host(xp.nonzero(bad.any(axis=0))[0])
        where += f" and {_counted('column', numbers if columns is None else [columns[k] for k in numbers])}"
        way = f"drop these rows, e.g. {name}[np.isfinite({name}).all(axis=1)], or these columns"
        if 2 * len(rows) > len(array) and len(numbers) < array.shape[1]:
            way = "drop these columns"
    if indptr is not None or name in ("graph", "kernel", "laplacian"):
        way = f"drop these rows and the same columns, e.g. {name}[keep][:, keep]"
    raise wrong(name, "not_finite", f"contains NaN or infinite values in {where}", way)


def _counted(what: str, which: Any) -> str:
    """Say how many there are, and the first of them: 2 rows (3, 77)."""
    listed = first_few(repr(k) if isinstance(k, str) else k for k in which)
    return f"{len(which)} {what}{'s' * (len(which) != 1)} ({listed})"


@at_home
def check_points(X: Array) -> Array:
    """Return points (n, D), at least two of them and not all the same."""
    X = check_real_array("X", X, 2)
    few = on_host(X[:1000])  # they settle it nearly always
    differ = bool((few[:1] != few).any()) or any_true(X[:1] != X)
    seen = bool((abs(few) > 1 / LARGEST).any()) or any_true(abs(X) > 1 / LARGEST)
    refuse_points(X.shape, differ, seen)
    return X


def refuse_points(shape: tuple[int, ...], differ: bool, seen: bool) -> None:
    """Raise if there are fewer than two points, if none ``differ``, or if no entry has a square that is ``seen``."""
    if shape[0] < 2 or shape[1] < 1:
        raise wrong("X", "shape", f"must hold at least 2 points with at least 1 column, got shape {shape}")
    if not differ:
        raise wrong("X", "copies", f"must not consist of {shape[0]} copies of one point")
    if not seen:
        text = f"has no entry above {1 / LARGEST:.0e}, and smaller squares vanish"
        raise wrong("X", "too_small", text, "multiply X by a constant")


@at_home
def check_square_sparse(name: str, matrix: Array, dtype: Any = np.float64, *, add: bool = True) -> Array:
    """Return a square matrix as CSR, sorted and finite; what is stored twice is added, or refused without ``add``."""
    backend = backend_of(matrix)
    if not backend.sparse.issparse(matrix):
        matrix = check_real_array(name, matrix, 2, dtype)
        if matrix.shape[0] == matrix.shape[1]:
            matrix = backend.sparse.csr_array(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise wrong(name, "shape", f"must be square, got shape {matrix.shape}")
    if matrix.shape[0] < 2:
        raise wrong(name, "shape", f"must cover at least 2 points, got shape {matrix.shape}")
    return check_sparse(name, matrix, dtype, add=add)


def check_sparse(name: str, matrix: Array, dtype: Any = np.float64, *, add: bool = True) -> Array:
    """Return a sparse matrix of any shape as CSR with sorted indices, each entry once, and all finite."""
    backend = backend_of(matrix)
    if matrix.dtype.kind not in "buif":
        raise wrong(name, "type", f"must be real and numeric, got dtype {matrix.dtype}", kind=TypeError)
    check_sparse_storage(name, matrix)
    stored = matrix.nnz if matrix.format in ("coo", "csr", "csc", "bsr") else None  # elsewhere nothing is stored twice
    matrix = matrix.tocsr()
    if matrix.dtype != dtype:
        matrix = matrix.astype(dtype)
    rising, starts = matrix.indices[1:] > matrix.indices[:-1], matrix.indptr[1:-1]
    rising[starts[(starts > 0) & (starts < matrix.nnz)] - 1] = True  # from one row to the next
    if not rising.all():
        # a new matrix: what SciPy remembers of the old one may no longer be true, and the user's stays as it is
        parts = (part.copy() for part in (matrix.data, matrix.indices, matrix.indptr))
        matrix = type(matrix)(tuple(parts), shape=matrix.shape)
        matrix.sum_duplicates()
    if not add and stored is not None and matrix.nnz < stored:
        text = f"must store each pair once, but {stored - matrix.nnz} of {stored} entries repeat one"
        advice = f"keep one distance per pair, or call {name}.sum_duplicates() if they are meant to be added"
        raise wrong(name, "repeated", text, advice)
    _check_finite(name, matrix.data, backend, indptr=matrix.indptr)
    return matrix


def check_sparse_storage(name: str, matrix: Array) -> None:
    """Refuse a sparse matrix whose index arrays lead out of it: the constructors do not look, and loops would crash."""
    if matrix.format == "coo":
        parts, sound = [(matrix.row, matrix.shape[0]), (matrix.col, matrix.shape[1])], True
    elif matrix.format in ("csr", "csc", "bsr"):
        sides, starts = getattr(matrix, "blocksize", (1, 1)), matrix.indptr
        rows, columns = matrix.shape[0] // sides[0], matrix.shape[1] // sides[1]
        major, minor = (columns, rows) if matrix.format == "csc" else (rows, columns)
        parts, sound = [(matrix.indices, minor)], len(starts) == major + 1 and bool((starts[1:] >= starts[:-1]).all())
        sound = sound and (int(starts[0]), int(starts[-1])) == (0, len(matrix.indices))
    else:
        return
    for part, size in parts:
        inside = len(part) == 0 or (int(part.min()) >= 0 and int(part.max()) < size)
        if not (sound and inside and len(part) == len(matrix.data)):
            text = "is damaged: its index arrays do not fit its shape, its data, or each other"
            way = "build the matrix again, e.g. from its entries as scipy.sparse.coo_array"
            raise wrong(name, "damaged", text, way)


@at_home
def check_symmetric(name: str, matrix: Array, *, stored_zeros: bool = False) -> bool:
    """Check that a CSR matrix without negative entries is its own transpose to 1e-8 of its largest entry.

    Return whether each entry equals its mirror image to 1e-10 of itself: BLAS rounds a tile and its transpose
    differently. With ``stored_zeros`` a zero that is stored is an entry too, and must be stored on both sides.
    """
    if matrix.nnz == 0:
        return True
    if bool((matrix.data < 0).any()):
        raise wrong(name, "negative", f"must not have negative entries, got {float(matrix.data.min()):g}")
    largest = float(matrix.data.max())
    if stored_zeros:
        matrix = matrix.copy()
        matrix.data = matrix.data + (largest or 1.0)
    difference = abs(matrix - matrix.T)
    if difference.nnz == 0:
        return True
    most = float(difference.data.max())
    if most > 1e-8 * (largest or 1.0):
        way = "store each distance at both (i, j) and (j, i)" if stored_zeros else f"use 0.5 * ({name} + {name}.T)"
        text = f"must be symmetric, but it differs from its transpose by up to {most:.3g}"
        raise wrong(name, "asymmetric", text, way)
    return float((difference - 1e-10 * matrix).data.max()) <= 0


@at_home
def check_kernel(kernel: Array, name: str = "kernel") -> Array:
    """Return a user's kernel as a CSR of its own, averaged with its transpose unless it is symmetric but for rounding.

    A difference that is small beside the largest entry may be large in a row of small ones, and a kernel that is not
    quite symmetric has no orthogonal eigenvectors.
    """
    matrix = check_square_sparse(name, kernel)
    backend = backend_of(matrix.data)
    if check_symmetric(name, matrix):
        return matrix.copy() if matrix.data is getattr(kernel, "data", None) else matrix
    both = (0.5 * (matrix + matrix.T)).tocsr()
    both.sort_indices()
    return backend.csr(both.data, both.indices, both.indptr, both.shape)


SIX_DIGITS = 2.0**20
ROWS = 64  # of points that tell whether they are the same; so few come from a device at no cost


@at_home
def points_digest(X: Array) -> str:
    """Return the digest of some rows of points (n, D), evenly spaced, whatever their type and device."""
    backend = backend_of(X)
    return digest_of_rows(X.shape, backend.to_host(X[backend.asarray(spaced_rows(len(X), ROWS))]))


def digest_of_rows(shape: tuple[int, ...], some: np.ndarray) -> str:
    """Return the digest of points from their shape and those rows, to six digits: programs differ in the last ones."""
    mantissa, exponent = np.frexp(some.astype(np.float64))
    rounded = np.ldexp(np.round(mantissa * SIX_DIGITS) / SIX_DIGITS, exponent) + 0.0  # -0.0 is 0.0
    return sha256(f"{shape}".encode() + rounded.tobytes()).hexdigest()
