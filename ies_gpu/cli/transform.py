"""``ies-gpu transform``: place new points in the map of a model."""

from __future__ import annotations

import argparse
import time
from typing import Any

from ..files.remote import shown
from .console import Console, say, say_json
from .parser import add_command, add_options, add_reading, add_talk, check_different, check_file, chosen_of


def add(commands: Any) -> None:
    about = "place new points in the map of a model"
    transform = add_command(commands, "transform", run, about, "ies-gpu transform model.npz new.npy -o new_phi.npy")
    option = transform.add_argument
    option("model", metavar="MODEL.NPZ", help="file that 'ies-gpu fit --model' wrote")
    option("points", metavar="POINTS", help="file with the same columns")
    about = "file for the coordinates (.npy or .csv)"
    option("-o", "--output", required=True, metavar="PHI.NPY", help=about)
    about = "value for points far from the training points (nan)"
    option("--isolated", choices=("nan", "nearest"), default="nan", help=about)
    add_reading(transform.add_argument_group("the file").add_argument)
    add_options(transform.add_argument_group("the machine"), "device", "memory_limit", "n_threads")
    add_talk(transform, as_json="print a summary as one JSON object")


def run(args: argparse.Namespace, console: Console) -> int:
    check_file(args.parser, "-o", args.output)
    check_different(args.parser, {"MODEL.NPZ": args.model, "POINTS": args.points, "-o": args.output})
    from ..files.points import read_table
    from ..files.writing import write_table
    from ..results.model import Model
    from ..results.same_points import check_names
    from ..results.storage import load_as

    begin = time.perf_counter()
    model = load_as(Model, args.model)
    points, rows, found_names = read_table(args.points, **chosen_of(args))
    check_names(model.feature_names, found_names, shown(args.points), "choose them in that order with --columns")
    machine = {"device": args.device, "memory_limit": args.memory_limit, "n_threads": args.n_threads}
    found = model.transform(points, isolated=args.isolated, **machine, progress=console.progress)
    write_table(args.output, found, model.names, rows=rows)
    console.close()
    if args.json:
        say_json({"output": shown(args.output), "names": model.names, "n_points": len(found)})
    elif not args.quiet:
        seconds = time.perf_counter() - begin
        say(f"{shown(args.output)}: {len(found):,} points in {', '.join(model.names)} ({seconds:.1f} s)")
    return 0
