"""The memory plan: what each way of storing a kernel takes, in time too, and which one fits; decided before the work.

With n points in D columns, ``z = n (degree + 1)`` matrix entries, m eigenvectors, dimension d and w bytes per stored
number, :func:`bytes_by_stage` has the bytes of each stage, on top of what the process holds at the start. The ways are
those of ``WORDS``; tiles take ``2 n^2`` bytes, for a graph that joins a good part of all pairs. Without room for the
multilevel method the eigenvectors come from Lanczos.
"""

from __future__ import annotations

from math import gamma, pi
from typing import Any, NamedTuple

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.base import WIDE
from ..findings import Finding, OutOfMemoryError, option, refusal, tell, warning
from ..options import Options
from .eigensolvers.choose_solver import NEIGHBOURHOODS_IN_ORDER, has_many_neighbourhoods
from .eigensolvers.multilevel import GUARDS, MERGED_UP_TO
from .eigensolvers.ritz import COLUMNS_AT_ONCE, FEWEST_COLUMNS
from .graph import GROWTH, is_mapped
from .tiles import TILE

SAMPLED = 64 << 20
TEMPORARY = 64 << 20  # of tiles: one in float64, and the products with it
BUFFERS = 4 << 20  # what rows of the graph are computed in, whatever their number
SLOW = 2.0  # a choice that takes more than this many times as long as with enough memory is announced,
SHORT = 5.0  # unless it takes no more than these seconds
MANY = 10_000  # points of a GPU from which on computing all pairs for every product is announced
SPREAD = 1.05  # the mean degree comes from a sample

# Seconds of one thread for one entry, one row or one number of a vector, on a core of an AMD EPYC.
GRAPH, TANGENT = 2.5e-8, 1e-9
EIGEN, EIGEN_ROW = 3.6e-9, 6e-7
PRODUCT, VECTORS, TILED = 4.5e-10, 4e-10, 1.5e-8
WORDS = {
    "memory": "a sparse matrix in memory",
    "tiles": "dense tiles in memory",
    "recomputed": "tiles that are recomputed for every product",
}


class Size(NamedTuple):
    """The numbers that everything follows from: points, columns, entries, eigenvectors, d, bytes per number."""

    n: int
    D: int
    z: float
    m: int
    d: int
    w: int

    @property
    def matrix(self) -> float:
        return (self.w + (4 if self.z < WIDE else 8)) * self.z

    @property
    def wants_multilevel(self) -> bool:
        return has_many_neighbourhoods(self.n, self.z, self.m + 1, NEIGHBOURHOODS_IN_ORDER)


class Plan(NamedTuple):
    """How to store a kernel: whether multilevel fits, the bytes, the seconds, over those of the quickest way."""

    storage: str
    multilevel: bool
    bytes: float
    seconds: float
    factor: float

    @property
    def slow(self) -> bool:
        return self.factor > SLOW and self.seconds > SHORT


def plan_storage(X: Array, degree: float, options: Options) -> tuple[str, dict[str, Any]]:
    """Return how to store the kernel, as CSR if that fits, else as tiles, and facts for ``diagnostics``."""
    backend, n, width = backend_of(X), len(X), options.stored_bytes
    limit, is_limited = backend.memory_budget(), options.memory_limit is not None
    if backend.device != "cpu":
        storage, needed = storage_on_gpu(n, degree, width, limit)
        if storage == "recomputed" and n >= MANY:
            tell(slow(True, limit, is_limited, needed if needed <= backend.free_memory() else None))
        return storage, {"kernel": WORDS[storage]}
    columns = 0 if is_mapped(X) else X.shape[1]  # the pages of a mapped file are the system's
    size = Size(n, columns, SPREAD * n * (degree + 1), options.n_components, options.intrinsic_dim, width)
    chosen = plan(size, limit, is_limited)
    if chosen.slow:
        tell(slow(chosen.storage == "recomputed", limit, is_limited, smallest_limit(size, SLOW)))
    facts = {"kernel": WORDS[chosen.storage], "multilevel_fits": chosen.multilevel}
    return chosen.storage, facts | {"planned_bytes": int(chosen.bytes), "expected_factor": round(chosen.factor, 2)}


def plan(size: Size, limit: float, asked: bool = True) -> Plan:
    """Return the quickest way that fits into a memory limit; raise if none does."""
    ways = ways_of(size)
    for (storage, fast), took in ways:
        most = max(bytes_by_stage(size, storage, fast, block_bytes(limit)).values())
        if most <= limit:
            return Plan(storage, fast, most, took, took / ways[0][1])
    raise over_limit(size, limit, 1.02 * smallest_limit(size, np.inf), asked)


def ways_of(size: Size) -> list[tuple[tuple[str, bool], float]]:
    """Return the ways to store a kernel, each with and without the multilevel solver, and their seconds, rising."""
    ways = [("memory", True)] * size.wants_multilevel + [(storage, False) for storage in WORDS]
    return sorted(((way, seconds(size, *way)) for way in ways), key=lambda pair: pair[1])


def storage_on_gpu(n: int, degree: float, width: int, budget: float) -> tuple[str, float]:
    """Return the way on a GPU, a sparse matrix that takes half of the budget at most, or tiles; and twice its bytes."""
    needed = 2.2 * n * degree * (width + 4)  # a tenth is for what the sample of degrees may be off
    if needed <= budget:
        return "memory", needed
    return "tiles" if 4.0 * n * n < budget else "recomputed", needed


def smallest_limit(size: Size, slowest: float) -> float:
    """Return the smallest limit under which a run takes at most so many times as long as with enough memory."""
    ways, least = ways_of(size), np.inf
    for way, took in ways:
        if took <= slowest * ways[0][1]:
            limit = 0.0
            for _ in range(40):  # needs grow with the limit, since blocks do, but far more slowly
                limit = max(bytes_by_stage(size, *way, block_bytes(limit)).values())
            least = min(least, 1.0001 * limit)
    return least


def block_bytes(limit: float) -> float:  # as that of a backend
    return max(1 << 20, min(64 << 20, limit / 16))


def bytes_by_stage(size: Size, storage: str, multilevel: bool, block: float) -> dict[str, float]:
    n, z, points = size.n, size.z, 8.0 * size.n * size.D
    coordinates, vectors = 8.0 * n * size.m, n * (28.0 * (size.m + 5) + 300)
    if multilevel:
        width = size.m + 1 + GUARDS
        again = 32.0 * min(width, max(FEWEST_COLUMNS, COLUMNS_AT_ONCE // n))  # images in float64, columns at a time
        directions = 8.0 * (-(-(size.m + 1) // 8) * 8)  # those of the last step and their images; as many new ones
        vectors = n * (80.0 + 12.0 * width + directions + max(directions, again))
        vectors += (1.1 + (2.5 if n <= MERGED_UP_TO else 0.0) + (4.0 if size.w == 8 else 0.0)) * z
    held = {"memory": size.matrix, "tiles": 2.0 * n * n}.get(storage, 0.0)
    work = 0.0 if storage == "memory" else points + TEMPORARY
    rows = min(2 * block, 40 * z) + BUFFERS  # that are being computed
    build = GROWTH * held + rows if storage == "memory" else held + work
    count = 8 * z if size.w == 4 and storage == "memory" else 0.0
    here = points + work + held
    return {
        "checks": 2 * points + min(SAMPLED, 1200.0 * n, 2 * block),
        "graph": 3 * points + build,
        "laplacian": 2 * points + work + held + count + 40.0 * n,
        "eigenvectors": here + vectors,
        "tangents": here + 2 * coordinates + float(size.w) * n * size.m * size.d,
        "result": points + coordinates + 2 * arrays_out(size),
    }


def arrays_out(size: Size) -> float:
    return size.n * (8.0 * size.m + size.w * size.m * size.d + size.w * size.d + 8.0 * 12)


def seconds(size: Size, storage: str, multilevel: bool) -> float:
    """Return rough seconds of one thread for graph, eigenvectors and tangents; where both fit, the better method's.

    Lanczos needs ``60 + 47 / sqrt(1 - mu)`` products in our runs, with those that look for missed copies; mu is from
    Weyl's law.
    """
    n, z, d = size.n, size.z, size.d
    begin = GRAPH * z * (1 + size.D / 16) + TANGENT * z * size.m
    product = PRODUCT * z
    if storage != "memory":  # both sides of a tile are longer than the neighbourhood of a point
        entries = min(0.5 * n * n, 0.5 * n * (z / n + 8 * TILE))
        product = entries * (TILED if storage == "recomputed" else PRODUCT)
    share = (size.m + 1) * z / (n * pi ** (d / 2) / gamma(d / 2 + 1)) ** 2
    products = 60 + 47 / min(1.0, pi**2 / 9 * share ** (2 / d)) ** 0.5
    lanczos = products * (product + VECTORS * n * 2 * (size.m + 5) * 2)
    cells = (EIGEN * z + EIGEN_ROW * n) * (size.m + 1)
    return begin + (min(cells, lanczos) if multilevel else lanczos)


def slow(recomputed: bool, limit: float, asked: bool, enough: float | None) -> Finding:
    """Return the warning about a choice that takes long for want of memory; ``enough`` bytes would avoid it."""
    reason = "the kernel is recomputed for every product" if recomputed else "a slower eigensolver is used"
    whose = option("memory_limit") if asked else "half of the free memory"
    text = f"{whose} is {limit / 1e9:.2f} GB, so {reason}, which takes much longer than with enough memory"
    more = "" if enough is None else f"{option('memory_limit', rounded(enough))} would avoid it; "
    advice = f"{more}{option('dtype', 'mixed')} or a smaller {option('bandwidth')} need less"
    return warning("memory.slow", text, advice)


def over_limit(size: Size, limit: float, needed: float, asked: bool) -> Exception:
    whose = option("memory_limit", int(limit)) if asked else f"half of the free memory, {limit / 1e9:.2f} GB,"
    text = f"{whose} is too little for {size.n:,} points with {max(0, size.z / size.n - 1):.0f} neighbours each and "
    text += f"{size.m} components: at least {rounded(needed)} bytes are needed"
    advice = f"pass {option('memory_limit', rounded(needed))} or more, or use fewer points or components"
    return refusal("memory.too_little", text, advice, ValueError if asked else OutOfMemoryError)


def rounded(size: float) -> int:
    step = 10 ** max(3, len(str(int(size))) - 3)
    return -(-int(size) // step) * step
