"""Checks of the points themselves, as on one machine, from a few rows and numbers of each chunk or block."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..backend import Backend
from ..backend.steps import step
from ..embedding.connectivity import (
    SAMPLE,
    SURE,
    counts_until_many,
    counts_within,
    nearest_square,
    refuse_alike,
    refuse_lonely,
    sampled_rows,
    weights_near,
)
from ..options import Options
from ..parameters.levina_bickel import dimension_of_rows, dimension_rows
from ..run.fingerprint import digest_of_rows, digest_rows
from ..validation import LARGEST, refuse_points
from .blocks import taken_rows
from .source import Source
from .team import Call, Team, member


@step("checks")
def check_source(team: Team, source: Source, options: Options) -> None:
    """Refuse points without a shape, and a kernel that isolates most of them or joins all: see ``sampled_degree``."""
    lows, highs = zip(*team.gather(team.map(extremes, source.chunks)), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    seen = max(float(high.max()), -float(low.min())) > 1 / LARGEST
    refuse_points((source.n, source.width), bool((low < high).any()), seen)
    rows, radius, unit = sampled_rows(source.n), options.radius, float((high - low).max())
    places = [np.where((rows >= a) & (rows < b), rows - a, -1) for a, b in pairwise(source.ends.tolist())]  # by chunk
    some = np.empty((len(rows), source.width))
    for own, part in zip(places, team.gather(team.map(rows_at, source.chunks, places)), strict=True):
        some[own >= 0] = part

    def counted(part: slice) -> np.ndarray:
        return team.total(team.map(counts_near, source.chunks, some[part], radius))

    def nearest(lonely: np.ndarray) -> float:
        at = np.flatnonzero(np.isin(rows, lonely))
        squares = team.gather(team.map(squares_near, source.chunks, some[at], [own[at] for own in places], unit))
        return unit * float(np.min(squares, axis=0).max()) ** 0.5

    degrees = counts_until_many(len(rows), SAMPLE // 2, counted) - 1
    refuse_lonely(degrees, rows, radius, options.disconnected, nearest)
    if (degrees == source.n - 1).all():
        near, eps = some[:SURE], options.bandwidth
        weights = team.total(team.map(lambda backend, X: weights_near(X, near, eps, backend), source.chunks))
        refuse_alike(float(weights.mean()) / source.n, source.n, options.bandwidth)


@step("checks")
def facts_of_points(team: Team, points: list[Any], width: int, used: int, n: int) -> dict[str, Any]:
    """The digest of the points in the map and the dimension that some of them have, for ``diagnostics``.

    Parameters
    ----------
    points : list of Future
        The blocks of ``Points``.
    width, used, n : int
        How many columns they have, how many points they hold, and how many the input has.
    """
    wanted = np.concatenate([digest_rows(used), dimension_rows(used, width)])
    if used < n:
        wanted = np.sort(np.concatenate(team.gather(team.map(member, points, "rows"))))[wanted]
    numbers, some = taken_rows(team, points, wanted, [Call(member, (own, "X")) for own in points])
    some, few = some[np.searchsorted(numbers, wanted)], len(digest_rows(used))
    return {
        "points_digest": digest_of_rows((used, width), some[:few]),
        "seen_dimension": dimension_of_rows(some[few:]),
    }


# --- tasks -----------------------------------------------------------------------------------------------------------


def extremes(backend: Backend, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of each column."""
    return X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)


def rows_at(backend: Backend, X: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The rows at those of some places that are not negative."""
    return X[places[places >= 0]]


def counts_near(backend: Backend, X: np.ndarray, some: np.ndarray, radius: float) -> np.ndarray:
    """How many points of a chunk some points have within the radius."""
    if not len(X):
        return np.zeros(len(some), dtype=np.int64)
    parts = (backend.asarray(some[k : k + SURE]) for k in range(0, len(some), SURE))
    return np.concatenate([counts_within(X, part, radius, backend) for part in parts])


def squares_near(backend: Backend, X: np.ndarray, some: np.ndarray, places: np.ndarray, unit: float) -> np.ndarray:
    """The squared distance from each of some points to the nearest other one of a chunk, in units."""
    X = np.concatenate([X, np.full((1, X.shape[1]), np.inf)])  # there may be no other one
    own = (None if place < 0 else int(place) for place in places)
    return np.array([nearest_square(X, *pair, unit, backend) for pair in zip(some, own, strict=True)])
