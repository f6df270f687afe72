"""Results computed again by other means, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import select_coordinates
from tests.backends import to_host

pytest.importorskip("hypothesis", reason="pip install 'ies-gpu[test]' brings hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SIZES = {"intrinsic_dim": 2, "subset_size": 2, "n_components": 6}
few = settings(max_examples=8, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def strip(seed: int, aspect: float, n: int = 300) -> tuple[np.ndarray, float]:
    """Points of a strip, bent a little into the third dimension, and a bandwidth with about 40 neighbours."""
    flat = np.random.default_rng(seed).uniform(size=(n, 2)) * [aspect, 1.0]
    return np.column_stack([flat, 0.1 * np.sin(flat[:, 0])]), float(np.sqrt(40 * aspect / (np.pi * n)) / 3)


def naive_transition(X, bandwidth):
    """The transition matrix and the eigenvalues of the Laplacian, dense, straight from the paper's formulas."""
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.where(squares <= (3 * bandwidth) ** 2, np.exp(-squares / bandwidth**2), 0.0)
    w = K.sum(axis=1)
    K = K / np.outer(w, w)
    P = K / K.sum(axis=1, keepdims=True)
    return P, np.sort(1 - np.linalg.eigvals(P).real)


def naive_scores(Y, P, subsets, d=2):
    """Mean scores of sets, point by point."""
    totals = np.zeros(len(subsets))
    for i in range(len(Y)):
        steps = Y - Y[i]
        U = np.linalg.eigh((P[i][:, None] * steps).T @ steps)[1][:, ::-1][:, :d]
        for q, subset in enumerate(subsets):
            part = U[list(subset)]
            part = part / np.linalg.norm(part, axis=0)
            totals[q] += 0.5 * np.log(max(np.linalg.det(part.T @ part), 1e-30))
    return totals / len(Y)


@few
@given(st.integers(0, 2**31), st.floats(1.3, 4.0))
def test_an_independent_computation_agrees(seed, aspect):
    X, bandwidth = strip(seed, aspect)
    found = select_coordinates(X, bandwidth=bandwidth, disconnected="raise", **SIZES)
    P, eigenvalues = naive_transition(X, bandwidth)
    np.testing.assert_allclose(found.eigenvalues, eigenvalues[1:7], rtol=1e-6)
    residuals = P @ found.coordinates - (1 - found.eigenvalues) * found.coordinates
    assert np.abs(residuals).max() < 1e-7
    stationary = np.linalg.svd(P.T - np.eye(len(P)))[2][-1]
    gram = found.coordinates.T @ (np.abs(stationary)[:, None] * found.coordinates)
    scale = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(gram / np.outer(scale, scale), np.eye(6), atol=1e-6)
    sets = [(0, k) for k in range(1, 6)]
    scores = naive_scores(found.coordinates, P, sets)
    own = dict(zip(map(tuple, found.ranking.subsets.tolist()), found.ranking.scores, strict=True))
    np.testing.assert_allclose([own[s] for s in sets], scores, atol=1e-5)
    losses = scores - found.zeta * np.array([found.eigenvalues[list(s)].sum() for s in sets])
    assert losses[sets.index(found.subset)] >= losses.max() - 1e-6


MOVES = {
    "permutation": lambda X, rng: (rng.permutation(len(X)), X, 1.0),
    "rotation": lambda X, rng: (None, X @ np.linalg.qr(rng.normal(size=(3, 3)))[0], 1.0),
    "translation": lambda X, rng: (None, X + rng.normal(size=3) * 100, 1.0),
    "scaling": lambda X, rng: (None, X * 2.0**20, 2.0**20),
}


@pytest.mark.parametrize("move", MOVES)
def test_moved_points_give_the_same_choice(move, backend):
    X, bandwidth = strip(7, 2.3)
    order, moved, unit = MOVES[move](X, np.random.default_rng(1))
    moved = moved if order is None else moved[order]
    first = select_coordinates(backend.asarray(X), bandwidth=bandwidth, **SIZES)
    second = select_coordinates(backend.asarray(moved), bandwidth=bandwidth * unit, **SIZES)
    assert first.subset == second.subset
    np.testing.assert_allclose(to_host(second.eigenvalues), to_host(first.eigenvalues), rtol=1e-6)
    expected = np.abs(to_host(first.coordinates) if order is None else to_host(first.coordinates)[order])
    np.testing.assert_allclose(np.abs(to_host(second.coordinates)), expected, atol=1e-5)
