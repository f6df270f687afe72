"""Points of uneven density: a bandwidth that follows the density, tried beside fixed ones."""

from __future__ import annotations

from dataclasses import replace

from ..backend import backend_of
from ..backend.array import Array
from ..embedding.local import default_neighbors
from ..errors import DisconnectedGraphError
from ..options import LOCAL, Options, is_auto
from ..run.log import HeldLog
from ..run.run import Run
from .bandwidth import Distances
from .scan import CHEAP, DENSEST, SMALL, TIE, Scan, largest_size
from .trial import trial

UNEVEN = 10.0  # from here on a bandwidth that follows the density is tried; between two evenly spread corners it is 4
FEW_DIMS = 2  # in more dimensions, few points look uneven by chance
SHARES = (5, 95)  # percentiles of the points, by their density


def unevenness(distances: Distances, d: int) -> float:
    """How many times as dense points in d dimensions are where they are dense as where they are sparse.

    The distance r to the k-th neighbour tells the density ``r^(-d)``; compared are its 5th and 95th percentiles.
    """
    xp, k = backend_of(distances.table).xp, default_neighbors(distances.table.shape[1])
    dense, sparse = xp.percentile(xp.sort(distances.table, axis=1)[:, k], xp.asarray(SHARES))
    return (
        float((sparse / dense) ** min(d, FEW_DIMS)) if dense > 0 else 1.0
    )  # of copies, no bandwidth could follow the density


def settled(tried: Scan, d: int, options: Options) -> int:
    """The number of coordinates asked for, or the one that the trials settle."""
    asked = options.subset_size
    return tried.settle(d, largest_size(d, options.n_components)) if is_auto(asked) else asked


def explains_the_shape(fixed: Scan, s: int) -> bool:
    """Whether the best set of s leaves nothing visible of all points, but what more of them would explain anyway."""
    best = fixed.best(s)
    return best.share == 1 and best.limit(s).value <= SMALL


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
    if fixed is not None and not only_one and len(Z) > CHEAP and explains_the_shape(fixed, settled(fixed, d, options)):
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
