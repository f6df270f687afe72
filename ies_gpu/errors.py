"""Every error and warning of the package, and how a warning finds the line that caused it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from itertools import islice
from typing import Any

INSIDE = ("ies_gpu", "sklearn")  # whose lines tell a user nothing; scikit-learn wraps our methods


def brief(value: Any) -> str:
    """Return a value as an error message shows it: on one line, cut short, whatever its ``repr`` does."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # integers of more than 4,300 digits, and objects that cannot say what they are
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:90]}..."


def first_few(items: Iterable[Any], most: int = 5) -> str:
    """Return the first of some items as a message lists them: ``3, 5, 8, ...``."""
    listed = [str(item) for item in islice(items, most + 1)]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def one_line(error: BaseException, most: int = 200) -> str:
    """Return an error's whole message on one line, cut short, or the name of its class if it has none."""
    return " ".join(str(error).split())[:most] or type(error).__name__


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, cut short, or the name of its class if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:160]


def in_bytes(size: float) -> str:
    """Return a size for people, in powers of 1000."""
    if size < 1e6:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"


class DeviceError(RuntimeError):
    """The requested device cannot be used. The message says why and what to do."""


class ClusterError(RuntimeError):
    """The workers of a cluster cannot run the job. The message says why and what to do."""


class IESWarning(UserWarning):
    """The result may be wrong. The message says why and what to do."""


def warn_caller(message: str | Warning, category: type[Warning] = IESWarning) -> None:
    """Warn at the line outside this package that called it, however deep inside the reason was found."""
    frame, level, ours = sys._getframe(), 1, 1
    while frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        if frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
            ours = level
    warnings.warn(message, category, stacklevel=ours + 1)


class OutOfMemoryError(MemoryError):
    """Not even the smallest block fits into memory. The message says which stage it was and what would help."""


class DisconnectedGraphError(ValueError):
    """The neighbour graph falls into several parts, each of which would need its own map.

    Parameters
    ----------
    message : str
        What is wrong, and what to do.
    parts : tuple of ndarray, default=()
        The rows of each part, the largest first; empty where they are not known.
    """

    def __init__(self, message: str, parts: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.parts = parts


class NotConvergedError(ArithmeticError):
    """An eigensolver cannot vouch for its result, so another one takes over. The message says why."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be read or written. The result is unaffected, but a restart may take longer."""
