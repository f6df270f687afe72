"""Which eigensolver a run takes."""

from __future__ import annotations

import os


def chosen_solver() -> str:
    """``auto``, or what the environment variable IES_GPU_SOLVER asks for: a way to compare, like IES_GPU_KERNELS."""
    from ..embedding.eigensolvers.library import SOLVERS
    from ..validation import check_choice

    return check_choice("the environment variable IES_GPU_SOLVER", os.environ.get("IES_GPU_SOLVER") or "auto", SOLVERS)
