"""A random problem, the steps that lead to its result, and two things that all checks need."""

# ruff: noqa: N802, the names are those of the paper
import itertools
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import ies_gpu


class Problem:
    """A few points of a strip, an arc or a ring with a connected graph; what follows, dense and as steps find it."""

    def __init__(self, seed: int, shape: str, n: int, m: int, d: int, alpha: float, self_loops: bool) -> None:
        self.n, self.m, self.d, self.s = n, m, d, d + seed % 2
        self.alpha, self.self_loops = alpha, self_loops
        self.rng = np.random.default_rng(seed)
        along, across = self.rng.uniform(size=(2, n))
        turn = {"strip": 0.01, "arc": 3.0, "ring": 2 * np.pi}[shape]
        angle, reach = along * turn, 3.0 / turn + 0.8 * across
        self.X = np.column_stack([reach * np.cos(angle), reach * np.sin(angle), 0.02 * self.rng.normal(size=n)])
        longest = scipy.sparse.csgraph.minimum_spanning_tree(self.D).data.max()
        self.radius = 1.000001 * float(max(1.2 * longest, np.quantile(self.D, 0.12)))  # at no distance itself
        self.eps = self.radius / 3
        self.sizes = {"intrinsic_dim": self.d, "subset_size": self.s, "n_components": m}
        self.kernel_options = {"bandwidth": self.eps, "alpha": alpha, "self_loops": self_loops}

    @cached_property
    def D(self) -> np.ndarray:
        return cdist(self.X, self.X)

    @cached_property
    def graph(self) -> np.ndarray:
        return np.where(self.radius >= self.D, self.D, 0.0)

    @cached_property
    def K(self) -> np.ndarray:
        return np.where(self.radius >= self.D, np.exp(-((self.D / self.eps) ** 2)), 0.0)

    @cached_property
    def own(self) -> np.ndarray:
        return self.K if self.self_loops else self.K - np.eye(self.n)

    @cached_property
    def renormalised(self) -> np.ndarray:
        w = self.own.sum(axis=1) ** self.alpha
        return self.own / np.outer(w, w)

    @cached_property
    def P(self) -> np.ndarray:
        return self.renormalised / self.weights[:, None]

    @cached_property
    def weights(self) -> np.ndarray:
        """By which the eigenvectors of P are orthogonal."""
        return self.renormalised.sum(axis=1)

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        root = np.sqrt(self.weights)
        S = root[:, None] * self.P / root
        return np.linalg.eigvalsh(np.eye(self.n) - 0.5 * (S + S.T))

    @cached_property
    def L(self) -> Any:
        return ies_gpu.laplacian_of_points(self.X, **self.kernel_options)

    @cached_property
    def map(self) -> Any:
        return ies_gpu.diffusion_map(self.L, n_components=self.m)

    @cached_property
    def U(self) -> np.ndarray:
        return ies_gpu.tangent_bases(self.map.coordinates, self.L, intrinsic_dim=self.d)

    @cached_property
    def selection(self) -> Any:
        return ies_gpu.select_coordinates(self.X, **self.kernel_options, **self.sizes, keep_bases=True, device="cpu")

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        return [(0, *rest) for rest in itertools.combinations(range(1, self.m), self.s - 1)]

    @cached_property
    def volumes(self) -> np.ndarray:
        return np.column_stack([log_volumes(self.U, chosen) for chosen in self.sets])

    @cached_property
    def penalties(self) -> np.ndarray:
        return np.array([self.map.eigenvalues[list(chosen)].sum() for chosen in self.sets])


def log_volumes(U: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    """Point by point: columns of the rows S of U scaled to length 1, half the log determinant of their Gram matrix."""
    found = []
    for u in U:
        part = u[list(chosen)]
        lengths = np.linalg.norm(part, axis=0)
        part = part / np.where(lengths > 0, lengths, 1)
        found.append(0.5 * np.log(max(np.linalg.det(part.T @ part), 1e-300)))
    return np.array(found)


def same(found: Any, expected: Any, tol: float = 1e-9) -> None:
    scale = max(1e-12, float(np.abs(expected).max(initial=0.0)))
    assert_allclose(np.asarray(found), expected, rtol=tol, atol=tol * scale)
