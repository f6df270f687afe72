"""What plain code has to know about arrays, to be the same for NumPy and CuPy."""

from __future__ import annotations

import sys
from typing import Any


def namespace(array: Any) -> Any:
    """The module (``numpy`` or ``cupy``) that an array belongs to."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def csr(indptr: Any, indices: Any, data: Any, columns: int) -> Any:
    """A CSR matrix over its parts, whose entries are known to be sorted and different."""
    sparse = sys.modules["scipy.sparse" if namespace(data).__name__ == "numpy" else "cupyx.scipy.sparse"]
    matrix = sparse.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, columns))
    matrix.has_canonical_format = True  # CuPy would otherwise look, and wait, before each product
    return matrix
