"""Which rows stand for all of them: drawn with a seed, or evenly spaced, and the same on every device."""

from __future__ import annotations

import numpy as np


def sample_rows(n: int, size: int, seed: int) -> np.ndarray:
    """Numbers of at most ``size`` of n rows, drawn with the seed, rising."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=size, replace=False))


def spaced_rows(n: int, size: int) -> np.ndarray:
    """Numbers of at most ``size`` of n rows, evenly spaced, the first and the last among them."""
    return np.linspace(0, n - 1, min(n, size)).astype(int)
