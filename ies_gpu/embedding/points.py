"""The Laplacian of points, of all or the largest part: is the graph connected at a radius, and the error if it is not.

Graph, kernel and normalisation are steps, which :func:`laplacian_of_points` calls one after the other.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from ..backend import Backend, Do, backend_of, call, step
from ..backend.array import Array, extent
from ..findings import DisconnectedGraphError, Finding, first_few, option, refusal, tell, warning
from ..options import explain_keywords, is_local
from ..validation import check_choice, check_flag, check_integer, check_length, check_number
from .cost import Room, plan_storage
from .graph import TILE_COLUMNS, check_metric, knn_graph, ordered_radius_graph, points_in_metric, rescale_to_radius
from .laplacian import Laplacian, apply_gaussian, facts_of, normalise, with_diagonal, with_transition, without_loops
from .local import LocalKernel, default_neighbors, local_kernel, local_laplacian
from .order import Rows, in_order, spatial_order
from .transition import Matrix, SparseMatrix, TiledMatrix

SAMPLE = 400  # rows whose degree is counted before any long work
MANY, SURE = 2_000_000, 50  # counting stops after this many neighbours, but not before this many rows
STRAY = 0.05  # share of the points that disconnected="most" may leave out,
SCATTERED = 0.1, 0.01  # or the first share, if no part left out holds more than the second: strays, not clusters
CROWDED = 0.8  # a radius that joins more than this share of all pairs is no advice; nor do weights this large differ
PARTS = 50  # the largest ones, and points of each, from which a radius that joins them is found


@explain_keywords
@step("laplacian", composite=True)
def laplacian_of_points(
    X: Array, *, bandwidth: float | str, radius: float | None = None, n_neighbors: int | None = None,
    self_loops: bool = True, metric: str = "euclidean", alpha: float = 1.0, intrinsic_dim: int | None = None,
    dtype: str = "float64", disconnected: str = "keep", room: Room | None = None, do: Do = call,
) -> Laplacian:  # fmt: skip
    """Return the renormalised Laplacian of points: radius graph, Gaussian kernel and Laplacian in one call.

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
    self_loops : bool, default=True
        Whether each point is its own neighbour, with ``K_ii = 1``.
    metric : str, default="euclidean"
        How distances are measured, as in :func:`select_coordinates`.
    alpha : float, default=1.0
        How strongly the sampling density is corrected for, as in :func:`graph_laplacian`.
    intrinsic_dim : int, optional
        The dimension of the manifold, which ``bandwidth="local"`` needs.
    dtype : {"float64", "float32"}, default="float64"
        The precision in which the matrix is stored.
    disconnected : {"keep", "raise", "most", "largest"}, default="keep"
        What to do if the graph falls into parts: keep them all, or as in :func:`select_coordinates`.
    room : Room, optional
        What a run will hold beside the matrix. It then stores the kernel as the memory allows, and counts neighbours of
        some points first; by default it is a sparse matrix.
    do : callable, optional
        Calls the steps, ``do(step, *arguments)``; a run takes its place.

    Returns
    -------
    Laplacian
        The Laplacian. Its matrix stands in the order of space, ``laplacian.transition`` in the order of ``X``.

    See Also
    --------
    radius_graph, gaussian_kernel, graph_laplacian : The three steps, for a graph or a kernel of your own.

    Examples
    --------
    >>> import ies_gpu
    >>> strip = ies_gpu.datasets.load("D1", n_samples=400)
    >>> ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8).shape
    (400, 400)
    """
    self_loops = check_flag("self_loops", self_loops)
    alpha = check_number("alpha", alpha, low=0.0, high=1.0, closed=True)
    check_metric(metric)
    check_choice("dtype", dtype, ("float64", "float32"))
    check_choice("disconnected", disconnected, ("keep", "raise", "most", "largest"))
    # a run has checked its points, and placed them in the metric
    X, m = (points_in_metric(X, metric), None) if room is None else (X, room.n_components)
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
        degree = 0.0 if room is None else do(sampled_degree, X, reach, eps, disconnected)
        make = partial(kernel_within, radius=reach, bandwidth=eps, dtype=dtype, degree=degree, room=room, do=do)
    kernel, rows, facts = connected_kernel(X, make, disconnected, m, do)
    del X
    if isinstance(kernel, LocalKernel):
        found = do(local_laplacian, do(without_loops, kernel, True), intrinsic_dim)
    else:
        found = do(normalise, do(without_loops, kernel, self_loops), eps, alpha)
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
        rows = backend.to_host(order)
        keep = np.sort(rows[largest_part(labels, used[rows], n_input, disconnected, n_components, X)])
        X, used = X[backend.asarray(np.argsort(rows)[keep])], used[keep]
        del kernel
    tell_left_out(used, n_input, count)
    degree = kernel.nnz / len(X) - (not isinstance(kernel, LocalKernel))
    facts = facts_of(count or None, degree, kernel.approximations, storage)
    return kernel, Rows(n_input, used, backend.to_host(order), True), facts


def kernel_within(
    X: Array, radius: float, bandwidth: Any, dtype: str, degree: float, room: Room | None, do: Do
) -> tuple[Matrix, dict[str, Any]]:
    """Return the Gaussian kernel of ordered points, stored as the memory allows, and how: for ``diagnostics``."""
    chosen, facts = ("memory", {}) if room is None else plan_storage(X, degree, dtype, room)
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


@step("order")
def sort_in_space(X: Array) -> tuple[Array, Array]:
    order = spatial_order(X)
    return order, in_order(X, order)


@step("graph")
def tiled_kernel(X: Array, radius: float, bandwidth: float, keep: bool) -> TiledMatrix:
    return TiledMatrix(X, bandwidth=bandwidth, radius=radius, store=keep)


@step("graph")
def nearest_kernel(
    X: Array, bandwidth: float | None, n_neighbors: int | None, dtype: str
) -> tuple[SparseMatrix, dict[str, Any]]:
    k = default_neighbors(len(X)) if n_neighbors is None else min(n_neighbors, len(X) - 1)
    if bandwidth is None:
        kernel: SparseMatrix = local_kernel(X, k)
    else:
        kernel = SparseMatrix(with_diagonal(apply_gaussian(knn_graph(X, n_neighbors=k), bandwidth)))
    kernel.matrix.data = kernel.matrix.data.astype(dtype, copy=False)
    return kernel, {}


# --- is the graph connected? -----------------------------------------------------------------------------------------


@step("neighbours")
def sampled_degree(X: Array, radius: float, bandwidth: float, disconnected: str) -> float:
    """Return the mean degree of sampled rows; refuse a kernel that isolates most points or hardly tells them apart."""
    backend, rows = backend_of(X), sampled_rows(len(X))
    degrees = sampled_counts(X, rows, radius, backend) - 1
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
    for first in range(0, len(X), TILE_COLUMNS):
        piece = backend.asarray(X[first : first + TILE_COLUMNS])
        for point in some:
            ratio = (piece - point) / bandwidth
            total += float(backend.xp.exp(-(ratio * ratio).sum(axis=1)).sum())
    if (weight := total / len(some) / len(X)) > CROWDED:
        text = f"{option('bandwidth', float(bandwidth))} connects every sampled point to all {n} points, with a mean "
        text += f"weight of {weight:.2g}, so no shape is left to see"
        raise refusal("graph.all_pairs", text, f"lower {option('bandwidth')}")


def sampled_counts(X: Array, rows: np.ndarray, radius: float, backend: Backend) -> np.ndarray:
    """Return how many points some rows have within the radius, with themselves; only the first if they have many."""
    _, reach, unit = rescale_to_radius(radius, X[:1])
    most = 4 * SURE if backend.is_remote else SURE  # there, to wait more often would take longer than to count
    step = max(1, min(most, int(backend.block_bytes() / (24 * len(X)))))
    counts: list[np.ndarray] = []  # piece by piece: a mapped file may be larger than what its copies would leave free
    for first in range(0, len(rows), step):
        some = X[backend.asarray(rows[first : first + step])] / unit
        pieces = (backend.asarray(X[k : k + TILE_COLUMNS]) / unit for k in range(0, len(X), TILE_COLUMNS))
        counts.append(backend.to_host(sum(backend.kernels.tile_graph(some, piece, reach)[0] for piece in pieces)))
        if sum(count.sum() for count in counts) > MANY and first + step >= SURE:
            break
    return np.concatenate(counts)


# --- parts of a graph that is not ------------------------------------------------------------------------------------


def largest_part(
    labels: np.ndarray, rows: np.ndarray, n_input: int, disconnected: str, n_components: int | None, X: Array = None
) -> np.ndarray:
    """Return the places of the largest part; an error, with a way out, if it holds fewer points than asked for.

    ``labels`` (n,) are the part of each of some ``rows`` of the input.
    """
    sizes, radius = np.bincount(labels), None
    if not holds_enough(sizes, n_input, disconnected):
        if X is not None:
            radius = connecting_radius(X, labels, backend_of(X))
        raise in_parts(sizes, radius, parts=parts_of(rows, labels))
    if n_components is not None:
        refuse_small_part(int(sizes.max()), n_input, n_components)
    return np.flatnonzero(labels == sizes.argmax())


def holds_enough(sizes: np.ndarray, n: int, disconnected: str) -> bool:
    """Whether the largest part of n points, of parts of these sizes, holds as many as ``disconnected`` asks for."""
    most = sizes.max() >= (1 - STRAY) * n
    scattered = sizes.max() >= (1 - SCATTERED[0]) * n and np.sort(sizes)[-2:][0] <= SCATTERED[1] * n
    return {"raise": sizes.max() == n, "most": bool(most or scattered), "largest": True}[disconnected]


def refuse_small_part(size: int, n: int, m: int) -> None:
    """Raise where the largest part of n points is too small for a map of m coordinates."""
    if m > size - 2:
        text = f"the largest part holds {size:,} of {n:,} points, too few for {option('n_components', m)}"
        advice = f"raise {option('bandwidth')} or add neighbours, so that more points are connected"
        raise refusal("graph.small_part", text, advice, DisconnectedGraphError)


def parts_of(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the rows of each part, rising, the largest part first."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(rows[order], np.cumsum(np.bincount(labels))[:-1])
    return tuple(np.sort(part) for part in sorted(parts, key=len, reverse=True))


def connecting_radius(X: Array, labels: np.ndarray, backend: Backend) -> float | None:
    """Return a radius that joins the largest parts, a little more than needed where these are large.

    The longest edge of a minimum spanning tree over the parts, with distances from some points of each. None if it
    joined most pairs of points.
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
    share = sampled_counts(X, sampled_rows(len(X))[:100], radius, backend).mean() / len(X)
    return radius if share <= CROWDED else None


def tell_left_out(used: np.ndarray, n_input: int, parts: int) -> None:
    if len(left := np.setdiff1d(np.arange(n_input), used)):
        gone = f"Row {left[0]} was" if len(left) == 1 else f"Rows {first_few(left)} were"
        tell(left_out(parts, len(used), n_input, f". {gone} left out"))


def left_out(parts: int, kept: int, n: int, which: str = "") -> Finding:
    """Make the warning that only the largest of some parts is used; ``which`` names the rows of the others."""
    text = f"the graph has {parts} parts; continuing with the largest, {kept:,} of {n:,} points{which}"
    return warning("graph.left_out", text, "selection.points has the rows that were used")


def in_parts(
    sizes: np.ndarray, radius: float | None = None, each: bool = True, parts: tuple[np.ndarray, ...] = ()
) -> Exception:
    """Make the error for a graph in several parts, which ``radius`` would join; ``each`` can have a map of its own."""
    shown, few = first_few(f"{size:,}" for size in np.sort(sizes)[::-1]), sizes.sum() - sizes.max()
    way = f"pass {option('disconnected', 'largest')} to continue with the largest part"
    if each and np.sort(sizes)[-2] > STRAY * sizes.sum():  # clusters, not strays
        way = f"use {option('select_each_part')} for one map per part, or pass {option('disconnected', 'largest')} "
        way += "for that of the largest"
    if few <= 2 * STRAY * sizes.sum():
        way = f"{'1 point is' if few == 1 else f'{few:,} points are'} far from the rest: {way}"
    if radius is not None:
        eps, reach = (option(k, float(f"{v:.4g}")) for k, v in (("bandwidth", radius / 3), ("radius", radius)))
        joined = "parts" if len(sizes) <= PARTS else f"{PARTS} largest"
        way += f", or use {eps} and {reach} or more to join the {joined}"
    text = f"the neighbour graph has {len(sizes)} parts ({shown} points), and each needs its own map"
    return refusal("graph.disconnected", text, way, DisconnectedGraphError, parts=parts)
