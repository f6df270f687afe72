"""The Laplacian of points: graph, kernel and normalisation, of all points or the largest part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import backend_of
from ..backend.array import Array
from ..backend.steps import Do, call, step
from ..findings import option, refusal
from ..options import explain_keywords, is_local
from ..validation import check_choice, check_flag, check_integer, check_length
from .connectivity import largest_part, refuse_small_part, sampled_degree, tell_left_out
from .cost import Room, plan_storage
from .graph import knn_graph, ordered_radius_graph, points_in_metric, rescale_to_radius
from .laplacian import (
    Laplacian,
    apply_gaussian,
    check_alpha,
    facts_of,
    normalise,
    with_diagonal,
    with_transition,
    without_loops,
)
from .local import LocalKernel, default_neighbors, local_kernel, local_laplacian
from .metrics import check_metric
from .order import Rows, in_order, spatial_order
from .transition import Kernel, SparseKernel, TiledKernel

Make = Callable[[Array], tuple[Kernel, dict[str, Any]]]  # of ordered points


@explain_keywords
@step("laplacian", composite=True)
def laplacian_of_points(
    X: Array,
    *,
    bandwidth: float | str,
    radius: float | None = None,
    n_neighbors: int | None = None,
    self_loops: bool = True,
    metric: str = "euclidean",
    alpha: float = 1.0,
    intrinsic_dim: int | None = None,
    dtype: str = "float64",
    disconnected: str = "keep",
    room: Room | None = None,
    do: Do = call,
) -> Laplacian:
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
    >>> laplacian = ies_gpu.laplacian_of_points(strip.X, bandwidth=0.8)
    >>> laplacian.shape
    (400, 400)
    """
    self_loops, alpha = check_flag("self_loops", self_loops), check_alpha(alpha)
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
    by_number = eps is None or n_neighbors is not None
    degree = 0.0 if room is None or by_number else do(sampled_degree, X, reach, eps, disconnected)

    def make(X: Array) -> tuple[Kernel, dict[str, Any]]:
        if by_number:
            return do(nearest_kernel, X, eps, n_neighbors, dtype), {}
        return within_radius(X, reach, eps, dtype, degree, room, do)

    kernel, rows, facts = connected_kernel(X, make, disconnected, m, do)
    del X
    if isinstance(kernel, LocalKernel):
        found = do(local_laplacian, do(without_loops, kernel, True), intrinsic_dim)
    else:
        found = do(normalise, do(without_loops, kernel, self_loops), eps, alpha)
    return with_transition(found, found.operator, rows=rows, facts=facts)


def connected_kernel(
    X: Array, make: Make, disconnected: str, n_components: int | None, do: Do
) -> tuple[Kernel, Rows, dict[str, Any]]:
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
        keep = np.sort(rows[largest_part(labels, used[rows], n_input, disconnected, X)])
        X, used = X[backend.asarray(np.argsort(rows)[keep])], used[keep]
        if n_components is not None:
            refuse_small_part(len(used), n_input, n_components)
        del kernel
    tell_left_out(used, n_input, count)
    degree = kernel.nnz / len(X) - (not isinstance(kernel, LocalKernel))
    facts = facts_of(count or None, degree, kernel.approximations, storage)
    return kernel, Rows(n_input, used, backend.to_host(order), True), facts


def within_radius(
    X: Array, radius: float, bandwidth: Any, dtype: str, degree: float, room: Room | None, do: Do
) -> tuple[Kernel, dict[str, Any]]:
    """Return the Gaussian kernel of ordered points, stored as the memory allows, and how: for ``diagnostics``."""
    chosen, facts = ("memory", {}) if room is None else plan_storage(X, degree, dtype, room)
    if chosen != "memory":
        return do(tiled_kernel, X, radius, bandwidth, chosen == "tiles"), facts
    if dtype == "float32":  # whose range is short: lengths near 1, by a power of two, so no digit changes
        X, radius, unit = rescale_to_radius(radius, X)
        bandwidth = bandwidth / unit
    graph = do(ordered_radius_graph, X, radius, diagonal=True, storage=dtype)
    kernel, backend = SparseKernel(do(apply_gaussian, graph, bandwidth)), backend_of(X)
    if backend.device == "cpu":  # what the rows of the graph were computed in
        backend.free_cache()
    return kernel, facts


@step("order")
def sort_in_space(X: Array) -> tuple[Array, Array]:
    order = spatial_order(X)
    return order, in_order(X, order)


@step("graph")
def tiled_kernel(X: Array, radius: float, bandwidth: float, keep: bool) -> TiledKernel:
    return TiledKernel(X, bandwidth=bandwidth, radius=radius, store=keep)


@step("graph")
def nearest_kernel(X: Array, bandwidth: float | None, n_neighbors: int | None, dtype: str) -> SparseKernel:
    k = default_neighbors(len(X)) if n_neighbors is None else min(n_neighbors, len(X) - 1)
    if bandwidth is None:
        kernel: SparseKernel = local_kernel(X, k)
    else:
        kernel = SparseKernel(with_diagonal(apply_gaussian(knn_graph(X, n_neighbors=k), bandwidth)))
    kernel.matrix.data = kernel.matrix.data.astype(dtype, copy=False)
    return kernel
