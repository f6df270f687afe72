"""How sure a choice is: refits, matching of eigenvectors, calibration on D1."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import ies_gpu
from ies_gpu import selection_stability
from ies_gpu.analysis.stability import Stability, chosen_by, matched_subset
from ies_gpu.choice.search import same_up_to_twins
from ies_gpu.datasets import synthetic
from ies_gpu.findings import NotConvergedError, refusal
from tests.manifolds import identified, neumann, rectangle
from tests.said import refused


@pytest.fixture(scope="module")
def strip():
    points, _, bandwidth = rectangle(1500, 4.6, noise=0.1, degree=80)
    fit = ies_gpu.select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth, n_components=10)
    return points, fit


def test_subsamples_choose_the_same_functions(strip):
    points, fit = strip
    found, again = (selection_stability(fit, X=points, n_refits=6) for _ in range(2))
    assert found.subset == fit.subset and found.n_refits + found.failed_refits == 6
    assert sum(found.refits.values()) == pytest.approx(1) and again.refits == found.refits
    assert found.confidence < found.recurrence < 1 and found.confidence <= found.confidence_up_to_twins
    assert all(len(line) <= 80 for line in repr(found).splitlines())


def test_permuted_eigenvectors_are_recognised(strip, rng):
    _, fit = strip
    order = np.array([3, 0, 9, 1, 2, 8, 4, 5, 7, 6])
    signs = np.where(np.arange(10) % 2, -1, 1)
    other = replace(fit, coordinates=(fit.coordinates * signs)[:, order], subset=(0, 4))
    assert matched_subset(fit.coordinates, other) == (2, 3)  # columns 0 and 4 are the old 3 and 2
    foreign = fit.coordinates.copy()
    foreign[:, 5] = rng.normal(size=len(foreign))  # which has no counterpart
    assert matched_subset(fit.coordinates, replace(fit, coordinates=foreign, subset=(0, 5))) == (-1, 0)


def test_twins():
    pairs = ((5, 6), (6, 7))
    shares = {(0, 6): 0.5, (0, 7): 0.25, (0, 5): 0.15, (0, 4): 0.1}
    found = Stability((0, 6), shares, 20, 0, pairs)
    same = [same_up_to_twins((0, 6), other, pairs) for other in ((0, 5), (0, 7), (0, 4), (1, 6))]
    assert same == [True, True, False, False]
    assert found.recurrence == pytest.approx(10.5 / 21)
    assert found.confidence < 0.5 < found.confidence_up_to_twins < 0.9


def test_points_that_the_fit_left_out(strip):
    """The selection is of the largest part; X is given whole, and refits use that part only."""
    points, _ = strip
    stray = np.vstack([points[:5] + 100, points])
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.12, "n_components": 10, "disconnected": "largest"}
    with pytest.warns(ies_gpu.IESWarning):
        fit = ies_gpu.select_coordinates(stray, **options)
    found = selection_stability(fit, X=stray, n_refits=2)
    alone = ies_gpu.select_coordinates(points, **options)
    assert found.refits == selection_stability(alone, X=points, n_refits=2).refits
    with refused("X.rows"):
        selection_stability(fit, X=points)


def test_subsamples_without_a_map_are_told_and_do_not_end_the_others(strip):
    """A line whose points reach two steps: a third of them never holds together, and its parts are tiny."""
    unlucky = mock.Mock(side_effect=[NotConvergedError("no eigenvectors"), refusal("points.too_few", "few points")])
    for _ in range(2):
        assert chosen_by(unlucky, strip[0], np.arange(500), strip[1].coordinates, {}) is None
    points = np.linspace(0, 1, 150)[:, None]
    fit = ies_gpu.select_coordinates(points, intrinsic_dim=1, subset_size=1, bandwidth=2.1 / 3 / 149, n_components=6)
    found = selection_stability(fit, X=points, n_refits=3)
    assert found.failed_refits == 3 and found.confidence is None
    assert "3 of 3 subsamples fell apart" in found.verdict


def test_bad_arguments(strip):
    points, fit = strip
    kernel = fit.diagnostics | {"parameters": fit.diagnostics["parameters"] | {"entry": "kernel"}}
    for code, wrong in (
        ("n_refits.range", {"n_refits": 0}),
        ("X.rows", {"X": points[:10]}),
        ("share.range", {"share": 0}),
        ("share.too_few", {"share": 0.004}),
        ("selection.type", {"selection": 3}),
        ("selection.entry", {"selection": replace(fit, diagnostics=kernel)}),  # refits need points
    ):
        with refused(code, (ValueError, TypeError)):
            selection_stability(**{"selection": fit, "X": points} | wrong)


def sampled_strip(ratio: float, density: float, seed: int):
    """D1's strip with another aspect ratio and density: the fit, its points, and the modes of its eigenvectors."""
    n = round(10_000 * density * ratio / (2 * np.pi))
    points = synthetic.strip(np.random.default_rng(seed), n, half=(2 * ratio, 2))[0]
    fit = ies_gpu.select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth=0.25)
    labels, _, functions = neumann((points[:, :2] + [2 * ratio, 2]) / 4, ratio, 40)
    return points, fit, [labels[k] for k in identified(fit.coordinates, functions)]


def calibration(ratio: float, density: float, reporters: range, fresh: range):
    """For each reporter: confidence and share of the fresh samples with its set, exactly and up to twins."""
    samples = [sampled_strip(ratio, density, seed) for seed in fresh]
    others, rows = [{modes[k] for k in fit.subset} for _, fit, modes in samples], []
    for seed in reporters:
        points, fit, modes = sampled_strip(ratio, density, seed)
        found = selection_stability(fit, X=points)
        own = {modes[k] for k in fit.subset}
        theirs = [tuple(sorted(modes.index(mode) if mode in modes else -1 for mode in other)) for other in others]
        same = np.mean([own == other for other in others])
        alike = np.mean([same_up_to_twins(found.subset, subset, found.near_pairs) for subset in theirs])
        rows.append((found.confidence, same, found.confidence_up_to_twins, alike))
    return np.array(rows).T


def test_a_choice_that_does_not_recur_is_not_sure():
    """Ratio 7.3: (0,1) and (1,1) differ by 2 %, and samples choose now one, now the other."""
    confidence, recurs, _, _ = calibration(7.3, 0.2, range(1), range(100, 106))
    assert (recurs < 0.7).all() and (confidence < 0.5).all()


@pytest.mark.slow
def test_confidence_is_calibrated():
    """D1 and strips of other ratios: sets with a confidence above .9 recur in 85 % of samples that it never saw.

    About 5 minutes of one core.
    """
    long = calibration(2 * np.pi, 1, range(20, 40), range(40, 60))
    short = [calibration(ratio, 1, range(200, 208), range(300, 312)) for ratio in (2.3, 3.3, 5.3)]
    confidence, recurs, twins, alike = np.hstack([long, *short])
    sure = confidence > 0.9
    assert sure.sum() >= 10 and recurs[sure].mean() >= 0.85
    assert (twins > 0.9).sum() >= 30 and alike[twins > 0.9].mean() >= 0.85
    assert (long[2] > 0.9).sum() >= 15 and long[3][long[2] > 0.9].mean() >= 0.85  # D1 by itself
    # a bound of 90 %: at most a tenth may fall below it, and as many again by chance of the fresh samples
    assert (recurs < confidence).mean() <= 0.2
