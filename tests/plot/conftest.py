"""What the tests of pictures share."""

import io

import pytest

from ies_gpu import datasets, select_coordinates

N = 900


@pytest.fixture(scope="session")
def data():
    return datasets.load("D1", n_samples=N)


@pytest.fixture(scope="session")
def selection(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        return select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=0.8)


def drawn(figure):
    """The figure is really drawn: bad labels and layouts fail here, or warn, which is an error too."""
    figure.savefig(io.BytesIO(), format="png")
    return figure
