"""What a fork waits for: a child that found these locks taken, by threads that it does not have, would wait forever.

They are held for some seconds at most, while another thread loads the kernels or compiles a function. No wait for BLAS
is needed: a run keeps it to one thread.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

loading = threading.RLock()  # held while the kernels are imported: Python's own locks on modules do not survive a fork
_taken: list[Any] = []


def before_fork() -> None:
    """Take the locks, in the order in which a thread that loads kernels takes them."""
    loading.acquire()
    compiling = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    if compiling is not None:
        compiling.acquire()
    _taken.append(compiling)


def after_fork() -> None:
    """Release them, in parent and child."""
    compiling = _taken.pop()
    if compiling is not None:
        compiling.release()
    loading.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)
