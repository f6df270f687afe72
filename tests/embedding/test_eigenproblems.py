"""Random eigenproblems of all kinds: none missed, none unconverged, none slow."""

import time
from itertools import product

import numpy as np
import pytest

from ies_gpu import diffusion_map, graph_laplacian
from tests.embedding.eigenproblems import (
    KINDS,
    Problem,
    above,
    box,
    distances_from_one,
    joined,
    nearest,
    problem,
    symmetric,
)

ROUNDING = 1e-13  # of ``1 - mu``: some hundred times that of a number near 1


def error_of(one: Problem, solver: str = "auto") -> tuple[float, float, dict]:
    """Solve and compare: the worst relative error of ``1 - mu`` beyond rounding, processor time, and how it went."""
    S, root = symmetric(one.kernel)
    begin = time.process_time()
    found = diffusion_map(graph_laplacian(one.kernel), n_components=one.count, solver=solver)
    took = time.process_time() - begin
    V = found.coordinates * root[:, None]
    V = np.column_stack([root / np.linalg.norm(root), V / np.linalg.norm(V, axis=0)])
    values = np.concatenate([[0.0], found.eigenvalues])
    assert np.abs(V.T @ V - np.eye(V.shape[1])).max() < 1e-8, one.name
    assert np.linalg.norm(V - S @ V - V * values, axis=0).max() <= 1.1e-8, one.name
    exact = distances_from_one(S, one.count + 1)
    error = np.maximum(np.abs(values - exact) - ROUNDING, 0)[1:] / exact[1:]
    # pairs can be missed only above the last one: there are no more of them than were found
    edge = found.eigenvalues[-1] * (1 - 1e-6) - ROUNDING
    if one.kernel.nnz < 300_000 and "expander" not in one.name:
        assert above(S, 1 - edge) <= (values < edge).sum(), one.name
    return float(error.max()), took, found.info


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_problem_of_each_kind(kind):
    error, _, info = error_of(problem(kind, 0, 500, 1500))
    assert error <= 1e-8, info


def test_a_star_whose_second_eigenvalue_comes_more_often_than_it_is_wanted():
    """Guards that overlapped with the copies that were added made the search find more of them without end."""
    error, _, info = error_of(problem("star", 113, 500, 4000))
    assert info["method"] == "factorised" and error <= 1e-8


def test_parts_that_hang_by_a_thread_without_a_factorisation():
    """The multilevel method, and a first eigenvalue below the residuals that it allows."""
    rng = np.random.default_rng(2)
    K = joined(rng, [nearest(box(rng, 2000, 1, 1), 25) for _ in range(3)], 1e-4)
    K.sort_indices()
    error, _, info = error_of(Problem("threads", K, 12), "multilevel")
    assert info["method"] == "multilevel" and error <= 1e-8


@pytest.mark.slow
def test_two_hundred_random_problems():
    """The errors are relative to each ``lambda = 1 - mu`` itself, not to the spectrum's length."""
    worst, slowest, count, methods = (0.0, ""), (0.0, ""), 0, {}
    for kind, seed in product(KINDS, range(16)):
        one = problem(kind, seed, 500, 10_000)
        error, took, info = error_of(one)
        assert error <= 1e-8, (one.name, one.kernel.shape, error, info)
        assert took <= 60, (one.name, took, info)
        worst, slowest = max(worst, (error, one.name)), max(slowest, (took, one.name))
        count += 1
        methods[info["method"]] = methods.get(info["method"], 0) + 1
    print(f"\n{count} eigenproblems {methods}: worst error {worst[0]:.1e} ({worst[1]}), ", end="")
    print(f"slowest {slowest[0]:.1f} s ({slowest[1]})")
    assert count >= 200
