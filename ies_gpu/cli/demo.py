"""``ies-gpu demo``: the paper's opening example, a long strip, in words and a report with pictures."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .console import Console, address, announce_compiling, say
from .parser import add_command, add_talk, count

FEWEST = 22  # points for 20 eigenvectors
USUAL = 10_000


def add(commands: Any) -> None:
    demo = add_command(commands, "demo", run, "see it work on a long strip", "ies-gpu demo -o my-folder")
    demo.add_argument("-o", "--output", metavar="DIR", default="ies-gpu-demo", help="output folder (ies-gpu-demo)")
    demo.add_argument("-n", "--n", type=count, metavar="N", default=USUAL, help="number of points (10,000)")
    add_talk(demo)


def run(args: argparse.Namespace, console: Console) -> int:
    if args.n < FEWEST:
        args.parser.error(f"-n must be {FEWEST} or more, got {args.n}")
    announce_compiling(console)
    run_demo(args.output, n_samples=args.n, say=(lambda _: None) if args.quiet else say, progress=console.progress)
    return 0


def run_demo(folder: str | Path, *, say: Callable[[str], None], n_samples: int = USUAL, progress: Any = None) -> Any:
    """Generate the strip D1, choose its coordinates, and explain what happened, line by line, to ``say``."""
    from .. import datasets
    from ..files.writing import write_table
    from ..select import select_coordinates

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = datasets.load("D1", n_samples=n_samples)
    # fewer points need a wider kernel to have as many neighbours
    bandwidth = float(f"{data.bandwidth * max(1.0, USUAL / len(data.X)) ** 0.5:.2g}")
    say(f"A strip of {len(data.X):,} noisy points, six times as long (x) as it is wide (y).")
    say("Its diffusion map has coordinates phi1, phi2, ... from slow to fast. Which two")
    say("of the first 20 give a flat map of the strip? The usual answer: the first two.")
    say(f"  select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth={bandwidth:g})")
    selection = select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=bandwidth, progress=progress)
    say(f"\nThe usual choice: {selection.judgement['needed'].text}.")
    say(f"The search chooses {', '.join(selection.names)}: {selection.judgement['rank'].text}.")
    if selection.subset != (0, 6):
        say("The paper reports phi1, phi7. This sample gives another set, because")
        say("eigenvalues close to each other swap places from sample to sample.")
    write_table(folder / "points.npy", data.X)
    selection.save(folder / "run.npz")
    # the width first, since that is what the leading coordinates lose
    colors = {"true y (width)": data.truth[:, 1], "true x (length)": data.truth[:, 0]}
    say(f"\nIn {folder}:")
    selection.to_html(folder / "report.html", points=data.X, colors=colors, title="A long strip")
    say("  points.npy      the points")
    say(f"  run.npz         the result; to see it: ies-gpu show {shlex.quote(str(folder / 'run.npz'))}")
    say("  report.html     the interactive report, for your browser:")
    say(f"                  {address(folder / 'report.html')}")
    say("\nNext, your own points. If you know the parameters, pass them: it is faster.")
    say("  ies-gpu fit your_points.npy -o run.npz")
    say(f"  ies-gpu fit your_points.npy -d 2 -s 2 --bandwidth {bandwidth:g} -o run.npz")
    return selection
