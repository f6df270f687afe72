"""Limits on memory under which nothing runs, looked at before the libraries are loaded.

Below a limit on the address space (``ulimit -v``) libraries end the process. In a control group smaller than they are,
the system reads their pages from the disk again and again, and nothing gets done.
"""

from __future__ import annotations

import os

from ..system import cgroup
from ..system.memory import address_space_limit

LEAST = 640 << 20  # Python with all libraries and a small run; measured: 530 MB with kernels from the cache
SMALL = 8 << 30
LEAST_GROUP = 90 << 20  # a run of 60,000 points ended properly in 100 MB, and was stuck in 64 MB
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # each thread of BLAS reserves some 40 MB


def check_address_space() -> None:
    """Refuse limits under which nothing runs, and keep BLAS from filling a small address space with threads.

    Raises
    ------
    ValueError
        If a limit is too low for any run.
    """
    limit = address_space_limit()
    if limit is not None and limit < LEAST:
        raise ValueError(
            f"the limit on the address space (ulimit -v) is {limit / 1e6:.0f} MB, but the libraries alone take "
            f"{LEAST / 1e6:.0f} MB; raise it, or limit the run with --memory-limit instead"
        )
    if limit is not None and limit < SMALL:  # the kernels have threads of their own, so little is lost
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")
    left = cgroup.memory_left()
    if left is not None and left < LEAST_GROUP:
        raise ValueError(
            f"the control group of this process (a container's or job's limit) leaves {left / 1e6:.0f} MB of memory, "
            f"but at least {LEAST_GROUP / 1e6:.0f} MB are needed to start; raise its limit"
        )
