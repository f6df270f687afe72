"""Steps of the pipeline: functions that anyone may call, and what a run may do with them beside calling them.

A step knows no run. It reports how far it is to whoever listens (:func:`report`), as it tells what it finds; a step
made of others calls them through ``do``, which is :func:`call` unless a run takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from . import at_home

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Do = Callable[..., Any]
Report = Callable[[int, int], None]
_report: ContextVar[Report | None] = ContextVar("report", default=None)


@dataclass(frozen=True)
class Step:
    """What a run may do with a function, beside calling it."""

    name: str  # in the log, in progress reports, and of its file in a checkpoint
    composite: bool = False  # made of other steps, which it calls through ``do``: only these are timed and retried
    calls: bool = False  # calls other steps through ``do``, and is timed and retried with them
    kernel: str = ""  # the fused kernel that the audit is of
    # audit(result, *args, **kwargs): how far sampled rows are from plain code; None where there are none
    audit: Callable[..., float | None] | None = None
    again: bool = True  # compute once more where the audit fails; not if only a later step uses the kernel
    single: bool = False  # the kernel computes in the precision that was asked for, not always in float64
    pack: Callable[[Any], dict[str, Any] | None] | None = None  # what a checkpoint saves, as named values
    # unpack(content, load, *args, **kwargs) is the way back; load() gives what ``heavy`` gave, or computes the result
    unpack: Callable[..., Any] | None = None
    heavy: Callable[[Any], dict[str, Any] | None] | None = None  # saved in a file of its own, read if it is needed
    heavy_name: str = ""


def step(name: str, **more: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Mark a function as a step, which works on the backend of its arrays, with the threads of that backend.

    On the host these decide how BLAS rounds: a step gives the same bits in a run and by itself.
    """

    def marked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        found = at_home(function, or_host=True)
        found.step = Step(name, **more)  # type: ignore[attr-defined]
        return found

    return marked


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a step: the simplest ``do``."""
    return function(*args, **kwargs)


def report(done: int, total: int) -> None:
    """Report how far a step is; ``total`` is 0 where it is not known."""
    listener = _report.get()
    if listener is not None:
        listener(done, total)


@contextmanager
def reporting(listener: Report) -> Iterator[None]:
    """Let :func:`report` call a function."""
    token = _report.set(listener)
    try:
        yield
    finally:
        _report.reset(token)
