"""Scores of sets: what they are, what changes them and what does not."""

import numpy as np
import pytest

from ies_gpu import score_subsets
from ies_gpu.choice.criterion import candidate_subsets, score_pass, stray_coordinates, stray_points
from tests.manifolds import frames


def test_one_pass_knows_each_points_best_set(on, rng):
    U = frames(rng, 500, 8, 2)
    U[:3] = 0
    U[:3, 1:3] = np.eye(2)  # sets with coordinate 0 have all lost rank here: a tie, so the first is taken
    sets = candidate_subsets(8, 3)
    table = on(score_subsets)(U, sets, per_point=True)
    found = on(score_pass)(U, sets)
    np.testing.assert_allclose(found.totals, table.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.best_scores, table.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(table[np.arange(500), found.best], table.max(axis=1), atol=1e-12)
    ties = on(score_pass)(np.zeros((3, 5, 2)), candidate_subsets(5, 2))
    assert (ties.best == 0).all()


@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_coordinates_are_stray_by_the_number_of_points_they_live_on(on, rng, scale):
    Y = rng.normal(size=(2000, 4))
    Y[:, 1] = np.arange(2000) < 5  # of 10 that a coordinate must live on
    Y[:, 2] = np.arange(2000) < 15
    assert on(stray_coordinates)(scale * Y) == [1]
    assert on(stray_points)(scale * Y, [1]).tolist() == list(range(5)) and len(on(stray_points)(Y, [])) == 0
