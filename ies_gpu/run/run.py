"""One run: it calls the steps of the pipeline, and times, reports, retries, audits and saves every one alike.

Its log has seconds and memory by stage, progress for the listener, and findings for the result.
"""

from __future__ import annotations

import logging
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import copy
from dataclasses import asdict
from functools import cache, partial
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from .. import __version__
from ..backend import Backend, Step, device_near, get_backend, reporting
from ..backend.cpu import peak_memory
from ..backend.kernels import plain
from ..findings import Finding, IESWarning, OutOfMemoryError, listen, refusal, teller, warning, without_repeats
from ..options import Options

if TYPE_CHECKING:
    from .checkpoint import Checkpoint, Saved
    from .fit import Inputs

AUDIT_TOLERANCE = {"float64": 1e-7, "mixed": 1e-4, "float32": 1e-2}
REPORT = "please report this with the output of 'ies-gpu doctor --selftest'"
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
        if self.bar is not None:
            self.bar.close()
            self.bar = None


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
        if isinstance(progress, bool):
            progress = Bar() if progress else None
        if progress is not None and not callable(progress):
            text = f"progress must be True or a function of (stage, done, total), got {progress!r}"
            raise refusal("progress.type", text, kind=TypeError)
        self.progress = progress
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


class Run:
    """One run on one backend. Called as ``run(step, *args, **kwargs)``, it is the ``do`` of composite steps.

    ``saved`` are the names of the files that a checkpoint may have, in their order. Log and backend are by default a
    new log with that progress, and the backend that the options ask for.
    """

    def __init__(
        self, options: Options, given: Inputs, progress: Progress | bool | None = None, saved: Sequence[str] = (), *,
        log: Log | None = None, backend: Backend | None = None,
    ) -> None:  # fmt: skip
        self.options, self.given, self.saved = options, given, saved
        self.log = log or Log(progress)
        self.backend: Backend = backend or get_backend(
            device_near(given.home, options.device), memory_limit=options.memory_limit, n_threads=options.n_threads
        )
        self.audit: dict[str, float] = {}
        self.checkpoint: Checkpoint | None = None
        self.after = ""  # the digest of the last step that was saved
        self.open = ExitStack()

    def apart(self, options: Options, log: Log, audit: dict[str, float]) -> Run:
        """Return a run on the same backend with options, a log and audits of its own, for a trial; it saves nothing."""
        trial = copy(self)
        trial.options, trial.log, trial.audit, trial.checkpoint = options, log, audit, None
        return trial

    def __enter__(self) -> Self:
        if longer := self.backend.first_run():
            self.log.say(f"ies_gpu: {longer}")
        with ExitStack() as stack:
            stack.enter_context(self.backend.active())
            if self.options.checkpoint is not None:
                self.checkpoint = stack.enter_context(closing(self._opened()))
            if self.backend.memory_limit is None:  # it decides on storage and the length of blocks: once for the run
                before = None if self.checkpoint is None else self.checkpoint.own
                self.backend.memory_limit = int(before["state"]["memory"]) if before else self.backend.memory_budget()
            self.open = stack.pop_all()
        return self

    def _opened(self) -> Checkpoint:
        """Open the checkpoint of the job that these options, data, device and versions are."""
        from .checkpoint import Checkpoint, data_digest

        options, backend = self.options, self.backend
        job = options.parameters | {"versions": versions()}
        job |= {"device": backend.device.partition(":")[0], "kernels": backend.kernels.NAME}
        job["data"] = data_digest(self.given.values)
        return Checkpoint(options.checkpoint, options.resume, job, self.saved)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(self.log.progress, Bar):
            self.log.progress.close()
        self.open.__exit__(kind, error, trace)

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a step: read from the checkpoint, or computed and saved. The log hears its findings."""
        step: Step = function.step  # type: ignore[attr-defined]
        compute = partial(function, *args, **kwargs)
        with listen(IESWarning, self.log.warn):
            if self.checkpoint is None or step.pack is None or step.unpack is None or step.name not in self.saved:
                return self._computed(step, compute)
            if (saved := self._read(step.name, self.after)) is not None:
                self.after = saved.digest
                load = partial(self._load, step, compute, saved.digest)
                return step.unpack(saved.content, load, *args, **kwargs)
            result = self._computed(step, compute)
            if (packed := step.pack(result)) is not None:
                self.after = self._write(step.name, self.after, packed)
                self._write_heavy(step, result, self.after)
            return result

    def results(self) -> dict[str, Any]:
        """Return what is known at the end, for ``diagnostics``."""
        found = self.log.results() | {"parameters": self.options.parameters, "audit": self.audit}
        if (saved := self.checkpoint) is not None:
            found["checkpoint"] = {"folder": str(saved.folder), "resumed": saved.resumed, "notes": saved.notes}
        return found

    def _load(self, step: Step, compute: partial[Any], digest: str) -> Any:
        """Return the heavy part of a saved result; where it is missing or damaged, the result, computed again."""
        saved = self._read(step.heavy_name, digest)
        if saved is not None:
            return saved.content
        result = self._computed(step, compute)
        self._write_heavy(step, result, digest)
        return result

    def _read(self, name: str, after: str) -> Saved | None:
        """Return a saved result, and take over what was known of the run at its end."""
        assert self.checkpoint is not None
        with self.log.stage(f"resume {name}") if self.checkpoint.has(name, after) else ExitStack():
            saved = self.checkpoint.read(name, after)
        if saved is None:
            return None
        for kernel, difference in saved.state["audit"].items():
            self.audit[kernel] = max(difference, self.audit.get(kernel, 0.0))
        self.log.seconds = saved.state["seconds"] | self.log.seconds
        for record in saved.state["findings"]:  # told again
            self.log.warn(Finding(**record))
        if saved.state["kernels"] == plain.NAME:  # an audit had failed
            self.backend.kernels = plain
        return saved

    def _write(self, name: str, after: str, content: dict[str, Any]) -> str:
        """Save a result with what is known of the run, and return its digest."""
        assert self.checkpoint is not None
        state: dict[str, Any] = {"audit": self.audit, "findings": list(map(asdict, self.log.findings))}
        state |= {"seconds": self.log.seconds, "kernels": self.backend.kernels.NAME}
        state["memory"] = self.backend.memory_limit
        with self.log.stage(f"checkpoint {name}"):
            return self.checkpoint.write(name, after, state, content)

    def _write_heavy(self, step: Step, result: Any, digest: str) -> None:
        if step.heavy is not None and (content := step.heavy(result)) is not None:
            self._write(step.heavy_name, digest, content)

    def _computed(self, step: Step, compute: partial[Any]) -> Any:
        if step.composite:
            return compute(do=self)
        with self.log.stage(step.name):
            work = partial(compute, do=self) if step.calls else compute
            result = self.backend.retried(step.name, work)
            if step.audit is None:
                return result
            audit = partial(step.audit, result, *compute.args, **compute.keywords)
            if self._agrees(step, audit) or not step.again:
                return result
            return self.backend.retried(step.name, work)

    def _agrees(self, step: Step, difference: Callable[[], float | None]) -> bool:
        """Return whether a sample agrees with plain code; if not, the run says so and goes on with plain code."""
        if self.backend.kernels is plain:
            return True
        try:
            found = self.backend.retried(step.name, difference)
        except (OutOfMemoryError, np.linalg.LinAlgError) as error:  # the check failed, not what it checks
            text = f"the kernel {step.kernel} was not compared with plain code on sampled rows: {error}"
            self.log.warn(warning("kernel.not_compared", text))
            return True
        if found is None:
            return True
        self.audit[step.kernel] = max(found, self.audit.get(step.kernel, 0.0))
        precision = self.options.arithmetic if step.single else "float64"
        if step.kernel == "tangent_rows" and self.options.dtype == "mixed" and self.backend.slow_double:
            precision = "mixed"  # see plain.tangent_rows_single
        if found <= AUDIT_TOLERANCE[precision]:
            return True
        text = f"the kernel {step.kernel} differs from plain code by {found:.1e} on sampled rows"
        self.log.warn(warning("kernel.differs", f"{text}; the stage was repeated on plain code", REPORT))
        self.backend.kernels = plain
        return False


def versions() -> dict[str, str]:
    """Return the versions of everything that touched the numbers."""
    found = {"ies_gpu": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "numba"):
        with suppress(ImportError):
            found[name] = import_module(name).__version__
    return found
