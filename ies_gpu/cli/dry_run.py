"""``ies-gpu fit --dry-run``: the memory and the rough time that a job will need, without doing it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from ..findings import in_bytes
from .console import Console, say, say_json

if TYPE_CHECKING:
    from ..resources import Estimate

LONG = 20.0  # seconds from which on a run is announced
QUERIES = 100  # points whose neighbours are counted
ASSUMED = 600  # neighbours where neither bandwidth nor metric tell them: the most to aim for
PERHAPS = 0.25  # of a trial that is needed only where the middle one leaves something visible
AGAIN = 0.15, 0.5  # of a trial on all points at a wide bandwidth: few make one, more where noise rules out narrow ones
NOISY = 12.0  # times the part of a walk that stays where it is: by so much longer such a graph takes
JUDGED = 8e-5, 5e-7  # seconds of one thread for each point, and for each number of it, to compare what trials explain


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


class Work(NamedTuple):
    """One trial of an automatic run: points, neighbours of each, and how many times it is made."""

    n: float
    degree: float
    times: float


def expected_trials(points: Any, self_loops: bool) -> tuple[list[Work], int]:
    """Return the trials that an automatic run will make, by the rules of its scan, and the columns it will work in.

    The last trial is of all points.
    """
    import numpy as np

    from ..backend.array import sample_rows
    from ..embedding.graph import essential_columns
    from ..parameters.automatic import NEARLY_ALL
    from ..parameters.dimension import SAMPLE_SIZE
    from ..parameters.distances import degree_bandwidth, mean_degree, own_shares, sampled_distances
    from ..parameters.scan import FACTORS, THIN_FROM, THINNED, unsuitable
    from ..parameters.trial import FEW

    whole = len(points) <= NEARLY_ALL * SAMPLE_SIZE
    n = len(points) if whole else SAMPLE_SIZE
    Z = np.asarray(points[sample_rows(len(points), n, 0)], float)
    if n < 3 or not np.isfinite(Z).all() or bool((Z[0] == Z).all()):  # the run will refuse them
        return [], Z.shape[1]
    Z = essential_columns(Z)
    distances = sampled_distances(Z, queries=QUERIES)
    centre = degree_bandwidth(distances)
    around = mean_degree(distances, centre)

    def work(factor: float, thin: bool, points: int = n, times: float = 1.0) -> Work:
        degree, staying = mean_degree(distances, factor * centre), own_shares(distances, factor * centre).mean()
        share = min(1.0, max(FEW / n, (around / degree) ** THINNED)) if thin else 1.0
        return Work(share * points, share * points / n * degree, times * (1 + NOISY * float(staying) * n / points))

    def often(factor: float) -> float:
        return PERHAPS if factor > 1 or (factor < 1 and whole) else 1.0

    factors = [factor for factor in FACTORS if not unsuitable(factor * centre, centre, distances, self_loops)]
    trials = [work(factor, factor > 1 and n > THIN_FROM, times=often(factor)) for factor in factors]
    is_noisy = factors[0] >= 1
    trials.append(work(factors[-2 if len(factors) > 1 else -1], thin=False, times=AGAIN[is_noisy]))
    if whole:
        return [*trials, work(1.0, thin=False, times=0.0)], Z.shape[1]
    grown = np.log(mean_degree(distances, 2**0.5 * centre) / max(1.0, mean_degree(distances, centre / 2**0.5)))
    dimension = max(1.0, grown / np.log(2))
    # of the narrowest, which is often enough; among noise a wider one wins
    shrunk = factors[0] * 2 ** (0.25 * is_noisy) * float((len(points) / n) ** (-1 / (dimension + 4)))
    return [*trials, work(shrunk, False, len(points))], Z.shape[1]


def estimate(points: Any, args: argparse.Namespace) -> tuple[dict[str, Any], Estimate]:
    """Return the size of a job, and what it needs with the scan for a bandwidth if that must be found."""
    from ..backend.cpu import available_threads
    from ..choice.faults import SAMPLE
    from ..resources import LOADING, estimate_resources

    n, columns = points.shape
    degree, d = degree_of(points, args), 2 if args.intrinsic_dim == "auto" else args.intrinsic_dim
    threads = args.n_threads or available_threads()
    asked = {"dim": columns, "intrinsic_dim": d, "n_threads": threads}
    asked |= {"subset_size": d if args.subset_size == "auto" else args.subset_size}
    asked |= {"device": "cpu" if args.device == "auto" else args.device}
    asked |= {name: getattr(args, name) for name in ("n_components", "dtype", "memory_limit")}
    is_tried = degree is None and args.metric == "euclidean"
    trials, left = expected_trials(points, args.self_loops) if is_tried else ([], columns)
    assumed = trials[-1].degree if trials else min(ASSUMED, 0.06 * n)
    about = {"n": n, "dim": columns, "degree": degree or assumed, "degree_known": degree is not None}
    found = estimate_resources(n=n, degree=about["degree"], **asked)
    if trials:
        asked["dim"] = left
        each = [estimate_resources(n=round(work.n), degree=work.degree, **asked) for work in trials]
        largest, seconds = max(each, key=lambda one: one.peak_bytes), None
        if found.seconds is not None:
            seconds = LOADING + (JUDGED[0] + JUDGED[1] * left) * min(n, SAMPLE) / threads
            seconds += sum(w.times * ((one.seconds or LOADING) - LOADING) for w, one in zip(trials, each, strict=True))
        most = {name: max(getattr(found, name), getattr(largest, name)) for name in ("peak_bytes", "request_bytes")}
        found = found._replace(stages={"scan": largest.peak_bytes} | found.stages, seconds=seconds, **most)
    if args.n_neighbors is not None or args.bandwidth == "local" or args.metric != "euclidean":
        found = found._replace(seconds=None)  # nobody has measured it
    return about, found


def say_how_long(seconds: float | None, console: Console) -> None:
    """Say roughly how long a run will take, if that is long and can be told."""
    if seconds is not None and seconds > LONG:
        console.write(f"expect about {duration(seconds)}, give or take a factor of two")


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
    took = "unknown" if found.seconds is None else f"{duration(found.seconds)}, within a factor of two"
    say(f"  time            {took}; the first run also compiles")
    if found.factor > 1.1:
        say(f"  memory limit    graph and eigenvectors take about {found.factor:.1f} times as long as without it")


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
