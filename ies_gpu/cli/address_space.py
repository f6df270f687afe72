"""A limit on the address space (``ulimit -v``), looked at before NumPy is loaded: libraries end a process below it."""

from __future__ import annotations

import os

LEAST = 640 << 20  # Python with all libraries and a small run; measured: 530 MB with kernels from the cache
SMALL = 8 << 30
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # each thread of BLAS reserves some 40 MB


def check_address_space() -> None:
    """Refuse a limit under which nothing runs, and keep BLAS from filling a small one with threads.

    Raises
    ------
    ValueError
        If the limit is too low for any run.
    """
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        unlimited = limit == resource.RLIM_INFINITY
    except (ImportError, AttributeError, OSError, ValueError):  # Windows
        return
    if unlimited:
        return
    if limit < LEAST:
        raise ValueError(
            f"the limit on the address space (ulimit -v) is {limit / 1e6:.0f} MB, but the libraries alone take "
            f"{LEAST / 1e6:.0f} MB; raise it, or limit the run with --memory-limit instead"
        )
    if limit < SMALL:  # the kernels have threads of their own, so little is lost
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")
