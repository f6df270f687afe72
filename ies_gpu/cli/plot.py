"""``ies-gpu plot``: a picture of a result that was saved."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from .colours import add_color, by_name, for_picture, read_colors
from .console import Console, say
from .options import add_command, add_talk, check_ending

if TYPE_CHECKING:
    from ..results.selection import Selection

KINDS = ("embedding", "path", "volumes")


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
    say(f"  picture         {output}")
    return 0


def check_picture(parser: argparse.ArgumentParser, option: str, path: str | None) -> None:
    """Check before long work that a picture can be drawn and written."""
    check_ending(parser, option, path, ".png", ".pdf", ".svg")
    if path:
        from ..files.writing import check_output
        from ..plot.figure import styled

        with styled():  # Matplotlib is there
            check_output(path, os.path.splitext(path)[1].lower())


def draw(selection: Selection, path: str, kind: str = "embedding", **options: Any) -> None:
    """Write one picture of a result."""
    from .. import plot
    from ..files.writing import whole_or_nothing

    figure = getattr(plot, kind)(selection, **options)
    with whole_or_nothing(path) as file:
        figure.savefig(file, format=os.path.splitext(path)[1][1:].lower(), dpi=150)
