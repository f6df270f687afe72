"""A job that the tests of checkpoints run, its stages and points, and a run of them that nothing disturbed."""

import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.run.run import SAVED

OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.6}
STAGES = [name for name in SAVED if name != "automatic"]


def forget(folder, kept):
    for stage in STAGES[kept:]:
        (folder / f"{stage}.npz").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=900).X


@pytest.fixture(scope="module")
def uninterrupted(points, plain_kernels):
    return select_coordinates(points, **OPTIONS)
