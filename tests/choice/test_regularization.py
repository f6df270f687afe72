"""Ties on the path, and the choice as Algorithm 3 is printed; ``tests/validation`` has path and regret themselves."""

import numpy as np
import pytest

from ies_gpu import leave_one_out_regret, regularization_path, score_subsets, search_exhaustive
from ies_gpu.choice.criterion import candidate_subsets, penalties
from ies_gpu.choice.regularization import first_acceptable
from tests.manifolds import lines


def test_ties_go_to_the_smaller_penalty_then_to_the_first():
    sets = candidate_subsets(4, 2)
    path = regularization_path([-1.0, -1.0, -1.0], sets, [0.1, 0.2, 0.2, 0.3])
    assert [segment.subset for segment in path] == [(0, 1)]
    # three lines through one point: the flattest goes on
    path = regularization_path([-3.0, -2.0, -1.0], sets, [0.0, 1.0, 2.0, 3.0])
    assert [(segment.subset, segment.low) for segment in path] == [((0, 1), 1.0), ((0, 3), 0.0)]


@pytest.mark.parametrize("seed", range(6))
def test_choice_against_a_grid_of_zetas(on, seed):
    """Algorithm 3 as printed, on a fine grid: the first set from above whose percentile is not positive."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(60, 7, 2)) + [[[0, 0]], [[2, 0]], [[0, 2]]][seed % 3])[0]
    values = np.sort(rng.uniform(0.01, 0.1, 7))
    sets = candidate_subsets(7, 2)
    found = on(search_exhaustive)(U, values, subset_size=2, percentile=75)
    scores, slopes = on(score_subsets)(U, sets), penalties(sets, values)
    content = np.percentile(on(leave_one_out_regret)(U, sets, candidates=sets), 75, axis=0) <= 1e-10
    grid = np.linspace(500, 0, 50_001)
    chosen, zetas = None, []
    for zeta, best in zip(grid, np.argmax(scores - grid[:, None] * slopes, axis=1), strict=True):
        if chosen is None and content[best]:
            chosen = best
        if best == chosen:
            zetas.append(zeta)
        elif chosen is not None:
            break
    assert found.subset == tuple(sets[chosen])  # there is one: at 0, as tests/facts show
    assert found.zeta_interval[0] == pytest.approx(min(zetas), abs=0.02)
    if found.zeta_interval[1] is not None and found.zeta_interval[1] < 500:
        assert found.zeta_interval[1] == pytest.approx(max(zetas), abs=0.02)
        assert found.zeta == pytest.approx((min(zetas) + max(zetas)) / 2, abs=0.02)


def test_where_no_segment_is_acceptable_none_is_named():
    scores, sets, values = lines(np.random.default_rng(3))
    path = regularization_path(scores, sets, values)
    assert first_acceptable(np.full(len(path), 0.5)) is None
    assert first_acceptable(np.r_[0.5, np.zeros(len(path) - 1)]) == 1
