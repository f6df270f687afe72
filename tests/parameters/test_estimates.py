"""The parameters of an automatic run, asked for on their own."""

from __future__ import annotations

import pytest

from ies_gpu import estimate_dimension, estimate_parameters
from tests.manifolds import plane
from tests.said import refused


def test_they_are_those_of_the_automatic_run(strip, automatic):
    found, chosen = estimate_parameters(strip[0]), automatic.diagnostics["automatic"]["chosen"]
    assert {name: getattr(found, name) for name in chosen} == chosen
    assert found.verdict == automatic.verdict and found.basis == automatic.diagnostics["automatic"]
    assert found.confidence.keys() == chosen.keys()
    assert all(judged.level in ("high", "fair", "low") and judged.facts for judged in found.confidence.values())
    assert estimate_dimension(strip[0]).value == chosen["intrinsic_dim"]


def test_what_is_given_is_not_looked_for(strip):
    found = estimate_parameters(strip[0][:600], bandwidth=0.2, intrinsic_dim=2, n_components=8)
    assert (found.bandwidth, found.intrinsic_dim) == (0.2, 2) and found.confidence.keys() == {"subset_size"}
    (panel,) = found.plot().axes
    assert panel.get_title() == f"Coordinates: {found.subset_size}"
    with refused("parameters.given"):
        estimate_parameters(strip[0][:600], bandwidth=0.2, intrinsic_dim=2, subset_size=2, n_components=8)


def test_wrong_estimates_are_refused():
    X = plane(40, 2)
    for call, code in (
        (lambda: estimate_dimension(X, sample_size=0), "sample_size.range"),
        (lambda: estimate_parameters(X, bandwidth=-1), "bandwidth.range"),
    ):
        with refused(code):
            call()
    with pytest.raises(TypeError):
        estimate_parameters(X, magic=1)
