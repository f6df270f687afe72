"""Keeping track of a run: seconds and memory by stage, progress for the listener, findings kept for the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ..backend.steps import Report
from ..findings import Finding, teller, without_repeats
from ..system import peak_memory
from .progress import Bar, Progress, listener, say

LONG = 10.0  # seconds from which on work is announced
UNUSABLE = "kernel.not_used"  # said once in a process, whichever trial comes by
logger = logging.getLogger("ies_gpu")
AT_ONCE = "memory.slow"  # said before long work, even in a trial whose other warnings are held back


class Log:
    """The log of one run.

    Parameters
    ----------
    progress : callable or bool, optional
        True shows a bar. A function is called as ``progress(stage, done, total)``; ``total`` is 0 where it is not
        known. A last call with ``done == total`` ends each stage.
    """

    def __init__(self, progress: Progress | bool | None = None) -> None:
        self.progress = listener(progress)
        self.seconds: dict[str, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.current = ""
        self.tell = teller()  # a run listens to its steps, and speaks to its caller

    @contextmanager
    def stage(self, name: str) -> Iterator[Report]:
        """Time a stage, and with it its parts of the same name; gives the function ``(done, total)`` to report with."""

        def report(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(name, done, total)

        if name == self.current:
            yield report
            return
        logger.debug("%s: begins", name)
        report(0, 0)
        begin, before, self.current = time.perf_counter(), self.current, name
        try:
            yield report
        finally:
            self.current = before
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
        self.peak_bytes[name] = peak_memory()
        report(1, 1)
        logger.info("%s: %.2f s", name, self.seconds[name])

    def warn(self, finding: Finding) -> None:
        """Warn the caller of ``select_coordinates``, and keep the finding."""
        if finding in self.findings:  # a scan and the run after it come by the same place
            return
        self.findings.append(finding)
        self.tell(finding)

    def foretell(self, work: str, seconds: float) -> None:
        """Announce how long some work will take, if that is long."""
        if seconds >= LONG:
            say(f"ies_gpu: {work}: about {seconds:.0f} s to go", visibly=isinstance(self.progress, Bar))

    def keep(self, findings: list[Finding]) -> None:
        """Keep findings that need no warning, or were issued elsewhere."""
        self.findings += [finding for finding in findings if finding not in self.findings]

    def state(self) -> list[dict[str, str]]:
        """Return everything that was found, for a later run that resumes this one."""
        return [asdict(finding) for finding in self.findings]

    def restore(self, state: list[dict[str, str]]) -> None:
        """Say again what a saved stage had found."""
        for finding in (Finding(**record) for record in state):  # type: ignore[arg-type]
            if finding.severity != "warning":
                self.keep([finding])
            else:
                self.warn(finding)

    def results(self) -> dict[str, Any]:
        """Return findings as records, and warnings as the sentences that were issued, for ``diagnostics``."""
        return {
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "findings": [asdict(finding) for finding in without_repeats(self.findings)],
            "warnings": tuple(str(finding) for finding in self.findings if finding.severity == "warning"),
        }


class HeldLog(Log):
    """The log of a trial that may be discarded: its warnings are held back until the trial is chosen.

    Parameters
    ----------
    shown : Log, optional
        Where progress, seconds and what cannot wait go; by default they are discarded.
    """

    def __init__(self, shown: Log | None = None) -> None:
        super().__init__(None if shown is None else shown.progress)
        self.shown = shown
        if shown is not None:
            self.seconds, self.peak_bytes = shown.seconds, shown.peak_bytes

    def warn(self, finding: Finding) -> None:
        if finding.code == UNUSABLE:
            self.tell(finding)
        elif finding.code != AT_ONCE:
            self.findings.append(finding)
        elif self.shown is not None:
            self.shown.warn(finding)
