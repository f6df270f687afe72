"""``ies-gpu demo``: the paper's opening example in words and pictures.

A long strip, the obvious map, and the map that recovers it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import Console
from .options import add_command, add_talk, count, seed
from .output import announce_compiling, say
from .report import address

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..results.selection import Selection
    from ..run.log import Progress

FEWEST = 22  # points for 20 eigenvectors


def add(commands: Any) -> None:
    demo = add_command(commands, "demo", run, "see it work on a long strip, with pictures", "ies-gpu demo -o my-folder")
    demo.add_argument("-o", "--output", metavar="DIR", default="ies-gpu-demo", help="output folder (ies-gpu-demo)")
    demo.add_argument("-n", "--n", type=count, metavar="N", help="number of points (10,000)")
    demo.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed of the points (0)")
    add_talk(demo)


def run(args: argparse.Namespace, console: Console) -> int:
    if args.n is not None and args.n < FEWEST:
        args.parser.error(f"-n must be {FEWEST} or more, got {args.n}")
    announce_compiling(console)
    tell = (lambda line: None) if args.quiet else say
    run_demo(args.output, n_samples=args.n, random_state=args.seed, say=tell, progress=console.progress)
    return 0


def run_demo(
    folder: str | os.PathLike[str] = "ies-gpu-demo",
    *,
    n_samples: int | None = None,
    random_state: int = 0,
    say: Callable[[str], None],
    progress: Progress | None = None,
) -> Selection:
    """Generate the strip D1, choose its coordinates, and explain what happened.

    Parameters
    ----------
    folder : path
        For the pictures, the points and ``run.npz``; created if necessary.
    n_samples, random_state
        Number of points and seed of the strip; 10,000 and 0 as shown in the documentation.
    say : callable
        Called with each line of the story.
    progress : callable, optional
        As for ``select_coordinates``.
    """
    from .. import datasets
    from ..files.writing import write_array
    from ..select import select_coordinates

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = datasets.load("D1", n_samples=n_samples, random_state=random_state)
    usual = 10_000
    # fewer points need a wider kernel to have as many neighbours
    bandwidth = float(f"{data.bandwidth * max(1.0, usual / len(data.X)) ** 0.5:.2g}")
    introduce(data, bandwidth, say)
    selection = select_coordinates(
        data.X,
        intrinsic_dim=data.intrinsic_dim,
        subset_size=data.subset_size,
        bandwidth=bandwidth,
        random_state=random_state,
        progress=progress,
    )
    compare(selection, data, say)
    write_array(folder / "points.npy", data.X)
    selection.save(folder / "run.npz")
    draw(selection, data, folder, say)
    colors = {"true x (length)": data.truth[:, 0], "true y (width)": data.truth[:, 1]}
    selection.to_html(folder / "report.html", points=data.X, colors=colors, title="A long strip")
    finish(folder, bandwidth, say)
    return selection


def introduce(data: Dataset, bandwidth: float, say: Callable[[str], None]) -> None:
    """Describe the input."""
    say(f"A strip of {len(data.X):,} noisy points, six times as long (x) as it is wide (y).")
    say("Its diffusion map has coordinates phi1, phi2, ... from slow to fast. Which two")
    say("of the first 20 give a flat map of the strip? The usual answer: the first two.")
    say(f"  select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth={bandwidth:g})")


def compare(selection: Selection, data: Dataset, say: Callable[[str], None]) -> None:
    """The first two coordinates against the chosen ones, in numbers."""
    import numpy as np

    from ..choice.naming import names_text
    from ..parameters.explained import unexplained_variance

    naive, truth = (0, 1), data.truth[selection.points]
    kept = {}
    say("")
    say("                              share of the variance     mean volume")
    say("                              kept of x      kept of y  (0 to 1)")
    for title, chosen in (("naive", naive), ("chosen", selection.subset)):
        part = selection.coordinates[:, list(chosen)]
        x, y = (max(0.0, 1 - unexplained_variance(truth[:, [k]], part)) for k in (0, 1))
        kept[title] = y
        volume = float(np.exp(selection.score(chosen)).mean())
        say(f"  {title + f' {{{names_text(chosen)}}}':<26}  {x:9.1%}      {y:9.1%}       {volume:.3f}")
    say("")
    likeness = abs(float(np.corrcoef(selection.embedding[:, 1], truth[:, 1])[0, 1]))
    for line in verdict(selection.subset, naive, kept["naive"], kept["chosen"], likeness):
        say(line)


def verdict(chosen: tuple[int, ...], naive: tuple[int, ...], lost: float, found: float, likeness: float) -> list[str]:
    """What the numbers mean; each sentence only if it is true.

    Parameters
    ----------
    chosen, naive : tuple of int
    lost, found : float
        Share of the variance of y that the naive and the chosen map keep.
    likeness : float
        Correlation of the second chosen coordinate with y, without its sign.
    """
    from ..choice.naming import coordinate_names, names_text

    names, first = (f"{{{names_text(s)}}}" for s in (chosen, naive))
    if chosen == naive:
        return [f"For this sample the search keeps {first}: the first two pass the test."]
    lines = []
    if lost < 0.5:
        lines += [f"{first} collapses the strip to a curve: phi2 is a function of phi1, and", "the width y is lost."]
    else:
        lines += [f"{first} keeps {lost:.0%} of the width y."]
    if found > 0.8:
        # a product of waves along x and y, as phi8 often is, recovers the strip but is not its width
        width = f"phi1 is its length, {coordinate_names(chosen)[1]} its width."
        lines += [f"{names} recovers the strip: {width if likeness > 0.8 else 'it keeps both x and y.'}"]
    else:
        lines += [f"{names} is chosen; it keeps {found:.0%} of the width y."]
    if chosen != (0, 6):
        lines += [
            "The paper reports {phi1, phi7}. This sample gives another set, because",
            "eigenvalues close to each other swap places from sample to sample.",
        ]
    return lines


def draw(selection: Selection, data: Dataset, folder: Path, say: Callable[[str], None]) -> None:
    """Draw the pictures, if matplotlib is installed."""
    say("")
    say(f"In {folder}:")
    if importlib.util.find_spec("matplotlib") is None:
        say("  (pictures need matplotlib: pip install 'ies-gpu[plot]', then run this again)")
        return
    for name, text, figure in pictures(selection, data):
        figure.savefig(folder / name, dpi=150)
        say(f"  {name:<15} {text}")


def pictures(selection: Selection, data: Dataset) -> list[tuple[str, str, Any]]:
    """File name, what it shows, and the figure."""
    from .. import plot

    naive = (0, 1)
    colors = {"true x (length)": data.truth[:, 0], "true y (width)": data.truth[:, 1]}
    first, found = plot.set_label(naive), plot.set_label(selection.subset)
    sets = [naive] if selection.subset == naive else [naive, selection.subset]
    return [
        ("1-points.png", "the strip", plot.points(data.X, colors=colors, title="The points: a long strip")),
        ("2-naive.png", "the naive map", plot.embedding(
            selection, naive, colors=colors, title=f"Naive: the first two coordinates, {first}")),
        ("3-chosen.png", "the chosen map", plot.embedding(
            selection, colors=colors, title=f"Chosen: {found}")),
        ("4-path.png", "why: path and regret", plot.path(selection)),
        ("5-volumes.png", "why: volumes", plot.volumes(selection, sets)),
    ]  # fmt: skip


def finish(folder: Path, bandwidth: float, say: Callable[[str], None]) -> None:
    """Say where things are, and what to run next."""
    say("  points.npy      the points")
    say(f"  run.npz         the result; to see it: ies-gpu show {shlex.quote(str(folder / 'run.npz'))}")
    say("  report.html     the interactive report, for your browser:")
    say(f"                  {address(folder / 'report.html')}")
    say("")
    say("Next, your own points. If you know the parameters, pass them: it is faster.")
    say("  ies-gpu fit your_points.npy -o run.npz")
    say(f"  ies-gpu fit your_points.npy -d 2 -s 2 --bandwidth {bandwidth:g} -o run.npz")
