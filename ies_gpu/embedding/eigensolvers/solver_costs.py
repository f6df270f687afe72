"""What each eigensolver would take on a graph, told by cheap looks before one of them runs.

Lanczos needs as many products as the eigenvalues crowd at 1: a walk from random signs counts those within 1/T of it, as
the trace of ``S^T``. The multilevel method needs more iterations the more smooth vectors vary within its cells. What a
factorisation takes is seen on the graph of cells, for which an elimination is planned. Seconds are those of one core
of a server; only their ratios matter. They were fitted to strips, rolls, spheres, grids, trees, normal clouds and
windows of images, and are right to about a factor of two, those of a factorisation to a quarter in most cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from ...backend import cached_property, host_of
from ...backend.array import Array, csr
from ..graph import cells_of, matrix_order

if TYPE_CHECKING:
    from .elimination import Elimination

LANCZOS = 7.2e-10, 2.6e-8  # seconds of a product and its orthogonalisation, for each entry and each row
PER_ROOT, FEW = 100.0, 1.5  # products over the root of T, when 1.5 times as many eigenvalues as are wanted are left
# the same on graphs of few neighbourhoods: products however wide the gap, and over the root of T; seconds of an entry
WIDE = 60.0, 68.0, 5.4e-10
UNSURE = 9  # times as late as the walk's pace foretells may be that T, and it still goes on
LARGE = 50_000  # rows from which on one column of signs is enough: there are more eigenvalues to count
FIRST, LAST = (4, 16), 512  # times T at which the walk is looked at, doubling from there, and after which it ends
ITERATION = 0.72e-8, 1.45e-6  # seconds of an iteration of the multilevel method, for each entry and each row
ITERATIONS = 8, 150.0  # of them, and so many times the part of smooth vectors that is lost on cells,
SMOOTH, ROUGH = 0.15, 80  # if that is not more; otherwise it may never end, and is tried only where all else is worse
PAIRS = 1  # a plan keeps pairs of rows together,
DEPTH, CELLS = 3, 40_000  # and a look cells of up to 2**DEPTH rows, or more, so that there are not more than CELLS
DEEPER = 0.79, 0.63  # of entries and multiplications are left when cells are half as large
FACTOR = 8.2e-8, 3.6e-11  # seconds for each entry of the factor, the solves included, and each multiplication
PREPARED = 1.2e-7, 8.7e-6  # and for each entry and row of the matrix
COLUMNS = 200, 8  # of vectors that exist at a time, and more for each wanted one
MOST_WORK = 2e12  # multiplications: about a minute and a half
QUICK = 1.5e-4  # seconds per row that it may take where it is not compared with other methods
COPIES = 6  # of the matrix at a time: P, S on the host, and what it takes to order S and plan (measured)
LEAST = 1.5  # entries of the factor for each of the matrix, at least, where cells suit a graph


class Look:
    """What it takes to factorise a shifted S, told by a plan for the graph of its cells.

    S is the matrix itself or, with the ``root`` of the weights, that of a transition matrix.
    """

    def __init__(
        self, matrix: scipy.sparse.csr_matrix, ordered: bool | np.ndarray = False, root: np.ndarray | None = None
    ) -> None:
        from .elimination import Elimination  # loads its loops

        self.matrix, self.root, n = matrix, root, matrix.shape[0]
        # cells in space may hold rows that are not joined
        order: tuple[np.ndarray, np.ndarray] = (
            matrix_order(matrix) if isinstance(ordered, bool) else (np.arange(n), ordered)
        )
        self.rows, self.edges = order
        depth = DEPTH
        while (n >> depth) > CELLS:
            depth += 1
        coarse = Elimination(matrix, self.rows, self.edges, depth)
        self.fill, self.work = (
            amount * part ** (depth - PAIRS) for amount, part in zip((coarse.fill, coarse.work), DEEPER, strict=True)
        )
        self.memory = 8.0 * (self.fill + coarse.front.max() ** 2 + coarse.stack)
        self.seconds = FACTOR[0] * self.fill + FACTOR[1] * self.work + PREPARED[0] * matrix.nnz + PREPARED[1] * n

    @cached_property
    def S(self) -> scipy.sparse.csr_matrix:  # noqa: N802
        if self.root is None:
            return self.matrix
        S = scipy.sparse.diags(self.root) @ self.matrix @ scipy.sparse.diags(1 / self.root)
        return (0.5 * (S + S.T)).tocsr()

    def plan(self) -> Elimination:
        """Return how to factorise it."""
        from .elimination import Elimination

        return Elimination(self.matrix, self.rows, self.edges, PAIRS)

    @property
    def is_quick(self) -> bool:
        return self.seconds <= max(0.1, QUICK * self.matrix.shape[0])


class Factorisation:
    """Whether to factorise the shifted matrix of an operator; nothing is computed before it is asked for."""

    def __init__(self, operator: Any, count: int, ordered: bool | np.ndarray = False) -> None:
        self.operator, self.count, self.ordered = operator, count, ordered

    @cached_property
    def look(self) -> Look:
        operator, host = self.operator, self.operator.backend.to_host
        P = operator.transition.matrix
        P = csr(host(P.indptr), host(P.indices), host(P.data).astype(np.float64, copy=False), operator.n)
        return Look(P, self.ordered, host(operator.root))

    @property
    def is_cheap(self) -> bool:
        """Whether it fits and takes little time; on graphs in many dimensions, whose factors fill up, it does not."""
        return self.fits and self.look.is_quick

    @property
    def may_fit(self) -> bool:
        """Whether the matrix alone is no reason against it."""
        P = self.operator.transition
        return P.has_matrix and self._room >= 0

    @property
    def fits(self) -> bool:
        """Whether it ends in about a minute, within the memory budget of the host."""
        return self.may_fit and self.look.work <= MOST_WORK and self.look.memory <= self._room

    @property
    def _room(self) -> float:
        """Bytes of the host that are left beside the matrix, its copies on the way, and the vectors."""
        vectors = 8.0 * self.operator.n * (COLUMNS[0] + COLUMNS[1] * self.count)
        return host_of(self.operator.backend).memory_budget() - COPIES * 12.0 * self.operator.transition.nnz - vectors


class Walk:
    """Random signs (n, k) under powers of S: ``left`` has how many eigenvalues are within 1/T of 1, for each T."""

    def __init__(self, operator: Any, columns: int | None = None) -> None:
        self.operator, self.steps, self.left = operator, 0, dict[int, float]()
        columns = columns or (2 if operator.n < LARGE else 1)
        signs = np.random.default_rng(operator.n).choice([-1.0, 1.0], size=(operator.n, columns))
        self.X = operator.backend.asarray(signs)
        for T in FIRST:
            self.until(T)

    def until(self, T: int) -> float:
        before = self.operator.products  # looks are not counted as work
        while self.steps < T:
            self.X = self.operator(self.X)
            self.steps += 2
        self.operator.products = before
        self.left[T] = float((self.X * self.X).sum()) / self.X.shape[1]
        return self.left[T]

    def time_until(self, number: float) -> float:
        """T at which so many are left; before the first look or after the last, by the power of T of the two there."""
        times, left = np.log(np.array(list(self.left.items()))).T
        wanted = np.log(number)
        if left[0] >= wanted >= left[-1]:
            return float(np.exp(np.interp(-wanted, -left, times)))
        a, b = (0, 1) if wanted > left[0] else (-1, -2)
        fall = max((left[a] - left[b]) / (times[b] - times[a]), 1e-9)
        return float(np.exp(min(times[a] + (left[a] - wanted) / fall, 600.0)))


def seconds_on_cells(operator: Any, X: Array, ordered: bool | np.ndarray) -> float:
    """Return what the multilevel method would take: the more, the more of smooth vectors (n, k) is lost on cells.

    That is the part beside the known vector which is not a multiple of it on small cells.
    """
    xp, top = operator.backend.xp, operator.top
    starts = operator.backend.asarray(cells_of(operator.n, ordered, DEPTH)[:-1])
    X = X - top[:, None] * (top @ X)
    means = xp.stack([xp.add.reduceat(top * x, starts) for x in X.T], axis=1)
    kept = (means * means / xp.add.reduceat(top * top, starts)[:, None]).sum()
    lost = 1 - float(kept) / float((X * X).sum())
    iterations = ITERATIONS[0] + ITERATIONS[1] * lost if lost <= SMOOTH else ROUGH
    return iterations * (ITERATION[0] * operator.transition.nnz + ITERATION[1] * operator.n)


def prefers_cells(operator: Any, count: int) -> bool:
    """Whether a graph of few neighbourhoods, its rows in KD order, is quicker to solve on cells than by Lanczos.

    Its entries are read some 200 times by Lanczos, and only 30 by block products; but noise in many directions, which
    such a graph often has, may vary within cells.
    """
    walk = Walk(operator, 1)
    products = WIDE[0] + WIDE[1] * min(walk.time_until(FEW * count), FIRST[-1]) ** 0.5
    seconds = products * (WIDE[2] * operator.transition.nnz + LANCZOS[1] * operator.n)
    return seconds_on_cells(operator, walk.X, True) < seconds


def expected_seconds(
    operator: Any, count: int, ordered: bool | np.ndarray, factorised: Callable[[], float]
) -> dict[str, float]:
    """Return what each method is expected to take, as far as it can win."""
    n, nnz, few, walk = operator.n, operator.transition.nnz, FEW * count, Walk(operator)
    expected = {} if ordered is False else {"multilevel": seconds_on_cells(operator, walk.X, ordered)}
    product, T = PER_ROOT * (LANCZOS[0] * nnz + LANCZOS[1] * n), FIRST[-1]
    if walk.left[T] <= few:
        expected["lanczos"] = product * walk.time_until(few) ** 0.5
    # asked for only where it could be the quickest, with as few entries as ever
    best = min(expected.values(), default=np.inf)
    if (LEAST * FACTOR[0] + PREPARED[0]) * nnz + PREPARED[1] * n < best:
        seconds = factorised()
        expected |= {"factorised": seconds} if np.isfinite(seconds) else {}
    best = min(expected.values(), default=np.inf)
    while walk.left[T] > few and T < LAST and product * max(T, walk.time_until(few) / UNSURE) ** 0.5 < best:
        T *= 2
        walk.until(T)
    if walk.left[T] <= few:
        expected["lanczos"] = product * walk.time_until(few) ** 0.5
    return expected
