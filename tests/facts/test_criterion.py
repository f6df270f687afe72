"""Facts about the score and the path: Cauchy-Binet, rotations, submodularity, the regret at zeta = 0."""

from itertools import combinations

import numpy as np
import pytest

from ies_gpu import leave_one_out_regret, score_subsets, search_exhaustive
from ies_gpu.choice.criterion import candidate_subsets
from tests.manifolds import frames


@pytest.mark.parametrize(("d", "s"), [(1, 3), (2, 2), (2, 3), (3, 5), (4, 5), (5, 7)])
def test_cauchy_binet(on, rng, d, s):
    """``det(U_S' U_S)`` is the sum of all squared d-minors of U_S."""
    U = frames(rng, 50, 8, d)
    S = list(range(s))
    minors = sum(np.linalg.det(U[:, list(T)]) ** 2 for T in combinations(S, d))
    lengths = np.prod((U[:, S] ** 2).sum(axis=1), axis=1)
    np.testing.assert_allclose(
        on(score_subsets)(U, [S], per_point=True)[:, 0], 0.5 * np.log(minors / lengths), atol=1e-12
    )


def test_all_coordinates_or_one_dimension_give_zero(on, rng):
    U = frames(rng, 30, 5, 2)
    np.testing.assert_allclose(on(score_subsets)(U, [range(5)]), 0, atol=1e-14)  # orthonormal columns
    np.testing.assert_allclose(on(score_subsets)(frames(rng, 30, 5, 1), [[0, 2]]), 0, atol=1e-14)


def test_rotations_change_the_normalisation_but_not_the_determinant(on, rng):
    """``det(U_S' U_S)`` is invariant under U -> UQ; the column lengths, and so the score, are not."""
    U = frames(rng, 100, 7, 2)
    Q = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    S = [0, 3, 5]
    both = [on(score_subsets)(V, [S], per_point=True)[:, 0] for V in (U, U @ Q)]
    lengths = [0.5 * np.log((V[:, S] ** 2).sum(axis=1)).sum(axis=1) for V in (U, U @ Q)]
    np.testing.assert_allclose(both[0] + lengths[0], both[1] + lengths[1], atol=1e-12)
    assert np.abs(both[0] - both[1]).max() > 0.01
    # signs and the order of the columns change nothing
    np.testing.assert_allclose(
        on(score_subsets)(U[:, :, ::-1] * [1, -1], [S], per_point=True)[:, 0], both[0], atol=1e-12
    )


def test_both_parts_are_submodular_where_the_rank_is_full(rng):
    """Gains fall as the set grows, for R1 and for R2, on sets of at least d members."""
    U = frames(rng, 40, 9, 2)

    def first(S):
        part = U[:, sorted(S)]
        return 0.5 * np.linalg.slogdet(part.transpose(0, 2, 1) @ part)[1]

    def second(S):
        return 0.5 * np.log((U[:, sorted(S)] ** 2).sum(axis=1)).sum(axis=1)

    for small, large, k in (({0, 1}, {0, 1, 4}, 6), ({0, 3}, {0, 3, 5, 7}, 8), ({0, 1, 2}, {0, 1, 2, 3, 4, 5}, 6)):
        for part in (first, second):
            assert (part(small | {k}) - part(small) >= part(large | {k}) - part(large) - 1e-12).all()
            assert (part(large) >= part(small) - 1e-12).all()
        S = sorted(small)
        np.testing.assert_allclose(first(small) - second(small), score_subsets(U, [S], per_point=True)[:, 0], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_set_of_zeta_0_always_passes(seed):
    """``T(S_*^i) <= T(S)`` and ``R(S; i) <= R(S_*^i; i)`` for the S of largest total T: its regret is never positive.

    So with all candidates enumerated the walk down the path ends at the latest there, at any percentile.
    """
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(50, 6, 2)))[0]
    sets = candidate_subsets(6, 3)
    found = search_exhaustive(U, np.sort(rng.uniform(0.01, 0.1, 6)), subset_size=3, percentile=100)
    assert found.passed
    last = leave_one_out_regret(U, [found.path[-1].subset], candidates=sets)
    assert last.max() <= 1e-12
