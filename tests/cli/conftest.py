"""Points and a result for commands to read."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import cli, datasets

from .commands import FIT


@pytest.fixture
def columns(monkeypatch):
    """As wide as a terminal."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def no_run(monkeypatch):
    """What is refused is refused before the run."""
    monkeypatch.setattr("ies_gpu.select.select_coordinates", lambda *_, **__: pytest.fail("the run began"))


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    """Points and a result that no test changes."""
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
