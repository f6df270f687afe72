"""New points in the map of old ones: the Nystrom extension of the renormalised kernel."""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ..backend import Backend, backend_of, report
from ..backend.array import Array, column_ends, column_means, starts_of
from ..findings import first_few, option, tell, warning
from .graph import AFFINITY, GIVEN, Cells, rescale_to_radius, spatial_order, to_euclidean

ISOLATED = ("nan", "nearest")
FAINT = 1e-3  # eigenvalues of P below this are noise, and dividing by them makes it loud
TINY = 1e-12  # instead of a division by zero
FAR = 27.0  # bandwidths, beyond which weights are 0


class KernelRule(NamedTuple):
    """The kernel behind a map: ``exp(-r^2 / bandwidth^2)`` within the radius, renormalised with degrees ``w^alpha``.

    With metric "precomputed" points are rows of distances, and with "precomputed_affinity" of the kernel itself, which
    has neither bandwidth nor radius. With ``n_neighbors`` points are neighbours if either is that near to the other.
    """

    bandwidth: Any
    radius: Any
    self_loops: bool = True
    metric: str = "euclidean"
    alpha: float = 1.0
    n_neighbors: int | None = None


def kernel_degrees(X: Array, rule: KernelRule) -> Array:
    """Return the sums ``w_i = sum_j exp(-|x_i - x_j|^2 / eps^2)`` of the kernel over the points within the radius."""
    X = to_euclidean(X, rule.metric)
    with (backend := backend_of(X)).active():
        return kernel_sums(X, X, backend.xp.ones((X.shape[0], 1)), rule)[:, 0]


def extend(
    new: Array, X: Array, Y: Array, eigenvalues: np.ndarray, degrees: Array, rule: KernelRule, isolated: str = "nan"
) -> Array:
    """Extend eigenvectors Y from the training points X, with the kernel's row sums ``degrees``, to new points.

    With ``k(x, x_j) = exp(-|x - x_j|^2 / eps^2)`` within the radius and the training degrees ``w_j``, a new point moves
    to ``x_j`` with probability ``P(x, x_j) = (k(x, x_j) / w_j^alpha) / sum_l k(x, x_l) / w_l^alpha`` (its own degree
    cancels), and ``phi_k(x) = 1 / (1 - lambda_k) * sum_j P(x, x_j) phi_k(j)``. At a training point this is the
    eigenvector equation, so it returns the training coordinates. All arrays are checked, and on one device.
    """
    new, X = to_euclidean(new, rule.metric), to_euclidean(X, rule.metric)
    backend = backend_of(X)
    xp, mu = backend.xp, 1.0 - eigenvalues
    if len(faint := np.flatnonzero(np.abs(mu) < FAINT)):
        shown = first_few(f"phi{k + 1}" for k in faint)
        text = f"the diffusion damps {shown} by more than {1 / FAINT:g} in one step, so new points get noise there"
        tell(warning("new_points.faint", text, f"lower {option('n_components')} or {option('bandwidth')}"))
        mu[np.abs(mu) < TINY] = TINY
    if new.shape[0] == 0:
        return xp.empty((0, Y.shape[1]))
    share = 1.0 / degrees[:, None] ** rule.alpha
    sums = kernel_sums(new, X, xp.concatenate([share, share * Y], axis=1), rule)
    alone = sums[:, 0] <= 0
    lonely = backend.to_host(xp.nonzero(alone)[0])
    phi = sums[:, 1:] / xp.where(alone, xp.nan, sums[:, 0])[:, None] / backend.asarray(mu)
    if len(lonely):
        got = "NaN" if isolated == "nan" else "the coordinates of the nearest training point"
        near = "near enough to weigh" if rule.radius is None else f"within {option('radius', float(rule.radius))}"
        text = f"{len(lonely):,} of {new.shape[0]:,} new points have no training point {near} and get {got}"
        text += f" (rows {first_few(lonely)})"
        tell(warning("new_points.isolated", text))
        if isolated == "nearest" and rule.metric != AFFINITY:  # where nothing is near, nothing is nearest
            where = backend.asarray(lonely)
            nearest = nearest_rows(new[where], X, backend, rule.metric)
            phi[where[nearest >= 0]] = Y[nearest[nearest >= 0]]
    return phi


def kernel_sums(new: Array, X: Array, V: Array, rule: KernelRule) -> Array:
    """Return ``sum_j k(x, x_j) V_j`` for each new point, in one blocked pass over the pairs within the radius."""
    backend = backend_of(V)
    xp = backend.xp
    if rule.metric in GIVEN:
        return given_sums(new, V, rule)
    order = spatial_order(X)
    radius, own, theirs = reaches(new, X[order], rule)
    Z, reach, unit = rescale_to_radius(radius, X[order])
    V = V[order]
    cells = Cells(Z, reach)
    sums = xp.zeros((len(new), V.shape[1]))
    # those far outside the box of all points have no neighbour, and their size would spoil the distances of the others
    with np.errstate(over="ignore"):  # infinitely far is far enough
        scaled = new / unit
    margin, (low, high) = reach * (1 + 1e-9), column_ends(Z)
    rows = xp.nonzero(((scaled >= low - margin) & (scaled <= high + margin)).all(axis=1))[0]
    boxes = cells.projected(scaled[rows])
    if len(rows):
        order = spatial_order(xp.ascontiguousarray(boxes))
        rows, boxes = rows[order], boxes[order]
    Q = scaled[rows]
    # as in the graph: blocks of points that stand together, each against the cells that its box does not rule out
    for attempt in backend.blocks(len(rows), 0, "extension", rows_a_block=backend.rows_a_tile):
        with attempt as part:
            low, high = (backend.to_host(side) for side in (boxes[part].min(axis=0), boxes[part].max(axis=0)))
            total = xp.zeros((part.stop - part.start, V.shape[1]))
            found_itself = xp.zeros(len(total), dtype=bool)
            for columns in cells.columns_of(cells.near_box(low, high)):
                counts, place, distance = backend.kernels.tile_graph(Q[part], Z[columns], reach)
                ratio = distance * (unit / rule.bandwidth)
                indptr = starts_of(counts)
                weights = xp.exp(-ratio * ratio)
                if not rule.self_loops:
                    weights *= ~first_equal(distance, counts, indptr, found_itself)
                if own is not None:
                    both = xp.maximum(xp.repeat(own[rows[part]], counts), theirs[columns][place])
                    weights *= distance * unit <= both * (1 + 1e-9)
                total += backend.kernels.spmm(indptr, place, weights, V[columns])
            sums[rows[part]] = total
            report(part.stop, len(rows))
    return sums


def reaches(new: Array, X: Array, rule: KernelRule) -> tuple[float, Any, Any]:
    """Return how far neighbours may be; with ``n_neighbors`` also how far those of each new and training point are."""
    if rule.n_neighbors is None:
        return rule.radius, None, None
    backend, far = backend_of(X), FAR * rule.bandwidth
    tree = KDTree(backend.to_host(X))
    distances = (tree.query(backend.to_host(points), rule.n_neighbors + 1)[0] for points in (new, X))
    # a point is not its own neighbour
    own, theirs = (np.minimum(np.where(r[:, 0] == 0, r[:, -1], r[:, -2]), far) for r in distances)
    return float(max(own.max(), theirs.max())), backend.asarray(own), backend.asarray(theirs)


def given_sums(new: Array, V: Array, rule: KernelRule) -> Array:
    """Return the sums from rows of distances or of the kernel, dense or sparse, with a column per training point."""
    backend = backend_of(V)
    xp, drop = backend.xp, not rule.self_loops and rule.metric != AFFINITY
    if backend.sparse.issparse(new):
        weights = given_weights(new.data, rule)
        if drop:
            counts = new.indptr[1:] - new.indptr[:-1]
            weights = weights * ~first_equal(new.data, counts, new.indptr, xp.zeros(new.shape[0], dtype=bool))
        return backend.kernels.spmm(new.indptr, new.indices, weights, V)
    sums = xp.empty((len(new), V.shape[1]))
    for block in backend.blocks(len(new), 24.0 * len(V), "extension"):
        with block as part:
            weights = given_weights(new[part], rule)
            if drop:  # the first distance of zero is the point itself
                itself = new[part].argmin(axis=1)
                rows = xp.arange(len(itself))
                weights[rows, itself] *= new[part][rows, itself] > 0
            sums[part] = weights @ V
            report(part.stop, len(new))
    return sums


def given_weights(entries: Array, rule: KernelRule) -> Array:
    if rule.metric == AFFINITY:
        return entries
    xp, ratio = backend_of(entries).xp, entries / rule.bandwidth
    weights = xp.exp(-ratio * ratio)
    return weights if rule.radius is None else weights * (entries <= rule.radius)


def first_equal(distance: Any, counts: Array, indptr: Array, before: Any) -> Array:
    """Mark the first distance of zero in each row of a CSR, but for rows in ``before``, where such rows are added."""
    xp = backend_of(distance).xp
    equal = distance == 0
    running = starts_of(equal)
    first = equal & (running[1:] - xp.repeat(running[indptr[:-1]], counts) == 1)
    first &= ~xp.repeat(before, counts)
    before |= running[indptr[1:]] > running[indptr[:-1]]
    return first


def nearest_rows(points: Array, X: Array, backend: Backend, metric: str = "euclidean") -> Array:
    """Return the number (r,) of the training point nearest to each of some points; -1 where none is known."""
    xp = backend.xp
    if metric in GIVEN:
        if not backend.sparse.issparse(points):
            return xp.where(points.min(axis=1) < xp.inf, points.argmin(axis=1), -1)
        ends = zip(points.indptr[:-1].tolist(), points.indptr[1:].tolist(), strict=True)
        near = [int(points.indices[a + int(points.data[a:b].argmin())]) if b > a else -1 for a, b in ends]
        return backend.asarray(np.array(near, dtype=np.int64))
    Z = X - (centre := column_means(X))
    Z = Z / (unit := float(xp.abs(Z).max()))
    half = 0.5 * (Z * Z).sum(axis=1)
    nearest = xp.empty(len(points), dtype=xp.int64)
    for block in backend.blocks(len(points), 24.0 * len(X), "extension"):
        with block as rows:
            # |x - x_j|^2 / 2 less |x|^2 / 2, which would overflow first for a point far away
            nearest[rows] = (half - ((points[rows] - centre) / unit) @ Z.T).argmin(axis=1)
    return nearest
