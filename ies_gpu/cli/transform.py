"""``ies-gpu transform``: place new points in the map of a model."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from ..files.remote import shown
from .console import Console, say, say_json
from .options import add_command, add_options, add_reading, add_talk, check_different, check_ending, chosen_of


def add(commands: Any) -> None:
    about = "place new points in the map of a model"
    transform = add_command(commands, "transform", run, about, "ies-gpu transform model.npz new.npy -o new_phi.npy")
    option = transform.add_argument
    option("model", metavar="MODEL.NPZ", help="file that 'ies-gpu fit --model' wrote")
    option("points", metavar="POINTS", help="file with the same columns")
    about = "file for the coordinates (.npy, .csv, .parquet or .h5ad)"
    option("-o", "--output", required=True, metavar="PHI.NPY", help=about)
    option("--every", action="store_true", help="write all coordinates, not only the chosen ones")
    about = "value for points far from the training points (nan)"
    option("--isolated", choices=("nan", "nearest"), default="nan", help=about)
    add_reading(transform.add_argument_group("the file").add_argument)
    add_options(transform.add_argument_group("the machine"), "device", "memory_limit", "n_threads")
    add_talk(transform, as_json="print a summary as one JSON object")


def run(args: argparse.Namespace, console: Console) -> int:
    from ..files.writing import WRITTEN, check_table_output, write_table

    check_ending(args.parser, "-o", args.output, *WRITTEN)
    check_different(args.parser, {"MODEL.NPZ": args.model, "POINTS": args.points, "-o": args.output})
    from ..choice.naming import coordinate_names
    from ..files.points import read_table
    from ..results.model import Model
    from ..results.storage import load_as

    check_table_output(args.output)
    begin = time.perf_counter()
    model = load_as(Model, args.model)
    points, rows, found_names = read_table(args.points, **chosen_of(args))
    check_columns(args.points, model.feature_names, found_names)
    columns = range(model.coordinates.shape[1]) if args.every else None
    machine = {"device": args.device, "memory_limit": args.memory_limit, "n_threads": args.n_threads}
    found = model.transform(points, columns=columns, isolated=args.isolated, **machine, progress=console.progress)
    names = model.names if columns is None else coordinate_names(columns)
    write_table(args.output, found, names, rows=rows, obsm="X_ies")
    console.close()
    if args.json:
        say_json({"output": shown(args.output), "names": names, "n_points": len(found)})
    elif not args.quiet:
        say(f"{shown(args.output)}: {len(found):,} points in {', '.join(names)} ({time.perf_counter() - begin:.1f} s)")
    return 0


def check_columns(path: str, wanted: Sequence[str] | None, found: Sequence[str] | None) -> None:
    """Check that the columns are those of the training points in their order, where both files name theirs."""
    from ..files.points import TABULAR
    from ..results.same_points import check_names

    plain = wanted is not None and len(wanted) <= 20 and not any("," in name for name in wanted)
    chosen = plain and shown(path).lower().endswith(TABULAR)
    way = f"pass --columns {','.join(wanted or ())}" if chosen else "write it with the same columns in the same order"
    check_names(wanted, found, shown(path), way)
