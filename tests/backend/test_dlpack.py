"""Tensors of other libraries are taken without a copy, or refused in words: on the host and on a device."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend import backend_of
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


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
def test_a_tensor_on_the_host_is_the_same_memory(strip, kind):
    X, arguments, expected = strip
    assert np.shares_memory(check_points(kind(X)), X)
    assert backend_of(kind(X)).device == "cpu"
    assert check_real_array("X", kind(X.astype(np.float32)), 2).dtype == np.float64
    found = select_coordinates(kind(X), device="cpu", **arguments)
    np.testing.assert_array_equal(found.coordinates, expected.coordinates)
    assert isinstance(found.coordinates, np.ndarray)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    assert select_coordinates(graph=kind(distances), device="cpu", **arguments).subset == expected.subset


def test_what_cannot_be_shared_is_refused_in_words(strip, monkeypatch):
    X = strip[0].copy()
    X.flags.writeable = False
    assert np.shares_memory(check_points(Tensor(X)), X)  # read-only ones are read
    monkeypatch.setitem(sys.modules, "cupy", None)  # not installed
    for given, kind, words in (
        (OldTensor(X), TypeError, r"X must be .*OldTensor is read-only .*; pass a copy"),
        (Tensor(X, requires_grad=True), TypeError, r"X must be .*requires grad.*\.detach\(\)"),
        (Tensor(None), TypeError, "X must be"),
        (Tensor(X, device=(8, 0)), DeviceError, r"DLPack kind 8.*move it to the host"),
        (Tensor(None, device=(2, 0)), DeviceError, "an array on a GPU needs CuPy"),
    ):
        with pytest.raises(kind, match=words):
            select_coordinates(given, device="cpu", **strip[1])


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
