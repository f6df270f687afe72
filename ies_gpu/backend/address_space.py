"""What a limit on the address space (``ulimit -v``) leaves: below it threads die while they start, and LLVM aborts."""

from __future__ import annotations

import os

THREAD = 160 << 20  # the stack of a thread, and what the allocator reserves for it
KERNELS = 300 << 20  # loading Numba, LLVM and the compiled kernels


def headroom() -> int | None:
    """Bytes of address space that this process may still take; None without a limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        with open("/proc/self/statm", encoding="ascii") as file:
            return limit - int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, AttributeError, OSError, ValueError):  # Windows, and systems without /proc
        return None


def room_for_threads(count: int) -> bool:
    """Whether that many threads can be started: Python waits for ever for one that dies of it."""
    left = headroom()
    return left is None or left > count * THREAD
