"""D1 to D13: strips, rolls, a cube and tori that are longer in one direction than in the others.

Parameters are those of the authors' published experiment, not always those of the supplement. N(0, x) has deviation x.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..choice.criterion import names_text
from ..validation import check_choice, check_integer, check_seed

Sample = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Dataset:
    """A data set with what is known about it.

    Attributes
    ----------
    name, title : str
        Such as "D1" and "strip".
    X : ndarray of shape (n_samples, n_features)
        The points.
    truth : ndarray of shape (n_samples, n_true)
        Flat coordinates for D1 to D6, the noiseless surface for the tori.
    colors : dict of {str: ndarray of shape (n_samples,)}
        True parameters by name.
    bandwidth : float
        The bandwidth that the paper's authors used for their number of points.
    intrinsic_dim, subset_size : int
        The dimension d and the number of coordinates s that they used.
    reference_subset : tuple of int
        The set they report, 0-based.
    """

    name: str
    title: str
    X: np.ndarray
    truth: np.ndarray
    colors: dict[str, np.ndarray]
    bandwidth: float
    intrinsic_dim: int
    subset_size: int
    reference_subset: tuple[int, ...]

    def __repr__(self) -> str:
        (n, D), chosen = self.X.shape, names_text(self.reference_subset)
        known = f"bandwidth={self.bandwidth}, intrinsic_dim={self.intrinsic_dim}, subset_size={self.subset_size}"
        return f"Dataset({self.name}, {self.title}: {n} x {D}, {known}, the paper chooses {chosen})"


def strip(rng: np.random.Generator, n: int, *, half: Any, hole: Any = None, roll: bool = False) -> Sample:
    """Draw a noisy flat strip (n, 3), without the points in a central hole (as noisy as they are), and roll it up."""
    flat = np.column_stack([rng.uniform(-half[0], half[0], n), rng.uniform(-half[1], half[1], n), np.zeros(n)])
    points = flat + rng.normal(0, 0.05, (n, 3))
    if hole is not None:
        points = points[(np.abs(points[:, 0]) > hole[0]) | (np.abs(points[:, 1]) > hole[1])]
    known = points[:, :2], {"x": points[:, 0], "y": points[:, 1]}
    if roll:
        t = points[:, 0] - points[:, 0].min()
        points = np.column_stack([t * np.cos(t) / 2, points[:, 1], t * np.sin(t) / 2])
    return points, *known


def gaussian(rng: np.random.Generator, n: int) -> Sample:
    """Draw a noisy hill over an ellipse."""
    points = strip(rng, round(1.3 * n), half=LONG)[0]  # about n of them lie inside the ellipse
    squared = (points[:, 0] / (2 * np.pi)) ** 2 + points[:, 1] ** 2
    points, squared = points[squared < 4], squared[squared < 4]
    hill = np.column_stack([points[:, :2], np.exp(-squared / 2)])
    return hill + rng.normal(0, 0.1, hill.shape), points[:, :2], {"x": points[:, 0], "y": points[:, 1]}


def cube(rng: np.random.Generator, n: int) -> Sample:
    """Draw a box with a fourth column of noise."""
    box = rng.uniform(-1, 1, (n, 3)) * [1, 2, 4]
    X = np.column_stack([box, rng.normal(0, 0.05, n)])
    return X, box, {"x": box[:, 0], "y": box[:, 1], "z": box[:, 2]}


def torus(rng: np.random.Generator, n: int, *, size: Any, bend: Any = None, noise: float = 0.1) -> Sample:
    """Draw a torus, which ``bend`` makes asymmetric in a column: ``x <- (x - min x)^power / divisor``, then centred."""
    (a, b, h), (alpha, beta) = size, rng.uniform(0, 2 * np.pi, (2, n))
    ring = a + b * np.cos(alpha)
    truth = np.column_stack([ring * np.cos(beta), ring * np.sin(beta), b * h * np.sin(alpha)])
    X = _noisy(rng, truth, noise) if noise else truth.copy()
    if bend is not None:
        column, power, divisor = bend
        for points in (X, truth):
            points[:, column] = (points[:, column] - points[:, column].min()) ** power / divisor
        X, truth = X - X.mean(axis=0), truth - truth.mean(axis=0)
    return X, truth, {"alpha": alpha, "beta": beta}


def three_torus(rng: np.random.Generator, n: int) -> Sample:
    """Draw a three-dimensional torus in four dimensions."""
    a1, a2, a3 = rng.uniform(0, 2 * np.pi, (3, n))
    tube = 2 + np.cos(a1)
    ring = 8 + tube * np.cos(a2)
    surface = np.column_stack([np.sin(a1), tube * np.sin(a2), ring * np.sin(a3), ring * np.cos(a3)])
    return _noisy(rng, surface), surface, {"alpha1": a1, "alpha2": a2, "alpha3": a3}


def _noisy(rng: np.random.Generator, surface: np.ndarray, noise: float = 0.1) -> np.ndarray:
    """Add N(0, noise) to a surface, and ten more columns of N(0, 0.5)."""
    noisy = surface + rng.normal(0, noise, surface.shape)
    return np.column_stack([noisy, rng.normal(0, 0.5, (len(surface), 10))])


LONG, SHORT = (4 * np.pi, 2.0), (6.0, 2.0)
HIGH, WIDE = (3.0, 2.0, 8.0), (10.0, 2.0, 2.0)
N = 10_000  # points of most sets
# name: title, sampler with its arguments, eps, d, s, the set the paper reports (counted from 1), n
TABLE: dict[str, tuple[Any, ...]] = {
    "D1": ("strip", strip, {"half": LONG}, 0.25, 2, 2, (1, 7), N),
    "D2": ("strip with cavity", strip, {"half": LONG, "hole": (2 * np.pi / 3, 2 / 3)}, 0.25, 2, 2, (1, 4), N),
    "D3": ("swiss roll", strip, {"half": SHORT, "roll": True}, 1.0, 2, 2, (1, 9), N),
    "D4": ("swiss roll with cavity", strip, {"half": SHORT, "hole": (1, 1 / 3), "roll": True}, 1.0, 2, 2, (1, 8), N),
    "D5": ("gaussian manifold", gaussian, {}, 0.5, 2, 2, (1, 6), N),
    "D6": ("cube", cube, {}, 0.5, 3, 3, (1, 2, 8), N),
    "D7": ("high torus", torus, {"size": HIGH}, 1.5, 2, 3, (1, 4, 5), N),
    "D8": ("wide torus", torus, {"size": WIDE}, 1.5, 2, 3, (1, 2, 7), N),
    "D9": ("z-asymmetric high torus", torus, {"size": HIGH, "bend": (2, 3, 1500), "noise": 0}, 1.0, 2, 3, (1, 3, 4), N),
    "D10": ("x-asymmetric high torus", torus, {"size": HIGH, "bend": (0, 2, 10), "noise": 0}, 1.0, 2, 3, (1, 2, 4), N),
    "D11": ("z-asymmetric wide torus", torus, {"size": WIDE, "bend": (2, 3, 50)}, 2.0, 2, 3, (1, 2, 5), N),
    "D12": ("x-asymmetric wide torus", torus, {"size": WIDE, "bend": (0, 3, 1000)}, 2.0, 2, 3, (1, 2, 5), N),
    "D13": ("three-torus", three_torus, {}, 4.0, 3, 4, (1, 2, 5, 10), 50_000),
}


def bandwidth_for(name: str, n: int) -> float:
    """Return a bandwidth at which n points of a set have as many neighbours as the paper's."""
    bandwidth, d, *_, usual = TABLE[name][3:]
    return bandwidth * (usual / n) ** (1 / d)


def names() -> tuple[str, ...]:
    """List the synthetic data sets that :func:`load` takes.

    Returns
    -------
    tuple of str
        "D1" to "D13".

    Examples
    --------
    >>> from ies_gpu import datasets
    >>> datasets.names()[:3]
    ('D1', 'D2', 'D3')
    """
    return tuple(TABLE)


def load(name: str, n_samples: int | None = None, random_state: Any = 0) -> Dataset:
    """Draw points from one of the paper's synthetic manifolds.

    Parameters
    ----------
    name : str
        "D1" to "D13"; "d1" is the same.
    n_samples : int, optional
        How many points to draw; 10,000 by default, 50,000 for D13. Sets with a cavity end up with a few less, D5 with
        a few more.
    random_state : int, RandomState, Generator or None, default=0
        Seed.

    Returns
    -------
    Dataset
        The points, the truth, and the parameters that the paper's authors used.

    Examples
    --------
    >>> from ies_gpu import datasets
    >>> datasets.load("D1", n_samples=400)
    Dataset(D1, strip: 400 x 3, bandwidth=0.25, intrinsic_dim=2, subset_size=2, the paper chooses phi1, phi7)
    """
    name = check_choice("name", name.upper() if isinstance(name, str) else name, names())
    title, sample, shape, bandwidth, d, s, chosen, n = TABLE[name]
    n = n if n_samples is None else check_integer("n_samples", n_samples, low=2, high=10**9)
    seed = random_state if isinstance(random_state, np.random.Generator) else check_seed(random_state)
    X, truth, colors = sample(np.random.default_rng(seed), n, **shape)
    return Dataset(name, title, X, truth, colors, bandwidth, d, s, tuple(k - 1 for k in chosen))
