"""Your files: points in (.npy, .npz, .csv, .tsv), arrays out, and writing that is complete or not done at all."""

from __future__ import annotations

import contextlib
import os
import re
import time
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import brief, warn_caller
from .remote import check_remote_output, fetched, is_remote, shown, uploaded

TEXT = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".npy", ".npz", *TEXT)
NAMES = ("X", "points", "R")  # which array of an .npz holds the points, if there are several
HEADER = "header.json"  # the first member of what ``storage.save`` writes
SETTLED = 60.0  # seconds after which an unlocked temporary file counts as left behind

# what a damaged file may raise, depending on where it was cut or changed
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, RuntimeError),  # the last where it looks encrypted
    *(EOFError, KeyError, ValueError, OSError, TypeError, AttributeError, OverflowError),
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


def check_path(path: Any) -> str | os.PathLike[str]:
    """A path or URL as text or ``os.PathLike``, that a file system could know."""
    try:
        text = os.fspath(path)
    except Exception:
        text = None
    if not isinstance(text, str):
        raise TypeError(f"path must be the name of a file, as text or pathlib.Path, got {brief(path)}") from None
    if "\0" in text or not text.isprintable() or max(map(len, text.split(os.sep))) > 255 or not text:
        raise ValueError(f"path must be a name that a file can have, got {brief(text)}")
    return path


def check_readable(path: Path) -> None:
    """Check that a file exists and may be read."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file in it")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; check the path (the current folder is {Path.cwd()})")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} cannot be read by this user; change its permissions")


def check_output(path: str | os.PathLike[str], suffix: str) -> Path:
    """Check that a path can be written, before long work, so that its result is not lost at the end."""
    if is_remote(check_path(path)):
        check_remote_output(os.fspath(path), suffix)
        return Path(path)
    path = Path(path)
    if path.suffix.lower() != suffix:
        raise ValueError(f"{path}: the output must be a {suffix} file, e.g. {path.with_suffix(suffix)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not an ordinary file and cannot be replaced")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder {folder} does not exist; create it first (mkdir -p {folder})")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {folder} cannot be written to; choose another output")
    return path


@contextlib.contextmanager
def whole_or_nothing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces ``path`` at the end, in one step or not at all.

    It is written beside ``path``, flushed to disk and renamed, which POSIX and Windows do in one step. Only a process
    that is killed outright leaves a ``.path.*.tmp`` behind, and the next one that writes ``path`` removes it. For a URL
    this happens in a temporary folder, and the file is uploaded at the end.
    """
    if is_remote(path):
        with uploaded(os.fspath(path)) as local, whole_or_nothing(local) as file:
            yield file
        return
    target = os.path.realpath(path)  # replace the file behind a symbolic link, not the link
    folder, name = os.path.split(target)
    name = name[:50]  # a name of 255 bytes is legal but leaves no room for more
    remove_leftovers(folder, name)
    temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            is_ours_alone(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # its lock ends with the file, a moment before the rename
                os.utime(temporary)
        with contextlib.suppress(OSError):  # a file that was there keeps its permissions
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.strerror:
            raise type(error)(error.errno, f"could not be written: {error.strerror}", os.fspath(path)) from None
        raise
    with contextlib.suppress(OSError):  # the rename itself; folders cannot be opened on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: str, name: str) -> None:
    """Delete half-written files for ``name`` that nobody is writing: unlocked, and unchanged for a minute."""
    leftover = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{12}\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if leftover.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False) and time.time() - entry.stat().st_mtime > SETTLED:
                    with open(entry.path, "rb+") as file:
                        if is_ours_alone(file):
                            os.unlink(entry.path)


def is_ours_alone(file: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends, however it ends; False if that cannot be done."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # Windows, and network folders without locks
        return False
    return True


def write_array(path: str | os.PathLike[str], array: Any) -> None:
    """Write one array as ``.npy``, completely or not at all."""
    check_output(path, ".npy")
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"arrays of Python objects cannot be written, got dtype {array.dtype}; convert it to numbers")
    with whole_or_nothing(path) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


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
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGED as error:
        if "object" in str(error).lower():  # NumPy says so of dtypes that need pickle
            raise ValueError(f"{path} contains Python objects, which are not loaded; save numbers instead") from None
        # an array without rows cannot be mapped
        with contextlib.suppress(*DAMAGED):
            return np.load(path, allow_pickle=False)
        raise ValueError(f"{path} is cut short or damaged; save the points again") from None


def _read_npz(path: Path) -> np.ndarray:
    try:
        with zipfile.ZipFile(path) as archive:
            if HEADER in archive.namelist():
                raise ContentError(f"{path} is a result of ies-gpu, not points; view it with 'ies-gpu show {path}'")
            shapes = {name[:-4]: _shape(archive, name) for name in archive.namelist() if name.endswith(".npy")}
        key = _only_points(path, shapes)
        with np.load(path, allow_pickle=False) as arrays:
            return arrays[key]
    except ContentError:
        raise
    except DAMAGED as error:
        if "object" in str(error).lower():
            raise ValueError(f"{path} contains Python objects, which are not loaded; save numbers instead") from None
        raise ValueError(f"{path} is not an .npz file, or is cut short or damaged; save the points again") from None


def read_numbers(path: Path) -> dict[str, np.ndarray]:
    """The arrays of real numbers in an ``.npz`` by name, without texts and objects, which are never unpickled."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: array for name in file.files if (array := _numbers(file, name)) is not None}
    except DAMAGED:
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
