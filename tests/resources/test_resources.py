"""What a job will need: the formula behaves as it must, and is right for runs that were made."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import device_counts
from ies_gpu.resources import CONTEXT, SAMPLES, START, estimate_resources
from tests.backends import needs_cupy
from tests.manifolds import rectangle
from tests.said import refused

STRIP = {"n": 100_000, "dim": 3, "degree": 169}


def peak(**changes):
    return estimate_resources(**STRIP | changes).peak_bytes


def test_memory_grows_with_all_that_makes_a_job_larger():
    more = [{"n": 200_000}, {"degree": 338}, {"dim": 300}, {"n_components": 200}]
    assert all(peak(**change) > 1.1 * peak() for change in more)
    single, double = (estimate_resources(**STRIP, dtype=kind).stages["result"] for kind in ("float32", "float64"))
    assert single < double and peak(n_components=2) <= peak()
    assert peak(n=200_000) - START == pytest.approx(2 * (peak() - START), rel=1e-6)  # linear at one degree
    below, above = (peak(n=10**7, degree=degree) for degree in (213.0, 215.0))  # 2^31 entries are between
    assert below + 4 * 2**31 < above


def test_no_stage_takes_less_than_what_it_must_hold():
    """The matrix in float64 with int32 indices, the points, the coordinates and the bases."""
    found = estimate_resources(**STRIP).stages
    matrix, points, coordinates = 12 * 100_000 * 170, 8 * 100_000 * 3, 8 * 100_000 * 20
    assert min(found.values()) > points + START
    assert all(found[stage] > matrix + points + START for stage in ("graph", "laplacian", "eigenvectors"))
    assert found["tangents"] > matrix + points + 2 * coordinates + START
    assert found["result"] > points + coordinates + 2 * coordinates + START


def test_a_limit_changes_storage_and_time_and_may_be_too_low():
    """D13 took 4.9 GB on a machine where that fitted; half a gigabyte allows only to compute the tiles again."""
    dense = {"n": 50_000, "dim": 14, "degree": 26_600, "intrinsic_dim": 3, "subset_size": 4}
    stored = estimate_resources(**dense, memory_limit=11 << 30)
    assert "tiles" in stored.storage and 4.9e9 / 1.5 < stored.peak_bytes < 4.9e9 * 1.5
    assert estimate_resources(**dense, memory_limit=1 << 29).peak_bytes < 1e9
    free, tight = (estimate_resources(**STRIP, memory_limit=limit) for limit in (None, 300 << 20))
    assert tight.peak_bytes <= START + (300 << 20) < free.peak_bytes
    assert free.factor == 1.0 < tight.factor and tight.seconds > free.seconds
    with refused("memory.too_little"):
        estimate_resources(**STRIP, memory_limit=16 << 20)


def test_time_is_shared_by_threads_and_unknown_on_a_gpu_or_for_too_many_sets():
    one, two = (estimate_resources(**STRIP, n_threads=k).seconds for k in (1, 2))
    assert one / 2 < two < one
    gpu = estimate_resources(**STRIP, device="cuda:1")
    assert gpu.seconds is None and gpu.device_bytes > gpu.peak_bytes
    assert estimate_resources(**STRIP, n_components=150, subset_size=4).seconds is not None  # 551,300 sets
    assert estimate_resources(**STRIP, n_components=5000, subset_size=2500).seconds is None  # beyond all floats


@needs_cupy
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "degree", "m", "dtype"),
    [
        (6000, 60, 8, "float64"),  # multilevel
        (3000, 200, 20, "mixed"),  # Lanczos
        pytest.param(20_000, 60, 20, "float64", marks=pytest.mark.slow),
        pytest.param(60_000, 120, 20, "float64", marks=pytest.mark.slow),
    ],
)
def test_what_a_gpu_needs_is_what_cupy_asks_for(n, degree, m, dtype):
    machine, found = device_counts.counted(n, degree, n_components=m, dtype=dtype)
    job = {"n": n, "dim": 3, "degree": found.diagnostics["mean_degree"], "n_components": m, "dtype": dtype}
    told = estimate_resources(**job, device="cuda").device_bytes - CONTEXT
    print(f"n {n}, {dtype}: counted {machine.peak / 1e6:.0f} MB, estimated {told / 1e6:.0f} MB")
    assert machine.peak / 1.5 < told < 1.5 * machine.peak + SAMPLES


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the peak of a child is known on POSIX only")
@pytest.mark.parametrize(("n", "degree", "columns"), [(20_000, 100, 3), (100_000, 169, 3), (30_000, 60, 120)])
def test_runs_take_what_was_estimated(n, degree, columns, tmp_path):
    """Peak memory of a whole ``ies-gpu fit``, within a factor of 1.5."""
    points, _, bandwidth = rectangle(n, 4.0, degree=degree)
    np.save(tmp_path / "points.npy", points @ np.linalg.qr(np.random.default_rng(1).normal(size=(columns, 3)))[0].T)
    fit = [sys.executable, "-m", "ies_gpu", "fit", tmp_path / "points.npy", "-d", "2", "-s", "2", "--json", "--quiet"]
    with subprocess.Popen([*fit, "--bandwidth", repr(float(bandwidth))], stdout=subprocess.PIPE) as process:
        found = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # nobody can wait for it once more
    assert status == 0
    measured = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    told = estimate_resources(n=n, dim=columns, degree=found["diagnostics"]["mean_degree"]).peak_bytes
    print(f"n {n}, {columns} columns: measured {measured / 1e6:.0f} MB, estimated {told / 1e6:.0f} MB")
    assert measured / 1.5 < told < measured * 1.5
