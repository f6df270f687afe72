"""Tall arrays in pieces on the workers, behind the names that the text of one machine knows from a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.array import Array
from ..backend.cpu import CpuBackend
from .team import Call, Team, calls, item


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
        def put(_: Backend, V: Any, columns: slice, other: Any) -> Any:
            V = V.copy()
            V[:, columns] = other
            return V

        self.parts = self.team.map(put, self.parts, index[1], other.parts)

    def __sub__(self, other: Pieces) -> Pieces:
        return self._of(calls(lambda _, V, less: V - less, self.parts, other.parts), self.shape[1])

    def __mul__(self, factors: np.ndarray) -> Pieces:
        return self._of(calls(lambda at, V: V * at.asarray(factors), self.parts), self.shape[1])

    def astype(self, dtype: str) -> Pieces:
        """Return a copy of its own, for arrays that many tasks use."""
        return self._of(self.team.map(lambda _, V: V.astype(dtype), self.parts), self.shape[1])

    def _of(self, parts: list[Any], width: int) -> Pieces:
        return Pieces(self.team, parts, (self.shape[0], width, *self.shape[2:]))


class TeamBackend(CpuBackend):
    """The backend of a client: small arrays are here, on one thread, and tall ones in pieces on the workers."""

    def __init__(self, team: Team) -> None:
        super().__init__(n_threads=1)  # on several, BLAS takes many times as long for small matrices
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
        if not isinstance(tall[0], Pieces):
            return super().sweep(work, *tall, sums=sums, rows=rows, **more)
        limits = {"bytes_per_row": more["bytes_per_row"], "stage": more["stage"], "sums": sums, "rows": rows}
        team, n = self.team, len(tall[0])

        def swept(backend: Backend, *parts: Any) -> tuple[Any, ...]:
            found = backend.sweep(work, *parts, **limits)
            return *(backend.to_host(total) for total in found[:sums]), *found[sums:]

        found = team.map(swept, *(pieces.parts for pieces in tall))
        totals = team.total(team.map(lambda _, results: results[:sums], found) if rows else found) if sums else ()
        return [*totals, *(Pieces(team, calls(item, found, sums + k), (n,)) for k in range(rows))]

    def percentile(self, table: Any, percent: float) -> Any:
        if not isinstance(table, Pieces):
            return super().percentile(table, percent)

        def percentiles(backend: Backend, parts: tuple[Any, ...], percent: float) -> np.ndarray:
            columns = (backend.xp.concatenate([part[:, k : k + 1] for part in parts]) for k in range(parts[0].shape[1]))
            return np.concatenate([backend.to_host(backend.percentile(column, percent)) for column in columns])

        # all on the worker that had the coarse levels, which take more
        return self.team.gather([self.team.submit(percentiles, tuple(table.parts), percent, block=0)])[0]


class TallBackend:
    """The ``xp`` and ``kernels`` that the eigensolver asks of a backend, for arrays in pieces; small ones are here."""

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
        parts = calls(lambda at, n: at.xp.zeros((n, width), dtype=kind), self.sizes.tolist())
        return Pieces(self.team, parts, shape)

    def inner(self, A: Pieces, B: Pieces) -> np.ndarray:
        return self.team.total(self.team.map(sums_of, "inner", A.parts, B.parts))

    def gram(self, *tall: Pieces) -> tuple[np.ndarray, ...]:
        return self.team.total(self.team.map(sums_of, "gram", *(pieces.parts for pieces in tall)))

    def turn(self, R: Pieces, P: Pieces, left: np.ndarray, square: np.ndarray) -> None:
        def turned(at: Backend, R: Any, P: Any) -> Any:
            P = P.copy()  # another task may still read the old one
            at.kernels.turn(R, P, at.asarray(left), at.asarray(square))
            return P

        P.parts = self.team.map(turned, R.parts, P.parts)

    def update(self, X: Pieces, R: Pieces, P: Pieces, SP: Pieces, T: Pieces, ST: Pieces, *small: Any) -> np.ndarray:
        def updated(at: Backend, X: Any, R: Any, P: Any, SP: Any, T: Any, ST: Any) -> tuple[Any, ...]:
            X, R, T, ST = (part.copy() for part in (X, R, T, ST))
            squares = at.kernels.update(X, R, P, SP, T, ST, *(at.asarray(part) for part in small))
            return X, R, T, ST, at.to_host(squares)

        new = self.team.map(updated, *(pieces.parts for pieces in (X, R, P, SP, T, ST)))
        for i, pieces in enumerate((X, R, T, ST)):
            pieces.parts = calls(item, new, i)
        return self.team.total(self.team.map(item, new, 4))


def taken_columns(backend: Backend, V: Any, columns: Any) -> Any:
    return backend.xp.ascontiguousarray(V[:, columns if isinstance(columns, slice) else backend.asarray(columns)])


def sums_of(backend: Backend, kernel: str, *tall: Any) -> Any:
    found = getattr(backend.kernels, kernel)(*tall)
    return tuple(map(backend.to_host, found)) if isinstance(found, tuple) else backend.to_host(found)
