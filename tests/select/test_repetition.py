"""The same bits whoever computes them, and nothing that grows from fit to fit."""

import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend.cpu import resident_memory
from tests.comparison import stored_as

X = datasets.load("D1", n_samples=700).X
OPTIONS = {"bandwidth": 0.8, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10, "device": "cpu"}


def digest(found):
    parts = (found.coordinates, found.eigenvalues, found.regrets, found.bases, found.singular_values)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def test_fits_in_threads_of_one_process_do_not_disturb_each_other():
    """Four at a time, on two problems, in memory and in threads that compute with one and with two threads."""
    cases = [(X[:n], threads) for n in (700, 600) for threads in (1, 2)] * 2
    alone = [digest(select_coordinates(points, n_threads=k, **OPTIONS)) for points, k in cases]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda case: digest(select_coordinates(case[0], n_threads=case[1], **OPTIONS)), cases))
    assert together == alone and len(set(alone)) == 2


SCRIPT = """
import sys
from ies_gpu import datasets, select_coordinates
from tests.select.test_repetition import digest
for options in ({"bandwidth": 0.25, "intrinsic_dim": 2, "subset_size": 2}, {"n_components": 12}):
    n = 6000 if "bandwidth" in options else 1500
    found = select_coordinates(datasets.load("D1", n_samples=n).X, device="cpu", **options)
    print(found.diagnostics["solver"]["method"], found.subset, digest(found))
"""


@pytest.mark.slow
def test_processes_threads_and_hashes_do_not_matter():
    """The multilevel method and an automatic run, in eight processes."""
    seen = set()
    for threads in ("1", "2"):
        for seed in ("0", "1", "2", "random"):
            chosen = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads, "PYTHONHASHSEED": seed}
            environment = os.environ | chosen | {"OPENBLAS_NUM_THREADS": threads, "IES_GPU_KERNELS": ""}
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
            )
            seen.add(done.stdout)
    assert len(seen) == 1 and "multilevel" in seen.pop()


def held():
    return resident_memory(), len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc is Linux")
@pytest.mark.parametrize(("before", "fits"), [(3, 6), pytest.param(10, 100, marks=pytest.mark.slow)])
def test_fits_in_one_process_do_not_grow(monkeypatch, before, fits):
    """Every third has its kernel as tiles."""
    first = None
    for number in range(before + fits):
        first = held() if number == before else first
        with monkeypatch.context() as patch:
            if number % 3 == 0:
                stored_as(patch, "recomputed")
            select_coordinates(X[number % 10 :], **OPTIONS)
    memory, files, threads = (after - then for after, then in zip(held(), first, strict=True))
    assert (files, threads) == (0, 0)
    assert memory < 10e6 or fits < 100  # one result is 0.3 MB: a hundred that stayed would be 30
