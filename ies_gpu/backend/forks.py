"""Locks and forks: a child that finds a lock taken, by a thread that it does not have, waits forever.

A fork waits for two locks, held for some seconds at most while another thread loads the kernels or compiles a function.
No wait for BLAS is needed: a run keeps it to one thread. Properties are computed without a lock.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

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


class cached_property(functools.cached_property[T], Generic[T]):  # noqa: N801  # in the place of Python's
    """Python's own, without the lock that 3.11 holds, for all instances of a class, while a value is computed."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock: Any = contextlib.nullcontext()
