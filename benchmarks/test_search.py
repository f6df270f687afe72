"""Scores of all sets, path, regret and choice, for 20,000 points (2,000 where there are 969 sets)."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.choice.criterion import all_sets, candidate_subsets, score_pass
from ies_gpu.choice.rmetric import tangents
from ies_gpu.choice.search import independent_coordinates


@pytest.mark.parametrize(("d", "s"), [(2, 2), (2, 3), (3, 4)])
def test_scores(benchmark, backend, d, s):
    n = 20_000 if s < 4 else 2_000  # 969 sets are slow on plain code
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(n, 20, d)))[0]
    benchmark(score_pass, U, candidate_subsets(20, s))


def test_path_regret_choice(benchmark, problem, backend):
    U, _ = tangents(problem.embedding.coordinates, problem.laplacian, 2, backend)
    sets = all_sets(20, 2)
    known = sets, score_pass(U, sets.subsets)
    benchmark(independent_coordinates, U, problem.embedding.eigenvalues, 2, do=lambda *_: known)
