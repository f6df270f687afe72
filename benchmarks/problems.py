"""The inputs that everything is measured on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ies_gpu import datasets
from ies_gpu.backend import Backend
from ies_gpu.embedding.graph import ordered_radius_graph, spatial_order
from ies_gpu.embedding.laplacian import Laplacian, SparseMatrix, apply_gaussian, normalise


def strip(n: int, degree: float = 158, noise: float = 0.2) -> tuple[np.ndarray, float]:
    """D1's strip with a bandwidth scaled so that inner points have about ``degree`` neighbours at any n.

    The noise is given in bandwidths: with 0.2, as D1 has it; with 0.6, fewer neighbours, and hardly any in the tails.
    """
    rng = np.random.default_rng(5)
    bandwidth = 0.25 * np.sqrt(1e4 / n * degree / 158)
    flat = np.column_stack([rng.uniform(-4 * np.pi, 4 * np.pi, n), rng.uniform(-2, 2, n), np.zeros(n)])
    return flat + rng.normal(0, noise * bandwidth, (n, 3)), bandwidth


def wide_torus(n: int) -> tuple[np.ndarray, float]:
    """D8."""
    data = datasets.load("D8", n_samples=n)
    return data.X, data.bandwidth


def torus_in_100_columns(n: int) -> tuple[np.ndarray, float]:
    """D7's noiseless torus, mapped isometrically into 100 columns, with noise of .05 in each."""
    rng = np.random.default_rng(7)
    surface = datasets.load("D7", n_samples=n).truth
    frame = np.linalg.qr(rng.normal(size=(100, 3)))[0]
    return surface @ frame.T + rng.normal(0, 0.05, (n, 100)), 0.6


def ordered_laplacian(X: np.ndarray, bandwidth: float, backend: Backend) -> tuple[Laplacian, Any]:
    """The Laplacian of points in spatial order, and that order."""
    with backend.active():
        order = spatial_order(X)
        graph = ordered_radius_graph(X[order], 3 * bandwidth, diagonal=True)
        return normalise(SparseMatrix(apply_gaussian(graph, bandwidth)), bandwidth), order
