"""``ies-gpu show``, ``plot``, ``report`` and ``transform``: what a saved result or model is good for."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from ..files.remote import shown
from . import parser
from .console import Console, address, file_name, listed, say, say_json

if TYPE_CHECKING:
    from ..results.selection import Selection

PANELS = 9  # of one picture
RUN_FILE: dict[str, Any] = {"metavar": "RUN.NPZ", "help": "file that 'ies-gpu fit -o' wrote"}
COLOR: dict[str, Any] = {"metavar": "TABLE.CSV", "help": "what to colour the points by: a table with a row for each"}


def add(commands: Any) -> None:
    show = parser.add_command(commands, "show", run_show, "print a saved result", "ies-gpu show run.npz")
    show.add_argument("run_file", **RUN_FILE)
    parser.add_talk(show, as_json="print the result as one JSON object", progress=False)

    plot = parser.add_command(commands, "plot", run_plot, "draw a saved result", "ies-gpu plot run.npz -o map.png")
    option = plot.add_argument
    option("run_file", **RUN_FILE)
    option("-o", "--output", metavar="MAP.PNG", help="a .png, .pdf or .svg file (RUN.PNG)")
    option("--kind", choices=("embedding", "path", "volumes"), default="embedding", help="what to draw (embedding)")
    option("--color", **COLOR)
    parser.add_talk(plot, progress=False)

    about = "write an interactive report on a result, a page for your browser"
    example = "ies-gpu report run.npz --points points.npy --color columns.csv -o report.html"
    report = parser.add_command(commands, "report", run_report, about, example)
    option = report.add_argument
    option("run_file", **RUN_FILE)
    option("-o", "--output", metavar="REPORT.HTML", help="the page (RUN.HTML)")
    option("--points", metavar="POINTS", help="the points of the run, for a view of the input, and for --diagnose")
    option("--color", **COLOR)
    option("--compare", metavar="RUN.NPZ", help="another result, shown beside the first")
    option("--diagnose", action="store_true", help="look for knots, crossings and dependencies, and mark them")
    option("--stability", action="store_true", help="refit 20 thirds of the points; needs --points")
    option("--title", metavar="TEXT", help="the heading of the page (the name of the file)")
    parser.add_reading(report.add_argument_group("the file of --points").add_argument)
    parser.add_talk(report)

    about, example = "place new points in the map of a model", "ies-gpu transform model.npz new.npy -o new_phi.npy"
    transform = parser.add_command(commands, "transform", run_transform, about, example)
    option = transform.add_argument
    option("model", metavar="MODEL.NPZ", help="file that 'ies-gpu fit --model' wrote")
    option("points", metavar="POINTS", help="file with the same columns")
    option("-o", "--output", required=True, metavar="PHI.NPY", help="file for the coordinates (.npy or .csv)")
    option("--isolated", choices=("nan", "nearest"), default="nan", help="value far from the training points (nan)")
    parser.add_reading(transform.add_argument_group("the file").add_argument)
    parser.add_options(transform.add_argument_group("the machine"), "device", "memory_limit", "n_threads")
    parser.add_talk(transform, as_json="print a summary as one JSON object")


def run_show(args: argparse.Namespace, console: Console) -> int:
    from ..choice.criterion import names_text
    from ..results.text import as_plain, best_sets, facts, summary

    selection = load_selection(args.run_file)
    if args.json:
        say_json(as_plain(selection, parser.in_flags))
        return 0
    say(f"{summary(selection, parser.say_in_flags)}\n\nRegularization path, from zeta = inf down")
    say(f"{'zeta from':>11}{'to':>11}{'mean score':>12}{'regret':>9}  set")
    for segment, regret in zip(selection.path, selection.regret_percentiles, strict=True):
        here = "  <- chosen" if segment.subset == selection.subset else ""
        numbers = f"{segment.low:11.4g}{segment.high:11.4g}{segment.score:12.3f}{regret:9.3f}"
        say(f"{numbers}  {names_text(segment.subset)}{here}")
    say(f"\nBest sets at zeta = {selection.zeta:.4g}\n{'loss':>11}{'mean score':>12}  set")
    for subset, loss, score in best_sets(selection):
        say(f"{loss:11.4f}{score:12.4f}  {names_text(subset)}")
    say("")
    known = facts(selection)
    listed("settings", *known.get("settings", []))
    listed("seconds", *(f"{stage} {took:.2f}" for stage, took in selection.diagnostics.get("seconds", {}).items()))
    listed("versions", *known.get("versions", []))
    return 0


def load_selection(path: str) -> Selection:
    from ..results.selection import Selection
    from ..results.storage import load_as

    return load_as(Selection, path)


def run_plot(args: argparse.Namespace, console: Console) -> int:
    output = args.output or os.path.splitext(args.run_file)[0] + ".png"
    check_picture(args.parser, "-o", output)
    if args.color and args.kind != "embedding":
        args.parser.error(f"--color is for --kind embedding, got {args.kind}")
    selection = load_selection(args.run_file)
    options = {"colors": for_picture(read_colors(args.color, selection), console)} if args.color else {}
    draw(selection, output, args.kind, **options)
    listed("picture", output)
    return 0


def check_picture(command: argparse.ArgumentParser, option: str, path: str) -> None:
    """Check before long work that a picture can be drawn and written."""
    parser.check_file(command, option, path, ".png", ".pdf", ".svg")
    from ..plot.style import styled

    with styled():  # Matplotlib is there
        pass


def draw(selection: Selection, path: str, kind: str = "embedding", **options: Any) -> None:
    from .. import plot
    from ..files.writing import whole_or_nothing

    figure = getattr(plot, kind)(selection, **options)
    with whole_or_nothing(path) as file:
        figure.savefig(file, format=os.path.splitext(path)[1][1:].lower(), dpi=150)


def read_colors(path: str, selection: Selection) -> dict[str, Any]:
    """Read a table's columns in the order of the points: by name if the first column holds theirs, or row by row."""
    from ..files.points import read_columns
    from ..results.selection import rows_by_name

    colors = read_columns(path)
    rows = rows_by_name(selection, next(iter(colors.values())))
    return colors if rows is None else {name: values[rows] for name, values in colors.items()}


def for_picture(colors: dict[str, Any], console: Console) -> dict[str, Any]:
    """Return as many columns as a picture has room for, without those that name each point."""
    kept = {name: v for name, v in colors.items() if v.dtype.kind != "O" or len(set(v)) < len(v)} or colors
    if len(kept) > PANELS:
        console.write(f"the picture has the first {PANELS} of {len(kept)} columns of --color; a report has all of them")
    return dict(list(kept.items())[:PANELS])


def run_report(args: argparse.Namespace, console: Console) -> int:
    output = args.output or os.path.splitext(args.run_file)[0] + ".html"
    parser.check_file(args.parser, "-o", output, ".html")
    inputs = {"RUN.NPZ": args.run_file, "--points": args.points, "--color": args.color, "--compare": args.compare}
    for option, path in inputs.items():  # one table may be the points and their colours
        parser.check_different(args.parser, {option: path, "-o": output})
    reading = parser.chosen_of(args)
    given = [f"--{name.replace('_', '-')}" for name, value in reading.items() if value is not None]
    given += ["--stability"] * args.stability
    if given and args.points is None:
        args.parser.error(f"{' and '.join(given)} {'needs' if len(given) == 1 else 'need'} --points, the file to read")
    from ..files.points import read_points
    from ..report.page import write_report
    from ..results.selection import used_points

    selection = load_selection(args.run_file)
    more: dict[str, Any] = {"compare": load_selection(args.compare) if args.compare else None}
    points = more["points"] = read_points(args.points, **reading) if args.points else None
    if points is not None:
        used_points(selection, points, "--points")  # or raise
    more["colors"] = read_colors(args.color, selection) if args.color else None
    if args.diagnose:
        from ..analysis.diagnose import diagnose

        console("diagnosis", 0, 0)
        more["diagnosis"] = diagnose(selection, X=points)
        console("diagnosis", 1, 1)
    if args.stability:
        from ..analysis.stability import selection_stability

        more["stability"] = selection_stability(selection, X=points, progress=console)
    names = (file_name(args.run_file), file_name(args.compare or ""))
    write_report(selection, output, title=args.title or " and ".join(filter(None, names)), names=names, **more)
    console.close()
    if not args.quiet:
        listed("report", address(output))
    return 0


def run_transform(args: argparse.Namespace, console: Console) -> int:
    parser.check_file(args.parser, "-o", args.output)
    parser.check_different(args.parser, {"MODEL.NPZ": args.model, "POINTS": args.points, "-o": args.output})
    from ..files.points import read_table
    from ..files.writing import write_table
    from ..results.model import Model
    from ..results.selection import check_names
    from ..results.storage import load_as

    begin = time.perf_counter()
    model = load_as(Model, args.model)
    points, rows, found_names = read_table(args.points, **parser.chosen_of(args))
    check_names(model.feature_names, found_names, shown(args.points), "choose them in that order with --columns")
    machine = {"device": args.device, "memory_limit": args.memory_limit, "n_threads": args.n_threads}
    found = model.transform(points, isolated=args.isolated, **machine, progress=console)
    write_table(args.output, found, model.names, rows=rows)
    console.close()
    if args.json:
        say_json({"output": shown(args.output), "names": model.names, "n_points": len(found)})
    elif not args.quiet:
        seconds = time.perf_counter() - begin
        say(f"{shown(args.output)}: {len(found):,} points in {', '.join(model.names)} ({seconds:.1f} s)")
    return 0
