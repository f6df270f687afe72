"""Limits of control groups, read from trees as Docker, Slurm, systemd and older systems lay them out."""

from __future__ import annotations

import pytest

from ies_gpu.backend.cpu import available_memory, available_threads
from ies_gpu.system import cgroup

GB = 1 << 30
V2 = {"memory.max": "max", "memory.current": str(GB), "memory.stat": "anon 5\ninactive_file 0\n"}
V1 = {"memory.limit_in_bytes": str(2**63 - 4096), "memory.usage_in_bytes": str(GB), "memory.stat": "cache 5\n"}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Lay out groups: ``{folder: {file: text}}`` and the lines of ``/proc/self/cgroup``."""

    def laid_out(membership, **groups):
        for folder, files in groups.items():
            place = tmp_path / "tree" / folder.strip("/")
            place.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (place / name).write_text(text + "\n")
        (tmp_path / "own").write_text(membership)

    monkeypatch.setattr(cgroup, "TREE", tmp_path / "tree")
    monkeypatch.setattr(cgroup, "MEMBERSHIP", tmp_path / "own")
    return laid_out


def test_a_container_sees_its_own_group_as_the_root(tree):
    tree("0::/\n", **{"/": V2 | {"memory.max": str(3 * GB), "cpu.max": "250000 100000"}})
    assert cgroup.memory_left() == 2 * GB and cgroup.processors() == 2


def test_the_path_of_the_host_need_not_exist_in_the_container(tree):
    tree("0::/docker/4f1c\n", **{"/": V2 | {"memory.max": str(3 * GB)}})
    assert cgroup.memory_left() == 2 * GB


def test_a_limit_anywhere_above_the_process_holds(tree):
    """Slurm limits the job; the step and the task below it have no limit of their own."""
    job = "/system.slice/slurmstepd.scope/job_7"
    tree(f"0::{job}/step_0/task_0\n", **{f"{job}/step_0/task_0": V2, job: V2 | {"memory.max": str(5 * GB)}})
    assert cgroup.memory_left() == 4 * GB
    tree(f"0::{job}/step_0/task_0\n", **{f"{job}/step_0": V2 | {"memory.max": str(2 * GB), "cpu.max": "50000 100000"}})
    assert cgroup.memory_left() == GB and cgroup.processors() == 1


def test_version_1_has_a_tree_for_each_controller(tree):
    own = "9:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"
    limited = {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}
    tree(own, **{"memory/job": V1 | {"memory.limit_in_bytes": str(3 * GB)}, "memory": V1, "cpu,cpuacct/job": limited})
    assert cgroup.memory_left() == 2 * GB and cgroup.processors() == 3


def test_what_cannot_be_read_of_a_group_does_not_hide_its_limit(tree):
    """Without memory.stat nothing is known of files; a line or a period that nobody can read is passed over."""
    odd = {"memory.max": str(3 * GB), "memory.current": str(GB), "cpu.max": "100000 0"}
    tree("what is this\n0::/\n", **{"/": odd})
    assert cgroup.memory_left() == 2 * GB and cgroup.processors() is None


def test_files_in_memory_give_way(tree):
    """A job that has just read a large file has used nothing."""
    tree("0::/a\n", a=V2 | {"memory.max": str(2 * GB), "memory.stat": f"anon 9\ninactive_file {GB // 2}\n"})
    assert cgroup.memory_left() == 1.5 * GB
    kept = {"memory.limit_in_bytes": str(2 * GB), "memory.stat": f"inactive_file 7\ntotal_inactive_file {GB // 4}\n"}
    tree("4:memory:/a\n", **{"memory/a": V1 | kept})
    assert cgroup.memory_left() == 1.25 * GB


@pytest.mark.parametrize("membership", ["", "0::/\n", "4:memory:/a\n"])
def test_no_limit_is_none(tree, membership):
    quota = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
    tree(membership, **{"/": V2 | {"cpu.max": "max 100000"}, "memory/a": {}, "cpu": quota})
    assert cgroup.memory_left() is None and cgroup.processors() is None


def test_no_linux_is_no_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroup, "MEMBERSHIP", tmp_path / "nothing")
    assert cgroup.memory_left() is None and cgroup.processors() is None


def test_a_run_takes_them_into_account(tree):
    tree("0::/a\n", a=V2 | {"memory.max": str(GB + (100 << 20)), "cpu.max": "100000 100000"})
    assert available_memory() == 100 << 20 and available_threads() == 1
