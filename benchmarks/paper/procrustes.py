"""The distance of a map from a known truth."""

from __future__ import annotations

import numpy as np


def procrustes_error(truth: np.ndarray, embedding: np.ndarray) -> float:
    """Return ``M^2``: the sum of squares left after the best shift, scaling, rotation and reflection, from 0 to 1.

    ``1 - (sum of singular values of A' B)^2`` with both sides centred and of unit Frobenius norm. Reflections are
    allowed because the signs of eigenvectors are arbitrary. The numbers of columns (n, p) and (n, q) may differ.
    """
    sides = []
    for part in (truth, embedding):
        part = np.asarray(part, dtype=float) - np.mean(part, axis=0)
        sides.append(part / np.linalg.norm(part))
    overlap = float(np.linalg.svd(sides[0].T @ sides[1], compute_uv=False).sum())
    return max(0.0, 1 - overlap**2)
