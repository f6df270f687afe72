"""Coordinates, tangent bases, scores and regret by block, and the choice from sums over blocks."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Backend
from ..choice.criterion import all_sets, log_volumes, score_pass
from ..choice.regularization import places_among, regret_at, regularization_path
from ..choice.search import SearchResult, pick_segment
from ..choice.stray import stray_limit, without_stray
from ..embedding.diffusion import start_vector
from ..embedding.transition import SparseTransition
from ..parameters.verdict import thin_points
from ..results.assembly import is_degenerate, is_floored
from ..run.options import Options
from .matrix import Graph, Rows
from .team import Pieces, Team, joined


@dataclass(frozen=True)
class Table:
    """What the search knows of each point, by block: futures of regrets (n, segments) and log volumes (n,) of S*."""

    regrets: list[Any]
    volumes: list[Any]


def coordinates_of(team: Team, V: Pieces, graph: Graph, n: int, seed: int) -> list[Any]:
    """Eigenvectors of P of unit length, with signs by the start vector: (n, m) by block."""
    phi = team.map(over_root, V.parts, graph.roots)
    squares, along = team.total(team.map(length_and_sign, phi, graph.transitions, n, seed))
    factors = np.where(along < 0, -1.0, 1.0) / np.sqrt(squares)
    return team.map(times, phi, factors)


def over_root(backend: Backend, V: Any, root: Any) -> Any:
    return backend.xp.ascontiguousarray(V[:, 1:] / root[: len(V), None])


def length_and_sign(backend: Backend, phi: Any, P: Rows, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    start = backend.asarray(start_vector(n, seed)[P.rows])
    return backend.to_host((phi * phi).sum(axis=0)), backend.to_host(start @ phi)


def times(backend: Backend, phi: Any, factors: np.ndarray) -> Any:
    return phi * backend.asarray(factors)


def scale_factors(
    team: Team, graph: Graph, coordinates: list[Any], eigenvalues: np.ndarray, options: Options
) -> np.ndarray:
    """What to multiply coordinates of unit length by; see :func:`ies_gpu.embedding.scale_and_sign.scale_factors`."""
    if options.scale == "rms":
        return np.full(len(eigenvalues), np.sqrt(graph.sizes.sum()))
    squares, whole = team.total(team.map(weighted_squares, coordinates, graph.roots))
    return abs(1.0 - eigenvalues) ** options.diffusion_time / np.sqrt(squares / whole)


def weighted_squares(backend: Backend, Y: Any, root: Any) -> tuple[np.ndarray, float]:
    weights = root[: len(Y)] ** 2
    return backend.to_host(weights @ (Y * Y)), float(weights.sum())


def tangent_blocks(team: Team, graph: Graph, coordinates: list[Any], options: Options) -> list[Any]:
    """Tangent bases and singular values by block."""
    others, scale = team.exchanged(coordinates), 4.0 / options.bandwidth**2
    return team.map(
        tangent_rows, graph.transitions, options.intrinsic_dim, scale, options.arithmetic, coordinates, others
    )


def tangent_rows(
    backend: Backend, P: Rows, d: int, scale: float, arithmetic: str, own: Any, *others: Any
) -> tuple[Any, Any]:
    Y = joined(backend, own, *others).astype(arithmetic, copy=False)
    n, m = own.shape
    U, sigma = backend.xp.empty((n, m, d), dtype=Y.dtype), backend.xp.empty((n, d), dtype=Y.dtype)
    operator = SparseTransition(P.matrix)
    for block in operator.blocks(m, backend):
        with block as part:
            rows, bases, values = operator.tangents(Y, part, d, backend)
            U[rows], sigma[rows] = bases, values
    return U, sigma * scale


def stray_among(team: Team, coordinates: list[Any]) -> list[int]:
    """Coordinates that live on a few points only; see :func:`ies_gpu.choice.stray.stray_coordinates`."""
    n, fourth = team.total(team.map(size_and_fourth_powers, coordinates))
    return np.flatnonzero(1 / np.maximum(fourth, 1e-300) < stray_limit(n)).tolist()  # columns have length 1


def size_and_fourth_powers(backend: Backend, Y: Any) -> tuple[int, np.ndarray]:
    return len(Y), backend.to_host((Y**4).sum(axis=0))


def searched(
    team: Team, tangents: list[Any], stray: list[int], eigenvalues: np.ndarray, options: Options
) -> tuple[SearchResult, Table]:
    """Totals of all sets without a stray coordinate, the path, the regret of its sets and the choice."""
    kept = without_stray(stray, options.n_components, options.subset_size)
    evaluated = all_sets(len(kept), options.subset_size)
    subsets = np.array(kept, dtype=np.int32)[evaluated.subsets]
    passes = team.map(scored, tangents, subsets)
    totals, n = team.total(team.map(totals_of, passes))
    scores = totals / n
    path = regularization_path(scores, subsets, eigenvalues)
    on_path = np.array([segment.subset for segment in path], dtype=np.int32)
    own = team.map(volumes_of, tangents, on_path)
    regrets = team.map(regrets_of, own, passes, totals, places_among(on_path, subsets), int(n))
    percentiles = percentile_of(team, regrets, options.percentile, int(n))
    result = pick_segment(path, percentiles, options.zeta_given, evaluated._replace(subsets=subsets), scores, None)
    return result, Table(regrets, team.map(column, own, result.chosen))


def scored(backend: Backend, tangents: tuple[Any, Any], subsets: np.ndarray) -> Any:
    return score_pass(tangents[0], subsets)


def totals_of(backend: Backend, scores: Any) -> tuple[np.ndarray, int]:
    return backend.to_host(scores.totals), len(scores.best)


def volumes_of(backend: Backend, tangents: tuple[Any, Any], subsets: np.ndarray) -> Any:
    return log_volumes(tangents[0], subsets)


def column(backend: Backend, table: Any, index: int) -> Any:
    return backend.xp.ascontiguousarray(table[:, index])


def regrets_of(backend: Backend, own: Any, scores: Any, totals: np.ndarray, places: np.ndarray, n: int) -> Any:
    sums, places = backend.asarray(totals[places]), backend.asarray(places)
    return regret_at(own, sums, places, scores._replace(totals=backend.asarray(totals)), n)


def percentile_of(team: Team, tables: list[Any], percent: float, n: int) -> np.ndarray:
    """``numpy.percentile`` of each column over all blocks, exactly.

    The client knows some values of each block, evenly spaced in rank. Only what lies between two of them that enclose
    the wanted ranks is sent, equal values once.
    """
    place = (n - 1) * percent / 100
    ranks = int(np.floor(place)), int(np.ceil(place))
    rising = team.map(sorted_columns, tables)
    marks = team.gather(team.map(marks_of, rising))
    columns = range(marks[0][1].shape[1])
    ends = np.array([enclosing([(at, values[:, k]) for at, values in marks], ranks) for k in columns])
    found = team.gather(team.map(inside_of, rising, ends))
    values = np.empty((2, len(ends)))
    for k in columns:
        below, distinct, counts = zip(*(block[k] for block in found), strict=True)
        order = np.argsort(np.concatenate(distinct))
        last = sum(below) + np.cumsum(np.concatenate(counts)[order])
        values[:, k] = np.concatenate(distinct)[order][np.searchsorted(last, ranks, side="right")]
    return values[0] + (place - ranks[0]) * (values[1] - values[0])


def enclosing(marks: list[tuple[np.ndarray, np.ndarray]], ranks: tuple[int, int]) -> tuple[float, float]:
    """Two of the marked values: surely no more than ``ranks[0]`` are below one, and more than ``ranks[1]`` not above.

    Parameters
    ----------
    marks : list of (places, values)
        Of each block the places of some values among its own, the first and the last with them, and these values.
    """
    known = np.sort(np.concatenate([values for _, values in marks]))

    def most_below(i: int) -> int:  # all before the first mark that is not below
        ends = ((at, np.searchsorted(values, known[i])) for at, values in marks)
        return sum(int(at[j]) if j < len(at) else int(at[-1]) + 1 for at, j in ends)

    def least_within(i: int) -> int:  # all up to the last mark that is not above
        ends = ((at, np.searchsorted(values, known[i], side="right")) for at, values in marks)
        return sum(int(at[j - 1]) + 1 if j else 0 for at, j in ends)

    every = range(len(known))
    low = bisect_right(every, ranks[0], key=most_below) - 1
    high = bisect_right(every, ranks[1], key=least_within)
    return float(known[low]), float(known[high])


def sorted_columns(backend: Backend, table: Any) -> np.ndarray:
    return np.sort(backend.to_host(table), axis=0)


def marks_of(backend: Backend, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of about ``sqrt(n)`` of the rows, and these rows."""
    at = np.linspace(0, len(table) - 1, 2 + int(np.sqrt(len(table)))).astype(np.int64)
    return at, table[at]


def inside_of(backend: Backend, table: np.ndarray, ends: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of each column the number of values below the ends, the distinct ones within, and how often each is there."""
    found = []
    for column, (low, high) in zip(table.T, ends, strict=True):
        first, last = np.searchsorted(column, low), np.searchsorted(column, high, side="right")
        found.append((int(first), *np.unique(column[first:last], return_counts=True)))
    return found


def facts_of(team: Team, tangents: list[Any], table: Table) -> dict[str, Any]:
    """What ``diagnostics`` says of the points, from sums over blocks."""
    n, floored, close, thin = team.total(team.map(facts_of_block, tangents, table.volumes))
    return {
        "device": team.gather([team.submit(device_of)])[0],
        "floored_points": int(floored),
        "degenerate_points": close / n,
        "thin_points": thin / n,
    }


def device_of(backend: Backend) -> str:
    return backend.device


def facts_of_block(backend: Backend, tangents: tuple[Any, Any], volumes: Any) -> tuple[Any, ...]:
    sigma = tangents[1]
    close = float(is_degenerate(sigma).sum())
    return len(sigma), int(is_floored(volumes).sum()), close, len(sigma) * thin_points(sigma)
