"""Which part of a file is wanted: one of its arrays by key, some columns of a table, a column of row names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NAMES = ("X", "points", "R")  # which array holds the points, if there are several
NUMBERS = re.compile(r"\d+(\s*-\s*\d+)?")  # of a column, or of the ends of a range


class ContentError(ValueError):
    """A sound file with the wrong content, unlike what a library raises about a damaged one."""


class PointFile(NamedTuple):
    """Points as they were read, with the names of rows and columns where the file has them."""

    X: np.ndarray
    rows: Any = None
    columns: Sequence[str] | None = None


class Choice(NamedTuple):
    """Which part of a file is wanted.

    Attributes
    ----------
    key : str or None
        The name of an array in a file that holds several.
    columns : tuple of str or None
        The columns of a table that are coordinates, by name or by number from 0. "A-B" that is no name itself stands
        for all columns from A to B, as they follow each other in the file, without that of ``index_col``.
    index_col : str or None
        The column with the names of the rows, by name or by number from 0.
    """

    key: str | None = None
    columns: tuple[str, ...] | None = None
    index_col: str | None = None

    def by_name(self, first: Collection[str]) -> bool:
        """Whether a column is asked for by name, so that the ``first`` line must be a header."""
        asked = [*(self.columns or ()), *([] if self.index_col is None else [self.index_col])]
        return any(not name.isdigit() and (name in first or not NUMBERS.fullmatch(name)) for name in asked)

    def places(self, path: Path, header: Sequence[str] | None, width: int) -> tuple[int | None, list[int] | None]:
        """Where the row names and the coordinates are; None for no names, and for all columns."""
        table = Header(path, header, width)
        index = None if self.index_col is None else table.place(self.index_col)
        if self.columns is not None:
            return index, [k for name in self.columns for k in table.span(name, index)]
        return index, None if index is None else [k for k in range(width) if k != index]


class Header(NamedTuple):
    """The columns of a table, with their names or without."""

    path: Path
    names: Sequence[str] | None
    width: int

    def has(self, name: str) -> bool:
        return (self.names is not None and name in self.names) or (name.isdigit() and int(name) < self.width)

    def place(self, name: str, role: str = "") -> int:
        """Where a column is, by name or by number; ``role`` says what it was asked for."""
        if self.names is not None and name in self.names:
            same = [str(k) for k, other in enumerate(self.names) if other == name]
            if len(same) > 1:
                raise ContentError(
                    f"{self.path} has {len(same)} columns called {name!r}; choose one by its number, "
                    f"{' or '.join(same)}"
                )
            return list(self.names).index(name)
        if self.has(name):
            return int(name)
        known = "" if self.names is None else f"its columns are {shown(self.names)}"
        raise ContentError(
            f"{self.path} has no column {name!r}{role}; {known or f'it has {self.width} columns without names'}"
        )

    def span(self, name: str, without: int | None = None) -> list[int]:
        """Where a column is, or all columns of a range "A-B" ``without`` the one that names the rows."""
        if self.has(name):
            return [self.place(name)]
        ends = [(name[:k].strip(), name[k + 1 :].strip()) for k, letter in enumerate(name) if letter == "-"]
        whole = [pair for pair in ends if self.has(pair[0]) and self.has(pair[1])]
        if len(whole) > 1:
            raise ContentError(
                f"{self.path}: {name!r} may be any of several ranges; give the numbers of its ends, as in 0-9"
            )
        # of a range with one wrong end, that end is named
        half = [pair for pair in ends if self.has(pair[0]) or self.has(pair[1])]
        if not half:
            return [self.place(name)]
        ends_at = (whole or half)[0]
        first, last = (self.place(end, f", an end of {name!r}") for end in ends_at)
        if first > last:
            raise ContentError(
                f"{self.path}: {name!r} is the wrong way round, since column {ends_at[0]!r} comes after "
                f"{ends_at[1]!r}; write {ends_at[1]}-{ends_at[0]}"
            )
        return [k for k in range(first, last + 1) if k != without]


def only_points(path: Path, shapes: dict[str, tuple[int, ...]], key: str | None) -> str:
    """The name of the array that was asked for, or of the one that can be the points."""
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
    raise ContentError(
        f"{path} must contain one array with 2 axes or one called X; it has {listed}. Choose one with --key"
        if flat
        else f"{path} must contain one array with 2 axes or one called X; it has {listed}"
    )


def from_columns(path: Path, table: dict[str, np.ndarray], choice: Choice, index: Any = None) -> PointFile:
    """Points from named columns; those that are no numbers are an error unless they name the rows."""
    names = list(table)
    place, used = choice.places(path, names, len(names))
    rows = index if place is None else table[names[place]]
    chosen = names if used is None else [names[k] for k in used]
    for name in chosen:
        if table[name].dtype.kind not in "buif" or table[name].ndim != 1:
            raise ContentError(
                f"{path}: column {name!r} holds no numbers (dtype {table[name].dtype}); choose the coordinates with "
                f"--columns, or keep it as row names with --index-col {name}"
            )
    if not chosen:
        raise ContentError(f"{path} has no columns of numbers")
    return PointFile(np.column_stack([table[name].astype(np.float64) for name in chosen]), rows, chosen)


def shown(names: Iterable[str]) -> str:
    """The first names and the last, for messages."""
    listed = list(names)
    return ", ".join(listed if len(listed) <= 9 else [*listed[:6], "...", *listed[-2:]])


def needs(path: Path, library: str, extra: str) -> ImportError:
    """What to install to read or write a file."""
    return ImportError(f"{path} needs {library}: pip install 'ies-gpu[{extra}]'")
