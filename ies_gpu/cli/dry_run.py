"""``ies-gpu fit --dry-run``: the memory and the rough time that a job will need, without doing it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from .console import Console
from .output import say, say_json

if TYPE_CHECKING:
    from ..resources import Estimate

LONG = 20.0  # seconds from which a run is announced
TRIALS, TRIED = 7, 10_000  # bandwidths that an automatic run tries, and on how many points
ASSUMED = 600  # neighbours where the bandwidth is not known: the most to aim for


class Job(NamedTuple):
    """What is known of a job before it runs: points, columns, and neighbours if the options decide them."""

    n: int
    columns: int
    degree: float | None

    @property
    def expected_degree(self) -> float:
        return min(ASSUMED, 0.06 * self.n) if self.degree is None else self.degree


def job_of(points: Any, args: argparse.Namespace) -> Job:
    """Count the neighbours on a sample of the points, where the bandwidth is given."""
    import numpy as np
    from scipy.spatial.distance import cdist

    n, columns = points.shape
    if args.n_neighbors is not None:
        return Job(n, columns, min(1.5 * args.n_neighbors, n - 1))  # each point names k, and is named by others
    if isinstance(args.bandwidth, str) or args.metric != "euclidean":
        return Job(n, columns, None)
    rng = np.random.default_rng(0)
    some, others = (np.asarray(points[np.sort(rng.choice(n, min(n, k), replace=False))], float) for k in (50, 4000))
    share = float((cdist(some, others) <= (args.radius or 3 * args.bandwidth)).mean())
    return Job(n, columns, float(np.clip(share * n, 1, n - 1)))


def estimate(job: Job, args: argparse.Namespace, **more: Any) -> Estimate:
    """Return what the job will need by the formulas of ``estimate_resources``; ``more`` replaces what was asked for."""
    from ..backend.cpu import available_threads
    from ..resources import estimate_resources

    d = 2 if args.intrinsic_dim == "auto" else args.intrinsic_dim
    asked = {
        "n": job.n,
        "dim": job.columns,
        "degree": job.expected_degree,
        "intrinsic_dim": d,
        "subset_size": d if args.subset_size == "auto" else args.subset_size,
        "n_components": args.n_components,
        "device": "cpu" if args.device == "auto" else args.device,
        "dtype": args.dtype,
        "memory_limit": args.memory_limit,
        "n_threads": args.n_threads or available_threads(),
    }
    return estimate_resources(**asked | more)


def expected_seconds(job: Job, args: argparse.Namespace, limit: int | None = None) -> float | None:
    """Return the rough time of the whole job within a memory limit, or None where nobody has measured it."""
    if args.n_neighbors is not None or args.bandwidth == "local" or args.metric != "euclidean":
        return None
    if args.device.startswith("cuda") or args.n_components > job.n - 2:
        return None
    if job.degree is not None:
        return estimate(job, args, memory_limit=limit).seconds
    tried = min(job.n, TRIED)
    one = estimate(job, args, n=tried, degree=0.06 * tried, memory_limit=limit).seconds
    return None if one is None else TRIALS * one * max(1.0, job.n / 30_000)


def say_how_long(points: Any, args: argparse.Namespace, console: Console) -> None:
    """Say roughly how long it will take, if that is long; nothing where nobody can tell."""
    expected = expected_seconds(job_of(points, args), args)
    if expected is not None and expected > LONG:
        console.note(f"expect about {duration(expected)}, within a factor of five or so")


def tell_needs(points: Any, args: argparse.Namespace) -> None:
    """Print what the job will need, with the scan for a bandwidth if that must be found."""
    job = job_of(points, args)
    found = estimate(job, args)._replace(seconds=expected_seconds(job, args, args.memory_limit))
    if job.degree is None:
        peak, request = max(found.peak_bytes, found.scan_bytes), max(found.request_bytes, 5 * found.scan_bytes // 4)
        found = found._replace(peak_bytes=peak, request_bytes=request)
    if args.json:
        stages = [stage._asdict() for stage in found.stages]
        about = {"n": job.n, "dim": job.columns, "degree": job.expected_degree, "degree_known": job.degree is not None}
        say_json(about | found._asdict() | {"stages": stages})
        return
    how = "about " if job.degree is not None else "assumed: "
    say(f"{job.n:,} points, {job.columns} columns, {how}{job.expected_degree:.0f} neighbours each", heading=True)
    say(f"  {'stage':<16}{'memory':>10}{'time':>10}")
    if job.degree is None:
        say(f"  {'scan':<16}{found.scan_bytes / 1e9:>7.2f} GB")
    for stage in found.stages:
        say(f"  {stage.stage:<16}{stage.bytes / 1e9:>7.2f} GB{duration(stage.seconds):>10}")
    say(f"  {'all':<16}{found.peak_bytes / 1e9:>7.2f} GB{duration(found.seconds):>10}")
    tell_more(job, args, found)


def tell_more(job: Job, args: argparse.Namespace, found: Estimate) -> None:
    """Print what to request, and what the numbers leave out."""
    say(f"  request         {found.request_bytes / 1e9:.2f} GB, a quarter more")
    if found.device_bytes:
        say(f"  on the GPU      {found.device_bytes / 1e9:.2f} GB, computed; never compared with a real GPU")
    say(f"  checkpoint      {found.checkpoint_bytes / 1e9:.2f} GB of disk")
    if args.memory_limit is not None:
        say(f"  kernel          {found.storage}")
        if found.factor > 1.1:
            say(f"  memory limit    graph and eigenvectors take about {found.factor:.1f} times as long as without it")
    if job.degree is None and isinstance(args.bandwidth, str):
        say(
            f"  neighbours      assumed, because the bandwidth is found in the run, by a scan of at most {TRIED:,} "
            "points; with a number for --bandwidth they are counted"
        )
    elif job.degree is None:
        say(f"  neighbours      assumed, because they are not counted for --metric {args.metric}")
    if args.search != "exhaustive":
        say("  not included    the time of searches other than exhaustive")
    if found.seconds is not None:
        say("  time            rough, within a factor of five or so; the first run also compiles for ten seconds")


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
