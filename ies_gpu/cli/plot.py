"""``ies-gpu plot``: a picture of a result that was saved, and ``--color``, for the pictures of all commands."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..files.remote import shown
from .console import Console, listed
from .parser import add_command, add_talk, check_file, column_names

if TYPE_CHECKING:
    from ..results.selection import Selection

KINDS = ("embedding", "path", "volumes")
PANELS = 9  # of one picture


def add(commands: Any) -> None:
    plot = add_command(commands, "plot", run, "draw a result that 'fit' wrote", "ies-gpu plot run.npz -o map.png")
    plot.add_argument("run_file", metavar="RUN.NPZ", help="file that 'ies-gpu fit -o' wrote")
    plot.add_argument("-o", "--output", metavar="MAP.PNG", help="a .png, .pdf or .svg file (RUN.PNG)")
    plot.add_argument("--kind", choices=KINDS, default="embedding", help="what to draw (embedding)")
    add_color(plot.add_argument, "")
    add_talk(plot, progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    output = args.output or os.path.splitext(args.run_file)[0] + ".png"
    check_picture(args.parser, "-o", output)
    if args.color and args.kind != "embedding":
        args.parser.error(f"--color is for --kind embedding, got {args.kind}")
    from ..results.selection import Selection
    from ..results.storage import load_as

    selection = load_as(Selection, args.run_file)
    colors = None if args.color is None else by_name(read_colors(args.color, None), selection)
    draw(selection, output, args.kind, **({} if colors is None else {"colors": for_picture(colors, console)}))
    listed("picture", output)
    return 0


def check_picture(parser: argparse.ArgumentParser, option: str, path: str | None) -> None:
    """Check before long work that a picture can be drawn and written."""
    if path:
        check_file(parser, option, path, ".png", ".pdf", ".svg")
        from ..plot.figure import styled

        with styled():  # Matplotlib is there
            pass


def draw(selection: Selection, path: str, kind: str = "embedding", **options: Any) -> None:
    """Write one picture of a result."""
    from .. import plot
    from ..files.writing import whole_or_nothing

    figure = getattr(plot, kind)(selection, **options)
    with whole_or_nothing(path) as file:
        figure.savefig(file, format=os.path.splitext(path)[1][1:].lower(), dpi=150)


# --- what colours the points -----------------------------------------------------------------------------------------


def add_color(option: Callable[..., Any], table: str) -> None:
    """Add the option; ``table`` is what the command calls the points, or nothing if it does not know them."""
    also = f"; or columns of {table} by name, such as type,age" if table else ""
    about = f"what to colour the points by: a table with one row per point (.csv, .tsv or .txt){also}"
    option("--color", metavar="COLUMNS" if table else "COLUMNS.CSV", help=about)


def read_colors(color: str, points: str | None, values: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read the columns of a file, or those of the points that are named; ``values`` are the latter if known."""
    from ..files.points import TABLES, read_columns

    def is_table(path: str) -> bool:
        return os.path.splitext(shown(path))[1].lower() in TABLES

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
    if unknown := [name for name in names if name not in values]:
        raise ValueError(f"{shown(str(points))} has no column {unknown[0]!r}; its columns are {', '.join(values)}")
    return {name: values[name] for name in names}


def for_picture(colors: dict[str, Any] | None, console: Console) -> dict[str, Any] | None:
    """Return as many columns as a picture has room for, without those that name each point."""
    if colors is None:
        return None
    kept = {name: v for name, v in colors.items() if v.dtype.kind != "O" or len(set(v)) < len(v)} or colors
    if len(kept) > PANELS:
        console.note(f"the picture has the first {PANELS} of {len(kept)} columns of --color; a report has all of them")
    return dict(list(kept.items())[:PANELS])


def by_name(colors: dict[str, Any], selection: Any) -> dict[str, Any]:
    """Return columns in the order of the points, if the first of them holds their names."""
    from ..results.same_points import rows_by_name

    rows = rows_by_name(selection, next(iter(colors.values())))
    return colors if rows is None else {name: values[rows] for name, values in colors.items()}
