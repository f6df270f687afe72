"""What has to be known about arrays for one text to work with NumPy and CuPy alike."""

import operator
import sys
from typing import Any, TypeAlias

import numpy as np

# of NumPy or CuPy or, where the docstring says so, sparse: neither library's types describe the other's arrays
Array: TypeAlias = Any

FOLD, WIDE_ENOUGH = 256, 2048  # rows side by side, and numbers in them, at least: CuPy has a block of threads for 32
PART_BYTES = 128 << 20  # temporaries of plain code at a time
FEW_BYTES = 1 << 20  # of arrays that the host works on in milliseconds: CuPy compiles, and launches, each operation
MAX_BATCH = 65_536  # matrices in one call of eigh: cuSOLVER counts the workspace of all of them in 32 bits


def namespace(array: Array) -> Any:
    """Return the module (``numpy`` or ``cupy``) that an array belongs to."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def on_host(array: Array) -> np.ndarray:
    """Return a NumPy array as it is, a CuPy array as a copy."""
    return array if isinstance(array, np.ndarray) else array.get()


def is_few(points: Array) -> bool:
    return points.nbytes <= FEW_BYTES


def few_on_host(points: Array) -> Array:
    """Return a small array on the host, where what follows takes less time than launches would; others as they are."""
    return on_host(points) if is_few(points) else points


def sample_rows(n: int, size: int, seed: int) -> np.ndarray:
    """Draw at most ``size`` of n row numbers, rising."""
    return np.arange(n) if n <= size else np.sort(np.random.default_rng(seed).choice(n, size=size, replace=False))


def spaced_rows(n: int, size: int) -> np.ndarray:
    """Return at most ``size`` of n row numbers, evenly spaced, the first and the last among them."""
    return np.linspace(0, n - 1, min(n, size)).astype(int)


def parts(n: int, bytes_per_row: float) -> list[slice]:
    """Return runs of rows whose temporaries stay small: blocks of a GPU are sized for kernels, which take far fewer."""
    step = max(1, int(PART_BYTES / max(1, bytes_per_row)))
    return [slice(first, min(n, first + step)) for first in range(0, n, step)]


# CuPy has ready-made sums of whole arrays and of rows, but not of Booleans, nor into another type: NVRTC takes a second
# for each of those, once. So masks are counted in float64, which is exact.


def count_true(mask: Array) -> Array:
    """Return how many entries of a mask are true."""
    return np.count_nonzero(mask) if isinstance(mask, np.ndarray) else mask.astype("float64").sum()


def any_true(mask: Array) -> bool:
    """Return whether any entry of a mask is true."""
    return bool(mask.any()) if isinstance(mask, np.ndarray) else mask.size > 0 and bool(mask.view("int8").max())


def row_counts(rows: Array, n: int) -> Array:
    """Return how many of some numbers, rising, are 0, 1, ..., n - 1; CuPy's ``bincount`` would take ``any``."""
    if isinstance(rows, np.ndarray):
        return np.bincount(rows, minlength=n)
    ends = namespace(rows).searchsorted(rows, namespace(rows).arange(n + 1))
    return ends[1:] - ends[:-1]


def folded_rows(k: int) -> int:
    """Return how many rows of k numbers to put side by side, so that many of CuPy's blocks of threads reduce them."""
    return max(FOLD, WIDE_ENOUGH // max(1, k))


def _folded(A: Any, reduce: Any, join: Any) -> Array:
    """Reduce the rows of A side by side, then those of the result, and what was left over."""
    n, k = A.shape
    fold = folded_rows(k)
    head = n // fold * fold
    found = reduce(reduce(A[:head].reshape(-1, fold * k)).reshape(fold, k))
    return found if head == n else join(found, reduce(A[head:]))


def column_sums(A: Any) -> Array:
    """Return sums (k,) over the rows of A (n, k), in float64."""
    if isinstance(A, np.ndarray):
        return A.sum(axis=0, dtype="float64")
    if A.shape[1] == 1:
        return A.astype("float64", copy=False).sum().reshape(1)
    if len(A) < 2 * folded_rows(A.shape[1]):
        return namespace(A).ones(len(A)) @ A.astype("float64", copy=False)
    # with a dtype that it has anyway, the sum would be another text
    return _folded(A, lambda rows: rows.sum(axis=0, dtype=None if rows.dtype == "float64" else "float64"), operator.add)


def column_maxima(A: Any) -> Array:
    """Return maxima (k,) over the rows of A (n, k)."""
    if isinstance(A, np.ndarray) or len(A) < 2 * folded_rows(A.shape[1]):
        return A.max(axis=0)
    return _folded(A, lambda rows: rows.max(axis=0), namespace(A).maximum)


def column_ends(A: Any) -> tuple[Array, Array]:
    """Return minima and maxima (k,) over the rows of A (n, k)."""
    return A.min(axis=0) if isinstance(A, np.ndarray) else -column_maxima(-A), column_maxima(A)


def column_means(A: Any) -> Array:
    """Return means (k,) over the rows of A (n, k)."""
    return A.mean(axis=0) if isinstance(A, np.ndarray) else (column_sums(A) / len(A)).astype(A.dtype, copy=False)


def column_units(A: Any) -> Array:
    """Return what to divide columns by so that their standard deviation is 1; constant ones stay as they are."""
    xp = namespace(A)
    if xp is np:
        spread = A.std(axis=0)
    else:
        centred = A - column_means(A)
        spread = xp.sqrt(column_means(centred * centred))
    return xp.where(spread > 0, spread, 1)


def column_norms(A: Array) -> Array:
    """Return the lengths (k,) of the columns of A (n, k)."""
    return namespace(A).sqrt(column_sums(A * A))


def row_squares(A: Any) -> Array:
    """Return the squared lengths (n,) of the rows of A (n, k); of ``einsum`` CuPy would make n matrix products."""
    return np.einsum("ij,ij->i", A, A) if isinstance(A, np.ndarray) else (A * A).sum(axis=1)


def extent(X: Array) -> float:
    """Return the largest entry of points (n, D) less the first: in this unit, squares neither overflow nor vanish."""
    return float(abs(X - X[:1]).max())


def stacked_eigh(H: Array) -> tuple[Array, Array]:
    """Return eigenvalues, rising, and eigenvectors of a stack of symmetric matrices.

    Where cuSOLVER fails, as it is said to on a zero matrix, by an error or with NaN, LAPACK solves the stack.
    """
    xp = namespace(H)
    if xp is np:
        return np.linalg.eigh(H)
    if len(H) > MAX_BATCH:
        found = (stacked_eigh(H[first : first + MAX_BATCH]) for first in range(0, len(H), MAX_BATCH))
        values, vectors = map(xp.concatenate, zip(*found, strict=True))
        return values, vectors
    try:
        values, vectors = xp.linalg.eigh(H)
        if bool(xp.isfinite(values.sum() + vectors.sum())):
            return values, vectors
    except np.linalg.LinAlgError:
        pass
    values, vectors = map(xp.asarray, np.linalg.eigh(on_host(H)))
    return values, vectors


def csr(indptr: Array, indices: Array, data: Array, columns: int) -> Array:
    """Return a CSR matrix over its parts, whose entries are known to be sorted and different."""
    sparse = sys.modules["scipy.sparse" if namespace(data).__name__ == "numpy" else "cupyx.scipy.sparse"]
    matrix = sparse.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, columns))
    matrix.has_canonical_format = True  # CuPy would otherwise look, and wait, before each product
    return matrix


def starts_of(counts: Array) -> Array:
    """Return where runs of these lengths begin when they stand one after the other, and where the last one ends."""
    xp = namespace(counts)
    return xp.concatenate([xp.zeros(1, dtype=xp.int64), xp.cumsum(counts)])


def entry_rows(matrix: Array) -> Array:
    """Return the row of each entry of a CSR."""
    xp = namespace(matrix.indptr)
    return xp.repeat(xp.arange(matrix.shape[0], dtype=matrix.indices.dtype), matrix.indptr[1:] - matrix.indptr[:-1])


def row_slots(indptr: Array, rows: Array) -> tuple[Array, Array]:
    """Return where each of some rows of a CSR begins if only they are kept, and the place of their entries in it."""
    xp = namespace(indptr)
    counts = indptr[rows + 1] - indptr[rows]
    ends = xp.concatenate([xp.zeros(1, dtype=indptr.dtype), xp.cumsum(counts).astype(indptr.dtype)])
    return ends, xp.repeat(indptr[rows] - ends[:-1], counts) + xp.arange(int(ends[-1]))
