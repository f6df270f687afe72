"""``ies-gpu data``: the paper's data sets."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from .console import Console, say
from .parser import add_command, add_talk, check_file, count, seed


def add(commands: Any) -> None:
    about = "generate one of the paper's data sets, or list them"
    data = add_command(commands, "data", run, about, "ies-gpu data D1 -o d1.npy")
    data.add_argument("name", metavar="NAME", nargs="?", help="D1 to D13; without it, list them")
    data.add_argument("-o", "--output", metavar="FILE.NPY", help="file for the points (.npy, .csv or .parquet)")
    data.add_argument("-n", "--n", type=count, metavar="N", help="number of points (as in the paper)")
    data.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed (0)")
    add_talk(data, progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    from ..datasets.synthetic import TABLE, load
    from ..files.writing import write_table

    if args.name is None:
        if args.output:
            args.parser.error("which data set? put its NAME before -o")
        say("name  manifold                  points  d  s  bandwidth  the paper chooses", heading=True)
        for name, (title, _, _, bandwidth, d, s, chosen, n) in TABLE.items():
            say(f"{name:<5} {title:<24} {n:>7,}  {d}  {s}  {bandwidth:>9g}  {named(chosen)}")
        say("\nGenerate one with: ies-gpu data D1 -o d1.npy")
        return 0
    name = args.name.upper()
    if name not in TABLE:
        args.parser.error(f"there is no data set {args.name!r}; choose from {', '.join(TABLE)}")
    check_file(args.parser, "-o", args.output)
    output = args.output or f"{name.lower()}.npy"
    if args.output:
        found = load(name, n_samples=args.n, random_state=args.seed)
        write_table(output, found.X, [f"x{k + 1}" for k in range(found.X.shape[1])])
        say(f"{output}: {found.X.shape[0]:,} points with {found.X.shape[1]} columns ({name}, {found.title})")
    _, _, _, bandwidth, d, s, chosen, usual = TABLE[name]
    say(f"the paper chooses {named(chosen)}")
    if args.n and args.n != usual:
        bandwidth = float(f"{bandwidth * (usual / args.n) ** (1 / d):.2g}")
        say(f"bandwidth adapted to the number of points ({usual:,} in the paper) to keep the number of neighbours")
    if not args.output:
        say(f"  ies-gpu data {name} -o {output}")
    run = f"{output.rpartition('.')[0]}-run.npz"  # a URL stays one
    say(f"  ies-gpu fit {shlex.quote(output)} -d {d} -s {s} --bandwidth {bandwidth:g} -o {shlex.quote(run)}")
    return 0


def named(chosen: tuple[int, ...]) -> str:
    """Return the names of coordinates that are counted from 1."""
    return ", ".join(f"phi{k}" for k in chosen)
