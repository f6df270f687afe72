"""Reading your files: points from .npy, .npz, .csv and .tsv, and arrays of numbers from any .npz."""

from __future__ import annotations

import contextlib
import os
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.cpu import available_memory
from ..errors import warn_caller
from .remote import fetched, is_remote, shown

TEXT = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".npy", ".npz", *TEXT)
NAMES = ("X", "points", "R")  # which array of an .npz holds the points, if there are several
HEADER = "header.json"  # the first member of what ``storage.save`` writes

# what a damaged file may raise, depending on where it was cut or changed
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, RuntimeError),  # the last where it looks encrypted
    *(EOFError, LookupError, ValueError, OSError, TypeError, AttributeError, OverflowError, SyntaxError),
)


class ContentError(ValueError):
    """A sound file with the wrong content, unlike what NumPy raises about a damaged one."""


def read_points(path: str | os.PathLike[str]) -> np.ndarray:
    """Read points from a file; an ``.npy`` file is mapped into memory, not read.

    Parameters
    ----------
    path : str or path-like
        A file or URL: ``.npy``; ``.npz`` with a single array, one called X, points or R, or only one with two axes;
        ``.csv`` or ``.tsv`` with or without a header line.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The points.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the content does not match the name, or is not points; the message names the file and says what to do.
    """
    if is_remote(path):
        check_suffix(shown(os.fspath(path)))  # before it is fetched
        with fetched(os.fspath(path)) as local:
            return read_points(local)
    path = Path(path)
    check_readable(path)
    check_suffix(os.fspath(path))
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; save the points again")
    read = {".npy": _read_npy, ".npz": _read_npz}.get(path.suffix.lower(), _read_text)
    return _checked(path, read(path))


def check_suffix(path: str) -> None:
    """Check that points can be read from this kind of file."""
    suffix = os.path.splitext(path.rpartition("/")[2])[1]
    if suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: points are read from {', '.join(SUFFIXES)} files, not from '{suffix}'")


def check_readable(path: Path) -> None:
    """Check that a file exists and may be read."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file in it")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; check the path (the current folder is {Path.cwd()})")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} cannot be read by this user; change its permissions")


def _checked(path: Path, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "buif":
        raise ValueError(f"{path} has dtype {array.dtype}, not real numbers; convert it, e.g. with astype('float64')")
    if array.ndim != 2:
        raise ValueError(
            f"{path} contains an array of shape {array.shape}, but points need 2 axes, one row per point; reshape it, "
            "e.g. with reshape(len(array), -1)"
        )
    if array.size == 0:
        raise ValueError(f"{path} contains no points: its shape is {array.shape}")
    return array


def _read_npy(path: Path) -> np.ndarray:
    with open(path, "rb") as file:
        start = file.read(6)
    if start[:2] == b"PK":
        raise ValueError(f"{path} is an .npz archive; rename it to {path.with_suffix('.npz').name}")
    if start != b"\x93NUMPY":
        raise ValueError(f"{path} is not an .npy file; save the points with numpy.save")
    try:
        with np.errstate(over="ignore"):  # of a product of lengths that nobody has
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGED as error:
        if "object" in str(error).lower():  # NumPy says so of dtypes that need pickle
            raise ValueError(f"{path} contains Python objects, which are not loaded; save numbers instead") from None
        # an array without rows cannot be mapped; one that says it is longer than its file is not read
        with contextlib.suppress(*DAMAGED, MemoryError):
            return np.load(path, allow_pickle=False)
        raise ValueError(f"{path} is cut short or damaged; save the points again") from None


def _read_npz(path: Path) -> np.ndarray:
    try:
        with zipfile.ZipFile(path) as archive:
            if HEADER in archive.namelist():
                raise ContentError(f"{path} is a result of ies-gpu, not points; view it with 'ies-gpu show {path}'")
            check_unpacked(path, archive)
            shapes = {name[:-4]: _shape(archive, name) for name in archive.namelist() if name.endswith(".npy")}
        key = _only_points(path, shapes)
        with np.load(path, allow_pickle=False) as arrays:
            return arrays[key]
    except ContentError:
        raise
    except (*DAMAGED, MemoryError) as error:  # the latter of an array that says it is longer than its file
        if "object" in str(error).lower():
            raise ValueError(f"{path} contains Python objects, which are not loaded; save numbers instead") from None
        raise ValueError(f"{path} is not an .npz file, or is cut short or damaged; save the points again") from None


def check_unpacked(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive whose arrays would not fit into memory, before any is unpacked: a few bytes can claim much."""
    most, free = max((info.file_size for info in archive.infolist()), default=0), available_memory()
    if most > max(free, 2 * path.stat().st_size):  # what is not compressed takes about what its file takes
        raise ContentError(
            f"{path} holds an array of {most / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free; save the "
            "points as .npy, which need not fit into memory"
        )


def read_numbers(path: Path) -> dict[str, np.ndarray]:
    """The arrays of real numbers in an ``.npz`` by name, without texts and objects, which are never unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, archive)
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: array for name in file.files if (array := _numbers(file, name)) is not None}
    except ContentError:
        raise
    except (*DAMAGED, MemoryError):
        raise ValueError(f"{path} is not an .npz file, or is cut short or damaged; fetch it again") from None


def _numbers(file: Any, name: str) -> np.ndarray | None:
    try:
        array = file[name]
    except ValueError as error:
        if "pickle" in str(error):
            return None
        raise
    return array if isinstance(array, np.ndarray) and array.dtype.kind in "buif" else None


def listed(arrays: dict[str, np.ndarray]) -> str:
    """Names and shapes, for messages."""
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none"


def _shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """The shape of an array, from its first bytes only."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return read(member)[0]


def _only_points(path: Path, shapes: dict[str, tuple[int, ...]]) -> str:
    """The name of the one array that can be the points."""
    if len(shapes) == 1:
        return next(iter(shapes))
    named = [name for name in NAMES if len(shapes.get(name, ())) == 2]
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    for found in (named, flat):
        if len(found) == 1:
            return found[0]
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise ContentError(f"{path} must contain one array with 2 axes or one called X; it has {listed or 'no arrays'}")


def _read_text(path: Path) -> np.ndarray:
    try:
        skip, delimiter = _look(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "input contained no data": said below, with the path
            return np.loadtxt(
                path, delimiter=delimiter, skiprows=skip, ndmin=2, quotechar='"', encoding="utf-8-sig", comments="#"
            )
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason}); write it again as UTF-8") from None
    except ContentError:
        raise
    except ValueError as error:
        raise ValueError(_first_bad_line(path, skip, delimiter) or f"{path}: {error}") from None


def _look(path: Path) -> tuple[int, str]:
    """How many lines to skip (a header and what is above it), and the separator, from the first line of data."""
    delimiter = TEXT[path.suffix.lower()]
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip("\r\n")
            if not text.strip():
                continue
            if delimiter not in text and (other := {",": "\t", "\t": ","}[delimiter]) in text:
                delimiter = other
            cells = [cell.strip().strip('"') for cell in text.split(delimiter)]
            if any(map(_is_number, cells)):
                _warn_of_column_numbers(path, cells)
                return number - 1, delimiter
            if cells[0] == "" and len(cells) > 1:
                raise ContentError(
                    f"{path}: the first column has no name, as when pandas writes row numbers; write the file with "
                    "index=False"
                )
            return number, delimiter
    raise ContentError(f"{path} contains no lines of numbers")


def _warn_of_column_numbers(path: Path, cells: list[str]) -> None:
    if len(cells) > 1 and cells == [str(k) for k in range(len(cells))]:
        warn_caller(
            f"{path}: the first line, {', '.join(cells[:4])}{', ...' if len(cells) > 4 else ''}, is read as a point; "
            "if it numbers the columns, delete it",
        )


def _first_bad_line(path: Path, skip: int, delimiter: str) -> str | None:
    """What is wrong with the first bad line; lines are counted as in an editor."""
    width = 0
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip("\r\n")
            if number <= skip or not text.strip():
                continue
            cells = [cell.strip().strip('"') for cell in text.split(delimiter)]
            width = width or len(cells)
            if len(cells) != width:
                return f"{path}, line {number}: {len(cells)} cells, but {width} in the lines above; correct it"
            for column, cell in enumerate(cells, 1):
                if not _is_number(cell):
                    what = f"{cell[:40]!r} is not a number" if cell else "the cell is empty"
                    hint = "; separate cells with commas" if ";" in cell else "; correct it or remove the row"
                    return f"{path}, line {number}, column {column}: {what}{hint}"
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # 1_000 is a number only in Python
