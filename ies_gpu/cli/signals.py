"""SIGTERM and Ctrl-C as exceptions, so that half-written files are removed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def stopped_once() -> Iterator[None]:
    """Turn SIGTERM or Ctrl-C into an exception; ignore others while it cleans up.

    Python drops an exception that is raised inside a callback or a destructor: the next signal raises it again. An
    error after that is most likely of a library whose callback did not do its work, and counts as the signal.
    """
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield
        return
    heard: list[type[BaseException]] = []

    def stop(number: int, _: Any) -> None:
        if not is_on_its_way(sys.exception()):
            heard.append(KeyboardInterrupt if number == signal.SIGINT else Terminated)
            raise heard[-1]

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    if before[signal.SIGINT] is not signal.default_int_handler:  # ignored, as a shell does for background jobs
        del before[signal.SIGINT]
    for each in before:
        signal.signal(each, stop)
    try:
        yield
    except Exception:
        if heard:
            raise heard[-1] from None
        raise
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is stop:  # after the first signal, none may break into the end
                signal.signal(each, (lambda *_: None) if heard else handler)


def is_on_its_way(error: BaseException | None) -> bool:
    """Return whether what is being handled came from a signal, directly or on the way."""
    while error is not None:
        if isinstance(error, (KeyboardInterrupt, Terminated)):
            return True
        error = error.__context__
    return False
