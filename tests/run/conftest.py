"""Points, and a run of them that nothing disturbed."""

from __future__ import annotations

import pytest

from ies_gpu import datasets, select_coordinates

from .jobs import OPTIONS


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=900).X


@pytest.fixture(scope="module")
def uninterrupted(points, plain_kernels):
    return select_coordinates(points, **OPTIONS)
