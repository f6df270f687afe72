"""A strip, and what is found of it without a parameter."""

import pytest

from ies_gpu import select_coordinates
from tests.manifolds import rectangle


@pytest.fixture(scope="session")
def strip():
    """A strip of 1,200 points, long enough that phi2 repeats phi1."""
    points, flat, _ = rectangle(1200, 4.3, noise=0.1, degree=60)
    return points, flat


@pytest.fixture(scope="session")
def automatic(strip):
    return select_coordinates(strip[0])
