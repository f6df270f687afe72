"""The levels of the multilevel eigensolver on a cluster: in rows by block, down to the first that fits one worker.

The iteration is that of :mod:`ies_gpu.embedding.eigensolvers.multilevel`, with arrays in pieces behind the same names.
Cells stay with the block of their points. The last level in blocks hands its coarse form, an eighth of its rows or so,
to the first worker, which builds what is below it and solves there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Backend
from ..embedding.eigensolvers import multilevel, returns
from ..embedding.eigensolvers.coarsest import last_level_pairs
from ..embedding.eigensolvers.multilevel import CoarsePairs, Level
from ..embedding.order import cells_of
from ..errors import ClusterError
from .blocks import SAMPLE, every
from .cells import (
    cells_taken,
    cells_wanted,
    coarse_of,
    coarse_rows,
    coarser_cells,
    counts_of,
    extents_of,
    hierarchy,
    labels_and_weights,
    merged_rows,
    own_cells,
    restricted,
    sent_to,
    smoothed_product,
)
from .inverse import tall_inverse
from .matrix import Graph, Rows, outgoing_by
from .tall_arrays import TallBackend
from .team import COARSE, Call, Pieces, Team, as_it_is, item, joined, member

ROOM = 0.5  # of a worker's memory: a coarse level that would take more stays in blocks
USUAL_ENTRIES = 25  # of a row of a coarse matrix, on surfaces


class TallLevel(Level):
    """S or a coarse form of it in rows by block, with the way down to the next level.

    Parameters
    ----------
    team : Team
    points, sizes : ndarray
        How many points each block has, and how many rows on this level.
    entries : list of Future
        The rows as CSR in float32.
    outgoing : list of Future
        Which rows each block sends to which other.
    """

    def __init__(
        self, team: Team, points: np.ndarray, sizes: np.ndarray, entries: list[Any], outgoing: list[Any]
    ) -> None:
        self.team, self.points, self.sizes = team, points, sizes
        self.entries, self.outgoing = entries, outgoing
        self.n = int(sizes.sum())
        self.backend: Any = TallBackend(team, sizes)
        self.products = self.columns = 0
        self.steps, self.late = multilevel.FIRST_STEPS, None
        # columns of arrays that are exchanged, and numbers in the sums of conjugate gradients
        self.travelled = dict.fromkeys(("fine", "exact", "up", "down", "sums"), 0)
        self.coarse: Any = None  # a TallLevel or a LoneLevel

    def attach(self, cells: list[Any], count: int, cuts: int) -> None:
        """Attach the level whose rows are the cells, of at most ``2**cuts`` points, and those below it."""
        team, self.cells = self.team, cells
        counts, held = np.array(team.gather(team.map(counts_of, cells))).T
        first = np.concatenate([[0], np.cumsum(counts)])
        shown = team.map(labels_and_weights, cells, first[:-1].tolist())
        merged = team.map(merged_rows, self.entries, cells, shown, team.exchanged(shown, self.outgoing))
        self.merged = team.map(member, merged, "product")
        extents = team.gather(team.map(extents_of, merged, first))
        wanted, entries = [own for own, _ in extents], np.array([z for _, z in extents])
        if stays_in_blocks(self, int(counts.sum()), int(held.sum()), int(entries.sum()), count, cuts):
            away = sum(n for i, own in enumerate(wanted) for j, n in own.items() if team.place(i) != team.place(j))
            self.travelled |= {"cells": 0, "wanted_cells": away, "coarse_entries": 0}
            outgoing = outgoing_by(team, team.map(cells_wanted, merged, team.near, first))
            self.coarse = TallLevel(team, self.points, counts, team.map(coarse_rows, merged), outgoing)
            self.coarse.travelled["rows"] = away  # whenever an array of that level is exchanged
            cuts += multilevel.RATIO
            self.coarse.attach(team.map(coarser_cells, cells, cuts), count, cuts)
            return
        far = [i for i in range(len(counts)) if team.place(i) != team.place(0)]
        self.travelled |= {"cells": int(counts[far].sum()), "coarse_entries": int(entries[far].sum())}
        self.travelled["wanted_cells"] = sum(sum(wanted[i].values()) for i in far)
        blocks = team.map(coarse_of, cells, merged)
        whole = team.submit(hierarchy, self.points.tolist(), count, cuts, *blocks, block=0, alone=True)
        # which cells a block needs is known where these are: a copy that came with a task would soon be dropped again
        places = [team.submit(as_it_is, cells, block=0) for cells in team.map(member, merged, "wanted")]
        self.coarse = LoneLevel(team, int(counts.sum()), whole, places)

    @property
    def in_blocks(self) -> list[TallLevel]:
        """The levels from here on that are in blocks."""
        return [self, *(self.coarse.in_blocks if isinstance(self.coarse, TallLevel) else ())]

    def count_product(self, columns: int) -> None:
        self.products += 1
        self.columns += columns
        self.travelled["fine"] += columns

    def count_sums(self, sent: int, received: int) -> None:
        """Count numbers that each block sends to the first worker, and that each other worker gets from it."""
        far = [place for place in map(self.team.place, range(len(self.sizes))) if place != self.team.place(0)]
        self.travelled["sums"] += sent * len(far) + received * len(set(far))

    def product(self, V: Pieces, R: Pieces | None = None, chosen: Any = None) -> Pieces:
        self.count_product(V.shape[1])
        others = self.team.exchanged(V.parts, self.outgoing)
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
        rest = None if R is None else R.parts
        parts = self.team.map(smoothed_product, self.merged, self.coarse.taken(Z), rest, chosen, scale)
        return Pieces(self.team, parts, (self.n, Z.shape[1]))

    def restricted(self, R: Pieces, columns: np.ndarray, factors: np.ndarray) -> Pieces:
        self.travelled["up"] += len(columns)
        pairs = enumerate(zip(self.cells, R.parts, strict=True))
        parts = [
            self.team.passed(restricted, *pair, columns, factors, at=i, to=self.coarse.home(i)) for i, pair in pairs
        ]
        return Pieces(self.team, parts, (self.coarse.n, len(columns)))

    def start(self, wanted: int, last: Any, guards: int, sure: int) -> CoarsePairs:
        if isinstance(self.coarse, LoneLevel):
            return self.coarse.pairs(wanted, guards, sure)
        return super().start(wanted, last, guards, sure)

    def coarse_solution(self, F: Pieces, shift: np.ndarray, Q: Any) -> Any:
        return self.coarse.inverse(F, shift, Q)

    # what the level above asks of this one, and of a LoneLevel

    def home(self, block: int) -> int:
        """The block on whose worker a block's cells are."""
        return block

    def taken(self, Z: Pieces) -> list[Any]:
        """For each block the rows of Z that it needs."""
        others = self.team.exchanged(Z.parts, self.outgoing)
        return [Call(joined, (own, *more)) for own, more in zip(Z.parts, others, strict=True)]

    def inverse(self, F: Pieces, shift: np.ndarray, Q: Pieces) -> Pieces:
        return tall_inverse(self, F, shift, Q)


class TopLevel(TallLevel):
    """S itself."""

    def __init__(self, team: Team, graph: Graph) -> None:
        entries = team.map(symmetric_entries, graph.transitions, graph.roots)
        super().__init__(team, graph.sizes, graph.sizes, entries, team.outgoing)
        self.graph = graph

    def build(self, count: int) -> None:
        """Attach the levels below, for ``count`` pairs."""
        team = self.team
        squares = team.total(team.map(square_sum, self.graph.roots, self.graph.sizes.tolist()))
        self.length = float(np.sqrt(squares))  # of the roots: divided by it they are the top vector
        cells = team.map(own_cells, *self._chances(), self.graph.roots, self.length)
        self.attach(cells, count, multilevel.LEAF)

    def _chances(self) -> tuple[Any, ...]:
        """Each point's chances of return at three looks, by block, and about the median of the first."""
        team = self.team
        Y = Pieces(team, team.map(random_signs, self.sizes.tolist(), list(range(len(self.sizes)))), (self.n, 32))
        looks = []
        for step in range(1, returns.LOOKS[-1] + 1):
            Y = self.product(Y)
            if step in returns.LOOKS:
                looks.append([Call(chances, (part,)) for part in Y.parts])
            if step == 1:
                Y = Y[:, :8]
        sample = team.gather(team.map(every, looks[0], max(1, self.n // SAMPLE)))
        return *looks, float(np.median(np.concatenate(sample)))

    def exact(self, V: Pieces) -> Pieces:
        """``S V`` in float64."""
        self.columns += V.shape[1]
        self.travelled["exact"] += V.shape[1]
        scaled = self.team.map(over_root, V.parts, self.graph.roots)
        others = self.team.exchanged(scaled)
        parts = self.team.map(exact_product, self.graph.transitions, self.graph.roots, scaled, others)
        return Pieces(self.team, parts, V.shape)


class LoneLevel:
    """The first level that fits one worker, which has it with those below.

    Parameters
    ----------
    whole : Future of Level
    wanted : list of Future
        The cells that each block needs, on the same worker.
    """

    late = None  # conjugate gradients there take the steps that they need

    def __init__(self, team: Team, n: int, whole: Any, wanted: list[Any]) -> None:
        self.team, self.n, self.whole, self.wanted = team, n, whole, wanted

    def home(self, block: int) -> int:
        return 0

    def taken(self, Z: Remote) -> list[Any]:
        """For each block the cells that it needs, taken where they are: only these travel."""
        wanted = enumerate(self.wanted)
        return [self.team.passed(cells_taken, Z.future, cells, at=0, to=i) for i, cells in wanted]

    def pairs(self, wanted: int, guards: int, sure: int) -> CoarsePairs:
        found = self.team.submit(coarse_pairs, self.whole, wanted, guards, sure, block=0, alone=True)
        values = self.team.gather([self.team.submit(item, found, 0, block=0)])[0]
        k = multilevel.kept_pairs(values, wanted, guards)
        vectors = self.team.submit(first_columns, found, k, block=0)
        return CoarsePairs(values[:k], Remote(vectors, (self.n, k)), float(values[k]))

    def inverse(self, F: Pieces, shift: np.ndarray, Q: Remote) -> Remote:
        future = self.team.submit(coarse_solution, self.whole, shift, Q.future, *F.parts, block=0, alone=True)
        return Remote(future, (self.n, len(shift)))


@dataclass(frozen=True)
class Remote:
    """A float32 array of one row per cell, on one worker."""

    future: Any
    shape: tuple[int, int]


def coarse_bytes(cells: float, entries: float, m: int) -> float:
    """What a coarse level takes on one worker for m coordinates, with the levels below it."""
    return cells * (28 * (m + 6) + 450) + 8 * entries


def stays_in_blocks(level: Any, cells: int, held: int, entries: int, count: int, cuts: int) -> bool:
    """Whether the coarse form of a level is too large for one worker, and the one below that smaller by enough."""
    need, most = coarse_bytes(cells, entries, count - multilevel.GUARDS - 1), level.team.memory_of(0)
    if need <= ROOM * most:
        return False
    below = sum(len(cells_of(int(n), True, cuts + multilevel.RATIO)) - 1 for n in level.points)
    if max(multilevel.SMALLEST, 4 * count) < below and below + 2 * held <= multilevel.SHORTER * cells:
        return True
    if need > most:
        raise ClusterError(
            f"a coarse level of {cells:,} cells takes about {need / 1e9:.1f} GB on one worker, which has "
            f"{most / 1e9:.1f} GB, and the next one would hardly be smaller ({held:,} points are almost cut off from "
            "the others); add one larger worker, or raise bandwidth"
        )
    return False


def first_share(team: Team, n: int, m: int) -> float:
    """Roughly the share of the memory of all blocks that the levels on the first worker alone will need."""
    most = ROOM * max(team.memory_limits().values(), default=1 << 62)
    cells, share = n / 6, COARSE
    while coarse_bytes(cells, USUAL_ENTRIES * cells, m) > most:
        cells, share = cells / 2**multilevel.RATIO, share / 2**multilevel.RATIO
    return share


# --- tasks -----------------------------------------------------------------------------------------------------------


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


def square_sum(backend: Backend, root: Any, n: int) -> float:
    return float((root[:n] * root[:n]).sum())


def coarse_pairs(backend: Backend, level: Level, wanted: int, guards: int, sure: int) -> tuple[np.ndarray, Any]:
    values, vectors, _ = multilevel.solve(
        level, wanted + guards, multilevel.REFRESH, multilevel.COARSE_TOL, last_level_pairs, sure=sure
    )
    return values, vectors[:, : wanted + guards].astype("float32")


def first_columns(backend: Backend, found: tuple[np.ndarray, Any], k: int) -> Any:
    return backend.xp.ascontiguousarray(found[1][:, :k])


def coarse_solution(backend: Backend, level: Level, shift: np.ndarray, Q: Any, *F: Any) -> Any:
    return multilevel.coarse_inverse(level, joined(backend, *F), shift, Q)
