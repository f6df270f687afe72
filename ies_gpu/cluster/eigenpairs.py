"""The multilevel eigensolver on a cluster: its tall arrays stay in pieces on the workers.

The iteration is that of :mod:`ies_gpu.embedding.eigensolvers.multilevel`, with arrays in pieces behind the same names.
The first coarse level, an eighth of the points, is put together on one worker, which solves there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..backend import Backend
from ..backend.base import index_type
from ..embedding.diffusion import start_vector
from ..embedding.eigensolvers import multilevel, returns
from ..embedding.eigensolvers.eigenpairs import (
    MULTILEVEL_FROM,
    NEIGHBOURHOODS,
    Eigenpairs,
    SymmetricTransition,
    ends_here,
    last_level_pairs,
    leading_eigenpairs,
)
from ..embedding.eigensolvers.multilevel import CoarsePairs, Level
from ..embedding.laplacian import Laplacian
from ..embedding.order import cells_of
from ..errors import ClusterError, NotConvergedError
from .blocks import SAMPLE, every
from .matrix import Graph, Rows
from .tall_arrays import TallBackend
from .team import Call, Pieces, Team, as_it_is, item, joined


class TallLevel(Level):
    """S in rows by block, and the coarse level on one worker."""

    def __init__(self, team: Team, graph: Graph) -> None:
        self.team, self.graph = team, graph
        self.n = int(graph.sizes.sum())
        self.backend: Any = TallBackend(team, graph.sizes)
        self.entries = team.map(symmetric_entries, graph.transitions, graph.roots)
        self.products = self.columns = 0
        self.travelled = dict.fromkeys(("fine", "exact", "up", "down"), 0)  # columns of arrays that are exchanged
        self.coarse: Any = None

    def build(self, count: int) -> None:
        """Attach the coarse level."""
        team = self.team
        squares = team.total(team.map(square_sum, self.graph.roots, self.graph.sizes.tolist()))
        self.cells = team.map(own_cells, *self._chances(), self.graph.roots, float(np.sqrt(squares)))
        counts = np.array(team.gather(team.map(count_of, self.cells)))
        first = np.concatenate([[0], np.cumsum(counts)])
        shown = team.map(labels_and_weights, self.cells, first[:-1].tolist())
        merged = team.map(merged_rows, self.entries, self.cells, shown, team.exchanged(shown))
        self.merged = team.map(item, merged, 0)
        # which cells a block needs is known where these are: a copy that came with a task would soon be dropped again
        self.wanted_cells = [team.submit(as_it_is, wanted, block=0) for wanted in team.map(item, merged, 1)]
        coarse = team.map(coarse_of, self.cells, merged)
        self.coarse = team.submit(hierarchy, self.graph.sizes.tolist(), count, *coarse, block=0, alone=True)
        self.coarse_size = int(first[-1])
        wanted, entries = np.array(team.gather(team.map(extents_of, merged))).T
        away = np.array([team.place(i) != team.place(0) for i in range(len(counts))])
        self.travelled |= {"cells": int(counts[away].sum()), "wanted_cells": int(wanted[away].sum())}
        self.travelled["coarse_entries"] = int(entries[away].sum())

    def _chances(self) -> tuple[Any, ...]:
        """Each point's chances of return at three looks, by block, and about the median of the first."""
        team = self.team
        Y = Pieces(
            team, team.map(random_signs, self.graph.sizes.tolist(), list(range(len(self.graph.sizes)))), (self.n, 32)
        )
        looks = []
        for step in range(1, returns.LOOKS[-1] + 1):
            Y = self.product(Y)
            if step in returns.LOOKS:
                looks.append([Call(chances, (part,)) for part in Y.parts])
            if step == 1:
                Y = Y[:, :8]
        sample = team.gather(team.map(every, looks[0], max(1, self.n // SAMPLE)))
        return *looks, float(np.median(np.concatenate(sample)))

    def product(self, V: Pieces, R: Pieces | None = None, chosen: Any = None) -> Pieces:
        self.products += 1
        self.columns += V.shape[1]
        self.travelled["fine"] += V.shape[1]
        others = self.team.exchanged(V.parts)
        if R is None:
            parts = self.team.map(block_product, self.entries, None, None, V.parts, others)
        else:  # used once, where another step of smoothing is taken
            each = zip(self.entries, R.parts, V.parts, others, strict=True)
            parts = [Call(block_product, (S, rest, chosen, own, *more)) for S, rest, own, more in each]
        return Pieces(self.team, parts, V.shape)

    def smoothed(self, Z: Any, R: Pieces | None = None, chosen: Any = None, scale: Any = None) -> Pieces:
        self.products += 1
        self.columns += Z.shape[1]
        self.travelled["down"] += Z.shape[1]
        # taken where they are: only the cells that a block needs travel
        wanted = enumerate(self.wanted_cells)
        own = [self.team.passed(cells_taken, Z.future, cells, at=0, to=i) for i, cells in wanted]
        rest = None if R is None else R.parts
        parts = self.team.map(smoothed_product, self.merged, own, rest, chosen, scale)
        return Pieces(self.team, parts, (self.n, Z.shape[1]))

    def restricted(self, R: Pieces, columns: np.ndarray, factors: np.ndarray) -> list[Any]:
        self.travelled["up"] += len(columns)
        pairs = enumerate(zip(self.cells, R.parts, strict=True))
        return [self.team.passed(restricted, *pair, columns, factors, at=i, to=0) for i, pair in pairs]

    def start(self, wanted: int, last: Any, guards: int, sure: int) -> CoarsePairs:
        found = self.team.submit(coarse_pairs, self.coarse, wanted, guards, sure, block=0, alone=True)
        values = self.team.gather([self.team.submit(item, found, 0, block=0)])[0]
        k = multilevel.kept_pairs(values, wanted, guards)
        vectors = self.team.submit(first_columns, found, k, block=0)
        return CoarsePairs(values[:k], Remote(vectors, (self.coarse_size, k)), float(values[k]))

    def coarse_solution(self, F: list[Any], shift: np.ndarray, Q: Remote) -> Remote:
        future = self.team.submit(coarse_solution, self.coarse, shift, Q.future, *F, block=0, alone=True)
        return Remote(future, (self.coarse_size, len(shift)))

    def exact(self, V: Pieces) -> Pieces:
        """``S V`` in float64."""
        self.columns += V.shape[1]
        self.travelled["exact"] += V.shape[1]
        scaled = self.team.map(over_root, V.parts, self.graph.roots)
        others = self.team.exchanged(scaled)
        parts = self.team.map(exact_product, self.graph.transitions, self.graph.roots, scaled, others)
        return Pieces(self.team, parts, V.shape)


@dataclass(frozen=True)
class Remote:
    """A float32 array of one row per cell, on one worker."""

    future: Any
    shape: tuple[int, int]

    def astype(self, dtype: Any) -> Remote:
        return self


def eigenpairs(
    team: Team, graph: Graph, count: int, tol: float, info: dict[str, Any], progress: Any = None
) -> tuple[np.ndarray, Pieces, np.ndarray]:
    """The ``count`` leading pairs of S: values, vectors in pieces, residuals.

    A graph on which the multilevel method is not expected to win, or does not converge, is solved on one worker if it
    fits there: such graphs are small, or so dense that few points make up a neighbourhood.
    """
    n = int(graph.sizes.sum())
    if n >= max(MULTILEVEL_FROM, 100 * count) and n * n >= NEIGHBOURHOODS * count * graph.nnz:
        try:
            return multilevel_pairs(team, graph, count, tol, info, progress)
        except (NotConvergedError, np.linalg.LinAlgError) as doubt:
            info["fallback"] = str(doubt)
    return pairs_on_one(team, graph, count, tol, info)


def pairs_on_one(
    team: Team, graph: Graph, count: int, tol: float, info: dict[str, Any]
) -> tuple[np.ndarray, Pieces, np.ndarray]:
    """The same by one worker, which gets the whole matrix."""
    need, n = 40 * graph.nnz, int(graph.sizes.sum())  # the matrix, its parts on the way, and vectors
    limits = team.memory_limits()
    most = limits.get(team.places[0], min(limits.values(), default=1 << 62))
    if need > most:
        why = info.get("fallback", "it is too dense for the multilevel method")
        raise ClusterError(
            f"the eigenvectors of this graph cannot be computed in blocks ({why}), and its matrix takes "
            f"{need / 1e9:.1f} GB, more than the {most / 1e9:.1f} GB of a worker; lower bandwidth or use larger workers"
        )
    pairs = team.submit(whole_pairs, graph.sizes.tolist(), count, tol, *graph.transitions, *graph.roots, block=0)
    values, residuals, more = team.gather([team.submit(head, pairs, block=0)])[0]
    info |= more
    ends = np.concatenate([[0], np.cumsum(graph.sizes)]).tolist()
    parts = [team.submit(rows_of, pairs, a, b, block=0) for a, b in itertools.pairwise(ends)]
    return values, Pieces(team, parts, (n, count)), residuals


def multilevel_pairs(
    team: Team, graph: Graph, count: int, tol: float, info: dict[str, Any], progress: Any
) -> tuple[np.ndarray, Pieces, np.ndarray]:
    """The same by the multilevel method, with everything tall in pieces."""
    level = TallLevel(team, graph)
    level.build(count + multilevel.GUARDS)
    history: list[float] = []
    aim = min(multilevel.AIM * tol, multilevel.REFRESH)
    try:
        values, X, coarse = multilevel.solve(level, count, aim, 0.0, last_level_pairs, level.exact, history, progress)
    finally:
        info |= {"block_products": level.products, "iterations": len(history), "coarse_sizes": [level.coarse_size]}
        tall = level.backend.kernels
        info |= {"products": level.columns, "travelled": level.travelled | {"gram": tall.numbers}}
    multilevel.check_interlacing(values, coarse.values, count)
    V = X[:, :count]
    values = values[:count].copy()
    residuals = np.sqrt(team.total(team.map(squared_residuals, level.exact(V).parts, V.parts, values)))
    if not residuals.max() <= tol:
        raise NotConvergedError(f"recomputed in float64, a residual is {residuals.max():.1e}")
    info["method"] = "multilevel"
    return values, V, residuals


# --- tasks -----------------------------------------------------------------------------------------------------------


def whole_pairs(backend: Backend, sizes: list[int], count: int, tol: float, *parts: Any) -> Any:
    """The pairs of the matrix put together from its blocks."""
    blocks, roots = parts[: len(sizes)], parts[len(sizes) :]
    first, xp = np.concatenate([[0], np.cumsum(sizes)]), backend.xp
    indptr = xp.concatenate([xp.zeros(1, dtype=xp.int64), *(xp.diff(P.matrix.indptr) for P in blocks)]).cumsum()
    indices = []
    for i, P in enumerate(blocks):
        wanted = [backend.asarray(want) + int(first[j]) for j, want in P.wants.items()]
        indices.append(xp.concatenate([xp.arange(int(first[i]), int(first[i + 1])), *wanted])[P.matrix.indices])
    kind = index_type(int(indptr[-1]))
    data = xp.concatenate([P.matrix.data for P in blocks])
    shape = (int(first[-1]), int(first[-1]))
    matrix = backend.sparse.csr_matrix((data, xp.concatenate(indices).astype(kind), indptr.astype(kind)), shape=shape)
    matrix.sort_indices()
    weights = xp.concatenate([root[:n] for root, n in zip(roots, sizes, strict=True)]) ** 2
    operator = SymmetricTransition(Laplacian(matrix, weights), backend)
    start = backend.asarray(start_vector(len(weights), 0))
    return leading_eigenpairs(operator, count, start=start, tol=tol)


def head(backend: Backend, pairs: Eigenpairs) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    return backend.to_host(pairs.values), backend.to_host(pairs.residuals), pairs.info


def rows_of(backend: Backend, pairs: Eigenpairs, first: int, last: int) -> Any:
    return backend.xp.ascontiguousarray(pairs.vectors[first:last])


def symmetric_entries(backend: Backend, P: Rows, root: Any) -> tuple[Any, Any, Any]:
    """S as CSR with entries in float32; P, which shares the columns, may go to the disk until it is needed again."""
    xp, matrix, step = backend.xp, P.matrix, 1 << 16
    out = xp.empty(matrix.nnz, dtype=xp.float32)
    for first in range(0, P.n, step):
        last = min(P.n, first + step)
        part = slice(int(matrix.indptr[first]), int(matrix.indptr[last]))
        counts = matrix.indptr[first + 1 : last + 1] - matrix.indptr[first:last]
        out[part] = matrix.data[part] * xp.repeat(root[first:last], counts) / root[matrix.indices[part]]
    return matrix.indptr.astype(xp.int64), matrix.indices, out  # starts in 64 bits, as on all levels


def block_product(backend: Backend, S: tuple[Any, Any, Any], R: Any, chosen: Any, V: Any, *others: Any) -> Any:
    one = None if R is None else R.dtype.type(1)
    return backend.kernels.block_product(*S, joined(backend, V, *others), R, one, chosen=sent_to(backend, chosen))


def sent_to(backend: Backend, chosen: Any) -> Any:
    """Columns and factors in the memory of a worker."""
    return None if chosen is None else tuple(backend.asarray(part) for part in chosen)


def exact_product(backend: Backend, P: Rows, root: Any, V: Any, *others: Any) -> Any:
    matrix = P.matrix
    product = backend.kernels.spmm(matrix.indptr, matrix.indices, matrix.data, joined(backend, V, *others))
    return root[: P.n, None] * product


def over_root(backend: Backend, V: Any, root: Any) -> Any:
    return V / root[: len(V), None]


def squared_residuals(backend: Backend, SV: Any, V: Any, values: np.ndarray) -> np.ndarray:
    R = SV - V * backend.asarray(values)
    return backend.to_host((R * R).sum(axis=0))


def random_signs(backend: Backend, n: int, block: int) -> Any:
    signs = np.random.default_rng((n, block)).integers(0, 2, size=(n, 32), dtype=np.int8)
    return backend.asarray((2 * signs - 1).astype(np.float32))


def chances(backend: Backend, Y: Any) -> np.ndarray:
    return backend.to_host((Y * Y).mean(axis=1))


def square_sum(backend: Backend, root: Any, n: int) -> float:
    return float((root[:n] * root[:n]).sum())


@dataclass(frozen=True)
class Cells:
    """The cells of a block.

    Attributes
    ----------
    starts, held : ndarray
        Where they begin, and the points that are cells of their own on all levels.
    norms, weights : array
        The length of the top vector in each cell, and its entries over that.
    """

    starts: np.ndarray
    held: np.ndarray
    norms: np.ndarray
    weights: Any


def own_cells(
    backend: Backend, first: np.ndarray, second: np.ndarray, last: np.ndarray, median: float, root: Any, length: float
) -> Cells:
    """From chances of return at three looks."""
    alone = returns.is_lonely(first, second, last, median, np)
    lonely, held = np.flatnonzero(alone), np.flatnonzero(alone & returns.is_held(first, second, last))
    starts = np.unique(np.concatenate([cells_of(len(first), True, multilevel.LEAF), lonely, lonely + 1]))
    xp, begin = backend.xp, backend.asarray(starts)
    top = root[: len(first)] / length
    norms = xp.sqrt(xp.add.reduceat(top * top, begin[:-1]))
    weights = (top / xp.repeat(norms, begin[1:] - begin[:-1])).astype(xp.float32)
    return Cells(starts, held, backend.to_host(norms), weights)


def count_of(backend: Backend, cells: Cells) -> int:
    return len(cells.norms)


def labels_and_weights(backend: Backend, cells: Cells, first: int) -> np.ndarray:
    """For each point the number of its cell and its weight there, on the host: these are exchanged once."""
    labels = np.repeat(first + np.arange(len(cells.starts) - 1), np.diff(cells.starts))
    return np.stack([labels.astype(np.float64), backend.to_host(cells.weights).astype(np.float64)], axis=1)


def merged_rows(
    backend: Backend,
    entries: tuple[Any, Any, Any],
    cells: Cells,
    own: np.ndarray,
    *others: np.ndarray,
) -> tuple[Any, np.ndarray, Any]:
    """``S P0`` with columns for the cells that a block needs, those cells, and its rows of the coarse matrix."""
    shown = np.concatenate([own, *others])
    wanted, local = np.unique(shown[:, 0].astype(np.int64), return_inverse=True)
    n, columns = len(own), len(shown)
    indptr, indices, data = map(backend.to_host, entries)
    S = csr_matrix((data.astype(np.float64), indices, indptr), shape=(n, columns))
    P0 = csr_matrix((shown[:, 1], local, np.arange(columns + 1)), shape=(columns, len(wanted)))
    merged = S @ P0
    merged.sort_indices()
    down = csr_matrix((own[:, 1], np.arange(n), cells.starts), shape=(len(cells.starts) - 1, n))
    coarse = (down @ merged).tocsr()
    coarse.sort_indices()
    device = tuple(
        backend.asarray(part)
        for part in (merged.indptr.astype(np.int64), merged.indices.astype(np.int32), merged.data.astype(np.float32))
    )
    rows = coarse.indptr, wanted[coarse.indices].astype(np.int32), coarse.data.astype(np.float32)
    return device, wanted, rows


def extents_of(backend: Backend, merged: tuple[Any, np.ndarray, Any]) -> tuple[int, int]:
    """How many cells a block needs, and the entries of its rows of the coarse matrix."""
    return len(merged[1]), len(merged[2][2])


def coarse_of(backend: Backend, cells: Cells, merged: tuple[Any, np.ndarray, Any]) -> tuple[Any, ...]:
    """What the coarse level is made from."""
    return cells.starts, cells.held, cells.norms, merged[2]


def cells_taken(backend: Backend, Z: Any, wanted: np.ndarray) -> Any:
    return Z[backend.asarray(wanted)]


def smoothed_product(backend: Backend, merged: Any, Z: Any, R: Any, chosen: Any, scale: Any) -> Any:
    scale = None if scale is None else backend.asarray(scale)
    return backend.kernels.block_product(*merged, Z, R, scale, chosen=sent_to(backend, chosen))


def restricted(backend: Backend, cells: Cells, R: Any, columns: Any, factors: Any) -> Any:
    columns, factors = sent_to(backend, (columns, factors))
    return backend.kernels.restrict(backend.asarray(cells.starts), cells.weights, R)[:, columns] * factors


def hierarchy(backend: Backend, sizes: list[int], count: int, *blocks: tuple[Any, ...]) -> Level:
    """The first coarse level with those below it, from its rows by block."""
    starts, held, norms, rows = zip(*blocks, strict=True)
    indptr = np.concatenate([[0], *(np.diff(indptr) for indptr, _, _ in rows)]).cumsum()
    indices = np.concatenate([indices for _, indices, _ in rows])
    data = np.concatenate([data for _, _, data in rows])
    matrix = tuple(backend.asarray(part) for part in (indptr.astype(np.int64), indices, data))
    level = top = Level(backend, matrix, backend.asarray(np.concatenate(norms)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    fine = np.unique(np.concatenate([first + own for first, own in zip(offsets, starts, strict=False)]))
    lonely = np.concatenate([first + own for first, own in zip(offsets, held, strict=False)])
    cuts = multilevel.LEAF + multilevel.RATIO
    while True:
        own = [first + cells_of(n, True, cuts) for first, n in zip(offsets, sizes, strict=False)]
        cells = np.unique(np.concatenate(own))
        if ends_here(level) or not max(multilevel.SMALLEST, 4 * count) < len(cells) < len(fine):
            return top
        coarser = np.unique(np.concatenate([cells, lonely, lonely + 1]))
        level = level.coarsen(np.searchsorted(fine, coarser))
        fine, cuts = coarser, cuts + multilevel.RATIO


def coarse_pairs(backend: Backend, level: Level, wanted: int, guards: int, sure: int) -> tuple[np.ndarray, Any]:
    values, vectors, _ = multilevel.solve(
        level, wanted + guards, multilevel.REFRESH, multilevel.COARSE_TOL, last_level_pairs, sure=sure
    )
    return values, vectors[:, : wanted + guards].astype("float32")


def first_columns(backend: Backend, found: tuple[np.ndarray, Any], k: int) -> Any:
    return backend.xp.ascontiguousarray(found[1][:, :k])


def coarse_solution(backend: Backend, level: Level, shift: np.ndarray, Q: Any, *F: Any) -> Any:
    return multilevel.coarse_inverse(level, joined(backend, *F), shift, Q)
