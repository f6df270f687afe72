"""Sparse Cholesky factors: what one would take, found from a graph of small cells, and the factor itself."""

import numpy as np
import scipy.sparse

from ...backend.array import Array, starts_of
from ...backend.kernels.fused.cholesky import SEPARATOR, blas, factorise, find_borders, solve
from ...backend.kernels.fused.dissection import dissect
from ...backend.kernels.fused.products import add_rows
from ...findings import NotConvergedError
from ..graph import cells_of

LEAF = 48.0  # rows of a block that is not cut further
COARSEST, STEP = 14, 2  # a separator is first sought among cells of up to 2**14 rows, then of 2**12 and so on
AT_ONCE = 1e10  # multiplications after which Ctrl-C is heard


class Elimination:
    """An order in which the rows of a symmetric matrix are eliminated, by blocks, and what that takes.

    ``rows`` and ``edges`` are those of :func:`..graph.matrix_order`; the rows of a cell of ``2**depth`` stay together.
    """

    def __init__(self, S: scipy.sparse.csr_matrix, rows: np.ndarray, edges: np.ndarray, depth: int) -> None:
        n, cells = S.shape[0], cells_of(S.shape[0], edges, depth)
        sizes, ones, labels = np.diff(cells), np.ones(n, dtype=np.float32), np.empty(n, dtype=np.int32)
        labels[rows] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        matrix = S.indptr.astype(np.int64), S.indices, np.ones(S.nnz, dtype=np.float32)
        indptr, indices, _ = add_rows(matrix, rows, cells, ones, labels, ones, len(sizes), pairs=True)
        deepest = int(edges[:-1].max())
        larger = [edges[cells[:-1]] >= min(cuts, deepest) for cuts in range(COARSEST, depth, -STEP)]
        groups = np.cumsum([*larger, np.ones(len(sizes), dtype=bool)], axis=1, dtype=np.int64)
        indices = indices.astype(np.int64)
        order, kinds = dissect(indptr, indices, sizes.astype(np.float64), groups, LEAF)
        blocks = np.append(np.flatnonzero(kinds), len(order))
        self.separates = kinds[blocks[:-1]] == SEPARATOR
        begins, border, stack = find_borders(indptr, indices, sizes.astype(float), order, blocks, self.separates)
        border = border[: begins[-1]]
        # from cells to rows
        sizes = sizes[order]
        places = starts_of(sizes)
        self.order = rows[spread(cells[:-1][order], sizes)]
        self.starts, self.begins = places[blocks], starts_of(sizes[border])[begins]
        self.border = spread(places[:-1][border], sizes[border]).astype(np.int32)
        own, below = np.diff(self.starts).astype(float), np.diff(self.begins).astype(float)
        self.panels = starts_of((own * (own + below)).astype(np.int64))
        self.works = own**3 / 3 + below * own**2 + below**2 * own
        self.fill, self.work, self.front, self.stack = float(self.panels[-1]), self.works.sum(), own + below, stack


def spread(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return ``arange(start, start + size)`` of all pairs, one behind the other."""
    ends = starts_of(sizes)
    return np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])


class Cholesky:
    """The factor of a positive definite matrix, by the blocks of an elimination."""

    def __init__(self, matrix: scipy.sparse.csr_matrix, plan: Elimination) -> None:
        n, m, widest = matrix.shape[0], len(plan.works), int(plan.front.max())
        self.plan, self.factor, self.counts = plan, np.empty(int(plan.fill)), np.zeros(5, dtype=np.int32)
        place, local = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        place[plan.order] = np.arange(n, dtype=np.int32)
        waiting, state = np.empty(m, dtype=np.int32), np.zeros(2, dtype=np.int64)
        work, stack = np.empty(widest * widest), np.empty(int(plan.stack))
        ends = np.searchsorted(np.cumsum(plan.works), np.arange(AT_ONCE, plan.work, AT_ONCE), side="right")
        for first, last in zip(bounds := np.unique([0, *ends, m]), bounds[1:], strict=False):
            failed = factorise(
                matrix.indptr, matrix.indices, matrix.data, plan.order, place, plan.starts, plan.separates, plan.begins,
                plan.border, plan.panels, blas(), self.counts, waiting, state, work, stack, local, first, last,
                self.factor,
            )  # fmt: skip
            if failed >= 0:
                raise NotConvergedError("the shifted matrix is not positive")

    def solve(self, V: Array) -> Array:
        """Return the solution for right-hand sides (n,) or (n, k)."""
        plan = self.plan
        X = np.ascontiguousarray(V.reshape(len(V), -1)[plan.order])
        scratch = np.empty((int(plan.front.max()), X.shape[1]))
        solve(plan.starts, plan.begins, plan.border, plan.panels, blas(), self.counts, self.factor, X, scratch)
        found = np.empty_like(X)
        found[plan.order] = X
        return found.reshape(V.shape)
