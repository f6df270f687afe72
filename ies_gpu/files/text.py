"""Points from text: numbers separated by commas, tabs or blanks, with or without a header line and row names."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..errors import warn_caller
from .chosen import Choice, ContentError, PointFile

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}  # None: blanks


class Look(NamedTuple):
    """The first lines of a text file: how many to skip, what separates cells (None: blanks), and the header's cells."""

    skip: int
    delimiter: str | None
    header: list[str] | None
    width: int


def read_text(path: Path, choice: Choice) -> PointFile:
    """A text file, compressed if it ends in .gz; comments start with #."""
    try:
        look = _look(path, choice)
        index, used = choice.places(path, look.header, look.width)
        options: dict[str, Any] = {
            "delimiter": look.delimiter,
            "skiprows": look.skip,
            "quotechar": '"',
            "comments": "#",
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "input contained no data": said below, with the path
            X = np.loadtxt(path, usecols=used, ndmin=2, encoding="utf-8-sig", **options)
            rows = None
            if index is not None:
                rows = np.loadtxt(path, usecols=index, ndmin=1, dtype=str, encoding="utf-8-sig", **options)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason}); write it again as UTF-8") from None
    except (gzip.BadGzipFile, EOFError):
        raise ValueError(f"{path} is not compressed by gzip, or is cut short; write it again") from None
    except ContentError:
        raise
    except ValueError as error:
        raise ValueError(_first_bad_line(path, look, used) or f"{path}: {error}") from None
    names = None if look.header is None else [look.header[k] for k in (range(look.width) if used is None else used)]
    return PointFile(X, rows, names)


def _open(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return open(path, encoding="utf-8-sig")


def _look(path: Path, choice: Choice) -> Look:
    """What the first line of data and the one above it tell."""
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    delimiter = DELIMITERS[suffix]
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip("\r\n")
            if not text.strip():
                continue
            if delimiter is None or delimiter not in text:
                delimiter = next((other for other in (",", "\t") if other in text), delimiter)
            cells = _cells(text, delimiter)
            if any(map(_is_number, cells)) and not (choice.by_name and number == 1):
                _warn_of_column_numbers(path, cells)
                return Look(number - 1, delimiter, None, len(cells))
            if cells[0] == "" and len(cells) > 1 and choice.index_col is None:
                raise ContentError(
                    f"{path}: the first column has no name, as when pandas writes row names; pass --index-col 0 to "
                    "keep them as names, or write the file with index=False"
                )
            return Look(number, delimiter, cells, len(cells))
    raise ContentError(f"{path} contains no lines of numbers")


def _cells(text: str, delimiter: str | None) -> list[str]:
    return [cell.strip().strip('"') for cell in text.split(delimiter)]


def _warn_of_column_numbers(path: Path, cells: list[str]) -> None:
    if len(cells) > 1 and cells == [str(k) for k in range(len(cells))]:
        warn_caller(
            f"{path}: the first line, {', '.join(cells[:4])}{', ...' if len(cells) > 4 else ''}, is read as a point; "
            "if it numbers the columns, delete it",
        )


def _first_bad_line(path: Path, look: Look, used: list[int] | None) -> str | None:
    """What is wrong with the first bad line; lines are counted as in an editor."""
    width = 0
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip("\r\n")
            if number <= look.skip or not text.strip():
                continue
            cells = _cells(text, look.delimiter)
            width = width or len(cells)
            if len(cells) != width:
                return f"{path}, line {number}: {len(cells)} cells, but {width} in the lines above; correct it"
            for column, cell in enumerate(cells, 1):
                if not _is_number(cell) and (used is None or column - 1 in used):
                    what = f"{cell[:40]!r} is not a number" if cell else "the cell is empty"
                    hint = "; separate cells with commas" if ";" in cell else _hint(cells, column)
                    return f"{path}, line {number}, column {column}: {what}{hint}"
    return None


def _hint(cells: list[str], column: int) -> str:
    if column == 1 and len(cells) > 1 and cells[0] and all(map(_is_number, cells[1:])):
        return "; if the first column holds names, pass --index-col 0"
    return "; correct it or remove the row"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # 1_000 is a number only in Python
