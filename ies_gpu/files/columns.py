"""Reading named columns of numbers and words: what colours the points of a page."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .containers import annotated
from .points import check_readable
from .remote import fetched, is_remote, shown
from .tables import arrow_table, fits_data

Pick = Callable[[list[str]], Iterable[str]]  # which of all names of columns
TEXT = {".csv": ",", ".tsv": "\t"}
UNKNOWN = {"", "na", "nan", "none", "null"}


def read_columns(path: str | os.PathLike[str], pick: Pick = list) -> dict[str, Any]:
    """Read the named columns of a table, or those that ``pick`` picks of all names: a file or URL in ``READERS``.

    A column of numbers becomes an array of floats, or of integers where all are; any other column holds words. Empty
    cells are NaN or None. Of an ``.h5ad`` file the columns are those of ``obs``, below the names of the cells.
    """
    suffix = os.path.splitext(shown(os.fspath(path)))[1].lower()
    if suffix not in READERS:
        raise ValueError(
            f"{shown(os.fspath(path))}: columns are read from {', '.join(READERS)} files, not from '{suffix}'"
        )
    if is_remote(path):
        with fetched(os.fspath(path)) as local:
            return read_columns(local, pick)
    path = Path(path)
    check_readable(path)
    return READERS[suffix](path, pick)


def _from_text(path: Path, pick: Pick) -> dict[str, Any]:
    """A table of text whose first line names its columns."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = _without_blanks(list(csv.reader(file, delimiter=TEXT[path.suffix.lower()])))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a table of text: {error}; save it as UTF-8") from None
    if len(lines) < 2:
        raise ValueError(f"{path} must have a line with names and one line per point, got {len(lines)} lines")
    names = [name.strip() for name in lines[0]]
    if all(len(line) == len(names) + 1 for line in lines[1:]):  # as R writes row names
        names = ["", *names]
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: two columns have the same name; rename one of {', '.join(names)}")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise ValueError(f"{path}, line {number}: {len(line)} cells, but there are {len(names)} names; correct it")
    places = {name: place for place, name in enumerate(names)}
    return {name: _typed([line[places[name]] for line in lines[1:]]) for name in pick(names)}


def _from_arrow(path: Path, pick: Pick) -> dict[str, Any]:
    table = arrow_table(path)
    return {name: _plain_column(table.column(name).to_pylist()) for name in pick(table.column_names)}


def _from_fits(path: Path, pick: Pick) -> dict[str, Any]:
    data = fits_data(path)
    named = {name: column for name, column in data.items() if column.ndim == 1} if isinstance(data, dict) else {}
    return {name: _plain_column(named[name].tolist()) for name in pick(list(named))}


def _from_h5ad(path: Path, pick: Pick) -> dict[str, Any]:
    cells = annotated(path)
    columns = {"name": cells.obs_names} | {str(name): cells.obs[name] for name in cells.obs}
    return {name: _plain_column(columns[name].tolist()) for name in pick(list(columns))}


def _plain_column(values: list[Any]) -> np.ndarray:
    """Python's values as integers, floats or words."""
    known = [value for value in values if value is not None and value == value]
    if all(isinstance(value, int | float) for value in known):
        if len(known) == len(values) and not any(isinstance(value, float) for value in known):
            return np.array(values)
        return np.array([np.nan if value is None else float(value) for value in values])
    words = [None if value is None or value != value else str(value) for value in values]
    return np.array(words, dtype=object)


def _without_blanks(lines: list[list[str]]) -> list[list[str]]:
    """Lines that are not blank; below a single name, a blank one is an empty cell, unless nothing follows it."""
    filled = [k for k, line in enumerate(lines) if line]
    if not filled or len(lines[filled[0]]) > 1:
        return [lines[k] for k in filled]
    return [line or [""] for line in lines[filled[0] : filled[-1] + 1]]


def _typed(cells: list[str]) -> np.ndarray:
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


READERS = {
    **dict.fromkeys(TEXT, _from_text), ".parquet": _from_arrow, ".feather": _from_arrow, ".h5ad": _from_h5ad,
    ".fits": _from_fits,
}  # fmt: skip
