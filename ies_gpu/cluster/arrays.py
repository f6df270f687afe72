"""Tall arrays in pieces on the workers, behind the names that the text of one machine knows from a backend.

Sweeps over them run on the workers, and a percentile is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.array import Array
from ..backend.cpu import CpuBackend
from .team import Call, Team, item


class Pieces:
    """A tall array, one piece per block on some worker: ``parts``, futures or calls, and the ``shape`` of all."""

    def __init__(self, team: Team, parts: list[Any], shape: tuple[int, ...]) -> None:
        self.team, self.parts, self.shape = team, parts, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: tuple[slice, Any]) -> Pieces:
        columns = index[1]
        width = len(range(self.shape[1])[columns] if isinstance(columns, slice) else columns)
        return self._of([Call(taken_columns, (part, columns)) for part in self.parts], width)

    def __setitem__(self, index: tuple[slice, slice], other: Pieces) -> None:
        self.parts = self.team.map(put_columns, self.parts, index[1], other.parts)

    def __sub__(self, other: Pieces) -> Pieces:
        pairs = zip(self.parts, other.parts, strict=True)
        return self._of([Call(lambda _, V, less: V - less, pair) for pair in pairs], self.shape[1])

    def __mul__(self, factors: np.ndarray) -> Pieces:
        return self._of([Call(lambda at, V: V * at.asarray(factors), (part,)) for part in self.parts], self.shape[1])

    def astype(self, dtype: str) -> Pieces:
        """Return a copy of its own, for arrays that many tasks use."""
        return self._of(self.team.map(lambda _, V: V.astype(dtype), self.parts), self.shape[1])

    def _of(self, parts: list[Any], width: int) -> Pieces:
        return Pieces(self.team, parts, (self.shape[0], width, *self.shape[2:]))


class TeamBackend(CpuBackend):
    """The backend of a client: small arrays are here, on one thread, and tall ones in pieces on the workers.

    On several threads BLAS takes many times as long for small matrices.
    """

    def __init__(self, team: Team) -> None:
        super().__init__(n_threads=1)
        self.team = team

    def owns(self, array: Array) -> bool:
        return isinstance(array, Pieces) or super().owns(array)

    def asarray(self, array: Array, dtype: Any = None) -> Array:
        return array if isinstance(array, Pieces) else super().asarray(array, dtype)

    def first_run(self) -> str:
        return ""  # it is the workers that compile

    def describe(self) -> dict[str, Any]:
        client = self.team.client
        count = len(client.nthreads())
        reason = f"on {count} worker{'s' * (count > 1)} of the Dask cluster at {client.scheduler.address}"
        device = self.team.gather([self.team.submit(lambda backend: backend.device)])[0]
        return {"device": device, "device_reason": reason}

    def sweep(self, work: Callable[..., Any], *tall: Any, sums: int = 0, rows: int = 0, **more: Any) -> list[Any]:
        """Sweep over each piece on its worker: one task per block; only sums come here, and rows stay in pieces."""
        limits = {name: more[name] for name in ("bytes_per_row", "stage")} | {"sums": sums, "rows": rows}
        if not isinstance(tall[0], Pieces):
            return super().sweep(work, *tall, **more | limits)
        team, n = self.team, len(tall[0])
        found = team.map(swept, work, limits, *(pieces.parts for pieces in tall))
        totals = team.total(team.map(lambda _, results: results[:sums], found) if rows else found) if sums else ()
        parts = [[Call(item, (future, sums + k)) for future in found] for k in range(rows)]
        return [*totals, *(Pieces(team, part, (n,)) for part in parts)]

    def percentile(self, table: Any, percent: float) -> Any:
        if not isinstance(table, Pieces):
            return super().percentile(table, percent)
        return percentile_of(self.team, table.parts, percent, len(table))


def percentile_of(team: Team, tables: list[Any], percent: float, n: int) -> np.ndarray:
    """``numpy.percentile`` of each column over all blocks, exactly.

    The client knows some values of each block, evenly spaced in rank. Only what lies between two of them that enclose
    the wanted ranks is sent, equal values once.
    """
    place = (n - 1) * percent / 100
    ranks = int(np.floor(place)), int(np.ceil(place))
    rising = team.map(lambda backend, table: np.sort(backend.to_host(table), axis=0), tables)
    marks = team.gather(team.map(marks_of, rising))
    columns = range(marks[0][1].shape[1])
    ends = np.array([enclosing([(at, values[:, k]) for at, values in marks], ranks) for k in columns])
    found = team.gather(team.map(inside_of, rising, ends))
    values = np.empty((2, len(ends)))
    for k in columns:
        below, distinct, counts = zip(*(block[k] for block in found), strict=True)
        order = np.argsort(np.concatenate(distinct))
        last = sum(below) + np.cumsum(np.concatenate(counts)[order])
        values[:, k] = np.concatenate(distinct)[order][np.searchsorted(last, ranks, side="right")]
    return values[0] + (place - ranks[0]) * (values[1] - values[0])


def enclosing(marks: list[tuple[np.ndarray, np.ndarray]], ranks: tuple[int, int]) -> tuple[float, float]:
    """Two of the marked values: surely no more than ``ranks[0]`` are below one, and more than ``ranks[1]`` not above.

    ``marks`` are, of each block, the places of some values among its own, first and last with them, and these values.
    """
    known = np.sort(np.concatenate([values for _, values in marks]))
    # below: all before the first mark that is not below; within: all up to the last mark that is not above
    below = sum(np.append(at, at[-1] + 1)[np.searchsorted(values, known)] for at, values in marks)
    within = sum(np.append(0, at + 1)[np.searchsorted(values, known, side="right")] for at, values in marks)
    low, high = np.searchsorted(below, ranks[0], side="right") - 1, np.searchsorted(within, ranks[1], side="right")
    return float(known[low]), float(known[high])


class TallBackend:
    """What the eigensolver asks of a backend, its ``xp`` and ``kernels``, for arrays in pieces; small ones are NumPy's.

    The loops are those of :mod:`ies_gpu.backend.kernels.plain_multilevel`.
    """

    is_remote = False
    float32, float64, ones = np.float32, np.float64, staticmethod(np.ones)

    def __init__(self, team: Team, sizes: np.ndarray) -> None:
        self.team, self.sizes = team, sizes
        self.xp = self.kernels = self

    @staticmethod
    def asarray(array: Any) -> Any:
        return array

    to_host = ascontiguousarray = asarray

    @staticmethod
    def all_to_host(*arrays: Any) -> list[Any]:
        return list(arrays)

    def empty(self, shape: tuple[int, int], dtype: Any) -> Pieces:
        width, kind = shape[1], np.dtype(dtype).name
        parts = [Call(lambda at, n: at.xp.zeros((n, width), dtype=kind), (n,)) for n in self.sizes.tolist()]
        return Pieces(self.team, parts, shape)

    def inner(self, A: Pieces, B: Pieces) -> np.ndarray:
        return self.team.total(self.team.map(sums_of, "inner", A.parts, B.parts))

    def gram(self, *tall: Pieces) -> tuple[np.ndarray, ...]:
        return self.team.total(self.team.map(sums_of, "gram", *(pieces.parts for pieces in tall)))

    def turn(self, R: Pieces, P: Pieces, left: np.ndarray, square: np.ndarray) -> None:
        P.parts = self.team.map(turned, R.parts, P.parts, left, square)

    def update(self, X: Pieces, R: Pieces, P: Pieces, SP: Pieces, T: Pieces, ST: Pieces, *small: Any) -> np.ndarray:
        new = self.team.map(updated, *(pieces.parts for pieces in (X, R, P, SP, T, ST)), *small)
        for i, pieces in enumerate((X, R, T, ST)):
            pieces.parts = [Call(item, (future, i)) for future in new]
        return self.team.total(self.team.map(item, new, 4))


# --- tasks -----------------------------------------------------------------------------------------------------------


def taken_columns(backend: Backend, V: Any, columns: Any) -> Any:
    """Return some columns, as an array of their own."""
    return backend.xp.ascontiguousarray(V[:, columns if isinstance(columns, slice) else backend.asarray(columns)])


def put_columns(backend: Backend, V: Any, columns: slice, other: Any) -> Any:
    """Return a copy with other columns in the place of some."""
    V = V.copy()
    V[:, columns] = other
    return V


def sums_of(backend: Backend, kernel: str, *tall: Any) -> Any:
    found = getattr(backend.kernels, kernel)(*tall)
    return tuple(map(backend.to_host, found)) if isinstance(found, tuple) else backend.to_host(found)


def turned(backend: Backend, R: Any, P: Any, left: np.ndarray, square: np.ndarray) -> Any:
    """A copy of what the kernel writes."""
    P = P.copy()
    backend.kernels.turn(R, P, backend.asarray(left), backend.asarray(square))
    return P


def updated(backend: Backend, X: Any, R: Any, P: Any, SP: Any, T: Any, ST: Any, *small: np.ndarray) -> tuple[Any, ...]:
    """Copies of what the kernel writes, and the squares: another task may still read the old ones."""
    X, R, T, ST = (part.copy() for part in (X, R, T, ST))
    squares = backend.kernels.update(X, R, P, SP, T, ST, *(backend.asarray(part) for part in small))
    return X, R, T, ST, backend.to_host(squares)


def swept(backend: Backend, work: Callable[..., Any], limits: dict[str, Any], *tall: Any) -> tuple[Any, ...]:
    """Sweep over the piece of a block; its sums are for the client."""
    found, sums = backend.sweep(work, *tall, **limits), limits["sums"]
    return *(backend.to_host(total) for total in found[:sums]), *found[sums:]


def marks_of(backend: Backend, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of about ``sqrt(n)`` of the rows, and these rows."""
    at = np.linspace(0, len(table) - 1, 2 + int(np.sqrt(len(table)))).astype(np.int64)
    return at, table[at]


def inside_of(backend: Backend, table: np.ndarray, ends: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of each column the number of values below the ends, the distinct ones within, and how often each is there."""
    found = []
    for column, (low, high) in zip(table.T, ends, strict=True):
        first, last = np.searchsorted(column, low), np.searchsorted(column, high, side="right")
        found.append((int(first), *np.unique(column[first:last], return_counts=True)))
    return found
