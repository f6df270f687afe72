"""cuSPARSE, by SciPy, behind CuPy's wrappers."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from .machine import always, handles, new_handle, nothing
from .views import CUDA_TYPES, added, number, on_device, turned, view

INDEX_TYPES = {2: "int32", 3: "int64"}


@dataclass
class Csr:
    """A descriptor of a sparse matrix: sizes, addresses and types."""

    rows: int
    columns: int
    nnz: int
    indptr: int
    indices: int
    data: int
    index: str
    dtype: str

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Entries, columns and ends."""
        sizes = (self.data, self.dtype, self.nnz), (self.indices, self.index, self.nnz)
        return tuple(view(a, t, (n,)) for a, t, n in (*sizes, (self.indptr, self.index, self.rows + 1)))

    def matrix(self) -> scipy.sparse.csr_matrix:
        """What it describes, after a look at the numbers: cuSPARSE has none, and reads wherever they point."""
        data, indices, indptr = self.parts()
        if indptr[0] or indptr[-1] != self.nnz or (self.nnz and not 0 <= indices.min() <= indices.max() < self.columns):
            raise AssertionError("a broken CSR matrix reaches cuSPARSE")
        return scipy.sparse.csr_matrix((data, indices, indptr), shape=(self.rows, self.columns))


kept: dict[int, Any] = {}  # descriptors by handle


def keep(value: Any) -> int:
    handle = next(handles)
    kept[handle] = value
    return handle


def forget(handle: int) -> None:
    kept.pop(handle, None)


def create_csr(rows, columns, nnz, indptr, indices, data, kind_p, kind_i, base, kind):
    if kind_p != kind_i:
        raise RuntimeError("CUSPARSE_STATUS_NOT_SUPPORTED: mixed index types")
    return keep(Csr(rows, columns, nnz, indptr, indices, data, INDEX_TYPES[kind_p], CUDA_TYPES[kind]))


def create_dense(rows, columns, leading, address, kind, by_rows):
    steps = (1, leading) if by_rows == 1 else (leading, 1)
    return keep((address, CUDA_TYPES[kind], (rows, columns), steps))


def tell_size(handle, rows, columns, nnz):
    sizes = kept[handle].rows, kept[handle].columns, kept[handle].nnz
    for address, size in zip((rows, columns, nnz), sizes, strict=True):
        ctypes.c_int64.from_address(address).value = size


def vector_product(_, trans, alpha, a, x, beta, y, kind, algorithm, buffer):
    dtype = CUDA_TYPES[kind]
    product = number(alpha, dtype) * (turned(kept[a].matrix(), trans) @ view(*kept[x]))
    added(view(*kept[y]), product, number(beta, dtype))


def block_product(_, ta, tb, alpha, a, b, beta, c, kind, algorithm, buffer):
    dtype = CUDA_TYPES[kind]
    product = number(alpha, dtype) * (turned(kept[a].matrix(), ta) @ turned(view(*kept[b]), tb))
    added(view(*kept[c]), product, number(beta, dtype))


def rows_of(indptr: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def sort_rows(_, rows, columns, nnz, descriptor, indptr, indices, permutation, buffer):
    p, i, q = view(indptr, "int32", (rows + 1,)), view(indices, "int32", (nnz,)), view(permutation, "int32", (nnz,))
    order = np.lexsort((i, rows_of(p)))
    i[...], q[...] = i[order], q[order]


def count_up(_, n, address):
    view(address, "int32", (n,))[...] = np.arange(n)


def gather(_, dense, sparse):
    (count, dtype, values, indices, index), source = kept[sparse], view(*kept[dense])
    view(values, dtype, (count,))[...] = source[view(indices, index, (count,))]


def ends_of(_, rows, nnz, m, indptr, base):
    view(indptr, "int32", (m + 1,))[...] = np.searchsorted(view(rows, "int32", (nnz,)), np.arange(m + 1))


def rows_from(_, indptr, nnz, m, rows, base):
    view(rows, "int32", (nnz,))[...] = rows_of(view(indptr, "int32", (m + 1,)))


def csr_to_csc(_, m, n, nnz, data, indptr, indices, to_data, to_indptr, to_indices, kind, action, base, how, buffer):
    dtype = CUDA_TYPES[kind]
    found = Csr(m, n, nnz, indptr, indices, data, "int32", dtype).matrix().tocsc()
    view(to_data, dtype, (nnz,))[...], view(to_indices, "int32", (nnz,))[...] = found.data, found.indices
    view(to_indptr, "int32", (n + 1,))[...] = found.indptr


def count_entries(_, dense, sparse, algorithm, buffer):
    here, counts = kept[sparse], np.count_nonzero(view(*kept[dense]), axis=1)
    here.nnz = int(counts.sum())
    view(here.indptr, here.index, (here.rows + 1,))[...] = np.concatenate(([0], np.cumsum(counts)))


def to_sparse(_, dense, sparse, algorithm, buffer):
    found, (data, indices, _ends) = scipy.sparse.csr_matrix(view(*kept[dense])), kept[sparse].parts()
    data[...], indices[...] = found.data, found.indices


def to_dense(_, sparse, dense, algorithm, buffer):
    view(*kept[dense])[...] = kept[sparse].matrix().toarray()


def pattern(m, n, nnz, indptr, indices) -> scipy.sparse.csr_matrix:
    parts = np.ones(nnz), view(indices, "int32", (nnz,)), view(indptr, "int32", (m + 1,))
    return scipy.sparse.csr_matrix(parts, shape=(m, n))


def count_sum(_, m, n, da, na, pa, ia, db, nb, pb, ib, dc, pc, total, buffer):
    found = pattern(m, n, na, pa, ia) + pattern(m, n, nb, pb, ib)
    view(pc, "int32", (m + 1,))[...] = found.indptr
    ctypes.c_int.from_address(total).value = found.nnz


def sum_of_two(_, m, n, alpha, da, na, xa, pa, ia, beta, db, nb, xb, pb, ib, dc, xc, pc, ic, buffer):
    found = pattern(m, n, na, pa, ia) + pattern(m, n, nb, pb, ib)
    found.sort_indices()
    keys, values = rows_of(found.indptr) * n + found.indices, np.zeros(found.nnz)
    for factor, nnz, data, indptr, indices in ((alpha, na, xa, pa, ia), (beta, nb, xb, pb, ib)):
        rows = rows_of(view(indptr, "int32", (m + 1,)))
        places = np.searchsorted(keys, rows * n + view(indices, "int32", (nnz,)))
        values[places] += number(factor, "float64") * view(data, "float64", (nnz,))
    view(ic, "int32", (found.nnz,))[...], view(xc, "float64", (found.nnz,))[...] = found.indices, values


def count_large(_, m, descriptor, data, indptr, per_row, tol):
    p = view(indptr, "int32", (m + 1,))
    large = np.abs(view(data, "float64", (int(p[-1]),))) > tol
    view(per_row, "int32", (m,))[...] = np.bincount(rows_of(p)[large], minlength=m)
    return int(large.sum())


def keep_large(_, m, n, descriptor, data, indices, indptr, nnz, per_row, to_data, to_indices, to_indptr, tol):
    x, i, counts = view(data, "float64", (nnz,)), view(indices, "int32", (nnz,)), view(per_row, "int32", (m,))
    large = np.abs(x) > tol
    view(to_indptr, "int32", (m + 1,))[...] = np.concatenate(([0], np.cumsum(counts)))
    size = (int(large.sum()),)
    view(to_data, "float64", size)[...], view(to_indices, "int32", size)[...] = x[large], i[large]


COMPUTED = {
    "spMV": vector_product, "spMM": block_product, "createIdentityPermutation": count_up, "gather": gather,
    "xcoo2csr": ends_of, "xcsr2coo": rows_from, "xcsrsort": sort_rows,
    "csr2cscEx2": csr_to_csc, "denseToSparse_analysis": count_entries, "denseToSparse_convert": to_sparse,
    "sparseToDense": to_dense, "xcsrgeam2Nnz": count_sum, "dcsrgeam2": sum_of_two, "dnnz_compress": count_large,
    "dcsr2csr_compress": keep_large,
}  # fmt: skip
NO_BUFFER = [
    *(f"{name}_bufferSize" for name in ("spMV", "spMM", "csr2cscEx2", "denseToSparse", "sparseToDense")),
    *(f"{name}_bufferSizeExt" for name in ("xcsrsort", "dcsrgeam2")),
]
CREATED = ("create", "createMatDescr")
IGNORED = (
    "destroy", "setStream", "setPointerMode", "destroyMatDescr", "setMatIndexBase", "setMatType", "setMatFillMode",
    "setMatDiagType",
)  # fmt: skip
FUNCTIONS = {
    **dict.fromkeys(CREATED, new_handle), **dict.fromkeys(IGNORED, nothing), **dict.fromkeys(NO_BUFFER, always(64)),
    **dict.fromkeys(("destroySpMat", "destroyDnVec", "destroyDnMat", "destroySpVec"), forget),
    "getVersion": always(12510), "createCsr": create_csr, "createDnMat": create_dense,
    "createDnVec": lambda n, address, kind: keep((address, CUDA_TYPES[kind], (n,))),
    "createSpVec": lambda n, nnz, i, p, ki, b, kind: keep((nnz, CUDA_TYPES[kind], p, i, INDEX_TYPES[ki])),
    "spMatGetSize": tell_size, **on_device(COMPUTED),
}  # fmt: skip
