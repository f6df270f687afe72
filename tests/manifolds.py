"""Small inputs: rectangles with their closed forms, flat cubes, random tangent bases and paths."""

import numpy as np

from ies_gpu.choice.criterion import candidate_subsets


def rectangle(n: int, ratio: float, *, noise: float = 0.0, seed: int = 0, degree: float = 150) -> tuple:
    """Points on [0, ratio] x [0, 1] in space, with the bandwidth that gives inner points ``degree`` neighbours."""
    rng = np.random.default_rng(seed)
    flat = rng.uniform(0, 1, (n, 2)) * [ratio, 1]
    bandwidth = np.sqrt(degree * ratio / (np.pi * n)) / 3
    points = np.column_stack([flat, np.zeros(n)]) + noise * bandwidth * rng.normal(size=(n, 3))
    return points, flat, bandwidth


def neumann(flat: np.ndarray, ratio: float, count: int) -> tuple[list[tuple[int, int]], np.ndarray, np.ndarray]:
    """The first non-constant eigenfunctions of [0, ratio] x [0, 1]: labels, eigenvalues, values (n, count)."""
    labels = [(a, b) for a in range(60) for b in range(60) if a + b > 0]
    labels = sorted(labels, key=lambda ab: (ab[0] / ratio) ** 2 + ab[1] ** 2)[:count]
    values = np.array([np.pi**2 * ((a / ratio) ** 2 + b**2) for a, b in labels])
    functions = [np.cos(np.pi * a * flat[:, 0] / ratio) * np.cos(np.pi * b * flat[:, 1]) for a, b in labels]
    return labels, values, np.column_stack(functions)


def identified(coordinates: np.ndarray, functions: np.ndarray) -> np.ndarray:
    """For each eigenvector, which exact function correlates most with it."""
    a = coordinates - coordinates.mean(axis=0)
    b = functions - functions.mean(axis=0)
    return np.abs((a / np.linalg.norm(a, axis=0)).T @ (b / np.linalg.norm(b, axis=0))).argmax(axis=1)


def plane(n: int, d: int, noise: float = 0.0, columns: int = 8, seed: int = 0) -> np.ndarray:
    """A flat cube of dimension d, rotated in space, with noise in every direction."""
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:d]
    return rng.uniform(-1, 1, (n, d)) @ frame + noise * rng.normal(size=(n, columns))


def frames(rng, n, m, d):
    return np.linalg.qr(rng.normal(size=(n, m, d)))[0]


def lines(rng, m=9, s=3):
    """Scores of all sets of s of m coordinates, the sets, and eigenvalues: lines whose upper envelope is the path."""
    sets = candidate_subsets(m, s)
    return -rng.exponential(2, len(sets)), sets, np.sort(rng.uniform(0.001, 0.1, m))
