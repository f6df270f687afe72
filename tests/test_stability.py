"""How sure a choice is: weights against explicit resampling, rotations with a known answer, calibration on D1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ies_gpu
from ies_gpu import datasets, selection_stability
from ies_gpu.search import search_exhaustive
from ies_gpu.selection import Selection
from ies_gpu.stability.replicates import bootstrap_choices, matched_subset, weighted_choices
from ies_gpu.stability.result import Stability
from ies_gpu.stability.rotations import NearPair, best_rotation, near_pairs

from .conftest import identified, neumann, rectangle


@pytest.fixture(scope="module")
def strip():
    points, _, bandwidth = rectangle(1500, 4.6, noise=0.1, degree=80)
    fit = ies_gpu.select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth, n_components=10)
    return points, fit


def from_bases(bases, eigenvalues, subset_size, **parameters) -> Selection:
    """A result with given tangent bases, for what reads only those."""
    found = search_exhaustive(bases, eigenvalues, subset_size=subset_size, **parameters)
    return Selection(
        subset=found.subset, search_order=found.subset, zeta=found.zeta, zeta_interval=found.zeta_interval,
        coordinates=bases[:, :, 0], eigenvalues=eigenvalues, laplace_beltrami_eigenvalues=None, path=found.path,
        regrets=found.regrets, regret_percentiles=found.percentiles,
        ranking=ies_gpu.selection.Ranking(found.subsets, found.scores, found.scores), log_volumes=None, bases=bases,
        singular_values=None, points=np.arange(len(bases)), diagnostics={"parameters": parameters},
    )  # fmt: skip


@pytest.mark.parametrize("parameters", [{}, {"percentile": 40}, {"zeta": 0.3}])
@pytest.mark.parametrize("s", [2, 3])
def test_weights_are_the_same_as_repeating_points(rng, backend, s, parameters):
    bases = np.linalg.qr(rng.normal(size=(60, 6, 2)))[0]
    values = np.sort(rng.uniform(0.1, 1, 6))
    selection = from_bases(bases, values, s, **parameters)
    counts = rng.multinomial(40, np.full(60, 1 / 60), size=25)
    explicit = [
        search_exhaustive(np.repeat(bases, row, axis=0), values, subset_size=s, **parameters).subset for row in counts
    ]
    assert weighted_choices(selection, counts) == explicit
    assert len(set(explicit)) > 1  # otherwise the test could not fail


def test_each_point_once_is_the_choice_itself(strip):
    _, fit = strip
    assert weighted_choices(fit, np.ones((1, len(fit.bases)), dtype=int)) == [fit.subset]
    assert bootstrap_choices(fit, 0, np.random.default_rng(0)) == []


def test_subsamples_choose_the_same_functions(strip):
    points, fit = strip
    found = selection_stability(fit, X=points, n_bootstrap=50, n_refits=6, n_threads=1)
    assert found.subset == fit.subset and found.n_refits + found.failed_refits == 6
    assert sum(found.refits.values()) == pytest.approx(1) and sum(found.bootstrap.values()) == pytest.approx(1)
    assert found.confidence < found.recurrence < 1
    assert found.confidence <= found.confidence_up_to_twins
    again = selection_stability(fit, X=points, n_bootstrap=50, n_refits=6, n_threads=1)
    assert again.refits == found.refits and again.bootstrap == found.bootstrap
    assert all(len(line) <= 80 for line in repr(found).splitlines())


def test_without_points_there_is_no_confidence(strip):
    _, fit = strip
    found = selection_stability(fit, n_bootstrap=20)
    assert found.confidence is None and found.recurrence is None and found.n_refits == 0
    assert "not known without refits" in " ".join(found.verdict.split())


def test_from_points_at_once(strip):
    points, fit = strip
    bandwidth = fit.diagnostics["parameters"]["bandwidth"]
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": bandwidth, "n_components": 10}
    found = selection_stability(points, n_bootstrap=5, n_refits=1, **options)
    assert found.subset == fit.subset


def test_permuted_eigenvectors_are_recognised(strip):
    _, fit = strip
    order = np.array([3, 0, 9, 1, 2, 8, 4, 5, 7, 6])
    signs = np.where(np.arange(10) % 2, -1, 1)
    other = replace(fit, coordinates=(fit.coordinates * signs)[:, order], subset=(0, 4))
    subset, weakest = matched_subset(fit.coordinates, other)
    assert subset == (2, 3) and weakest == pytest.approx(1)  # columns 0 and 4 are the old 3 and 2


def test_a_foreign_eigenvector_has_no_counterpart(strip, rng):
    _, fit = strip
    foreign = fit.coordinates.copy()
    foreign[:, 5] = rng.normal(size=len(foreign))
    assert matched_subset(fit.coordinates, replace(fit, coordinates=foreign, subset=(0, 5)))[0] == (-1, 0)


def test_near_pairs():
    assert near_pairs(np.array([1.0, 2.0, 2.05, 4.0]), 0.05) == (NearPair(1, 2, pytest.approx(0.05 / 2.05)),)
    assert near_pairs(np.array([1.0, 2.0, 3.0]), 0.0) == ()


def analytic_bases(flat, ratio, m):
    """Tangent bases of the exact eigenfunctions of a rectangle, by their gradients."""
    labels, values, _ = neumann(flat, ratio, m)
    x, y = np.pi * flat[:, 0] / ratio, np.pi * flat[:, 1]
    norm = np.array([np.sqrt((1 + (a > 0)) * (1 + (b > 0))) for a, b in labels])
    dx = np.column_stack([-a / ratio * np.sin(a * x) * np.cos(b * y) for a, b in labels]) * norm
    dy = np.column_stack([-b * np.cos(a * x) * np.sin(b * y) for a, b in labels]) * norm
    gradients = np.stack([dx, dy], axis=2)
    return labels, values, np.linalg.svd(gradients, full_matrices=False)[0]


def test_the_best_mixture_does_not_depend_on_how_the_sample_mixed_the_two(rng, backend):
    """(0,1) and (1,1) of a long strip: turned by any angle, the same best mixture is found."""
    flat = rng.uniform(size=(1500, 2)) * [6.3, 1]
    labels, values, bases = analytic_bases(flat, 6.3, 14)
    a, b = labels.index((0, 1)), labels.index((1, 1))

    def score(angle):
        mixture = np.cos(angle) * bases[:, a] + np.sin(angle) * bases[:, b]
        return ies_gpu.score_subsets(np.stack([bases[:, 0], mixture], axis=1), [(0, 1)])[0]

    best = max(score(angle) for angle in np.radians(np.arange(-90, 90, 1.0)))
    for turn in (0.9, -1.2):
        mixed = bases.copy()
        mixed[:, a] = np.cos(turn) * bases[:, a] - np.sin(turn) * bases[:, b]
        mixed[:, b] = np.sin(turn) * bases[:, a] + np.cos(turn) * bases[:, b]
        found = best_rotation(replace(from_bases(mixed, values, 2), subset=(0, a)), a, b)
        assert abs(found.score - best) < 1e-2
        np.testing.assert_allclose(found.score, score(found.angle - turn))
        assert found.score > max(found.score_of_member, found.score_of_twin)
        turned = found.apply(mixed[:, :, 0])
        alone = np.cos(found.angle - turn) * bases[:, a, 0] + np.sin(found.angle - turn) * bases[:, b, 0]
        np.testing.assert_allclose(turned[:, a], alone, atol=1e-12)


def test_no_mixture_is_offered_where_it_gains_nothing(rng):
    """In a basis of unit vectors each coordinate is the best there is."""
    bases = np.zeros((50, 4, 2))
    bases[:, 0, 0] = bases[:, 1, 1] = 1.0
    selection = from_bases(bases, np.arange(1.0, 5), 2)
    assert selection.subset == (0, 1) and best_rotation(selection, 1, 2) is None


def test_twins():
    pairs = (NearPair(5, 6, 0.02), NearPair(6, 7, 0.03))
    shares = {(0, 6): 0.5, (0, 7): 0.25, (0, 5): 0.15, (0, 4): 0.1}
    found = Stability((0, 6), {(0, 6): 1.0}, shares, 200, 20, 0, np.ones(20), pairs, ())
    assert found._same_up_to_twins((0, 5)) and found._same_up_to_twins((0, 7))
    assert not found._same_up_to_twins((0, 4)) and not found._same_up_to_twins((1, 6))
    assert found.recurrence == pytest.approx(10.5 / 21)
    assert found.confidence < 0.5 < found.confidence_up_to_twins < 0.9


def test_bad_arguments(strip):
    points, fit = strip
    with pytest.raises(ValueError, match="keep_bases"):
        selection_stability(replace(fit, bases=None))
    with pytest.raises(ValueError, match="n_refits"):
        selection_stability(fit, n_refits=-1)
    with pytest.raises(ValueError, match="X has 10 rows"):
        selection_stability(fit, X=points[:10])
    with pytest.raises(TypeError, match="given twice"):
        selection_stability(points, X=points)
    with pytest.raises(ValueError, match="share"):
        selection_stability(fit, X=points, share=0)


@pytest.mark.slow
def test_confidence_on_the_strip_is_calibrated():
    """D1, 20 seeds: what is said to recur does, in the other 19 samples, by what the coordinates are."""
    meant, judged = [], []
    for seed in range(20):
        data = datasets.load("D1", random_state=seed)
        found = selection_stability(data.X, intrinsic_dim=2, subset_size=2, bandwidth=data.bandwidth)
        fit = ies_gpu.select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=data.bandwidth)
        labels, _, functions = neumann((data.truth + [4 * np.pi, 2]) / 4, 2 * np.pi, 40)
        meant.append(tuple(labels[k] for k in identified(fit.coordinates, functions)[list(fit.subset)]))
        judged.append(found)
    recur = np.array(
        [np.mean([other == own for j, other in enumerate(meant) if j != i]) for i, own in enumerate(meant)]
    )
    said = np.array([found.recurrence for found in judged])
    sure = np.array([found.confidence for found in judged]) > 0.9
    assert not sure.any() or recur[sure].mean() >= 0.85
    assert abs(said.mean() - recur.mean()) < 0.1  # neither too sure nor too shy
    first = np.array([own == ((1, 0), (0, 1)) for own in meant])
    assert abs(said[first].mean() - recur[first].mean()) < 0.12
    twins = np.array([found.confidence_up_to_twins for found in judged]) > 0.9
    alike = np.array([own[0] == (1, 0) and own[1] in ((0, 1), (1, 1)) for own in meant])
    assert twins.sum() >= 15 and alike.mean() >= 0.85


def test_refits_need_a_selection_made_from_points(strip):
    points, _ = strip
    kernel = ies_gpu.gaussian_kernel(ies_gpu.radius_graph(points, radius=0.5), bandwidth=0.2)
    made = ies_gpu.select_coordinates(kernel=kernel, intrinsic_dim=2, subset_size=2, n_components=6)
    with pytest.raises(ValueError, match="made from a kernel"):
        selection_stability(made, X=points)
