"""One bandwidth tried: its embedding, the sets chosen there, and how much of the input they explain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..backend.array import Array, column_units, sample_rows, spaced_rows
from ..backend.steps import reporting
from ..choice.lost import ground_of_points
from ..choice.rmetric import Tangents
from ..choice.search import SearchResult
from ..embedding.diffusion import Embedding
from ..embedding.laplacian import Laplacian, with_transition
from ..embedding.local import local_bandwidths
from ..embedding.nystrom import KernelRule, kernel_sums
from ..embedding.order import Rows
from ..errors import DisconnectedGraphError
from ..findings import Finding
from ..run.fit import Fit, Inputs, fit, laplacian_of, searched
from ..run.log import HeldLog, Log
from ..run.run import Run
from .bandwidth import REACH
from .explained import unexplained_variance
from .judgement import is_folded

BLUR = 0.01  # of a coordinate's standard deviation: what is finer explains nothing
SPLITS = 3  # of the points into halves, for what is left unexplained however many points there are; of few points
FEW_SPLITS = 10, 5000  # more, since each half tells less
OVERLAP_SAMPLE = 2000  # points at most that are looked at for sheets on top of each other
FEW = 2500  # rows of a thin trial, and no fewer
NEARLY_ALL = 0.8  # a share of the rows from which on leaving out the others saves too little
FOREIGN = 0.2  # share of the nearest in the map that are no neighbours, from which on they lie on another sheet


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
    graph: Laplacian  # without its matrix
    embedding: Embedding  # its coordinates stand in the order of X
    tangents: Tangents
    run: Run
    is_thin: bool = False  # eigenvectors and tangents are those of some of the points, and the former were extended
    found: dict[int, SearchResult] = field(default_factory=dict)
    unexplained: dict[int, float] = field(default_factory=dict)
    lost_by_subset: dict[tuple[int, ...], float] = field(default_factory=dict)
    folded: dict[tuple[int, ...], bool] = field(default_factory=dict)
    limits: dict[int, Estimated] = field(default_factory=dict)
    findings: dict[int, list[Finding]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of the points, in the part that was embedded."""
        return len(self.graph.rows.used) / self.graph.rows.n_input

    def search(self, s: int) -> SearchResult:
        """The chosen set of size s."""
        if s not in self.found:
            log = HeldLog(self.run.log)
            own = self.run.apart(replace(self.run.options, subset_size=s), log, self.run.audit)
            self.found[s] = searched(self.tangents, self.embedding, own.options, own)
            self.findings[s] = log.findings
        return self.found[s]

    def speak(self, s: int, log: Log) -> None:
        """Pass on the warnings of this trial and of its search for s coordinates."""
        for finding in [*self.run.log.findings, *self.findings[s]]:
            log.warn(finding)

    def lost(self, s: int, subset: tuple[int, ...] | None = None) -> float:
        """What a set, by default the chosen one of size s, loses of the worst direction around a point."""
        subset = subset or self.search(s).subset
        if subset not in self.lost_by_subset:
            own = self._own_order()  # in which all trials look at the same regions

            def measure() -> float:
                Y = self.embedding.coordinates[:, list(subset)]
                return ground_of_points(self.X[own], self.tangents.bases.shape[2]).lost(Y[own])

            self.lost_by_subset[subset] = self.run.backend.retried("scan", measure)
        return self.lost_by_subset[subset]

    def is_folded(self, s: int) -> bool:
        """Whether the map of size s is turned over somewhere, as far as the tangents of this trial tell."""
        subset = self.search(s).subset
        if subset not in self.folded:
            own = Fit(self.graph, self.embedding, self.tangents)
            self.folded[subset] = not self.is_thin and is_folded(own, subset)
        return self.folded[subset]

    def fvu(self, s: int) -> float:
        """What the chosen set of size s leaves unexplained of X, details finer than 1% left out."""
        if s not in self.unexplained:
            self.unexplained[s] = self._left(s, self._own_order(), BLUR)
        return self.unexplained[s]

    def _own_order(self) -> Array:
        """The user's order of points, which the blur goes by."""
        return self.run.backend.asarray(np.argsort(self.graph.rows.order))

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
        with backend.active():
            near = backend.nearest(Y / column_units(Y), min(10, len(Y) - 1))[1]
        rows = backend.asarray(spaced_rows(len(Y), OVERLAP_SAMPLE))
        near = near[rows]
        radius = REACH * (backend.xp.zeros(len(Y)) + self.bandwidths)[rows]
        apart = ((self.X[near] - self.X[rows][:, None, :]) ** 2).sum(axis=2) > (radius * radius)[:, None]
        return float((apart.mean(axis=1) >= FOREIGN).mean())

    def _left(self, s: int, rows: Array | slice, blur: float = 0.0) -> float:
        """What the chosen set of size s leaves unexplained of some points."""
        X, Y = self.X[rows], self.embedding.coordinates[:, list(self.search(s).subset)][rows]
        measure = partial(unexplained_variance, X, Y, n_neighbors=min(10, len(X) - 1), blur=blur)
        return self.run.backend.retried("scan", measure)


def graph_at(
    X: Array, bandwidth: float | str, d: int, run: Run, log: HeldLog, disconnected: str
) -> tuple[Run, Laplacian]:
    """The graph of points on the device at one bandwidth, and the run of its own; errors of the graph come through."""
    options = replace(run.options, bandwidth=bandwidth, intrinsic_dim=d, subset_size=d, disconnected=disconnected)
    own = run.apart(options, log, {})
    return own, own(laplacian_of, Inputs.of(X=X), options)


def trial(X: Array, bandwidth: float | str, d: int, run: Run, log: HeldLog, disconnected: str) -> Trial:
    """Graph, eigenvectors and tangents of points on the device at one bandwidth."""
    own, laplacian = graph_at(X, bandwidth, d, run, log, disconnected)
    bandwidths = local_bandwidths(laplacian) if isinstance(bandwidth, str) else bandwidth
    typical = float(run.backend.xp.median(run.backend.asarray(bandwidths)))
    graph, embedding, tangents = fit(laplacian, own.options, own)
    rows = run.backend.asarray(graph.rows.numbers)
    return Trial(typical, bandwidths, X[rows], graph, replace(embedding, rows=None), tangents, own)


def some_rows(n: int, share: float, random_state: int) -> np.ndarray | None:
    """Return a share of n rows, rising, drawn with the seed; None where that would be nearly all."""
    size = max(FEW, round(share * n))
    return None if size > NEARLY_ALL * n else sample_rows(n, size, random_state)


def thin_trial(
    X: Array, bandwidth: float, d: int, run: Run, log: HeldLog, disconnected: str, rows: np.ndarray
) -> Trial | None:
    """Return a trial with the eigenvectors of some rows of X, extended to all; None where they do not reach all.

    A wide kernel is as full on fewer points, and its eigenvectors are smooth. What sets lose is measured on all points,
    as in every other trial. Since all have a neighbour among the rows, which hang together, the graph of all does too.
    """
    try:
        few = trial(X[run.backend.asarray(rows)], bandwidth, d, run, log, disconnected)
    except DisconnectedGraphError:
        return None
    Y = extended(X, few) if few.share == 1 else None
    if Y is None:
        return None
    n = len(X)
    degree = (few.graph.mean_degree or 0.0) * (n - 1) / (len(rows) - 1)
    graph = with_transition(
        few.graph, few.graph.stored, rows=Rows.every(n), facts=few.graph.facts | {"mean_degree": degree}
    )
    embedding = replace(few.embedding, vectors=Y)
    return replace(few, X=X, graph=graph, embedding=embedding, is_thin=True)


def extended(X: Array, few: Trial) -> Array | None:
    """Return the eigenvectors of a trial on few points at points (n, D), to a factor each; None out of their reach.

    Training and new points are both extended, leaving the point itself out.
    """
    options, backend, own = few.run.options, few.run.backend, few.X
    xp, rule = backend.xp, KernelRule(options.bandwidth, options.radius, options.self_loops)

    def means() -> Array | None:
        w = kernel_sums(own, own, xp.ones((len(own), 1)), rule)
        share = 1.0 / w**options.alpha
        values = xp.concatenate([share, share * few.embedding.coordinates], axis=1)
        sums = kernel_sums(X, own, values, rule._replace(self_loops=False))
        return sums[:, 1:] / sums[:, :1] if bool((sums[:, 0] > 0).all()) else None

    with reporting(lambda done, total: None):  # the scan counts bandwidths
        return backend.retried("scan", means)
