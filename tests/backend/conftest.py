"""Fixtures of the tests of kernels."""

import pytest

from .kernel_sides import kernels_of


@pytest.fixture(params=["numba", "random"], ids=["numba", "cuda"])
def side(request):
    with kernels_of(request.param) as made:
        yield made


@pytest.fixture
def fused():
    with kernels_of("numba") as made:
        yield made.module
