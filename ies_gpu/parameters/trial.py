"""One bandwidth tried: its embedding, the sets chosen there, and how much of the input they explain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np

from ..backend import reporting
from ..backend.array import Array, column_units, few_on_host, sample_rows, spaced_rows
from ..choice.faults import SAMPLE, Ground, ground_of_points, nearest
from ..choice.rmetric import Tangents
from ..choice.search import SearchResult
from ..embedding.diffusion import Embedding
from ..embedding.laplacian import Laplacian, Rows, with_transition
from ..embedding.local import local_bandwidths
from ..findings import DisconnectedGraphError
from ..run.run import Fit, HeldLog, Inputs, Log, Run, choose, fit, laplacian_of
from .distances import REACH
from .judgement import is_folded, unexplained_variance

BLUR = 0.01  # of a coordinate's standard deviation: what is finer explains nothing
SPLITS = 3  # of the points into halves, for what is left unexplained however many points there are; of few points
FEW_SPLITS = 5, 5000  # more, since each half tells less
OVERLAP_SAMPLE = 2000  # points at most that are looked at for sheets on top of each other
FEW = 2500  # rows of a thin trial, and no fewer
NEARLY_ALL = 0.8  # a share of the rows from which on leaving out the others saves too little
FOREIGN = 0.2  # share of the nearest in the map that are no neighbours, from which on they lie on another sheet


class Estimated(NamedTuple):
    """A share of the variance of X, its standard error, and how far few points have moved it."""

    value: float
    error: float
    resolution: float = 0.0


def once(method: Callable[..., Any]) -> Any:
    """Keep what a method of a trial has found."""

    @wraps(method)
    def kept(trial: Trial, *args: int) -> Any:
        key = method.__name__, *args
        if key not in trial.known:
            trial.known[key] = method(trial, *args)
        return trial.known[key]

    return kept


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
    known: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of the points, in the part that was embedded."""
        return len(self.graph.rows.used) / self.graph.rows.n_input

    @once
    def search(self, s: int) -> SearchResult:
        """Return the chosen set of size s; its warnings are held back."""
        own = self.run.apart(replace(self.run.options, subset_size=s), HeldLog(self.run.log), self.run.audit)
        result = choose(self.tangents, self.embedding, own.options, own)
        self.known["findings", s] = own.log.findings
        return result

    def sizes(self) -> set[int]:
        return {key[1] for key in self.known if key[0] == "findings"}

    def row(self, s: int) -> dict[str, Any]:
        """Return the bandwidth, the neighbours it gives, and how well its set of s coordinates explains the points."""
        facts = {"bandwidth": self.bandwidth, "mean_degree": self.graph.mean_degree, "share": self.share}
        return facts | {"subset": self.search(s).subset, "fvu": self.fvu(s), "lost": self.lost(s)}

    def tell(self, s: int, log: Log) -> None:
        """Pass on the warnings of this trial and of its search for s coordinates."""
        for finding in [*self.run.log.findings, *self.known["findings", s]]:
            log.warn(finding)

    def chart(self, s: int) -> Array:
        """Return the coordinates of the chosen set of size s."""
        return self.embedding.coordinates[:, list(self.search(s).subset)]

    @once
    def looked_at(self) -> Array:
        """Return the points at which maps are compared, in the user's order: so all trials look at the same regions."""
        own = np.argsort(self.graph.rows.order)
        return self.run.backend.asarray(own[sample_rows(len(own), SAMPLE, 0)])

    @once
    def ground(self) -> Ground:
        """Return the regions of X in which maps are judged."""
        return ground_of_points(self.X[self.looked_at()], self.tangents.bases.shape[2])

    @once
    def lost(self, s: int) -> float:
        """Return what the chosen set of size s loses of the worst direction around a point."""
        return self.run.backend.retried("scan", lambda: self.ground().lost(self.chart(s)[self.looked_at()]))

    @once
    def lost_by_planes(self, s: int) -> float:
        """Return the same with points predicted by planes: so few points lose no more than many."""
        look = partial(self.ground().lost, by_planes=True)
        return self.run.backend.retried("scan", lambda: look(self.chart(s)[self.looked_at()]))

    @once
    def is_folded(self, s: int) -> bool:
        """Return whether the map of size s is turned over somewhere, as far as the tangents of this trial tell."""
        return not self.is_thin and is_folded(Fit(self.graph, self.embedding, self.tangents), self.search(s).subset)

    @once
    def fvu(self, s: int) -> float:
        """Return what the chosen set of size s leaves unexplained of X, details finer than 1% left out."""
        return self._left(s, self.looked_at(), BLUR)

    @once
    def limit(self, s: int) -> Estimated:
        """Return what the chosen set of size s would leave of X with infinitely many points, by some and their halves.

        The nearest of n neighbours in d dimensions are ``n^(-1/d)`` away, so that a sound map leaves
        ``a + b n^(-2/d)``: noise and a part that halves of the points have more of. A fold is there in halves as well.
        """
        rows, grown = spaced_rows(len(self.X), SAMPLE), 2.0 ** (2 / self.tangents.bases.shape[2])
        rng, whole = np.random.default_rng(0), self._left(s, self.run.backend.asarray(rows))
        splits = FEW_SPLITS[0] if len(self.X) < FEW_SPLITS[1] else SPLITS
        halves = [rows[half] for _ in range(splits) for half in np.array_split(rng.permutation(len(rows)), 2)]
        left = np.array([self._left(s, self.run.backend.asarray(np.sort(half))) for half in halves])
        found = (grown * whole - left) / (grown - 1)
        limit = max(0.0, float(found.mean()))
        return Estimated(limit, float(found.std()) / splits**0.5, max(0.0, whole - limit))

    def overlap(self, s: int) -> float:
        """Return the share of points a fifth of whose 10 nearest in the map are far away: near 1 for two sheets."""
        backend, Y = self.run.backend, self.chart(s)
        rows = backend.asarray(spaced_rows(len(Y), OVERLAP_SAMPLE))
        near = nearest(Y / column_units(Y), 10)[rows]
        radius = REACH * (backend.xp.zeros(len(Y)) + self.bandwidths)[rows]
        apart = ((self.X[near] - self.X[rows][:, None, :]) ** 2).sum(axis=2) > (radius * radius)[:, None]
        return float((apart.mean(axis=1) >= FOREIGN).mean())

    def _left(self, s: int, rows: Array, blur: float = 0.0) -> float:
        """Return what the chosen set of size s leaves unexplained of some points."""
        X, Y = (few_on_host(part[rows]) for part in (self.X, self.chart(s)))
        measure = partial(unexplained_variance, X, Y, n_neighbors=min(10, len(X) - 1), blur=blur)
        return self.run.backend.retried("scan", measure)


def trial(X: Array, bandwidth: float | str, d: int, run: Run, log: HeldLog, way: str) -> Trial:
    """Return graph, eigenvectors and tangents of points on the device at one bandwidth; ``way`` is ``disconnected``."""
    options = replace(run.options, bandwidth=bandwidth, intrinsic_dim=d, subset_size=d, disconnected=way)
    own = run.apart(options, log, {})
    laplacian = own(laplacian_of, Inputs.of(X=X), options)
    bandwidths = local_bandwidths(laplacian) if isinstance(bandwidth, str) else bandwidth
    typical = float(run.backend.xp.median(run.backend.asarray(bandwidths)))
    graph, embedding, tangents = fit(laplacian, options, own)
    rows = run.backend.asarray(graph.rows.numbers)
    return Trial(typical, bandwidths, X[rows], graph, replace(embedding, rows=None), tangents, own)


def some_rows(n: int, share: float, random_state: int) -> np.ndarray | None:
    """Return a share of n rows, rising, drawn with the seed; None where that would be nearly all."""
    size = max(FEW, round(share * n))
    return None if size > NEARLY_ALL * n else sample_rows(n, size, random_state)


def thin_trial(X: Array, bandwidth: float, d: int, run: Run, log: HeldLog, way: str, rows: np.ndarray) -> Trial | None:
    """Return a trial with the eigenvectors of some rows of X, extended to others; None where they do not reach those.

    A wide kernel is as full on fewer points, and its eigenvectors are smooth. Sets are compared where all trials are.
    """
    try:
        few = trial(X[run.backend.asarray(rows)], bandwidth, d, run, log, way)
    except DisconnectedGraphError:
        return None
    n, X = len(X), X[run.backend.asarray(sample_rows(len(X), SAMPLE, 0))]
    if (Y := extended(X, few) if few.share == 1 else None) is None:
        return None
    facts = few.graph.facts | {"mean_degree": (few.graph.mean_degree or 0.0) * (n - 1) / (len(rows) - 1)}
    graph = with_transition(few.graph, few.graph.stored, rows=Rows.every(len(X)), facts=facts)
    return replace(few, X=X, graph=graph, embedding=replace(few.embedding, vectors=Y), is_thin=True)


def extended(X: Array, few: Trial) -> Array | None:
    """Return the eigenvectors of a trial on few points at points (n, D), to a factor each; None out of their reach."""
    from ..embedding.nystrom import KernelRule, kernel_sums

    options, backend, own = few.run.options, few.run.backend, few.X
    xp, rule = backend.xp, KernelRule(options.bandwidth, options.radius, options.self_loops)

    def means() -> Array | None:  # at training and new points alike, the point itself left out
        w = kernel_sums(own, own, xp.ones((len(own), 1)), rule)
        share = 1.0 / w**options.alpha
        values = xp.concatenate([share, share * few.embedding.coordinates], axis=1)
        sums = kernel_sums(X, own, values, rule._replace(self_loops=False))
        return sums[:, 1:] / sums[:, :1] if bool((sums[:, 0] > 0).all()) else None

    with reporting(lambda done, total: None):  # the scan counts bandwidths
        return backend.retried("scan", means)
