"""The parts of a reproduction: how long each takes, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], object]


class Parts:
    """Time the parts, and tell a listener: ``progress(part, done, total)``, with 0 of 0 first and 1 of 1 at the end."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Give the function ``(done, total)`` that reports how far this part is."""

        def report(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(name, done, total)

        report(0, 0)
        begin = time.perf_counter()
        yield report
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
        report(1, 1)
