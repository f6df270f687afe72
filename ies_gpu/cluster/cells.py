"""Cells of consecutive points by block, and the rows of the coarse matrix that follow from them: tasks of a worker.

Columns of a block are numbered as everywhere: first those of its own cells, then those of other blocks, by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..backend import Backend
from ..embedding.eigensolvers import multilevel, returns
from ..embedding.eigensolvers.coarsest import ends_here
from ..embedding.eigensolvers.multilevel import Level
from ..embedding.order import cells_of

Matrix = tuple[Any, Any, Any]  # CSR: indptr, indices, data


@dataclass(frozen=True)
class Cells:
    """The cells of a block on some level.

    Attributes
    ----------
    starts : ndarray
        Where they begin; the last entry is the end.
    held : ndarray
        The points that are cells of their own on all levels.
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
    """Return the cells of the first level, from return probabilities after 1, 3 and 7 steps."""
    alone = returns.is_lonely(first, second, last, median, np)
    lonely, held = np.flatnonzero(alone), np.flatnonzero(alone & returns.is_held(first, second, last))
    starts = np.unique(np.concatenate([cells_of(len(first), True, multilevel.LEAF), lonely, lonely + 1]))
    xp, begin, top = backend.xp, backend.asarray(starts), root[: len(first)] / length
    norms = xp.sqrt(xp.add.reduceat(top * top, begin[:-1]))
    weights = (top / xp.repeat(norms, begin[1:] - begin[:-1])).astype(xp.float32)
    return Cells(starts, held, backend.to_host(norms), weights)


def labels_and_weights(backend: Backend, cells: Cells, first: int) -> np.ndarray:
    """For each row the number of its cell and its weight there, on the host: these are exchanged once."""
    labels = np.repeat(first + np.arange(len(cells.starts) - 1), np.diff(cells.starts))
    return np.stack([labels.astype(np.float64), backend.to_host(cells.weights).astype(np.float64)], axis=1)


@dataclass(frozen=True)
class Merged:
    """What follows from the cells for the rows of a block.

    Attributes
    ----------
    product : CSR
        ``S P0``, on the device.
    wanted : ndarray
        The numbers of the cells that its columns stand for, own ones first.
    rows : CSR
        The block's rows of the coarse matrix, with the same columns, on the host.
    """

    product: Matrix
    wanted: np.ndarray
    rows: Matrix


def merged_rows(backend: Backend, entries: Matrix, cells: Cells, own: np.ndarray, *others: np.ndarray) -> Merged:
    """From a block's rows of S, and the cells of all rows that its columns stand for.

    Columns of a cell follow each other: own rows stand in order, and those of other blocks by block, in their order.
    """
    shown = np.concatenate([own, *others])
    labels = shown[:, 0].astype(np.int64)
    first = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1])
    weights = backend.asarray(shown[:, 1].astype(np.float32))
    begin = backend.asarray(np.append(first, len(labels)))
    product = backend.kernels.merge_columns(*entries, begin, weights)
    starts = backend.asarray(cells.starts)
    rows = backend.kernels.merge_rows(*product, starts, weights[: len(own)], len(first))
    indptr, indices, data = map(backend.to_host, rows)
    return Merged(product, labels[first], (indptr, indices, data))


def _parts(matrix: Any) -> Matrix:
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)


def extents_of(backend: Backend, merged: Merged) -> tuple[int, int]:
    """How many cells a block needs, own ones included, and the entries of its rows of the coarse matrix."""
    return len(merged.wanted), len(merged.rows[2])


def coarse_of(backend: Backend, cells: Cells, merged: Merged) -> tuple[Any, ...]:
    """What one worker needs of a block for the coarse level; columns are numbered over all blocks."""
    indptr, indices, data = merged.rows
    width = int(merged.wanted.max()) + 1
    whole = csr_matrix((data, merged.wanted[indices], indptr), shape=(len(indptr) - 1, width))
    return cells.starts, cells.held, cells.norms, _parts(whole)


def hierarchy(backend: Backend, sizes: list[int], count: int, cuts: int, *blocks: tuple[Any, ...]) -> Level:
    """A coarse level, whose cells have at most ``2**cuts`` points, with those below it, from its rows by block."""
    points, held, norms, rows = zip(*blocks, strict=True)
    indptr = np.concatenate([[0], *(np.diff(indptr) for indptr, _, _ in rows)]).cumsum()
    indices = np.concatenate([indices for _, indices, _ in rows])
    data = np.concatenate([data for _, _, data in rows])
    matrix = tuple(backend.asarray(part) for part in (indptr.astype(np.int64), indices, data))
    level = top = Level(backend, matrix, backend.asarray(np.concatenate(norms)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    fine = np.unique(np.concatenate([first + own for first, own in zip(offsets, points, strict=False)]))
    lonely = np.concatenate([first + own for first, own in zip(offsets, held, strict=False)])
    while True:
        cuts += multilevel.RATIO
        own = [first + cells_of(n, True, cuts) for first, n in zip(offsets, sizes, strict=False)]
        cells = np.unique(np.concatenate(own))
        if ends_here(level) or not max(multilevel.SMALLEST, 4 * count) < len(cells) < len(fine):
            return top
        coarser = np.unique(np.concatenate([cells, lonely, lonely + 1]))
        level = level.coarsen(np.searchsorted(fine, coarser))
        fine = coarser


def cells_taken(backend: Backend, Z: Any, wanted: np.ndarray) -> Any:
    return Z[backend.asarray(wanted)]


def smoothed_product(backend: Backend, merged: Matrix, Z: Any, R: Any, chosen: Any, scale: Any) -> Any:
    scale = None if scale is None else backend.asarray(scale)
    return backend.kernels.block_product(*merged, Z, R, scale, chosen=sent_to(backend, chosen))


def restricted(backend: Backend, cells: Cells, R: Any, columns: Any, factors: Any) -> Any:
    columns, factors = sent_to(backend, (columns, factors))
    return backend.kernels.restrict(backend.asarray(cells.starts), cells.weights, R)[:, columns] * factors


def sent_to(backend: Backend, chosen: Any) -> Any:
    """Columns and factors in the memory of a worker."""
    return None if chosen is None else tuple(backend.asarray(part) for part in chosen)
