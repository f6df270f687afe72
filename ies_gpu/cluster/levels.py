"""The levels of the multilevel eigensolver on a cluster: the finest in rows by block, those below it on one worker.

The iteration is that of :mod:`ies_gpu.embedding.eigensolvers.multilevel`, with arrays in pieces behind the same names.
Cells stay with the block of their points. Their matrix, an eighth of the rows or so, goes to the first worker, which
builds what is below it and solves there with the code of one machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.kernels import plain_multilevel
from ..embedding.eigensolvers import multilevel, returns
from ..embedding.eigensolvers.coarsest import last_level_pairs
from ..embedding.eigensolvers.multilevel import CoarsePairs, Level
from ..errors import ClusterError
from ..findings import option, refusal
from .blocks import SAMPLE, every
from .cells import (
    cells_taken,
    coarse_of,
    extents_of,
    hierarchy,
    labels_and_weights,
    merged_rows,
    own_cells,
    restricted,
    sent_to,
    smoothed_product,
)
from .matrix import BlockLaplacian, Rows
from .tall_arrays import TallBackend
from .team import Call, Pieces, Team, as_it_is, item, joined, member, taken_columns


class TopLevel(Level):
    """S in rows by block, with the way down to the levels on the first worker.

    Attributes
    ----------
    travelled : dict
        Columns of the arrays that were exchanged, by kind, and what went to the first worker and back.
    """

    def __init__(self, team: Team, graph: BlockLaplacian) -> None:
        self.team, self.graph, self.n = team, graph, int(graph.sizes.sum())
        self.entries = team.map(symmetric_entries, graph.transitions, graph.roots)
        self.backend: Any = TallBackend(team, graph.sizes)
        self.products = self.columns = 0
        self.steps, self.late = multilevel.FIRST_STEPS, None
        self.travelled = dict.fromkeys(("fine", "exact", "up", "down"), 0)

    def build(self, count: int) -> None:
        """Attach the levels below, for ``count`` pairs."""
        team, sizes = self.team, self.graph.sizes.tolist()
        squares = team.map(lambda _, root, n: float((root[:n] * root[:n]).sum()), self.graph.roots, sizes)
        self.length = float(np.sqrt(team.total(squares)))  # of the roots: divided by it they are the top vector
        self.cells = team.map(own_cells, *self._chances(), self.graph.roots, self.length)
        counts = np.array(team.gather(team.map(lambda _, cells: len(cells.norms), self.cells)))
        first = np.concatenate([[0], np.cumsum(counts)])
        shown = team.map(labels_and_weights, self.cells, first[:-1].tolist())
        merged = team.map(merged_rows, self.entries, self.cells, shown, team.exchanged(shown))
        self.merged = team.map(member, merged, "product")
        wanted, entries = np.array(team.gather(team.map(extents_of, merged))).T
        refuse_coarse(team, int(counts.sum()), int(entries.sum()), count)
        far = [i for i in range(len(counts)) if team.place(i) != team.place(0)]
        self.travelled |= {"cells": int(counts[far].sum()), "coarse_entries": int(entries[far].sum())}
        self.travelled["wanted_cells"] = int(wanted[far].sum())
        blocks = team.map(coarse_of, self.cells, merged)
        whole = team.submit(hierarchy, sizes, count, multilevel.LEAF, *blocks, block=0, alone=True)
        # which cells a block needs is known where these are: a copy that came with a task would soon be dropped again
        places = [team.submit(as_it_is, cells, block=0) for cells in team.map(member, merged, "wanted")]
        self.coarse = LoneLevel(team, int(counts.sum()), whole, places)

    def _chances(self) -> tuple[Any, ...]:
        """Each point's chances of return at three looks, by block, and about the median of the first."""
        team, sizes = self.team, self.graph.sizes
        Y = Pieces(team, team.map(random_signs, sizes.tolist(), list(range(len(sizes)))), (self.n, 32))
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

    def exact(self, V: Pieces) -> Pieces:
        """``S V`` in float64."""
        self.columns += V.shape[1]
        self.travelled["exact"] += V.shape[1]
        scaled = self.team.map(over_root, V.parts, self.graph.roots)
        others = self.team.exchanged(scaled)
        parts = self.team.map(exact_product, self.graph.transitions, self.graph.roots, scaled, others)
        return Pieces(self.team, parts, V.shape)

    def smoothed(self, Z: Any, R: Pieces | None = None, chosen: Any = None, scale: Any = None) -> Pieces:
        self.products += 1
        self.columns += Z.shape[1]
        self.travelled["down"] += Z.shape[1]
        rest = None if R is None else R.parts
        parts = self.team.map(smoothed_product, self.merged, self.coarse.taken(Z), rest, chosen, scale)
        return Pieces(self.team, parts, (self.n, Z.shape[1]))

    def restricted(self, R: Pieces, columns: np.ndarray, factors: np.ndarray) -> Pieces:
        self.travelled["up"] += len(columns)
        pairs = enumerate(zip(self.cells, R.parts, strict=True))
        parts = [self.team.send(restricted, *pair, columns, factors, at=i, to=0) for i, pair in pairs]
        return Pieces(self.team, parts, (self.coarse.n, len(columns)))

    def start(self, wanted: int, last: Any, guards: int, sure: int) -> CoarsePairs:
        return self.coarse.pairs(wanted, guards, sure)

    def coarse_solution(self, F: Pieces, shift: np.ndarray, Q: Any) -> Any:
        return self.coarse.inverse(F, shift, Q)


class LoneLevel:
    """The first coarse level and those below it, on the first worker.

    Parameters
    ----------
    whole : Future of Level
    wanted : list of Future
        The cells that each block needs, on the same worker.
    """

    late = None  # conjugate gradients there take the steps that they need

    def __init__(self, team: Team, n: int, whole: Any, wanted: list[Any]) -> None:
        self.team, self.n, self.whole, self.wanted = team, n, whole, wanted

    def taken(self, Z: Remote) -> list[Any]:
        """For each block the cells that it needs, taken where they are: only these travel."""
        wanted = enumerate(self.wanted)
        return [self.team.send(cells_taken, Z.future, cells, at=0, to=i) for i, cells in wanted]

    def pairs(self, wanted: int, guards: int, sure: int) -> CoarsePairs:
        found = self.team.submit(coarse_pairs, self.whole, wanted, guards, sure, block=0, alone=True)
        values = self.team.gather([self.team.submit(item, found, 0, block=0)])[0]
        k = multilevel.kept_pairs(values, wanted, guards)
        vectors = self.team.submit(taken_columns, Call(item, (found, 1)), slice(k), block=0)
        return CoarsePairs(values[:k], Remote(vectors, (self.n, k)), float(values[k]))

    def inverse(self, F: Pieces, shift: np.ndarray, Q: Remote) -> Remote:
        future = self.team.submit(coarse_solution, self.whole, shift, Q.future, *F.parts, block=0, alone=True)
        return Remote(future, (self.n, len(shift)))


@dataclass(frozen=True)
class Remote:
    """A float32 array of one row per cell, on one worker."""

    future: Any
    shape: tuple[int, int]


def refuse_coarse(team: Team, cells: int, entries: int, count: int) -> None:
    """Raise if the coarse levels for ``count`` pairs do not fit into the memory of the first worker."""
    need, most = cells * (28 * (count - multilevel.GUARDS + 5) + 450) + 8 * entries, team.memory_of(0)
    if need > most:
        text = (
            f"a coarse level of {cells:,} cells takes about {need / 1e9:.1f} GB on one worker, and the largest has "
            f"{most / 1e9:.1f} GB"
        )
        advice = f"add one larger worker, or raise {option('bandwidth')}"
        raise refusal("cluster.level_too_large", text, advice, ClusterError)


# --- tasks -----------------------------------------------------------------------------------------------------------


def symmetric_entries(backend: Backend, P: Rows, root: Any) -> tuple[Any, Any, Any]:
    """S as CSR with entries in float32; P, which shares the columns, may go to the disk until it is needed again."""
    matrix, indptr = P.matrix, P.matrix.indptr.astype("int64")  # as on all levels
    return indptr, matrix.indices, plain_multilevel.symmetric_entries(indptr, matrix.indices, matrix.data, root)


def block_product(backend: Backend, S: tuple[Any, Any, Any], R: Any, chosen: Any, V: Any, *others: Any) -> Any:
    one = None if R is None else R.dtype.type(1)
    return backend.kernels.block_product(*S, joined(backend, V, *others), R, one, chosen=sent_to(backend, chosen))


def exact_product(backend: Backend, P: Rows, root: Any, V: Any, *others: Any) -> Any:
    matrix = P.matrix
    product = backend.kernels.spmm(matrix.indptr, matrix.indices, matrix.data, joined(backend, V, *others))
    return root[: P.n, None] * product


def over_root(backend: Backend, V: Any, root: Any) -> Any:
    return V / root[: len(V), None]


def random_signs(backend: Backend, n: int, block: int) -> Any:
    signs = np.random.default_rng((n, block)).integers(0, 2, size=(n, 32), dtype=np.int8)
    return backend.asarray((2 * signs - 1).astype(np.float32))


def chances(backend: Backend, Y: Any) -> np.ndarray:
    return backend.to_host((Y * Y).mean(axis=1))


def coarse_pairs(backend: Backend, level: Level, wanted: int, guards: int, sure: int) -> tuple[np.ndarray, Any]:
    values, vectors, _ = multilevel.solve(
        level, wanted + guards, multilevel.REFRESH, multilevel.COARSE_TOL, last_level_pairs, sure=sure
    )
    return values, vectors[:, : wanted + guards].astype("float32")


def coarse_solution(backend: Backend, level: Level, shift: np.ndarray, Q: Any, *F: Any) -> Any:
    return multilevel.coarse_inverse(level, joined(backend, *F), shift, Q)
