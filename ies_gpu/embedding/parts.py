"""Graphs in parts: which part is used, and the error, with a way out, where none of them will do."""

from collections.abc import Callable

import numpy as np

from ..findings import DisconnectedGraphError, first_few, option, refusal, tell, warning

STRAY = 0.05  # share of the points that disconnected="most" may leave out,
SCATTERED = 0.1, 0.01  # or the first share, if no part left out holds more than the second: strays, not clusters
PARTS = 50  # the largest ones, and points of each, from which a radius that joins them is found


def largest_part(
    labels: np.ndarray, rows: np.ndarray, n_input: int, disconnected: str, n_components: int | None,
    join: Callable[[], float | None] = lambda: None,
) -> np.ndarray:  # fmt: skip
    """Return the places of the largest part of some ``rows`` of the input; an error if it is smaller than asked for.

    ``labels`` (n,) have the part of each; ``join`` finds a radius that joins the parts.
    """
    sizes = np.bincount(labels)
    if not holds_enough(sizes, n_input, disconnected):
        raise in_parts(sizes, join(), parts=parts_of(rows, labels))
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


def tell_left_out(parts: int, kept: int, n: int, used: np.ndarray | None = None) -> None:
    """Warn that only the largest of some parts is used, and which rows are not, if those ``used`` are known."""
    text = f"the graph has {parts} parts; continuing with the largest, {kept:,} of {n:,} points"
    if used is not None:
        left = np.setdiff1d(np.arange(n), used)
        text += f". Row {left[0]} was left out" if len(left) == 1 else f". Rows {first_few(left)} were left out"
    tell(warning("graph.left_out", text, "selection.points has the rows that were used"))


def in_parts(
    sizes: np.ndarray, radius: float | None = None, each: bool = True, parts: tuple[np.ndarray, ...] = ()
) -> Exception:
    """Make the error for a graph in several parts, which ``radius`` would join; ``each`` can have a map of its own."""
    shown, few = first_few(f"{size:,}" for size in np.sort(sizes)[::-1]), sizes.sum() - sizes.max()
    way = f"pass {option('disconnected', 'largest')} to continue with the largest part"
    if each and np.sort(sizes)[-2] > STRAY * sizes.sum():  # clusters, not strays
        way = f"use {option('select_each_part')} for one map per part, or {way}"
    if few <= 2 * STRAY * sizes.sum():
        way = f"{'1 point is' if few == 1 else f'{few:,} points are'} far from the rest: {way}"
    if radius is not None:
        eps, reach = (option(k, float(f"{v:.4g}")) for k, v in (("bandwidth", radius / 3), ("radius", radius)))
        joined = "parts" if len(sizes) <= PARTS else f"{PARTS} largest"
        way += f", or use {eps} and {reach} or more to join the {joined}"
    text = f"the neighbour graph has {len(sizes)} parts ({shown} points), and each needs its own map"
    return refusal("graph.disconnected", text, way, DisconnectedGraphError, parts=parts)
