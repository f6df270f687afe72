"""Tall arrays in pieces on the workers, behind the names that the eigensolver knows from a backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Backend
from .team import Call, Pieces, Team, item


class TallArrays:
    """What the eigensolver asks of ``xp`` for arrays in pieces; small arrays are NumPy's."""

    float32, float64 = np.float32, np.float64

    def __init__(self, team: Team, sizes: np.ndarray) -> None:
        self.team, self.sizes = team, sizes

    def empty(self, shape: tuple[int, int], dtype: Any) -> Pieces:
        parts = [Call(emptied, (n, shape[1], np.dtype(dtype).name)) for n in self.sizes.tolist()]
        return Pieces(self.team, parts, shape)

    @staticmethod
    def asarray(array: Any) -> Any:
        return array

    ascontiguousarray = asarray

    ones = staticmethod(np.ones)


class TallKernels:
    """The loops of the eigensolver over arrays in pieces; see :mod:`ies_gpu.backend.kernels.plain_multilevel`."""

    def __init__(self, team: Team) -> None:
        self.team, self.numbers = team, 0  # in the small matrices of a block that went to the client

    def inner(self, A: Pieces, B: Pieces) -> np.ndarray:
        return self.team.total(self.team.map(sums_of, "inner", A.parts, B.parts))

    def gram(self, *tall: Pieces) -> tuple[np.ndarray, ...]:
        found = self.team.total(self.team.map(sums_of, "gram", *(pieces.parts for pieces in tall)))
        self.numbers += sum(part.size for part in found)
        return found

    def turn(self, R: Pieces, P: Pieces, left: np.ndarray, square: np.ndarray) -> None:
        P.parts = self.team.map(turned, R.parts, P.parts, left, square)

    def update(self, X: Pieces, R: Pieces, P: Pieces, SP: Pieces, T: Pieces, ST: Pieces, *small: Any) -> np.ndarray:
        new = self.team.map(updated, *(pieces.parts for pieces in (X, R, P, SP, T, ST)), *small)
        for i, pieces in enumerate((X, R, T, ST)):
            pieces.parts = [Call(item, (future, i)) for future in new]
        return self.team.total(self.team.map(item, new, 4))


class TallBackend:
    """What the eigensolver asks of a backend."""

    is_remote = False
    to_host = staticmethod(TallArrays.asarray)

    def __init__(self, team: Team, sizes: np.ndarray) -> None:
        self.team, self.xp, self.kernels = team, TallArrays(team, sizes), TallKernels(team)

    @staticmethod
    def all_to_host(*arrays: Any) -> list[Any]:
        return list(arrays)


def emptied(backend: Backend, n: int, width: int, dtype: str) -> Any:
    return backend.xp.zeros((n, width), dtype=dtype)


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
