"""Which part of a file is wanted: one of its arrays by key, some columns of a table, a column of row names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import first_few

NAMES = ("X", "points", "R")  # which array holds the points, if there are several


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
        The columns of a table that are coordinates, by name or by number from 0.
    index_col : str or None
        The column with the names of the rows, by name or by number from 0.
    """

    key: str | None = None
    columns: tuple[str, ...] | None = None
    index_col: str | None = None

    @property
    def by_name(self) -> bool:
        """Whether a column is asked for by name, so that there must be a header."""
        asked = [*(self.columns or ()), *([] if self.index_col is None else [self.index_col])]
        return any(not name.isdigit() for name in asked)

    def places(self, path: Path, header: Sequence[str] | None, width: int) -> tuple[int | None, list[int] | None]:
        """Where the row names and the coordinates are; None for no names, and for all columns."""

        def place(name: str) -> int:
            if header is not None and name in header:
                same = [str(k) for k, other in enumerate(header) if other == name]
                if len(same) > 1:
                    raise ContentError(
                        f"{path} has {len(same)} columns called {name!r}; choose one by its number, {' or '.join(same)}"
                    )
                return list(header).index(name)
            if name.isdigit() and int(name) < width:
                return int(name)
            known = "" if header is None else f"; its columns are {first_few(header, 8)}"
            raise ContentError(f"{path} has no column {name!r}{known or f'; it has {width} columns without names'}")

        index = None if self.index_col is None else place(self.index_col)
        if self.columns is not None:
            return index, [place(name) for name in self.columns]
        return index, None if index is None else [k for k in range(width) if k != index]


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


def needs(path: Path, library: str, extra: str) -> ImportError:
    """What to install to read or write a file."""
    return ImportError(f"{path} needs {library}: pip install 'ies-gpu[{extra}]'")
