"""``ies-gpu report``: an interactive report on a result, for a browser."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .console import Console, address, file_name, listed
from .parser import add_command, add_reading, add_talk, check_different, check_file, chosen_of
from .plot import read_colors


def add(commands: Any) -> None:
    about = "write an interactive report on a result, a page for your browser"
    example = "ies-gpu report run.npz --points points.npy --color columns.csv -o report.html"
    report = add_command(commands, "report", run, about, example)
    option = report.add_argument
    option("run_file", metavar="RUN.NPZ", help="file that 'ies-gpu fit -o' wrote")
    option("-o", "--output", metavar="REPORT.HTML", help="the page (RUN.HTML)")
    about = "the points of the run; adds a view of the input, and the graph to --diagnose"
    option("--points", metavar="POINTS", help=about)
    option("--color", metavar="TABLE.CSV", help="what to colour the points by: a table with a row for each")
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
    from ..files.points import read_points
    from ..report.page import write_report
    from ..results.same_points import used_points
    from ..results.selection import Selection
    from ..results.storage import load_as

    selection = load_as(Selection, args.run_file)
    other = load_as(Selection, args.compare) if args.compare else None
    names = (file_name(args.run_file), file_name(args.compare or ""))
    points = read_points(args.points, **chosen_of(args)) if args.points else None
    if points is not None:
        used_points(selection, points, "--points")  # or raise
    colors = read_colors(args.color, selection) if args.color else None
    judged: dict[str, Any] = {}
    if args.diagnose:
        from ..analysis.diagnose import diagnose

        console.progress("diagnosis", 0, 0)
        judged["diagnosis"] = diagnose(selection, X=points)
        console.progress("diagnosis", 1, 1)
    if args.stability:
        from ..analysis.stability import selection_stability

        judged["stability"] = selection_stability(selection, X=points, progress=console.progress)
    title = args.title or " and ".join(filter(None, names))
    write_report(selection, output, points=points, colors=colors, compare=other, title=title, names=names, **judged)
    console.close()
    if not args.quiet:
        listed("report", address(output))
    return 0
