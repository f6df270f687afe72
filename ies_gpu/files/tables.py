"""Points from tables with named columns: Parquet, Feather and FITS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import one_line
from .chosen import Choice, ContentError, PointFile, from_columns, needs


def read_arrow(path: Path, choice: Choice) -> PointFile:
    """A Parquet or Feather file; an index that pandas wrote becomes the row names, its levels joined by commas."""
    try:
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise needs(path, "pyarrow", "files") from None
    read = pyarrow.parquet.read_table if path.suffix.lower() == ".parquet" else pyarrow.feather.read_table
    try:
        table = read(path, memory_map=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise ContentError(f"{path} is damaged or of another kind: {one_line(error)}") from None
    marks = [name for name in index_columns(table.schema) if name != choice.index_col]
    columns = {name: _column(table.column(name)) for name in table.column_names if name not in marks}
    index = None
    if marks and choice.index_col is None:
        levels = (table.column(name).to_pylist() for name in marks)
        index = [", ".join(map(str, labels)) for labels in zip(*levels, strict=True)]
    return from_columns(path, columns, choice, index)


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
    try:
        from astropy.io import fits
    except ImportError:
        raise needs(path, "astropy", "astro") from None
    try:
        with fits.open(path, memmap=False) as parts:
            found = {part.name or str(k): part for k, part in enumerate(parts) if part.data is not None}
            if choice.key is not None and choice.key not in found:
                raise ContentError(f"{path} has no extension {choice.key!r} with data; it has {', '.join(found)}")
            tables = [part for part in found.values() if part.data.dtype.names]
            part = found[choice.key] if choice.key is not None else (tables or [*found.values(), None])[0]
            if part is None:
                raise ContentError(f"{path} holds no data")
            if not part.data.dtype.names:
                return PointFile(np.array(part.data, dtype=np.float64))
            return from_columns(path, {name: native(part.data[name]) for name in part.data.dtype.names}, choice)
    except ContentError:
        raise
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise ContentError(f"{path} is not a FITS file, or damaged: {one_line(error)}") from None


def native(column: Any) -> np.ndarray:
    """Numbers in this machine's order of bytes; FITS has the other."""
    column = np.asarray(column)
    return column.astype(column.dtype.newbyteorder("=")) if column.dtype.kind in "iuf" else column
