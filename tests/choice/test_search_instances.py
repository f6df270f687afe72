"""The searches against enumeration on many instances: tangent bases of D1 to D12, and frames without structure."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

from ies_gpu import (
    IESWarning,
    datasets,
    score_subsets,
    search_branch_and_bound,
    search_greedy,
    search_submodular,
    select_coordinates,
)
from ies_gpu.choice.criterion import candidate_subsets, penalties
from ies_gpu.choice.regularization import regularization_path

M = 20
ZETA_AT_MOST = 1.0  # where the first coordinates are the best for every zeta


@cache
def tangents(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Bases and eigenvalues of a data set on 1,000 points, with a bandwidth that keeps the degrees."""
    full, data = datasets.load(name, n_samples=10), datasets.load(name, n_samples=1000)
    bandwidth = full.bandwidth * 10 ** (1 / full.intrinsic_dim)
    with warnings.catch_warnings():  # rolls and tori become nearly complete graphs; the search does not mind
        warnings.simplefilter("ignore", IESWarning)
        found = select_coordinates(
            data.X, intrinsic_dim=full.intrinsic_dim, subset_size=full.subset_size, bandwidth=bandwidth, n_components=M
        )
    return found.bases, found.eigenvalues


def instance(number: int) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Bases, eigenvalues, s, and a zeta inside the path; odd numbers are frames by the Haar measure."""
    rng = np.random.default_rng(number)
    if number % 2:
        d = int(rng.integers(2, 5))
        U, values = np.linalg.qr(rng.normal(size=(300, M, d)))[0], np.sort(rng.uniform(0.01, 1, M))
    else:
        U, values = tangents(f"D{1 + number // 2 % 12}")
        d = U.shape[2]
    s = int(rng.integers(d, min(d + 3, 6)))
    sets = candidate_subsets(M, s)
    path = regularization_path(score_subsets(U, sets), sets, values)
    return U, values, s, float(rng.uniform(0, path[0].low or ZETA_AT_MOST))


def reaches(search, number: int) -> bool:
    """Whether a search finds a set as good as the best."""
    U, values, s, zeta = instance(number)
    sets = candidate_subsets(M, s)
    losses = score_subsets(U, sets) - zeta * penalties(sets, values)
    found = search(U, values, subset_size=s, zeta=zeta)
    own = losses[(sets == found.subset).all(axis=1)][0]
    assert own <= losses.max()
    return own >= losses.max() - 1e-9


@pytest.mark.parametrize("numbers", [(1, 3, 5), pytest.param(range(200), marks=pytest.mark.slow)])
def test_searches_find_the_best_sets(numbers):
    assert all(reaches(search_branch_and_bound, number) for number in numbers)
    assert sum(reaches(search_submodular, number) for number in numbers) >= 0.95 * len(numbers)


@pytest.mark.slow
def test_greedy_chooses_what_enumeration_chooses_on_the_manifolds():
    agreeing = 0
    for data in (datasets.load(f"D{number}") for number in range(1, 13)):
        s = data.subset_size
        found = select_coordinates(data.X, intrinsic_dim=data.intrinsic_dim, subset_size=s, bandwidth=data.bandwidth)
        agreeing += search_greedy(found.bases, found.eigenvalues, subset_size=s).subset == found.subset
    assert agreeing >= 11


@pytest.mark.slow
def test_branch_and_bound_proves_the_best_of_forty_coordinates():
    data = datasets.load("D1")
    found = select_coordinates(
        data.X, intrinsic_dim=2, subset_size=4, bandwidth=data.bandwidth, n_components=40, keep_bases=True
    )
    for zeta in (0.0, 30.0):
        proved = search_branch_and_bound(found.bases, found.eigenvalues, subset_size=4, zeta=zeta)
        sets = candidate_subsets(40, 4)
        losses = score_subsets(found.bases, sets) - zeta * penalties(sets, found.eigenvalues)
        assert proved.details["guarantee"] == "exact"
        assert proved.subset == tuple(sets[losses.argmax()].tolist())
