"""Tables of text: points, names of rows, and what colours points."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..findings import finding_of, first_few, refusal, tell, warning
from .points import PointFile

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}  # None: blanks
MISSING = {"", "na", "n/a", "nan", "none", "null", "-", "?"}  # what stands for a value that is not known


class Table:
    """A file of text whose columns are read when they are asked for; ``names`` is None if these have none.

    Its first line has their names if it has no numbers, counts from 0, or if a column is ``asked`` for by name. A first
    column without a name, "", holds the names of the rows, as R and pandas write it.
    """

    def __init__(self, path: Path, asked: Sequence[str] = ()) -> None:
        self.path, self.names = path, None
        start = [text for _, text in islice(_lines(path), 2)]
        if not start:
            raise refusal("file.empty", f"{path} contains no lines of numbers")
        own = DELIMITERS[path.suffix.lower()]
        self.delimiter = next((mark for mark in (own, ",", "\t") if mark and mark in start[0]), own)
        first, *following = map(self._split, start)
        self.width = len(first)
        count = [str(k) for k in range(len(first))]
        counts = len(first) > 1 and (first == count or (not _is_number(first[0]) and first[1:] == count[:-1]))
        by_name = any(not name.isdecimal() or int(name) >= len(first) for name in asked)
        if not (counts or by_name) and any(map(_is_number, first)):
            return
        self.names = first
        if not following:
            raise refusal("file.empty", f"{path} contains no points: it has a line with names and nothing below")
        if first == count:
            text = f"{path}: the first line, {first_few(first, 4)}, is read as the names of the columns"
            tell(warning("table.header", text, "if it is a point, put a line with names above it"))
        if len(following[0]) == len(first) + 1:  # R's write.table gives the names of the rows no name
            self.names, self.width = ["", *first], len(first) + 1
        elif len(following[0]) != len(first):
            names = f"{len(first)} name{'s' * (len(first) != 1)} ({first_few(first, 8)})"
            text = f"{path}: the header has {names}, but the first line of data has {len(following[0])} cells"
            way = "give every column a name, separate cells with commas, and write decimal points"
            raise refusal("file.header", text, way)

    def points(self, columns: Sequence[str] | None, index_col: str | None) -> PointFile:
        """Read the coordinates, with the names of the rows and columns."""
        unnamed = [0] if self.width > 1 and self.names is not None and self.names[0] == "" else []
        marks = unnamed if index_col is None else [self._place(index_col, number_first=True)]
        others = [k for k in range(self.width) if k not in (*unnamed, *marks)]
        if not (used := others if columns is None else [self._place(name) for name in columns]):
            raise refusal("file.no_numbers", f"{self.path} has no columns of numbers")
        rows = tuple(self._words(marks)[0]) if marks else None
        return PointFile(self._numbers(used), rows, None if self.names is None else tuple(self.names[k] for k in used))

    def colours(self) -> dict[str, np.ndarray]:
        """Read all columns by name; those of a table without names are called by number."""
        places = list(range(self.width))
        names = self.names or list(map(str, places))
        if len(set(names)) < len(names):
            text = f"{self.path}: two columns have the same name"
            raise refusal("file.column_repeated", text, f"rename one of {', '.join(names)}")
        return dict(zip(names, map(typed, self._words(places)), strict=True))

    def _place(self, name: str, *, number_first: bool = False) -> int:
        """Return where a column is, by name or by number from 0; pandas may have given numbers as names."""
        number = int(name) if name.isdecimal() and int(name) < self.width else None
        same = [k for k, other in enumerate(self.names or ()) if other == name]
        if number is not None and (number_first or not same):
            return number
        if len(same) == 1:
            return same[0]
        if same:
            way = f"choose one by its number, {' or '.join(map(str, same))}"
            raise refusal("file.column_repeated", f"{self.path} has {len(same)} columns called {name!r}", way)
        known = "column" + "s" * (self.width != 1)
        known += " without names" if self.names is None else f": {first_few(self.names, 9)}"
        raise refusal("file.no_column", f"{self.path} has no column {name!r}; it has {self.width} {known}")

    def _split(self, text: str) -> list[str]:
        """Return the cells of a line; those in quotes may hold what separates others."""
        text = text if self.delimiter else " ".join(text.split())
        reader = csv.reader([text], delimiter=self.delimiter or " ", skipinitialspace=True)
        return [cell.strip() for cell in next(reader)]

    def _data(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of data with their numbers; each must have as many cells as the others."""
        for number, text in islice(_lines(self.path), int(self.names is not None), None):
            if '"' in text:
                count = len(self._split(text))
            else:
                count = len(text.split()) if self.delimiter is None else text.count(self.delimiter) + 1
            if count != self.width:
                text = f"{self.path}, line {number}: {count} cells, but {self.width} in the lines above"
                raise refusal("file.cells", text, "correct it")
            yield number, text

    def _load(self, places: list[int], dtype: Any) -> np.ndarray:
        how: dict[str, Any] = {"delimiter": self.delimiter, "quotechar": '"', "comments": None, "ndmin": 2}
        return np.loadtxt((text for _, text in self._data()), dtype, usecols=places, **how)

    def _words(self, places: list[int]) -> list[list[str]]:
        return [[cell.strip() for cell in column] for column in self._load(places, object).T.tolist()]

    def _numbers(self, places: list[int]) -> np.ndarray:
        try:
            return self._load(places, np.float64)
        except ValueError as error:
            for line, text in self._data() if finding_of(error) is None else ():
                for k, cell in enumerate(self._split(text)):
                    if k in places and not _is_number(cell):
                        column = k + 1 if self.names is None else repr(self.names[k])
                        where = f"{self.path}, line {line}, column {column}"
                        way = "choose the coordinates with --columns, the names of the rows with --index-col"
                        text = f"{where}: {cell[:40]!r} is not a number"
                        raise refusal("file.not_a_number", text, f"correct it, or {way}") from None
            raise


def typed(words: list[str]) -> np.ndarray:
    """Return a column as integers, floats or words; what is missing is NaN or None."""
    known = [None if word.lower() in MISSING else word for word in words]
    if not all(word is None or _is_number(word) for word in known):
        return np.array(known, dtype=object)
    with suppress(ValueError, OverflowError):  # some are no integers, are missing, or are too large for 64 bits
        return np.array(words, dtype=np.int64)
    return np.array([np.nan if word is None else float(word) for word in known])


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, without empty ones and comments."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.isspace() and not line.lstrip().startswith("#"):
                yield number, line.strip("\r\n")


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number, and not only in Python, as 1_000 is."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
