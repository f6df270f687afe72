"""``ies-gpu data``: the paper's data sets."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any

from .console import Console, say
from .parser import add_command, add_talk, check_file, count, seed


def add(commands: Any) -> None:
    about = "generate one of the paper's data sets, or list them"
    data = add_command(commands, "data", run, about, "ies-gpu data D1 -o d1.npy")
    data.add_argument("name", metavar="NAME", nargs="?", help="D1 to D13; without it, list them")
    data.add_argument("-o", "--output", metavar="FILE.NPY", help=".npy or .csv file (d1.npy for D1)")
    data.add_argument("-n", "--n", type=count, metavar="N", help="number of points (as in the paper)")
    data.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed (0)")
    add_talk(data, progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    from ..choice.naming import names_text
    from ..datasets.synthetic import TABLE, load
    from ..files.writing import write_table

    if args.name is None:
        if args.output:
            args.parser.error("which data set? put its NAME before -o")
        say("name  manifold                  points  d  s  bandwidth  the paper chooses")
        for name, (title, _, _, bandwidth, d, s, chosen, n) in TABLE.items():
            say(f"{name:<5} {title:<24} {n:>7,}  {d}  {s}  {bandwidth:>9g}  {names_text(k - 1 for k in chosen)}")
        say("\nGenerate one with: ies-gpu data D1 -o d1.npy")
        return 0
    name = args.name.upper()
    if name not in TABLE:
        args.parser.error(f"there is no data set {args.name!r}; choose from {', '.join(TABLE)}")
    output = args.output or f"{name.lower()}.npy"
    check_file(args.parser, "-o", output)
    if not args.output and os.path.exists(output):
        args.parser.error(f"there is a file {output} already; name another one with -o")
    data, usual = load(name, n_samples=args.n, random_state=args.seed), TABLE[name][-1]
    write_table(output, data.X, [f"x{k + 1}" for k in range(data.X.shape[1])])
    say(f"{output}: {len(data.X):,} points with {data.X.shape[1]} columns ({name}, {data.title})")
    say(f"the paper chooses {names_text(data.reference_subset)}")
    # fewer points need a wider kernel to have as many neighbours
    bandwidth = float(f"{data.bandwidth * (usual / (args.n or usual)) ** (1 / data.intrinsic_dim):.2g}")
    sizes = f"-d {data.intrinsic_dim} -s {data.subset_size} --bandwidth {bandwidth:g}"
    run = f"{output.rpartition('.')[0]}-run.npz"  # a URL stays one
    say(f"  ies-gpu fit {shlex.quote(output)} {sizes} -o {shlex.quote(run)}")
    return 0
