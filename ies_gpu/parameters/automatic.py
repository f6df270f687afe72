"""The automatic choice of bandwidth, intrinsic dimension and number of coordinates, step by step."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..choice.search import SearchResult
from ..errors import DisconnectedGraphError
from ..run.inputs import Prepared
from ..run.log import Run, Stages
from .bandwidth import Distances, degree_bandwidth, sampled_distances
from .dimension import SAMPLE_SIZE, DimensionEstimate, local_pca_dimension, sample_rows
from .scan import FACTORS, SHARE, Held, Scan, Settings, Trial, largest_size, scan, trial
from .verdict import describe, is_auto

CARRIED = (1.03, 0.0005)  # what may be left more than the best does, as a factor and of the variance of X


class Stage(NamedTuple):
    """What select_coordinates needs to make its result."""

    work: Prepared
    bases: Any
    sigma: Any
    found: SearchResult


class Calibrated(NamedTuple):
    """The chosen set on all points with its parameters, and what led to them as plain values."""

    stage: Stage | None  # None where the stages are still to be run
    bandwidth: float
    intrinsic_dim: int
    subset_size: int
    report: dict[str, Any]


def check_automatic(entry: str, bandwidth: Any, intrinsic_dim: Any, subset_size: Any, radius: Any) -> tuple[Any, bool]:
    """The bandwidth (None where a kernel has it already), and whether anything is to be found from X."""
    if entry in ("kernel", "laplacian") and is_auto(bandwidth):
        bandwidth = None
    asked = {"bandwidth": bandwidth, "intrinsic_dim": intrinsic_dim, "subset_size": subset_size}
    missing = [name for name, value in asked.items() if is_auto(value)]
    if missing and entry != "X":
        raise ValueError(f"{missing[0]} is needed with {entry}: 'auto' looks at the points, X")
    if is_auto(bandwidth) and radius is not None:
        raise ValueError(f"radius goes with a bandwidth; with bandwidth='auto' it is 3 * bandwidth, got {radius!r}")
    return bandwidth, bool(missing)


def calibrate(
    X: Any,
    bandwidth: Any,
    intrinsic_dim: Any,
    subset_size: Any,
    settings: Settings,
    run: Run,
    *,
    sample_size: int = SAMPLE_SIZE,
) -> Calibrated:
    """Find what is "auto" of bandwidth, intrinsic dimension and subset size, and the set that goes with them.

    Parameters
    ----------
    X : array (n, D)
        Checked points on the device.
    bandwidth, intrinsic_dim, subset_size : number or "auto"
    settings : Settings
    run : Run
    """
    m, seed = settings.n_components, settings.random_state
    rows = sample_rows(len(X), sample_size, seed)
    whole = len(rows) == len(X)
    Z = X if whole else run.backend.retried("dimension", lambda: X[run.backend.asarray(rows)])
    with run.log.stage("dimension"):
        distances, centre, dimension = run.backend.retried("dimension", partial(look, Z, is_auto(intrinsic_dim), seed))
    d = intrinsic_dim if dimension is None else bounded(dimension, subset_size, m, run.log)
    if is_auto(bandwidth):
        look_at = partial(scan, Z, centre, distances=distances, d=d, settings=settings, run=run, strict=whole)
        tried = look_at([centre * factor for factor in FACTORS])
        if tried.is_narrow(settled(tried, d, subset_size, m)):  # the best may lie between
            tried = tried.joined(look_at(tried.between()))
    else:
        own = run._replace(log=Held(run.log), audit={})
        tried = Scan((trial(X, bandwidth, d, settings, own),), {}, bandwidth)
    s = settled(tried, d, subset_size, m)
    chosen = tried.best(s)
    carried = None
    if is_auto(bandwidth) and not whole:
        chosen, carried = carry(X, tried, d, s, settings, run)
    found = chosen.search(s)
    chosen.speak(s, run.log)
    run.audit.update(chosen.run.audit)
    report = describe(tried, dimension, d, s, chosen, carried, (bandwidth, intrinsic_dim, subset_size), len(Z))
    for message in report.pop("doubts"):
        run.log.warn(message)
    stage = Stage(chosen.work, chosen.bases, chosen.sigma, found)
    return Calibrated(stage, chosen.bandwidth, d, s, report)


def settled(tried: Scan, d: int, subset_size: Any, m: int) -> int:
    """The number of coordinates asked for, or the one that the trials settle."""
    return tried.settle(d, largest_size(d, m)) if is_auto(subset_size) else subset_size


def look(Z: Any, dimension: bool, seed: int) -> tuple[Distances, float, DimensionEstimate | None]:
    """Distances from sampled points, the bandwidth with 6 % neighbours, and where wanted the dimension seen there."""
    distances = sampled_distances(Z, random_state=seed)
    centre = degree_bandwidth(distances)
    return distances, centre, local_pca_dimension(Z, distances, centre) if dimension else None


def bounded(dimension: DimensionEstimate, subset_size: Any, m: int, log: Stages) -> int:
    """The estimate, and no more than the coordinates asked for."""
    most = m if is_auto(subset_size) else min(subset_size, m)
    if dimension.value > most:
        log.warn(
            f"the points seem to have {dimension.value} dimensions, but subset_size and n_components leave room for "
            f"{most}; intrinsic_dim={most} is taken. Raise them, or give intrinsic_dim"
        )
    return min(dimension.value, most)


def carry(X: Any, scanned: Scan, d: int, s: int, settings: Settings, run: Run) -> tuple[Trial, dict[str, Any]]:
    """The trial on all n points, at a bandwidth carried over from a scan of N of them.

    Candidates are the scanned bandwidths that leave hardly more unexplained than the best (3 %, or .0005 of the
    variance), the smallest first, since more points cost more. Before them comes the smallest times
    ``(n / N)^(-1/(d+4))``, which keeps bias and variance of a kernel estimate in balance, and one half way, since
    noise in many dimensions keeps points apart however many there are. The first is taken that keeps the graph together
    and whose set explains all points as well, to the same margin, as the best one of the scan explained its own. The
    margin is narrow because noise that nothing explains can be most of what is left.
    """
    best = scanned.best(s)
    least, enough = min(t.fvu(s) for t in scanned.trials), SHARE * best.share
    wanted = max(CARRIED[0] * least, CARRIED[1] + least)
    candidates = sorted(t.bandwidth for t in scanned.trials if t.fvu(s) <= wanted)
    shrunk = candidates[0] * (len(X) / len(best.X)) ** (-1 / (d + 4))
    tried: list[Trial] = []
    failure: DisconnectedGraphError | None = None
    for eps in (shrunk, float(np.sqrt(shrunk * candidates[0])), *candidates):
        own = run._replace(log=Held(run.log), audit={})
        try:
            tried.append(trial(X, eps, d, settings, own))
        except DisconnectedGraphError as error:
            failure = error
            continue
        if tried[-1].fvu(s) <= wanted and tried[-1].share >= enough:
            break
    if not tried:
        assert failure is not None
        raise failure
    chosen = min(tried, key=lambda t: (t.share < enough, t.fvu(s)))
    facts = [
        {"bandwidth": t.bandwidth, "fvu": t.fvu(s), "mean_degree": t.work.mean_degree, "share": t.share} for t in tried
    ]
    holds = chosen.fvu(s) <= wanted and chosen.share >= enough
    return chosen, {"sample_fvu": best.fvu(s), "tried": facts, "holds": holds}
