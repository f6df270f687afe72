"""Fused scores: the volumes of plain code, wherever sets lose rank."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ies_gpu.backend.kernels import plain

from .fused_inputs import fused, twice


def bases(n, m, d, *, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.normal(size=(n, m, d)))[0].astype(dtype)


def all_sets(m, s):
    return np.array(list(combinations(range(m), s)))


def score(kernels, U, subsets):
    totals, best, best_score = np.zeros(len(subsets)), np.full(len(U), -1), np.full(len(U), np.nan)
    kernels.score_block(U, subsets, totals, best, best_score)
    return totals, best, best_score


@pytest.mark.parametrize("n", [1, 63, 64, 65, 700])
@pytest.mark.parametrize(
    ("m", "d", "s"), [(2, 1, 1), (6, 1, 3), (8, 2, 2), (8, 2, 4), (7, 3, 3), (8, 3, 5), (9, 4, 6), (9, 8, 8), (9, 5, 7)]
)
def test_scores_agree_with_plain(n, m, d, s):
    U, subsets = bases(n, m, d, seed=n), all_sets(m, s)
    totals, best, best_score = score(fused, U, subsets)
    expected = score(plain, U, subsets)
    assert_allclose(totals, expected[0], rtol=1e-12, atol=1e-12)
    assert_allclose(best_score, expected[2], rtol=1e-10, atol=1e-13)
    if d > 1:  # for d = 1 every set has ratio 1, up to rounding in plain
        assert_array_equal(best, expected[1])
    assert_allclose(fused.log_volumes(U, subsets), plain.log_volumes(U, subsets), rtol=1e-10, atol=1e-13)


def test_scores_of_float32_are_those_of_the_same_numbers_in_float64():
    U, subsets = bases(300, 8, 3, dtype=np.float32), all_sets(8, 4)
    got, expected = score(fused, U, subsets), score(plain, U.astype(np.float64), subsets)
    assert_allclose(got[0], expected[0], rtol=1e-12)
    assert_array_equal(got[1], expected[1])


def test_totals_are_added_to_and_outputs_may_be_strided_and_narrow():
    U, subsets = bases(100, 6, 2), all_sets(6, 3)
    totals, wide = np.ones(len(subsets)), np.zeros((100, 2))
    best = np.zeros(200, dtype=np.int32)[::2]
    fused.score_block(U[:, :, ::-1], subsets.astype(np.int32), totals, best, wide[:, 1])
    expected = score(plain, U[:, :, ::-1], subsets)
    assert_allclose(totals, 1 + expected[0], rtol=1e-12)
    assert_array_equal(best, expected[1])
    assert_allclose(wide[:, 1], expected[2], rtol=1e-10, atol=1e-13)


def test_dependent_columns_and_columns_of_zeros_count_as_the_floor():
    U = np.zeros((3, 5, 2))
    U[0, :, 0] = U[0, :, 1] = [1, 2, 3, 4, 5]  # dependent
    U[1, :, 0] = 1  # a column of zeros
    U[2, :2] = np.eye(2)  # zeros in every set but the first
    subsets = all_sets(5, 2)
    floor = 0.5 * np.log(plain.FLOOR)
    table = fused.log_volumes(U, subsets)
    assert_allclose(table[:2], floor)
    assert_allclose(table[2], [0] + [floor] * 9)
    totals, best, best_score = score(fused, U, subsets)
    assert_allclose(totals, table.sum(axis=0))
    assert_array_equal(best, 0)
    assert_allclose(best_score, [floor, floor, 0], atol=1e-15)


def test_nearly_dependent_sets_keep_their_digits():
    """A determinant of U'U would be noise from 1e-8 on."""
    for angle in 10.0 ** -np.arange(1, 13):
        U = np.array([[[1.0, 1.0], [1.0, 1.0 + angle], [0, 0]]])
        difference = U[0, 1, 1] - 1
        ratio = difference**2 / (2 * (1 + (1 + difference) ** 2))
        assert_allclose(fused.log_volumes(U, [[0, 1]])[0, 0], 0.5 * np.log(ratio), rtol=1e-4 * 1e-12 / angle + 1e-9)


def test_of_equal_sets_the_first_is_best():
    U = bases(50, 3, 2)[:, [0, 1, 0, 1, 2]]  # rows 0 = 2 and 1 = 3
    subsets = np.array([[0, 2], [0, 1], [0, 3], [2, 3], [1, 3]])  # the first and the last are dependent
    _, best, _ = score(fused, U, subsets)
    assert_array_equal(best, 1)


def test_a_point_with_nan_spoils_the_totals_and_nothing_else():
    U, subsets = bases(10, 5, 2), all_sets(5, 3)
    expected = score(fused, U, subsets)
    U[4] = np.nan
    totals, best, best_score = score(fused, U, subsets)
    assert np.isnan(totals).all()
    assert np.isnan(best_score[4])
    assert_array_equal(np.delete(best, 4), np.delete(expected[1], 4))


def test_scores_of_no_points():
    totals, best, best_score = score(fused, np.empty((0, 5, 2)), all_sets(5, 3))
    assert_array_equal(totals, 0)
    assert len(best) == len(best_score) == 0
    assert fused.log_volumes(np.empty((0, 5, 2)), all_sets(5, 3)).shape == (0, 10)


def test_scores_of_more_points_than_fit_one_round_of_partial_totals():
    U, subsets = bases(40_000, 4, 2), all_sets(4, 2)
    for got, expected in zip(score(fused, U, subsets), score(plain, U, subsets), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def test_scores_do_not_depend_on_the_number_of_threads():
    U, subsets = bases(5000, 10, 2), all_sets(10, 3)
    for one, two in zip(*twice(lambda: score(fused, U, subsets)), strict=True):
        assert_array_equal(one, two)
    assert_array_equal(*twice(lambda: fused.log_volumes(U, subsets)))
