"""Reading named columns of numbers and words: what colours the points of a page."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np

from .points import check_readable
from .remote import fetched, is_remote, shown

TEXT = {".csv": ",", ".tsv": "\t"}
UNKNOWN = {"", "na", "nan", "none", "null"}


def read_columns(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a ``.csv`` or ``.tsv`` file or URL whose first line names its columns.

    A column of numbers becomes an array of floats, or of integers where all are; any other column holds words. Empty
    cells are NaN or None.
    """
    suffix = os.path.splitext(shown(os.fspath(path)))[1].lower()
    if suffix not in TEXT:
        raise ValueError(
            f"{shown(os.fspath(path))}: columns are read from {' and '.join(TEXT)} files, not from '{suffix}'"
        )
    if is_remote(path):
        with fetched(os.fspath(path)) as local:
            return read_columns(local)
    path = Path(path)
    check_readable(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = _without_blanks(list(csv.reader(file, delimiter=TEXT[suffix])))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a table of text: {error}; save it as UTF-8") from None
    if len(lines) < 2:
        raise ValueError(f"{path} must have a line with names and one line per point, got {len(lines)} lines")
    names = [name.strip() for name in lines[0]]
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: two columns have the same name; rename one of {', '.join(names)}")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise ValueError(f"{path}, line {number}: {len(line)} cells, but there are {len(names)} names; correct it")
    return {name: _typed(cells) for name, cells in zip(names, zip(*lines[1:], strict=True), strict=True)}


def _without_blanks(lines: list[list[str]]) -> list[list[str]]:
    """Lines that are not blank; below a single name, a blank one is an empty cell, unless nothing follows it."""
    filled = [k for k, line in enumerate(lines) if line]
    if not filled or len(lines[filled[0]]) > 1:
        return [lines[k] for k in filled]
    return [line or [""] for line in lines[filled[0] : filled[-1] + 1]]


def _typed(cells: tuple[str, ...]) -> np.ndarray:
    known = [cell.strip() for cell in cells]
    empty = [cell.lower() in UNKNOWN for cell in known]
    try:
        if not any(empty):
            return np.array([int(_plain(cell)) for cell in known])
    except (ValueError, OverflowError):
        pass
    try:
        return np.array([np.nan if no else float(_plain(cell)) for cell, no in zip(known, empty, strict=True)])
    except ValueError:
        return np.array([None if no else cell for cell, no in zip(known, empty, strict=True)], dtype=object)


def _plain(cell: str) -> str:
    """The same, unless it is a number only in Python: 1_0 is a label, not 10."""
    if "_" in cell:
        raise ValueError(cell)
    return cell
