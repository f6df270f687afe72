"""Trying bandwidths and sizes: each with its embedding, its chosen set, and how much of the input that explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import comb

import numpy as np

from ..backend.array import Array
from ..choice.criterion import MAX_SUBSETS, log_volumes
from ..choice.search import SearchResult, ranked
from ..choice.size_rule import judge_size, share_near_zero
from ..embedding.diffusion import Embedding
from ..errors import DisconnectedGraphError
from ..run.inputs import Inputs
from ..run.log import HeldLog, Log, Report
from ..run.stage import Run, Stage
from ..run.stages.eigenvectors import EIGENVECTORS
from ..run.stages.graph import GRAPH, LAPLACIAN, Graph
from ..run.stages.search import SEARCH
from ..run.stages.tangents import TANGENTS, Tangents
from .bandwidth import Distances, mean_degree
from .explained import unexplained_variance

FACTORS = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)  # of the bandwidth with 6 % neighbours
STEP = 1.001 * 2**-0.5  # from one of them to the next, and a little: the trials between are nearer
SHARE = 0.98  # a bandwidth whose largest part holds less of the points is not considered
DENSEST = 0.6  # nor one that joins more than this share of all pairs: little shape is left to see
TIE = 1.01  # explained equally well: the bandwidth nearest to the rule of neighbours is taken
FALL = 0.01  # one more coordinate must explain this much more of the variance
NARROW = 1.25  # neighbouring bandwidths that leave so much more unexplained make the choice a narrow one,
VISIBLE = 0.005  # if it is also so much of the variance


@dataclass(frozen=True, eq=False)
class Trial:
    """One bandwidth, ready to be searched for sets of any size; what was found is kept."""

    bandwidth: float
    X: Array  # in the order of the coordinates
    graph: Graph
    embedding: Embedding
    tangents: Tangents
    run: Run
    found: dict[int, SearchResult] = field(default_factory=dict)
    unexplained: dict[int, float] = field(default_factory=dict)
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
        """What the chosen set of size s leaves unexplained of X."""
        if s not in self.unexplained:
            chosen = self.embedding.coordinates[:, list(self.search(s).subset)]
            neighbours = min(10, len(self.X) - 1)
            self.unexplained[s] = self.run.backend.retried(
                "scan", partial(unexplained_variance, self.X, chosen, n_neighbors=neighbours)
            )
        return self.unexplained[s]

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


def trial(X: Array, bandwidth: float, d: int, run: Run, log: HeldLog, components: str) -> Trial:
    """Graph, eigenvectors and tangents of points on the device at one bandwidth; errors of the graph come through."""
    options = replace(run.options, bandwidth=bandwidth, intrinsic_dim=d, subset_size=d, components=components)
    own, given = run.apart(options, log, {}), Inputs.of(X=X)
    graph = own.stage(GRAPH, given)
    laplacian = own.stage(LAPLACIAN, given, graph)
    embedding = own.stage(EIGENVECTORS, graph, laplacian)
    tangents = own.stage(TANGENTS, laplacian, embedding)
    # the matrix has done its work, and several would not fit beside each other
    graph = graph._replace(laplacian=None)
    rows = run.backend.asarray(graph.points[graph.order])
    return Trial(bandwidth, X[rows], graph, embedding, tangents, own)


@dataclass(frozen=True)
class Scan:
    """Trials by rising bandwidth, and why others were left out."""

    trials: tuple[Trial, ...]
    left_out: dict[float, str]
    centre: float

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
        """The size from s on after which one more coordinate no longer pays, or the largest."""
        while s < largest and self.gain(s) > FALL:
            s += 1
        return s

    def gain(self, s: int) -> float:
        """How much more of the variance s + 1 coordinates explain, each number at its own best bandwidth.

        At the bandwidth that is best for s the larger set need not be a good one: on a noisy torus two coordinates are
        about equally poor everywhere, and three are good at some bandwidths only.
        """
        if not can_search(len(self.trials[0].embedding.eigenvalues), s + 1):
            return 0.0
        return self.best(s).fvu(s) - self.best(s + 1).fvu(s + 1)


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
) -> Scan:
    """Trials around a centre; a bandwidth that breaks the graph or joins nearly everything is left out."""
    trials, left_out, failure = [], {}, None
    kernels = run.backend.kernels
    for number, eps in enumerate(bandwidths):
        report(number, len(bandwidths))
        degree = mean_degree(distances, eps)
        if degree > DENSEST * len(X) and eps > centre:
            left_out[eps] = f"joins {degree / len(X):.0%} of all pairs"
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
    enough = SHARE * max(t.share for t in trials)
    left_out |= {
        t.bandwidth: f"its largest part holds only {t.share:.1%} of the points" for t in trials if t.share < enough
    }
    return Scan(tuple(t for t in trials if t.share >= enough), left_out, centre)


SCAN = Stage("scan", scan)
