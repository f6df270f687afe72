"""Keeping track of a run: seconds and memory by stage, progress for the listener, findings kept for the result."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import IO, Any

from ..backend.machine import peak_memory
from ..backend.steps import reporting
from ..findings import Finding, refusal, teller, without_repeats

UNUSABLE = "kernel.not_used"  # said once in a process, whichever trial comes by
logger = logging.getLogger("ies_gpu")
AT_ONCE = "memory.slow"  # said before long work, even in a trial whose other warnings are held back
Progress = Callable[[str, int, int], None]
UNITS = {"eigenvectors": " steps", "tangents": " points", "search": " points"}  # what a stage counts
BEGUN, COUNTED = "{desc}[{elapsed}]", "{desc}{n_fmt}{unit} [{elapsed}, {rate_fmt}]"
SHARE = "{desc}{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}, {rate_fmt}]"


class Bar:
    """What ``progress(stage, done, total)`` reports as a bar of tqdm, which leaves nothing behind."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream
        self.bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if (done, total) == (0, 0) or self.bar is None:
            self.close()
            about = {"desc": f"{stage:<24}", "unit": UNITS.get(stage, ""), "unit_scale": True, "bar_format": BEGUN}
            self.bar = tqdm()(**about, leave=False, dynamic_ncols=True, file=self.stream)
        if (done, total) == (1, 1):
            self.close()
        elif done or total:
            self.bar.total, self.bar.bar_format = total or None, SHARE if total else COUNTED
            self.bar.update(done - self.bar.n)

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def listener(progress: Progress | bool | None) -> Progress | None:
    """Return the function to call: yours, a bar for True, none for False."""
    if progress is None or isinstance(progress, bool):
        return Bar() if progress else None
    if not callable(progress):
        text = f"progress must be True or a function of (stage, done, total), got {progress!r}"
        raise refusal("progress.type", text, kind=TypeError)
    return progress


@cache
def tqdm() -> Any:
    """Return the bar that suits the place: a widget where a notebook has ipywidgets, text elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text is fine
        from tqdm.auto import tqdm

    return tqdm


class Log:
    """The log of one run; ``progress`` is True for a bar, or a function of (stage, done, total).

    The total is 0 where it is not known. A last call with ``done == total`` ends each stage.
    """

    def __init__(self, progress: Progress | bool | None = None) -> None:
        self.progress = listener(progress)
        self.seconds: dict[str, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.current = ""
        self.tell = teller()  # a run listens to its steps, and speaks to its caller

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, and with it its parts of the same name; what it reports goes to the listener."""
        if name == self.current:
            yield
            return

        def report(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(name, done, total)

        logger.debug("%s: begins", name)
        report(0, 0)
        begin, before, self.current = time.perf_counter(), self.current, name
        try:
            with reporting(report):
                yield
        finally:
            self.current = before
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
        self.peak_bytes[name] = peak_memory()
        report(1, 1)
        logger.info("%s: %.2f s", name, self.seconds[name])

    def say(self, message: str) -> None:
        """Write a sentence above the bar, or into the log of the process."""
        if isinstance(self.progress, Bar):
            tqdm().write(message, file=sys.stderr)
        else:
            logger.info(message)

    def close(self) -> None:
        """Remove the bar."""
        if isinstance(self.progress, Bar):
            self.progress.close()

    def warn(self, finding: Finding) -> None:
        """Keep a finding, and pass it to the caller of ``select_coordinates`` if it is a warning."""
        if finding not in self.findings:  # a scan and the run after it come by the same place
            self.findings.append(finding)
            if finding.severity == "warning":
                self.tell(finding)

    def keep(self, findings: list[Finding]) -> None:
        """Keep findings that need no warning, or were issued elsewhere."""
        self.findings += [finding for finding in findings if finding not in self.findings]

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

    Progress, seconds and what cannot wait go to ``shown``, or nowhere but to ``progress``.
    """

    def __init__(self, shown: Log | None = None, progress: Progress | None = None) -> None:
        super().__init__(progress if shown is None else shown.progress)
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
