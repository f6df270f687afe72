"""The comparisons with plain code see what they are for, and nothing else."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import radius_graph
from ies_gpu.backend.kernels import agreement, plain


def test_eigenpairs():
    H = np.diag([3.0, 2.0, 1.0])[None]
    U, values = np.eye(3)[None, :, :2], np.array([[3.0, 2.0]])
    assert agreement.eigenpairs(H, U, values, values) == 0
    assert agreement.eigenpairs(H, -U, values, values) == 0  # signs are arbitrary
    assert agreement.eigenpairs(H, U[:, :, ::-1], values, values) == pytest.approx(1 / 3)
    assert agreement.eigenpairs(H, U, values * 1.01, values) == pytest.approx(0.01)
    assert agreement.eigenpairs(H, U, values * np.nan, values) == np.inf


def test_products(rng):
    A = scipy.sparse.random(40, 30, 0.3, format="csr", rng=rng)
    for V in (rng.normal(size=30), rng.normal(size=(30, 4))):
        product = A @ V
        assert agreement.spmm(A.indptr, A.indices, A.data, V, product) == 0
        assert 1e-5 < agreement.spmm(A.indptr, A.indices, A.data, V, 1.001 * product) <= 1e-3
        product[3] = np.nan
        assert agreement.spmm(A.indptr, A.indices, A.data, V, product) == np.inf


def test_scores(rng):
    U = np.linalg.qr(rng.normal(size=(50, 6, 2)))[0]
    U[:, 0] = U[:, 1] = 0  # the set of both is all rounding
    sets = np.array(list(combinations(range(6), 2)))
    totals, best, score = np.zeros(len(sets)), np.empty(50, dtype=int), np.empty(50)
    plain.score_block(U, sets, totals, best, score)
    assert agreement.score_block(U, sets, totals, best, score) == 0
    assert agreement.score_block(U, sets, totals + 50 * (np.arange(len(sets)) == 0), best, score) == 0
    assert agreement.score_block(U, sets, totals + 0.5, best, score) == pytest.approx(0.01)
    assert agreement.score_block(U, sets, totals, best, score - 0.01) > 1e-3
    assert agreement.score_block(U, sets, totals, 0 * best, score) > 0.1
    assert agreement.score_block(U, sets, totals, best, np.where(np.arange(50) != 3, score, np.nan)) == np.inf


def test_rows_of_a_graph(rng):
    X = rng.uniform(size=(200, 3))
    graph = radius_graph(X, radius=0.4)
    row = np.append(graph.data[graph.indptr[7] : graph.indptr[8]], 0.0)
    assert agreement.graph_rows(X, [7], [row], 0.4) < 1e-15
    assert agreement.graph_rows(X, [7], [row[1:]], 0.4) > 1e-3
    assert agreement.graph_rows(X, [7], [1.001 * row], 0.4) == pytest.approx(1e-3 * row.mean() / 0.4)
    assert agreement.graph_rows(X, [7], [row * np.nan], 0.4) == np.inf
