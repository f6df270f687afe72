"""Whether the graph of the points is connected at a radius, and the error if it is not."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from ..backend import Backend, backend_of
from ..backend.array import Array, extent
from ..backend.steps import step
from ..findings import DisconnectedGraphError, Finding, first_few, option, refusal, tell, warning
from .graph import TILE_COLUMNS, rescale_to_radius

SAMPLE = 400  # rows whose degree is counted before any long work
MANY, SURE = 2_000_000, 50  # counting stops after this many neighbours, but not before this many rows
STRAY = 0.05  # share of the points that disconnected="most" may leave out,
SCATTERED = 0.1, 0.01  # or the first share, if no part left out holds more than the second: strays, not clusters
CROWDED = 0.8  # a radius that joins more than this share of all pairs is no advice; nor do weights this large differ
SCALES = f"{option('bandwidth')} (by default a third of the radius), or {option('radius')} if you set one"


@step("neighbours")
def sampled_degree(X: Array, radius: float, bandwidth: float, disconnected: str) -> float:
    """Return the mean degree of sampled rows; refuse a kernel that isolates most points or hardly tells them apart."""
    backend, rows = backend_of(X), sampled_rows(len(X))
    degrees = sampled_counts(X, rows, radius, backend) - 1
    alone = int((degrees == 0).sum())
    # a few stray points are left to the full graph, whose error can say how many parts there are
    enough = {"raise": STRAY, "most": 2 * SCATTERED[0], "largest": 1 - 1e-9}[disconnected]
    if alone > enough * len(degrees):
        lonely = rows[: len(degrees)][degrees == 0][:50]
        text = f"{alone} of {len(degrees)} sampled points have no neighbour within {option('radius', float(radius))}"
        advice = f"raise {SCALES}: the nearest is up to {nearest_distance(X, lonely, backend):.3g} away"
        raise refusal("graph.isolated", text, advice, DisconnectedGraphError)
    if (degrees == len(X) - 1).all():  # then their weights alone show the shape
        some = X[backend.asarray(rows[:SURE])]
        refuse_alike(float(weights_near(X, some, bandwidth, backend).mean()) / len(X), len(X), bandwidth)
    return float(degrees.mean() + 1)


def sampled_rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).choice(n, size=min(SAMPLE, n), replace=False)


def refuse_alike(weight: float, n: int, bandwidth: float) -> None:
    """Raise if the mean weight of all pairs is so near 1 that every point is as near as any other."""
    if weight > CROWDED:
        text = f"{option('bandwidth', float(bandwidth))} connects every sampled point to all {n} points, with a mean "
        text += f"weight of {weight:.2g}, so no shape is left to see"
        raise refusal("graph.all_pairs", text, f"lower {option('bandwidth')}")


def weights_near(X: Array, some: Array, bandwidth: float, backend: Backend) -> np.ndarray:
    """Return the sum of the weights that some points have for all points of X."""
    total = np.zeros(len(some))
    for first in range(0, len(X), TILE_COLUMNS):
        piece = backend.asarray(X[first : first + TILE_COLUMNS])
        for k, point in enumerate(some):
            difference = (piece - point) / bandwidth
            total[k] += float(backend.xp.exp(-(difference * difference).sum(axis=1)).sum())
    return total


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


def holds_enough(sizes: np.ndarray, n: int, disconnected: str) -> bool:
    """Whether the largest part of n points, of parts of these sizes, holds as many as ``disconnected`` asks for."""
    most = sizes.max() >= (1 - STRAY) * n
    scattered = sizes.max() >= (1 - SCATTERED[0]) * n and np.sort(sizes)[-2:][0] <= SCATTERED[1] * n
    return {"raise": sizes.max() == n, "most": bool(most or scattered), "largest": True}[disconnected]


def nearest_distance(X: Array, rows: np.ndarray, backend: Backend) -> float:
    unit, longest = extent(X), 0.0
    for row in rows.tolist():
        difference = (X - X[row]) / unit
        squared = (difference * difference).sum(axis=1)
        squared[row] = backend.xp.inf
        longest = max(longest, float(squared.min()))
    return unit * longest**0.5


def parts_of(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the rows of each part, rising, the largest part first; ``labels`` (n,) are the part of each row."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(rows[order], np.cumsum(np.bincount(labels))[:-1])
    return tuple(np.sort(part) for part in sorted(parts, key=len, reverse=True))


def refuse_small_part(size: int, n: int, m: int) -> None:
    """Raise where the largest part of n points is too small for a map of m coordinates."""
    if m > size - 2:
        text = f"the largest part holds {size:,} of {n:,} points, too few for {option('n_components', m)}"
        advice = f"raise {option('bandwidth')} or add neighbours, so that more points are connected"
        raise refusal("graph.small_part", text, advice, DisconnectedGraphError)


def connecting_radius(X: Array, labels: np.ndarray, backend: Backend) -> float:
    """Return a radius that joins the parts (the 50 largest), a little more than needed where parts are large.

    The longest edge of a minimum spanning tree over the parts, with distances from at most 50 points of each.
    """
    unit, sizes = extent(X), np.bincount(labels)
    X = X / unit
    largest = np.argsort(-sizes, kind="stable")[:50]
    apart = np.full((len(largest), len(sizes)), np.inf)
    for number, part in enumerate(largest):
        rows = np.flatnonzero(labels == part)
        for row in rows[:: max(1, len(rows) // 50)]:
            difference = X - X[int(row)]
            distance = backend.to_host(backend.xp.sqrt((difference * difference).sum(axis=1)))
            np.minimum.at(apart[number], labels, distance)
    apart = apart[:, largest]
    longest = float(minimum_spanning_tree(np.minimum(apart, apart.T)).max())
    return 1.001 * unit * longest  # printed with four digits, it must not fall short


def largest_part(labels: np.ndarray, rows: np.ndarray, n_input: int, disconnected: str, X: Array = None) -> np.ndarray:
    """Return the places of the largest part; an error, with a way out, if it holds fewer points than asked for."""
    sizes = np.bincount(labels)
    if holds_enough(sizes, n_input, disconnected):
        return np.flatnonzero(labels == sizes.argmax())
    radius, backend = None, backend_of(X)
    if X is not None:
        radius = connecting_radius(X, labels, backend)
        share = sampled_counts(X, sampled_rows(len(X))[:100], radius, backend).mean() / len(X)
        radius = radius if share <= CROWDED else None
    raise in_parts(sizes, radius, parts=parts_of(rows, labels))


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
    shown = first_few(f"{size:,}" for size in np.sort(sizes)[::-1])
    few = sizes.sum() - sizes.max()
    largest = option("disconnected", "largest")
    way = f"pass {largest} to continue with the largest part"
    if each and np.sort(sizes)[-2] > STRAY * sizes.sum():  # clusters, not strays
        way = f"use {option('select_each_part')} for one map per part, or pass {largest} for that of the largest"
    if few <= 2 * STRAY * sizes.sum():
        far = "1 point is" if few == 1 else f"{few:,} points are"
        way = f"{far} far from the rest: {way}"
    if radius is not None:
        joins = "join the parts" if len(sizes) <= 50 else "join the 50 largest"
        eps, reach = (
            option(name, float(f"{length:.4g}")) for name, length in (("bandwidth", radius / 3), ("radius", radius))
        )
        way += f", or use {eps} and {reach} or more to {joins}"
    text = f"the neighbour graph has {len(sizes)} parts ({shown} points), and each needs its own map"
    return refusal("graph.disconnected", text, way, DisconnectedGraphError, parts=parts)
