"""Trying bandwidths and sizes, and comparing them by what the chosen sets lose of the worst local direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import comb

import numpy as np

from ..backend import backend_of, cached_property, step
from ..backend.array import Array
from ..embedding.local import default_neighbors
from ..findings import DisconnectedGraphError, Judged, grave, light
from ..options import LOCAL, Options, is_auto
from ..run.run import HeldLog, Progress, Run
from .distances import Distances, mean_degree, own_shares
from .trial import Estimated, Trial, some_rows, thin_trial, trial

FACTORS = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)  # of the bandwidth with 6% neighbours
STEP = 1.001 * 2**-0.5  # from one of them to the next, and a little: the trials between are nearer
SHARE = 0.98  # a bandwidth whose largest part holds less of the points is not considered
DENSEST = 0.6  # nor one that joins more than this share of all pairs: little shape is left to see
TIE = 1.01  # equally good: the bandwidth nearest to the rule of neighbours is taken;
ALIKE = 0.01  # also if it loses so much more of a direction
FALL = 0.01  # one more coordinate must explain this much more of the variance, however many points there are
SHEETS = 0.45  # share of points near whose place in the map others lie too: from here on the map has several sheets
LEAST = 12  # neighbours of a point on average: with fewer, coordinates are noise
NARROW = 1.25  # neighbouring bandwidths that lose so many times as much make the choice a narrow one,
UNFOLDED = 0.05  # of a direction that a map without a fold may lose more than one with a fold
VISIBLE = 0.1  # if it is also so much of a direction
GAINED = 0.9  # times what the one before it loses: if a bandwidth loses more, none beyond it is tried
POOR = 0.27, 0.9  # of a direction: what loses less needs no bandwidths between two, and what loses more has no shape
SMALL = 0.005  # of the variance of X: what leaves no more cannot be bettered visibly
# where more than the first is lost, one more coordinate pays that leaves less than the second of it
REGAINED = 0.3, 0.6
SIZED = 20_000  # sets that may be scored for a size
THIN_FROM = 4_000  # points up to which wide bandwidths are tried on all
# power of the neighbours at the centre over those of a wider bandwidth, for the share of the points on which that is
# tried; with 1 there would be as many neighbours
THINNED = 1.5
IN_PARTS = "the graph falls into parts"
UNEVEN = 10.0  # from here on a bandwidth that follows the density is tried; between two evenly spread corners it is 4
FEW_DIMS = 2  # in more dimensions, few points look uneven by chance
SHARES = (5, 95)  # percentiles of the points, by their density


@dataclass(frozen=True)
class Scan:
    """Trials of fixed bandwidths, rising, and why others were left out; or the trial of one that follows the density.

    ``rival`` is the other kind, where both were tried and it explains less.
    """

    trials: tuple[Trial, ...]
    left_out: dict[float, str]
    centre: float
    sizes: tuple[int, int]  # the smallest and the largest number of coordinates to compare
    is_local: bool = False
    rival: Scan | None = None
    is_sample: bool = False  # of more points, on which a narrow bandwidth saves more time than it takes here

    def best(self, s: int) -> Trial:
        """Return the trial that loses least, or little more without a fold; of equals, the nearest to the centre."""
        least = min(t.lost(s) for t in self.trials)
        close = [t for t in self.trials if t.lost(s) <= max(TIE * least, least + ALIKE)]
        best = min(close, key=lambda t: abs(np.log(t.bandwidth / self.centre)))
        if not best.is_folded(s):
            return best
        others = (t for t in self.trials if t.lost(s) <= max(NARROW * least, UNFOLDED + least) and not t.is_folded(s))
        return min(others, key=lambda t: t.lost(s), default=best)

    def beside(self, s: int) -> float:
        """Return how many times as much bandwidths a step below and above the best one lose; 0 without any."""
        best = self.best(s)
        below = [t for t in self.trials if t.bandwidth <= STEP * best.bandwidth]
        above = [t for t in self.trials if t.bandwidth >= best.bandwidth / STEP]
        return max((t.lost(s) for t in below[-1:] + above[:1]), default=0.0) / max(best.lost(s), 1e-12)

    def is_narrow(self, s: int) -> bool:
        """Return whether a bandwidth next to the best one is visibly worse."""
        excess = self.beside(s) - 1
        return excess > NARROW - 1 and excess * self.best(s).lost(s) > VISIBLE

    @cached_property
    def is_enough(self) -> bool:
        """Whether the best trial has nearly all points and, as the verdict will see it, loses nothing visible."""
        best, s = self.best(self.size), self.size
        is_full = not best.is_thin and best.share >= SHARE
        return is_full and best.lost_by_planes(s) <= VISIBLE and not best.is_folded(s)

    @property
    def is_alone(self) -> bool:
        """Whether the others of the only trial gave no graph to compare it with."""
        return len(self.trials) == 1 and bool(self.left_out) and not self.is_enough

    @cached_property
    def may_miss_the_best(self) -> bool:
        """Whether a better bandwidth may lie between two: only a poor one is doubted."""
        return POOR[0] < self.best(self.size).lost_by_planes(self.size) <= POOR[1] and self.is_narrow(self.size)

    def between(self, s: int) -> list[float]:
        """Return the bandwidths half way from the best trial to the next."""
        best = self.best(s)
        pairs = [pair for pair in pairwise(self.trials) if best in pair]
        return [float(np.sqrt(a.bandwidth * b.bandwidth)) for a, b in pairs]

    @cached_property
    def size(self) -> int:
        """The number of coordinates after which more no longer pay, or the largest that is compared."""
        s, largest = self.sizes
        while s < largest:
            pays = [step for step in (1, 2) if s + step <= largest and self.pays(s, step)]
            if not pays:
                break
            s += pays[0]
        return s

    def pays(self, s: int, step: int) -> bool:
        """Return whether ``step`` more coordinates explain more; one alone may not help, as on tori."""
        best = self.best(s)
        if step == 1 and self.regains(s):
            return True
        if best.limit(s).value <= step * FALL or (gain := self.gain(s, step)).value <= step * FALL:
            return False
        # few points tell a gain only to a resolution, and several sheets in any case
        return gain.value > step * FALL + gain.resolution or best.overlap(s) > SHEETS

    def regains(self, s: int) -> bool:
        """Return whether s coordinates lose a direction by means and planes, and one more brings most of it back."""
        least, part = REGAINED
        best = self.best(s)
        # of a curve, the ends alone are flat in one coordinate
        if s == 1 or min(best.lost(s), best.lost_by_planes(s)) <= least or not self.can_search(s + 1):
            return False
        more = self.best(s + 1)
        planes = more.lost_by_planes(s + 1) < part * best.lost_by_planes(s)
        return planes and more.lost(s + 1) < part * best.lost(s)

    def can_search(self, s: int) -> bool:
        """Return whether the sets of s coordinates can be enumerated."""
        return can_search(len(self.trials[0].embedding.eigenvalues), s)

    def gain(self, s: int, step: int = 1) -> Estimated:
        """Return how much more of the variance ``step`` more coordinates would explain of infinitely many points.

        Each number is taken at its own best bandwidth: on a noisy torus two coordinates are about equally poor
        everywhere, and three are good at some only. Few points alone make more coordinates look better.
        """
        if not self.can_search(s + step):
            return Estimated(0.0, 0.0)
        fewer = self.best(s).limit(s)
        if fewer.value + 2 * fewer.error <= FALL:  # no more than that can be gained, so nobody need look
            return fewer
        more = self.best(s + step).limit(s + step)
        return Estimated(fewer.value - more.value, float(np.hypot(fewer.error, more.error)), fewer.resolution)

    def judge_bandwidth(self) -> Judged:
        """Return how sure the bandwidth is."""
        s, only_one = self.size, (light("bandwidth.only_one", "only one bandwidth keeps the points together"),)
        lost = self.best(s).lost(s)
        if self.is_local:
            facts = f"the density is uneven; following it loses {lost:.3g} of a direction, of the fixed bandwidths "
            if self.rival is not None:
                facts += f"the best loses {self.rival.best(s).lost(s):.3g}"
                return Judged("high", facts, only_one if len(self.rival.trials) == 1 else ())
            text = "no fixed bandwidth keeps the points together, only one that follows their density"
            return Judged("high", f"{facts}none gives a connected graph", (light("bandwidth.only_local", text),))
        if len(self.trials) > 1:
            facts = f"neighbouring bandwidths lose up to {self.beside(s):.2f} times as much of a direction ({lost:.3g})"
            return Judged("fair", f"a narrow choice, {facts}") if self.is_narrow(s) else Judged("high", facts)
        if self.is_alone:
            return Judged("low", "no other bandwidth gave a connected graph to compare with", only_one)
        how = "" if self.best(s).run.options.self_loops else " without self-loops"
        facts = f"no other was tried{how}, and it loses {lost:.3g} of a direction"
        return Judged("high" if self.is_enough else "fair" if lost <= POOR[0] else "low", facts)

    def judge_size(self) -> Judged:
        """Return how sure the number of coordinates is."""
        s = self.size
        if not self.can_search(s + 1):
            return Judged("fair", f"sets of {s + 1} are too many to enumerate, and were not compared")
        gain, error, _ = self.gain(s)
        facts = f"one more coordinate would explain up to {gain:.3f} more of the variance (threshold {FALL}, "
        facts += f"error {error:.3f})"
        if s == self.sizes[1] and self.pays(s, 1):
            text = f"even {s} coordinates, the most that were tried, may be too few"
            return Judged("low", f"the largest size tried, and {facts}", (grave("size.largest_tried", text),))
        return Judged("fair" if gain + 2 * error > FALL else "high", facts)


def can_search(m: int, s: int) -> bool:
    """Return whether the sets of s of m coordinates can be enumerated; sizes are compared only where they can."""
    return s <= m and comb(m - 1, s - 1) <= SIZED


def sizes_to_compare(d: int, options: Options) -> tuple[int, int]:
    """Return the smallest and the largest number of coordinates to compare: that asked for, or d to 2 d or d + 3."""
    asked, m = options.subset_size, options.n_components
    if not is_auto(asked):
        return asked, asked
    return d, max(s for s in range(d, min(2 * d, d + 3, m) + 1) if s == d or can_search(m, s))


@step("scan")
def scan(run: Run, X: Array, tried: Scan, bandwidths: Sequence[float], distances: Distances, d: int, way: str) -> Scan:
    """Try bandwidths, those nearest to the centre first; one that breaks the graph, or is not worth it, is left out.

    Of many points, wider ones are tried on a part: with all, they would take three quarters of the time on a surface.
    """
    failure: DisconnectedGraphError | None = None
    parted, count = 0.0, len(bandwidths) + (not tried.is_sample and len(X) > THIN_FROM)  # the last one may be repeated
    kernels, centre = run.backend.kernels, tried.centre
    for number, eps in enumerate(sorted(bandwidths, key=lambda eps: abs(np.log(eps / centre)))):
        within = partial(show_trial, run.log.progress, number, count)
        within("eigenvectors", 0, 1)
        if reason := unsuitable(eps, centre, distances, run.options.self_loops) or needless(eps, tried):
            tried.left_out[eps] = reason
            continue
        if eps < parted:  # a narrower bandwidth joins no more
            tried.left_out[eps] = IN_PARTS
            continue
        log = HeldLog(progress=within)
        share = (mean_degree(distances, centre) / max(mean_degree(distances, eps), 1.0)) ** THINNED
        rows = some_rows(len(X), share, run.options.random_state) if len(X) > THIN_FROM else None
        try:
            new = None if rows is None else thin_trial(X, eps, d, run, log, way, rows)
            if new is None:
                new = trial(X, eps, d, run, log := HeldLog(progress=within), way)
            tried = with_trial(tried, new)
        except DisconnectedGraphError as error:
            tried.left_out[eps], failure, parted = IN_PARTS, error, max(parted, eps)
        if run.backend.kernels is not kernels:  # an audit has failed: that is to be heard in any case
            kernels = run.backend.kernels
            for finding in log.findings:
                run.log.warn(finding)
    if not tried.trials:
        raise failure or ValueError("no bandwidth to try")
    least = SHARE * max(t.share for t in tried.trials)
    for t in tried.trials:
        if t.share < least:
            tried.left_out[t.bandwidth] = f"its largest part holds only {t.share:.1%} of the points"
    tried = replace(tried, trials=tuple(t for t in tried.trials if t.share >= least))
    while not tried.is_sample and (thin := tried.best(tried.size)).is_thin:  # the best is to be one of all points
        within = partial(show_trial, run.log.progress, count - 1, count)
        tried = with_trial(tried, trial(X, thin.bandwidth, d, run, HeldLog(progress=within), way))
    return tried


def show_trial(progress: Progress | None, number: int, count: int, stage: str, done: int, total: int) -> None:
    """Show how far the eigenvectors of a trial are, in hundredths, as a part of the scan."""
    if progress is not None and stage == "eigenvectors":  # the steps of Lanczos are not known beforehand
        progress("scan", 100 * number + min(99, 100 * done // total if total else 0), 100 * count)


def with_trial(tried: Scan, new: Trial) -> Scan:
    """Return the scan with one more trial, in place of one at the same bandwidth if there is any."""
    trials = [new, *(t for t in tried.trials if t.bandwidth != new.bandwidth)]
    return replace(tried, trials=tuple(sorted(trials, key=lambda t: t.bandwidth)))


def unsuitable(eps: float, centre: float, distances: Distances, self_loops: bool) -> str:
    """Return why a bandwidth need not be tried on these points at all, by their distances, or nothing."""
    degree, n = mean_degree(distances, eps), distances.table.shape[1]
    if degree > DENSEST * n and eps > centre:
        return f"joins {degree / n:.0%} of all pairs"
    if degree < LEAST and eps < centre:
        return f"leaves points {degree:.0f} neighbours on average"
    # of a walk that hardly moves, eigenvectors take longest, and sit on single points
    if eps < centre and self_loops and float(np.median(own_shares(distances, eps))) > 0.5:
        return "most points outweigh all of their neighbours"
    return ""


def needless(eps: float, tried: Scan) -> str:
    """Return why a bandwidth is not worth its time after those that were tried, or nothing."""
    if not tried.trials or (tried.is_sample and eps < tried.centre):
        return ""
    s = tried.size
    if tried.is_enough:
        best = tried.best(s)
        return f"not tried, since {best.bandwidth:.4g} loses only {best.lost_by_planes(s):.2f} of a direction"
    pairs = []  # the outermost trial on the side of eps, and the one before it
    if eps < tried.trials[0].bandwidth:
        pairs = [tried.trials[:2]]
    elif eps > tried.trials[-1].bandwidth and len(tried.trials) > 2:  # on some noisy sets, only the widest is good
        pairs = [tried.trials[:-3:-1]]
    for last, *before in pairs:
        if before and last.lost(s) > GAINED * before[0].lost(s):
            return f"not tried, since {last.bandwidth:.4g} loses hardly less than {before[0].bandwidth:.4g}"
    return ""


def unevenness(distances: Distances, d: int) -> float:
    """Return how many times as dense points in d dimensions are where they are dense as where they are sparse."""
    xp, k = backend_of(distances.table).xp, default_neighbors(distances.table.shape[1])
    # the distance r to the k-th neighbour tells the density r^(-d)
    dense, sparse = xp.percentile(xp.sort(distances.table, axis=1)[:, k], xp.asarray(SHARES))
    # of copies, no bandwidth could follow the density
    return float((sparse / dense) ** min(d, FEW_DIMS)) if dense > 0 else 1.0


def try_local_bandwidth(
    run: Run, Z: Array, centre: float, distances: Distances, d: int, way: str, fixed: Scan | None,
    failure: DisconnectedGraphError | None,
) -> Scan | None:  # fmt: skip
    """Return the trials at fixed bandwidths, or that which follows the density if it explains more by no more.

    It is made only where the density is uneven, where all fixed ones but one fall into parts, or where they fail since
    points have no neighbours; not where it could hardly explain more. None if neither is there.
    """
    options = run.options
    isolated = fixed is None and failure is not None and not failure.parts  # rather than clusters
    only_one = fixed is not None and fixed.is_alone
    if not is_auto(options.bandwidth) or options.alpha != 1 or default_neighbors(len(Z)) > DENSEST * len(Z):
        return fixed
    if not (only_one or isolated) and unevenness(distances, d) < UNEVEN:
        return fixed
    if fixed is not None and not only_one:
        best = fixed.best(fixed.size)
        if best.share == 1 and best.limit(fixed.size).value <= SMALL:  # nothing visible is left of all points
            return fixed
    try:
        only = trial(Z, LOCAL, d, run, HeldLog(), way)
    except DisconnectedGraphError as error:
        if fixed is None and error.parts:  # clusters, and this tells them apart where their densities differ
            raise
        return fixed
    local = Scan((only,), {}, centre, sizes_to_compare(d, options), is_local=True)
    if fixed is None:
        return local
    best, s = fixed.best(fixed.size), local.size
    if s <= fixed.size and only.share >= best.share and TIE * only.lost(s) < best.lost(fixed.size):
        return replace(local, rival=fixed)
    return replace(fixed, rival=local)
