"""Lanczos with thick restarts for the largest eigenpairs of a symmetric operator, and the search for missed copies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend import Report, backend_of
from ...backend.array import Array
from ...findings import NotConvergedError
from .accuracy import ROUNDING, SPREAD, closeness, is_separate

GUARDS = 8  # pairs asked for beyond those wanted: the more, the sooner it is clear that no copy was missed
LOOK = 6  # products between two looks at what has converged, or a seventh of a large basis: then its values take long,
SOONEST = 20  # but none before so many: until then a copy that was missed need not show in a random vector
SURE = 10.0  # times its residual must lie between a value and the last wanted one, or a missed one may lie there too
MOST_PASSES = 3  # of orthogonalisation
CLEAN, DRIFT = 3e-16, 1e-13  # inner products of basis vectors after a pass, and that ask for one
TURNED = 4096  # rows that are turned at a time: they stay in the cache
HIDDEN = 0.1  # part of a vector that was missed that a guard may hide
DISTINCT = 0.7  # of a guard is left beside what was found later, at least
LONGER = 1.5  # times as many products as the tolerance took may go into telling close eigenvalues apart


def is_small(n: int, count: int) -> bool:
    """Whether the whole operator as a dense matrix is the simplest."""
    return n <= max(400, 3 * (count + GUARDS))


def krylov(
    operator: Any, count: int, start: Array, tol: float, progress: Report | None = None, max_products: int = 20_000
) -> tuple[Array, Array]:
    """Return values of the largest eigenpairs, guards behind them, and vectors (n, count), by Lanczos or densely."""
    xp = operator.backend.xp
    wanted = min(count + GUARDS, operator.n)
    if is_small(operator.n, count):
        values, vectors = xp.linalg.eigh(operator(xp.eye(operator.n)))
        return values[::-1][:wanted].copy(), xp.ascontiguousarray(vectors[:, ::-1][:, :count])
    pace: list[tuple[int, float]] = []
    ample, latest, settled = np.inf, np.zeros((2, 0)), False

    def enough(values: np.ndarray, residuals: np.ndarray, products: int) -> bool:
        nonlocal ample, latest, settled
        latest, worst = np.stack([values, residuals])[:, :wanted], float(residuals[:count].max())
        pace.append((products, worst))
        if worst <= 0.5 * tol:
            ample = min(ample, LONGER * products)
        settled = worst <= 0.5 * tol and (products >= ample or is_separate(values[:wanted], residuals[:count]))
        if progress is not None:
            needed = expected_steps(pace, 0.5 * tol)
            progress(products, max(products + 1, int(needed)) if needed < max_products else 0)
        return settled

    values, vectors = lanczos(operator, wanted, start, enough, max_products=max_products)
    if settled:  # what has stalled is not worth the search
        # a rough guard can hide a vector that was missed: the most of it is its residual over its distance from that,
        # which lies above the last wanted one; and by as much of the residual it would lower that vector's value
        edge = latest[0, count - 1]
        hidden = latest[1] / np.maximum(edge - latest[0], 1e-300)
        near = min(tol, max(SPREAD * (1 - edge), ROUNDING))
        chosen = np.flatnonzero((np.arange(wanted) < count) | ((hidden < HIDDEN) & (hidden * latest[1] < near)))
        ends, vectors = values[count:], vectors[:, xp.asarray(chosen)]
        values, vectors = add_missed(operator, values[chosen], vectors, count, tol)
        if len(values) == count:  # what they say of the values behind the wanted ones is still the best guess
            values = np.concatenate([values, ends[ends <= values[-1]]])
    return xp.asarray(values[:wanted].copy()), xp.ascontiguousarray(vectors[:, :count])


def expected_steps(pace: list[tuple[int, float]], tol: float) -> float:
    """Return how many steps it takes in all, if the residual goes on falling as over the last half of them."""
    done, now = pace[-1]
    before, then = next((at, residual) for at, residual in pace if at >= done / 2)
    if done == before or not 0 < now < then:
        return np.inf
    return done + (done - before) * np.log(max(now / tol, 1.0)) / np.log(then / now)


def lanczos(
    operator: Callable[[Any], Any],
    count: int,
    start: Array,
    enough: Callable[[np.ndarray, np.ndarray, int], bool],
    *,
    locked: Any = None,
    max_products: int = 20_000,
    size: int | None = None,
) -> tuple[np.ndarray, Array]:
    """Return the ``count`` largest eigenpairs by thick-restart Lanczos, its basis orthogonal to ``DRIFT``.

    It ends when ``enough`` says so of the values, residuals and number of products. Everything is kept orthogonal to
    the rows of ``locked``.
    """
    backend, n, fixed = backend_of(start), len(start), 0 if locked is None else len(locked)
    xp = backend.xp
    size = min(n - fixed, size or max(2 * count + 1, count + 20))
    rows = xp.empty((fixed + size + 1, n), dtype=xp.float64)
    basis = rows[fixed:]
    if locked is not None:
        rows[:fixed] = locked
    projected, notes = np.zeros((size, size)), xp.zeros((size + 1, 1 + MOST_PASSES * (fixed + size)))

    def orthonormal(vector: Array, low: int, high: int, passes: int, note: int = size) -> None:
        """Make ``rows[high]`` the unit vector left of one beside ``rows[low:high]``; nobody waits for the note of it.

        Two passes are enough (Kahan and Parlett), except for what is only rounding.
        """
        backend.kernels.orthonormal(vector, rows[low:high], notes[note, : 1 + passes * (high - low)], rows[high])

    orthonormal(start.astype(xp.float64), 0, fixed, 2)
    # a device would wait for the numbers that tell where one pass by two vectors is enough, which takes symmetry
    drift = Drift(size) if not backend.is_remote and getattr(operator, "is_exact", True) else None
    kept, products, look = 0, 0, max(LOOK, size // 7)
    while True:
        j, doubt, done = kept, False, False
        ahead = 1 if drift else size  # products before their coefficients are read, which waits
        while j < size and not done:
            first, last = j, min(j + ahead, size)
            by_two = bool(drift) and j > kept and j > 1 and not doubt
            low, passes = fixed + j - 1 if by_two else 0, 1 if by_two else MOST_PASSES if doubt else 2
            for column in range(first, last):
                orthonormal(operator(basis[column]), low, fixed + column + 1, passes, column)
                products += 1
            j, coupling, doubt = _read(backend.to_host(notes[first:last]), projected, first, low - fixed, passes)
            if doubt or coupling == 0.0:
                ahead = 1
            if drift and not doubt and (drift.grown(projected, j, coupling, by_two) or (by_two and fixed)):
                orthonormal(basis[j], 0, fixed + j, 1)
            if coupling == 0.0 and j < size and not doubt:  # an invariant subspace: go on outside of it
                fresh = xp.asarray(np.random.default_rng(j).normal(size=n))
                orthonormal(fresh, 0, fixed + j, MOST_PASSES)
            elif j == size or (j > max(count, SOONEST) and (j - kept) % look == 0 and not doubt and ahead == 1):
                values, rotation = (found[..., ::-1] for found in np.linalg.eigh(projected[:j, :j]))
                done = enough(values, coupling * np.abs(rotation[-1]), products)
        if done or products >= max_products or coupling == 0.0:
            rotate = xp.asarray(np.ascontiguousarray(rotation[:, :count].T))
            return values[:count].copy(), (rotate @ basis[:j]).T
        kept = min(count + (size - count) // 5, size - 1)
        rotate = xp.asarray(np.ascontiguousarray(rotation[:, :kept].T))
        step = n if backend.is_remote else TURNED
        for begin in range(0, n, step):
            part = slice(begin, begin + step)
            basis[:kept, part] = rotate @ basis[:size, part]
        basis[kept] = basis[size]
        projected[:] = 0.0
        projected[np.arange(kept), np.arange(kept)] = values[:kept]


class Drift:
    """How far basis vectors have come from orthogonal since the last pass by all, by the recurrence of Simon.

    Two vectors in a row must be made orthogonal again, or the next has of the others what the last one had.
    """

    def __init__(self, size: int) -> None:
        self.now, self.before, self.again = np.zeros(size + 1), np.zeros(size + 1), False

    def grown(self, T: np.ndarray, j: int, coupling: float, by_two: bool) -> bool:
        """Whether vector j needs a pass by all others; the projected operator T is known before column j."""
        old, new, k = self.now, self.before, j - 1
        if by_two:
            new[:k] = T[:k, :j] @ old[:j] - T[k, k] * old[:k] - T[k, k - 1] * new[:k]
            new[:k] = (new[:k] + np.copysign(CLEAN, new[:k])) / coupling
            new[k] = CLEAN / coupling
        passed = not by_two or self.again or j == len(new) - 1 or bool(abs(new[:j]).max() > DRIFT)
        if passed:
            new[:j] = CLEAN
        new[j], self.again = 1.0, passed and not self.again
        self.before, self.now = old, new
        return passed and by_two


def _read(notes: np.ndarray, projected: np.ndarray, first: int, low: int, passes: int) -> tuple[int, float, bool]:
    """Fill columns of the projected operator from the notes of their products, and return how many are sound.

    Also the length of what couples the last of them to what follows (0 in an invariant subspace), and whether what was
    left behind them is mostly rounding: then its product is repeated, with more passes. A pass looked at rows from
    ``low`` on; those below 0 are not of the basis.
    """
    for j, row in enumerate(notes, first):
        parts = row[1 : 1 + passes * (j + 1 - low)].reshape(passes, -1)
        onto, square = parts[:, max(0, -low) :].sum(axis=0), row[0]
        if not np.isfinite(square):
            raise ArithmeticError("a product with the transition matrix is not finite")
        before = square + parts[-1] @ parts[-1]  # by Pythagoras, what there was before the last pass,
        ends = square <= 1e-28 * (before + onto @ onto)  # and at first
        if (passes == 1 and square <= 1e-8 * before) or (square <= 0.49 * before and not ends and passes == 2):
            return j, 0.0, True
        projected[max(0, low) : j + 1, j] = projected[j, max(0, low) : j + 1] = onto
        if ends:
            return j + 1, 0.0, False
    return first + len(notes), float(np.sqrt(notes[-1][0])), False


def add_missed(
    operator: Any, values: np.ndarray, vectors: Array, count: int, tol: float, size: int = 4 * GUARDS
) -> tuple[np.ndarray, Array]:
    """Look for eigenvalues that the pairs found so far leave out, and add them.

    One Krylov sequence cannot see a second copy of a multiple eigenvalue except through rounding: beside what was found
    there must be none above the last wanted one. Each round adds true pairs, so ``count`` rounds find all.
    """
    xp, host = operator.backend.xp, operator.backend.to_host
    generator = np.random.default_rng(operator.n)
    for _ in range(count + 1):
        edge = float(values[count - 1])
        near = min(tol, max(SPREAD * (1 - edge), ROUNDING))

        def clear(found: np.ndarray, residuals: np.ndarray, _: int, edge: float = edge) -> bool:
            below = found + SURE * residuals < edge
            return bool(below.any() and (residuals[: below.argmax()] <= 0.5 * tol).all())

        fresh = xp.asarray(generator.normal(size=operator.n))
        more, new = lanczos(operator, size // 4, fresh, clear, locked=vectors.T, max_products=2000, size=size)
        missed = int((more > edge + near).sum())
        if missed == 0:  # a copy of the last wanted one stands for all of its kind
            return with_rival(values, more[:1], count) if -tol < more[0] - edge < -near else values, vectors
        # guards are only roughly eigenvectors: what was found beside them is one only roughly, so once more without
        begin, first = new[:, :missed].sum(axis=1), slice(missed)

        def good(_: np.ndarray, residuals: np.ndarray, __: int, first: slice = first) -> bool:
            return bool((residuals[first] <= 0.5 * tol).all())

        more, new = lanczos(operator, missed, begin, good, locked=vectors.T[:count], max_products=2000)
        values, vectors = np.concatenate([values, more]), xp.concatenate([vectors, new], axis=1)
        order = np.argsort(-values)[: count + GUARDS]
        values, (vectors, along) = values[order], xp.linalg.qr(vectors[:, xp.asarray(order)])
        kept = np.flatnonzero((np.arange(len(order)) < count) | (abs(host(xp.diag(along))) > DISTINCT))
        values, vectors = values[kept], vectors[:, xp.asarray(kept)]
    if more[0] - edge <= tol:
        return with_rival(values, more[:1], count), vectors
    raise NotConvergedError(f"after {count + 1} searches for missed eigenvalues there were still more")


def with_rival(values: np.ndarray, rival: np.ndarray, count: int) -> np.ndarray:
    """Return values with one more right behind the first ``count``, so that the last of those is in doubt."""
    edge = values[count - 1 : count]
    behind = np.sort(np.concatenate([values[count:], np.minimum(rival, edge - 2 * closeness(edge))]))[::-1]
    return np.concatenate([values[:count], behind])
