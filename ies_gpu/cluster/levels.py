"""The leading eigenpairs on a cluster: the finest level in rows by block, those below it on one worker.

The iteration is that of :mod:`ies_gpu.embedding.eigensolvers.multilevel`, with arrays in pieces behind the same names.
Cells stay with the block of their points; their matrix, an eighth of the rows or so, goes to the first worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_matrix

from ..backend import Backend
from ..backend.kernels import plain
from ..embedding.diffusion import start_vector
from ..embedding.eigensolvers import choose_solver, multilevel
from ..embedding.eigensolvers.accuracy import ROUNDING, Accuracy, accuracy_of, separated
from ..embedding.eigensolvers.multilevel import CoarsePairs, Level
from ..embedding.graph import cells_of
from ..embedding.laplacian import Laplacian, SparseMatrix
from ..findings import ClusterError, NotConvergedError, option, refusal
from .arrays import Pieces, TallBackend, taken_columns
from .blocks import SAMPLE, BlockLaplacian, Rows
from .team import Call, Team, calls, item, joined

Matrix = tuple[Any, Any, Any]  # CSR: indptr, indices, data
Pairs = tuple[np.ndarray, Pieces, Accuracy]  # values, vectors, how good they are


class TopLevel(Level):
    """S in rows by block, above the levels on the first worker, where arrays of a row per cell are a single piece."""

    def __init__(self, graph: BlockLaplacian) -> None:
        self.team, self.graph, self.n = graph.team, graph, int(graph.sizes.sum())

        def symmetric_entries(at: Backend, P: Rows, root: Any) -> Matrix:
            """Return S as CSR in float32; P, which shares the columns, may go to the disk until it is needed again."""
            matrix, indptr = P.matrix, P.matrix.indptr.astype("int64")  # as on all levels
            return indptr, matrix.indices, plain.symmetric_entries(indptr, matrix.indices, matrix.data, root)

        self.entries = self.team.map(symmetric_entries, graph.transitions, graph.roots)
        self.backend: Any = TallBackend(graph.team, graph.sizes)
        self.products = self.columns = 0
        self.steps, self.late = multilevel.FIRST_STEPS, ()

    def build(self, count: int) -> None:
        """Attach the levels below, for ``count`` pairs."""

        def random_signs(at: Backend, n: int, block: int) -> Any:
            signs = np.random.default_rng((n, block)).integers(0, 2, size=(n, 32), dtype=np.int8)
            return at.asarray((2 * signs - 1).astype(np.float32))

        team, sizes = self.team, self.graph.sizes.tolist()
        squares = team.map(lambda _, root, n: float((root[:n] * root[:n]).sum()), self.graph.roots, sizes)
        self.length = float(np.sqrt(team.total(squares)))  # of the roots: divided by it they are the top vector
        Y, looks = Pieces(team, team.map(random_signs, sizes, list(range(len(sizes)))), (self.n, 32)), []
        for step in range(1, multilevel.LOOKS[-1] + 1):
            Y = self.product(Y)
            if step in multilevel.LOOKS:  # chances of return
                looks.append(calls(lambda at, Y: at.to_host((Y * Y).mean(axis=1)), Y.parts))
            if step == 1:
                Y = Y[:, :8]
        stride = max(1, self.n // SAMPLE)
        some = team.gather(team.map(lambda _, look: look[::stride], looks[0]))
        self.cells = team.map(own_cells, *looks, float(np.median(np.concatenate(some))), self.graph.roots, self.length)
        counts = np.array(team.gather(team.map(lambda _, cells: len(cells.norms), self.cells)))
        shown = team.map(labels_and_weights, self.cells, (np.cumsum(counts) - counts).tolist())
        merged = team.map(merged_rows, self.entries, self.cells, shown, team.exchanged(shown))
        self.merged, wanted, rows = team.map(item, merged, 0), team.map(item, merged, 1), calls(item, merged, 2)
        entries = sum(team.gather(team.map(lambda _, own: own.nnz, rows)))
        cells, most = int(counts.sum()), count - multilevel.GUARDS + 5
        need, advice = cells * (28 * most + 450) + 8 * entries, f"add one larger worker, or raise {option('bandwidth')}"
        refuse_beyond(team, need, "cluster.level_too_large", f"a coarse level of {cells:,} cells", advice)
        blocks = team.map(lambda _, own, rows: (own.starts, own.held, own.norms, rows), self.cells, rows)
        self.whole = team.submit(hierarchy, sizes, count, tuple(blocks), block=0, alone=True)
        # which cells a block needs is known where these are: a copy that came with a task would soon be dropped again
        self.wanted = [team.submit(joined, own, (), block=0) for own in wanted]
        # of the level there, whose conjugate gradients take the steps that they need, only these are asked for
        self.coarse: Any = SimpleNamespace(n=cells, late=())

    def product(self, V: Pieces, R: Pieces | None = None, chosen: Any = None) -> Pieces:
        self.products += 1
        self.columns += V.shape[1]
        others, rest = self.team.exchanged(V.parts), None if R is None else R.parts
        do = self.team.map if R is None else calls  # used once, where another step of smoothing is taken
        return Pieces(self.team, do(block_product, self.entries, rest, chosen, V.parts, others), V.shape)

    def exact(self, V: Pieces) -> Pieces:
        """Return ``S V`` in float64."""
        self.columns += V.shape[1]

        def times(at: Backend, P: Rows, root: Any, V: Any, others: tuple[Any, ...]) -> Any:
            return root[: P.n, None] * (SparseMatrix(P.matrix) @ joined(at, V, others))

        graph, scaled = self.graph, self.team.map(over_root, V.parts, self.graph.roots)
        parts = self.team.map(times, graph.transitions, graph.roots, scaled, self.team.exchanged(scaled))
        return Pieces(self.team, parts, V.shape)

    def smoothed(self, Z: Any, R: Pieces | None = None, chosen: Any = None, scale: Any = None) -> Pieces:
        self.products += 1
        self.columns += Z.shape[1]
        team, cells = self.team, enumerate(self.wanted)
        # taken where they are: only the cells that a block needs travel
        taken = [team.send(lambda at, Z, own: Z[at.asarray(own)], *Z.parts, own, at=0, to=i) for i, own in cells]
        parts = team.map(block_product, self.merged, None if R is None else R.parts, chosen, taken, (), scale)
        return Pieces(team, parts, (self.n, Z.shape[1]))

    def restricted(self, R: Pieces, columns: np.ndarray, factors: np.ndarray) -> Pieces:
        def restricted(at: Backend, cells: Cells, R: Any) -> Any:
            found = at.kernels.restrict(at.asarray(cells.starts), cells.weights, R)
            return found[:, at.asarray(columns)] * at.asarray(factors)

        pairs = enumerate(zip(self.cells, R.parts, strict=True))
        parts = [self.team.send(restricted, *pair, at=i, to=0) for i, pair in pairs]
        return Pieces(self.team, parts, (self.coarse.n, len(columns)))

    def start(self, wanted: int, guards: int, sure: int) -> CoarsePairs:
        def pairs(at: Backend, level: Level) -> tuple[np.ndarray, Any]:
            values, vectors, _ = multilevel.solve(level, most, multilevel.REFRESH, multilevel.COARSE_TOL, sure=sure)
            return values, vectors[:, :most].astype("float32")

        team, most = self.team, wanted + guards
        found = team.submit(pairs, self.whole, block=0, alone=True)
        values = team.gather([team.submit(item, found, 0, block=0)])[0]
        k = multilevel.kept_pairs(values, wanted, guards)
        vectors = team.submit(taken_columns, Call(item, (found, 1)), slice(k), block=0)
        return CoarsePairs(values[:k], Pieces(team, [vectors], (self.coarse.n, k)), float(values[k]))

    def coarse_solution(self, F: Pieces, shift: np.ndarray, Q: Any) -> Any:
        def solution(at: Backend, level: Level, Q: Any, F: tuple[Any, ...]) -> Any:
            return multilevel.coarse_inverse(level, joined(at, F[0], F[1:]), shift, Q)

        future = self.team.submit(solution, self.whole, *Q.parts, tuple(F.parts), block=0, alone=True)
        return Pieces(self.team, [future], (self.coarse.n, len(shift)))


def refuse_beyond(team: Team, need: float, code: str, what: str, advice: str) -> None:
    """Raise if what takes so many bytes does not fit into the memory of the first worker."""
    most = team.memory_of_first()
    if need > most:
        text = f"{what} takes about {need / 1e9:.1f} GB on one worker, and the largest has {most / 1e9:.1f} GB"
        raise refusal(code, text, advice, ClusterError)


def eigenpairs(graph: BlockLaplacian, count: int, tol: float, info: dict[str, Any], progress: Any = None) -> Pairs:
    """Return the ``count`` leading pairs of S: values, vectors in pieces, and how accurate they are.

    Graphs for which the multilevel method is not expected to win are small or dense, and solved on one worker.
    """
    team, n, why = graph.team, int(graph.sizes.sum()), "it is too dense for the multilevel method"
    if choose_solver.has_many_neighbourhoods(n, graph.nnz, count):
        try:
            return multilevel_pairs(graph, count, tol, info, progress)
        except (NotConvergedError, np.linalg.LinAlgError) as doubt:
            info["fallback"] = why = str(doubt)
    what, advice = f"the matrix ({why})", f"lower {option('bandwidth')} or use larger workers"
    refuse_beyond(team, 40 * graph.nnz, "cluster.matrix_too_large", what, advice)  # with its parts and vectors
    pairs = team.submit(whole_pairs, count, tol, tuple(graph.transitions), tuple(graph.roots), block=0)
    values, accuracy, more = team.gather([team.submit(item, pairs, 0, block=0)])[0]
    info |= more
    parts = [team.submit(item, Call(item, (pairs, 1)), i, block=0) for i in range(len(graph.sizes))]
    return values, Pieces(team, parts, (n, count)), accuracy


def multilevel_pairs(graph: BlockLaplacian, count: int, tol: float, info: dict[str, Any], progress: Any) -> Pairs:
    """Return the leading pairs from the multilevel method, with everything tall in pieces."""
    team, level = graph.team, TopLevel(graph)
    level.build(count + multilevel.GUARDS)
    history: list[float] = []
    aim = min(multilevel.AIM * tol, multilevel.REFRESH)
    try:
        values, X, coarse = multilevel.solve(level, count, aim, 0.0, level.exact, history, progress)
    finally:
        info |= {"block_products": level.products, "iterations": len(history), "products": level.columns}
        info["coarse_sizes"] = [level.coarse.n]
    multilevel.check_interlacing(values, coarse.values, count)
    X, length = X[:, :count], level.length
    # vectors are turned so that they have nothing of the top one; see multilevel.beside_top
    along = team.total(team.map(lambda at, V, w: at.to_host((w[: len(V)] / length) @ V), X.parts, graph.roots))
    reflection = multilevel.reflection(along)

    def turned(at: Backend, V: Any, root: Any) -> Any:
        V = V @ at.asarray(reflection)
        V[:, 0] = root[: len(V)] / length
        return V

    V = Pieces(team, team.map(turned, X.parts, graph.roots), (level.n, count))
    accuracy, gram, coupling = measured(level, values, V)
    if accuracy.doubtful.size and np.isfinite(accuracy.residuals).all():
        apart, turn = separated(values[1:count], gram[1:, 1:], coupling[1:, 1:])
        values = np.concatenate([values[:1], apart, values[count:]])
        turn = block_diag(1.0, turn)  # the first vector stays
        V = Pieces(team, team.map(lambda at, V: V @ at.asarray(turn), V.parts), V.shape)
        accuracy, gram, _ = measured(level, values, V)
    choose_solver.refuse_pairs(float(np.abs(gram - np.eye(count)).max()), float(accuracy.residuals.max()), tol)
    info["method"] = "multilevel"
    return values[:count].copy(), V, accuracy


def measured(level: TopLevel, values: np.ndarray, V: Pieces) -> tuple[Accuracy, np.ndarray, np.ndarray]:
    """Return the accuracy of vectors in pieces, their inner products, and those with their residuals."""

    def sums(backend: Backend, SV: Any, V: Any, values: np.ndarray) -> tuple[np.ndarray, ...]:
        R = SV - V * backend.asarray(values)
        return tuple(backend.to_host(part) for part in ((R * R).sum(axis=0), V.T @ V, V.T @ R))

    parts = level.team.map(sums, level.exact(V).parts, V.parts, values[: V.shape[1]].copy())
    squares, gram, coupling = level.team.total(parts)
    noise = max(ROUNDING, float(np.abs(coupling[1:, 0]).max(initial=0.0)))
    return accuracy_of(values, np.sqrt(squares), coupling, noise), gram, coupling


def block_product(backend: Backend, S: Matrix, R: Any, chosen: Any, V: Any, others: Any, scale: Any = None) -> Any:
    """Return the rows of a block of S or S P0 times V and what comes from others; see :meth:`Level.smoothed`."""
    if chosen is not None:
        chosen = tuple(map(backend.asarray, chosen))
    scale = backend.asarray(scale) if scale is not None else None if R is None else R.dtype.type(1)
    return backend.kernels.block_product(*S, joined(backend, V, others), R, scale, chosen=chosen)


def over_root(backend: Backend, V: Any, root: Any) -> Any:
    return V / root[: len(V), None]


def whole_pairs(
    backend: Backend, count: int, tol: float, blocks: tuple[Rows, ...], roots: tuple[Any, ...]
) -> tuple[tuple[np.ndarray, Accuracy, dict[str, Any]], list[Any]]:
    """Return the values of the matrix put together from its blocks, what is known of them, and the vectors by block."""
    first, xp = np.cumsum([0, *(P.n for P in blocks)]), backend.xp
    rows = []
    for i, P in enumerate(blocks):
        others = [backend.asarray(want) + int(first[j]) for j, want in P.wants.items()]
        columns = xp.concatenate([xp.arange(int(first[i]), int(first[i + 1])), *others])
        parts = P.matrix.data, columns[P.matrix.indices], P.matrix.indptr
        rows.append(backend.sparse.csr_matrix(parts, shape=(P.n, int(first[-1]))))
    matrix = backend.sparse.vstack(rows, format="csr")
    matrix.sort_indices()
    weights = xp.concatenate([root[: P.n] for root, P in zip(roots, blocks, strict=True)]) ** 2
    operator = choose_solver.SymmetricTransition(Laplacian(matrix, weights), backend)
    start = backend.asarray(start_vector(len(weights), 0))
    pairs = choose_solver.leading_eigenpairs(operator, count, start=start, tol=tol)
    vectors = [xp.ascontiguousarray(part) for part in xp.split(pairs.vectors, first[1:-1].tolist())]
    return (backend.to_host(pairs.values), pairs.accuracy, pairs.info), vectors


# --- cells: columns of a block are those of its own cells, then those of other blocks, by block -----------------------


@dataclass(frozen=True)
class Cells:
    """The cells of a block on some level."""

    starts: np.ndarray  # where they begin; the last entry is the end
    held: np.ndarray  # the points that are cells of their own on all levels
    norms: np.ndarray  # the length of the top vector in each cell
    weights: Any  # its entries over that


def own_cells(
    backend: Backend, first: np.ndarray, second: np.ndarray, last: np.ndarray, median: float, root: Any, length: float
) -> Cells:
    """Return the cells of the first level, from return probabilities after 1, 3 and 7 steps."""
    lonely, held = map(np.flatnonzero, multilevel.held_rows(first, second, last, median))
    starts = np.unique(np.concatenate([cells_of(len(first), True, multilevel.LEAF), lonely, lonely + 1]))
    xp, begin, top = backend.xp, backend.asarray(starts), root[: len(first)] / length
    norms = xp.sqrt(xp.add.reduceat(top * top, begin[:-1]))
    weights = (top / xp.repeat(norms, begin[1:] - begin[:-1])).astype(xp.float32)
    return Cells(starts, held, backend.to_host(norms), weights)


def labels_and_weights(backend: Backend, cells: Cells, first: int) -> np.ndarray:
    """Return for each row the number of its cell and its weight there, on the host: these are exchanged once."""
    labels = np.repeat(first + np.arange(len(cells.starts) - 1), np.diff(cells.starts))
    return np.stack([labels.astype(np.float64), backend.to_host(cells.weights).astype(np.float64)], axis=1)


def merged_rows(
    backend: Backend, entries: Matrix, cells: Cells, own: np.ndarray, others: tuple[np.ndarray, ...]
) -> tuple[Matrix, np.ndarray, csr_matrix]:
    """Return a block's rows of ``S P0``, the cells (own ones first) that their columns are, and its coarse rows.

    These are on the host, with columns over all blocks. ``own`` and ``others`` have the cells of all rows that the
    columns of S stand for.
    """
    shown = np.concatenate([own, *others])
    labels = shown[:, 0].astype(np.int64)  # those of a cell follow each other: rows of a block stand in order
    first = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1])
    weights = backend.asarray(shown[:, 1].astype(np.float32))
    begin = backend.asarray(np.append(first, len(labels)))
    product = backend.kernels.merge_columns(*entries, begin, weights)
    rows = backend.kernels.merge_rows(*product, backend.asarray(cells.starts), weights[: len(own)], len(first))
    indptr, indices, data = map(backend.to_host, rows)
    wanted = labels[first]
    whole = csr_matrix((data, wanted[indices], indptr), shape=(len(indptr) - 1, int(wanted.max()) + 1))
    whole.sort_indices()
    return product, wanted, whole


def hierarchy(backend: Backend, sizes: list[int], count: int, blocks: tuple[tuple[Any, ...], ...]) -> Level:
    """Return the first coarse level with those below it, from its rows by block."""
    points, held, norms, rows = zip(*blocks, strict=True)
    indptr = np.cumsum(np.concatenate([[0], *(np.diff(own.indptr) for own in rows)]), dtype=np.int64)
    indices = np.concatenate([own.indices.astype(np.int32) for own in rows])
    data = np.concatenate([own.data for own in rows])
    matrix = tuple(map(backend.asarray, (indptr, indices, data)))
    level = Level(backend, matrix, backend.asarray(np.concatenate(norms)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])

    def over_all(parts: Iterable[np.ndarray]) -> np.ndarray:
        return np.unique(np.concatenate([first + own for first, own in zip(offsets, parts, strict=False)]))

    cells = lambda cuts: over_all(cells_of(n, True, cuts) for n in sizes)  # noqa: E731
    multilevel.coarsened(level, over_all(points), over_all(held), count, cells)
    return level
