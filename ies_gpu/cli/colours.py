"""``--color``: what colours the points, from a file or from columns of the table that holds the points."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..files.remote import shown
from .console import Console
from .options import column_names

PANELS = 9  # of one picture


def add_color(option: Callable[..., Any], table: str) -> None:
    """Add the option; ``table`` is what the command calls the points, or nothing if it does not know them."""
    also = f"; or columns of {table} by name, such as type,age" if table else ""
    about = f"what to colour the points by: a table with one row per point (.csv, .parquet, .h5ad, ...){also}"
    option("--color", metavar="COLUMNS" if table else "COLUMNS.CSV", help=about)


def read_colors(color: str, points: str | None, values: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read the columns of a file, or those of the points that are named; ``values`` are the latter if known."""
    from ..files.points import is_table, read_columns

    if is_table(color) or (os.path.splitext(color)[1] and os.path.isfile(color)):
        return read_columns(color)
    if not values and (points is None or not is_table(points)):
        where = "no table is given" if points is None else f"{shown(points)} has no columns to colour by"
        raise ValueError(
            f"--color {color} would be a column of the points, but {where}; give a table with one row per point "
            "instead, such as a .csv file"
        )
    names = column_names(color)
    if not values:
        return read_columns(str(points), names)
    for name in names:
        if name not in values:
            raise ValueError(f"{shown(str(points))} has no column {name!r}; its columns are {', '.join(values)}")
    return {name: values[name] for name in names}


def check_length(color: str, colors: dict[str, Any], n: int) -> None:
    """Check before long work that there is one row per point."""
    rows = len(next(iter(colors.values())))
    if rows != n:
        raise ValueError(
            f"--color {shown(color)} has {rows:,} rows, but there are {n:,} points; give one row per point"
        )


def for_picture(colors: dict[str, Any] | None, console: Console) -> dict[str, Any] | None:
    """Return as many columns as a picture has room for, without those that name each point."""
    if colors is None:
        return None
    kept = {name: v for name, v in colors.items() if v.dtype.kind != "O" or len(set(v)) < len(v)} or colors
    if len(kept) > PANELS:
        console.note(f"the picture has the first {PANELS} of {len(kept)} columns of --color; a report has all of them")
    return dict(list(kept.items())[:PANELS])


def by_name(colors: dict[str, Any], selection: Any) -> dict[str, Any]:
    """Return columns in the order of the points, if one of them holds their names in another order.

    Numbers may be ranks, which hold the names of rows 1, 2, ... too: they are names in the first column only.
    """
    import numpy as np

    from ..results.same_points import rows_by_name

    for number, labels in enumerate(colors.values()):
        rows = rows_by_name(selection, labels) if number == 0 or labels.dtype.kind == "O" else None
        if rows is not None:
            moved = not np.array_equal(rows, np.arange(len(rows))) and not np.array_equal(rows, selection.points)
            return {name: values[rows] for name, values in colors.items()} if moved else colors
    return colors
