"""The kernels for the host, fused and threaded with Numba.

Results do not depend on the number of threads: a row is computed by one thread, and sums over points are taken in
parts of a fixed size and order. Nothing is compiled on import; what a first call compiles is kept on disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numba

from .. import kernels_in
from .. import of_plain as __getattr__  # where there is no fused loop
from . import ahead, matching, multilevel, neighbours, order, products, scores, tangent

globals().update(kernels_in(matching, multilevel, neighbours, order, products, scores, tangent))

NAME = "numba"


def score_bytes(q: int, s: int, d: int) -> float:
    """What scoring takes for one point: the sets are walked one at a time, so only a row of a table of scores."""
    return 8.0 * (q + 64)


table_bytes = score_bytes  # of log_volumes, which walks the sets too


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Context in which the kernels use ``count`` threads, or as many as Numba was started with if that is less."""
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, min(count, numba.config.NUMBA_NUM_THREADS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)
