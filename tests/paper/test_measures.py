"""LLR, the rule for s and the Procrustes error: dependent coordinates, thresholds, closed forms and invariances."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist

from benchmarks.paper.d4_size import size_verdict
from benchmarks.paper.llr import llr_ranking
from benchmarks.paper.procrustes import procrustes_error


def test_a_function_of_those_before_has_a_small_residual_and_a_new_direction_about_one(rng):
    """Of phi1, a function of it, an independent one, and a function of phi1 and phi3."""
    x, y = rng.uniform(0, np.pi, (2, 800))
    found = llr_ranking(np.column_stack([np.cos(x), np.cos(2 * x), np.cos(y), np.cos(x) * np.cos(y)]))
    assert found.residuals[0] == 1 and found.residuals[2] == pytest.approx(1, abs=0.1)
    assert found.residuals[1] < 0.1 and found.residuals[3] < 0.2  # cos 2x = 2 cos^2 x - 1
    assert set(found.order[:2]) == {0, 2}


def brute_force(Y, k):
    """The same by one least-squares problem a point."""
    X, y, fit = Y[:, :k], Y[:, k], np.empty(len(Y))
    dist = cdist(X, X)
    h = np.median(dist[np.triu_indices(len(X), 1)]) / 3
    for i in range(len(X)):
        root = np.sqrt(np.exp(-((dist[i] / h) ** 2)))
        root[i] = 0
        A = np.column_stack([np.ones(len(X)), X])
        fit[i] = A[i] @ np.linalg.lstsq(root[:, None] * A, root * y, rcond=None)[0]
    return h, np.linalg.norm(fit - y) / np.linalg.norm(y)


def test_all_residuals_and_bandwidths_agree_with_one_fit_a_point(rng):
    Y = rng.uniform(-0.1, 0.1, (200, 4))  # no lonely points, whose fits the ridge would decide
    found = llr_ranking(Y)
    assert np.isnan(found.bandwidths[0])
    for k in (1, 2, 3):
        assert (found.bandwidths[k], found.residuals[k]) == pytest.approx(brute_force(Y, k), rel=1e-6)
    assert found.order == tuple(np.argsort(-found.residuals, kind="stable"))


def known(lost: float, lost_in_union: float, n: int = 1000) -> SimpleNamespace:
    """The part of a result that the rule reads, with volumes that are known."""
    shares = {(0, 1): lost, (0, 2): 1.0, (0, 1, 2): lost_in_union}
    ranking = SimpleNamespace(subsets=np.array([[0, 1], [0, 2], [0, 3]]))
    score = lambda subset: np.log(np.where(np.arange(n) < round(shares[subset] * n), 0.05, 0.9))  # noqa: E731
    return SimpleNamespace(subset=(0, 1), ranking=ranking, score=score)


def test_the_rule_at_its_thresholds():
    for lost, in_union, too_small in (
        (0.014, 0.0, False), (0.015, 0.0, True),  # no spike, and one
        (0.1, 0.03, True), (0.1, 0.031, False), (0.1, 0.2, False),  # 0.3 of it is left, and more
    ):  # fmt: skip
        found = size_verdict(known(lost, in_union), 2)
        assert (found.share_best, found.share_union) == (lost, in_union)
        assert (found.best, found.runner_up, found.too_small) == ((0, 1), (0, 2), too_small)


def test_m2_does_not_see_shift_scale_rotation_or_reflection(rng):
    A, B = rng.normal(size=(2, 60, 3))
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for turn in (Q, Q @ np.diag([1, 1, -1.0])):
        assert procrustes_error(A, 7 * A @ turn + [1, 2, 3]) == pytest.approx(0, abs=1e-12)
    assert procrustes_error(A, B) == pytest.approx(procrustes(A, B)[2], abs=1e-12)
