"""A kernel whose rows lie in a temporary file gives the bits of the matrix in memory, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from ies_gpu import datasets, gaussian_kernel, radius_graph, select_coordinates
from ies_gpu.backend import get_backend
from ies_gpu.embedding import on_disk
from ies_gpu.embedding.laplacian import laplacian_in_place
from ies_gpu.embedding.on_disk import KernelOnDisk, RowFile, in_memory, room_on_disk, scratch_folder
from ies_gpu.embedding.transition import SparseKernel
from tests.comparison import assert_equal_selections, stored_as

X = datasets.load("D1", n_samples=900).X
OPTIONS = {"bandwidth": 0.7, "intrinsic_dim": 2, "subset_size": 2, "n_components": 8}


def written(matrix, folder, backend, step=100):
    rows = RowFile(str(folder), str(matrix.data.dtype), "int32")
    for first in range(0, matrix.shape[0], step):
        part = matrix[first : first + step]
        rows.append(np.diff(part.indptr), part.indices, part.data)
    rows.finish()
    return KernelOnDisk(rows, backend)


@pytest.fixture(params=["float64", "float32"])
def both(request, tmp_path):
    """The same kernel in memory and in a file, read in blocks of 64 kB."""
    backend = get_backend("cpu", memory_limit=1 << 20)
    backend.block_bytes = lambda: 1 << 16
    matrix = gaussian_kernel(radius_graph(X, radius=2.1), bandwidth=0.7).astype(request.param)
    return SparseKernel(matrix.copy()), written(matrix, tmp_path, backend), backend


@pytest.mark.parametrize("self_loops", [True, False])
def test_products_scaling_and_tangents_are_those_of_the_matrix_to_the_bit(both, self_loops):
    memory, file, backend = both
    assert memory.nnz * 8 > 10 * (1 << 16)  # many blocks
    rng = np.random.default_rng(0)
    with backend.active():
        for kernel in (memory, file):
            if not self_loops:
                kernel.drop_diagonal()
        for V in (rng.normal(size=900), rng.normal(size=(900, 5))):
            np.testing.assert_array_equal(file @ V, memory @ V)
        one, two = (laplacian_in_place(kernel, 0.7) for kernel in (memory, file))
        np.testing.assert_array_equal(one.weights, two.weights)
        for V in (rng.normal(size=900), rng.normal(size=(900, 5))):
            np.testing.assert_array_equal(two.operator.product(V, backend), one.operator.product(V, backend))
        Y = rng.normal(size=(900, 6))
        for block in two.operator.blocks(6, backend):
            with block as rows:
                for a, b in zip(
                    two.operator.tangents(Y, rows, 2, backend), one.operator.tangents(Y, rows, 2, backend), strict=True
                ):
                    np.testing.assert_array_equal(a, b)
        some = np.array([0, 17, 899])
        sample, whole = two.operator.some_rows(some), one.operator.matrix
        assert abs(sample[some] - whole[some]).max() == 0 and sample.nnz == whole[some].nnz


def test_connected_parts_are_found_across_blocks(tmp_path):
    """Four intervals of points, mixed up; the parts and who is in them are known."""
    rng = np.random.default_rng(1)
    part = rng.permutation(np.repeat(np.arange(4), [300, 200, 99, 1]))
    points = (3.0 * part + rng.uniform(0, 1, 600))[:, None]
    matrix = gaussian_kernel(radius_graph(points, radius=0.2), bandwidth=0.2)
    backend = get_backend("cpu", memory_limit=1 << 20)
    backend.block_bytes = lambda: 1 << 14
    parts, labels = written(matrix, tmp_path, backend, step=7).components()
    assert parts == 4
    assert len(set(zip(labels.tolist(), part.tolist(), strict=True))) == 4


def test_a_run_under_a_limit_gives_the_bits_of_one_without(monkeypatch):
    """Both forms of the plan that use a file; Lanczos in all three runs."""
    usual = select_coordinates(X, **OPTIONS)
    for storage in ("gathered", "file"):
        stored_as(monkeypatch, storage)
        found = select_coordinates(X, **OPTIONS)
        assert_equal_selections(usual, found)
        assert found.diagnostics["audit"].keys() == usual.diagnostics["audit"].keys()


def test_the_file_has_no_name_and_goes_with_its_owner(tmp_path):
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    rows = RowFile(str(tmp_path), "float64", "int32")
    rows.append(np.array([1]), np.array([0], dtype=np.int32), np.array([1.0]))
    assert os.name == "nt" or not os.listdir(tmp_path)
    del rows
    assert not before or set(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_file_is_left_by_a_process_that_was_stopped(how, tmp_path):
    code = (
        "import sys, time, numpy as np\n"
        "from ies_gpu.embedding.on_disk import RowFile\n"
        f"rows = RowFile({str(tmp_path)!r}, 'float64', 'int32')\n"
        "rows.append(np.array([9]), np.arange(9), np.ones(9)); print('there', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"there\n"
        process.send_signal(how)
    assert not os.listdir(tmp_path)


def test_a_full_disk_is_an_error_that_says_what_to_do(monkeypatch, tmp_path):
    stored_as(monkeypatch, "file")
    honest = on_disk.unnamed

    class Full:
        def __init__(self, folder):
            self.file, self.left = honest(folder), 100_000

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, view):
            self.left -= len(view)
            if self.left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.file.write(view)

    monkeypatch.setattr(on_disk, "unnamed", Full)
    with pytest.raises(OSError, match=r"could not be written after 0.00 GB: No space left.*set TMPDIR .*memory_limit"):
        select_coordinates(X, **OPTIONS)


def test_a_short_file_is_noticed(tmp_path):
    rows = RowFile(str(tmp_path), "float64", "int32")
    rows.append(np.array([3]), np.arange(3), np.ones(3))
    rows.finish()
    rows.entries.truncate(10)
    with pytest.raises(OSError, match="shorter than what was written"):
        list(rows.blocks(100))


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="a file system in memory is needed")
def test_files_in_memory_are_not_taken_for_disk(monkeypatch):
    assert in_memory("/dev/shm") and room_on_disk("/dev/shm") == 0
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    monkeypatch.setattr("tempfile.tempdir", None)
    assert scratch_folder() == "/dev/shm"  # it was asked for
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    assert scratch_folder() == (
        "/var/tmp" if os.access("/var/tmp", os.W_OK) and not in_memory("/var/tmp") else "/dev/shm"
    )


def test_entries_may_outnumber_what_the_type_of_a_column_counts_to(tmp_path):
    """As 2^31 entries of fewer points do; here 200 entries with columns in eight bits."""
    rows = RowFile(str(tmp_path), "float64", "int8")
    for _ in range(20):
        rows.append(np.array([10]), np.arange(10), np.ones(10))
    rows.finish()
    kernel = KernelOnDisk(rows, get_backend("cpu")).loaded()
    np.testing.assert_array_equal(kernel @ np.ones(20), np.full(20, 10.0))
