"""Compiling side by side: another process compiles what a run needs late, while this one compiles what it needs first.

Numba compiles one function at a time in a process. The other process leaves its work in the cache on disk, where this
one finds it. If that fails, this process compiles everything itself.
"""

from __future__ import annotations

import atexit
import os
import subprocess  # nosec B404
import sys
from multiprocessing import spawn
from pathlib import Path

import numpy as np

PATIENCE = 120.0  # seconds to wait for the other process, which takes about six: then something is wrong with it
CODE = "import sys; sys.path.append(sys.argv[1]); from ies_gpu.backend.kernels.fused import ahead; ahead.compile_late()"

_others: dict[int, subprocess.Popen[bytes]] = {}  # by the process that started it: a fork cannot wait for it


def compile_late() -> None:
    """Compile the kernels of tangent bases and scores, for the types of a run in float64."""
    from . import scores, tangent

    neighbours = np.array([1, 0], dtype=np.int32)
    row_ends, Y = np.arange(3, dtype=np.int32), np.eye(2)
    U, _ = tangent.tangent_rows(row_ends, neighbours, np.ones(2), Y, np.arange(2), 1)
    scores.score_block(U, np.array([[0, 1]]), np.zeros(1), np.zeros(2, dtype=np.int64), np.zeros(2))


def is_cold() -> bool:
    """Whether these kernels are neither compiled nor in the cache, and there is one."""
    from . import tangent

    last = tangent.vectors_task
    folder = getattr(getattr(last, "stats", None), "cache_path", None)
    return folder is not None and not last.signatures and not any(Path(folder).glob("*.vectors_task-*.nbi"))


def begin(threads: int) -> None:
    """Start the other process where there is a core for it and something to do."""
    if threads < 2 or _others or getattr(sys, "frozen", False) or not is_cold():
        return
    root = str(Path(__file__).parents[4])
    command = [os.fsdecode(spawn.get_executable()), "-P", "-W", "ignore", "-c", CODE, root]
    quiet = subprocess.DEVNULL
    try:
        # nothing in the command comes from a user: this Python, and the code above
        other = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # nosec B603
    except OSError:  # no room for a process, or Python is embedded in something else
        return
    _others[os.getpid()] = other
    atexit.register(stop)


def finish() -> None:
    """Wait for the other process, before the kernels that it compiles are called."""
    other = _others.pop(os.getpid(), None)
    if other is None:
        return
    try:
        other.wait(PATIENCE)
    except BaseException as error:  # also Ctrl-C
        other.kill()
        other.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def stop() -> None:
    """End the other process, if this one started it and has not waited for it."""
    other = _others.pop(os.getpid(), None)
    if other is not None:
        other.kill()
        other.wait()
