"""Points and a result for commands to read."""

import numpy as np
import pytest

from ies_gpu import cli, datasets

FIT = ["-d", "2", "-s", "2", "--bandwidth", "0.6"]
HOPELESS = ["--bandwidth", "1e-9"]  # the run would end by another error: what is said was said before it


@pytest.fixture
def columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    np.save(folder / "points.npy", datasets.load("D1", n_samples=1500).X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        assert cli.main(["fit", str(folder / "points.npy"), *FIT, "-o", str(folder / "run.npz"), "--quiet"]) == 0
    return folder


@pytest.fixture
def points(folder):
    return str(folder / "points.npy")


@pytest.fixture
def run(folder):
    return str(folder / "run.npz")
