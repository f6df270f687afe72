"""Tables: points, names of rows and what colours points, from text and Parquet by one rule."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import first_few
from ..findings import finding_of, refusal, tell, warning
from .points import PointFile, check_fits, needs

WORD = 64  # bytes that a text takes at least
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}  # None: blanks
WHOLE = re.compile(r"[+-]?\d{1,18}")  # which 64 bits hold
QUOTED = re.compile(r'"[^"]*"')
MISSING = {"", "na", "n/a", "nan", "none", "null", "-", "?"}  # what stands for a value that is not known


class Table:
    """A table whose columns are read when they are asked for.

    ``names`` has "" for a column without one, and is None for a table without names. ``marks`` are the columns that
    name the rows unless another is asked for, and that are no coordinates. A kind of table has ``numbers``, which
    returns columns as coordinates or raises :meth:`odd`, and ``cells``, which returns their values.
    """

    def __init__(self, path: Path, names: Sequence[str] | None, width: int, marks: Sequence[int] = ()) -> None:
        self.path, self.width, self.marks = path, width, list(marks)
        self.names = None if names is None else list(names)

    def numbers(self, places: list[int]) -> np.ndarray:
        raise NotImplementedError

    def cells(self, places: list[int]) -> list[list[Any]]:
        raise NotImplementedError

    def memory(self, places: list[int]) -> int:
        """Return the bytes that some columns say they take in memory."""
        return 0

    def typed(self, values: list[Any]) -> np.ndarray:
        """Return a column as integers, floats or words; what is missing is NaN or None."""
        known = [value for value in values if value is not None and value == value]
        if not all(isinstance(value, int | float) for value in known):
            words = [None if value is None or value != value else str(value) for value in values]
            return np.array(words, dtype=object)
        if len(known) == len(values) and not any(isinstance(value, float) for value in known):
            return np.array(values)
        return np.array([np.nan if value is None else float(value) for value in values])

    def place(self, name: str, *, number_first: bool = False) -> int:
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

    def points(self, columns: Sequence[str] | None, index_col: str | None) -> PointFile:
        """Read the coordinates, with the names of the rows and columns."""
        marks = self.marks if index_col is None else [self.place(index_col, number_first=True)]
        if columns is None:
            used = [k for k in range(self.width) if k not in (*self.marks, *marks)]
        else:
            used = [self.place(name) for name in columns]
        if not used:
            raise refusal("file.no_numbers", f"{self.path} has no columns of numbers")
        check_fits(self.path, self.memory([*used, *marks]))
        X = self.numbers(used)
        rows = tuple(", ".join(map(str, labels)) for labels in zip(*self.cells(marks), strict=True)) if marks else None
        return PointFile(X, rows, None if self.names is None else tuple(self.names[k] for k in used))

    def colours(self, wanted: Sequence[str] | None) -> dict[str, np.ndarray]:
        """Read some columns, or all of them, by name; those of a table without names are called by number."""
        places = list(range(self.width)) if wanted is None else [self.place(name) for name in wanted]
        names = [str(k) if self.names is None else self.names[k] for k in places]
        if wanted is None and len(set(names)) < len(names):
            text = f"{self.path}: two columns have the same name"
            raise refusal("file.column_repeated", text, f"rename one of {', '.join(names)}")
        check_fits(self.path, self.memory(places))
        return dict(zip(names, map(self.typed, self.cells(places)), strict=True))

    def odd(self, place: int, value: Any, where: str = "") -> Exception:
        """Return the error that a value of a column is no number, which says what to do about it."""
        name = self.names[place] if self.names is not None else ""
        what = f"{str(value)[:40]!r} is not a number" if value not in (None, "") else "the cell is empty"
        way = "correct it, or choose the coordinates with --columns"
        if ";" in str(value):
            way = "separate cells with commas, and write decimal points"
        elif place == 0 and self.width > 1:
            way = f"if this column names the rows, pass --index-col {shlex.quote(name or '0')}"
        where = f"{self.path}{where}, column {repr(name) if name else place + 1}"
        return refusal("file.not_a_number", f"{where}: {what}; {way}")


# --- text ------------------------------------------------------------------------------------------------------------


class TextTable(Table):
    """A text file, with names in its first line if that has no numbers, counts from 0, or names are asked for.

    ``delimiter`` is what separates cells, None for blanks.
    """

    def __init__(self, path: Path, asked: Sequence[str]) -> None:
        start = [text for _, text in islice(_lines(path), 2)]
        if not start:
            raise refusal("file.empty", f"{path} contains no lines of numbers")
        bare, own = QUOTED.sub("", start[0]), DELIMITERS[path.suffix.lower()]
        self.delimiter = next((mark for mark in (own, ",", "\t") if mark and mark in bare), own)
        first, *following = map(self._split, start)
        count = [str(k) for k in range(len(first))]
        counts = len(first) > 1 and (first == count or (not is_number(first[0]) and first[1:] == count[:-1]))
        by_name = any(not name.isdecimal() or int(name) >= len(first) for name in asked)
        self.skip = int(counts or by_name or not any(map(is_number, first)))
        if not self.skip:
            super().__init__(path, None, len(first))
            return
        if not following:
            raise refusal("file.empty", f"{path} contains no points: it has a line with names and nothing below")
        if first == count:
            text = f"{path}: the first line, {first_few(first, 4)}, is read as the names of the columns"
            tell(warning("table.header", text, "if it is a point, put a line with names above it"))
        if len(following[0]) != len(first):
            names = f"{len(first)} name{'s' * (len(first) != 1)} ({first_few(first, 8)})"
            text = f"{path}: the header has {names}, but the first line of data has {len(following[0])} cells"
            way = "give every column a name, separate cells with commas, and write decimal points"
            raise refusal("file.header", text, way)
        # a first column without a name holds the names of the rows: R and pandas write it so
        super().__init__(path, first, len(first), [0] if first[0] == "" and len(first) > 1 else [])

    def _split(self, text: str) -> list[str]:
        """Return the cells of a line; those in quotes may hold what separates others."""
        text = text if self.delimiter else " ".join(text.split())
        reader = csv.reader([text], delimiter=self.delimiter or " ", skipinitialspace=True)
        return [cell.strip() for cell in next(reader)]

    def _data(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of data with their numbers; each must have as many cells as the others."""
        for number, text in islice(_lines(self.path), self.skip, None):
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

    def numbers(self, places: list[int]) -> np.ndarray:
        try:
            return self._load(places, np.float64)
        except ValueError as error:
            for number, text in self._data() if finding_of(error) is None else ():
                for k, cell in enumerate(self._split(text)):
                    if k in places and not is_number(cell):
                        raise self.odd(k, cell, f", line {number}") from None  # counted as in an editor
            raise

    def cells(self, places: list[int]) -> list[list[Any]]:
        return [[cell.strip() for cell in column] for column in self._load(places, object).T.tolist()]

    def typed(self, values: list[Any]) -> np.ndarray:
        known = [None if value.lower() in MISSING else value for value in values]
        if all(value is None or is_number(value) for value in known):
            known = [value and (int(value) if WHOLE.fullmatch(value) else float(value)) for value in known]
        return super().typed(known)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, without empty ones and comments."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.isspace() and not line.lstrip().startswith("#"):
                yield number, line.strip("\r\n")


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, and not only in Python, as 1_000 is."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


# --- Parquet ---------------------------------------------------------------------------------------------------------


class Parquet(Table):
    """A Parquet file; an index that pandas wrote names the rows, its levels joined by commas."""

    def __init__(self, path: Path) -> None:
        try:
            import pandas  # noqa: F401
            import pyarrow.parquet
        except ImportError as error:
            raise needs(path, error.name or "pyarrow", "files") from None
        schema = self.schema = pyarrow.parquet.read_schema(path)
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        super().__init__(path, schema.names, len(schema.names), [k for k, n in enumerate(schema.names) if n in index])
        # a word that many rows share is kept once, however few bytes it takes in the file
        texts = [field.name for field in schema if str(field.type) == "string"]
        self.file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts)

    def _is_number(self, place: int) -> bool:
        return str(self.schema.types[place]).startswith(("int", "uint", "halffloat", "float", "double", "bool"))

    def memory(self, places: list[int]) -> int:
        about = self.file.metadata
        each = [8 if self._is_number(k) else WORD for k in places]
        groups = [about.row_group(k).total_byte_size for k in range(about.num_row_groups)]
        return max(about.num_rows * sum(each), max(groups, default=0))

    def _read(self, places: list[int]) -> Any:
        names = [self.schema.names[k] for k in places]
        return self.file.read(columns=names).select(names).to_pandas(ignore_metadata=True, integer_object_nulls=True)

    def numbers(self, places: list[int]) -> np.ndarray:
        for k in places:
            if not self._is_number(k):
                batches = self.file.iter_batches(100, columns=[self.schema.names[k]])
                raise self.odd(k, next((value.as_py() for value in next(batches)[0] if value.is_valid), None))
        return self._read(places).to_numpy(np.float64)

    def cells(self, places: list[int]) -> list[list[Any]]:
        frame = self._read(places)
        return [frame.iloc[:, k].astype(object).tolist() for k in range(len(places))]


def open_table(path: Path, asked: Sequence[str]) -> Table:
    """Open a table; a column that is ``asked`` for by name tells that the first line of text is a header."""
    return Parquet(path) if path.suffix.lower() == ".parquet" else TextTable(path, asked)
