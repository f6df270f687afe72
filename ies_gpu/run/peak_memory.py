"""How much memory this process holds, and held at most. Standard library only: the command line needs it early."""

from __future__ import annotations

import os
import sys


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes (0 if the system does not say)."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else max(1024 * peak, _resident())  # Linux updates its peak a little late


def resident_memory() -> int:
    """The memory that this process holds now, in bytes; or the peak if the system reports only that."""
    return _resident() or peak_memory()


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
