"""Manifolds whose Laplace-Beltrami eigenfunctions are known: rectangles and flat tori, with values and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ies_gpu.choice.criterion import log_volumes


@dataclass(frozen=True)
class Flat:
    """A rectangle (von Neumann boundary) or a flat torus with sides ``lengths``, and its first m eigenfunctions.

    Attributes
    ----------
    lengths : (float, float)
    periodic : bool
        A torus; otherwise a rectangle.
    waves : array (m, 2) of int
        Frequencies along both sides, by rising eigenvalue; on a torus a negative one stands for a sine.
    eigenvalues : array (m,)
        Of the Laplace-Beltrami operator.
    """

    lengths: tuple[float, float]
    periodic: bool
    waves: np.ndarray
    eigenvalues: np.ndarray

    def numbers(self, waves: Sequence[tuple[int, int]]) -> list[int]:
        """Which functions have these frequencies."""
        return [self.waves.tolist().index(list(wave)) for wave in waves]

    def sample(self, n: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Uniform points: flat (n, 2), and in space (n, 3), or (n, 4) for a torus, with the same metric."""
        flat = np.random.default_rng(random_state).uniform(0, 1, (n, 2)) * self.lengths
        if not self.periodic:
            return flat, np.column_stack([flat, np.zeros(n)])
        radii = np.array(self.lengths) / (2 * np.pi)
        angles = flat / radii
        circles = [r * f(a) for r, a in zip(radii, angles.T, strict=True) for f in (np.cos, np.sin)]
        return flat, np.column_stack(circles)

    def functions(self, flat: np.ndarray) -> np.ndarray:
        """Values (n, m) of the eigenfunctions of unit L2 norm."""
        x, y = (self._factors(flat[:, side], side)[0] for side in (0, 1))
        return x * y

    def gradients(self, flat: np.ndarray) -> np.ndarray:
        """Gradients (n, m, 2) of the same."""
        (x, dx), (y, dy) = (self._factors(flat[:, side], side) for side in (0, 1))
        return np.stack([dx * y, x * dy], axis=2)

    def bases(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U (n, m, 2) and Sigma (n, 2) of the exact co-metric ``sum_k grad phi_k grad phi_k'`` in the map's axes."""
        U, roots, _ = np.linalg.svd(self.gradients(flat), full_matrices=False)
        return U, roots**2

    def grid(self, cells: int) -> np.ndarray:
        """Midpoints of about ``cells`` x ``cells / ratio`` equal cells: (q, 2)."""
        counts = [max(2, round(cells * side / max(self.lengths))) for side in self.lengths]
        axes = [(np.arange(c) + 0.5) / c * side for c, side in zip(counts, self.lengths, strict=True)]
        return np.array(np.meshgrid(*axes, indexing="ij")).reshape(2, -1).T

    def limit(self, subset: list[int], rotation: np.ndarray | None = None, cells: int = 200) -> float:
        """``R(S, M)`` of the limit theorem, by the midpoint rule.

        Parameters
        ----------
        rotation : array (m, m)
            Orthogonal, mixes functions of equal eigenvalue: the map is ``functions @ rotation``.
        """
        J = self.gradients(self.grid(cells))
        if rotation is not None:
            J = np.swapaxes(np.swapaxes(J, 1, 2) @ rotation, 1, 2)
        U = np.ascontiguousarray(np.linalg.svd(J, full_matrices=False)[0])
        return float(log_volumes(U, np.array([subset], dtype=np.int32)).mean())

    def matched(self, coordinates: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which eigenvector of a sample stands for each exact function, and how eigenspaces are turned.

        Returns
        -------
        columns : array (m,) of int
            Column of ``coordinates`` for each function; those of an eigenspace are the ones that it explains best.
        rotation : array (m, m)
            Orthogonal within each eigenspace: ``coordinates[:, columns]`` is nearest to ``functions @ rotation``.
        """
        m = len(self.waves)
        overlap = self.functions(flat).T @ coordinates
        columns, rotation = np.zeros(m, dtype=int), np.zeros((m, m))
        for level in np.unique(np.round(self.eigenvalues, 9)):
            same = np.flatnonzero(np.abs(self.eigenvalues - level) < 1e-8 * level)
            columns[same] = np.sort(np.argsort(-(overlap[same] ** 2).sum(axis=0), kind="stable")[: len(same)])
            left, _, right = np.linalg.svd(overlap[np.ix_(same, columns[same])])
            rotation[np.ix_(same, same)] = left @ right
        return columns, rotation

    def _factors(self, t: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
        """The factor of each eigenfunction along one side, and its derivative: (n, m) each."""
        length, waves = self.lengths[side], self.waves[:, side]
        rates = (2 if self.periodic else 1) * np.pi * np.abs(waves) / length
        norm = np.sqrt(np.where(waves == 0, 1, 2) / length)
        phase = t[:, None] * rates - np.where(waves < 0, np.pi / 2, 0)  # a sine is a cosine a quarter later
        return norm * np.cos(phase), -norm * rates * np.sin(phase)


def flat_manifold(lengths: tuple[float, float], m: int, *, periodic: bool) -> Flat:
    """The first m eigenfunctions; m must not cut an eigenspace, whose members no sample can tell apart."""
    span = range(-m, m + 1) if periodic else range(m + 1)
    waves = np.array([pair for pair in product(span, span) if pair != (0, 0)])
    values = (((2 if periodic else 1) * np.pi * waves / np.array(lengths)) ** 2).sum(axis=1)
    order = np.lexsort((waves[:, 1], waves[:, 0], np.round(values, 9)))
    if values[order[m]] - values[order[m - 1]] < 1e-8 * values[order[m]]:
        raise ValueError(f"m={m} cuts an eigenspace of the sides {lengths}; take another m")
    return Flat(lengths, periodic, waves[order[:m]], values[order[:m]])
