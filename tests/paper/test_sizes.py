"""The rule for s, and the Procrustes error: thresholds, closed forms and invariances."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial import procrustes

from benchmarks.paper.d4_size import size_verdict
from benchmarks.paper.procrustes import procrustes_error


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
