"""Reading your files: which reader takes which, points from .npy and .npz, and arrays of numbers from any .npz."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import tokenize
import traceback
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.cpu import available_memory
from ..errors import one_line
from .chosen import Choice, ContentError, PointFile, only_points
from .containers import read_h5ad, read_hdf5, read_mat, read_zarr
from .remote import fetched, is_remote, shown
from .tables import read_arrow, read_fits
from .text import DELIMITERS, read_text

# an .npy file up to here is read: a mapped one that somebody writes to again ends the process (SIGBUS)
READ_BYTES = 256 << 20
TRAJECTORIES = (".xtc", ".trr", ".dcd", ".nc", ".pdb", ".gro")
HEADER = "header.json"  # the first member of what ``storage.save`` writes

# what a damaged file may raise, depending on where it was cut or changed
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, RuntimeError),  # the last where it looks encrypted
    *(EOFError, LookupError, ValueError, OSError, TypeError, AttributeError, OverflowError, SyntaxError),
)


def read_points(path: str | os.PathLike[str], **choice: Any) -> np.ndarray:
    """Read points from a file; a large ``.npy`` file is mapped into memory, not read.

    Parameters
    ----------
    path : str or path-like
        A file or URL whose ending is in ``READERS``, or "-" for standard input (text, or ``.npy``).
    **choice
        ``key``, ``columns`` and ``index_col``, as in :class:`Choice`.

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
    return read_table(path, **choice).X


def read_table(path: str | os.PathLike[str], **choice: Any) -> PointFile:
    """The same with the names of rows and columns, where there are any."""
    if os.fspath(path) == "-":
        return _read_stdin(choice)
    if is_remote(path):
        ending_of(shown(os.fspath(path)))  # before it is fetched
        with fetched(os.fspath(path)) as local:
            return read_table(local, **choice)
    path = Path(path)
    if not (path.is_dir() and path.suffix.lower() == ".zarr"):  # which is a folder
        check_readable(path)
    ending = ending_of(os.fspath(path))
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; save the points again")
    wanted = Choice(**choice)
    for option, value, kinds in (("--key", wanted.key, KEYED), ("--columns", wanted.columns, TABULAR)):
        if value is not None and ending not in kinds:
            raise ValueError(f"{path}: {option} is for {', '.join(kinds)} files")
    if wanted.index_col is not None and ending not in TABULAR:
        raise ValueError(f"{path}: --index-col is for {', '.join(TABULAR)} files")
    found = _read(path, ending, wanted)
    rows = None if found.rows is None else tuple(map(str, found.rows))
    return PointFile(_checked(path, found.X), rows, None if found.columns is None else tuple(map(str, found.columns)))


def _read(path: Path, ending: str, wanted: Choice) -> PointFile:
    """What the reader of this kind of file finds; whatever a library says of a damaged one, we say that it is."""
    try:
        return READERS[ending](path, wanted)
    except (MemoryError, ImportError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        raised = traceback.extract_tb(error.__traceback__)[-1].filename
        if Path(raised).is_relative_to(Path(__file__).parents[1]):  # a sentence of ours
            raise
        told = f"{type(error).__name__}: {one_line(error, 100)}"
        raise ValueError(f"{path} is cut short or damaged ({told}); save it again") from None


def _read_stdin(choice: dict[str, Any]) -> PointFile:
    """Points that come through a pipe: an ``.npy`` by its first bytes, else text, with commas or without."""
    if sys.stdin is None:
        raise ValueError("standard input is closed, but POINTS is '-'; pipe the points in, or name a file")
    content = sys.stdin.buffer.read()
    if not content:
        raise ValueError("nothing came through standard input; POINTS is '-'")
    with tempfile.TemporaryDirectory() as folder:
        text = ".csv" if b"," in content[:65_536] else ".txt"
        path = Path(folder, "standard-input" + (".npy" if content[:6] == b"\x93NUMPY" else text))
        path.write_bytes(content)
        try:
            found = read_table(path, **choice)
            return found._replace(X=np.array(found.X))  # the file goes away
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "standard input")) from None


def ending_of(path: str) -> str:
    """The ending that says how to read points, or an error."""
    name = path.rpartition("/")[2].lower().rstrip("/")
    found = [ending for ending in READERS if name.endswith(ending)]
    if not found:
        suffix = os.path.splitext(path.rpartition("/")[2])[1]
        way = "; for a trajectory, use 'ies-gpu fit' with --topology" if suffix.lower() in TRAJECTORIES else ""
        raise ValueError(f"{path}: points are read from {', '.join(READERS)} files, not from '{suffix}'{way}")
    return max(found, key=len)


def check_readable(path: Path) -> None:
    """Check that a file exists and may be read."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the path of a file in it")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; check the path (the current folder is {Path.cwd()})")
    if not path.is_file():  # it may have no end, or nothing in it for ever
        raise ValueError(f"{path} is a device or a pipe; give the path of a file, or '-' for points from a pipe")
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


def _read_npy(path: Path, choice: Choice) -> PointFile:
    with open(path, "rb") as file:
        start = file.read(6)
    if start[:2] == b"PK":
        raise ValueError(f"{path} is an .npz archive; rename it to {path.with_suffix('.npz').name}")
    if start != b"\x93NUMPY":
        raise ValueError(f"{path} is not an .npy file; save the points with numpy.save")
    try:
        with np.errstate(over="ignore"):  # of a product of lengths that nobody has
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # which refuses more than the file holds
            return PointFile(np.load(path, allow_pickle=False) if is_small(mapped) else mapped)
    except DAMAGED as error:
        if "object" in str(error).lower():  # NumPy says so of dtypes that need pickle
            raise ValueError(f"{path} contains Python objects, which are not loaded; save numbers instead") from None
        # an array without rows cannot be mapped; one that says it is longer than its file is not read
        with contextlib.suppress(*DAMAGED, MemoryError):
            return PointFile(np.load(path, allow_pickle=False))
        raise ValueError(f"{path} is cut short or damaged; save the points again") from None


def is_small(array: np.ndarray) -> bool:
    """Whether an array is better held in memory than mapped."""
    return array.nbytes <= min(READ_BYTES, available_memory() // 8)


@contextlib.contextmanager
def unchanged(points: Any) -> Iterator[None]:
    """Check at the end that nobody has written to the file behind mapped points; a new file in its place is fine."""
    before = _stamp(points)
    yield
    after = _stamp(points)
    if before is not None and after is not None and before[0] == after[0] and before != after:
        raise ValueError(f"{points.filename} was changed while it was read; run again when it is finished")


def _stamp(points: Any) -> tuple[tuple[int, int], int, int] | None:
    path = getattr(points, "filename", None)
    if not isinstance(points, np.memmap) or path is None or not os.path.exists(path):
        return None
    found = os.stat(path)
    return (found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns


def _read_npz(path: Path, choice: Choice) -> PointFile:
    try:
        with zipfile.ZipFile(path) as archive:
            if HEADER in archive.namelist():
                raise ContentError(
                    f"{path} is a result or a model of ies-gpu, not points; 'ies-gpu show' prints results, 'ies-gpu "
                    "transform' uses models"
                )
            check_unpacked(path, archive)
            shapes = _shapes(archive)
        key = only_points(path, shapes, choice.key)
        with np.load(path, allow_pickle=False) as arrays:
            return PointFile(arrays[key])
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


def npz_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays in an ``.npz`` by name; none if the file is not sound, which its reader says."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _shapes(archive)
    except DAMAGED:
        return {}


def _shapes(archive: zipfile.ZipFile) -> dict[str, tuple[int, ...]]:
    return {name[:-4]: _shape(archive, name) for name in archive.namelist() if name.endswith(".npy")}


def _shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """The shape of an array, from its first bytes only."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return read(member)[0]


READERS = {
    ".npy": _read_npy, ".npz": _read_npz,
    **dict.fromkeys([*DELIMITERS, *(f"{ending}.gz" for ending in DELIMITERS)], read_text),
    ".parquet": read_arrow, ".feather": read_arrow,
    ".h5": read_hdf5, ".hdf5": read_hdf5, ".h5ad": read_h5ad, ".zarr": read_zarr, ".mat": read_mat,
    ".fits": read_fits, ".fits.gz": read_fits,
}  # fmt: skip
KEYED = (".npz", ".h5", ".hdf5", ".h5ad", ".zarr", ".mat", ".fits", ".fits.gz")
TABULAR = tuple(ending for ending, read in READERS.items() if read in (read_text, read_arrow, read_fits))
