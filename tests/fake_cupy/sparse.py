"""``cupyx.scipy.sparse`` over SciPy: CSR, CSC and COO, with the real one's synchronisations and orders of storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from . import arrays
from .arrays import device, ndarray

SUPPORTED = "?fdFD"  # dtypes of entries
WIDE = 2**31  # from this number of entries on, indices and indptr both have 64 bits
# launches and waits of what SciPy does here in one go
COSTS = {
    "copy": (3, 0), "astype": (3, 0), "convert": (4, 1), "toarray": (2, 0), "diagonal": (1, 0), "sum": (3, 0),
    "entries": (1, 0), "add": (4, 1), "eliminate_zeros": (5, 1), "sum_duplicates": (8, 1), "sort_indices": (3, 0),
}  # fmt: skip


class compressed:  # noqa: N801
    """A sparse matrix made of three device arrays."""

    format: str
    is_array = False
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, *, maxprint: Any = None):
        self._canonical: bool | None = None
        self._sorted: bool | None = None
        if isinstance(arg1, tuple) and len(arg1) == 3:
            if not all(isinstance(part, ndarray) and part.ndim == 1 for part in arg1):
                raise ValueError("data, indices, and indptr must be 1-D cupy arrays")
            data, indices, indptr = map(arrays.host, arg1)
            if len(data) != len(indices):
                raise ValueError("indices and data should have the same size")
            if len(indptr) and indptr[0] != 0:
                raise ValueError(f"index pointer should start with 0 (got {indptr[0]})")
            if len(indptr) and indptr[-1] != len(data):
                raise ValueError(f"last index pointer ({indptr[-1]}) is not the size of data/indices ({len(data)})")
            arrays.machine.synchronise()  # the real one reads both ends of indptr, stacked
            arrays.machine.launch(1, 16)
            for long in (part for part in (indices, indptr) if part.dtype == np.int64):  # do they fit into 32 bits?
                arrays.machine.launch(2, 2 * long.nbytes)
                arrays.machine.synchronise()
                arrays.machine.synchronise()
            wide = max(shape) >= 2**31 or (len(indptr) and int(indptr[-1]) >= WIDE)
            kind = np.int64 if wide else np.int32
            for other in (part for part in (indices, indptr) if part.dtype != kind):
                arrays.machine.launch(1, other.nbytes + other.size * np.dtype(kind).itemsize)
            parts = data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False)
        else:
            if isinstance(arg1, ndarray):
                arrays.machine.synchronise()  # to count the entries
                made = scipy.sparse.csr_matrix(arrays.host(arg1))
            elif isinstance(arg1, compressed):
                made = arg1._scipy()
            elif scipy.sparse.issparse(arg1):
                made = arg1
                arrays.machine.upload(arg1.shape, arg1.data.nbytes)
            else:
                raise ValueError("Unsupported initializer format")
            made, shape = made.asformat(self.format), made.shape
            parts = made.data, made.indices, made.indptr
        if dtype is not None:
            parts = parts[0].astype(dtype), parts[1], parts[2]
        if parts[0].dtype.char not in SUPPORTED:
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")
        self.data, self.indices, self.indptr = (device(part.copy() if copy else part) for part in parts)
        self.shape = tuple(int(side) for side in shape)
        major = self.shape[0 if self.format == "csr" else 1]
        if len(self.indptr) != major + 1:
            raise ValueError(f"index pointer size ({len(self.indptr)}) should be ({major + 1})")

    def _scipy(self, *, anywhere: bool = False) -> Any:
        """The same memory as SciPy sees it; only a copy to the host may be made of a matrix on another device.

        Nor of one whose index arrays differ in type: to look at the order of its entries is a ``TypeError``, as the
        kernel for it has one type for both, and whatever makes another matrix of it raises ``ValueError``.
        """
        if not anywhere:
            self.data.check_device()
            if self.indices.dtype != self.indptr.dtype:
                raise TypeError(f"Type is mismatched. indices {self.indices.dtype} {self.indptr.dtype} T")
        kind = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix}[self.format]
        return kind((self.data._host, self.indices._host, self.indptr._host), shape=self.shape, copy=False)

    def _charged(self, what: str, result: Any) -> Any:
        """A SciPy result as ours, and what it took to get it."""
        launches, waits = COSTS[what]
        arrays.machine.launch(launches, 2 * self._bytes())
        for _ in range(waits):
            arrays.machine.synchronise()
        return self._like(result)

    def _like(self, result: Any) -> Any:
        """A SciPy result as ours."""
        if scipy.sparse.issparse(result):
            names = {"csr": (csr_matrix, csr_array), "csc": (csc_matrix, csc_array)}
            if result.format not in names:
                result = result.tocsr()
            made = names[result.format][self.is_array].__new__(names[result.format][self.is_array])
            made._canonical = made._sorted = None
            made.data, made.indices, made.indptr = map(device, (result.data, result.indices, result.indptr))
            made.shape = result.shape
            return made
        return device(np.asarray(result))

    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: 2)
    nnz = property(lambda self: len(self.data))
    T = property(lambda self: self.transpose())

    @property
    def device(self) -> Any:
        raise NotImplementedError  # as in the real one: ask its data

    @property
    def has_sorted_indices(self) -> bool:
        if self._sorted is None:
            arrays.machine.synchronise()
            self._sorted = bool(self._scipy().has_sorted_indices)
        return self._sorted

    @has_sorted_indices.setter
    def has_sorted_indices(self, value: bool) -> None:
        self._sorted = bool(value)

    @property
    def has_canonical_format(self) -> bool:
        if self._canonical is None:
            arrays.machine.synchronise()
            self._canonical = bool(self._scipy().has_canonical_format)
        return self._canonical

    @has_canonical_format.setter
    def has_canonical_format(self, value: bool) -> None:
        self._canonical = bool(value)
        if value:
            self._sorted = True

    def sum_duplicates(self) -> None:
        if not self.has_canonical_format:
            made = self._scipy().copy()
            made.sum_duplicates()
            made = self._charged("sum_duplicates", made)
            self.data, self.indices, self.indptr = made.data, made.indices, made.indptr
            self.has_canonical_format = True

    def sort_indices(self) -> None:
        if not self.has_sorted_indices:
            arrays.machine.scratch(self._bytes() + 4 * self.nnz)  # cuSPARSE sorts into copies, by a permutation
            arrays.machine.launch(COSTS["sort_indices"][0], 2 * self._bytes())
            made = self._scipy()
            made.sort_indices()
            self.indices._host[:], self.data._host[:] = made.indices, made.data  # SciPy may have shortened the indices
            self._sorted = True

    def sorted_indices(self) -> Any:
        made = self.copy()
        made.sort_indices()
        return made

    def eliminate_zeros(self) -> None:
        made = self._scipy().copy()
        made.eliminate_zeros()
        made = self._charged("eliminate_zeros", made)
        self.data, self.indices, self.indptr = made.data, made.indices, made.indptr

    def copy(self) -> Any:
        return self._charged("copy", self._scipy().copy())

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return self._charged("astype", self._scipy().astype(dtype, copy=copy))

    def tocsr(self, copy: bool = False) -> Any:
        return self if self.format == "csr" and not copy else self._charged("convert", self._scipy().tocsr(copy=True))

    def tocsc(self, copy: bool = False) -> Any:
        return self if self.format == "csc" and not copy else self._charged("convert", self._scipy().tocsc(copy=True))

    def asformat(self, format: str | None) -> Any:
        return self if format in (None, self.format) else getattr(self, f"to{format}")()

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        return self._charged("toarray", self._scipy().toarray(order="C" if order is None else order))

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        return self._like(self._scipy().transpose(copy=copy))

    def diagonal(self, k: int = 0) -> Any:
        self.sum_duplicates()
        return self._charged("diagonal", self._scipy().diagonal(k))

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        self.sum_duplicates()
        return self._charged("sum", np.asarray(self._scipy().sum(axis=axis, dtype=dtype)))

    def maximum(self, other: Any) -> Any:
        return self._charged("add", self._scipy().maximum(other._scipy()))

    def multiply(self, other: Any) -> Any:
        return self._charged("add", self._scipy().multiply(other._scipy()).tocsr())

    def get(self, stream: Any = None) -> Any:
        arrays.machine.download(self.shape, self._bytes())
        return self._scipy(anywhere=True).copy()

    def __abs__(self) -> Any:
        return self._charged("entries", abs(self._scipy()))

    def __neg__(self) -> Any:
        return self._charged("entries", -self._scipy())

    def __add__(self, other: Any) -> Any:
        return self._charged("add", self._scipy() + self._other(other))

    def __sub__(self, other: Any) -> Any:
        return self._charged("add", self._scipy() - self._other(other))

    def __mul__(self, other: Any) -> Any:
        if not np.isscalar(other):
            raise NotImplementedError("the stand-in multiplies by scalars only; use @ for products")
        return self._charged("entries", self._scipy() * other)

    __rmul__ = __mul__

    def _other(self, other: Any) -> Any:
        if not isinstance(other, compressed):
            raise TypeError(f"Unsupported type {type(other)}")
        self.sum_duplicates()
        return other._scipy()

    def __matmul__(self, other: Any) -> Any:
        self.sum_duplicates()
        if isinstance(other, compressed):
            other.sum_duplicates()
            result = self._scipy() @ other._scipy()
            # cuSPARSE keeps a buffer for the products before they are added up, and asks for their number
            products = int(np.diff(other.indptr._host)[self.indices._host].sum()) if self.format == "csr" else self.nnz
            arrays.machine.scratch((self.dtype.itemsize + 8) * products + result.data.nbytes + result.indices.nbytes)
            arrays.machine.launch(6, 2 * (self.dtype.itemsize + 8) * products + self._bytes() + other._bytes())
            arrays.machine.synchronise()
            result.sort_indices()
            made = self._like(result)
            made.has_canonical_format = True  # as CuPy says of every product
            return made
        if not isinstance(other, ndarray):
            raise TypeError(f"Unsupported type {type(other)}")
        other.check_device()
        if self.dtype != other.dtype:  # cuSPARSE wants one type: the matrix is copied, for every product
            common = self.astype(np.promote_types(self.dtype, other.dtype))
            common.has_canonical_format = True
            return common @ device(other._host.astype(common.dtype))
        # cuSPARSE works on columns: the operand is copied into Fortran order, and so comes the result
        out = np.asfortranarray(self._scipy() @ np.asfortranarray(other._host))
        copied = 0 if other._host.flags.f_contiguous else other._host.nbytes
        arrays.machine.scratch(copied and copied + out.nbytes)
        arrays.machine.launch(2 + (copied > 0), self._bytes() + 2 * copied + other._host.nbytes + 2 * out.nbytes)
        return device(out)

    def _bytes(self) -> int:
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes

    def __getitem__(self, key: Any) -> Any:
        arrays.machine.synchronise()
        arrays.machine.launch(6, self.indptr.nbytes)
        used = arrays.index(self.shape, key, reading=False)
        result = self._scipy()[used]
        if len(used) > 1 and isinstance(used[1], np.ndarray) and scipy.sparse.issparse(result):
            result = in_no_order(result.tocsr())
        return self._like(result)


def in_no_order(matrix: Any) -> Any:
    """Columns that were chosen come as threads happen to write them: here each row backwards."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((-np.arange(matrix.nnz), rows))
    return scipy.sparse.csr_matrix((matrix.data[order], matrix.indices[order], matrix.indptr), shape=matrix.shape)


class csr_matrix(compressed):  # noqa: N801
    format = "csr"


class csc_matrix(compressed):  # noqa: N801
    format = "csc"


class csr_array(csr_matrix):  # noqa: N801
    is_array = True


class csc_array(csc_matrix):  # noqa: N801
    is_array = True


def issparse(x: Any) -> bool:
    return isinstance(x, compressed)


def identity(n: int, dtype: Any = "d", format: str | None = None) -> Any:
    made = csr_matrix((device(np.ones(n, dtype)), device(np.arange(n)), device(np.arange(n + 1))), shape=(n, n))
    if format != "csr":
        raise NotImplementedError("the stand-in has no diagonal format")
    return made


for _class in (csr_matrix, csc_matrix, csr_array, csc_array):
    _class.__module__ = "cupyx.scipy.sparse"
