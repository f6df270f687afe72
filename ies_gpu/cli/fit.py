"""``ies-gpu fit``: choose coordinates for points in a file."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import Console
from .options import add_command, add_details, add_machine, add_talk, count, or_auto, positive
from .output import say

if TYPE_CHECKING:
    from ..selection import Selection


def add(commands: Any) -> None:
    fit = add_command(
        commands, "fit", run, "choose coordinates for points in a file",
        "ies-gpu fit points.npy -d 2 -s 2 --bandwidth 0.25 -o run.npz",
    )  # fmt: skip
    fit.add_argument("points", metavar="POINTS", help=".npy, .npz, .csv or .tsv; one row a point")
    main_options = fit.add_argument_group("the problem")
    option = main_options.add_argument
    number, length = or_auto(count), or_auto(positive)
    option("-d", "--intrinsic-dim", type=number, default="auto", metavar="D", help="dimension of the manifold (auto)")
    option("-s", "--subset-size", type=number, default="auto", metavar="S", help="coordinates to choose (auto)")
    option("--bandwidth", type=length, default="auto", metavar="EPS", help="how far neighbours reach (auto)")
    option("-o", "--output", metavar="RUN.NPZ", help="where the result goes")
    option("--model", metavar="MODEL.NPZ", help="where the model goes, for 'ies-gpu transform'")
    add_details(fit.add_argument_group("details").add_argument)
    add_machine(fit.add_argument_group("the machine").add_argument)
    add_talk(fit, as_json="print the result as one JSON object")


def run(args: argparse.Namespace, console: Console) -> int:
    check_numbers(args)
    for option, output in (("-o", args.output), ("--model", args.model)):
        if output and Path(output).suffix.lower() != ".npz":
            args.parser.error(f"{option} must name an .npz file, got {output}")
    if args.output and args.model and os.path.realpath(args.output) == os.path.realpath(args.model):
        args.parser.error(f"-o and --model must name different files, got {args.output} twice")
    from ..export import as_plain
    from ..files import check_output, read_points

    for output in filter(None, (args.output, args.model)):
        check_output(output, ".npz")
    if not args.output:
        console.note("no -o: the result will be shown, not saved")
    begin = time.perf_counter()
    console.progress("read", 0, 0)
    points = read_points(args.points)
    console.progress("read", 1, 1)
    selection = select(points, args, console)
    if args.output:
        from ..storage import save

        save(selection, args.output)
    if args.model:
        from ..model import model_of, save_model

        save_model(model_of(selection, points), args.model)
    console.close()
    if args.json:
        say(json.dumps(as_plain(selection, output=args.output, model=args.model)))
    elif not args.quiet:
        say(repr(selection))
        say(f"  time            {time.perf_counter() - begin:.1f} s")
        for label, output in (("saved", args.output), ("model", args.model)):
            if output:
                say(f"  {label:<16}{output} ({os.path.getsize(output) / 1e6:.1f} MB)")
    return 0


def check_numbers(args: argparse.Namespace) -> None:
    """Numbers that fit together, where they are given."""
    d, s, m = args.intrinsic_dim, args.subset_size, args.n_components
    least = 1 if d == "auto" else d
    if s == "auto" and least > m:
        args.parser.error(f"-d must be at most -m ({m}), got {d}")
    if s != "auto" and not least <= s <= m:
        args.parser.error(f"-s must be at least -d ({least}) and at most -m ({m}), got {s}")
    if args.bandwidth == "auto" and args.radius is not None:
        args.parser.error(f"--radius goes with --bandwidth, got {args.radius:g} without it")


def select(points: Any, args: argparse.Namespace, console: Console) -> Selection:
    """``select_coordinates`` with the options of ``fit``."""
    from ..selection import select_coordinates

    return select_coordinates(
        points,
        intrinsic_dim=args.intrinsic_dim,
        subset_size=args.subset_size,
        bandwidth=args.bandwidth,
        radius=args.radius,
        n_components=args.n_components,
        zeta=args.zeta,
        percentile=args.percentile,
        components=args.components,
        device=args.device,
        dtype=args.dtype,
        memory_limit=args.memory_limit,
        n_threads=args.threads,
        random_state=args.seed,
        tol=args.tol,
        progress=console.progress,
    )
