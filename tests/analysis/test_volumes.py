"""Volumes and the rule for s, and the Procrustes error: closed forms and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import procrustes

from ies_gpu import Selection, score_subsets, select_coordinates
from ies_gpu.analysis.procrustes import procrustes_error
from ies_gpu.analysis.volumes import size_verdict, volume_histogram
from tests.manifolds import rectangle
from tests.said import refused


@pytest.fixture(scope="module")
def selection():
    points, _, bandwidth = rectangle(1200, 2.3)
    return select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth, n_components=10)


def test_the_histogram_counts_every_point_once(on, selection):
    for subset in (None, (0, 4), (5, 0, 2)):
        found = on(volume_histogram)(selection, subset, bins=20)
        chosen = selection.subset if subset is None else tuple(sorted(subset))
        volumes = np.exp(score_subsets(selection.bases, [chosen], per_point=True)[:, 0])
        assert found.subset == chosen
        assert found.counts.sum() == len(volumes)
        assert found.edges[0] == 0
        assert found.edges[-1] == 1
        assert found.counts[:2].sum() == (volumes < 0.1).sum()
        assert found.share_near_zero == (volumes < 0.1).mean()


def test_all_coordinates_together_keep_all_volume(selection):
    """U has orthonormal columns, so the set of all coordinates has volume 1 everywhere."""
    found = volume_histogram(selection, range(10))
    assert found.counts[-1] == len(selection.points)


class Known(Selection):
    """The part of a result that the rule reads, with volumes that are known."""

    def __init__(self, lost: float, lost_in_union: float, n: int = 1000) -> None:
        ranking = type("R", (), {"subsets": np.array([[0, 1], [0, 2], [0, 3]])})
        volumes = {(0, 1): lost, (0, 2): 1.0, (0, 1, 2): lost_in_union}
        vars(self).update(volumes=volumes, subset=(0, 1), n=n, ranking=ranking, coordinates=np.zeros((n, 4)))
        vars(self).update(log_volumes=self.score((0, 1)))

    def score(self, subset):
        lost = round(self.volumes[tuple(subset)] * self.n)
        return np.log(np.where(np.arange(self.n) < lost, 0.05, 0.9))


@pytest.mark.parametrize(
    ("lost", "in_union", "too_small"),
    [
        (0.014, 0.0, False),  # no spike
        (0.015, 0.0, True),
        (0.1, 0.03, True),  # 0.3 of it is left
        (0.1, 0.031, False),
        (0.1, 0.2, False),
    ],
)
def test_the_rule_at_its_thresholds(lost, in_union, too_small):
    found = size_verdict(Known(lost, in_union))
    assert (found.share_best, found.share_union) == (lost, in_union)
    assert (found.best, found.runner_up, found.union) == ((0, 1), (0, 2), (0, 1, 2))
    assert found.too_small is too_small
    assert ("too small" in found.verdict) is too_small


def test_another_size_is_searched(on, selection):
    found = on(size_verdict)(selection, subset_size=3)
    assert len(found.best) == len(found.runner_up) == 3
    assert set(found.union) == {*found.best, *found.runner_up}
    with refused("subset.only_one"):
        on(size_verdict)(selection, subset_size=10)


@pytest.mark.filterwarnings("ignore:.*concentrated on a few stray points")
def test_another_size_is_searched_as_the_run_would(on, rng):
    """A point that hangs on the strip by a thread has coordinates of its own, which no run chooses."""
    strip = np.column_stack([rng.uniform(0, 4, 1500), rng.uniform(0, 1, 1500), np.zeros(1500)])
    points = np.concatenate([strip, [[1, 0.5, 0.26], [2, 0.5, 0.26], [3, 0.5, 0.26]]])
    options = {"intrinsic_dim": 2, "bandwidth": 0.09, "n_components": 12, "zeta": 30.0}
    two, three = (select_coordinates(points, subset_size=s, **options) for s in (2, 3))
    assert two.diagnostics["stray_coordinates"][0] == 0
    assert on(size_verdict)(two, subset_size=3).best == three.subset


def test_the_automatic_choice_reads_the_histograms_by_the_same_rule():
    """On this strip the runner-up by score, {1, 4}, leaves some points near zero; the one by loss, {1, 2}, none."""
    points, _, _ = rectangle(600, 2.3)
    found = select_coordinates(points, intrinsic_dim=2, subset_size=2, bandwidth="auto", n_components=10)
    told, asked = found.diagnostics["automatic"], size_verdict(found)
    assert (told["near_zero"], told["near_zero_union"]) == (asked.share_best, asked.share_union) == (0, 0)
    assert asked.runner_up == (0, 1) and (np.exp(found.score((0, 2, 3))) < 0.1).any()


def test_m2_does_not_see_shift_scale_rotation_or_reflection(on, rng):
    A = rng.normal(size=(50, 3))
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for turn in (Q, Q @ np.diag([1, 1, -1.0])):
        assert on(procrustes_error)(A, 7 * A @ turn + [1, 2, 3]) == pytest.approx(0, abs=1e-12)


def test_m2_is_scipys_disparity(on, rng):
    A, B = rng.normal(size=(2, 60, 3))
    assert on(procrustes_error)(A, B) == pytest.approx(procrustes(A, B)[2], abs=1e-12)
    assert on(procrustes_error)(A, B) == pytest.approx(on(procrustes_error)(B, A), abs=1e-12)


def test_m2_of_a_lost_column_is_its_share_of_the_variance(rng):
    """With columns of unit and of a times unit length, orthogonal, dropping the second leaves a^2 / (1 + a^2)."""
    A = np.linalg.qr(np.column_stack([np.ones(40), rng.normal(size=(40, 2))]))[0][:, 1:] * [1, 0.5]
    assert procrustes_error(A, A[:, :1]) == pytest.approx(0.25 / 1.25)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: procrustes_error(np.ones((4, 2)), np.eye(4)), "truth.copies"),
        (lambda: procrustes_error(np.eye(7, 2), np.full((7, 2), 0.1)), "embedding.copies"),
        (lambda: procrustes_error(np.eye(4), np.eye(5)), "embedding.rows"),
    ],
)
def test_bad_input(call, code):
    with refused(code):
        call()
