"""``ies-gpu plot``: a picture of a result that was saved."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from .console import Console, listed
from .parser import add_command, add_talk, check_file

if TYPE_CHECKING:
    from ..results.selection import Selection

KINDS = ("embedding", "path", "volumes")
PANELS = 9  # of one picture


def add(commands: Any) -> None:
    plot = add_command(commands, "plot", run, "draw a result that 'fit' wrote", "ies-gpu plot run.npz -o map.png")
    option = plot.add_argument
    option("run_file", metavar="RUN.NPZ", help="file that 'ies-gpu fit -o' wrote")
    option("-o", "--output", metavar="MAP.PNG", help="a .png, .pdf or .svg file (RUN.PNG)")
    option("--kind", choices=KINDS, default="embedding", help="what to draw (embedding)")
    option("--color", metavar="TABLE.CSV", help="what to colour the points by: a table with a row for each")
    add_talk(plot, progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    output = args.output or os.path.splitext(args.run_file)[0] + ".png"
    check_picture(args.parser, "-o", output)
    if args.color and args.kind != "embedding":
        args.parser.error(f"--color is for --kind embedding, got {args.kind}")
    from ..results.selection import Selection
    from ..results.storage import load_as

    selection = load_as(Selection, args.run_file)
    options = {"colors": for_picture(read_colors(args.color, selection), console)} if args.color else {}
    draw(selection, output, args.kind, **options)
    listed("picture", output)
    return 0


def check_picture(parser: argparse.ArgumentParser, option: str, path: str) -> None:
    """Check before long work that a picture can be drawn and written."""
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


def read_colors(path: str, selection: Selection) -> dict[str, Any]:
    """Read a table's columns in the order of the points: by name if the first column holds theirs, or row by row."""
    from ..files.points import read_columns
    from ..results.same_points import rows_by_name

    colors = read_columns(path)
    rows = rows_by_name(selection, next(iter(colors.values())))
    return colors if rows is None else {name: values[rows] for name, values in colors.items()}


def for_picture(colors: dict[str, Any], console: Console) -> dict[str, Any]:
    """Return as many columns as a picture has room for, without those that name each point."""
    kept = {name: v for name, v in colors.items() if v.dtype.kind != "O" or len(set(v)) < len(v)} or colors
    if len(kept) > PANELS:
        console.note(f"the picture has the first {PANELS} of {len(kept)} columns of --color; a report has all of them")
    return dict(list(kept.items())[:PANELS])
