"""Co-metric and tangent bases of 20,000 points."""

from __future__ import annotations

import pytest

from ies_gpu.choice.rmetric import tangents


@pytest.mark.parametrize("d", [2, 4])
def test_tangents(benchmark, problem, backend, d):
    benchmark(tangents, problem.embedding.coordinates, problem.laplacian, d, backend)
