"""Tables as text: cells separated by commas, tabs or blanks, with or without a header line and row names."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import first_few
from ..findings import tell, warning
from .chosen import ContentError
from .tables import Table

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}  # None: blanks
QUOTED = re.compile(r'"[^"]*"')
BLANKS = re.compile(r'"[^"]*"|\S+')  # cells between blanks
COMMENT = re.compile(r'("[^"]*")|(?:^|\s)#.*')  # a # within a word, or in quotes, begins none
MISSING = {"", "na", "n/a", "nan", "none", "null", "-", "?"}  # what stands for a value that is not known


@contextlib.contextmanager
def open_text(path: Path, asked: Sequence[str] = ()) -> Iterator[Table]:
    """Open a table of text; a column that is ``asked`` for by name tells that the first line is a header."""
    try:
        yield TextTable(path, asked)
    except UnicodeDecodeError as error:
        raise ContentError(f"{path} is not text in UTF-8 ({error.reason}); write it again as UTF-8") from None
    except csv.Error as error:
        raise ContentError(f"{path} is not a table of text ({error}); write it again") from None


class TextTable(Table):
    """A text file.

    Attributes
    ----------
    delimiter : str or None
        What separates cells; None for blanks.
    """

    def __init__(self, path: Path, asked: Sequence[str]) -> None:
        start = list(islice(_lines(path), 4))
        if not start:
            raise ContentError(f"{path} contains no lines of numbers")
        bare = QUOTED.sub("", start[0][1])
        self.delimiter = DELIMITERS[path.suffix.lower()]
        if self.delimiter is None or self.delimiter not in bare:
            self.delimiter = next((other for other in (",", "\t") if other in bare), self.delimiter)
        first, *following = [self._split(text) for _, text in start]
        numbered = len(first) > 1 and not is_number(first[0]) and first[1:] == [str(k) for k in range(len(first) - 1)]
        by_name = any(not name.isdecimal() or int(name) >= len(first) for name in asked)
        self.skip = int(numbered or by_name or not any(map(is_number, first)))
        if not self.skip:
            super().__init__(path, None, len(first))
            self._warn_of_a_header(first, following)
            return
        if not following:
            raise ContentError(f"{path} contains no points: it has a line with names and nothing below")
        if numbered and first[0] and len(first) <= 4 and all(_whole(row[1:]) for row in following):
            text = f"{path}: the first line, {first_few(first, 4)}, is read as the names of the columns"
            tell(warning("table.header", text, "if it is a point, put a line with names above it"))
        names = self._fitting(path, first, following[0], start[1][1], "0" in asked)
        # a first column without a name holds the names of the rows: R and pandas write it so
        super().__init__(path, names, len(names), [0] if names[0] == "" and len(names) > 1 else [])

    def _fitting(self, path: Path, names: list[str], cells: list[str], line: str, first_asked: bool) -> list[str]:
        """Return the names, one for each cell of the first line of data; R gives the names of rows none."""
        if len(cells) == len(names):
            return names
        more = len(cells) == len(names) + 1 and cells[-1] != ""
        if more and (first_asked or line.lstrip().startswith('"') or not is_number(cells[0])):
            return ["", *names]
        way = "if the first column names the rows, pass --index-col 0; otherwise correct" if more else "correct"
        if ";" in QUOTED.sub("", line):
            way = "separate cells with commas, and write decimal points, in"
        raise ContentError(
            f"{path}: the header has {len(names)} name{'s' * (len(names) != 1)} ({first_few(names, 8)}), but the "
            f"first line of data has {len(cells)} cell{'s' * (len(cells) != 1)}; {way} the file"
        )

    def _warn_of_a_header(self, cells: list[str], following: list[list[str]]) -> None:
        """Warn of a point that may be a header: the numbers from 0, or different whole ones (years) above others."""
        first = cells if is_number(cells[0]) else cells[1:]
        numbered = cells == [str(k) for k in range(len(cells))]
        rows = [row[-len(first) :] for row in following]
        broken = rows and all(all(map(is_number, row)) and not _whole(row) for row in rows)
        if len(first) > 1 and (numbered or (_whole(first) and len(set(first)) == len(first) and broken)):
            text = f"{self.path}: the first line, {first_few(cells, 4)}, is read as a point"
            tell(warning("table.no_header", text, "if it names the columns, delete it, or choose columns by name"))

    def _split(self, text: str) -> list[str]:
        """Return the cells of a line; those in quotes may hold what separates others."""
        if self.delimiter is None:
            return [cell.strip('"') for cell in BLANKS.findall(text)]
        return [cell.strip() for cell in next(csv.reader([text], delimiter=self.delimiter, skipinitialspace=True))]

    def _data(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of data with their numbers; each must have as many cells as the others."""
        for number, text in islice(_lines(self.path), self.skip, None):
            if '"' in text:
                count = len(self._split(text))
            else:
                count = len(text.split()) if self.delimiter is None else text.count(self.delimiter) + 1
            if count != self.width:
                raise ContentError(
                    f"{self.path}, line {number}: {count} cells, but {self.width} in the lines above; correct it"
                )
            yield number, text

    def _load(self, places: list[int], dtype: Any) -> np.ndarray:
        lines = (text for _, text in self._data())
        return np.loadtxt(
            lines, usecols=places, ndmin=2, dtype=dtype, delimiter=self.delimiter, quotechar='"', comments=None
        )

    def numbers(self, places: list[int]) -> np.ndarray:
        try:
            return self._load(places, np.float64)
        except ContentError:
            raise
        except ValueError:
            for number, text in self._data():
                for k, cell in enumerate(self._split(text)):
                    if k in places and not is_number(cell):
                        raise self.odd(k, cell, f", line {number}") from None  # counted as in an editor
            raise

    def cells(self, places: list[int]) -> list[list[Any]]:
        return [[cell.strip() for cell in column] for column in self._load(places, object).T.tolist()]

    def typed(self, values: list[Any]) -> np.ndarray:
        known = [None if value.lower() in MISSING else value for value in values]
        for kind in (int, float):
            with contextlib.suppress(ValueError, OverflowError):
                return np.array([_parsed(kind, value) for value in known])
        return np.array(known, dtype=object)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not empty, without comments, with their numbers."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = COMMENT.sub(lambda found: found[1] or "", line) if "#" in line else line
            text = text.strip("\r\n")
            if text and not text.isspace():
                yield number, text


def _parsed(kind: type, value: str | None) -> Any:
    """Return a number; what is missing is NaN, which no integer is, and 1_0 is a label, not 10."""
    if value is None and kind is float:
        return np.nan
    if value is None or "_" in value:
        raise ValueError
    return kind(value)


def _whole(cells: list[str]) -> bool:
    return all(cell.isdecimal() for cell in cells)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, and not only in Python, as 1_000 is."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
