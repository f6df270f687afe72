"""New points and transformers on the CUDA path, on the strict stand-in for CuPy (see test_cuda.py)."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ies_gpu import (
    DiffusionMap,
    IESWarning,
    IndependentCoordinates,
    datasets,
    load_model,
    model_of,
    nystrom_extension,
    save_model,
    select_coordinates,
)
from tests.fake_cupy import missing, standing_in

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "CuPy")
SIZES = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.9, "n_components": 8}


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.delenv("IES_GPU_DEVICE", raising=False)
    with standing_in():
        yield sys.modules["cupy"]


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=700).X


@pytest.fixture(scope="module")
def expected(points):
    selection = select_coordinates(points, device="cpu", **SIZES)
    return selection, model_of(selection, points)


def test_arrays_on_the_device_stay_there(cupy, points, expected):
    selection, _ = expected
    X, new = cupy.asarray(points), cupy.asarray(points[:50] + 0.2)
    on_cpu = nystrom_extension(points[:50] + 0.2, points, selection.coordinates, selection.eigenvalues, bandwidth=0.9)
    found = nystrom_extension(new, X, cupy.asarray(selection.coordinates), selection.eigenvalues, bandwidth=0.9)
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_allclose(found.get(), on_cpu, rtol=0, atol=1e-12)


def test_without_self_loops(cupy, points):
    """Training points and copies among them return to their coordinates, on the device as on the CPU."""
    X = np.vstack([points, points[:40]])
    selection = select_coordinates(X, device="cpu", self_loops=False, **SIZES)
    model = model_of(selection, X)
    np.testing.assert_allclose(model.transform(X, device="cpu"), selection.embedding, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.transform(X, device="cuda"), selection.embedding, rtol=0, atol=1e-8)


@pytest.mark.parametrize("isolated", ["nan", "nearest"])
def test_a_model_works_on_any_device(cupy, points, expected, isolated):
    _, model = expected
    new = points[:60] + 0.2
    new[7] = 1e5
    with pytest.warns(IESWarning, match="1 of 60 new points"):
        on_cpu = model.transform(new, device="cpu", isolated=isolated)
    with pytest.warns(IESWarning, match="1 of 60 new points"):
        on_cuda = model.transform(new, device="cuda", isolated=isolated)
    assert isinstance(on_cuda, np.ndarray)
    np.testing.assert_allclose(on_cuda, on_cpu, rtol=0, atol=1e-12)


def test_transformers_on_the_device(cupy, points, expected, tmp_path):
    selection, _ = expected
    chooser = IndependentCoordinates(device="cuda", **SIZES).fit(points)
    np.testing.assert_allclose(np.abs(chooser.embedding_), np.abs(selection.embedding), rtol=0, atol=1e-7)
    np.testing.assert_allclose(chooser.transform(points[:9]), chooser.embedding_[:9], rtol=0, atol=1e-8)
    mapped = DiffusionMap(bandwidth=0.9, n_components=8).fit(cupy.asarray(points))
    assert isinstance(mapped.embedding_, cupy.ndarray)
    back = mapped.transform(cupy.asarray(points[:9]))
    np.testing.assert_allclose(back.get(), mapped.embedding_[:9].get(), rtol=0, atol=1e-8)
    assert mapped.n_features_in_ == 3
    with pytest.raises(ValueError, match="2 features"):
        mapped.transform(cupy.asarray(points[:9, :2]))
    save_model(mapped.model_, tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz").transform(points[:9], device="cpu")
    np.testing.assert_allclose(again, back.get(), rtol=0, atol=1e-12)
