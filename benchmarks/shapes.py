"""Data sets of different kinds with their truth, and the lists of cases behind the thresholds of the automatic choice.

``TUNED`` are the cases that were looked at while rules and thresholds were settled. ``SET_ASIDE`` were listed before
any threshold of the verdict was settled, and have been used only to check it. ``UNEVEN`` were listed before it was
settled when the automatic choice tries a bandwidth that follows the density, and have been used only to check that
(with other seeds than those that had been seen when the last rule was added). ``AFRESH`` were listed before the verdict
went by the worst local direction, and have been used only to check it. ``GIVEN`` were listed before runs from graphs
and kernels had a verdict: with the true dimension, a graph within three bandwidths, a kernel of 30 nearest neighbours,
and points with half and twice the bandwidth that gives a point 6 % of all points as neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

Columns = dict[str, np.ndarray]
ANGLES = ("alpha", "beta", "tau1", "tau2")


class Shape(NamedTuple):
    """Points, the dimension of the shape, and its true coordinates by name; angles are called alpha and beta."""

    X: np.ndarray
    intrinsic_dim: int
    truth: Columns


def load(name: str, n: int, seed: int) -> Shape:
    """Points of a shape by its name."""
    make, dimension = (SHAPES | UNEVEN_SHAPES | FRESH_SHAPES)[name]
    X, truth = make(n, np.random.default_rng(1000 + seed))
    return Shape(X, dimension, truth)


def flat(n: int, rng: Generator, *sides: float) -> tuple[np.ndarray, Columns]:
    points = rng.uniform(0, 1, (n, len(sides))) * sides
    return points, dict(zip("xyz", points.T, strict=False))


def noisy(points: np.ndarray, rng: Generator, size: float, columns: int = 1) -> np.ndarray:
    """The points with columns of noise beside them."""
    return np.column_stack([points, size * rng.normal(size=(len(points), columns))])


def turned(points: np.ndarray, rng: Generator, columns: int, noise: float) -> np.ndarray:
    """The points in a space of many dimensions, with noise in all of them."""
    frame = np.linalg.qr(rng.normal(size=(columns, points.shape[1])))[0]
    return points @ frame.T + noise * rng.normal(size=(len(points), columns))


def strip(n: int, rng: Generator, length: float = 8.0) -> tuple[np.ndarray, Columns]:
    points, truth = flat(n, rng, length, 1)
    return noisy(points, rng, 0.02), truth


def swiss_roll(n: int, rng: Generator, noise: float = 0.0) -> tuple[np.ndarray, Columns]:
    t, y = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n)), 21 * rng.uniform(size=n)
    X = np.column_stack([t * np.cos(t), y, t * np.sin(t)])
    return X + noise * rng.normal(size=X.shape), {"t": t, "y": y}


def s_curve(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    t, y = 3 * np.pi * (rng.uniform(size=n) - 0.5), 2 * rng.uniform(size=n)
    return np.column_stack([np.sin(t), y, np.sign(t) * (np.cos(t) - 1)]), {"t": t, "y": y}


def torus(n: int, rng: Generator, tube: float = 1.0) -> tuple[np.ndarray, Columns]:
    a, b = rng.uniform(0, 2 * np.pi, (2, n))
    ring = 3 + tube * np.cos(a)
    return np.column_stack([ring * np.cos(b), ring * np.sin(b), tube * np.sin(a)]), {"alpha": a, "beta": b}


def flat_torus(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a, b = rng.uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([2 * np.cos(a), 2 * np.sin(a), np.cos(b), np.sin(b)]), {"alpha": a, "beta": b}


def sphere(n: int, rng: Generator, *axes: float) -> tuple[np.ndarray, Columns]:
    X = rng.normal(size=(n, 3))
    X = X / np.linalg.norm(X, axis=1)[:, None] * (axes or (1, 1, 1))
    return X, dict(zip("xyz", X.T, strict=True))


def cap(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a, z = rng.uniform(0, 2 * np.pi, n), rng.uniform(0.2, 1, n)
    r = np.sqrt(1 - z * z)
    X = np.column_stack([3 * r * np.cos(a), r * np.sin(a), z])
    return X, {"x": X[:, 0], "y": X[:, 1]}


def cylinder(n: int, rng: Generator, length: float = 8.0) -> tuple[np.ndarray, Columns]:
    b, z = rng.uniform(0, 2 * np.pi, n), rng.uniform(0, length, n)
    return np.column_stack([np.cos(b), np.sin(b), z]), {"beta": b, "z": z}


def circle(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(a), np.sin(a)]) + 0.02 * rng.normal(size=(n, 2)), {"alpha": a}


def spiral(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    t = rng.uniform(0.1, 1, n)
    return np.column_stack([t * np.cos(9 * t), t * np.sin(9 * t)]) + 0.003 * rng.normal(size=(n, 2)), {"t": t}


def helix(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    t = rng.uniform(0, 6 * np.pi, n)
    X = np.column_stack([np.cos(t), np.sin(t), 0.3 * t])
    return X + 0.01 * rng.normal(size=X.shape), {"t": t}


def wave(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    points, truth = flat(n, rng, 6, 1)
    return np.column_stack([points, 0.5 * np.sin(2 * points[:, 0])]), truth


def disc(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a, r = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.uniform(0, 1, n))
    x, y = 3 * r * np.cos(a), r * np.sin(a)
    return np.column_stack([x, y, 0.03 * x * x]), {"x": x, "y": y}


def ring(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a, r = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.uniform(0.25, 1, n))
    X = np.column_stack([r * np.cos(a), r * np.sin(a)])
    return X, {"x": X[:, 0], "y": X[:, 1]}


def gaussian(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    points = rng.normal(size=(n, 2)) * [4, 1]
    return noisy(points, rng, 0.05), {"x": points[:, 0], "y": points[:, 1]}


def uneven(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    x, y = np.exp(3 * rng.uniform(0, 1, n)), rng.uniform(0, 2, n)
    return np.column_stack([x, y]), {"x": x, "y": y}


def in_thirty(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    points, truth = flat(n, rng, 5, 1)
    return turned(points, rng, 30, 0.03), truth


def box(n: int, rng: Generator, *sides: float) -> tuple[np.ndarray, Columns]:
    return flat(n, rng, *(sides or (3, 2, 1)))


def with_outliers(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    X, truth = strip(n, rng)
    X[: n // 100] += 20 * rng.normal(size=(n // 100, 3))
    return X, truth


def tree(n: int, rng: Generator, noise: float = 0.08) -> tuple[np.ndarray, Columns]:
    arm, t = rng.integers(0, 3, n), rng.uniform(0, 1, n)
    arms = np.eye(3)[arm] * t[:, None]
    return turned(arms, rng, 20, noise), dict(zip(("arm1", "arm2", "arm3"), arms.T, strict=True))


def mobius(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    b, w = rng.uniform(0, 2 * np.pi, n), rng.uniform(-0.5, 0.5, n)
    r = 2 + w * np.cos(b / 2)
    X = np.column_stack([r * np.cos(b), r * np.sin(b), w * np.sin(b / 2)])
    return X, {"beta": b, "z": X[:, 2]}


def exponential(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    x, y = rng.exponential(1.0, n), rng.uniform(0, 1, n)
    return np.column_stack([x, y]), {"x": x, "y": y}


def two_densities(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    points = flat(n, rng, 3, 1)[0]
    points[: n * 9 // 10, 0] /= 3  # nine in ten points in the first third, the others all over
    return noisy(points, rng, 0.01), dict(zip("xy", points.T, strict=True))


def uneven_roll(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    t, y = 1.5 * np.pi * (1 + 2 * rng.beta(1, 4, n)), 21 * rng.uniform(size=n)
    return np.column_stack([t * np.cos(t), y, t * np.sin(t)]), {"t": t, "y": y}


def heavy_tails(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    points = rng.standard_t(5, (n, 2)) * [2, 1]
    return noisy(points, rng, 0.05), {"x": points[:, 0], "y": points[:, 1]}


def dense_pole(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a, z = rng.uniform(0, 2 * np.pi, n), 1 - 2 * rng.beta(0.5, 2, n)
    r = np.sqrt(1 - z * z)
    X = np.column_stack([r * np.cos(a), r * np.sin(a), z])
    return X, dict(zip("xyz", X.T, strict=True))


def dense_arc(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    a = rng.vonmises(0, 1.5, n)
    return np.column_stack([np.cos(a), np.sin(a)]) + 0.01 * rng.normal(size=(n, 2)), {"alpha": a}


def ball(n: int, rng: Generator, d: int) -> tuple[np.ndarray, Columns]:
    X = rng.normal(size=(n, d))
    X *= (rng.uniform(size=n) ** (1 / d) / np.linalg.norm(X, axis=1))[:, None]
    return X, {f"x{k}": column for k, column in enumerate(X.T)}


def cube(n: int, rng: Generator, d: int, columns: int) -> tuple[np.ndarray, Columns]:
    points = rng.uniform(size=(n, d))
    return turned(points, rng, columns, 0.01), {f"x{k}": column for k, column in enumerate(points.T)}


def twisted_ribbon(n: int, rng: Generator, turns: float) -> tuple[np.ndarray, Columns]:
    t, w = rng.uniform(0, 10, n), rng.uniform(-0.5, 0.5, n)
    a = 2 * np.pi * turns * t / 10
    return np.column_stack([t, w * np.cos(a), w * np.sin(a)]), {"t": t, "w": w}


def spiral_band(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    t, w = np.sqrt(rng.uniform(0.15, 1, n)) * 4 * np.pi, rng.uniform(0, 4, n)
    return np.column_stack([t * np.cos(t), t * np.sin(t), w]) / 4, {"t": t, "w": w}


def arc_band(n: int, rng: Generator, length: float) -> tuple[np.ndarray, Columns]:
    a, w = rng.uniform(0, 1.5 * np.pi, n), rng.uniform(-0.5, 0.5, n)
    r = length / (1.5 * np.pi) + w
    return np.column_stack([r * np.cos(a), r * np.sin(a)]), {"a": a, "w": w}


def noisy_curve(n: int, rng: Generator, noise: float) -> tuple[np.ndarray, Columns]:
    t = rng.uniform(0, 2 * np.pi, n)
    X = np.column_stack([t, 2 * np.sin(t), np.cos(2 * t)])
    return X + noise * rng.normal(size=X.shape), {"t": t}


def other_units(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    points, truth = flat(n, rng, 4, 3)
    return points * [1.0, 100.0], truth


def clusters(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    centres = rng.normal(size=(4, 5)) * 3
    X = centres[rng.integers(0, 4, n)] + rng.normal(size=(n, 5))
    return X, {f"x{k}": column for k, column in enumerate(X.T)}


def windows(n: int, rng: Generator) -> tuple[np.ndarray, Columns]:
    """Windows of 8 x 8 pixels that move over a smooth picture of random waves."""
    x, y = rng.uniform(0, 3, n), rng.uniform(0, 1, n)
    waves, phases = rng.normal(size=(2, 12)) * 1.2, rng.uniform(0, 2 * np.pi, 12)
    pixels = np.stack(np.meshgrid(*[np.linspace(0, 1, 8)] * 2), axis=-1).reshape(-1, 2)
    at = np.column_stack([x, y])[:, None, :] + pixels
    return np.cos(at @ waves + phases).sum(axis=2), {"x": x, "y": y}


Maker = Callable[..., tuple[np.ndarray, Columns]]
SHAPES: dict[str, tuple[Maker, int]] = {
    "strip": (strip, 2),
    "square": (lambda n, rng: strip(n, rng, 1.0), 2),
    "short strip": (lambda n, rng: strip(n, rng, 3.0), 2),
    "swiss roll": (swiss_roll, 2),
    "noisy swiss roll": (lambda n, rng: swiss_roll(n, rng, 0.3), 2),
    "S curve": (s_curve, 2),
    "wave": (wave, 2),
    "disc": (disc, 2),
    "ring": (ring, 2),
    "cap": (cap, 2),
    "Gaussian": (gaussian, 2),
    "uneven density": (uneven, 2),
    "strip in 30-D": (in_thirty, 2),
    "outliers": (with_outliers, 2),
    "sphere": (sphere, 2),
    "ellipsoid": (lambda n, rng: sphere(n, rng, 4, 2, 1), 2),
    "torus": (torus, 2),
    "fat torus": (lambda n, rng: torus(n, rng, 2.6), 2),
    "flat torus": (flat_torus, 2),
    "cylinder": (cylinder, 2),
    "short cylinder": (lambda n, rng: cylinder(n, rng, 3.0), 2),
    "Moebius strip": (mobius, 2),
    "circle": (circle, 1),
    "spiral": (spiral, 1),
    "helix": (helix, 1),
    "box": (box, 3),
    "long box": (lambda n, rng: box(n, rng, 6, 2, 2), 3),
    "tree": (tree, 1),
    "noisy tree": (lambda n, rng: tree(n, rng, 0.15), 1),
}
UNEVEN_SHAPES: dict[str, tuple[Maker, int]] = {
    "exponential": (exponential, 2),
    "two densities": (two_densities, 2),
    "uneven roll": (uneven_roll, 2),
    "heavy tails": (heavy_tails, 2),
    "dense pole": (dense_pole, 2),
    "dense arc": (dense_arc, 1),
}
FRESH_SHAPES: dict[str, tuple[Maker, int]] = {
    "strip 10": (lambda n, rng: strip(n, rng, 10.0), 2),
    "strip 14": (lambda n, rng: strip(n, rng, 14.0), 2),
    "strip 20": (lambda n, rng: strip(n, rng, 20.0), 2),
    "strip 30": (lambda n, rng: strip(n, rng, 30.0), 2),
    "half-twisted ribbon": (lambda n, rng: twisted_ribbon(n, rng, 0.5), 2),
    "twisted ribbon": (lambda n, rng: twisted_ribbon(n, rng, 1.0), 2),
    "spiral band": (spiral_band, 2),
    "arc band": (lambda n, rng: arc_band(n, rng, 9.0), 2),
    "slab": (lambda n, rng: box(n, rng, 5, 3, 1), 3),
    "thin slab": (lambda n, rng: box(n, rng, 8, 4, 1), 3),
    "cube in 12-D": (lambda n, rng: cube(n, rng, 3, 12), 3),
    "4-cube": (lambda n, rng: cube(n, rng, 4, 8), 4),
    "5-cube": (lambda n, rng: cube(n, rng, 5, 8), 5),
    "3-ball": (lambda n, rng: ball(n, rng, 3), 3),
    "4-ball": (lambda n, rng: ball(n, rng, 4), 4),
    "5-ball": (lambda n, rng: ball(n, rng, 5), 5),
    "noisy curve": (lambda n, rng: noisy_curve(n, rng, 0.05), 1),
    "wide curve": (lambda n, rng: noisy_curve(n, rng, 0.25), 1),
    "other units": (other_units, 2),
    "clusters": (clusters, 5),
    "moving windows": (windows, 2),
    "long cylinder": (lambda n, rng: cylinder(n, rng, 14.0), 2),
}

TUNED = [
    *((name, n, seed) for name in ("swiss roll", "torus", "S curve", "strip") for n in (500, 1000) for seed in (0, 1)),
    *((name, n, 0) for name in ("sphere", "cylinder", "square", "wave", "disc", "Gaussian") for n in (500, 2000)),
    *((name, 1000, 0) for name in ("circle", "spiral", "box", "Moebius strip", "strip in 30-D", "tree")),
]
SET_ASIDE = [(name, n, seed) for name in SHAPES for n, seed in ((300, 7), (800, 8), (2000, 9), (4000, 10))]
UNEVEN = [
    (name, n, seed)
    for name in ("Gaussian", "uneven density", *UNEVEN_SHAPES)
    for n, seed in ((300, 37), (800, 38), (2000, 39), (4000, 40))
]
AFRESH = [
    (name, n, seed) for name in FRESH_SHAPES for n, seed in ((500, 51), (900, 52), (1300, 53), (2000, 54), (3000, 55))
]
AFRESH += [(name, n, seed) for name in SHAPES for n, seed in ((700, 56), (1500, 57))]
GIVEN = [
    (f"{way}/{name}", n, seed)
    for way, n, seed in (("graph", 1200, 61), ("kernel", 1800, 62), ("half", 1500, 63), ("twice", 1000, 64))
    for name in SHAPES | FRESH_SHAPES
]
