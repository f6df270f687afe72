"""The verdict on an automatic choice."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from benchmarks import shapes
from benchmarks.strangers import chosen
from ies_gpu import IESWarning, select_coordinates
from ies_gpu.parameters.verdict import LIGHT, Reason, verdict_of


def test_one_word_from_the_reasons():
    light, grave = Reason(False, "light"), Reason(True, "grave")
    assert verdict_of([]) == "sure"
    assert verdict_of([light]) == verdict_of(LIGHT * [light]) == "likely"
    assert verdict_of((LIGHT + 1) * [light]) == verdict_of([grave]) == "doubtful"


def test_a_plain_strip_is_sure_without_a_warning(automatic):
    assert automatic.verdict == automatic.diagnostics["automatic"]["verdict"] == "sure"
    assert automatic.diagnostics["automatic"]["reasons"] == []
    assert "verdict         sure" in repr(automatic)


def test_given_parameters_have_no_verdict(strip):
    assert select_coordinates(strip[0], bandwidth=0.12, intrinsic_dim=2, subset_size=2).verdict is None


def test_noise_in_all_directions_is_doubtful_and_says_why_in_one_warning():
    X = np.random.default_rng(0).normal(size=(600, 12))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = select_coordinates(X, n_components=8)
    assert found.verdict == "doubtful"
    doubts = [str(warning.message) for warning in told if "doubtful" in str(warning.message)]
    assert len(doubts) == 1
    assert all(reason in doubts[0] for reason in found.diagnostics["automatic"]["reasons"])
    assert issubclass(told[0].category, IESWarning)


def test_the_cases_set_aside_are_none_of_those_looked_at():
    assert not set(shapes.TUNED) & set(shapes.SET_ASIDE)
    assert {name for name, _, _ in shapes.SET_ASIDE} == set(shapes.SHAPES)


@pytest.mark.slow
def test_on_the_cases_set_aside_sure_is_right_in_95_of_100():
    rows = [chosen(*case)[0] for case in shapes.SET_ASIDE]
    sure = [row["right"] for row in rows if row.get("verdict") == "sure"]
    assert len(sure) >= 30 and np.mean(sure) >= 0.95
