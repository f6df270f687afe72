"""Reading files: arrays from .npy, .npz and HDF5, and tables of text.

Nothing is unpickled, and nothing is read from another file.
"""

import contextlib
import csv
import math
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..backend.cpu import available_memory
from ..findings import finding_of, first_few, one_line, refusal, tell, warning
from .remote import check_local, fetched, is_remote, shown

NAMES = ("X", "points", "R")  # which array holds the points, if there are several
CELLS = "obsm/X_pca"  # and in a file of AnnData
POSITIONS = ("R", "coords", "positions")  # of molecules in sGDML and MD17; rMD17; others
XYZ = (".xyz", ".extxyz")
HEADER = "header.json"  # the first member of a result, model or checkpoint
Header = tuple[tuple[int, ...], np.dtype[Any]]  # shape and type of an array
# an .npy file up to here is read: a mapped one that somebody writes to again ends the process (SIGBUS)
READ_BYTES = 256 << 20
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}  # None: blanks
MISSING = {"", "na", "n/a", "nan", "none", "null", "-", "?"}  # what stands for a value that is not known


class PointFile(NamedTuple):
    """Points as they were read, with the names of rows and columns where the file has them."""

    X: np.ndarray
    rows: Any = None
    columns: Sequence[str] | None = None


def read_points(path: str | os.PathLike[str], **choice: Any) -> np.ndarray:
    """Read points, an array of shape (n_samples, n_features), as :func:`read_table` does."""
    return read_table(path, **choice).X


def read_table(
    path: str | os.PathLike[str], *, key: str | None = None, columns: Sequence[str] | None = None,
    index_col: str | None = None,
) -> PointFile:  # fmt: skip
    """Read points, with the names of rows and columns, from a file or a URL.

    Of several arrays ``key`` chooses one; of a table ``columns`` are the coordinates, by name or by number from 0, and
    ``index_col`` holds the names of the rows. A large ``.npy`` file is mapped into memory, not read.
    """
    with _local(path, READERS, "points") as (local, ending):
        options = (key, "--key", KEYED), (columns, "--columns", TABLES), (index_col, "--index-col", TABLES)
        for value, option, kinds in options:
            if value is not None and ending not in kinds:
                raise refusal("file.option", f"{local}: {option} is for {', '.join(kinds)} files")
        if ending in TABLES:
            return Table(local, [*(columns or ()), *filter(None, [index_col])]).points(columns, index_col)
        return PointFile(ARRAYS[ending](local, key))


def read_columns(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the columns of a table by name, as integers, floats or words; empty cells are NaN or None."""
    with _local(path, TABLES, "columns") as (local, _):
        return Table(local).colours()


@contextlib.contextmanager
def _local(path: str | os.PathLike[str], readers: Collection[str], what: str) -> Iterator[tuple[Path, str]]:
    """Give the place of a file on this machine and its ending; check that it can be read."""
    if is_remote(path):
        ending_of(shown(os.fspath(path)), readers, what)  # before it is fetched
        with fetched(os.fspath(path)) as local, _local(local, readers, what) as found:
            yield found
        return
    path = Path(path)
    check_readable(path)
    ending = ending_of(os.fspath(path), readers, what)
    with sound(path):
        yield path, ending


@contextlib.contextmanager
def sound(path: Path) -> Iterator[None]:
    """Raise one error for whatever a library says of a file that is damaged, or something else than its name says."""
    try:
        yield
    except (Warning, MemoryError, ImportError):
        raise
    except Exception as error:
        if finding_of(error) is not None:  # a sound file with the wrong content
            raise
        text = f"{path} is cut short or damaged, or something else ({type(error).__name__}: {one_line(error, 100)})"
        raise refusal("file.damaged", text, "save it again, text as UTF-8") from None


def check_fits(path: Path, nbytes: int) -> None:
    """Refuse, before it is read, what does not fit into memory: a few bytes can claim, or unpack to, much."""
    free = available_memory()
    if nbytes > free:
        text = f"{path} holds an array of {nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free"
        raise refusal("file.memory", text, "save the points as .npy, which need not fit into memory")


def ending_of(path: str, readers: Collection[str], what: str) -> str:
    """Return the ending that says how to read a file, or raise an error that names those that do."""
    ending = os.path.splitext(re.split(r"[/\\]", path)[-1])[1]
    if ending.lower() in readers:
        return ending.lower()
    way = "convert it once, for example with pandas and numpy.save; 'ies-gpu fit' reads trajectories with --topology"
    raise refusal("file.ending", f"{path}: {what} are read from {', '.join(readers)} files, not from '{ending}'", way)


def check_readable(path: Path) -> None:
    check_local(path)
    if not path.exists():
        way = f"check the path (the current folder is {Path.cwd()})"
        raise refusal("file.missing", f"{path} does not exist", way, FileNotFoundError)
    if not path.is_file():  # a device may have no end, a pipe nothing in it for ever
        raise refusal("file.special", f"{path} is a folder, a device or a pipe; give the path of a file")
    if not os.access(path, os.R_OK):
        text = f"{path} cannot be read by this user"
        raise refusal("file.permission", text, "change its permissions", PermissionError)


def check_points(path: Path, shape: tuple[int, ...], dtype: Any) -> None:
    """Check, before it is read, that an array can be points; objects would have to be unpickled."""
    if dtype.kind not in "buif":
        text = f"{path} has dtype {dtype}, not real numbers"
        raise refusal("file.dtype", text, "convert it, e.g. with astype('float64')")
    if len(shape) != 2:
        text = f"{path} contains an array of shape {shape}, but points need 2 axes, one row per point"
        raise refusal("file.shape", text, "reshape it, e.g. with reshape(len(array), -1)")
    if 0 in shape:
        raise refusal("file.empty", f"{path} contains no points: its shape is {shape}")


def only_points(path: Path, shapes: dict[str, tuple[int, ...]], key: str | None) -> str:
    """Return the name of the array that was asked for, or of the one that can be the points."""
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "no arrays of numbers"
    if key is not None and key not in shapes:
        raise refusal("file.no_array", f"{path} has no array {key!r}; it has {listed}")
    for found in ([key] * (key is not None), [*shapes], [name for name in NAMES if name in flat], flat):
        if len(found) == 1:
            return str(found[0])
    way = ". Choose one with --key" if flat else ""
    raise refusal("file.no_array", f"{path} must contain one array with 2 axes or one called X; it has {listed}{way}")


def needs(path: Path, library: str, extra: str) -> ImportError:
    return ImportError(f"{path} needs {library}: pip install 'ies-gpu[{extra}]'")


def read_header_of(file: Any, size: int) -> Header:
    """Read shape and dtype of an array from the header of a file of some size, and nothing behind it."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if min(shape, default=1) < 0 or not (dtype.hasobject or math.prod(shape) * dtype.itemsize <= size):
        raise ValueError(f"an array of shape {shape} is longer than its file")
    return shape, dtype


def read_npy(path: Path, key: str | None) -> np.ndarray:
    """Read an ``.npy`` file, or map it if it is large."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        check_points(path, *read_header_of(file, size))
    small = size <= min(READ_BYTES, available_memory() // 8)
    return np.load(path, mmap_mode=None if small else "r", allow_pickle=False)


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, Header]]]:
    """Open an ``.npz`` file, with the headers of its arrays by name."""
    with sound(path), zipfile.ZipFile(path) as archive:
        headers = {}
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                with archive.open(info) as member:
                    headers[info.filename[:-4]] = read_header_of(member, info.file_size)
        yield archive, headers


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read an array to the end, so that its checksum is compared."""
    with archive.open(info) as member:
        read_header_of(member, info.file_size)  # it must not claim more than there is
    with archive.open(info) as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):
            raise ValueError(f"{info.filename} is longer than its header says")
        return array


def read_npz(path: Path, key: str | None) -> np.ndarray:
    with open_npz(path) as (archive, headers):
        if HEADER in archive.namelist():
            way = "'ies-gpu show' prints results, 'ies-gpu transform' uses models"
            raise refusal("file.result", f"{path} is a result or a model of ies-gpu, not points", way)
        key = only_points(path, {name: shape for name, (shape, _) in headers.items()}, key)
        check_points(path, *headers[key])
        check_fits(path, (member := archive.getinfo(f"{key}.npy")).file_size)
        return read_member(archive, member)


def read_numbers(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of real numbers in an ``.npz`` by name, without texts and objects, which are never unpickled."""
    with open_npz(path) as (archive, headers):
        members = {name: archive.getinfo(f"{name}.npy") for name, (_, dtype) in headers.items() if dtype.kind in "buif"}
        check_fits(path, sum(member.file_size for member in members.values()))
        return {name: read_member(archive, member) for name, member in members.items()}


def holds_molecule(path: str) -> bool:
    """Return whether a file is a molecule: by its ending, or an ``.npz`` with positions (n, atoms, 3) and no points."""
    ending = os.path.splitext(path)[1].lower()
    if ending != ".npz" or not os.path.isfile(path):
        return ending in XYZ
    with contextlib.suppress(ValueError), open_npz(Path(path)) as (_, headers):
        shapes = {name: shape for name, (shape, _) in headers.items()}
        placed = any(shapes.get(name, ())[2:] == (3,) for name in POSITIONS)
        return placed and not any(len(shapes.get(name, ())) == 2 for name in NAMES)
    return False  # the file is not sound, which its reader says


def read_hdf5(path: Path, key: str | None) -> np.ndarray:
    """Read a data set of an HDF5 file; one whose data lie elsewhere could name any file that this user may read."""
    try:
        import h5py
    except ImportError:
        raise needs(path, "h5py", "files") from None
    outside: list[str] = []
    found: dict[str, Any] = {}

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.ExternalLink) or getattr(item, "external", None) or getattr(item, "is_virtual", False):
            outside.append(name)
        elif isinstance(item, h5py.Dataset) and item.dtype.kind in "buif":
            found[name] = item

    with h5py.File(path, "r") as file:
        file.visititems_links(look)  # which follows none of them
        if not outside:
            file.visititems(look)
        if outside:
            text = f"{path}: {outside[0]!r} is kept in another file or is a view of other data, which is not read"
            raise refusal("file.elsewhere", text, "save the array itself, e.g. with numpy.save")
        key = key or (CELLS if CELLS in found else None)
        chosen = found[only_points(path, {name: item.shape for name, item in found.items()}, key)]
        check_points(path, chosen.shape, chosen.dtype)
        count = max(math.prod(chosen.shape), math.prod(chosen.chunks or ()))  # a chunk is unpacked as a whole
        check_fits(path, count * chosen.dtype.itemsize)
        return chosen[()]


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
        bare = re.sub('"[^"]*"', "", start[0])  # what separates cells may stand in those in quotes
        self.delimiter = next((mark for mark in (own, ",", "\t") if mark and mark in bare), own)
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
                        if ";" in cell:
                            way = "separate cells with commas, and write decimal points"
                        text = f"{where}: {cell[:40]!r} is not a number"
                        raise refusal("file.not_a_number", text, f"correct it, or {way}") from None
            raise


def typed(words: list[str]) -> np.ndarray:
    """Return a column as integers, floats or words; what is missing is NaN or None."""
    known = [None if word.lower() in MISSING else word for word in words]
    if not all(word is None or _is_number(word) for word in known):
        return np.array(known, dtype=object)
    with contextlib.suppress(ValueError, OverflowError):  # no integers, missing, or too large for 64 bits
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


HDF5 = (".h5", ".hdf5", ".h5ad")
ARRAYS = {".npy": read_npy, ".npz": read_npz, **dict.fromkeys(HDF5, read_hdf5)}
TABLES = tuple(DELIMITERS)
KEYED = (".npz", *HDF5)
READERS = (*ARRAYS, *TABLES)
