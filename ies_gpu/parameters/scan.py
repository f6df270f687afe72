"""Trying bandwidths and sizes, and comparing them by what the chosen sets lose of the worst local direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.steps import report, step
from ..embedding.local import default_neighbors
from ..errors import DisconnectedGraphError
from ..options import LOCAL, Options, is_auto
from ..run.log import HeldLog
from ..run.run import Run
from .bandwidth import Distances, mean_degree, own_shares
from .trial import Estimated, Trial, some_rows, thin_trial, trial

FACTORS = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)  # of the bandwidth with 6% neighbours
STEP = 1.001 * 2**-0.5  # from one of them to the next, and a little: the trials between are nearer
SHARE = 0.98  # a bandwidth whose largest part holds less of the points is not considered
DENSEST = 0.6  # nor one that joins more than this share of all pairs: little shape is left to see
TIE = 1.01  # equally good: the bandwidth nearest to the rule of neighbours is taken
FALL = 0.01  # one more coordinate must explain this much more of the variance, however many points there are
SHEETS = 0.45  # share of points near whose place in the map others lie too: from here on the map has several sheets
LEAST = 12  # neighbours of a point on average: with fewer, coordinates are noise
NARROW = 1.25  # neighbouring bandwidths that lose so many times as much make the choice a narrow one,
UNFOLDED = 0.05  # of a direction that a map without a fold may lose more than one with a fold
VISIBLE = 0.1  # if it is also so much of a direction
SMALL = 0.005  # of the variance of X: what leaves no more cannot be bettered visibly
# where more than the first is lost, one more coordinate pays that leaves less than the second of it
REGAINED = 0.3, 0.6
SIZED = 20_000  # sets that may be scored for a size
CHEAP = 5_000  # points up to which all bandwidths are tried on all, however well the first ones explain
# power of the neighbours at the centre over those of a wider bandwidth, for the share of the points on which that is
# tried; with 1 there would be as many neighbours
THINNED = 1.5
UNEVEN = 10.0  # from here on a bandwidth that follows the density is tried; between two evenly spread corners it is 4
FEW_DIMS = 2  # in more dimensions, few points look uneven by chance
SHARES = (5, 95)  # percentiles of the points, by their density


@dataclass(frozen=True)
class Scan:
    """Trials by rising bandwidth, and why others were left out; or one whose bandwidth follows the density.

    ``rival`` is the other kind, where both were tried and it explains less.
    """

    trials: tuple[Trial, ...]
    left_out: dict[float, str]
    centre: float
    is_local: bool = False
    rival: Scan | None = None

    def best(self, s: int) -> Trial:
        """The trial that loses least, or little more without a fold; of nearly equal ones the nearest to the centre."""
        least = min(t.lost(s) for t in self.trials)
        close = [t for t in self.trials if t.lost(s) <= TIE * least]
        best = min(close, key=lambda t: abs(np.log(t.bandwidth / self.centre)))
        if not best.is_folded(s):
            return best
        others = (t for t in self.trials if t.lost(s) <= max(NARROW * least, UNFOLDED + least) and not t.is_folded(s))
        return min(others, key=lambda t: t.lost(s), default=best)

    def beside(self, s: int) -> float:
        """How many times as much bandwidths a step below and above the best one lose; 0 without any."""
        return max((t.lost(s) for t in self.neighbours(s)), default=0.0) / max(self.best(s).lost(s), 1e-12)

    def neighbours(self, s: int) -> list[Trial]:
        """The trials a step below and above the best one."""
        best = self.best(s)
        below = [t for t in self.trials if t.bandwidth <= STEP * best.bandwidth]
        above = [t for t in self.trials if t.bandwidth >= best.bandwidth / STEP]
        return below[-1:] + above[:1]

    def is_narrow(self, s: int) -> bool:
        """Whether a bandwidth next to the best one is visibly worse."""
        excess = self.beside(s) - 1
        return excess > NARROW - 1 and excess * self.best(s).lost(s) > VISIBLE

    def between(self, s: int) -> list[float]:
        """The bandwidths half way from the best trial to the next ones; of few points, from each trial to the next."""
        best, pairs = self.best(s), list(pairwise(self.trials))
        if len(best.X) > CHEAP:
            pairs = [pair for pair in pairs if best in pair]
        return [float(np.sqrt(a.bandwidth * b.bandwidth)) for a, b in pairs]

    def joined(self, other: Scan) -> Scan:
        """The trials of both."""
        trials = sorted(self.trials + other.trials, key=lambda t: t.bandwidth)
        return Scan(tuple(trials), self.left_out | other.left_out, self.centre)

    def firm(self, full: Trial) -> Scan:
        """The same with a trial on all points in place of the thin one at its bandwidth."""
        return replace(self, trials=tuple(full if t.bandwidth == full.bandwidth else t for t in self.trials))

    def settle(self, s: int, largest: int) -> int:
        """The size from s on after which more coordinates no longer pay, or the largest."""
        while s < largest:
            steps = [step for step in (1, 2) if s + step <= largest and self.pays(s, step)]
            if not steps:
                break
            s += steps[0]
        return s

    def pays(self, s: int, step: int) -> bool:
        """Whether ``step`` more coordinates explain more; two are looked at where one alone may not help, as on tori.

        With few points the gain must also exceed what it cannot tell, unless the map with s has several sheets.
        """
        best = self.best(s)
        if step == 1 and self.regains(s):
            return True
        if step == 2 and best.limit(s).value <= 2 * FALL:
            return False
        gain = self.gain(s, step)
        if gain.value <= step * FALL:
            return False
        return gain.value > step * FALL + gain.resolution or best.overlap(s) > SHEETS

    def regains(self, s: int) -> bool:
        """Whether s coordinates lose a direction, and one more brings most of it back."""
        if s == 1 or self.best(s).lost(s) <= REGAINED[0]:  # of a curve, the ends alone are flat in one coordinate
            return False
        if not can_search(len(self.trials[0].embedding.eigenvalues), s + 1):
            return False
        return self.best(s + 1).lost(s + 1) < REGAINED[1] * self.best(s).lost(s)

    def gain(self, s: int, step: int = 1) -> Estimated:
        """How much more of the variance s + 1 coordinates would explain of infinitely many points.

        Each number is taken at its own best bandwidth: on a noisy torus two coordinates are about equally poor
        everywhere, and three are good at some bandwidths only. Few points alone make more coordinates look better,
        since one that is stretched evenly is easier to interpolate.
        """
        if not can_search(len(self.trials[0].embedding.eigenvalues), s + step):
            return Estimated(0.0, 0.0)
        fewer, more = self.best(s).limit(s), self.best(s + step).limit(s + step)
        return Estimated(fewer.value - more.value, float(np.hypot(fewer.error, more.error)), fewer.resolution)


def can_search(m: int, s: int) -> bool:
    """Whether the sets of s of m coordinates can be enumerated; sizes are compared only where they can."""
    return s <= m and comb(m - 1, s - 1) <= SIZED


def largest_size(d: int, m: int) -> int:
    """Where the search for a size ends: at twice the dimension, three more than it, or what can be enumerated."""
    return max(s for s in range(d, min(2 * d, d + 3, m) + 1) if s == d or can_search(m, s))


@step("scan")
def scan(
    run: Run, X: Array, centre: float, bandwidths: Sequence[float], distances: Distances, d: int, disconnected: str
) -> Scan:
    """Trials around a centre; a bandwidth that breaks or thins out the graph, or joins nearly all, is left out.

    So is one at which a walk hardly moves: its eigenvectors take longest, and sit on single points.
    The centre comes first. Where it leaves nothing visible, no wider one is tried on many points. Otherwise wider ones
    are tried on a part of them: with all, the two would take three quarters of the time on a surface.
    """
    trials: list[Trial] = []
    left_out: dict[float, str] = {}
    failure: DisconnectedGraphError | None = None
    kernels = run.backend.kernels
    size = d if is_auto(run.options.subset_size) else run.options.subset_size
    for number, eps in enumerate(sorted(bandwidths, key=lambda eps: abs(np.log(eps / centre)))):
        report(number, len(bandwidths))
        degree = mean_degree(distances, eps)
        if degree > DENSEST * len(X) and eps > centre:
            left_out[eps] = f"joins {degree / len(X):.0%} of all pairs"
            continue
        if degree < LEAST and eps < centre:
            left_out[eps] = f"leaves points {degree:.0f} neighbours on average"
            continue
        if eps < centre and run.options.self_loops and is_idle(distances, eps):
            left_out[eps] = "most points outweigh all of their neighbours"
            continue
        if len(X) > CHEAP and len(trials) > 1 and (enough := explains_all(trials, eps, size)):
            left_out[eps] = f"not tried, since {enough.bandwidth:.4g} loses only {enough.lost(size):.2f} of a direction"
            continue
        log = HeldLog()
        share = (mean_degree(distances, centre) / max(degree, 1.0)) ** THINNED
        rows = some_rows(len(X), share, run.options.random_state) if len(X) > CHEAP else None
        try:
            few = None if rows is None else thin_trial(X, eps, d, run, log, disconnected, rows)
            if few is None:
                log = HeldLog()
            trials.append(few or trial(X, eps, d, run, log, disconnected))
        except DisconnectedGraphError as error:
            left_out[eps], failure = "the graph falls into parts", error
        if run.backend.kernels is not kernels:  # an audit has failed: that is to be heard in any case
            kernels = run.backend.kernels
            for finding in log.findings:
                run.log.warn(finding)
    if not trials:
        raise failure or ValueError("no bandwidth to try")
    least = SHARE * max(t.share for t in trials)
    left_out |= {
        t.bandwidth: f"its largest part holds only {t.share:.1%} of the points" for t in trials if t.share < least
    }
    kept = sorted((t for t in trials if t.share >= least), key=lambda t: t.bandwidth)
    return Scan(tuple(kept), left_out, centre)


def is_idle(distances: Distances, eps: float) -> bool:
    """Whether a walk from most points stays there more often than not."""
    return float(backend_of(distances.table).xp.median(own_shares(distances, eps))) > 0.5


def explains_all(trials: list[Trial], eps: float, size: int) -> Trial | None:
    """A narrower trial of all points that loses so little that a wider bandwidth could not be visibly better."""
    narrower = (t for t in trials if t.bandwidth < eps and t.share == 1)
    return next((t for t in narrower if t.lost(size) <= VISIBLE), None)


def unevenness(distances: Distances, d: int) -> float:
    """How many times as dense points in d dimensions are where they are dense as where they are sparse.

    The distance r to the k-th neighbour tells the density ``r^(-d)``; compared are its 5th and 95th percentiles.
    """
    xp, k = backend_of(distances.table).xp, default_neighbors(distances.table.shape[1])
    dense, sparse = xp.percentile(xp.sort(distances.table, axis=1)[:, k], xp.asarray(SHARES))
    # of copies, no bandwidth could follow the density
    return float((sparse / dense) ** min(d, FEW_DIMS)) if dense > 0 else 1.0


def settled(tried: Scan, d: int, options: Options) -> int:
    """The number of coordinates asked for, or the one that the trials settle."""
    asked = options.subset_size
    return tried.settle(d, largest_size(d, options.n_components)) if is_auto(asked) else asked


def with_local(
    run: Run, Z: Array, centre: float, distances: Distances, d: int, way: str, fixed: Scan | None, isolated: bool
) -> Scan | None:
    """The trials at fixed bandwidths, or the one at local bandwidths where that explains more with no more coordinates.

    It is tried only where the density is uneven, where all fixed ones but one fall into parts, or where they leave
    points ``isolated``; of many points, not where it could hardly explain more. Without any it has no rival. None if
    neither is there.
    """
    options, only_one = run.options, fixed is not None and len(fixed.trials) == 1
    if not is_auto(options.bandwidth) or options.alpha != 1 or default_neighbors(len(Z)) > DENSEST * len(Z):
        return fixed
    if not (only_one or isolated) and unevenness(distances, d) < UNEVEN:
        return fixed
    if fixed is not None and not only_one and len(Z) > CHEAP:
        best = fixed.best(size := settled(fixed, d, options))
        if best.share == 1 and best.limit(size).value <= SMALL:  # nothing visible is left of all points
            return fixed
    try:
        only = trial(Z, LOCAL, d, run, HeldLog(), way)
    except DisconnectedGraphError as error:
        if fixed is None and error.parts:  # clusters, and this tells them apart where their densities differ
            raise
        return fixed
    local = Scan((only,), {}, centre, is_local=True)
    if fixed is None:
        return local
    s, own = settled(fixed, d, options), settled(local, d, options)
    best = fixed.best(s)
    if own <= s and only.share >= best.share and TIE * only.lost(own) < best.lost(s):
        return replace(local, rival=fixed)
    return replace(fixed, rival=local)
