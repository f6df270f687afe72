"""Checkpoints of runs with ``device="cuda"``, on the stand-in for CuPy: no GPU has run this."""

from __future__ import annotations

import sys

import pytest

from ies_gpu import CheckpointWarning, datasets, select_coordinates
from ies_gpu.select import STAGES as SAVED
from tests.comparison import assert_equal_selections, resumed
from tests.fake_cupy import missing, standing_in

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")
OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.6}

STAGES = [stage.name for stage in SAVED if stage.name != "automatic"]


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with standing_in():
        yield sys.modules["cupy"]


def test_a_run_on_the_device_goes_on(cupy, tmp_path):
    X = datasets.load("D1", n_samples=1500).X
    first = select_coordinates(X, **OPTIONS, device="cuda")
    saved = select_coordinates(X, **OPTIONS, device="cuda", checkpoint=tmp_path)
    assert saved.diagnostics["device"] == "cuda:0"
    assert_equal_selections(first, saved)
    for kept, expected in ((4, ["graph", "eigenvectors", "tangents"]), (3, ["graph", "eigenvectors", "laplacian"])):
        for stage in STAGES[kept:]:
            (tmp_path / f"{stage}.npz").unlink(missing_ok=True)
        again = select_coordinates(X, **OPTIONS, device="cuda", checkpoint=tmp_path, resume=True)
        assert resumed(again) == expected
        assert_equal_selections(first, again)
    on_device = select_coordinates(cupy.asarray(X), **OPTIONS, checkpoint=tmp_path, resume=True)
    assert resumed(on_device)[-1] == "search" and isinstance(on_device.coordinates, cupy.ndarray)


def test_a_checkpoint_of_another_device_is_not_taken(cupy, tmp_path):
    X = datasets.load("D1", n_samples=1500).X
    select_coordinates(X, **OPTIONS, device="cpu", checkpoint=tmp_path)
    with pytest.warns(CheckpointWarning, match="device cpu there, cuda here"):
        found = select_coordinates(X, **OPTIONS, device="cuda", checkpoint=tmp_path, resume=True)
    assert resumed(found) == []
