"""How much memory this process holds, and how much address space a limit (``ulimit -v``) leaves it."""

from __future__ import annotations

import os
import sys

THREAD = 160 << 20  # the stack of a thread, and what the allocator reserves for it


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes (0 if the system does not say)."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else max(1024 * peak, _held(1))  # Linux updates its peak a little late


def resident_memory() -> int:
    """The memory that this process holds now, in bytes; or the peak if the system reports only that."""
    return _held(1) or peak_memory()


def address_space_limit() -> int | None:
    """The limit on the address space in bytes, if any: near it threads die while they start, and LLVM aborts."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if limit == resource.RLIM_INFINITY else limit
    except (ImportError, AttributeError, OSError, ValueError):  # Windows
        return None


def headroom() -> int | None:
    """Bytes of address space that this process may still take; None without a limit."""
    limit, held = address_space_limit(), _held(0)
    return limit - held if limit is not None and held else None


def room_for_threads(count: int) -> bool:
    """Whether that many threads can be started: Python waits for ever for one that dies of it."""
    left = headroom()
    return left is None or left > count * THREAD


def _held(field: int) -> int:
    """Bytes of address space (field 0) or of memory (1) that this process has; 0 on systems without /proc."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
