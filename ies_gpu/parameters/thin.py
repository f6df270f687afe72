"""Trials on a part of the points: a wide kernel is as full on fewer of them, and its eigenvectors are smooth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..backend.array import Array
from ..backend.sampling import sample_rows
from ..embedding.laplacian import with_transition
from ..embedding.nystrom import KernelRule, kernel_sums
from ..embedding.order import Rows
from ..errors import DisconnectedGraphError
from ..run.log import HeldLog
from ..run.run import Run
from .trial import Trial, trial

FEW = 2500  # rows, and no fewer
NEARLY_ALL = 0.8  # a share of the rows from which on leaving out the others saves too little


def some_rows(n: int, share: float, random_state: int) -> np.ndarray | None:
    """Numbers of a share of n rows, rising, drawn with the seed; None where that would be nearly all."""
    size = max(FEW, round(share * n))
    return None if size > NEARLY_ALL * n else sample_rows(n, size, random_state)


def thin_trial(
    X: Array, bandwidth: float, d: int, run: Run, log: HeldLog, disconnected: str, rows: np.ndarray
) -> Trial | None:
    """A trial whose eigenvectors come from some rows of X and are extended to all; None where they do not reach all.

    What the sets explain is measured on all points, as in every other trial, and the search for them sees the tangents
    at the rows. Since all points have a neighbour among the rows, which hang together, the graph of all does so too.
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
    """The eigenvectors of a trial on few points at points (n, D), to a factor each; None where a point is out of reach.

    Each point, one of the few or not, gets the mean over the others that the Laplacian takes, so that all are alike.
    """
    options, backend, own = few.run.options, few.run.backend, few.X
    xp, rule = backend.xp, KernelRule(options.bandwidth, options.radius, options.self_loops)

    def means() -> Array | None:
        w = kernel_sums(own, own, xp.ones((len(own), 1)), rule)
        share = 1.0 / w**options.alpha
        values = xp.concatenate([share, share * few.embedding.coordinates], axis=1)
        sums = kernel_sums(X, own, values, rule._replace(self_loops=False))
        return sums[:, 1:] / sums[:, :1] if bool((sums[:, 0] > 0).all()) else None

    return backend.retried("scan", means)
