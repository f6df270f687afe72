"""What this process holds, and limits of control groups, from trees as Docker, Slurm and systemd lay them out."""

from __future__ import annotations

import mmap
import subprocess
import sys

import pytest

from ies_gpu import system
from ies_gpu.backend.cpu import available_memory, available_threads

GB = 1 << 30
OPEN = {"memory.max": "max", "memory.current": str(GB), "memory.stat": "anon 5\ninactive_file 0\n"}
JOB = "system.slice/slurmstepd.scope/job_7"


def limited(size, **more):
    return OPEN | {"memory.max": str(int(size * GB))} | {name.replace("_", "."): text for name, text in more.items()}


@pytest.mark.parametrize(
    ("membership", "groups", "memory", "count"),
    [
        pytest.param("0::/\n", {"": limited(3, cpu_max="250000 100000")}, 2, 2, id="a container sees itself as root"),
        pytest.param("0::/docker/4f1c\n", {"": limited(3)}, 2, None, id="the path of the host need not exist"),
        pytest.param(f"0::/{JOB}/step/task\n", {f"{JOB}/step/task": OPEN, JOB: limited(5)}, 4, None, id="of any above"),
        pytest.param(
            f"0::/{JOB}/step\n", {f"{JOB}/step": limited(2, cpu_max="50000 100000"), JOB: limited(5)}, 1, 1, id="least"
        ),
        pytest.param(
            "what is this\n0::/\n",
            {"": {"memory.max": str(3 * GB), "memory.current": str(GB), "cpu.max": "100000 0"}}, 2, None,
            id="what cannot be read does not hide a limit",
        ),
        pytest.param(
            "0::/a\n", {"a": limited(2, memory_stat=f"anon 9\ninactive_file {GB // 2}\n")}, 1.5, None,
            id="files in memory give way",
        ),
        pytest.param("0::/\n", {"": OPEN | {"cpu.max": "max 100000"}}, None, None, id="no limit"),
        pytest.param("", {"": limited(1)}, None, None, id="no group"),
        pytest.param(None, {}, None, None, id="no Linux"),
    ],
)  # fmt: skip
def test_the_tightest_limit_above_the_process_holds(membership, groups, memory, count, tmp_path, monkeypatch):
    for group, files in groups.items():
        place = tmp_path / "tree" / group
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(text + "\n")
    if membership is not None:
        (tmp_path / "own").write_text(membership)
    monkeypatch.setattr(system, "TREE", tmp_path / "tree")
    monkeypatch.setattr(system, "MEMBERSHIP", tmp_path / "own")
    assert system.memory_left() == (None if memory is None else memory * GB) and system.processors() == count
    if memory == 1:  # a run takes it into account
        assert available_memory() <= GB and available_threads() == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc as on Linux")
def test_an_array_that_is_filled_is_held_and_the_peak_stays_when_it_is_gone():
    before = system.resident_memory()
    with mmap.mmap(-1, 32 << 20) as fresh:  # of NumPy's memory, some may have been held before
        fresh.write(bytes(32 << 20))
        held = system.resident_memory() - before
    assert held > 28 << 20 and system.peak_memory() - before > 28 << 20  # Linux counts a little late


def test_the_command_line_may_ask_before_anything_is_loaded():
    code = "import sys; from ies_gpu import system; system.memory_left(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ies_gpu.system" in loaded and "numpy" not in loaded
