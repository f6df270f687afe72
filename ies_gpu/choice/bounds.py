"""How good the sets that contain a given set can be at most."""

from __future__ import annotations

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from .increments import SOUND, block_sums, increment_bytes, increments
from .pool import Subset


class Bounds:
    """For A: a level and a weight for each coordinate, so that ``R(S) <= level + sum of the weights of S - A``.

    With r coordinates to come, submodularity of R1 and, since the logarithm is concave, Jensen's inequality for
    ``a_c + sum_k u_kc^2`` in R2 give at every point ::

        R(S; i) <= R(A; i) + sum_{k in S - A} [ 1/2 log(1 + u_k' G_A^-1 u_k) - 1/(2r) sum_c log(1 + r u_kc^2 / a_c) ]

    The second term is what R2 gains at least; without it this is the plain bound by the gains of R1. A point counts 0
    instead where A is singular or where its own best r coordinates would bring the right-hand side above 0: R <= 0. The
    mean over points is taken before coordinates are chosen, which bounds all sets more tightly than choosing at every
    point. Neither depends on zeta, so that they are kept.
    """

    def __init__(self, bases: Array, s: int) -> None:
        self.bases, self.s = bases, s
        self.known: dict[Subset, tuple[float, np.ndarray]] = {}

    def of(self, members: Subset) -> tuple[float, np.ndarray]:
        """Level and weights (m,)."""
        _, m, d = self.bases.shape
        if len(members) < d:
            return 0.0, np.zeros(m)
        if members not in self.known:
            self.known[members] = self._computed(members)
        return self.known[members]

    def _computed(self, members: Subset) -> tuple[float, np.ndarray]:
        backend = backend_of(self.bases)
        xp, (_, m, d), r = backend.xp, self.bases.shape, self.s - len(members)
        others = backend.asarray(np.setdiff1d(np.arange(m), members))

        def level_and_weights(U: Array) -> Array:
            found = increments(U, members)
            score = found.first - found.second
            gains = 0.5 * xp.log1p(found.quadratic)
            for ratio in found.ratios:
                gains -= xp.log1p(r * ratio) / (2 * r)
            gains = xp.maximum(gains, SOUND / r)  # so that the sum does not fall below the floor of the score
            highest = xp.sort(gains[:, others], axis=1)[:, -r:].sum(axis=1)
            counts = ((score > SOUND) & (score + highest < 0)).astype(xp.float64)
            return xp.concatenate([(counts @ score)[None], counts @ gains])

        sums = block_sums(self.bases, increment_bytes(m, d), level_and_weights)
        level, *weights = (sums / len(self.bases)).tolist()
        return level, np.array(weights)
