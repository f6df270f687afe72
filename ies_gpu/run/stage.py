"""One stage of a run, and the run that times, reports, retries, audits and saves every stage alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, fields
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ..backend import Backend, device_near, get_backend
from ..backend.kernels import plain
from ..errors import OutOfMemoryError
from ..findings import warning
from .checkpoint import Checkpoint
from .fingerprint import data_digest, versions
from .inputs import Inputs
from .log import Log
from .options import Options
from .progress import Bar, Progress, announce_compiling

Result = TypeVar("Result")
AUDIT_TOLERANCE = {"float64": 1e-7, "float32": 1e-2}
REPORT = "please report this with the output of 'ies-gpu doctor --selftest'"


@dataclass(frozen=True)
class Stage(Generic[Result]):
    """A step of the pipeline; all functions are called with the run first.

    Attributes
    ----------
    name : str
        In the log, in progress reports, and of its file in a checkpoint.
    compute : callable
        ``compute(run, report, *inputs)``, or ``compute(run, *inputs)`` for a stage made of others.
    composite : bool
        Made of other stages, which are timed and retried themselves.
    kernel : str
        The fused kernel that an audit of this stage checks.
    difference : callable, optional
        ``difference(run, result, *inputs)``: how far a sample of the result is from plain code; None where there is
        nothing to compare.
    precision : {"float64", "arithmetic"}
        What the stage computes in: float64 always, or the arithmetic of the run.
    pack, unpack : callable, optional
        ``pack(run, result)`` gives what a checkpoint saves, as named values, or None to save nothing;
        ``unpack(run, content, *inputs)`` is the way back. A stage without them is never saved.
    after : str
        The saved stage that this one was computed from.
    """

    name: str
    compute: Callable[..., Result]
    composite: bool = False
    kernel: str = ""
    difference: Callable[..., float | None] | None = None
    precision: str = "float64"
    pack: Callable[..., dict[str, Any] | None] | None = None
    unpack: Callable[..., Result] | None = None
    after: str = ""


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, for ``pack``."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


class Later(Generic[Result]):
    """The result of a stage that is read or computed only if some other stage asks for it."""

    def __init__(self, get: Callable[[], Result]) -> None:
        self.get = get
        self.known: list[Result] = []

    def __call__(self) -> Result:
        if not self.known:
            self.known.append(self.get())
        return self.known[0]


class Run:
    """One run of the pipeline: where it runs, its options, its log, and what its audits found.

    Parameters
    ----------
    options : Options
    given : Inputs
    progress : callable or bool, optional
        Called as ``progress(stage, done, total)``; True shows a bar.
    stages : sequence of Stage
        Those that a checkpoint may save, in their order.

    Attributes
    ----------
    home : Backend
        Where the input lives and the results go.
    known : dict
        Results by stage that an earlier stage came by, such as the search for a bandwidth.
    """

    def __init__(
        self,
        options: Options,
        given: Inputs,
        progress: Progress | bool | None = None,
        stages: Sequence[Stage[Any]] = (),
    ) -> None:
        self.options, self.given, self.stages = options, given, stages
        self.log = Log(progress)
        self.home = given.home
        self.backend: Backend = get_backend(
            device_near(self.home, options.device), memory_limit=options.memory_limit, n_threads=options.n_threads
        )
        self.audit: dict[str, float] = {}
        self.known: dict[str, Any] = {}
        self.checkpoint: Checkpoint | None = None
        self.digests: dict[str, str] = {}
        self.open = ExitStack()

    def apart(self, options: Options, log: Log, audit: dict[str, float]) -> Run:
        """A run on the same backend with options, a log and audits of its own, for a trial; it saves nothing."""
        trial = copy(self)
        trial.options, trial.log, trial.audit, trial.known, trial.checkpoint = options, log, audit, {}, None
        return trial

    def __enter__(self) -> Self:
        announce_compiling(self.backend.device, visibly=isinstance(self.log.progress, Bar))
        self.backend.prepare()
        with ExitStack() as stack:
            stack.enter_context(self.backend.active())
            if self.options.checkpoint is not None:
                self.checkpoint = stack.enter_context(self._opened())
            if self.backend.memory_limit is None:  # it decides on storage and the length of blocks: once for the run
                state = None if self.checkpoint is None else self.checkpoint.first_state()
                self.backend.memory_limit = int(state["memory"]) if state else self.backend.memory_budget()
            self.open = stack.pop_all()
        return self

    def _opened(self) -> Checkpoint:
        """The checkpoint, for the job that these options, data, device and versions are."""
        options, backend = self.options, self.backend
        job = options.parameters | {"versions": versions()}
        job |= {"device": backend.device.partition(":")[0], "kernels": backend.kernels.NAME}
        names = [stage.name for stage in self.stages]
        return Checkpoint(options.checkpoint, options.resume, job | {"data": data_digest(self.given.values)}, names)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self.log.progress, Bar):
            self.log.progress.close()
        self.open.__exit__(kind, error, trace)

    def go_on_with(self, options: Options, stages: dict[str, Any]) -> None:
        """Take the options that were found, and stages computed on the way; with a checkpoint each is saved in turn."""
        self.options = options
        if self.checkpoint is None:
            self.known = stages

    def stage(self, stage: Stage[Result], *inputs: Any) -> Result:
        """The result of a stage: known already, read from the checkpoint, or computed and saved."""
        if stage.name in self.known:
            return self.known[stage.name]
        if self.checkpoint is None or stage.pack is None or stage.unpack is None:
            return self._computed(stage, inputs)
        after = self.digests.get(stage.after, "")
        with self.log.stage(f"resume {stage.name}") if self.checkpoint.has(stage.name, after) else ExitStack():
            saved = self.checkpoint.read(stage.name, after)
        if saved is not None:
            self._restore(saved.state)
            self.digests[stage.name] = saved.digest
            return stage.unpack(self, saved.content, *inputs)
        result = self._computed(stage, inputs)
        packed = stage.pack(self, result)
        if packed is not None:
            with self.log.stage(f"checkpoint {stage.name}"):
                self.digests[stage.name] = self.checkpoint.write(stage.name, after, self._state(), packed)
        return result

    def later(self, stage: Stage[Result], *inputs: Any) -> Later[Result]:
        """The same, but only when another stage needs it as an input."""
        return Later(partial(self.stage, stage, *inputs))

    def results(self) -> dict[str, Any]:
        """For ``diagnostics``, at the end."""
        saved = {} if self.checkpoint is None else self.checkpoint.results()
        return self.log.results() | {"parameters": self.options.parameters} | saved

    def _computed(self, stage: Stage[Result], inputs: tuple[Any, ...]) -> Result:
        inputs = tuple(value() if isinstance(value, Later) else value for value in inputs)
        if stage.composite:
            return stage.compute(self, *inputs)
        with self.log.stage(stage.name) as report:
            compute = partial(stage.compute, self, report, *inputs)
            result = self.backend.retried(stage.name, compute)
            if stage.difference is None or self._agrees(stage, partial(stage.difference, self, result, *inputs)):
                return result
            return self.backend.retried(stage.name, compute)

    def _agrees(self, stage: Stage[Any], difference: Callable[[], float | None]) -> bool:
        """Whether a sample agrees with plain code; where it does not, the run goes on with plain code and says so."""
        if self.backend.kernels is plain:
            return True
        try:
            found = self.backend.retried(stage.name, difference)
        except (OutOfMemoryError, np.linalg.LinAlgError) as error:  # the check failed, not what it checks
            text = f"the kernel {stage.kernel} was not compared with plain code on sampled rows: {error}"
            self.log.warn(warning("kernel.not_compared", text))
            return True
        if found is None:
            return True
        self.audit[stage.kernel] = max(found, self.audit.get(stage.kernel, 0.0))
        if found <= AUDIT_TOLERANCE["float64" if stage.precision == "float64" else self.options.arithmetic]:
            return True
        text = f"the kernel {stage.kernel} differs from plain code by {found:.1e} on sampled rows"
        self.log.warn(warning("kernel.differs", f"{text}; the stage was repeated on plain code", REPORT))
        self.backend.kernels = plain
        return False

    def _state(self) -> dict[str, Any]:
        """What is known of the run at the end of a stage, for a later run that takes the stage."""
        backend = self.backend
        known = {"audit": self.audit, "findings": self.log.state(), "seconds": self.log.seconds}
        return known | {"kernels": backend.kernels.NAME, "memory": backend.memory_limit}

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over what was known at the end of a stage that was saved."""
        for kernel, difference in state["audit"].items():
            self.audit[kernel] = max(difference, self.audit.get(kernel, 0.0))
        for stage, seconds in state["seconds"].items():
            self.log.seconds.setdefault(stage, seconds)
        self.log.restore(state["findings"])
        if state["kernels"] == plain.NAME:  # an audit had failed
            self.backend.kernels = plain
