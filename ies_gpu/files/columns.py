"""Tables: points, names of rows and what colours points, from text, Parquet and the cells of AnnData by one rule."""

from __future__ import annotations

import contextlib
import csv
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import first_few
from ..findings import tell, warning
from .points import WORD, Choice, ContentError, PointFile, check_fits, memory_of, needs, open_hdf5, read_element

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
            raise ContentError("column_repeated", f"{self.path} has {len(same)} columns called {name!r}", way)
        known = "column" + "s" * (self.width != 1)
        known += " without names" if self.names is None else f": {first_few(self.names, 9)}"
        raise ContentError("no_column", f"{self.path} has no column {name!r}; it has {self.width} {known}")

    def points(self, choice: Choice) -> PointFile:
        """Read the coordinates, with the names of the rows and columns."""
        marks = self.marks if choice.index_col is None else [self.place(choice.index_col, number_first=True)]
        if choice.columns is None:
            used = [k for k in range(self.width) if k not in (*self.marks, *marks)]
        else:
            used = [self.place(name) for name in choice.columns]
        if not used:
            raise ContentError("no_numbers", f"{self.path} has no columns of numbers")
        check_fits(self.path, self.memory([*used, *marks]))
        X = self.numbers(used)
        rows = [", ".join(map(str, labels)) for labels in zip(*self.cells(marks), strict=True)] if marks else None
        return PointFile(X, rows, None if self.names is None else [self.names[k] for k in used])

    def colours(self, wanted: Sequence[str] | None) -> dict[str, np.ndarray]:
        """Read some columns, or all of them, by name; those of a table without names are called by number."""
        places = list(range(self.width)) if wanted is None else [self.place(name) for name in wanted]
        names = [str(k) if self.names is None else self.names[k] for k in places]
        if wanted is None and len(set(names)) < len(names):
            text = f"{self.path}: two columns have the same name"
            raise ContentError("column_repeated", text, f"rename one of {', '.join(names)}")
        check_fits(self.path, self.memory(places))
        return dict(zip(names, map(self.typed, self.cells(places)), strict=True))

    def odd(self, place: int, value: Any, where: str = "") -> ContentError:
        """Return the error that a value of a column is no number, which says what to do about it."""
        name = self.names[place] if self.names is not None else ""
        what = f"{str(value)[:40]!r} is not a number" if value not in (None, "") else "the cell is empty"
        way = "correct it, or choose the coordinates with --columns"
        if ";" in str(value):
            way = "separate cells with commas, and write decimal points"
        elif place == 0 and self.width > 1:
            way = f"if this column names the rows, pass --index-col {shlex.quote(name or '0')}"
        where = f"{self.path}{where}, column {repr(name) if name else place + 1}"
        return ContentError("not_a_number", f"{where}: {what}; {way}")


# --- text ------------------------------------------------------------------------------------------------------------


class TextTable(Table):
    """A text file, with names in its first line if that has no numbers, counts from 0, or names are asked for.

    ``delimiter`` is what separates cells, None for blanks.
    """

    def __init__(self, path: Path, asked: Sequence[str]) -> None:
        start = [text for _, text in islice(_lines(path), 2)]
        if not start:
            raise ContentError("empty", f"{path} contains no lines of numbers")
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
            raise ContentError("empty", f"{path} contains no points: it has a line with names and nothing below")
        if first == count:
            text = f"{path}: the first line, {first_few(first, 4)}, is read as the names of the columns"
            tell(warning("table.header", text, "if it is a point, put a line with names above it"))
        cells = following[0]
        if len(cells) == len(first) + 1 and (start[1].startswith('"') or "0" in asked or not is_number(cells[0])):
            first = ["", *first]  # R gives the column with the names of rows none
        if len(cells) != len(first):
            names = f"{len(first)} name{'s' * (len(first) != 1)} ({first_few(first, 8)})"
            text = f"{path}: the header has {names}, but the first line of data has"
            way = "if the first column names the rows, pass --index-col 0; otherwise separate cells with commas"
            raise ContentError("header", f"{text} {len(cells)} cells", f"{way}, and write decimal points")
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
                raise ContentError("cells", text, "correct it")
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


# --- what pandas reads -----------------------------------------------------------------------------------------------


class Frame(Table):
    """A table of which a library reads some columns as a data frame."""

    def read(self, places: list[int]) -> Any:
        raise NotImplementedError

    def cells(self, places: list[int]) -> list[list[Any]]:
        frame = self.read(places)
        return [frame.iloc[:, k].astype(object).tolist() for k in range(len(places))]


class Parquet(Frame):
    """A Parquet file; an index that pandas wrote names the rows, its levels joined by commas."""

    def __init__(self, path: Path, file: Any) -> None:
        schema = self.schema = file.schema_arrow
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        super().__init__(path, schema.names, len(schema.names), [k for k, n in enumerate(schema.names) if n in index])
        self.file = file

    def _is_number(self, place: int) -> bool:
        return str(self.schema.types[place]).startswith(("int", "uint", "halffloat", "float", "double", "bool"))

    def memory(self, places: list[int]) -> int:
        about = self.file.metadata
        each = [8 if self._is_number(k) else WORD for k in places]
        groups = [about.row_group(k).total_byte_size for k in range(about.num_row_groups)]
        return max(about.num_rows * sum(each), max(groups, default=0))

    def read(self, places: list[int]) -> Any:
        names = [self.schema.names[k] for k in places]
        return self.file.read(columns=names).select(names).to_pandas(ignore_metadata=True, integer_object_nulls=True)

    def numbers(self, places: list[int]) -> np.ndarray:
        for k in places:
            if not self._is_number(k):
                batches = self.file.iter_batches(100, columns=[self.schema.names[k]])
                raise self.odd(k, next((value.as_py() for value in next(batches)[0] if value.is_valid), None))
        return self.read(places).to_numpy(np.float64)


class Cells(Frame):
    """The annotations of cells in an AnnData file, below the names of the cells."""

    def __init__(self, path: Path, obs: Any) -> None:
        names = obs.attrs["column-order"]
        super().__init__(path, ["name", *map(str, names)], len(names) + 1)
        self.obs = obs

    def memory(self, places: list[int]) -> int:
        return memory_of(self.obs)

    def read(self, places: list[int]) -> Any:
        frame = read_element(self.path, self.obs)
        frame.insert(0, "name", frame.index, allow_duplicates=True)
        return frame.iloc[:, places]


# --- any of them -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_table(path: Path, ending: str, asked: Sequence[str]) -> Iterator[Table]:
    """Open a table; a column that is ``asked`` for by name tells that the first line of text is a header."""
    if ending == ".parquet":
        with open_parquet(path) as file:
            yield Parquet(path, file)
    elif ending == ".h5ad":
        with open_hdf5(path) as file:
            yield Cells(path, file["obs"])
    else:
        try:
            yield TextTable(path, asked)
        except UnicodeDecodeError as error:
            text = f"{path} is not text in UTF-8 ({error.reason})"
            raise ContentError("encoding", text, "write it again as UTF-8") from None
        except csv.Error as error:
            raise ContentError("damaged", f"{path} is not a table of text ({error}); write it again") from None


def open_parquet(path: Path) -> Any:
    """Open a Parquet file; a word that many rows share is kept once, however few bytes it takes in the file."""
    try:
        import pandas  # noqa: F401
        import pyarrow.parquet
    except ImportError as error:
        raise needs(path, error.name or "pyarrow", "files") from None
    texts = [field.name for field in pyarrow.parquet.read_schema(path) if str(field.type) == "string"]
    return pyarrow.parquet.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts)
