"""The inner loops: readable array code (plain, the oracle), Numba on the CPU (fused) and CUDA (cuda).

A kernel module has a ``NAME`` and the functions of :data:`INTERFACE`, with the arguments that ``plain`` gives them.
Only ``plain`` has them all; where the others have none of their own, they take that of ``plain``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

INTERFACE = (
    "threads",
    # points and their neighbours
    "kd_order", "heavy_matching", "contract_pairs", "tile_graph", "tile_graph_single", "near_pairs",
    # products with a sparse matrix
    "spmm", "symmetric_product", "unit_beside", "scaled_bytes", "scaled_entries", "smallest_labels",
    # co-metric, tangent bases, volumes
    "cometric_rows", "leading_eigenvectors", "tangent_bytes", "tangent_rows", "tangent_rows_single",
    "score_bytes", "score_block", "table_bytes", "log_volumes",
    # the multilevel eigensolver
    "symmetric_entries", "merge_columns", "merge_rows", "block_product", "restrict", "shifted_product", "descend",
    "turn", "column_products", "inner", "gram", "update",
)  # fmt: skip


def kernels_in(*modules: ModuleType) -> dict[str, Any]:
    """Return the functions of the interface by name, each from the last of some modules that defines it."""
    return {name: vars(module)[name] for module in modules for name in INTERFACE if name in vars(module)}
