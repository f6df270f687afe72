"""The installed CuPy runs on the CPU, and what a GPU would not forgive is noticed."""

import importlib
import sys

import numpy as np
import pytest

from ies_gpu.backend.kernels.cuda import text
from tests.backends import needs_cupy
from tests.real_cupy import plugged_in
from tests.real_cupy.views import view

pytestmark = needs_cupy


def test_memory_that_nobody_wrote_is_not_a_number():
    with plugged_in(pool=False) as machine:
        there = sys.modules["cupy"].empty(100)
        assert np.isnan(there.get()).all()
        assert machine.used == machine.peak >= 800


def test_arrays_of_another_device_are_refused():
    with plugged_in(n_devices=2):
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(1):
            there = cupy.ones(4)
        with pytest.raises(Exception, match="on device 0 gets memory of device 1"):
            text.load_kernel("csr", "totals")(
                (1,), (32,), (there.reshape(4, 1), np.int64(4), np.int32(1), np.float64(0), cupy.ones(1))
            )


def test_what_goes_beyond_an_array_is_refused():
    with plugged_in(pool=False):
        there = sys.modules["cupy"].zeros(5)
        with pytest.raises(RuntimeError, match="beyond its array: 48 bytes, there are 40"):
            view(there.data.ptr, "float64", (6,))
    with pytest.raises(RuntimeError, match="memory of the host"):
        view(np.zeros(3).ctypes.data, "float64", (3,))


def test_kernels_refuse_arguments_of_other_types(cupy):
    """A kernel takes the bytes for what its text says; neither CuPy nor CUDA looks."""
    kernel = text.load_kernel("csr", "turn")
    R, P, left = cupy.zeros((5, 3), dtype="float32"), cupy.zeros((5, 3), dtype="float32"), cupy.ones(3)
    sizes = np.int64(15), np.int32(3)
    kernel((1,), (128,), (R, P, left, left, *sizes))
    for wrong in (
        (R, P.astype("float64"), left, left, *sizes),
        (R, P, left, left.astype("float32"), *sizes),
        (R, P, left, left, np.int32(15), np.int32(3)),
        (R, P, left, np.float64(1), *sizes),
        (R, P, left, left, *sizes, np.int32(0)),
    ):
        with pytest.raises(TypeError, match=r"parameter \d of turn is|turn has 6 parameters"):
            kernel((1,), (128,), wrong)
    with pytest.raises(TypeError, match="C-contiguous"):
        kernel((1,), (128,), (cupy.zeros((5, 6), dtype="float32")[:, ::2], P, left, left, *sizes))


def test_a_queue_shows_who_does_not_wait():
    """The host changes memory that is still to be uploaded, and reads what is not there yet."""
    with plugged_in(queued=True):
        cupy = sys.modules["cupy"]
        there, back = cupy.zeros(4), np.zeros(4)
        source = cupy.cuda.alloc_pinned_memory(32)
        host = np.frombuffer(source, np.float64, 4)
        host[:] = 1
        there.set(host)
        host[:] = 2
        there.get(out=back, blocking=False)
        assert (back == 0).all()
        cupy.cuda.Device().synchronize()
        assert (back == 2).all()


def test_the_eigensolver_that_benchmarks_compare_with(cupy, rng):
    """cupyx's asks cuBLAS for what nothing else does: the table of ``benchmarks.gpu`` is rehearsed as a whole."""
    A = rng.normal(size=(60, 60))
    A += A.T
    there = importlib.import_module("cupyx.scipy.sparse").csr_matrix(cupy.asarray(A))
    eigsh = importlib.import_module("cupyx.scipy.sparse.linalg").eigsh
    values = eigsh(there, k=4, which="LA", v0=cupy.ones(60), return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(values.get()), np.linalg.eigvalsh(A)[-4:], rtol=1e-10)
