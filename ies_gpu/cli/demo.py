"""``ies-gpu demo``: a long strip, with pictures."""

from __future__ import annotations

import argparse
from typing import Any

from .console import Console
from .options import add_command, add_talk, count, seed
from .output import announce_compiling, say


def add(commands: Any) -> None:
    demo = add_command(commands, "demo", run, "see it work on a long strip, with pictures", "ies-gpu demo -o my-folder")
    demo.add_argument("-o", "--output", metavar="DIR", default="ies-gpu-demo", help="for the pictures (ies-gpu-demo)")
    demo.add_argument("--n", type=count, metavar="N", help="how many points (10,000)")
    demo.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the points (0)")
    add_talk(demo)


def run(args: argparse.Namespace, console: Console) -> int:
    from .story import run_demo as tell

    announce_compiling(console)
    silent = args.quiet
    tell(
        args.output,
        n_samples=args.n,
        random_state=args.seed,
        say=(lambda line: None) if silent else say,
        progress=console.progress,
    )
    return 0
