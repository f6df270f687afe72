"""Scores by Numba and by CUDA: the volumes of plain code, wherever sets lose rank."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain

from .kernel_sides import Side, bases, some_sets, twice

ON_HOST = Side(plain, np)


def score(side, U, subsets):
    totals, best, best_score = np.zeros(len(subsets)), np.full(len(U), -1), np.full(len(U), np.nan)
    side.run("score_block", U, subsets, totals, best, best_score)
    return totals, best, best_score


def score_error(U, subsets, found) -> float:
    """Largest error in units of what rounding does to a score: eps / sqrt(ratio)."""
    totals, best, best_score = found
    scores = plain.log_volumes(U, subsets)
    unit = np.finfo(U.dtype).eps * np.exp(-np.maximum(scores, -15))
    points = np.arange(len(U))
    errors = [
        np.abs(totals - scores.sum(axis=0)) / unit.sum(axis=0),
        np.abs(best_score - scores.max(axis=1)) / unit[points, best],
        (scores.max(axis=1) - scores[points, best]) / unit[points, best],  # of two sets as good, either may be found
    ]
    worst = [error.max() for error in errors]
    return np.inf if np.isnan(worst).any() else max(worst)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2, 7, 20, 33, 64])
def test_scores_of_every_dimension_and_size(side, m, dtype):
    for d in range(1, min(m, 8) + 1):
        U = bases(71, m, d, dtype)
        for s, count in {d: 19, min(d + 1, m): 1, min(2 * d, m): 150, m: 3}.items():
            subsets = some_sets(m, s, count)
            assert score_error(U, subsets, score(side, U, subsets)) < 40


@pytest.mark.parametrize("n", [1, 63, 64, 65, 700])
def test_scores_of_any_number_of_points_and_their_table(fused, n):
    for m, d, s in [(2, 1, 1), (6, 1, 3), (8, 2, 4), (8, 3, 5), (9, 8, 8), (9, 5, 7)]:
        U, subsets = bases(n, m, d), some_sets(m, s)
        found, expected = score(Side(fused, np), U, subsets), score(ON_HOST, U, subsets)
        assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
        assert_allclose(found[2], expected[2], rtol=1e-10, atol=1e-13)
        if d > 1:  # for d = 1 every set has ratio 1, up to rounding in plain
            assert_array_equal(found[1], expected[1])
        assert_allclose(fused.log_volumes(U, subsets), plain.log_volumes(U, subsets), rtol=1e-10, atol=1e-13)


def test_float32_of_numba_is_computed_in_float64(fused):
    U, subsets = bases(300, 8, 3, np.float32), some_sets(8, 4)
    found, expected = score(Side(fused, np), U, subsets), score(ON_HOST, U.astype(np.float64), subsets)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    assert_array_equal(found[1], expected[1])


def test_totals_are_added_to_and_any_layout_will_do(side):
    xp, U, subsets = side.xp, bases(100, 6, 2)[:, :, ::-1], some_sets(6, 3)
    expected = score(side, np.ascontiguousarray(U), subsets)
    there = xp.ascontiguousarray(xp.asarray(U).transpose(2, 0, 1)).transpose(1, 2, 0)
    totals, wide, best = xp.ones(2 * len(subsets))[::2], xp.zeros((100, 2)), xp.zeros(200, dtype=np.int32)[::2]
    sets = xp.asfortranarray(xp.asarray(subsets.astype(np.int32)))
    side.module.score_block(there, sets, totals, best, wide[:, 1])
    for found, wanted in zip((totals, best, wide[:, 1]), (1 + expected[0], *expected[1:]), strict=True):
        assert_allclose(found if xp is np else found.get(), wanted, rtol=1e-14)
    side.module.score_block(there[:0], sets, totals, best[:0], wide[:0, 1])  # of no points
    assert_allclose(totals if xp is np else totals.get(), 1 + expected[0], rtol=1e-14)


def test_dependent_columns_and_columns_of_zeros_count_as_the_floor(side, fused):
    U = np.zeros((3, 5, 2))
    U[0, :, 0] = U[0, :, 1] = [1, 2, 3, 4, 5]  # dependent
    U[1, :, 0] = 1  # a column of zeros
    U[2, :2] = np.eye(2)  # zeros in every set but the first
    subsets, floor = some_sets(5, 2), 0.5 * np.log(plain.FLOOR)
    table = fused.log_volumes(U, subsets)
    assert_allclose(table[:2], floor)
    assert_allclose(table[2], [0] + [floor] * 9)
    totals, best, best_score = score(side, U, subsets)
    assert_allclose(totals, table.sum(axis=0))
    assert_array_equal(best, 0)
    assert_allclose(best_score, [floor, floor, 0], atol=1e-15)


def test_columns_of_very_small_numbers(side):
    subsets = some_sets(20, 4, 90)
    U = bases(71, 20, 3) * [1e-140, 1e-100, 1]
    assert score_error(U, subsets, score(side, U, subsets)) < 40
    if side.xp is not np:
        for result in score(side, U * [1e-18, 1, 1], subsets):  # squares are denormal or zero
            assert np.isfinite(result).all()


def test_nearly_dependent_sets_keep_their_digits(side):
    """A determinant of U'U would be noise from 1e-8 on."""
    for angle in 10.0 ** -np.arange(1, 13):
        U = np.array([[[1.0, 1.0], [1.0, 1.0 + angle], [0, 0]]])
        apart = U[0, 1, 1] - 1
        ratio = apart**2 / (2 * (1 + (1 + apart) ** 2))
        found = score(side, U, np.array([[0, 1]]))[2][0]
        assert_allclose(found, 0.5 * np.log(ratio), rtol=1e-4 * 1e-12 / angle + 1e-9)


def test_of_equal_sets_the_first_is_best(side):
    U = bases(50, 3, 2)[:, [0, 1, 0, 1, 2]]  # rows 0 = 2 and 1 = 3
    subsets = np.array([[0, 2], [0, 1], [0, 3], [2, 3], [1, 3]])  # the first and the last are dependent
    assert_array_equal(score(side, U, subsets)[1], 1)
    U, subsets = bases(71, 20, 2), some_sets(20, 3, 40)
    once = score(side, U, subsets)
    for again in (np.repeat(subsets, 2, axis=0), np.tile(subsets, (6, 1))):  # within and across chunks and launches
        _, best, best_score = score(side, U, again)
        assert_array_equal(best_score, once[2])
        assert_array_equal(best, [np.flatnonzero((again == subsets[k]).all(axis=1))[0] for k in once[1]])


def test_in_one_dimension_every_set_has_the_score_0(side):
    for found in score(side, bases(71, 20, 1), some_sets(20, 3, 40)):
        assert_allclose(found, 0, atol=1e-14)


def test_a_point_with_nan_spoils_the_totals_and_nothing_else(side):
    U, subsets = bases(10, 5, 2), some_sets(5, 3)
    expected = score(side, U, subsets)
    U[4] = np.nan
    totals, best, best_score = score(side, U, subsets)
    assert np.isnan(totals).all()
    assert np.isnan(best_score[4])
    assert_array_equal(np.delete(best, 4), np.delete(expected[1], 4))


def test_more_points_than_fit_one_round_of_partial_totals(fused):
    U, subsets = bases(40_000, 4, 2), some_sets(4, 2)
    for found, expected in zip(score(Side(fused, np), U, subsets), score(ON_HOST, U, subsets), strict=True):
        assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_the_number_of_threads_does_not_matter(fused):
    U, subsets = bases(5000, 10, 2), some_sets(10, 3)
    for one, two in zip(*twice(fused, lambda: score(Side(fused, np), U, subsets)), strict=True):
        assert_array_equal(one, two)
    assert_array_equal(*twice(fused, lambda: fused.log_volumes(U, subsets)))
