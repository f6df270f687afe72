"""Which part of a file is wanted, and what was found: arrays by key, columns of a table, a column of row names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NAMES = ("X", "points", "R")  # which array holds the points, if there are several


class ContentError(ValueError):
    """A sound file with the wrong content, unlike what a library raises about a damaged one."""


class PointFile(NamedTuple):
    """Points as they were read, with the names of rows and columns where the file has them."""

    X: np.ndarray
    rows: Any = None
    columns: Sequence[str] | None = None


class Choice(NamedTuple):
    """Which part of a file is wanted: an array by key, or columns of a table by name or by number from 0.

    ``columns`` are the coordinates, and ``index_col`` holds the names of the rows.
    """

    key: str | None = None
    columns: tuple[str, ...] | None = None
    index_col: str | None = None


class Opened(NamedTuple):
    """A part of a file that was opened but not read: the bytes that it says it takes in memory, and how to read it."""

    nbytes: int
    read: Callable[[], Any]


def only_points(path: Path, shapes: dict[str, tuple[int, ...]], key: str | None) -> str:
    """Return the name of the array that was asked for, or of the one that can be the points."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "no arrays of numbers"
    if key is not None:
        if key not in shapes:
            raise ContentError(f"{path} has no array {key!r}; it has {listed}")
        return key
    if len(shapes) == 1:
        return next(iter(shapes))
    named = [name for name in NAMES if len(shapes.get(name, ())) == 2]
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    for found in (named, flat):
        if len(found) == 1:
            return found[0]
    way = ". Choose one with --key" if flat else ""
    raise ContentError(f"{path} must contain one array with 2 axes or one called X; it has {listed}{way}")


def needs(path: Path, library: str, extra: str) -> ImportError:
    """Return the error that says what to install to read or write a file."""
    return ImportError(f"{path} needs {library}: pip install 'ies-gpu[{extra}]'")
