"""Tables: points, names of rows and what colours points, from text, Parquet and the cells of AnnData by one rule."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .chosen import Choice, ContentError, Opened, PointFile, needs
from .containers import WORD, element_memory, open_hdf5, read_element


class Table:
    """A table whose columns are read when they are asked for.

    ``names`` has "" for a column without one, and is None for a table without names. ``marks`` are the columns that
    name the rows unless another is asked for, and that are no coordinates.
    """

    def __init__(self, path: Path, names: Sequence[str] | None, width: int, marks: Sequence[int] = ()) -> None:
        self.path, self.width, self.marks = path, width, list(marks)
        self.names = None if names is None else list(names)

    def numbers(self, places: list[int]) -> np.ndarray:
        """Return some columns as coordinates, or raise an error that says which of them are none."""
        raise NotImplementedError

    def cells(self, places: list[int]) -> list[list[Any]]:
        """Return the values of each of some columns."""
        raise NotImplementedError

    def memory(self, places: list[int]) -> int:
        """Return the bytes that some columns say they take in memory."""
        return 0

    def typed(self, values: list[Any]) -> np.ndarray:
        """Return a column as integers, floats or words; what is missing is NaN or None."""
        known = [value for value in values if value is not None and value == value]
        if all(isinstance(value, int | float) for value in known):
            if len(known) == len(values) and not any(isinstance(value, float) for value in known):
                return np.array(values)
            return np.array([np.nan if value is None else float(value) for value in values])
        words = [None if value is None or value != value else str(value) for value in values]
        return np.array(words, dtype=object)

    def place(self, name: str, *, number_first: bool = False) -> int:
        """Return where a column is, by name or by number from 0; pandas may have given numbers as names."""
        number = int(name) if name.isdecimal() and int(name) < self.width else None
        same = [k for k, other in enumerate(self.names or ()) if other == name]
        if number is not None and (number_first or not same):
            return number
        if len(same) > 1:
            raise ContentError(
                f"{self.path} has {len(same)} columns called {name!r}; choose one by its number, "
                f"{' or '.join(map(str, same))}"
            )
        if same:
            return same[0]
        known = f"it has {self.width} columns without names"
        if self.names is not None:
            few = self.names if self.width <= 9 else [*self.names[:6], "...", *self.names[-2:]]
            known = f"its columns are {', '.join(few)}"
        raise ContentError(f"{self.path} has no column {name!r}; {known}")

    def points(self, choice: Choice) -> Opened:
        """Open the coordinates, with the names of the rows and columns."""
        marks = self.marks if choice.index_col is None else [self.place(choice.index_col, number_first=True)]
        if choice.columns is None:
            used = [k for k in range(self.width) if k not in (*self.marks, *marks)]
        else:
            used = [self.place(name) for name in choice.columns]
        if not used:
            raise ContentError(f"{self.path} has no columns of numbers")

        def read() -> PointFile:
            X = self.numbers(used)
            rows = [", ".join(map(str, labels)) for labels in zip(*self.cells(marks), strict=True)] if marks else None
            return PointFile(X, rows, None if self.names is None else [self.names[k] for k in used])

        return Opened(self.memory([*used, *marks]), read)

    def colours(self, wanted: Sequence[str] | None) -> Opened:
        """Open some columns, or all of them, by name; those of a table without names are called by number."""
        places = list(range(self.width)) if wanted is None else [self.place(name) for name in wanted]
        names = [str(k) if self.names is None else self.names[k] for k in places]
        if wanted is None and len(set(names)) < len(names):
            raise ContentError(f"{self.path}: two columns have the same name; rename one of {', '.join(names)}")
        return Opened(self.memory(places), lambda: dict(zip(names, map(self.typed, self.cells(places)), strict=True)))

    def odd(self, place: int, value: Any, where: str = "") -> ContentError:
        """Return the error that a value of a column is no number, which says what to do about it."""
        name = self.names[place] if self.names is not None else ""
        named = repr(name) if name and (self.names or []).count(name) == 1 else str(place + 1)
        what = f"{str(value)[:40]!r} is not a number" if value not in (None, "") else "the cell is empty"
        way = "correct it, or choose the coordinates with --columns"
        if ";" in str(value):
            way = "separate cells with commas, and write decimal points"
        elif place == 0 and self.width > 1:
            way = f"if this column names the rows, pass --index-col {shlex.quote(name or '0')}"
        return ContentError(f"{self.path}{where}, column {named}: {what}; {way}")


class Parquet(Table):
    """A Parquet file; an index that pandas wrote names the rows, its levels joined by commas."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.parquet
        except ImportError:
            raise needs(path, "pyarrow", "files") from None
        schema = pyarrow.parquet.read_schema(path)
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        super().__init__(path, schema.names, len(schema.names), [k for k, n in enumerate(schema.names) if n in index])
        self.kinds = [field.type for field in schema]
        # a word that many rows share is kept once, however few bytes it takes in the file
        texts = [field.name for field in schema if str(field.type) == "string"]
        self.file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True, read_dictionary=texts)

    def memory(self, places: list[int]) -> int:
        about = self.file.metadata
        each = [8 if self._is_number(k) else WORD for k in places]
        groups = [about.row_group(k).total_byte_size for k in range(about.num_row_groups)]
        return max(about.num_rows * sum(each), max(groups, default=0))

    def _is_number(self, place: int) -> bool:
        import pyarrow.types as kinds

        kind = self.kinds[place]
        return bool(kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind))

    def _called(self, places: list[int]) -> list[str]:
        return [(self.names or [])[k] for k in places]

    def _read(self, places: list[int]) -> list[Any]:
        table = self.file.read(columns=self._called(places))
        return [table.column(name) for name in self._called(places)]

    def numbers(self, places: list[int]) -> np.ndarray:
        for k in places:
            if not self._is_number(k):
                batches = self.file.iter_batches(100, columns=self._called([k]))
                raise self.odd(k, next((value.as_py() for value in next(batches)[0] if value.is_valid), None))
        return np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in self._read(places)])

    def cells(self, places: list[int]) -> list[list[Any]]:
        found = []
        for column in self._read(places):
            if str(column.type).startswith("dictionary") and column.num_chunks:
                column = column.unify_dictionaries()
                words = column.chunk(0).dictionary.to_pylist()
                codes = [code for chunk in column.chunks for code in chunk.indices.to_pylist()]
                found.append([None if code is None else words[code] for code in codes])
            else:
                found.append(column.to_pylist())
        return found


class Cells(Table):
    """The annotations of cells in an AnnData file, below the names of the cells."""

    def __init__(self, path: Path, obs: Any) -> None:
        self.obs = obs
        names = obs.attrs["column-order"]
        super().__init__(path, ["name", *map(str, names)], len(names) + 1)

    def memory(self, places: list[int]) -> int:
        return element_memory(self.obs)

    def cells(self, places: list[int]) -> list[list[Any]]:
        frame = read_element(self.path, self.obs)
        return [(frame.index if k == 0 else frame.iloc[:, k - 1]).tolist() for k in places]


@contextlib.contextmanager
def open_parquet(path: Path, asked: Sequence[str] = ()) -> Iterator[Table]:
    """Open a Parquet file."""
    table = Parquet(path)
    with table.file:
        yield table


@contextlib.contextmanager
def open_cells(path: Path, asked: Sequence[str] = ()) -> Iterator[Table]:
    """Open the annotations of cells."""
    with open_hdf5(path) as file:
        yield Cells(path, file["obs"])
