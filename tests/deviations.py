"""Where CuPy is not NumPy: facts that the code relies on, tested on the stand-in and in ``tests/gpu`` on the real one.

Both import these tests and bring the fixture ``cupy``.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from ies_gpu.backend import backend_of

__all__ = [
    "test_a_sparse_matrix_does_not_say_its_device",
    "test_arrays_refuse_implicit_conversion",
    "test_numpy_operands_and_lists_are_refused",
    "test_out_of_bounds_indices_wrap",
    "test_products_copy_a_matrix_of_another_dtype",
    "test_reduceat_is_for_sums_only",
    "test_reductions_stay_on_the_device",
    "test_repeats_may_be_a_device_array",
    "test_sparse_products_come_in_fortran_order",
    "test_there_are_no_other_sparse_formats",
]


def chain(cupy, n: int = 60):
    """A symmetric matrix (n, n), sparse, with eigenvalues close to each other at the top."""
    sparse = importlib.import_module("cupyx.scipy.sparse")
    dense = np.diag(np.full(n, 0.5)) + np.diag(np.full(n - 1, 0.25), 1) + np.diag(np.full(n - 1, 0.25), -1)
    return sparse.csr_matrix(cupy.asarray(dense)), dense


def test_arrays_refuse_implicit_conversion(cupy):
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(cupy.arange(3))


def test_numpy_operands_and_lists_are_refused(cupy):
    for other in (np.ones(3), [1.0, 2.0, 3.0]):
        with pytest.raises(TypeError):
            cupy.ones(3) + other
        with pytest.raises(TypeError):
            cupy.maximum(cupy.ones(3), other)


def test_reductions_stay_on_the_device(cupy):
    total = cupy.ones(3).sum()
    assert isinstance(total, cupy.ndarray)
    assert total.shape == ()
    assert float(total) == 3.0


def test_out_of_bounds_indices_wrap(cupy):
    taken = cupy.arange(5)[cupy.asarray([5, 7, -1])]
    assert taken.get().tolist() == [0, 2, 4]


def test_repeats_may_be_a_device_array(cupy):
    assert cupy.repeat(cupy.arange(3), cupy.asarray([2, 0, 1])).get().tolist() == [0, 0, 2]


def test_reduceat_is_for_sums_only(cupy):
    starts = cupy.asarray([0, 2])
    assert cupy.add.reduceat(cupy.arange(5), starts).get().tolist() == [1, 9]
    with pytest.raises(Exception, match=r"reduceat|support"):
        cupy.minimum.reduceat(cupy.arange(5), starts)


def test_sparse_products_come_in_fortran_order(cupy):
    matrix, dense = chain(cupy)
    block = np.random.default_rng(0).normal(size=(60, 3))
    product = matrix @ cupy.asarray(block)
    assert product.flags.f_contiguous
    assert not product.flags.c_contiguous
    np.testing.assert_allclose(product.get(), dense @ block, rtol=1e-12)


def test_there_are_no_other_sparse_formats(cupy):
    sparse = importlib.import_module("cupyx.scipy.sparse")
    for name in ("lil_matrix", "dok_matrix", "bsr_matrix", "save_npz"):
        assert not hasattr(sparse, name)


def test_a_sparse_matrix_does_not_say_its_device(cupy):
    matrix = chain(cupy)[0]
    with pytest.raises(NotImplementedError):
        _ = matrix.device
    assert matrix.data.device.id == matrix.data.data.device.id == 0
    assert backend_of(matrix).owns(matrix)


def test_products_copy_a_matrix_of_another_dtype(cupy):
    """Which is why products of float32 with float64 are a kernel of ours."""
    sparse = importlib.import_module("cupyx.scipy.sparse")
    pool = cupy.get_default_memory_pool()
    dense = np.random.default_rng(0).random((400, 400)).astype(np.float32)
    vector = cupy.ones(400)
    copies = []
    for dtype in (np.float64, np.float32):
        matrix = sparse.csr_matrix(cupy.asarray(dense.astype(dtype)))
        matrix.sum_duplicates()
        matrix @ vector.astype(dtype)  # whatever is set up once
        pool.free_all_blocks()
        before = pool.total_bytes()
        product = matrix @ vector
        assert product.dtype == np.float64
        np.testing.assert_allclose(product.get(), dense.sum(axis=1, dtype=float), rtol=1e-6)
        copies.append(pool.total_bytes() - before)
    assert copies[1] - copies[0] >= 8 * 400 * 400 - (1 << 16)
