"""The estimates a user can ask for one by one."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import (
    estimate_bandwidth,
    estimate_dimension,
    levina_bickel_dimension,
    suggest_subset_size,
    unexplained_variance,
)
from tests.manifolds import plane
from tests.said import refused


@pytest.mark.parametrize("method", ["degree", "slope", "consistency"])
def test_rules_for_the_bandwidth(on, strip, method):
    found = on(estimate_bandwidth)(strip[0][:500], method=method)
    assert found.value == pytest.approx(estimate_bandwidth(strip[0][:500], method=method).value)
    assert found.bandwidths.min() <= found.value <= found.bandwidths.max() * (1 + 1e-12)
    assert (np.diff(found.degrees) >= 0).all()
    assert found.confidence.level in ("high", "fair", "low")
    if method == "degree":
        return
    best = found.curve.max() if method == "slope" else found.curve.min()
    assert found.curve[found.bandwidths == found.value] == best


def test_estimates_agree_with_the_automatic_run(strip, automatic):
    chosen = automatic.diagnostics["automatic"]["chosen"]
    bandwidth = estimate_bandwidth(strip[0])
    assert bandwidth.value == pytest.approx(chosen["bandwidth"])
    assert bandwidth.subsets[list(bandwidth.bandwidths).index(bandwidth.value)] == automatic.subset
    size = suggest_subset_size(strip[0], bandwidth=chosen["bandwidth"], intrinsic_dim=2)
    assert size.value == chosen["subset_size"]
    assert size.sizes == (2, 3)
    assert size.unexplained[0] - size.unexplained[1] <= 0.01
    assert estimate_dimension(strip[0]).value == chosen["intrinsic_dim"]


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_every_estimate_has_a_picture(strip):
    X = strip[0][:500]
    estimates = [estimate_dimension(X, method=m) for m in ("local_pca", "levina_bickel", "two_nn", "slope")]
    estimates += [estimate_bandwidth(X, method=m) for m in ("degree", "slope")]
    estimates += [suggest_subset_size(X, bandwidth=0.2, intrinsic_dim=2, n_components=8)]
    for estimate in estimates:
        axes = estimate.plot().axes[0]
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert str(estimate.value)[:3] in axes.figure.get_suptitle()


def test_wrong_estimates_are_refused():
    X = plane(40, 2)
    for call, code in (
        (lambda: estimate_bandwidth(X, method="magic"), "method.choice"),
        (lambda: estimate_dimension(X, method="magic"), "method.choice"),
        (lambda: estimate_bandwidth(X, method="degree", degree=2), "degree.range"),
        (lambda: estimate_dimension(X, sample_size=0), "sample_size.range"),
        (lambda: levina_bickel_dimension(X[:5]), "neighbors.range"),
        (lambda: levina_bickel_dimension(X, neighbors=[2]), "neighbors.range"),
        (lambda: levina_bickel_dimension(X, neighbors=[]), "neighbors.empty"),
        (lambda: levina_bickel_dimension(X, average="geometric"), "average.choice"),
        (lambda: suggest_subset_size(X, bandwidth=-1), "bandwidth.range"),
        (lambda: unexplained_variance(X, X[:3]), "coordinates.rows"),
    ):
        with refused(code):
            call()
