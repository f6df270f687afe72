"""Which part of a file is wanted, what was found, and arrays in HDF5, AnnData and Zarr, which hold several.

Nothing in them is unpickled or read from elsewhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..findings import Finding

NAMES = ("X", "points", "R")  # which array holds the points, if there are several
WORD = 64  # bytes that a text takes at least


class ContentError(ValueError):
    """A sound file with the wrong content, unlike what a library raises about a damaged one."""

    def __init__(self, code: str, text: str, advice: str = "") -> None:
        self.finding = Finding(f"file.{code}", "error", text, advice)

    def __str__(self) -> str:
        return str(self.finding)

    def renamed(self, old: str, new: str) -> ContentError:
        """Return the error with another name for the file in it."""
        return ContentError(*(part.replace(old, new) for part in self.args))


class PointFile(NamedTuple):
    """Points as they were read, with the names of rows and columns where the file has them."""

    X: np.ndarray
    rows: Any = None
    columns: Sequence[str] | None = None


class Choice(NamedTuple):
    """Which part of a file is wanted: an array by key, or columns of a table by name or by number from 0.

    ``columns`` are the coordinates, and ``index_col`` holds the names of the rows.
    """

    key: str | None = None
    columns: tuple[str, ...] | None = None
    index_col: str | None = None


class Opened(NamedTuple):
    """A part of a file that was opened but not read: the bytes that it says it takes in memory, and how to read it."""

    nbytes: int
    read: Callable[[], Any]


def only_points(path: Path, shapes: dict[str, tuple[int, ...]], key: str | None) -> str:
    """Return the name of the array that was asked for, or of the one that can be the points."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "no arrays of numbers"
    if key is not None:
        if key not in shapes:
            raise ContentError("no_array", f"{path} has no array {key!r}; it has {listed}")
        return key
    if len(shapes) == 1:
        return next(iter(shapes))
    named = [name for name in NAMES if len(shapes.get(name, ())) == 2]
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    for found in (named, flat):
        if len(found) == 1:
            return found[0]
    way = ". Choose one with --key" if flat else ""
    raise ContentError("no_array", f"{path} must contain one array with 2 axes or one called X; it has {listed}{way}")


def needs(path: Path, library: str, extra: str) -> ImportError:
    """Return the error that says what to install to read or write a file."""
    return ImportError(f"{path} needs {library}: pip install 'ies-gpu[{extra}]'")


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file all of whose data lie in it; others could name any file that this user may read."""
    try:
        import h5py
    except ImportError:
        raise needs(path, "h5py", "anndata" if path.suffix.lower() == ".h5ad" else "files") from None
    outside: list[str] = []

    def look(name: str, item: Any) -> None:
        if isinstance(item, h5py.ExternalLink) or (
            isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)
        ):
            outside.append(name)

    with h5py.File(path, "r") as file:
        file.visititems_links(look)  # which follows none of them
        if not outside:
            file.visititems(look)
        if outside:
            text = f"{path}: {outside[0]!r} is kept in another file or is a view of other data, which is not read"
            raise ContentError("elsewhere", text, "save the array itself, e.g. with numpy.save")
        yield file


@contextlib.contextmanager
def hdf5_array(path: Path, choice: Choice) -> Iterator[Opened]:
    """Open a data set of an HDF5 file."""
    with open_hdf5(path) as file:
        found = {name: item for name, item in _datasets(file) if item.dtype.kind in "buif"}
        chosen = found[only_points(path, {name: item.shape for name, item in found.items()}, choice.key)]
        yield Opened(_memory(chosen), lambda: PointFile(chosen[()]))


def _datasets(group: Any) -> list[tuple[str, Any]]:
    """List the data sets below a group, or the one that it is, by name."""
    if hasattr(group, "shape"):
        return [("", group)]
    found: list[tuple[str, Any]] = []
    group.visititems(lambda name, item: found.append((name, item)) if hasattr(item, "shape") else None)
    return found


def _memory(array: Any) -> int:
    """Return the bytes that an array of HDF5 or Zarr says it has, or one chunk of it if that is more."""
    most = max(math.prod(array.shape or ()), math.prod(array.chunks or ()))
    return most * (WORD if array.dtype.kind in "OSUT" else array.dtype.itemsize)


@contextlib.contextmanager
def cells(path: Path, choice: Choice) -> Iterator[Opened]:
    """Open cells of an AnnData file: ``key`` is X or a name in obsm; X_pca if there is one, and X otherwise."""
    with open_hdf5(path) as file:
        obsm = list(file["obsm"]) if "obsm" in file else []
        key = choice.key or ("X_pca" if "X_pca" in obsm else "X")
        if key not in obsm and (key != "X" or "X" not in file):
            there = ", ".join(["X"] * ("X" in file) + obsm)
            raise ContentError("no_array", f"{path} has no array {key!r}; it has {there}")
        value = file["X"] if key == "X" else file["obsm"][key]

        def read() -> PointFile:
            X = read_element(path, value)
            X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
            columns = [str(name) for name in read_element(path, file["var"]).index] if key == "X" else None
            return PointFile(X, [str(name) for name in read_element(path, file["obs"]).index], columns)

        yield Opened(sum(map(element_memory, (value, file["obs"], file["var"]))), read)


def read_element(path: Path, element: Any) -> Any:
    """Read one element of an AnnData file."""
    try:
        from anndata.io import read_elem
    except ImportError:
        raise needs(path, "anndata", "anndata") from None
    return read_elem(element)


def element_memory(element: Any) -> int:
    """Return the bytes that an element of an AnnData file says it has; a sparse matrix is made dense."""
    shape = element.attrs.get("shape", element.attrs.get("h5sparse_shape", ()))
    dense = 8 * math.prod(int(size) for size in shape)
    return dense + sum(_memory(item) for _, item in _datasets(element))


@contextlib.contextmanager
def zarr_array(path: Path, choice: Choice) -> Iterator[Opened]:
    """Open an array of a Zarr store, by key if there are several."""
    arrays = open_zarr(path)
    chosen = arrays[only_points(path, {name: array.shape for name, array in arrays.items()}, choice.key)]
    yield Opened(_memory(chosen), lambda: PointFile(np.asarray(chosen[...])))


def open_zarr(path: Path) -> dict[str, Any]:
    """Return the arrays of numbers in a Zarr store by path, without those whose codecs unpickle; X if it is one."""
    try:
        import zarr
    except ImportError:
        raise needs(path, "zarr", "files") from None
    store = zarr.open(str(path), mode="r")
    arrays = {"X": store} if isinstance(store, zarr.Array) else dict(_zarr_arrays(store, ""))
    return {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind in "buif" and "pickle" not in str(array.metadata.to_dict()).lower()
    }


def _zarr_arrays(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield every array below a group, with its path."""
    for name, array in group.arrays():
        yield prefix + name, array
    for name, inner in group.groups():
        yield from _zarr_arrays(inner, f"{prefix}{name}/")
