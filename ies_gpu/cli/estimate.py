"""``ies-gpu estimate``: the memory and the rough time that a job will need."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from .console import Console
from .options import add_command, add_talk, count, device, positive, size
from .output import say

if TYPE_CHECKING:
    from ..resources import Estimate


def add(commands: Any) -> None:
    estimate = add_command(
        commands, "estimate", run, "tell the memory and the rough time that a job will need",
        "ies-gpu estimate --n 100000 --dim 3 --degree 170",
    )  # fmt: skip
    option = estimate.add_argument_group("the problem").add_argument
    option("--n", type=count, required=True, metavar="N", help="points")
    option("--dim", type=count, required=True, metavar="D", help="columns of the points")
    option("--degree", type=positive, required=True, metavar="K", help="mean number of neighbours of a point")
    option("-d", "--intrinsic-dim", type=count, default=2, metavar="D", help="dimension of the manifold (2)")
    option("-s", "--subset-size", type=count, metavar="S", help="coordinates to choose (as -d)")
    option("-m", "--n-components", type=count, default=20, metavar="M", help="coordinates to choose from (20)")
    option = estimate.add_argument_group("the machine").add_argument
    option("--device", type=device, default="cpu", metavar="DEV", help="cpu, cuda or cuda:N (cpu)")
    option("--dtype", choices=("float64", "mixed", "float32"), default="float64", help="precision (float64)")
    option("--memory-limit", type=size, metavar="SIZE", help="as for fit, such as 4G (enough)")
    option("--threads", type=count, default=1, metavar="N", help="CPU threads (1)")
    add_talk(estimate, as_json="print it as one JSON object", progress=False)


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
        say(json.dumps(found._asdict() | {"stages": stages}))
    else:
        show(args, found)
    return 0


def show(args: argparse.Namespace, found: Estimate) -> None:
    say(f"{args.n:,} points, {args.dim} columns, {args.degree:g} neighbours each")
    say(f"  {'stage':<16}{'memory':>10}{'time':>10}")
    for stage in found.stages:
        say(f"  {stage.stage:<16}{stage.bytes / 1e9:>7.2f} GB{duration(stage.seconds):>10}")
    say(f"  {'peak':<16}{found.peak_bytes / 1e9:>7.2f} GB{duration(found.seconds):>10}")
    say(f"  ask for         {found.request_bytes / 1e9:.2f} GB, a quarter more")
    if found.device_bytes:
        say(f"  on the GPU      {found.device_bytes / 1e9:.2f} GB, computed and never compared with a run")
    say(f"  checkpoint      {found.checkpoint_bytes / 1e9:.2f} GB of disk")
    if found.tiled:
        say("  kernel          too dense for the memory limit: in tiles, which takes longer")
    say(
        "  not in this     automatic runs: without --bandwidth a scan of at most 10,000 points comes first "
        f"({found.scan_bytes / 1e9:.2f} GB on the CPU; a minute or so), and the neighbours are as many as it finds"
    )
    say("                  the time of searches other than exhaustive")
    if found.seconds is not None:
        say("  time            rough, to a factor of five or so; a first run compiles for half a minute more")


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
