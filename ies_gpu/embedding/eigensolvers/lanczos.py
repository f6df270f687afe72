"""Lanczos with thick restarts for the largest eigenpairs of a symmetric operator, and the search for missed copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend import Report, backend_of
from ...backend.array import Array
from ...findings import NotConvergedError
from .accuracy import ROUNDING, SPREAD, closeness, is_separate

GUARDS = 4  # pairs asked for beyond those wanted: a missed copy would most likely be among the last
LOOK = 6  # products between two looks at what has converged, or an eighth of a large basis: then its values take long,
SOONEST = 20  # but none before so many: until then a copy that was missed need not show in a random vector
SURE = 10.0  # times its residual must lie between a value and the last wanted one, or a missed one may lie there too
MOST_PASSES = 3  # of orthogonalisation
HIDDEN = 0.1  # part of a vector that was missed that a guard may hide
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
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        settled: list[bool] = []
        pace: list[tuple[int, float]] = []
        done, ample, latest = 0, np.inf, (np.zeros(0), np.zeros(0))

        def product(vector: Any) -> Any:
            nonlocal done
            done += 1
            return operator(vector)

        def enough(values: np.ndarray, residuals: np.ndarray) -> bool:
            nonlocal ample, latest
            latest = values[:wanted], residuals[:wanted]
            small = bool((residuals[:count] <= 0.5 * tol).all())
            if small:
                ample = min(ample, LONGER * done)
            settled.append(small and (done >= ample or is_separate(values[:wanted], residuals[:count])))
            pace.append((done, float(residuals[:count].max())))
            return settled[-1]

        def tell(products: int, _: int) -> None:
            if progress is not None:
                needed = expected_products(pace, 0.5 * tol) if pace else np.inf
                progress(products, max(products + 1, int(needed)) if needed < max_products else 0)

        values, vectors = lanczos(
            product, wanted, start, 0.0, sure=count, enough=enough, progress=tell, max_products=max_products
        )
        if not settled or settled[-1]:  # what has stalled is not worth the search; residuals of 0 were not looked at
            sound = sound_guards(*latest, count) if settled else np.arange(wanted)
            ends, chosen = values[count:], xp.asarray(sound)
            values, vectors = add_missed(operator, values[chosen], vectors[:, chosen], count, start, tol)
            if len(values) == count:  # what they say of the values behind the wanted ones is still the best guess
                values = xp.concatenate([values, ends[ends <= values[-1]]])
    return values[:wanted].copy(), xp.ascontiguousarray(vectors[:, :count])


def sound_guards(values: np.ndarray, residuals: np.ndarray, count: int) -> np.ndarray:
    """Return the columns of the wanted pairs and of those guards that cannot hide a vector which was missed.

    A rough guard can hold most of one: its residual over the distance of its value from 1 bounds how much.
    """
    hidden = residuals / np.maximum(values[0] - values, 1e-300)
    return np.flatnonzero((np.arange(len(values)) < count) | (hidden < HIDDEN))


def expected_products(pace: list[tuple[int, float]], tol: float) -> float:
    """Return how many products it takes in all, if the residual goes on falling as over the last half of them."""
    done, now = pace[-1]
    before, then = next((at, residual) for at, residual in pace if at >= done / 2)
    if done == before or now >= then:
        return np.inf
    return done + (done - before) * np.log(max(now / tol, 1.0)) / np.log(then / now)


def lanczos(
    operator: Callable[[Any], Any],
    count: int,
    start: Array,
    tol: float,
    *,
    sure: int,
    locked: Any = None,
    enough: Callable[[np.ndarray, np.ndarray], bool] | None = None,
    max_products: int = 20_000,
    size: int | None = None,
    progress: Report | None = None,
) -> tuple[Array, Array]:
    """Return the ``count`` largest eigenpairs by thick-restart Lanczos with full reorthogonalisation.

    It ends when the first ``sure`` pairs have a residual below ``tol``, or when ``enough`` says so of the values and
    residuals. Everything is kept orthogonal to the rows of ``locked``.
    """
    backend, n = backend_of(start), len(start)
    xp = backend.xp
    fixed = xp.empty((0, n), dtype=xp.float64) if locked is None else locked
    size = min(n - len(fixed), size or max(2 * count + 1, count + 20))
    basis = xp.empty((size + 1, n), dtype=xp.float64)
    projected, notes = np.zeros((size, size)), xp.zeros((size, 1 + MOST_PASSES * (size + len(fixed))))
    basis[0] = _orthonormal(start.astype(xp.float64), [fixed])[0]
    kept, products, look = 0, 0, max(LOOK, size // 8)
    while True:
        j, passes, done = kept, 2, False
        ahead = size if backend.is_remote else 1  # products before their coefficients are read, which waits
        while j < size and not done:
            first, last = j, min(j + ahead, size)
            for column in range(first, last):
                into = basis[column + 1], notes[column]
                _orthonormal(operator(basis[column]), [basis[: column + 1], fixed], passes, into)
                products += 1
                if progress is not None and products % 10 == 0:
                    progress(products, 0)  # how many are needed is not known here
            j, coupling, doubt = _read(backend.to_host(notes[first:last]), projected, first, passes, len(fixed))
            if doubt or coupling == 0.0:
                ahead = 1
            passes = MOST_PASSES if doubt else 2
            if coupling == 0.0 and j < size and not doubt:  # an invariant subspace: go on outside of it
                fresh = xp.asarray(np.random.default_rng(j).normal(size=n))
                basis[j] = _orthonormal(fresh, [basis[:j], fixed], MOST_PASSES)[0]
            elif j == size or (j > max(count, SOONEST) and (j - kept) % look == 0 and not doubt and ahead == 1):
                values, rotation = np.linalg.eigh(projected[:j, :j])
                values, rotation = values[::-1], rotation[:, ::-1]
                residuals = coupling * np.abs(rotation[-1])
                done = bool((residuals[:sure] <= 0.5 * tol).all()) or (enough is not None and enough(values, residuals))
        if done or products >= max_products or coupling == 0.0:
            rotate = xp.asarray(np.ascontiguousarray(rotation[:, :count].T))
            return xp.asarray(values[:count].copy()), (rotate @ basis[:j]).T
        kept = min(count + (size - count) // 2, size - 1)
        rotate = xp.asarray(np.ascontiguousarray(rotation[:, :kept].T))
        basis[:kept] = rotate @ basis[:size]
        basis[kept] = basis[size]
        projected[:] = 0.0
        projected[np.arange(kept), np.arange(kept)] = values[:kept]


def _orthonormal(
    vector: Array, others: list[Array], passes: int = 2, into: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """Return the unit vector left of ``vector`` beside the rows of ``others``, and a note of how that went.

    The note has the squared length of what was left, and then the coefficients of each pass; nobody waits for it here.
    Twice is enough (Kahan and Parlett), except for what is only rounding.
    """
    backend = backend_of(vector)
    xp, image, place = backend.xp, None, 1
    unit, note = into or (xp.empty(len(vector)), xp.zeros(1 + passes * sum(map(len, others))))
    for rows in passes * [rows for rows in others if len(rows)]:
        if image is not None:
            vector = vector - image
        image = xp.matmul(rows, vector, out=note[place : place + len(rows)]) @ rows
        place += len(rows)
    backend.kernels.unit_beside(vector, image, note[:1], unit)
    return unit, note


def _read(notes: np.ndarray, projected: np.ndarray, first: int, passes: int, n_fixed: int) -> tuple[int, float, bool]:
    """Fill columns of the projected operator from the notes of their products, and return how many are sound.

    Also the length of what couples the last of them to what follows (0 in an invariant subspace), and whether what was
    left behind them is mostly rounding: then its product is repeated, with one more pass.
    """
    for j, row in enumerate(notes, first):
        parts = row[1 : 1 + passes * (j + 1 + n_fixed)].reshape(passes, -1)
        onto, square = parts[:, : j + 1].sum(axis=0), row[0]
        if not np.isfinite(square):
            raise ArithmeticError("a product with the transition matrix is not finite")
        before = square + parts[-1] @ parts[-1]  # by Pythagoras, what there was before the last pass,
        ends = square <= 1e-28 * (before + onto @ onto)  # and at first
        if square <= 0.49 * before and not ends and passes == 2:
            return j, 0.0, True
        projected[: j + 1, j] = projected[j, : j + 1] = onto
        if ends:
            return j + 1, 0.0, False
    return first + len(notes), float(np.sqrt(notes[-1][0])), False


def add_missed(
    operator: Any, values: Array, vectors: Array, count: int, start: Array, tol: float, size: int | None = None
) -> tuple[Array, Array]:
    """Look for eigenvalues that the pairs found so far leave out, and add them.

    One Krylov sequence cannot see a second copy of a multiple eigenvalue except through rounding: beside what was found
    there must be none above the last wanted one. Each round adds a true pair, so ``count`` rounds find all.
    """
    xp = operator.backend.xp
    generator = np.random.default_rng(len(start))
    for _ in range(count + 1):
        edge = float(values[count - 1])
        fresh = xp.asarray(generator.normal(size=operator.n))

        def enough(found: np.ndarray, residuals: np.ndarray, edge: float = edge) -> bool:
            return bool(found[0] + SURE * residuals[0] < edge) or bool(residuals[0] <= 0.5 * tol)

        locked = xp.ascontiguousarray(vectors.T)
        more, _ = lanczos(operator, 1, fresh, tol, sure=1, locked=locked, enough=enough, size=size, max_products=2000)
        above, near = float(more[0]) - edge, min(tol, max(SPREAD * (1 - edge), ROUNDING))
        if above <= near:  # a copy of the last wanted one stands for all of its kind
            return (with_rival(values, more, count) if -tol < above < -near else values), vectors
        # guards are only roughly eigenvectors: what was found beside them is one only roughly, so once more without
        more, new = lanczos(operator, 1, fresh, tol, sure=1, locked=locked[:count], max_products=2000)
        values, vectors = xp.concatenate([values, more]), xp.concatenate([vectors, new], axis=1)
        order = xp.argsort(-values)
        values, vectors = beside_wanted(values[order], vectors[:, order], count)
    if above <= tol:
        return with_rival(values, more, count), vectors
    raise NotConvergedError(f"after {count + 1} searches for missed eigenvalues there were still more")


def with_rival(values: Array, rival: Array, count: int) -> Array:
    """Return values with one more right behind the first ``count``, so that the last of those is in doubt."""
    xp = backend_of(values).xp
    edge = values[count - 1 : count]
    behind = xp.sort(xp.concatenate([values[count:], xp.minimum(rival, edge - 2 * closeness(edge))]))[::-1]
    return xp.concatenate([values[:count], behind])


def beside_wanted(values: Array, vectors: Array, count: int) -> tuple[Array, Array]:
    """Return pairs with guards that are orthonormal again after one was added beside the ``count`` wanted only."""
    xp = backend_of(vectors).xp
    rows, kept = xp.ascontiguousarray(vectors[:, :count].T), list(range(count))
    for guard in range(count, min(len(values), count + GUARDS)):
        unit, note = _orthonormal(vectors[:, guard], [rows])
        if float(note[0]) > 0.5:  # of a squared length of 1
            rows, kept = xp.concatenate([rows, unit[None]]), [*kept, guard]
    return values[xp.asarray(kept)], rows.T
