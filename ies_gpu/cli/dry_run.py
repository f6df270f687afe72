"""``ies-gpu fit --dry-run``: the memory and the rough time that a job will need, without doing it."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import in_bytes
from .console import Console, say, say_json

if TYPE_CHECKING:
    from ..resources import Estimate

LONG = 20.0  # seconds from which on a run is announced
TRIALS, TRIED = 7, 10_000  # bandwidths that an automatic run tries, and on how many points
ASSUMED = 600  # neighbours where the bandwidth is not known: the most to aim for


def degree_of(points: Any, args: argparse.Namespace) -> float | None:
    """Count the neighbours of a point, on a sample; None where the options do not decide them."""
    import numpy as np
    from scipy.spatial.distance import cdist

    n = len(points)
    if args.n_neighbors is not None:
        return min(1.5 * args.n_neighbors, n - 1)  # each point names k, and is named by others
    if isinstance(args.bandwidth, str) or args.metric != "euclidean":
        return None
    rng = np.random.default_rng(0)
    some, others = (np.asarray(points[np.sort(rng.choice(n, min(n, k), replace=False))], float) for k in (50, 4000))
    share = float((cdist(some, others) <= (args.radius or 3 * args.bandwidth)).mean())
    return float(np.clip(share * n, 1, n - 1))


def estimate(points: Any, args: argparse.Namespace) -> tuple[dict[str, Any], Estimate]:
    """Return the size of a job, and what it needs with the scan for a bandwidth if that must be found."""
    from ..backend.machine import available_threads
    from ..resources import estimate_resources

    n, columns = points.shape
    degree, d = degree_of(points, args), 2 if args.intrinsic_dim == "auto" else args.intrinsic_dim
    asked = {
        "dim": columns,
        "intrinsic_dim": d,
        "subset_size": d if args.subset_size == "auto" else args.subset_size,
        "n_components": args.n_components,
        "device": "cpu" if args.device == "auto" else args.device,
        "dtype": args.dtype,
        "memory_limit": args.memory_limit,
        "n_threads": args.n_threads or available_threads(),
    }
    about = {"n": n, "dim": columns, "degree": min(ASSUMED, 0.06 * n) if degree is None else degree}
    found = estimate_resources(n=n, degree=about["degree"], **asked)
    if degree is None:
        tried = min(n, TRIED)
        one = estimate_resources(n=tried, degree=0.06 * tried, **asked)
        found = found._replace(
            stages={"scan": one.peak_bytes} | found.stages,
            seconds=None if one.seconds is None else TRIALS * one.seconds * max(1.0, n / 30_000),
            peak_bytes=max(found.peak_bytes, one.peak_bytes),
            request_bytes=max(found.request_bytes, one.request_bytes),
        )
    if args.n_neighbors is not None or args.bandwidth == "local" or args.metric != "euclidean":
        found = found._replace(seconds=None)  # nobody has measured it
    return about | {"degree_known": degree is not None}, found


def say_how_long(points: Any, args: argparse.Namespace, console: Console) -> None:
    """Say roughly how long a run will take, if that is long and can be told."""
    with suppress(ValueError):  # what does not work is said by the run itself
        seconds = estimate(points, args)[1].seconds
        if seconds is not None and seconds > LONG:
            console.note(f"expect about {duration(seconds)}, within a factor of five or so")


def tell_needs(points: Any, args: argparse.Namespace) -> None:
    """Print what the job will need, what to request, and what the numbers leave out."""
    about, found = estimate(points, args)
    if args.json:
        say_json(about | found._asdict())
        return
    how = "about " if about["degree_known"] else "assumed: "  # if the run finds the bandwidth, or with a metric
    say(f"{about['n']:,} points, {about['dim']} columns, {how}{about['degree']:.0f} neighbours each")
    for stage, most in found.stages.items():
        say(f"  {stage:<16}{in_bytes(most)}")
    say(f"  request         {in_bytes(found.request_bytes)}, a quarter more")
    if found.device_bytes:
        say(f"  on the GPU      {in_bytes(found.device_bytes)}, computed; never compared with a real GPU")
    say(f"  time            {duration(found.seconds)}")
    if found.seconds is not None:
        say("                  with an exhaustive search, within a factor of five; the first run also compiles")
    if found.factor > 1.1:
        say(f"  memory limit    graph and eigenvectors take about {found.factor:.1f} times as long as without it")


def duration(seconds: float | None) -> str:
    """Return a time as people say it."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
