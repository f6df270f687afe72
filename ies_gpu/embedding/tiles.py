"""A kernel, or the transition matrix made from it, as dense tiles, for graphs that join a good part of all pairs.

A graph of 50,000 points with 26,500 neighbours each takes 16 GB as CSR, 5 GB as tiles of the upper triangle in float32,
next to nothing if they are computed anew for each product. Methods are documented in :class:`.laplacian.SparseMatrix`.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, Self

import numpy as np

from ..backend import Backend, Block, backend_of, report, step
from ..backend.array import Array
from ..findings import refusal
from .graph import Cells, cell_starts, n_levels

TILE = 1024  # rows and columns of a tile, at most


class TiledMatrix:
    """``K_ij = exp(-|x_i - x_j|^2 / eps^2)`` within the radius, for points in spatial order; or P made from it."""

    has_matrix = False
    approximations: tuple[str, ...] = ("kernel entries in float32, as tiles",)

    def __init__(self, X: Array, *, bandwidth: float, radius: float, store: bool, side: int = TILE) -> None:
        self.backend = backend_of(X)
        self.shape = (len(X), len(X))
        self.points = (X - X.mean(axis=0)) / bandwidth
        self.left = self.right = self.backend.xp.ones(len(X))
        self.diagonal, self.limit = 1.0, (radius / bandwidth) ** 2
        self.starts = cell_starts(len(X), n_levels(len(X), side))
        self.n_blocks = len(self.starts) - 1  # of rows; a tile has one on each side
        cells, self.pairs = Cells(self.points, radius / bandwidth), list[tuple[int, int]]()
        for r in range(self.n_blocks):  # without tiles that bounding boxes prove empty
            near = cells.starts[cells.near(self.starts[r], self.starts[r + 1])]
            blocks = np.unique(np.searchsorted(self.starts, near, side="right") - 1)
            self.pairs += [(r, int(c)) for c in blocks if c >= r]
        self.tiles, self.nnz = dict[tuple[int, int], Any](), 0
        for done, pair in enumerate(self.pairs):
            tile = self._compute(*pair)
            entries = int((tile > 0).sum())
            self.nnz += entries if pair[0] == pair[1] else 2 * entries
            if store:
                self.tiles[pair] = tile
            report(done + 1, len(self.pairs))

    @property
    def matrix(self) -> Array:
        text = "this graph is too large for a CSR matrix"
        raise refusal("graph.too_large", text, "use the operator laplacian.transition instead")

    def _compute(self, r: int, c: int) -> Array:
        xp = self.backend.xp
        a, b = self.points[self.rows(r)], self.points[self.rows(c)]
        centre = a.mean(axis=0)
        a, b = a - centre, b - centre
        squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * (a @ b.T)
        tile = xp.where(squared <= self.limit, xp.exp(-xp.maximum(squared, 0)), 0).astype(xp.float32)
        if r == c:
            tile[xp.arange(len(tile)), xp.arange(len(tile))] = self.diagonal
        return tile

    def rows(self, block: int) -> slice:
        return slice(int(self.starts[block]), int(self.starts[block + 1]))

    def tile(self, r: int, c: int) -> Array:
        """Return rows of block r, columns of block c, in float64."""
        if r > c:
            return self.tile(c, r).T
        tile = self.tiles.get((r, c))
        return (self._compute(r, c) if tile is None else tile).astype(self.backend.xp.float64)

    def __matmul__(self, V: Array) -> Array:
        xp, workers = self.backend.xp, self.backend.n_threads or 1
        left, right = (side if V.ndim == 1 else side[:, None] for side in (self.left, self.right))
        V = right * V

        def share(pairs: list[tuple[int, int]]) -> Array:
            out = xp.zeros(V.shape, dtype=xp.float64)
            for r, c in pairs:
                tile = self.tile(r, c)
                out[self.rows(r)] += tile @ V[self.rows(c)]
                if r != c:
                    out[self.rows(c)] += tile.T @ V[self.rows(r)]
            return out

        if workers == 1:
            return left * share(self.pairs)
        with ThreadPoolExecutor(workers) as pool:
            return left * sum(pool.map(share, [self.pairs[w::workers] for w in range(workers)]))

    def product(self, V: Array, backend: Backend) -> Array:
        return self @ V

    @step("components")
    def components(self) -> tuple[int, np.ndarray]:
        labels, parts = np.full(self.shape[0], -1), 0
        while (labels < 0).any():  # spread from one point by products; a dense graph is a few steps across
            reached, before = self.backend.xp.zeros(self.shape[0]), 0
            reached[int(np.flatnonzero(labels < 0)[0])] = 1.0
            while int(reached.sum()) > before:
                before = int(reached.sum())
                reached = ((self @ reached) > 0).astype(reached.dtype)
            labels[self.backend.to_host(reached) > 0] = parts
            parts += 1
        return parts, labels

    def drop_diagonal(self) -> None:
        self.diagonal = 0.0
        for r, c in self.tiles:
            if r == c:
                self.tiles[r, c] = self._compute(r, c)

    def scale_rows_and_columns(self, left: Array, right: Array) -> Self:
        scaled = copy(self)  # over the same tiles
        scaled.left, scaled.right = left, right
        return scaled

    def blocks(self, m: int, backend: Backend, d: int | None = None) -> Iterator[Block]:
        return backend.blocks(self.n_blocks, 0, "tangents", rows_a_block=1)

    def cometric(self, Y: Array, block: slice, backend: Backend) -> tuple[slice, Array]:
        """Return half of ``E[y y'] - E[y] y_i' - y_i E[y]' + y_i y_i'`` for rows i, with expectations under P.

        With neighbourhoods as wide as those of a dense graph, the cancellation costs a few digits of sixteen.
        """
        xp, m, r = backend.xp, Y.shape[1], block.start
        rows, upper = self.rows(r), xp.triu_indices(m)
        centre = Y[rows].mean(axis=0)
        own = Y[rows] - centre
        sums = xp.zeros((len(own), len(upper[0]) + m), dtype=Y.dtype)
        for other in (c if a == r else a for a, c in self.pairs if r in (a, c)):
            columns = self.rows(other)
            y = Y[columns] - centre
            features = xp.concatenate([y[:, upper[0]] * y[:, upper[1]], y], axis=1)
            sums += self.tile(r, other) @ (features * self.right[columns][:, None])
        sums *= self.left[rows][:, None]
        H = xp.empty((len(own), m, m), dtype=Y.dtype)
        H[:, upper[0], upper[1]] = H[:, upper[1], upper[0]] = sums[:, : len(upper[0])]
        cross = sums[:, len(upper[0]) :, None] * own[:, None, :]
        return rows, 0.5 * (H - cross - cross.transpose(0, 2, 1) + own[:, :, None] * own[:, None, :])

    def tangents(self, Y: Array, block: slice, d: int, backend: Backend) -> tuple[slice, Array, Array]:
        rows, H = self.cometric(Y, block, backend)
        return rows, *backend.kernels.leading_eigenvectors(H, d)

    def on(self, _: Backend) -> Self:
        return self  # tiles stay where they are

    def parts(self) -> tuple[str, tuple[Any, ...]]:
        return f"tiles {self.limit!r}", (self.points, self.left, self.right)
