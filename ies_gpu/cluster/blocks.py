"""Points shared out in space: each block is a box of a KD-tree, so few of its neighbours are in other blocks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..backend import Backend
from ..backend.steps import step
from ..embedding.order import MAX_AXES, cell_starts, leading_axes, n_levels, spatial_order
from .source import Source
from .team import Team, item

SAMPLE = 20_000  # points from which the cuts are found
BOXES = 6  # cuts of a block into smaller boxes, which say which points of other blocks are near it


class Cuts(NamedTuple):
    """A KD-tree of cuts in heap order: the axis (2**levels - 1,) and the place of each, in coordinates ``X @ axes``."""

    axes: np.ndarray
    axis: np.ndarray
    place: np.ndarray

    def block_of(self, X: np.ndarray) -> np.ndarray:
        """Which block each point belongs to."""
        Z = X @ self.axes
        node = np.zeros(len(X), dtype=np.int64)
        for _ in range(int(np.log2(len(self.axis) + 1))):
            node = 2 * node + 1 + (Z[np.arange(len(Z)), self.axis[node]] > self.place[node])
        return node - len(self.axis)


@dataclass(frozen=True)
class Points:
    """The points of one block in spatial order, with their rows in the input."""

    rows: np.ndarray
    X: Any


@step("order")
def partition(team: Team, source: Source, count: int) -> list[Any]:
    """The blocks, a power of two of them, as futures of ``Points``; none is empty."""
    step = max(1, source.n // SAMPLE)
    cuts = cuts_of(np.concatenate(team.gather(team.map(every, source.chunks, step))), count)
    pieces = team.map(split, source.chunks, source.ends[:-1].tolist(), cuts, count)
    sizes = np.array(team.gather(team.map(lambda _, own: [len(rows) for rows, _ in own], pieces)))
    filled = np.flatnonzero(sizes.any(axis=0)).tolist()
    team.assign_workers(len(filled))
    points = [
        team.submit(
            collected,
            *(team.submit(item, piece, b, block=c) for c, piece in enumerate(pieces) if sizes[c, b]),
            block=i,
        )
        for i, b in enumerate(filled)
    ]
    team.wait(points)
    source.chunks.clear()
    return points


def every(backend: Backend, X: np.ndarray, step: int) -> np.ndarray:
    """Each ``step``-th row."""
    return X[::step]


def cuts_of(sample: np.ndarray, count: int) -> Cuts:
    """Cuts at the medians of a sample, each across the longest side."""
    axes = np.eye(sample.shape[1])
    if sample.shape[1] > MAX_AXES:
        axes = leading_axes(sample, MAX_AXES)
    members = [sample @ axes]
    axis: list[int] = []
    place: list[float] = []
    while len(axis) < count - 1:
        Z = members.pop(0)
        across = int(np.argmax(np.ptp(Z, axis=0))) if len(Z) else 0
        middle = float(np.median(Z[:, across])) if len(Z) else 0.0
        axis.append(across)
        place.append(middle)
        high = Z[:, across] > middle
        members += [Z[~high], Z[high]]
    return Cuts(axes, np.array(axis, dtype=np.int64), np.array(place))


def split(backend: Backend, X: np.ndarray, first: int, cuts: Cuts, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A chunk's rows by block."""
    block = cuts.block_of(X)
    members = [np.flatnonzero(block == b) for b in range(count)]
    return [(first + rows, X[rows]) for rows in members]


def collected(backend: Backend, *pieces: tuple[np.ndarray, np.ndarray]) -> Points:
    """The points of a block, in spatial order."""
    rows, X = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return in_space(backend, rows, backend.asarray(X))


def in_space(backend: Backend, rows: np.ndarray, X: Any) -> Points:
    """The same points in spatial order."""
    order = spatial_order(X)
    return Points(rows[backend.to_host(order)], X[order])


def kept(backend: Backend, points: Points, keep: np.ndarray) -> Points:
    """Some of the points."""
    return in_space(backend, points.rows[keep], points.X[backend.asarray(np.flatnonzero(keep))])


def taken_rows(team: Team, owners: list[Any], wanted: np.ndarray, *tall: list[Any]) -> list[np.ndarray]:
    """Return which of the wanted rows of the input some blocks have, rising, and these rows of arrays by block."""
    found = team.gather(team.map(own_rows, owners, wanted, *tall))
    parts = [np.concatenate(part) for part in zip(*found, strict=True)]
    order = np.argsort(parts[0])
    return [part[order] for part in parts]


def own_rows(backend: Backend, owner: Any, wanted: np.ndarray, *tall: Any) -> tuple[np.ndarray, ...]:
    own = np.flatnonzero(np.isin(owner.rows, wanted))
    return owner.rows[own], *(backend.to_host(array[backend.asarray(own)]) for array in tall)


def boxes_of(backend: Backend, points: Points) -> np.ndarray:
    """Boxes (boxes, 2, columns) around runs of the points."""
    n = len(points.rows)
    starts = np.unique(cell_starts(n, min(BOXES, n_levels(n, 1)))).tolist()
    runs = [points.X[a:b] for a, b in pairwise(starts)]
    sides = [backend.xp.stack([run.min(axis=0), run.max(axis=0)]) for run in runs]  # CuPy's minimum has no reduceat
    return backend.to_host(backend.xp.stack(sides))


def boxes_near(one: np.ndarray, other: np.ndarray, reach: float) -> bool:
    """Whether some boxes are no further apart than the reach."""
    for low, high in one:
        gap = np.maximum(0, np.maximum(other[:, 0] - high, low - other[:, 1]))
        if ((gap * gap).sum(axis=1) <= reach * reach * (1 + 1e-9)).any():
            return True
    return False


def points_near(backend: Backend, points: Points, boxes: np.ndarray, reach: float) -> tuple[Any, Any]:
    """Which points are within reach of some box, and the points."""
    xp = backend.xp

    def within(X: Any, low: np.ndarray, high: np.ndarray) -> Any:
        gap = xp.maximum(0, xp.maximum(X - backend.asarray(high), backend.asarray(low) - X))
        return (gap * gap).sum(axis=1) <= reach * reach * (1 + 1e-9)

    around = xp.nonzero(within(points.X, boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)))[0]
    X = points.X[around]  # mostly few
    near = xp.zeros(len(X), dtype=bool)
    for low, high in boxes:
        near |= within(X, low, high)
    return around[near], X[near]
