"""Hard limits on the address space, ``ulimit -v``: a result, or a clear error and status 1; no hang and no abort."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from ies_gpu import datasets, load

resource = pytest.importorskip("resource", reason="limits are POSIX")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and RLIMIT_AS as on Linux")
MB = 1 << 20
ALL = [450, 480, 500, 520, 540, 560, 580, 600, 620, 640, 660, 680, 700, 720, 740, 760, 780, 800, 850, 900, 950]
ALL += [1000, 1100, 1200, 1300, 1400, 1500]


def fit(points, folder, limit, *options, seconds=600, **environment):
    """Status and last line of ``ies-gpu fit`` under a limit in MB."""
    np.save(folder / "points.npy", points)
    command = [sys.executable, "-m", "ies_gpu", "fit", str(folder / "points.npy"), "-d", "2", "-s", "2", "--quiet"]
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [*command, *options, "-o", str(folder / "run.npz")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit * MB, limit * MB)),
        env=kept | {"IES_GPU_KERNELS": "", "IES_GPU_DEVICE": "cpu"} | environment,
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def judged(status, told, folder):
    """A whole result, or one clear sentence."""
    if status == 0:
        assert load(folder / "run.npz").subset
        return "done"
    assert status == 1 and told.startswith("ies-gpu: error: "), (status, told)
    assert "memory" in told or "address space" in told, told
    assert not (folder / "run.npz").exists() and not list(folder.glob(".*.tmp"))
    return "refused"


@pytest.mark.parametrize("limit", [300, 560])
def test_too_little_for_the_libraries_is_said_before_they_are_loaded(limit, tmp_path):
    status, told = fit(datasets.load("D1", n_samples=300).X, tmp_path, limit, "--bandwidth", "1")
    assert judged(status, told, tmp_path) == "refused"
    assert "(ulimit -v)" in told and "raise it" in told


def test_a_small_run_fits_into_a_limit_above_that(tmp_path):
    status, told = fit(datasets.load("D1", n_samples=300).X, tmp_path, 900, "--bandwidth", "1", "-m", "8")
    assert judged(status, told, tmp_path) == "done"


def test_a_control_group_smaller_than_the_libraries_is_refused(monkeypatch, capsys, tmp_path):
    """In 64 MB of a real one a run read the libraries' pages again and again, and did not end."""
    from ies_gpu.cli import main

    monkeypatch.setattr("ies_gpu.system.cgroup.memory_left", lambda: 60 * MB)
    assert main(["fit", str(tmp_path / "points.npy")]) == 1
    assert "leaves 63 MB of memory, but at least 94 MB are needed to start" in capsys.readouterr().err


@pytest.mark.slow
def test_no_limit_hangs_or_aborts(tmp_path):
    """The 27 limits of the issue, 60,000 points, as many threads as there are processors."""
    points = np.random.default_rng(0).uniform(size=(60_000, 2)) * [25.0, 4.0]
    for limit in ALL:
        (tmp_path / str(limit)).mkdir()
        status, told = fit(points, tmp_path / str(limit), limit, "--bandwidth", "0.0768")
        print(f"{limit} MB: {judged(status, told, tmp_path / str(limit))}. {told[:150]}")
