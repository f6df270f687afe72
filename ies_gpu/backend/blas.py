"""One thread for BLAS while runs are at work, and as many as before when the last of them ends.

The number belongs to the whole process. Runs in several threads overlap in any order: if each restored what it had
found, the last one would leave behind the single thread of the first.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl
from threadpoolctl import ThreadpoolController


def for_any_thread() -> None:
    """Let any thread change the number again: since 3.7 threadpoolctl ignores all but the one that did it first."""
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread()


class SingleThread:
    """The runs at work, by thread, and the limit that they share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # entered again by a signal's handler, or by a fork in the same thread
        self.runs: Counter[int] = Counter()
        self.limit: Any = None
        self.loaded, self.libraries = 0, ThreadpoolController()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep BLAS to one thread."""
        me = threading.get_ident()
        with self.lock:
            self.runs[me] += 1
            if self.limit is None:
                self.limit = self.found().limit(limits=1, user_api="blas")
                for_any_thread()  # the last run may end in another one
        try:
            yield
        finally:
            with self.lock:
                self.runs -= Counter([me])  # without those at zero
                self.restore_at_the_end()

    def found(self) -> ThreadpoolController:
        """The BLAS libraries, looked for again only if modules were loaded: that takes as long as many a task."""
        if self.loaded != len(sys.modules):
            self.loaded, self.libraries = len(sys.modules), ThreadpoolController()
        return self.libraries

    def restore_at_the_end(self) -> None:
        """Give BLAS its threads back if no run is left."""
        if not self.runs and self.limit is not None:
            self.limit.restore_original_limits()
            for_any_thread()
            self.limit = None

    def forget_other_threads(self) -> None:
        """In a forked process: what the parent's other threads were at ends here."""
        me = threading.get_ident()
        self.runs = Counter({me: self.runs[me]} if self.runs[me] else {})
        self.restore_at_the_end()
        self.lock.release()


single_thread = SingleThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=single_thread.lock.acquire,
        after_in_parent=single_thread.lock.release,
        after_in_child=single_thread.forget_other_threads,
    )
