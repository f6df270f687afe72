"""``ies-gpu estimate``: the memory and the rough time that a job will need."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .console import Console
from .options import add_command, add_talk, count, device, positive, size
from .output import say, say_json

if TYPE_CHECKING:
    from ..resources import Estimate


def add(commands: Any) -> None:
    estimate = add_command(
        commands, "estimate", run, "estimate the memory and the rough time that a job will need",
        "ies-gpu estimate --n 100000 --dim 3 --degree 170",
    )  # fmt: skip
    option = estimate.add_argument_group("the problem").add_argument
    option("-n", "--n", type=count, required=True, metavar="N", help="number of points")
    option("--dim", type=count, required=True, metavar="D", help="number of columns")
    option("--degree", type=positive, required=True, metavar="K", help="mean number of neighbours per point")
    option("-d", "--intrinsic-dim", type=count, default=2, metavar="D", help="dimension of the manifold (2)")
    option("-s", "--subset-size", type=count, metavar="S", help="how many coordinates to choose (same as -d)")
    option("-m", "--n-components", type=count, default=20, metavar="M", help="eigenvectors to choose from (20)")
    option = estimate.add_argument_group("the machine").add_argument
    option("--device", type=device, default="cpu", metavar="DEV", help="cpu, cuda or cuda:N (cpu)")
    option("--dtype", choices=("float64", "mixed", "float32"), default="float64", help="precision (float64)")
    option("--memory-limit", type=size, metavar="SIZE", help="as for 'ies-gpu fit', such as 4G (unlimited)")
    option("--threads", type=count, default=1, metavar="N", help="CPU threads (1)")
    add_talk(estimate, as_json="print the estimate as one JSON object", progress=False)


def run(args: argparse.Namespace, console: Console) -> int:
    from ..resources import estimate_resources

    found = estimate_resources(
        n=args.n,
        dim=args.dim,
        degree=args.degree,
        intrinsic_dim=args.intrinsic_dim,
        subset_size=args.subset_size,
        n_components=args.n_components,
        device="cpu" if args.device == "auto" else args.device,
        dtype=args.dtype,
        memory_limit=args.memory_limit,
        n_threads=args.threads,
    )
    if args.json:
        stages = [stage._asdict() for stage in found.stages]
        say_json(found._asdict() | {"stages": stages})
    else:
        show(args, found)
    return 0


def show(args: argparse.Namespace, found: Estimate) -> None:
    say(f"{args.n:,} points, {args.dim} columns, {args.degree:g} neighbours each")
    say(f"  {'stage':<16}{'memory':>10}{'time':>10}")
    for stage in found.stages:
        say(f"  {stage.stage:<16}{stage.bytes / 1e9:>7.2f} GB{duration(stage.seconds):>10}")
    say(f"  {'peak':<16}{found.peak_bytes / 1e9:>7.2f} GB{duration(found.seconds):>10}")
    say(f"  request         {found.request_bytes / 1e9:.2f} GB, a quarter more")
    if found.device_bytes:
        say(f"  on the GPU      {found.device_bytes / 1e9:.2f} GB, computed; never compared with a real GPU")
    say(f"  checkpoint      {found.checkpoint_bytes / 1e9:.2f} GB of disk")
    if args.memory_limit is not None:
        say(f"  kernel          {found.storage}")
        if found.factor > 1.1:
            say(f"  memory limit    graph and eigenvectors take about {found.factor:.1f} times as long as without it")
    say(
        "  not included    automatic parameters: without --bandwidth, a scan of at most 10,000 points comes first "
        f"({found.scan_bytes / 1e9:.2f} GB on the CPU; about a minute) and determines the number of neighbours"
    )
    say("                  the time of searches other than exhaustive")
    if found.seconds is not None:
        say("  time            rough, within a factor of five or so; the first run also compiles for ten seconds")


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return (
        f"{seconds:.1f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )
