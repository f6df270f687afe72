"""Trying bandwidths and sizes: each with its embedding, its chosen set, and how much of the input that explains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from ..backend.array import Array
from ..backend.kernels.arrays import column_spreads
from ..choice.collapse import touching_share
from ..choice.criterion import MAX_SUBSETS, log_volumes
from ..choice.search import SearchResult, ranked
from ..choice.size_rule import judge_size, share_near_zero
from ..choice.stray import candidates
from ..embedding.diffusion import Embedding
from ..embedding.local import local_bandwidths
from ..errors import DisconnectedGraphError
from ..run.inputs import Inputs
from ..run.log import HeldLog, Log, Report
from ..run.options import is_auto
from ..run.stage import Run, Stage
from ..run.stages.eigenvectors import EIGENVECTORS
from ..run.stages.graph import GRAPH, LAPLACIAN, Graph
from ..run.stages.search import SEARCH
from ..run.stages.tangents import TANGENTS, Tangents
from .bandwidth import REACH, Distances, mean_degree
from .explained import unexplained_variance

FACTORS = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)  # of the bandwidth with 6 % neighbours
STEP = 1.001 * 2**-0.5  # from one of them to the next, and a little: the trials between are nearer
SHARE = 0.98  # a bandwidth whose largest part holds less of the points is not considered
DENSEST = 0.6  # nor one that joins more than this share of all pairs: little shape is left to see
TIE = 1.01  # explained equally well: the bandwidth nearest to the rule of neighbours is taken
FALL = 0.01  # one more coordinate must explain this much more of the variance, however many points there are
BLUR = 0.01  # of a coordinate's standard deviation: what is finer explains nothing
SPLITS = 3  # of the points into halves, for what is left unexplained however many points there are; of few points
FEW_SPLITS = 10, 5000  # more, since each half tells less
SHEETS = 0.45  # share of points near whose place in the map others lie too: from here on the map has several sheets
OVERLAP_SAMPLE = 2000  # points at most that are looked at for that,
TOUCHING_SAMPLE = 10_000  # and for parts that nearly touch
FOREIGN = 0.2  # by the share of their nearest in the map that are no neighbours
LEAST = 12  # neighbours of a point on average: with fewer, coordinates are noise
NARROW = 1.25  # neighbouring bandwidths that leave so much more unexplained make the choice a narrow one,
VISIBLE = 0.005  # if it is also so much of the variance
CHEAP = 5_000  # points up to which all bandwidths are tried, however well the first ones explain


class Estimated(NamedTuple):
    """A share of the variance of X, its standard error, and how far few points have moved it."""

    value: float
    error: float
    resolution: float = 0.0


@dataclass(frozen=True, eq=False)
class Trial:
    """One bandwidth, ready to be searched for sets of any size; what was found is kept."""

    bandwidth: float  # the median one, where it follows the density
    bandwidths: Array | float  # at each point, or everywhere
    X: Array  # in the order of the coordinates
    graph: Graph
    embedding: Embedding
    tangents: Tangents
    run: Run
    found: dict[int, SearchResult] = field(default_factory=dict)
    unexplained: dict[int, float] = field(default_factory=dict)
    limits: dict[int, Estimated] = field(default_factory=dict)
    messages: dict[int, list[str]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of the points, in the part that was embedded."""
        return len(self.graph.points) / self.graph.n_input

    def search(self, s: int) -> SearchResult:
        """The chosen set of size s."""
        if s not in self.found:
            log = HeldLog(self.run.log)
            own = self.run.apart(replace(self.run.options, subset_size=s), log, self.run.audit)
            self.found[s] = own.stage(SEARCH, self.tangents, self.embedding)
            self.messages[s] = log.warnings
        return self.found[s]

    def speak(self, s: int, log: Log) -> None:
        """Pass on the warnings of this trial and of its search for s coordinates."""
        for message in [*self.run.log.warnings, *self.messages[s]]:
            log.warn(message)

    def fvu(self, s: int) -> float:
        """What the chosen set of size s leaves unexplained of X, details finer than 1 % left out."""
        if s not in self.unexplained:
            self.unexplained[s] = self._left(s, self._own_order(), BLUR)
        return self.unexplained[s]

    def _own_order(self) -> Array:
        """The user's order of points, which the blur goes by."""
        return self.run.backend.asarray(np.argsort(self.graph.order))

    def limit(self, s: int) -> Estimated:
        """What the chosen set of size s would leave of X with infinitely many points, from all points and from halves.

        The nearest of n neighbours in d dimensions are ``n^(-1/d)`` away, so that a sound map leaves
        ``a + b n^(-2/d)``: noise and a part that halves of the points have more of. A fold is there in halves as well.
        """
        if s not in self.limits:
            n, grown = len(self.X), 2.0 ** (2 / self.tangents.bases.shape[2])
            rng, whole = np.random.default_rng(0), self._left(s, slice(None))
            splits = FEW_SPLITS[0] if n < FEW_SPLITS[1] else SPLITS
            halves = [half for _ in range(splits) for half in np.array_split(rng.permutation(n), 2)]
            left = np.array([self._left(s, self.run.backend.asarray(np.sort(half))) for half in halves])
            found = (grown * whole - left) / (grown - 1)
            limit = max(0.0, float(found.mean()))
            self.limits[s] = Estimated(limit, float(found.std()) / splits**0.5, max(0.0, whole - limit))
        return self.limits[s]

    def overlap(self, s: int) -> float:
        """The share of points a fifth of whose 10 nearest in the map are no neighbours: near 1 for two sheets."""
        backend, Y = self.run.backend, self.embedding.coordinates[:, list(self.search(s).subset)]
        rows = np.linspace(0, len(Y) - 1, min(OVERLAP_SAMPLE, len(Y))).astype(int)
        spread = column_spreads(Y)
        with backend.active():
            near = backend.nearest(Y / backend.xp.where(spread > 0, spread, 1), min(10, len(Y) - 1))[1]
        rows, near = backend.asarray(rows), near[backend.asarray(rows)]
        radius = REACH * (backend.xp.zeros(len(Y)) + self.bandwidths)[rows]
        apart = ((self.X[near] - self.X[rows][:, None, :]) ** 2).sum(axis=2) > (radius * radius)[:, None]
        return float((apart.mean(axis=1) >= FOREIGN).mean())

    def touching(self, s: int) -> float:
        """The share of points at which parts of the map with s coordinates meet, as a diagnosis would find it."""
        host, n = self.run.backend.to_host, len(self.X)
        rows = self.run.backend.asarray(np.linspace(0, n - 1, min(TOUCHING_SAMPLE, n)).astype(int))
        Y, bases, sigma = (
            host(array[rows])
            for array in (self.embedding.coordinates, self.tangents.bases, self.tangents.singular_values)
        )
        return touching_share(Y, self.embedding.eigenvalues, bases, sigma, list(self.search(s).subset))

    def first(self, s: int) -> tuple[int, ...]:
        """The first s of the coordinates to choose from."""
        return tuple(candidates(self.embedding.coordinates, s, self.run.backend)[:s])

    def left_by_first(self, s: int) -> float:
        """What they leave unexplained of X, as in :meth:`fvu`."""
        return self._left(s, self._own_order(), BLUR, self.first(s))

    def _left(self, s: int, rows: Array | slice, blur: float = 0.0, subset: tuple[int, ...] | None = None) -> float:
        """What a set, by default the chosen one of size s, leaves unexplained of some points."""
        X, Y = self.X[rows], self.embedding.coordinates[:, list(subset or self.search(s).subset)][rows]
        measure = partial(unexplained_variance, X, Y, n_neighbors=min(10, len(X) - 1), blur=blur)
        return self.run.backend.retried("scan", measure)

    def near_zero(self, s: int) -> tuple[float, float]:
        """Shares of points with a volume below 0.1: in the chosen set, and in its union with the runner-up."""
        found = self.search(s)
        order = ranked(found.subsets, found.scores, self.embedding.eigenvalues, found.zeta)
        judged = judge_size(found.subset, found.subsets[order[:2]], self._share_near_zero)
        return judged.share_best, judged.share_union

    def _share_near_zero(self, subset: tuple[int, ...]) -> float:
        def share() -> float:
            return share_near_zero(log_volumes(self.tangents.bases, np.array([subset], dtype=np.int32))[:, 0])

        return self.run.backend.retried("scan", share)


def graph_at(
    X: Array, bandwidth: float | str, d: int, run: Run, log: HeldLog, components: str
) -> tuple[Run, Inputs, Graph]:
    """The graph of points on the device at one bandwidth, and the run of its own; errors of the graph come through."""
    options = replace(run.options, bandwidth=bandwidth, intrinsic_dim=d, subset_size=d, components=components)
    own, given = run.apart(options, log, {}), Inputs.of(X=X)
    return own, given, own.stage(GRAPH, given)


def trial(X: Array, bandwidth: float | str, d: int, run: Run, log: HeldLog, components: str) -> Trial:
    """Graph, eigenvectors and tangents of points on the device at one bandwidth."""
    own, given, graph = graph_at(X, bandwidth, d, run, log, components)
    laplacian = own.stage(LAPLACIAN, given, graph)
    embedding = own.stage(EIGENVECTORS, graph, laplacian)
    tangents = own.stage(TANGENTS, laplacian, embedding)
    # the matrix has done its work, and several would not fit beside each other
    graph = graph._replace(laplacian=None)
    rows = run.backend.asarray(graph.points[graph.order])
    bandwidths = local_bandwidths(laplacian) if isinstance(bandwidth, str) else bandwidth
    typical = float(run.backend.xp.median(run.backend.asarray(bandwidths)))
    return Trial(typical, bandwidths, X[rows], graph, embedding, tangents, own)


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
        """The trial that leaves least unexplained; among nearly equal ones the nearest to the centre."""
        least = min(t.fvu(s) for t in self.trials)
        close = [t for t in self.trials if t.fvu(s) <= TIE * least]
        return min(close, key=lambda t: abs(np.log(t.bandwidth / self.centre)))

    def beside(self, s: int) -> float:
        """How many times as much bandwidths a step below and above the best one leave unexplained; 0 without any."""
        best = self.best(s)
        below = [t for t in self.trials if t.bandwidth <= STEP * best.bandwidth]
        above = [t for t in self.trials if t.bandwidth >= best.bandwidth / STEP]
        return max((t.fvu(s) for t in below[-1:] + above[:1]), default=0.0) / max(best.fvu(s), 1e-12)

    def is_narrow(self, s: int) -> bool:
        """Whether a bandwidth next to the best one is visibly worse."""
        excess = self.beside(s) - 1
        return excess > NARROW - 1 and excess * self.best(s).fvu(s) > VISIBLE

    def between(self) -> list[float]:
        """The bandwidths half way from one trial to the next."""
        tried = [t.bandwidth for t in self.trials]
        return [float(np.sqrt(a * b)) for a, b in pairwise(tried)]

    def joined(self, other: Scan) -> Scan:
        """The trials of both."""
        trials = sorted(self.trials + other.trials, key=lambda t: t.bandwidth)
        return Scan(tuple(trials), self.left_out | other.left_out, self.centre)

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
        if step == 2 and best.limit(s).value <= 2 * FALL:
            return False
        gain = self.gain(s, step)
        if gain.value <= step * FALL:
            return False
        return gain.value > step * FALL + gain.resolution or best.overlap(s) > SHEETS

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
    return s <= m and comb(m - 1, s - 1) <= MAX_SUBSETS


def largest_size(d: int, m: int) -> int:
    """Where the search for a size ends: at twice the dimension, three more than it, or what can be enumerated."""
    return max(s for s in range(d, min(2 * d, d + 3, m) + 1) if s == d or can_search(m, s))


def scan(
    run: Run,
    report: Report,
    X: Array,
    centre: float,
    bandwidths: Sequence[float],
    distances: Distances,
    d: int,
    components: str,
    n: int = 0,
) -> Scan:
    """Trials around a centre; a bandwidth that breaks or thins out the graph, or joins nearly all, is left out.

    The centre comes first. Where it leaves nothing visible, no wider one is tried on many points: on a surface the two
    wider ones take three quarters of the time. X may be a sample of n points, with all of which a trial follows; how
    long all will take is said after the first.
    """
    trials: list[Trial] = []
    left_out: dict[float, str] = {}
    failure: DisconnectedGraphError | None = None
    kernels = run.backend.kernels
    size = d if is_auto(run.options.subset_size) else run.options.subset_size
    begin = time.perf_counter()
    for number, eps in enumerate(sorted(bandwidths, key=lambda eps: abs(np.log(eps / centre)))):
        report(number, len(bandwidths))
        if len(trials) == 1:
            rest = len(bandwidths) - number + (n > len(X)) * (n / len(X)) ** 2  # pairs make the work
            run.log.foretell("finding the bandwidth", (time.perf_counter() - begin) * rest)
        degree = mean_degree(distances, eps)
        if degree > DENSEST * len(X) and eps > centre:
            left_out[eps] = f"joins {degree / len(X):.0%} of all pairs"
            continue
        if degree < LEAST and eps < centre:
            left_out[eps] = f"leaves points {degree:.0f} neighbours on average"
            continue
        if len(X) > CHEAP and len(trials) > 1 and (enough := explains_all(trials, eps, size)):
            left_out[eps] = f"not tried, since {enough.bandwidth:.4g} explains {1 - enough.fvu(size):.2%} of X"
            continue
        log = HeldLog()
        try:
            trials.append(trial(X, eps, d, run, log, components))
        except DisconnectedGraphError as error:
            left_out[eps], failure = "the graph falls into parts", error
        if run.backend.kernels is not kernels:  # an audit has failed: that is to be heard in any case
            kernels = run.backend.kernels
            for message in log.warnings:
                run.log.warn(message)
    if not trials:
        raise failure or ValueError("no bandwidth to try")
    least = SHARE * max(t.share for t in trials)
    left_out |= {
        t.bandwidth: f"its largest part holds only {t.share:.1%} of the points" for t in trials if t.share < least
    }
    kept = sorted((t for t in trials if t.share >= least), key=lambda t: t.bandwidth)
    return Scan(tuple(kept), left_out, centre)


def explains_all(trials: list[Trial], eps: float, size: int) -> Trial | None:
    """A narrower trial of all points that leaves so little that a wider bandwidth could not explain visibly more."""
    narrower = (t for t in trials if t.bandwidth < eps and t.share == 1)
    return next((t for t in narrower if t.fvu(size) <= VISIBLE), None)


SCAN = Stage("scan", scan)
