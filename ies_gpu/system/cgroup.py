"""What control groups leave to this process: containers, Slurm jobs and systemd units set limits by them.

Version 2 has one tree, ``/sys/fs/cgroup``; version 1 has one per controller, ``/sys/fs/cgroup/memory``. A limit of any
group above the process holds for it, so all of them are looked at. In a container the process often sees its own group
as the root of the tree, and in ``/proc/self/cgroup`` a path that is not there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

TREE, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
NO_LIMIT = 1 << 60  # version 1 has no word for it, only a number near 2^63
# the files of version 2 and of version 1: limit, use, and the line for files in memory that give way when it is needed
MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_left() -> int | None:
    """Bytes that the tightest limit leaves; None without one. Files that are kept in memory do not count as used."""
    left = []
    for folder in _groups("memory"):
        for limit, used, files in MEMORY:
            with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
                if (most := int((folder / limit).read_text())) > NO_LIMIT:
                    continue
                left.append(most - int((folder / used).read_text()))
                with contextlib.suppress(OSError, ValueError, IndexError):
                    lines = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
                    left[-1] += next((int(line[1]) for line in lines if line[:1] == [files]), 0)
    return min(left, default=None)


def processors() -> int | None:
    """Whole processors that the tightest quota leaves, at least one; None without one."""
    found = []
    for folder in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (folder / "cpu.max").read_text().split()
            found.append(int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:  # -1: no limit
                found.append(int(quota) / int(period))
    return max(1, int(min(found))) if found else None


def _groups(controller: str) -> Iterator[Path]:
    """The groups of this process that may limit something, and those above them."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in (line for line in lines if line.count(":") >= 2):
        number, controllers, own = line.split(":", 2)
        if number != "0" and controller not in controllers.split(","):
            continue
        tree = TREE if number == "0" else TREE / controllers
        inside = Path(own.lstrip("/"))
        yield from (tree / group for group in (inside, *inside.parents))
