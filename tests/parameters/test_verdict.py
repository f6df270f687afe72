"""The verdict on an automatic choice."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import shapes
from benchmarks.strangers import chosen
from ies_gpu import IESWarning, datasets, select_coordinates
from ies_gpu.options import Options
from ies_gpu.parameters.levina_bickel import dimension_of_sample
from ies_gpu.parameters.verdict import (
    DOUBTFUL,
    LIGHT,
    Reason,
    automatic_line,
    share_words,
    stray_words,
    verdict_and_warnings,
    verdict_of,
    worth_a_warning,
)


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
    doubts = [str(warning.message) for warning in told if str(warning.message).startswith(DOUBTFUL)]
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


def test_each_reason_is_printed_once_and_the_gravest_first(automatic):
    reasons = ["no set passes the regret test", "only 400 points", "at 2.0% of the points, parts ... nearly touch"]
    report = automatic.diagnostics["automatic"] | {"verdict": "doubtful", "reasons": reasons}
    facts = automatic.diagnostics | {"automatic": report, "warnings": (*worth_a_warning(report), "another")}
    lines = repr(replace(automatic, diagnostics=facts)).splitlines()
    start = lines.index("  verdict         doubtful:")
    assert lines[start + 1 : start + 4] == [f"{18 * ' '}- {reason}" for reason in reasons]
    assert [line for line in lines if "warning" in line] == ["  warning         another"]


def test_a_reason_with_advice_keeps_it(automatic):
    reasons = ["at 2.0% of the points, parts that are far apart in X nearly touch in the map", "only 400 points"]
    report = {"verdict": "likely", "reasons": reasons}
    verdict, others = verdict_and_warnings(report, worth_a_warning(report))
    assert (
        others == [] and verdict[0] == "likely:" and "shows where" in verdict[1] and verdict[2] == "- only 400 points"
    )


def test_a_prediction_worse_than_the_mean_explains_none_of_the_variance(automatic):
    assert (share_words(-0.1, 0), share_words(0.004, 0), share_words(0.3, 0)) == ("none", "none", "only 30%")
    line = automatic_line(automatic.diagnostics["automatic"] | {"fvu": 1.1})
    assert line.endswith("explain none of the variance of X")


@pytest.mark.parametrize(
    ("stray", "subset", "words"),
    [
        (
            [1],
            (0, 2),
            "1 of phi1..phi4 is concentrated on a few stray points (3 in all) and was excluded: phi2. It lea",
        ),
        (
            [1, 2],
            (0, 3),
            "2 of phi1..phi4 are concentrated on a few stray points each (3 in all) and were excluded: ph",
        ),
        ([0, 1, 2, 3], (0, 3), "all of phi1..phi4 are concentrated on a few stray points each (3 in all), so none "),
    ],
)
def test_stray_coordinates_in_words(stray, subset, words):
    options = Options(intrinsic_dim=2, subset_size=2, n_components=4, bandwidth=1.0)
    found = stray_words(stray, 3, subset, options)
    assert found.startswith(words)
    assert found.endswith("set self_loops=False, raise bandwidth or leave out the rows in diagnostics['stray_points']")
    assert ("the choice is doubtful" in found) == (len(stray) == 4)
    nearest = stray_words(stray, 3, subset, Options(intrinsic_dim=2, subset_size=2, n_components=4, n_neighbors=8))
    assert nearest.endswith("raise n_neighbors or leave out the rows in diagnostics['stray_points']")
    assert "self_loops" not in nearest and "bandwidth" not in nearest


def curve(n, noise):
    """A helix of three turns."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 6 * np.pi, n)
    return np.column_stack([np.cos(t), np.sin(t), 0.3 * t]) + noise * rng.normal(size=(n, 3))


@pytest.mark.parametrize("n", [600, 2000])
def test_a_curve_with_two_dimensions_is_said_to_look_like_one(n):
    """The tangent planes do not show it: at this bandwidth they see the bends."""
    options = {"bandwidth": 0.3, "subset_size": 2, "device": "cpu"}
    with pytest.warns(IESWarning, match=r"look like a shape of dimension 1\.0 .* intrinsic_dim=2 may be too large"):
        select_coordinates(curve(n, 0), intrinsic_dim=2, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IESWarning)
        select_coordinates(curve(n, 0), intrinsic_dim=1, **options)


@pytest.mark.parametrize("name", [f"D{k}" for k in range(1, 14)])
def test_no_shape_of_the_paper_is_taken_for_one_of_fewer_dimensions(name):
    for n in (400, 1000):
        data = datasets.load(name, n_samples=n)
        assert dimension_of_sample(data.X) > 0.9 * data.intrinsic_dim  # the warning comes below 0.7


def test_where_nothing_can_be_seen_nothing_is_said(rng):
    lattice = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    for X in (rng.normal(size=(100, 2)), np.zeros((400, 2)), rng.normal(size=(400, 2000))):
        assert dimension_of_sample(X) is None
    assert dimension_of_sample(lattice) is None or dimension_of_sample(lattice) > 1.8
