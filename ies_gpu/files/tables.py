"""Points from tables with named columns: Parquet, Feather and FITS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import one_line
from .chosen import Choice, ContentError, PointFile, from_columns, needs


def read_arrow(path: Path, choice: Choice) -> PointFile:
    """A Parquet or Feather file; an index that pandas wrote becomes the row names, its levels joined by commas."""
    table = arrow_table(path)
    marks = [name for name in index_columns(table.schema) if name != choice.index_col]
    columns = {name: _column(table.column(name)) for name in table.column_names if name not in marks}
    index = None
    if marks and choice.index_col is None:
        levels = (table.column(name).to_pylist() for name in marks)
        index = [", ".join(map(str, labels)) for labels in zip(*levels, strict=True)]
    return from_columns(path, columns, choice, index)


def arrow_table(path: Path) -> Any:
    """The table in a Parquet or Feather file."""
    try:
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise needs(path, "pyarrow", "files") from None
    read = pyarrow.parquet.read_table if path.suffix.lower() == ".parquet" else pyarrow.feather.read_table
    try:
        return read(path, memory_map=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise ContentError(f"{path} is damaged, or not a {path.suffix} file: {one_line(error)}") from None


def index_columns(schema: Any) -> list[str]:
    """The columns in which pandas keeps the index of a frame, one per level."""
    about = schema.pandas_metadata or {}
    return [name for name in about.get("index_columns", ()) if isinstance(name, str) and name in schema.names]


def _column(column: Any) -> np.ndarray:
    """A column of numbers with NaN for nulls; of anything else, as texts."""
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return np.array([str(value) for value in column.to_pylist()], dtype=str)


def read_fits(path: Path, choice: Choice) -> PointFile:
    """A FITS file: its first table, or an image with two axes; ``key`` names another extension."""
    data = fits_data(path, choice.key)
    return from_columns(path, data, choice) if isinstance(data, dict) else PointFile(data)


def fits_data(path: Path, key: str | None = None) -> dict[str, np.ndarray] | np.ndarray:
    """The columns of the first table of a FITS file or, if it has none, its first image; ``key`` names another part."""
    try:
        from astropy.io import fits
    except ImportError:
        raise needs(path, "astropy", "astro") from None
    try:
        with fits.open(path, memmap=False) as parts:
            found = {part.name or str(k): part for k, part in enumerate(parts) if part.data is not None}
            if key is not None and key not in found:
                raise ContentError(f"{path} has no extension {key!r} with data; it has {', '.join(found)}")
            tables = [part for part in found.values() if part.data.dtype.names]
            part = found[key] if key is not None else (tables or [*found.values(), None])[0]
            if part is None:
                raise ContentError(f"{path} holds no data")
            if not part.data.dtype.names:
                return np.array(part.data, dtype=np.float64)
            return {name: _known(part.data[name], part.columns[name]) for name in part.data.dtype.names}
    except ContentError:
        raise
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise ContentError(f"{path} is not a FITS file, or damaged: {one_line(error)}") from None


def _known(column: Any, about: Any) -> np.ndarray:
    """Numbers of a column, with NaN for the integer that means "none"."""
    column = native(column)
    if column.dtype.kind not in "iuf" or not isinstance(about.null, int):
        return column
    none = about.null * float(about.bscale or 1) + float(about.bzero or 0)
    return np.where(column == none, np.nan, column)


def native(column: Any) -> np.ndarray:
    """Numbers in this machine's order of bytes; FITS has the other."""
    column = np.asarray(column)
    return column.astype(column.dtype.newbyteorder("=")) if column.dtype.kind in "iuf" else column
