"""The coarsest level of the multilevel method: which level that is, and its eigenpairs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from ...backend.array import Array
from ...backend.kernels.arrays import csr
from ...errors import NotConvergedError
from .factorised import factorised_eigenpairs
from .lanczos import krylov
from .looks import factor_cost

FACTORISED_FROM = 3_000  # rows of a last level from which a factorisation is considered
FACTORISED_UP_TO = 60_000  # and of a level that is made the last one for it,
STAYING = 0.8  # because a walk on it stays in its cell with this probability on average


def last_level_pairs(level: Any, count: int) -> tuple[Array, Array]:
    """Leading pairs of the smallest level of the multilevel method, only as good as they are needed there.

    On the host: a device would wait for each of its short products. A level that is long, because of points that are
    cells of their own, is factorised where that is quick: Lanczos would take tens of thousands of products.
    """
    small = level.on_host() if level.backend.is_remote else level
    start = np.random.default_rng(level.n).normal(size=level.n)
    S, found = symmetric_level(small) if level.n > FACTORISED_FROM else None, None
    if S is not None and factor_cost(S).is_quick(level.n):
        info: dict[str, Any] = {}
        with suppress(NotConvergedError):
            found = factorised_eigenpairs(small, S, count, start, 1e-5, info)
            small.columns += info["solves"]
    values, vectors = found or krylov(small, count, start, 1e-5)
    level.columns = small.columns
    return values, level.backend.asarray(vectors)


def ends_here(level: Any) -> bool:
    """Whether to solve a coarse level as it is: a walk that hardly leaves its cell smooths nothing.

    So it is on deep levels, whose cells are far larger than the reach of the kernel. They are sparse, and factorised.
    """
    if not FACTORISED_FROM < level.n <= FACTORISED_UP_TO:
        return False
    indptr, indices, data = level.matrix
    rows = level.backend.xp.repeat(level.backend.xp.arange(level.n), level.backend.xp.diff(indptr))
    if float(data[rows == indices].sum()) < STAYING * level.n:
        return False
    small = level.on_host() if level.backend.is_remote else level
    return factor_cost(symmetric_level(small)).is_quick(level.n)


def symmetric_level(level: Any) -> Any:
    """S of a level on the host in float64, symmetric to the last digit."""
    indptr, indices, data = level.matrix
    S = csr(indptr, indices, data.astype(np.float64), level.n)
    return (0.5 * (S + S.T)).tocsr()
