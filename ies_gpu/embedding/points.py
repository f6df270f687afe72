"""The Laplacian of points: which radius suits them, how the kernel is stored, and the steps from graph to Laplacian.

Memory is planned before the work: :func:`bytes_by_stage` has the bytes of each stage, on top of what the process holds
at the start. Without room for the multilevel method the eigenvectors come from Lanczos.
"""

from functools import partial
from math import gamma, pi
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from ..backend import Backend, Do, backend_of, call, step
from ..backend.array import Array, extent, few_on_host
from ..backend.base import WIDE
from ..findings import DisconnectedGraphError, Finding, OutOfMemoryError, option, refusal, tell, warning
from ..options import Options, documented, explain_keywords, is_local
from ..validation import check_choice, check_flag, check_integer, check_length, check_number
from .eigensolvers.choose_solver import NEIGHBOURHOODS_IN_ORDER, has_many_neighbourhoods
from .eigensolvers.multilevel import GUARDS, MERGED_UP_TO
from .eigensolvers.ritz import COLUMNS_AT_ONCE, FEWEST_COLUMNS
from .graph import GROWTH, is_mapped, ordered_radius_graph, pieces, points_in_metric, rescale_to_radius, sort_in_space
from .laplacian import Laplacian, Matrix, Rows, SparseMatrix, apply_gaussian, audited_kernel, normalise, with_transition
from .local import LocalKernel, local_laplacian, nearest_kernel
from .parts import PARTS, SCATTERED, STRAY, largest_part, tell_left_out
from .tiles import TILE, TiledMatrix

SAMPLE = 400  # rows whose degree is counted before any long work
MANY, SURE = 2_000_000, 50  # counting stops after this many neighbours, but not before this many rows
CROWDED = 0.8  # a radius that joins more than this share of all pairs is no advice; nor do weights this large differ
TEMPORARY = 64 << 20  # of tiles: one in float64, and the products with it
BUFFERS = 4 << 20  # what rows of the graph are computed in, whatever their number
SLOW = 2.0  # a choice that takes more than this many times as long as with enough memory is announced,
SHORT = 5.0  # unless it takes no more than these seconds
MANY_ON_GPU = 10_000  # points of a GPU from which on computing all pairs for every product is announced
SPREAD = 1.05  # the mean degree comes from a sample

# Seconds of one thread for one entry, one row or one number of a vector, on a core of an AMD EPYC.
GRAPH, TANGENT = 2.5e-8, 1e-9
EIGEN, EIGEN_ROW = 3.6e-9, 6e-7
PRODUCT, VECTORS, TILED = 4.5e-10, 4e-10, 1.5e-8
WORDS = {  # tiles take 2 n^2 bytes, for a graph that joins a good part of all pairs
    "memory": "a sparse matrix in memory",
    "tiles": "dense tiles in memory",
    "recomputed": "tiles that are recomputed for every product",
}


@explain_keywords
@documented
@step("laplacian", composite=True)
def laplacian_of_points(
    X: Array, *, bandwidth: float | str, radius: float | None = None, n_neighbors: int | None = None,
    self_loops: bool = True, metric: str = "euclidean", alpha: float = 1.0, intrinsic_dim: int | None = None,
    dtype: str = "float64", disconnected: str = "keep", asked: Options | None = None, do: Do = call,
) -> Laplacian:  # fmt: skip
    """Return the renormalised Laplacian of points.

    These are the steps :func:`radius_graph`, :func:`gaussian_kernel` and :func:`graph_laplacian` in one call.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, one row per point. The result is on their device.
    bandwidth : float or "local"
        The length eps over which the weight of a neighbour falls. With ``"local"`` it follows the density.
    radius : float, optional
        Points no further apart than this are neighbours, by default ``3 * bandwidth``.
    n_neighbors : int, optional
        Join each point to so many nearest ones, instead of those within a radius.
    {self_loops, metric, alpha}
    intrinsic_dim : int, optional
        The dimension of the manifold, which ``bandwidth="local"`` needs.
    dtype : {"float64", "float32"}, default="float64"
        The precision in which the matrix is stored.
    disconnected : {"keep", "raise", "most", "largest"}, default="keep"
        What to do if the graph falls into parts: keep them all, or as in :func:`select_coordinates`.
    asked : Options, optional
        The options of a run, which stores the kernel as the memory allows; without, the matrix is sparse.
    do : callable, optional
        Calls the steps, ``do(step, *arguments)``; a run takes its place.

    Returns
    -------
    Laplacian
        The Laplacian. Its matrix stands in the order of space, ``laplacian.transition`` in the order of ``X``.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8).shape
    (400, 400)
    """
    self_loops = check_flag("self_loops", self_loops)
    alpha = check_number("alpha", alpha, low=0.0, high=1.0, closed=True)
    check_choice("dtype", dtype, ("float64", "float32"))
    check_choice("disconnected", disconnected, ("keep", "raise", "most", "largest"))
    # a run has checked its points, and placed them in the metric
    X, m = (points_in_metric(X, metric), None) if asked is None else (X, asked.n_components)
    eps = None if is_local(bandwidth) else check_length("bandwidth", bandwidth)
    reach = 0.0 if eps is None else 3 * eps if radius is None else check_length("radius", radius)
    if n_neighbors is not None and check_integer("n_neighbors", n_neighbors, low=2) >= len(X):
        text = f"{option('n_neighbors')} must be at most {len(X) - 1} for {len(X)} points, got {n_neighbors}"
        raise refusal("n_neighbors.range", text)
    if eps is None and intrinsic_dim is None:
        text = f"{option('intrinsic_dim')} is required with {option('bandwidth', 'local')}"
        raise refusal("intrinsic_dim.local", text)
    if eps is None or n_neighbors is not None:
        make = partial(do, nearest_kernel, bandwidth=eps, n_neighbors=n_neighbors, dtype=dtype)
    else:
        degree = 0.0 if asked is None else do(sampled_degree, X, reach, eps, disconnected)
        make = partial(kernel_within, radius=reach, bandwidth=eps, dtype=dtype, degree=degree, asked=asked, do=do)
    kernel, rows, facts = connected_kernel(X, make, disconnected, m, do)
    del X
    if isinstance(kernel, LocalKernel):
        found = do(local_laplacian, do(audited_kernel, kernel, True), intrinsic_dim)
    else:
        found = do(normalise, do(audited_kernel, kernel, self_loops), eps, alpha)
    return with_transition(found, found.operator, rows=rows, facts=facts)


def connected_kernel(
    X: Array, make: Any, disconnected: str, n_components: int | None, do: Do
) -> tuple[Matrix, Rows, dict[str, Any]]:
    """Return the kernel that ``make`` gives for ordered points, of the part asked for, its rows, and what is known."""
    backend, n_input, used, count = backend_of(X), len(X), np.arange(len(X)), 0
    while True:
        order, X = do(sort_in_space, X)
        kernel, storage = make(X)
        parts, labels = (0, used) if disconnected == "keep" else do(kernel.components)
        count = max(count, parts)
        if parts <= 1:
            break
        rows, join = backend.to_host(order), partial(connecting_radius, X, labels, backend)
        keep = np.sort(rows[largest_part(labels, used[rows], n_input, disconnected, n_components, join)])
        X, used = X[backend.asarray(np.argsort(rows)[keep])], used[keep]
        del kernel
    if len(used) < n_input:
        tell_left_out(count, len(used), n_input, used)
    degree = kernel.nnz / len(X) - (not isinstance(kernel, LocalKernel))
    facts = {"graph_components": count or None, "mean_degree": degree, "storage": storage}
    facts["approximations"] = list(kernel.approximations)
    return kernel, Rows(n_input, used, backend.to_host(order), True), facts


def kernel_within(
    X: Array, radius: float, bandwidth: Any, dtype: str, degree: float, asked: Options | None, do: Do
) -> tuple[Matrix, dict[str, Any]]:
    """Return the Gaussian kernel of ordered points, stored as the memory allows, and how: for ``diagnostics``."""
    chosen, facts = ("memory", {}) if asked is None else plan_storage(X, degree, asked)
    if chosen != "memory":
        return do(tiled_kernel, X, radius, bandwidth, chosen == "tiles"), facts
    if dtype == "float32":  # whose range is short: lengths near 1, by a power of two, so no digit changes
        X, radius, unit = rescale_to_radius(radius, X)
        bandwidth = bandwidth / unit
    graph = do(ordered_radius_graph, X, radius, diagonal=True, storage=dtype)
    kernel, backend = SparseMatrix(do(apply_gaussian, graph, bandwidth)), backend_of(X)
    if backend.device == "cpu":  # what the rows of the graph were computed in
        backend.free_cache()
    return kernel, facts


@step("graph")
def tiled_kernel(X: Array, radius: float, bandwidth: float, keep: bool) -> TiledMatrix:
    return TiledMatrix(X, bandwidth=bandwidth, radius=radius, store=keep)


# --- is the graph connected? -----------------------------------------------------------------------------------------


@step("neighbours")
def sampled_degree(X: Array, radius: float, bandwidth: float, disconnected: str) -> float:
    """Return the mean degree of sampled rows; refuse a kernel that isolates most points or hardly tells them apart."""
    backend, rows = backend_of(X), sampled_rows(len(X))
    degrees = sampled_counts(X, rows, radius) - 1
    alone = degrees == 0
    # a few stray points are left to the full graph, whose error can say how many parts there are
    enough = {"raise": STRAY, "most": 2 * SCATTERED[0], "largest": 1 - 1e-9}[disconnected]
    if alone.sum() > enough * len(degrees):
        unit, longest = extent(X), 0.0
        for row in rows[: len(degrees)][alone][:50].tolist():
            squared = (((X - X[row]) / unit) ** 2).sum(axis=1)
            squared[row] = backend.xp.inf
            longest = max(longest, float(squared.min()))
        text = f"{alone.sum()} of {len(degrees)} sampled points have no neighbour within "
        advice = f"raise {option('bandwidth')} (by default a third of the radius), or {option('radius')} if you set one"
        advice += f": the nearest is up to {unit * longest**0.5:.3g} away"
        raise refusal("graph.isolated", f"{text}{option('radius', float(radius))}", advice, DisconnectedGraphError)
    if (degrees == len(X) - 1).all():  # then their weights alone show the shape
        refuse_alike(X, X[backend.asarray(rows[:SURE])], len(X), bandwidth)
    return float(degrees.mean() + 1)


def sampled_rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).choice(n, size=min(SAMPLE, n), replace=False)


def refuse_alike(X: Array, some: Array, n: int, bandwidth: float) -> None:
    """Raise if the mean weight of pairs is so near 1 that each of some points is as near to X as any other."""
    backend, total = backend_of(X), 0.0
    for piece in pieces(X):
        for point in some:
            ratio = (piece - point) / bandwidth
            total += float(backend.xp.exp(-(ratio * ratio).sum(axis=1)).sum())
    if (weight := total / len(some) / len(X)) > CROWDED:
        text = f"{option('bandwidth', float(bandwidth))} connects every sampled point to all {n} points, with a mean "
        text += f"weight of {weight:.2g}, so no shape is left to see"
        raise refusal("graph.all_pairs", text, f"lower {option('bandwidth')}")


def sampled_counts(X: Array, rows: np.ndarray, radius: float) -> np.ndarray:
    """Return how many points some rows have within the radius, with themselves; only the first if they have many."""
    X = few_on_host(X)
    backend = backend_of(X)  # which may be the host's
    _, reach, unit = rescale_to_radius(radius, X[:1])
    most = 4 * SURE if backend.is_remote else SURE  # there, to wait more often would take longer than to count
    step = max(1, min(most, int(backend.block_bytes() / (24 * len(X)))))
    counts: list[np.ndarray] = []
    for first in range(0, len(rows), step):
        some = X[backend.asarray(rows[first : first + step])] / unit
        found = (backend.kernels.tile_graph(some, piece / unit, reach)[0] for piece in pieces(X))
        counts.append(backend.to_host(sum(found)))
        if sum(count.sum() for count in counts) > MANY and first + step >= SURE:
            break
    return np.concatenate(counts)


def connecting_radius(X: Array, labels: np.ndarray, backend: Backend) -> float | None:
    """Return a radius that joins the largest parts, by distances from some points of each; None if it joined most.

    It is the longest edge of a minimum spanning tree over the parts.
    """
    unit, sizes = extent(X), np.bincount(labels)
    Z = X / unit
    largest = np.argsort(-sizes, kind="stable")[:PARTS]
    apart = np.full((len(largest), len(sizes)), np.inf)
    for number, part in enumerate(largest):
        rows = np.flatnonzero(labels == part)
        for row in rows[:: max(1, len(rows) // PARTS)]:
            difference = Z - Z[int(row)]
            distance = backend.to_host(backend.xp.sqrt((difference * difference).sum(axis=1)))
            np.minimum.at(apart[number], labels, distance)
    apart = apart[:, largest]
    longest = float(minimum_spanning_tree(np.minimum(apart, apart.T)).max())
    radius = 1.001 * unit * longest  # printed with four digits, it must not fall short
    share = sampled_counts(X, sampled_rows(len(X))[:100], radius).mean() / len(X)
    return radius if share <= CROWDED else None


# --- the memory plan: what each way of storing the kernel takes, in time too ------------------------------------------


class Size(NamedTuple):
    """The numbers that everything follows from."""

    n: int  # points
    D: int  # columns
    z: float  # entries of the matrix: n (degree + 1)
    m: int  # eigenvectors
    d: int  # dimension
    w: int  # bytes per stored number

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
        if storage == "recomputed" and n >= MANY_ON_GPU:
            tell(slow(True, limit, is_limited, needed if needed <= backend.free_memory() else None))
        return storage, {"kernel": WORDS[storage]}
    columns = 0 if is_mapped(X) else X.shape[1]  # the pages of a mapped file are the system's
    size = Size(n, columns, SPREAD * n * (degree + 1), options.n_components, options.intrinsic_dim, width)
    chosen = plan(size, limit, is_limited)
    if chosen.slow:
        tell(slow(chosen.storage == "recomputed", limit, is_limited, smallest_limit(size, SLOW)))
    # diffusion_map reads whether the multilevel solver fits
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
        "checks": 2 * points + min(64 << 20, 1200.0 * n, 2 * block),
        "graph": 3 * points + build,
        "laplacian": 2 * points + work + held + count + 40.0 * n,
        "eigenvectors": here + vectors,
        "tangents": here + 2 * coordinates + float(size.w) * n * size.m * size.d,
        "result": points + coordinates + 2 * arrays_out(size),
    }


def arrays_out(size: Size) -> float:
    return size.n * (8.0 * size.m + size.w * size.m * size.d + size.w * size.d + 8.0 * 12)


def seconds(size: Size, storage: str, multilevel: bool) -> float:
    """Return rough seconds of one thread for graph, eigenvectors and tangents; where both fit, the better method's."""
    n, z, d = size.n, size.z, size.d
    begin = GRAPH * z * (1 + size.D / 16) + TANGENT * z * size.m
    product = PRODUCT * z
    if storage != "memory":  # both sides of a tile are longer than the neighbourhood of a point
        entries = min(0.5 * n * n, 0.5 * n * (z / n + 8 * TILE))
        product = entries * (TILED if storage == "recomputed" else PRODUCT)
    # Lanczos needs 60 + 47 / sqrt(1 - mu) products in our runs, with those that look for missed copies; by Weyl's law:
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
