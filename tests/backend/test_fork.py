"""A process that is forked after a fit works as its parent does, and processes agree whatever their threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib, multiprocessing, os, sys
from ies_gpu import datasets, select_coordinates
X = datasets.load("D1", n_samples=1500).X

def job(solver):
    os.environ["IES_GPU_SOLVER"] = solver
    found = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.7, n_components=10)
    parts = (found.coordinates, found.eigenvalues, found.regrets, found.bases)
    return found.subset, hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

def children(solvers):
    if sys.argv[1] == "Pool":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map_async(job, solvers).get(timeout=60)
    if sys.argv[1] == "joblib":
        import joblib
        return joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(job)(s) for s in solvers)
    for solver in solvers:  # os.fork
        child = os.fork()
        if child == 0:
            os._exit(0 if job(solver) == expected[solver] else 3)
        assert os.waitpid(child, 0)[1] == 0
    return [expected[s] for s in solvers]

solvers = ["auto", "eigsh"]
expected = {s: job(s) for s in solvers}
assert children(solvers) == [expected[s] for s in solvers]
print(expected)
"""
SEEN: set[str] = set()  # what parents found, whatever their number of threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize(("way", "threads"), [("Pool", "1"), ("Pool", "2"), ("joblib", "2"), ("os.fork", "2")])
def test_a_forked_child_computes_the_same_bits(way, threads):
    if way == "joblib":
        pytest.importorskip("joblib")
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "IES_GPU_DEVICE": "cpu",
        "IES_GPU_KERNELS": "",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, way],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    SEEN.add(done.stdout)
    assert len(SEEN) == 1


def test_no_kernel_uses_openmp():
    """Numba's ``prange`` takes GNU OpenMP where that is installed, which kills a forked process."""
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    for module in (fused.multilevel, fused.neighbours, fused.order, fused.products, fused.scores, fused.tangent):
        loops = [value for value in vars(module).values() if hasattr(value, "targetoptions")]
        assert not any(loop.targetoptions.get("parallel") for loop in loops)
