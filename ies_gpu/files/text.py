"""Points from text: numbers separated by commas, tabs or blanks, with or without a header line and row names."""

from __future__ import annotations

import csv
import gzip
import re
import shlex
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..errors import first_few, warn_caller
from .chosen import Choice, ContentError, PointFile

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}  # None: blanks
QUOTED = re.compile(r'"[^"]*"')
BLANKS = re.compile(r'"[^"]*"|\S+')  # cells between blanks
BEFORE_COMMENT = re.compile(r'(?:[^"#]|"[^"]*"|"(?=[^"]*$))*')
COMMENT = re.compile(r"(?:^|\s)#")  # in a header, where a name may be a#1
MISSING = {"", "na", "n/a", "none", "null", "-", "?"}  # what stands for a number that is not known


class Look(NamedTuple):
    """The first lines of a text file.

    Attributes
    ----------
    skip : int
        How many lines come before the data.
    delimiter : str or None
        What separates cells; None for blanks.
    header : list of str or None
        The names of the columns, "" for row names that have none.
    width : int
        The number of columns.
    row_names : bool
        Whether the first column names the rows without a name of its own, as R writes it.
    """

    skip: int
    delimiter: str | None
    header: list[str] | None
    width: int
    row_names: bool = False


def read_text(path: Path, choice: Choice) -> PointFile:
    """A text file, compressed if it ends in .gz; comments start with #."""
    try:
        look = _look(path, choice)
        if look.row_names:
            choice = choice._replace(index_col=None)
        index, used = choice.places(path, look.header, look.width)
        if look.row_names:
            index, used = 0, used or list(range(1, look.width))
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
    except csv.Error as error:
        raise ValueError(f"{path} is not a table of text ({error}); write it again") from None
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
        lines = enumerate(file, 1)
        for number, line in lines:
            text = _without_comment(line)
            if not text.strip():
                continue
            bare = QUOTED.sub("", text)
            if delimiter is None or delimiter not in bare:
                delimiter = next((other for other in (",", "\t") if other in bare), delimiter)
            cells = _cells(text, delimiter)
            if over_row_names(cells):
                return _numbered(path, Look(number, delimiter, cells, len(cells)), _following(lines), choice)
            if any(map(is_number, cells)) and not choice.by_name(cells):
                _warn_of_column_numbers(
                    path, cells, [_cells(_without_comment(row), delimiter) for row in _following(lines)]
                )
                return Look(number - 1, delimiter, None, len(cells))
            names = _cells(COMMENT.split(line.strip("\r\n"), maxsplit=1)[0], delimiter)  # a name may be a#1
            if names[0] == "" and len(names) > 1 and choice.index_col is None:
                raise ContentError(
                    f"{path}: the first column has no name, as when pandas writes row names; pass --index-col 0 to "
                    "keep them as names, or write the file with index=False"
                )
            data = next((line for _, line in lines if _without_comment(line).strip()), None)
            return _matched(path, Look(number, delimiter, names, len(names)), data, choice)
    raise ContentError(f"{path} contains no lines of numbers")


def _following(lines: Iterator[tuple[int, str]]) -> list[str]:
    """The next two lines that are not empty."""
    return list(islice((line for _, line in lines if _without_comment(line).strip()), 2))


def over_row_names(cells: list[str]) -> bool:
    """Whether a first line is pandas' header of columns without names, behind that of the row names."""
    return len(cells) > 1 and not is_number(cells[0]) and cells[1:] == [str(k) for k in range(len(cells) - 1)]


def _numbered(path: Path, look: Look, following: list[str], choice: Choice) -> Look:
    """A header of numbers behind the row names; ``--index-col 0`` means these names, not the column called 0."""
    header = look.header or []
    if choice.index_col is None and choice.columns is None:
        raise ContentError(
            f"{path}: the first line numbers the columns after the first, as when pandas writes row names; pass "
            "--index-col 0 to keep them as names, or write the file with index=False"
        )
    whole = any(_whole(_cells(_without_comment(line), look.delimiter)[1:]) for line in following)
    if header[0] and (len(header) == 2 or (len(header) <= 4 and whole)):
        warn_caller(
            f"{path}: the first line, {first_few(header, 4)}, is read as the names of the columns; if it is a "
            "point, put a line with names above it",
        )
    matched = _matched(path, look, following[0] if following else None, choice)
    return matched._replace(row_names=matched.row_names or choice.index_col in ("0", header[0]))


def _matched(path: Path, look: Look, data: str | None, choice: Choice) -> Look:
    """The same if the first line of data has as many cells as there are names, or one more, which names the row."""
    header, cells = look.header or [], [] if data is None else _cells(_without_comment(data), look.delimiter)
    if data is None or len(cells) == len(header):
        return look
    if len(cells) == len(header) + 1 and cells[-1]:
        named = data.lstrip().startswith('"') or not is_number(cells[0])
        if choice.index_col == "0" or (choice.index_col is None and named):
            return look._replace(header=["", *header], width=len(cells), row_names=True)
    if ";" in QUOTED.sub("", data):
        raise ContentError(_first_bad_line(path, look, None))
    more = len(cells) == len(header) + 1
    way = "if the first column names the rows, pass --index-col 0; otherwise correct" if more else "correct"
    cut = " before the '#', which begins a comment unless it is in quotes" if "#" in data else ""
    raise ContentError(
        f"{path}: the header has {len(header)} name{'s' * (len(header) != 1)} ({first_few(header, 8)}), but the first "
        f"line of data has {len(cells)} cell{'s' * (len(cells) != 1)}{cut}; {way} the {'line' if cut else 'header'}"
    )


def _without_comment(line: str) -> str:
    """A line up to the first # that is not in quotes."""
    text = line.strip("\r\n")
    if "#" not in text:
        return text
    found = BEFORE_COMMENT.match(text)
    return text if found is None else found[0]


def _cells(text: str, delimiter: str | None) -> list[str]:
    """The cells of a line; those in quotes may hold what separates others."""
    if delimiter is None:
        return [cell.strip('"') for cell in BLANKS.findall(text)]
    return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter, skipinitialspace=True))]


def _warn_of_column_numbers(path: Path, cells: list[str], following: list[list[str]]) -> None:
    """Warn of a point that may be a header: the numbers from 0, or different whole ones (years) above others."""
    first = cells if is_number(cells[0]) else cells[1:]
    numbered = len(cells) > 1 and cells == [str(k) for k in range(len(cells))]
    named = len(first) > 1 and _whole(first) and len(set(first)) == len(first)
    rows = [row[-len(first) :] for row in following]
    broken = bool(rows) and all(all(map(is_number, row)) and not _whole(row) for row in rows)
    if numbered or (named and broken):
        warn_caller(
            f"{path}: the first line, {first_few(cells, 4)}, is read as a point; if it "
            f"{'numbers' if numbered else 'names'} the columns, delete it",
        )


def _whole(cells: list[str]) -> bool:
    return all(cell.isdecimal() for cell in cells)


def _first_bad_line(path: Path, look: Look, used: list[int] | None) -> str | None:
    """What is wrong with the first bad line; lines are counted as in an editor."""
    width = 0
    with _open(path) as file:
        data = islice(enumerate(file, 1), look.skip, None)
        words = _of_words(
            path, look, used, [_cells(_without_comment(line), look.delimiter) for line in _following(data)]
        )
    if words is not None:
        return words
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            text = _without_comment(line)
            if number <= look.skip or not text.strip():
                continue
            cells = _cells(text, look.delimiter)
            width = width or len(cells)
            if len(cells) != width:
                return f"{path}, line {number}: {len(cells)} cells, but {width} in the lines above; correct it"
            for column, cell in enumerate(cells, 1):
                if not is_number(cell) and (used is None or column - 1 in used):
                    what = f"{cell[:40]!r} is not a number" if cell else "the cell is empty"
                    hint = "; separate cells with commas" if ";" in cell else _hint(cells, column)
                    return f"{path}, line {number}, column {column}: {what}{hint}"
    return None


def _hint(cells: list[str], column: int) -> str:
    if column == 1 and len(cells) > 1 and cells[0] and all(map(is_number, cells[1:])):
        return "; if the first column holds names, pass --index-col 0"
    return "; correct it or remove the row"


def _of_words(path: Path, look: Look, used: list[int] | None, rows: list[list[str]]) -> str | None:
    """Which columns hold words in the first two lines of data, and what to do about each; None if there are none."""
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):
        return None
    wanted = range(len(rows[0])) if used is None else used
    words = [k for k in wanted if k < len(rows[0]) and all(map(_is_word, (row[k] for row in rows)))]
    header = look.header or []
    parts: list[str] = []
    for k in words[:3]:
        name = header[k] if k < len(header) and header.count(header[k]) == 1 else ""
        way = "leave it out with --columns" + ("" if name else ", which counts from 0")
        if k == 0 and used is None and len(rows[0]) > 1:
            way = f"pass --index-col {shlex.quote(name or '0')} to keep them as names"
        which = "Column" if parts else "column"  # of the next sentence
        parts.append(f"{which} {repr(name) if name else k + 1} holds words such as {rows[0][k][:40]!r}; {way}")
    more = [f"So do {len(words) - 3} more"] if len(words) > 3 else []
    return f"{path}: {'. '.join(parts + more)}" if parts else None


def _is_word(cell: str) -> bool:
    return not is_number(cell) and ";" not in cell and cell.lower() not in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell is a number, and not only in Python, as 1_000 is."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
