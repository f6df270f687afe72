"""The kernels for the host, fused and threaded with Numba.

Results do not depend on the number of threads: a row is computed by one thread, and sums over points are taken in
parts of a fixed size and order. Nothing is compiled on import; what a first call compiles is kept on disk.
"""

from __future__ import annotations

from .. import kernels_in
from .. import of_plain as __getattr__  # where there is no fused loop
from . import neighbours, products, scores, tangent
from .tasks import threads as threads

globals().update(kernels_in(neighbours, products, scores, tangent))

NAME = "numba"


def score_bytes(q: int, s: int, d: int) -> float:
    """What scoring takes for one point: the sets are walked one at a time, so only a row of a table of scores."""
    return 8.0 * (q + 64)


table_bytes = score_bytes  # of log_volumes, which walks the sets too
