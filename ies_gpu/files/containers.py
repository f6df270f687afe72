"""Points from files that hold several arrays: HDF5, AnnData, Zarr and MATLAB. Nothing in them is unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import one_line
from .chosen import Choice, ContentError, PointFile, needs, only_points


def read_hdf5(path: Path, choice: Choice) -> PointFile:
    """A dataset of an HDF5 file."""
    try:
        import h5py
    except ImportError:
        raise needs(path, "h5py", "files") from None
    found: dict[str, tuple[int, ...]] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "buif":
            found[name] = item.shape

    try:
        with h5py.File(path, "r") as file:
            file.visititems(note)
            return PointFile(file[only_points(path, found, choice.key)][()])
    except OSError as error:
        raise ContentError(f"{path} is not an HDF5 file, or is cut short: {error}") from None


def read_h5ad(path: Path, choice: Choice) -> PointFile:
    """Cells of an AnnData file: ``key`` is X or a name in obsm; by default X_pca if there is one, and X otherwise."""
    cells = annotated(path)
    key = choice.key or ("X_pca" if "X_pca" in cells.obsm else "X")
    if key != "X" and key not in cells.obsm:
        raise ContentError(f"{path} has no array {key!r}; it has {', '.join(['X', *cells.obsm])}")
    value = cells.X if key == "X" else cells.obsm[key]
    X = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    return PointFile(X, np.asarray(cells.obs_names, dtype=str), list(cells.var_names) if key == "X" else None)


def annotated(path: Path) -> Any:
    """The AnnData object in a file."""
    try:
        import anndata
    except ImportError:
        raise needs(path, "anndata", "anndata") from None
    try:
        return anndata.read_h5ad(path)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ContentError(f"{path} is not an .h5ad file, or is damaged: {one_line(error)}") from None


def read_zarr(path: Path, choice: Choice) -> PointFile:
    """An array of a Zarr store; arrays of objects, and those whose codecs unpickle, are not looked at."""
    try:
        import zarr
    except ImportError:
        raise needs(path, "zarr", "files") from None
    try:
        store = zarr.open(str(path), mode="r")
    except Exception as error:  # Zarr's own errors are many
        raise ContentError(f"{path} is not a Zarr store, or is damaged: {one_line(error)}") from None
    arrays = {"X": store} if isinstance(store, zarr.Array) else dict(_zarr_arrays(store, ""))
    safe = {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind in "buif" and "pickle" not in str(array.metadata.to_dict()).lower()
    }
    return PointFile(np.asarray(safe[only_points(path, {n: a.shape for n, a in safe.items()}, choice.key)][...]))


def _zarr_arrays(group: Any, prefix: str) -> Any:
    """Every array below a group, by its path."""
    for name, array in group.arrays():
        yield prefix + name, array
    for name, inner in group.groups():
        yield from _zarr_arrays(inner, f"{prefix}{name}/")


def read_mat(path: Path, choice: Choice) -> PointFile:
    """A matrix of a MATLAB file; those of version 7.3 are HDF5, with rows and columns exchanged."""
    from scipy.io import loadmat, whosmat

    try:
        shapes = {
            name: shape for name, shape, kind in whosmat(path) if kind not in ("cell", "struct", "char", "object")
        }
        key = only_points(path, shapes, choice.key)
        return PointFile(np.asarray(loadmat(path, variable_names=[key])[key]))
    except NotImplementedError:
        found = read_hdf5(path, choice)
        return PointFile(np.ascontiguousarray(found.X.T))
    except ContentError:
        raise
    except (ValueError, OSError, TypeError, EOFError, KeyError) as error:
        raise ContentError(f"{path} is not a MATLAB file, or is damaged: {one_line(error)}") from None
