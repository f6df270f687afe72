"""What the operating system gives this process. Standard library only: the command line asks before it loads more.

Containers, Slurm jobs and systemd units set limits by control groups (version 2). A limit of any group above the
process holds for it, so all of them are looked at. In a container the process often sees its own group as the root of
the tree, and in ``/proc/self/cgroup`` a path that is not there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

TREE, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory_left() -> int | None:
    """Return the bytes that the tightest limit leaves; None without one. Files kept in memory do not count as used."""
    left = []
    for group in _groups():
        with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
            left.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
            with contextlib.suppress(OSError, ValueError, IndexError):
                lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
                left[-1] += next((int(line[1]) for line in lines if line[:1] == ["inactive_file"]), 0)
    return min(left, default=None)


def processors() -> int | None:
    """Return the whole processors that the tightest quota leaves, at least one; None without one."""
    found = []
    for group in _groups():
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (group / "cpu.max").read_text().split()
            found.append(int(quota) / int(period))
    return max(1, int(min(found))) if found else None


def _groups() -> Iterator[Path]:
    """Yield the group of this process, and those above it."""
    with contextlib.suppress(OSError):  # no Linux
        for line in MEMBERSHIP.read_text().splitlines():
            if line.startswith("0::"):
                inside = Path(line[3:].lstrip("/"))
                yield from (TREE / group for group in (inside, *inside.parents))


def peak_memory() -> int:
    """Return the most memory that this process has held so far, in bytes (0 if the system does not say)."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else max(1024 * peak, _held())  # Linux updates its peak a little late


def resident_memory() -> int:
    """Return the memory that this process holds now, in bytes; or the peak if the system reports only that."""
    return _held() or peak_memory()


def _held() -> int:
    """Return the bytes of memory that this process has; 0 on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
