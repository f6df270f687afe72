"""Tensors of other libraries are taken without a copy, or refused in words: on the host and on a device."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ies_gpu
from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import backend_of, get_backend
from ies_gpu.errors import DeviceError
from ies_gpu.validation import check_points, check_real_array
from tests.backends import needs_cupy


class Tensor:
    """All that a library need offer: DLPack, and nothing that NumPy could fall back on."""

    def __init__(self, data, device=(1, 0), **attributes):
        self.data, self.device = data, device
        self.__dict__.update(attributes)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        if getattr(self, "requires_grad", False):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.data.__dlpack__(**options) if self.data is not None else None

    def __array__(self, *_, **__):
        raise AssertionError("this would be a copy")


class OldTensor(Tensor):
    """A producer from before DLPack 1.0, which has no word for read-only memory."""

    def __dlpack__(self, *, stream=None):
        return self.data.__dlpack__()


@pytest.fixture(scope="module")
def strip():
    data = datasets.load("D1", n_samples=600)
    arguments = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.0, "n_components": 8}
    return data.X, arguments, select_coordinates(data.X, device="cpu", **arguments)


def test_a_tensor_on_the_host_is_the_same_memory(strip):
    X = strip[0]
    assert np.shares_memory(check_points(Tensor(X)), X)
    assert backend_of(Tensor(X)).device == "cpu"
    seen = check_real_array("X", Tensor(X.astype(np.float32)), 2)
    assert seen.dtype == np.float64


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
def test_the_pipeline_takes_tensors(strip, kind):
    X, arguments, expected = strip
    found = select_coordinates(kind(X), device="cpu", **arguments)
    assert found.subset == expected.subset
    np.testing.assert_array_equal(found.coordinates, expected.coordinates)
    assert isinstance(found.coordinates, np.ndarray)


def test_dense_graphs_coordinates_and_eigenvalues_may_be_tensors(strip):
    X, arguments, expected = strip
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    found = select_coordinates(graph=Tensor(distances), device="cpu", **arguments)
    assert found.subset == expected.subset
    laplacian = ies_gpu.laplacian_of_points(Tensor(X), bandwidth=1.0)
    parts = {"coordinates": Tensor(expected.coordinates), "eigenvalues": Tensor(expected.eigenvalues)}
    sizes = {name: arguments[name] for name in ("intrinsic_dim", "subset_size", "bandwidth")}
    found = select_coordinates(laplacian=laplacian, **parts, device="cpu", **sizes)
    assert found.subset == expected.subset


def test_read_only_tensors_are_read(strip):
    X = strip[0].copy()
    X.flags.writeable = False
    seen = check_points(Tensor(X))
    assert np.shares_memory(seen, X)
    found = select_coordinates(Tensor(X), device="cpu", **strip[1])
    assert found.subset == strip[2].subset
    with pytest.raises(TypeError, match=r"X must be .*OldTensor is read-only .*; pass a copy"):
        check_points(OldTensor(X))


def test_tensors_that_require_grad_are_refused(strip):
    with pytest.raises(TypeError, match=r"X must be .*requires grad.*\.detach\(\)"):
        select_coordinates(Tensor(strip[0], requires_grad=True), device="cpu", **strip[1])


def test_other_devices_and_odd_tensors_are_refused(strip):
    with pytest.raises(DeviceError, match=r"DLPack kind 8.*move it to the host"):
        select_coordinates(Tensor(strip[0], device=(8, 0)), device="cpu", **strip[1])
    with pytest.raises(TypeError, match="X must be"):
        check_points(Tensor(None))


def test_a_tensor_on_a_gpu_needs_cupy(strip, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # not installed
    with pytest.raises(DeviceError, match="an array on a GPU needs CuPy"):
        select_coordinates(Tensor(None, device=(2, 0)), device="cpu", **strip[1])


@needs_cupy
def test_a_tensor_on_the_device_is_not_copied(strip, machine):
    X, arguments, expected = strip
    cupy = sys.modules["cupy"]
    given = Tensor(cupy.asarray(X), device=(2, 0))
    assert backend_of(given).device == "cuda:0"
    assert check_points(given).data.ptr == given.data.data.ptr
    machine.transfers.clear()
    for device in ("auto", "cuda"):
        found = select_coordinates(given, device=device, **arguments)
        assert isinstance(found.coordinates, cupy.ndarray)
        assert found.subset == expected.subset
    assert ("up", X.nbytes) not in machine.transfers
    found = select_coordinates(given, device="cpu", **arguments)  # by way of the host, as it was asked for
    assert isinstance(found.coordinates, cupy.ndarray)
    assert found.subset == expected.subset


@needs_cupy
def test_a_tensor_on_the_host_goes_up_once(strip, machine):
    X, arguments, expected = strip
    found = select_coordinates(Tensor(X), device="cuda", **arguments)
    assert isinstance(found.coordinates, np.ndarray)
    assert found.subset == expected.subset
    assert machine.transfers.count(("up", X.nbytes)) == 1
    assert get_backend("cuda").to_host(Tensor(X)).shape == X.shape


@needs_cupy
def test_a_tensor_on_the_device_that_requires_grad_is_refused(strip, machine):
    given = Tensor(sys.modules["cupy"].asarray(strip[0]), device=(2, 0), requires_grad=True)
    with pytest.raises(TypeError, match=r"requires grad.*\.detach\(\)"):
        select_coordinates(given, **strip[1])
