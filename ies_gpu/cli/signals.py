"""SIGTERM and Ctrl-C as exceptions, so that half-written files are removed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

AGAIN = 1.0  # seconds after which a signal whose exception was lost is raised once more
ALARM = getattr(signal, "SIGALRM", None)  # not on Windows


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def stopped_once() -> Iterator[None]:
    """Turn SIGTERM or Ctrl-C into an exception; ignore others while it cleans up.

    Python drops an exception that is raised inside a callback or a destructor, and compiling kernels calls many. So a
    timer looks whether the exception is on its way, and otherwise raises it again. An error in between is most likely
    that of a library whose callback did not do its work, and counts as the signal.
    """
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield
        return
    heard: list[type[BaseException]] = []

    def stop(number: int, _: Any) -> None:
        if is_on_its_way(sys.exception()):
            again()
            return
        if number != ALARM or not heard:
            heard.append(KeyboardInterrupt if number == signal.SIGINT else Terminated)
        again()
        raise heard[0]

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, ALARM) if each is not None}
    if before[signal.SIGINT] is not signal.default_int_handler:  # ignored, as a shell does for background jobs
        del before[signal.SIGINT]
    for each in before:
        signal.signal(each, stop)
    tell, sys.unraisablehook = sys.unraisablehook, told_unless_from_a_signal
    try:
        yield
    except Exception:
        if heard:
            raise heard[0] from None
        raise
    finally:
        again(0)
        sys.unraisablehook = tell
        for each, handler in before.items():
            if signal.getsignal(each) is stop:  # after the first signal, none may break into the end
                signal.signal(each, (lambda *_: None) if heard else handler)


def again(seconds: float = AGAIN) -> None:
    """Look once more after some seconds; 0 stops that."""
    if ALARM is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)


def told_unless_from_a_signal(dropped: Any) -> None:
    """What Python prints of an exception that it dropped; ours comes again."""
    if not isinstance(dropped.exc_value, (KeyboardInterrupt, Terminated)):
        sys.__unraisablehook__(dropped)


def is_on_its_way(error: BaseException | None) -> bool:
    """Whether what is being handled came from a signal, directly or on the way."""
    while error is not None:
        if isinstance(error, (KeyboardInterrupt, Terminated)):
            return True
        error = error.__context__
    return False
