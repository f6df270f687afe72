"""Coordinates, tangent bases, scores and regret by block, and the choice from sums over blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.kernels import plain
from ..choice.criterion import log_volumes, score_pass
from ..choice.regularization import regularization_path
from ..choice.search import SearchResult
from ..choice.search.exhaustive import all_sets
from ..choice.search.result import decided
from ..choice.stray import FEW
from ..embedding.diffusion import start_vector
from ..embedding.transition import SparseTransition
from ..parameters.verdict import thin_points
from ..run.options import Options
from .matrix import Graph, Rows
from .team import Pieces, Team, joined

WINDOW = 20_000  # distinct values that are sent to the client to find a percentile among them


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
    return np.flatnonzero(1 / np.maximum(fourth, 1e-300) < min(FEW, n / 100)).tolist()  # columns have length 1


def size_and_fourth_powers(backend: Backend, Y: Any) -> tuple[int, np.ndarray]:
    return len(Y), backend.to_host((Y**4).sum(axis=0))


def searched(
    team: Team, tangents: list[Any], stray: list[int], eigenvalues: np.ndarray, options: Options
) -> tuple[SearchResult, Table]:
    """Totals of all sets without a stray coordinate, the path, the regret of its sets and the choice."""
    kept = [k for k in range(options.n_components) if k not in stray]
    kept = kept if len(kept) >= options.subset_size else list(range(options.n_components))
    evaluated = all_sets(len(kept), options.subset_size)
    subsets = np.array(kept, dtype=np.int32)[evaluated.subsets]
    passes = team.map(scored, tangents, subsets)
    totals, n = team.total(team.map(totals_of, passes))
    scores = totals / n
    path = regularization_path(scores, subsets, eigenvalues)
    on_path = np.array([segment.subset for segment in path], dtype=np.int32)
    own = team.map(volumes_of, tangents, on_path)
    sums = team.total(team.map(column_sums, own))
    regrets = team.map(regrets_of, own, passes, totals, sums, int(n))
    percentiles = percentile_of(team, regrets, options.percentile, int(n))
    result = decided(path, percentiles, options.zeta_given, evaluated._replace(subsets=subsets), scores, None)
    return result, Table(regrets, team.map(column, own, result.chosen))


def scored(backend: Backend, tangents: tuple[Any, Any], subsets: np.ndarray) -> Any:
    return score_pass(tangents[0], subsets)


def totals_of(backend: Backend, scores: Any) -> tuple[np.ndarray, int]:
    return backend.to_host(scores.totals), len(scores.best)


def volumes_of(backend: Backend, tangents: tuple[Any, Any], subsets: np.ndarray) -> Any:
    return log_volumes(tangents[0], subsets)


def column_sums(backend: Backend, table: Any) -> np.ndarray:
    return backend.to_host(table.sum(axis=0))


def column(backend: Backend, table: Any, index: int) -> Any:
    return backend.xp.ascontiguousarray(table[:, index])


def regrets_of(backend: Backend, own: Any, scores: Any, totals: np.ndarray, sums: np.ndarray, n: int) -> Any:
    elsewhere = backend.asarray(totals)[scores.best] - scores.best_scores
    return (elsewhere[:, None] - (backend.asarray(sums) - own)) / (n - 1)


def percentile_of(team: Team, tables: list[Any], percent: float, n: int) -> np.ndarray:
    """``numpy.percentile`` of each column over all blocks, exactly: brackets are halved until few values are left."""
    place = (n - 1) * percent / 100
    ranks = np.array([int(np.floor(place)), int(np.ceil(place))])
    rising = team.map(sorted_columns, tables)
    low, high = (
        ends(np.array(side), axis=0)
        for ends, side in zip((np.min, np.max), zip(*team.gather(team.map(ends_of, rising)), strict=True), strict=True)
    )
    below = np.zeros(len(low), dtype=np.int64)  # values under the bracket
    inside = np.full(len(low), n)
    for _ in range(40):  # many equal values may never leave: of these only the distinct ones are sent
        if not ((inside > WINDOW) & (low < high)).any():
            break
        middle = 0.5 * (low + high)
        under = team.total(team.map(counts_below, rising, middle))
        # both order statistics must stay inside
        right, left = under <= ranks[0], under > ranks[1]
        low, below = np.where(right, middle, low), np.where(right, under, below)
        high = np.where(left, np.nextafter(middle, -np.inf), high)
        inside = np.where(left, under, below + inside) - below
    found = team.gather(team.map(inside_of, rising, low, high))
    values = np.empty((2, len(low)))
    for k in range(len(low)):
        distinct = np.concatenate([block[k][0] for block in found])
        counts = np.concatenate([block[k][1] for block in found])
        order = np.argsort(distinct)
        ends = below[k] + np.cumsum(counts[order])
        values[:, k] = distinct[order][np.searchsorted(ends, ranks, side="right")]
    return values[0] + (place - ranks[0]) * (values[1] - values[0])


def sorted_columns(backend: Backend, table: Any) -> np.ndarray:
    return np.sort(backend.to_host(table), axis=0)


def ends_of(backend: Backend, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return table[0], table[-1]


def counts_below(backend: Backend, table: np.ndarray, limits: np.ndarray) -> np.ndarray:
    return np.array([np.searchsorted(table[:, k], limit) for k, limit in enumerate(limits)])


def inside_of(backend: Backend, table: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[Any]:
    """The distinct values from low to high, and how often each is there."""
    found = []
    for k in range(table.shape[1]):
        first, last = np.searchsorted(table[:, k], low[k]), np.searchsorted(table[:, k], high[k], side="right")
        found.append(np.unique(table[first:last, k], return_counts=True))
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
    gaps = -backend.xp.diff(sigma, axis=1)
    close = float((gaps <= 1e-6 * sigma[:, :1]).any(axis=1).sum()) if gaps.size else 0.0
    floored = int((volumes <= 0.5 * np.log(plain.FLOOR) + 1e-9).sum())
    return len(sigma), floored, close, len(sigma) * thin_points(sigma)
