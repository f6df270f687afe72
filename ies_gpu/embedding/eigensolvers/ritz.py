"""Rayleigh-Ritz on a block of vectors: orthonormal Ritz vectors X, and the directions of the last step beside them.

Only X is kept in float64. Its image is known by its residuals, ``S X = X values + R``: they are small, so float32 is
enough for them, and all else is float32. Directions are neither orthogonal to X nor to each other; the small matrices
of inner products, summed in float64, take care of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend.array import Array

if TYPE_CHECKING:
    from .multilevel import Level

NOTHING = np.arange(0)
COLUMNS_AT_ONCE, FEWEST_COLUMNS = 1 << 23, 4  # numbers in images in float64 that exist at a time, and columns


def whitener(G: np.ndarray, floor: float = 1e-8) -> np.ndarray:
    """Return C with ``C' G C = I`` on all directions of a positive matrix that are not lost in rounding."""
    squares = np.diag(G)
    scale = np.where(squares > 1e-30, 1 / np.sqrt(np.maximum(squares, 1e-30)), 0.0)
    values, vectors = np.linalg.eigh(scale[:, None] * G * scale)
    keep = values > floor
    return scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))


class Block:
    """Orthonormal Ritz vectors X (n, k) in float64, their residuals R in float32, and the last step's directions.

    P and its image SP are what that step brought, from beside X, to the vectors that were worked on. ``values``,
    falling, and ``norms`` of residuals are on the host.
    """

    def __init__(self, level: Level, T: Array, ST: Array, k: int) -> None:
        """Rayleigh-Ritz on T alone, for at most k vectors: fewer where T is dependent."""
        xp = self.xp = level.backend.xp
        self.backend = level.backend
        nothing = xp.empty((len(T), 0), dtype=xp.float32)
        *_, own, images = self.backend.all_to_host(
            *self.backend.kernels.gram(xp.empty((len(T), 0), dtype=xp.float64), nothing, nothing, nothing, T, ST)
        )
        U = whitener(own)
        values, C = leading(U.T @ images @ U, k)
        self.values = np.zeros(0)
        self.X, self.R = (xp.empty((len(T), len(values)), dtype=kind) for kind in (xp.float64, xp.float32))
        self.P = self.SP = nothing
        self._step(T, ST, values, np.zeros((0, len(values))), U @ C)

    @property
    def k(self) -> int:
        return len(self.values)

    def extend(self, T: Array, ST: Array, active: np.ndarray, coarse: Level | None = None) -> None:
        """Take T and ST for Rayleigh-Ritz on ``[X, P, T]``; the directions of ``active`` columns become P."""
        products = self.backend.kernels.gram(self.X, self.R, self.P, self.SP, T, ST)
        XR, M, RY, own, images, *noted = self.backend.all_to_host(*products, *getattr(coarse, "late", ()))
        if coarse is not None and noted:
            coarse.learn(*noted)
        E = symmetric(XR, self.norms)
        # of Y - X M, which is orthogonal to X, with S X = X values + R and S Y
        U, inside = whitener(own - M.T @ M), M.T @ RY
        side = (RY - E @ M) @ U
        corner = images - inside - inside.T - M.T @ (self.values[:, None] * M - E @ M)
        B = np.block([[np.diag(self.values) + E, side], [side.T, U.T @ corner @ U]])
        values, C = leading(B, self.k)
        onto_Y = U @ C[self.k :]
        self._step(T, ST, values, C[: self.k] - M @ onto_Y, onto_Y, M @ onto_Y, active)
        self.P, self.SP = T, ST

    def _step(
        self,
        T: Array,
        ST: Array,
        values: np.ndarray,
        onto_X: np.ndarray,
        onto_Y: np.ndarray,
        inside: np.ndarray | None = None,
        active: np.ndarray = NOTHING,
    ) -> None:
        """Put ``X onto_X + V`` in the place of X, ``V = [P, T] onto_Y``, and ``(V - X inside)[:, active]`` into T."""
        before = self.values[:, None]
        off = np.zeros((len(before), 0)) if inside is None else -inside[:, active]
        from_X = np.concatenate([onto_X, before * onto_X - onto_X * values, off, before * off], axis=1)
        from_R = np.concatenate([onto_X, off], axis=1)
        small = (self.xp.asarray(np.ascontiguousarray(part)) for part in (from_X, from_R, onto_Y, values, active))
        squares = self.backend.kernels.update(self.X, self.R, self.P, self.SP, T, ST, *small)
        self.values, self.norms = values, np.sqrt(self.backend.to_host(squares))

    def refresh(self, product: Callable[[Any], Any]) -> None:
        """Compute the residuals again from images in float64, some columns at a time, and X by Rayleigh-Ritz on X."""
        xp, kernels = self.xp, self.backend.kernels
        step = max(FEWEST_COLUMNS, COLUMNS_AT_ONCE // len(self.X))
        for first in range(0, self.k, step):
            columns = slice(first, first + step)
            V = xp.ascontiguousarray(self.X[:, columns])
            self.R[:, columns] = product(V) - V * xp.asarray(self.values[columns])
        own, onto_R = self.backend.all_to_host(kernels.inner(self.X, self.X), kernels.inner(self.X, self.R))
        U = whitener(own)
        values, C = leading(U.T @ (own * self.values + symmetric(onto_R, self.norms)) @ U, self.k)
        nothing = xp.empty((len(self.X), 0), dtype=xp.float32)
        kept, self.P, self.SP = (self.P, self.SP), nothing, nothing
        self._step(nothing, nothing, values, U @ C, np.zeros((0, self.k)))
        self.P, self.SP = kept


def symmetric(XR: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Return ``X'S X`` but for the Ritz values, 0 without rounding; each entry is from the smaller residual.

    Otherwise the residual of a vector would keep the part along another whose own residual is larger.
    """
    return np.where(norms[:, None] >= norms, XR, XR.T)


def leading(B: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return at most k of the largest eigenvalues, falling, and their vectors; B is symmetric but for rounding."""
    values, vectors = np.linalg.eigh(0.5 * (B + B.T))
    return values[::-1][:k], vectors[:, ::-1][:, :k]
