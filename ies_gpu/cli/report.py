"""``ies-gpu report``: an interactive report on a result, for a browser."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .console import Console, address, file_name, say, with_size
from .parser import add_command, add_reading, add_talk, check_different, check_file, chosen_of
from .plot import add_color, by_name, read_colors


def add(commands: Any) -> None:
    about = "write an interactive report on a result, a page for your browser"
    example = "ies-gpu report run.npz --points points.npy --color columns.csv -o report.html"
    report = add_command(commands, "report", run, about, example)
    option = report.add_argument
    option("run_file", metavar="RUN.NPZ", help="file that 'ies-gpu fit -o' wrote")
    option("-o", "--output", metavar="REPORT.HTML", help="the page (RUN.HTML)")
    about = "the points of the run; adds a view of the input, and the graph to --diagnose"
    option("--points", metavar="POINTS", help=about)
    add_color(option, "--points")
    option("--compare", metavar="RUN.NPZ", help="another result, shown beside the first")
    option("--diagnose", action="store_true", help="look for knots, crossings and dependencies, and mark them")
    option("--stability", action="store_true", help="refit 20 thirds of the points; needs --points")
    option("--title", metavar="TEXT", help="the heading of the page (the name of the file)")
    add_reading(report.add_argument_group("the file of --points").add_argument)
    add_talk(report)


def run(args: argparse.Namespace, console: Console) -> int:
    output = args.output or os.path.splitext(args.run_file)[0] + ".html"
    check_file(args.parser, "-o", output, ".html")
    inputs = {"RUN.NPZ": args.run_file, "--points": args.points, "--color": args.color, "--compare": args.compare}
    for option, path in inputs.items():  # one table may be the points and their colours
        check_different(args.parser, {option: path, "-o": output})
    given = [f"--{name.replace('_', '-')}" for name, value in chosen_of(args).items() if value is not None]
    given += ["--stability"] * args.stability
    if given and args.points is None:
        args.parser.error(f"{' and '.join(given)} {'needs' if len(given) == 1 else 'need'} --points, the file to read")
    from ..report.page import write_report
    from ..results.selection import Selection
    from ..results.storage import load_as

    selection = load_as(Selection, args.run_file)
    other = None if args.compare is None else load_as(Selection, args.compare)
    names = (file_name(args.run_file), file_name(args.compare or ""))
    points = None if args.points is None else points_of_run(args, selection)
    colors = None if args.color is None else by_name(read_colors(args.color, args.points), selection)
    write_report(
        selection,
        output,
        points=points,
        colors=colors,
        compare=other,
        title=args.title or (" and ".join(names) if other else names[0]),
        names=names,
        **judged(args, selection, points, console),
    )
    console.close()
    if not args.quiet:
        say(f"  report          {with_size(address(output), output)}")
    return 0


def points_of_run(args: argparse.Namespace, selection: Any) -> Any:
    """Return the points in the file, with as many columns as the run had."""
    from ..files.points import read_points
    from ..results.same_points import used_points

    points = read_points(args.points, **chosen_of(args))
    width = selection.diagnostics.get("n_features")
    if width is not None and points.shape[1] != width:
        raise ValueError(
            f"--points must have the columns of the run, which used {width}, got {points.shape[1]} from "
            f"{file_name(args.points)}; choose them with --columns and --index-col, or --key, as for 'ies-gpu fit'"
        )
    used_points(selection, points, "--points")
    return points


def judged(args: argparse.Namespace, selection: Any, points: Any, console: Console) -> dict[str, Any]:
    """Return the diagnosis and the stability, where they are asked for."""
    found: dict[str, Any] = {}
    if args.diagnose:
        from ..analysis.diagnose import diagnose

        console.progress("diagnosis", 0, 0)
        found["diagnosis"] = diagnose(selection, X=points)
        console.progress("diagnosis", 1, 1)
    if args.stability:
        from ..analysis.stability import selection_stability

        found["stability"] = selection_stability(selection, X=points, progress=console.progress)
    return found
