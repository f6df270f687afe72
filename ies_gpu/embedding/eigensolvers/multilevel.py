"""The leading eigenpairs from a hierarchy of cells of consecutive points: products that do not grow with n.

Lanczos needs about ``1 / eps`` products, since the wanted eigenvalues crowd at ``1 - O(eps^2)``. Their vectors are
smooth, however: nearly constant over the small cells of the KD order. Let P0 have one orthonormal column for each cell,
the top eigenvector ``v`` restricted to it. Then ``Sc = P0' S P0`` is an operator of the same kind, with eigenvalue 1, a
fraction of the size, and ``1 - mu`` larger by nearly the same factor for every smooth vector. Its eigenvectors
start a block iteration (LOBPCG, that is Davidson with a short memory) on S, and its shifted inverse preconditions it::

    T = R + (1 + lambda) S P0 z,    (1 - kappa lambda - Sc) z = kappa P0' R,    lambda = 1 - mu

The first term after the coarse correction is one Richardson step, which removes the steps at the edges of cells. The
coarse eigenproblem is solved the same way, one level down. Points that are almost cut off from the others have vectors
of their own, and are cells of their own on all levels. T and its image are float32: only the part of the new
vectors that they contribute carries their rounding, and residuals are computed again in float64 before the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...backend import Backend, Report, get_backend
from ...backend.array import Array, few_on_host, namespace, row_squares
from ...findings import NotConvergedError
from ..graph import cells_of
from .accuracy import is_separate, residuals_for
from .lanczos import expected_steps
from .ritz import Block

LEAF = 3  # cells of the first level hold at most 2**LEAF rows
RATIO = 3  # cuts between one level and the next: cells merge by eights
SMALLEST = 500  # cells of the last level: its eigenvalues are far enough apart for Lanczos
SHORTER = 0.6  # of the cells of a level, at most, make the next one worth it
GUARDS = 11  # pairs carried beyond those wanted
FEWER_GUARDS = 5  # the same on coarse levels
FEWEST_GUARDS = 4  # the block ends at the widest gap behind these
COARSE_TOL = 0.1  # residual of a coarse eigenproblem in units of its last 1 - mu: the start is no better than P0 anyway
REFRESH = 1e-6  # residual at which rounding in float32 begins to matter
AIM = 0.25  # of the tolerance: an eigenvector is off by residual / gap, and the last step costs a few columns only
MAX_ITERATIONS = 60
EXTRA = 6  # iterations beyond the tolerance that may go into telling close eigenvalues apart
ENOUGH = 20  # iterations after which guards of a coarse level are taken as they are
SLOW, MAX_STEPS = 0.4, 2  # a residual that falls by less than this factor asks for one more smoothing step
CG_TOL, CG_STEPS = 0.1, 100
FIRST_STEPS = 12  # of conjugate gradients before anything is known of a level on a device
MERGED_UP_TO = 4_000_000  # rows: beyond, S P0 is not kept, a third of the entries of S, since memory counts more

LOOKS = 1, 3, 7  # steps after which points that hold what starts there are looked for:
LONELY, UNUSUAL = 0.15, 3.0  # a chance of return at the first look, also in units of the median,
TRAP, LASTING = 0.06, 0.65  # or at the last, and how much of that at the second look it is at least
HELD = 0.35  # chance of return at the first look from which a point is a cell on coarser levels too


class Level:
    """S or one of its coarse forms, as CSR in float32, with the way down to the next; ``top`` is its known vector.

    With ``root``, a vector and its inverse in float32, ``diag(root) A diag(1 / root)`` is the operator, A the matrix.
    """

    def __init__(self, backend: Backend, matrix: tuple[Any, Any, Any], top: Any, root: Any = None) -> None:
        self.backend, self.matrix, self.top, self.root = backend, matrix, top, root
        self.n, self.products, self.columns = len(top), 0, 0
        self.coarse: Any = None  # the next Level, once coarsened
        self.wide: Any = None  # the matrix in float64, once needed
        self.steps = FIRST_STEPS  # of conjugate gradients
        self.late: tuple[Array, ...] = ()  # lengths after each of the last ones, and their goal

    def on_host(self) -> Level:
        host = self.backend.to_host
        return Level(get_backend("cpu"), tuple(map(host, self.matrix)), host(self.top))

    def learn(self, lengths: np.ndarray, goal: np.ndarray) -> None:
        """Take as many steps as the last ones would have taken, whose ``lengths`` (steps, k) were to reach the goal."""
        late = (lengths > goal).any(axis=1).sum()
        self.steps = min(CG_STEPS, int(late) + (2 if late < self.steps else self.steps // 2))

    def coarsen(self, starts: np.ndarray) -> Level:
        """Attach the level whose unknowns are the cells that begin at ``starts``."""
        kernels, put, top = self.backend.kernels, self.backend.asarray, few_on_host(self.top)
        xp = namespace(top)
        ends = xp.asarray(starts)
        norms = xp.sqrt(xp.add.reduceat(top * top, ends[:-1]))
        cells = (xp.searchsorted(ends, xp.arange(self.n), side="right") - 1).astype(xp.int32)
        weights = (top / norms[cells]).astype(xp.float32)
        self.starts, self.cells, self.weights, norms = put(ends), put(cells), put(weights), put(norms)
        if self.root is None:
            merged = kernels.merge_columns(*self.matrix, self.starts, self.weights)
        else:
            merged = kernels.merge_columns(*self.matrix, self.starts, self.weights * self.root[1])
            kernels.scaled_entries(*merged, self.root[0], xp.ones(len(norms), dtype=xp.float32))
        smaller = kernels.merge_rows(*merged, self.starts, self.weights, len(norms))
        self.merged: Any = merged if self.n <= MERGED_UP_TO else None
        self.coarse = Level(self.backend, smaller, norms)
        return self.coarse

    def product(self, V: Array, R: Array = None, chosen: Any = None) -> Array:
        """``S V``, or with ``chosen = columns, factors`` ``R[:, columns] * factors + S V``, in float32."""
        self.products += 1
        self.columns += V.shape[1]
        one = None if R is None else R.dtype.type(1)
        return self.backend.kernels.block_product(*self.matrix, V, R, one, chosen=chosen, root=self.root)

    def smoothed(self, Z: Array, R: Array = None, chosen: Any = None, scale: Any = None) -> Array:
        """``S P0 Z``, or the same sum with ``scale * S P0 Z``: entries of a cell were added up, so this is cheap."""
        self.products += 1
        self.columns += Z.shape[1]
        if self.merged is not None:
            return self.backend.kernels.block_product(*self.merged, Z, R, scale, chosen=chosen)
        V = Z[self.cells]
        V *= self.weights[:, None]
        return self.backend.kernels.block_product(*self.matrix, V, R, scale, chosen=chosen, root=self.root)

    def restricted(self, R: Array, columns: Array, factors: Array) -> Array:
        return self.backend.kernels.restrict(self.starts, self.weights, R)[:, columns] * factors

    def start(self, wanted: int, guards: int, sure: int) -> CoarsePairs:
        """Return pairs of the coarse level; their number ends at a wide gap, so that no group of equal values is cut.

        After some iterations the first ``sure`` are enough: groups that are almost cut off come to light late.
        """
        values, vectors, _ = solve(self.coarse, wanted + guards, REFRESH, COARSE_TOL, sure=sure)
        k = kept_pairs(values, wanted, guards)
        kept = self.backend.xp.ascontiguousarray(vectors[:, :k]).astype("float32")
        return CoarsePairs(values[:k], kept, float(values[k]))

    def coarse_solution(self, F: Array, shift: np.ndarray, Q: Array) -> Array:
        """``(shift - S) z = f`` on the coarse level; see :func:`coarse_inverse`."""
        return coarse_inverse(self.coarse, F, shift, Q)

    def __call__(self, V: Array) -> Any:
        """``S V`` in float64, for the Krylov methods of the last level."""
        if self.wide is None:
            indptr, indices, data = self.matrix
            self.wide = indptr, indices, data.astype(V.dtype)
        self.columns += 1 if V.ndim == 1 else V.shape[1]
        return self.backend.kernels.spmm(*self.wide, V)


def build_levels(operator: Any, count: int, ordered: bool | np.ndarray = True) -> list[Level]:
    """Return S and its coarse forms, finest first; the last has at least ``SMALLEST`` and ``4 count`` cells."""
    backend, P = operator.backend, operator.transition.matrix
    indptr = P.indptr.astype(backend.xp.int64)  # as on all levels, so that each kernel is compiled once
    if P.data.dtype == "float32" and not backend.is_remote:  # products that scale P take a seventh longer, and no copy
        root = tuple(vector.astype("float32") for vector in (operator.root, 1 / operator.root))
        levels = [Level(backend, (indptr, P.indices, P.data), operator.top, root)]
    else:
        entries = backend.kernels.symmetric_entries(indptr, P.indices, P.data, operator.root)
        levels = [Level(backend, (indptr, P.indices, entries), operator.top)]
    lonely, held = lonely_points(levels[0])
    fine = np.unique(np.concatenate([cells_of(operator.n, ordered, LEAF), lonely, lonely + 1]))
    levels.append(levels[0].coarsen(fine))
    return levels + coarsened(levels[1], fine, held, count, lambda cuts: cells_of(operator.n, ordered, cuts))


def coarsened(
    level: Level, fine: np.ndarray, held: np.ndarray, count: int, cells: Callable[[int], np.ndarray]
) -> list[Level]:
    """Return the levels below one whose cells begin at ``fine``; ``held`` are rows that stay cells of their own."""
    levels, cuts = list[Level](), LEAF
    while True:
        cuts += RATIO
        wide = cells(cuts)
        starts = np.unique(np.concatenate([wide, held, held + 1]))
        if not max(SMALLEST, 4 * count) < len(wide) < len(fine) or len(starts) > SHORTER * len(fine):
            break  # what is left are few cells, or lonely points
        level = level.coarsen(np.searchsorted(fine, starts))
        levels.append(level)
        fine = starts
    return levels


def lonely_points(level: Level) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that hold what starts there, and those of them that hold most of it, or for long.

    No cell fits these outliers and tiny groups that are almost cut off. After some steps from random signs the variance
    at a point is the chance of being back there after twice as many: small and falling on a manifold, about 1 / c and
    lasting in a group of c points. Coarser levels leave out all but the strongest, or they would not become small.
    """
    backend, xp = level.backend, level.backend.xp
    bits = backend.asarray(np.random.default_rng(level.n).integers(0, 1 << 32, size=level.n, dtype=np.uint32))
    chances = [xp.zeros(level.n, dtype=xp.float32)]
    for half in (16, 0):  # so that fewer signs and products exist at a time
        masks = backend.asarray(np.uint32(1) << np.arange(half, half + 16, dtype=np.uint32))
        signs = xp.where((bits[:, None] & masks) > 0, np.float32(1), np.float32(-1))
        Y = level.product(signs)
        chances[0] += row_squares(Y)
    Y, signs = xp.ascontiguousarray(Y[:, :8]), None  # enough to tell what lasts
    for step in range(2, LOOKS[-1] + 1):
        Y = level.product(Y)
        if step in LOOKS:
            chances.append((Y * Y).sum(axis=1))
    # of CuPy's median NVRTC would compile two seconds
    first, second, last = backend.to_host(xp.stack(chances)) / np.array([[32], [8], [8]], dtype=np.float32)
    lonely, held = held_rows(first, second, last, np.median(first))
    return np.flatnonzero(lonely), np.flatnonzero(held)


def held_rows(first: np.ndarray, second: np.ndarray, last: np.ndarray, median: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows hold what starts there, by the chances of return at three looks, and which do so strongly."""
    trap = (last > TRAP) & (last > LASTING * second)
    alone = (first > np.maximum(LONELY, UNUSUAL * median)) | trap
    return alone, alone & ((first > HELD) | trap)


class CoarsePairs(NamedTuple):
    """Eigenvalues (k,) and vectors (n, k) of the coarse operator, these in float32, and the value behind them."""

    values: np.ndarray
    vectors: Array
    following: float


def solve(
    level: Level,
    wanted: int,
    tol: float,
    relative: float,
    product: Callable[[Any], Any] | None = None,
    history: list[float] | None = None,
    progress: Report | None = None,
    sure: int | None = None,
) -> tuple[np.ndarray, Array, Array]:
    """Return ``wanted`` leading pairs of a level, to a residual of ``tol`` or ``relative`` times the last ``1 - mu``.

    ``product`` is S in float64, where ``tol`` is below what float32 can reach; so many as ``sure`` must be good in any
    case. Returned are Ritz values, an array with their vectors first, and ``CoarsePairs`` (None on the last level).
    """
    if level.coarse is None:
        from .factorised import last_level_pairs

        values, vectors = last_level_pairs(level, wanted)
        return level.backend.to_host(values), vectors, None
    sure = wanted if sure is None else sure
    coarse = level.start(wanted, GUARDS if product else FEWER_GUARDS, sure)
    if progress is not None:  # a first run has compiled for seconds
        progress(0, 0)
    Q = coarse.vectors
    T = level.smoothed(Q)
    block = Block(level, T, level.product(T), len(coarse.values))
    del T
    if block.k < wanted:
        raise NotConvergedError(f"only {block.k} independent vectors came from the coarse level")
    fresh, steps, before, extra = product is None, 1, np.inf, EXTRA
    for number in range(MAX_ITERATIONS):
        limit = max(tol, relative * (1 - block.values[wanted - 1]))
        worst = block.norms[:wanted].max()
        if history is not None:
            history.append(float(worst))
        if progress is not None and history is not None:
            needed = expected_steps(list(enumerate(history, 1)), limit)
            progress(len(history), max(len(history) + 1, round(needed)) if needed < 2 * MAX_ITERATIONS else 0)
        if not np.isfinite(worst):
            raise NotConvergedError("a residual is not finite")
        if product is not None and not fresh and worst <= max(REFRESH, limit):
            block.refresh(product)
            fresh = True
            continue
        done = worst <= limit or (number >= ENOUGH and block.norms[:sure].max() <= limit)
        if done and (product is None or not extra or is_separate(block.values, block.norms[:wanted])):
            return block.values, block.X, coarse
        extra -= done
        if worst > SLOW * before and steps < MAX_STEPS:
            steps += 1
        before = worst
        limits = np.minimum(limit, residuals_for(block.values, wanted)) if done else limit
        active = active_columns(block, wanted, limits)
        T = correction(level, coarse, Q, block, active, steps)
        block.extend(T, level.product(T), active, level.coarse)
    if worst <= limit:
        return block.values, block.X, coarse
    raise NotConvergedError(f"the residual was {worst:.1e} after {MAX_ITERATIONS} iterations")


def kept_pairs(values: np.ndarray, wanted: int, guards: int) -> int:
    """Return how many of the coarse pairs to keep: up to the widest gap."""
    fewest, many = wanted + FEWEST_GUARDS, wanted + guards
    return fewest + int(np.argmax(values[fewest - 1 : many - 1] - values[fewest:many]))


def active_columns(block: Block, wanted: int, limit: Any) -> np.ndarray:
    """Return columns that still need work: unconverged ones, and of the guards those that would hold them back."""
    values, end = block.values, wanted
    while end < len(values) and values[end - 1] - values[end] < 0.05 * (1 - values[wanted - 1]):
        end += 1  # nearly equal to the last wanted one
    norms = block.norms[:end]
    limits = np.full(end, max(np.min(limit), 0.03 * norms[:wanted].max()))
    limits[:wanted] = limit
    return np.flatnonzero(norms > limits)


def correction(level: Level, coarse: CoarsePairs, Q: Array, block: Block, active: np.ndarray, steps: int) -> Array:
    """Return new directions: residuals, corrected on the coarse level and smoothed ``steps`` times."""
    xp, kernels = level.backend.xp, level.backend.kernels
    k = block.k
    end = int(active.max()) + 1
    distance = 1 - block.values[active]
    stiffening = (1 - coarse.values[1:k]).sum() / max((1 - block.values[1:k]).sum(), 1e-30)
    middle = 0.5 * ((1 - coarse.values[end - 1]) + (1 - coarse.following))
    shift = np.minimum(stiffening * distance, middle)
    idle = -len(active) % 8  # columns of zeros: kernels take them in eights
    factors, distance, shift = (np.pad(part, (0, idle)) for part in (1 / block.norms[active], distance, shift))
    chosen = xp.asarray(np.pad(active, (0, idle))), xp.asarray(factors.astype(np.float32))
    Z = level.coarse_solution(level.restricted(block.R, *chosen), 1 - shift, Q)
    T = level.smoothed(Z, block.R, chosen, xp.asarray((stiffening * (1 + distance)).astype(np.float32)))
    for _ in range(steps - 1):
        smooth = level.product(T, block.R, chosen)
        kernels.turn(smooth, T, xp.asarray(distance), xp.ones(len(distance)))  # T = smooth + distance T
    return T


def coarse_inverse(level: Level, F: Array, shift: np.ndarray, Q: Array) -> Array:
    """Solve ``(shift - S) z = f`` column by column beside Q, loosely, by conjugate gradients in float32."""
    xp, kernels = level.backend.xp, level.backend.kernels
    columns = F.shape[1]
    shift = xp.asarray(shift.astype(np.float32))
    R = F - Q @ (Q.T @ F)
    Z, P, image = xp.zeros_like(R), R.copy(), xp.empty_like(R)
    square = kernels.column_products(R, R) + 1e-30
    goal = CG_TOL**2 * square + 1e-29
    lengths: list[Array] = []
    for step in range(1, CG_STEPS + 1):
        level.products += 1
        level.columns += columns
        curvature = kernels.shifted_product(*level.matrix, shift, P, image)
        if step % 10 == 0:  # rounding lets the removed vectors grow back
            image -= Q @ (Q.T @ image)
        left = kernels.descend(Z, R, P, image, square, curvature)
        lengths.append(left)
        if step >= level.steps if level.backend.is_remote else (left <= goal).all():
            break
        kernels.turn(R, P, left, square)
        square = left
    if level.backend.is_remote:  # looked at with the next transfer: to wait for each step would take longer than it
        level.late = xp.stack(lengths), goal
    return Z - Q @ (Q.T @ Z)


def multilevel_eigenpairs(
    operator: Any, count: int, tol: float, info: dict[str, Any], ordered: bool | np.ndarray, progress: Report | None
) -> tuple[Array, Array]:
    """Return the leading pairs of S, whose rows stand in order: values with those of guards, vectors (n, count)."""
    levels = build_levels(operator, count + GUARDS, ordered)
    if progress is not None:
        progress(0, 0)
    history: list[float] = []
    try:
        # never looser than REFRESH, whatever the tolerance: a group of points that is almost cut off may enter the
        # block late, and until then the residuals of the others fall without it
        aim = min(AIM * tol, REFRESH)
        values, X, coarse = solve(levels[0], count, aim, 0.0, operator, history, progress)
    finally:
        operator.products += levels[0].columns
        info["block_products"], info["iterations"] = levels[0].products, len(history)
        info["coarse_sizes"] = [level.n for level in levels[1:]]
        info["coarse_products"] = [level.columns for level in levels[1:]]
    check_interlacing(values, coarse.values, count)
    xp = operator.backend.xp
    return xp.asarray(values), beside_top(X[:, :count], operator.top, operator.backend)


def beside_top(X: Array, top: Array, backend: Any) -> Array:
    """Return eigenvectors (n, k) turned so that the known one comes first, exactly, and the others have nothing of it.

    A residual of 1e-9 leaves ``1e-9 / (1 - mu)`` of it in a vector: a lot where parts of the graph hang by a thread.
    """
    X = X @ backend.asarray(reflection(backend.to_host(top @ X)))
    X[:, 0] = top
    return X


def reflection(along: np.ndarray) -> np.ndarray:
    """Return the reflection (k, k) of columns that leaves all of a vector, ``along`` (k,) in each, in the first."""
    turn = along.copy()
    turn[0] += np.copysign(np.linalg.norm(turn), turn[0])
    return np.eye(len(turn)) - np.outer(turn, turn) * (2 / (turn @ turn))


def check_interlacing(values: np.ndarray, coarse: np.ndarray, count: int) -> None:
    """Raise if a coarse value exceeds that of S: P0 has orthonormal columns, so one of S was missed."""
    # slack for the float32 entries of the coarse matrix, whose rounding need not average out on a regular grid
    ahead = coarse[:count] - values[:count] - 0.02 * (1 - values[:count]) - 5e-7
    if (ahead > 0).any():
        j = int(np.argmax(ahead))
        raise NotConvergedError(f"eigenvalue {j} is {values[j]:.9f}, below that of the coarse level, {coarse[j]:.9f}")
