"""Arrays in pieces for the text of one machine: sweeps over them run on the workers, and a percentile is exact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.array import Array
from ..backend.cpu import CpuBackend
from .team import Call, Pieces, Team, item


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
        return {
            "device": self.team.gather([self.team.submit(lambda backend: backend.device)])[0],
            "device_reason": reason,
        }

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


def swept(backend: Backend, work: Callable[..., Any], limits: dict[str, Any], *tall: Any) -> tuple[Any, ...]:
    """Sweep over the piece of a block; its sums are for the client."""
    found, sums = backend.sweep(work, *tall, **limits), limits["sums"]
    return *(backend.to_host(total) for total in found[:sums]), *found[sums:]


def percentile_of(team: Team, tables: list[Any], percent: float, n: int) -> np.ndarray:
    """``numpy.percentile`` of each column over all blocks, exactly.

    The client knows some values of each block, evenly spaced in rank. Only what lies between two of them that enclose
    the wanted ranks is sent, equal values once.
    """
    place = (n - 1) * percent / 100
    ranks = int(np.floor(place)), int(np.ceil(place))
    rising = team.map(sorted_columns, tables)
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

    Parameters
    ----------
    marks : list of (places, values)
        Of each block the places of some values among its own, the first and the last with them, and these values.
    """
    known = np.sort(np.concatenate([values for _, values in marks]))

    def most_below(i: int) -> int:  # all before the first mark that is not below
        ends = ((at, np.searchsorted(values, known[i])) for at, values in marks)
        return sum(int(at[j]) if j < len(at) else int(at[-1]) + 1 for at, j in ends)

    def least_within(i: int) -> int:  # all up to the last mark that is not above
        ends = ((at, np.searchsorted(values, known[i], side="right")) for at, values in marks)
        return sum(int(at[j - 1]) + 1 if j else 0 for at, j in ends)

    every = range(len(known))
    low = bisect_right(every, ranks[0], key=most_below) - 1
    high = bisect_right(every, ranks[1], key=least_within)
    return float(known[low]), float(known[high])


def sorted_columns(backend: Backend, table: Any) -> np.ndarray:
    return np.sort(backend.to_host(table), axis=0)


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
