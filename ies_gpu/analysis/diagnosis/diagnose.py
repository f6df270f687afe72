"""What is wrong with a map: functional dependencies, knots, crossings and overlaps, found without knowing the truth.

Two numbers at each point. *Collapse*: how far the point's nearest neighbours in the map lie from it in all m
eigenvectors, over how far its nearest neighbours there lie. About 1 where the map keeps neighbourhoods, large where it
throws distant points together, whatever the reason. The flat ends of every cosine do not count, because all
eigenvectors are flat there. *Flatness*: the ratio of the smallest to the largest singular value of the map's Jacobian,
which is zero where the volume vanishes and says which reason it is. A flat region counts only if
neighbourhoods still fall together when the map is stretched there: it may be thin and yet tell all points apart.

    collapsed and flat, a connected region of many points     functional dependency
    collapsed and flat, few points                            knot
    collapsed, not flat, two sheets at an angle               crossing (needs s > d)
    collapsed, not flat, two sheets on top of each other      overlap
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from ...backend import at_home, backend_of
from ...choice.naming import coordinate_numbers, names_text
from ...embedding.graph import knn_graph
from ...embedding.laplacian import check_laplacian
from ...results.selection import Selection
from ...validation import check_integer, check_number
from .sheets import Sheets, find_sheets

Groups = tuple[np.ndarray, ...]
COPY = 1e-6  # of the largest coordinate: points that are so near in all eigenvectors are one point
CONFIRMED = 0.05  # of a flat region must stay collapsed when the map is stretched there: otherwise it is only thin


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What was found; all numbers of points are rows of ``selection.coordinates``.

    Attributes
    ----------
    subset : tuple of int
        The set that was looked at, 0-based.
    embedding : array (n, s)
    collapse, flatness, volumes : array (n,)
        See the module; ``volumes`` is ``exp R(S; i)``.
    dependencies, knots : tuple of array of int
        The points of each connected region, the largest first.
    crossings, overlaps : array (pairs, 2) of int
        Points that are close in the map and lie on different sheets: at an angle, or on top of each other.
    angles : array (crossings,)
        Between the two tangent planes, in degrees.
    notes : tuple of str
        What could not be looked at.
    """

    subset: tuple[int, ...]
    embedding: np.ndarray
    collapse: np.ndarray
    flatness: np.ndarray
    volumes: np.ndarray
    dependencies: Groups
    knots: Groups
    crossings: np.ndarray
    overlaps: np.ndarray
    angles: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many points each finding holds."""
        return {
            "dependency": sum(map(len, self.dependencies)),
            "knot": sum(map(len, self.knots)),
            "crossing": len(np.unique(self.crossings)),
            "overlap": len(np.unique(self.overlaps)),
        }

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(self.counts.values())

    @property
    def verdict(self) -> str:
        """In words."""
        names, n = names_text(self.subset), len(self.collapse)
        count = self.counts
        found = []
        if count["dependency"]:
            found.append(
                f"functionally dependent on {count['dependency'] / n:.0%} of the points: there they do not span the "
                "tangent space; choose another set"
            )
        if count["knot"]:
            where = f"{len(self.knots)} place{'s' * (len(self.knots) > 1)}"
            found.append(f"knotted in {where} ({count['knot']:,} points), where a dimension vanishes")
        if count["crossing"]:
            found.append(
                f"crossing: {count['crossing']:,} points on sheets that pass through each other (median angle "
                f"{np.median(self.angles):.0f} degrees); another coordinate would part them"
            )
        if count["overlap"]:
            found.append(f"overlapping: {count['overlap']:,} points on sheets that lie on top of each other")
        text = f"{names}: " + ("; ".join(found) if found else "no dependency, knot, crossing or overlap found")
        return ". ".join([text, *self.notes]) + "."

    def __repr__(self) -> str:
        return f"Diagnosis of {self.verdict}"


@at_home
def diagnose(
    selection: Selection,
    *,
    laplacian: Any = None,
    subset: Sequence[int | str] | None = None,
    n_neighbors: int = 15,
    collapse: float = 3.0,
    flatness: float = 0.15,
    region: float = 0.1,
    smallest: float = 0.005,
    angle: float = 30.0,
) -> Diagnosis:
    """Look for places where the chosen coordinates fail to be a map.

    Parameters
    ----------
    selection : Selection
        With its tangent bases.
    laplacian : Laplacian or sparse ``I - P``, optional
        Whose graph, of all points of the input or of those that were used, says what is connected. Without it the
        ``n_neighbors`` nearest points in all eigenvectors do.
    subset : sequence of int or str, optional
        0-based numbers or names such as "phi7"; the chosen set unless given.
    n_neighbors : int
        Size of the neighbourhoods that are compared.
    collapse, flatness : float
        A point is collapsed above the one, and flat below the other.
    region : float
        Share of the points from which a flat, collapsed region is a dependency; below it is a knot.
    smallest : float
        Share of the points below which nothing is reported.
    angle : float
        Degrees between tangent planes from which sheets cross.
    """
    if not isinstance(selection, Selection):
        raise TypeError(f"diagnose takes a Selection, as select_coordinates returns it, got {type(selection).__name__}")
    host = backend_of(selection.coordinates).to_host
    Y, values = host(selection.coordinates), np.asarray(host(selection.eigenvalues), dtype=float)
    n = len(Y)
    chosen = tuple(sorted(coordinate_numbers(selection.subset if subset is None else subset, Y.shape[1])))
    k = check_integer("n_neighbors", n_neighbors, low=3, high=n - 1, why=f" for {n} points")
    region, smallest = (
        check_number(m, v, high=1.0, closed=True) for m, v in (("region", region), ("smallest", smallest))
    )
    collapse, flatness = check_number("collapse", collapse, low=1.0), check_number("flatness", flatness, high=1.0)
    angle = check_number("angle", angle, high=90.0)
    volumes = np.exp(host(selection.score(chosen)))  # checks the set and the bases
    adjacency, notes = _adjacency(
        laplacian, Y, values, k, host(selection.points), (selection.diagnostics.get("graph_components") or 1) > 1
    )
    members = list(chosen)
    every = Y / np.sqrt(np.maximum(values, 1e-300))  # then all of them have mean gradients of the same length
    every /= float(np.abs(every).max()) or 1.0
    ratio, near, within = collapse_ratio(every, members, k)
    copied = float((within < COPY).mean())
    if copied > smallest:
        notes += (f"At {copied:.0%} of the points most neighbours are copies, and nothing can be seen; leave them out",)
    jacobian = scaled_jacobian(host(selection.bases), host(selection.singular_values), values, members)
    planes, sizes, _ = np.linalg.svd(jacobian, full_matrices=False)
    flat = sizes[:, -1] / np.maximum(sizes[:, 0], 1e-300)
    collapsed = ratio > collapse
    least = max(10, int(smallest * n))
    groups = _groups(adjacency, collapsed & (flat < flatness), least)
    groups = [g for g in groups if (stretched(every, members, within, adjacency, g, k) > collapse).mean() >= CONFIRMED]
    large = [group for group in groups if len(group) >= region * n]
    sheets = find_sheets(adjacency, near, np.flatnonzero(collapsed & (flat >= flatness)), planes, angle)
    return Diagnosis(
        subset=chosen,
        embedding=Y[:, members],
        collapse=ratio,
        flatness=flat,
        volumes=volumes,
        dependencies=tuple(large),
        knots=tuple(group for group in groups if len(group) < region * n),
        **_reported(sheets, least),
        notes=notes,
    )


def _reported(sheets: Sheets, least: int) -> dict[str, np.ndarray]:
    """The pairs, unless there are so few that they are chance."""
    none = np.empty((0, 2), dtype=np.int64)
    many = len(sheets.crossings) >= least
    return {
        "crossings": sheets.crossings if many else none,
        "angles": sheets.angles if many else np.empty(0),
        "overlaps": sheets.overlaps if len(sheets.overlaps) >= least else none,
    }


def collapse_ratio(every: np.ndarray, members: list[int], k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Collapse at each point (n,), its k nearest points in the map (n, k), and how far the k nearest in all are (n,).

    Medians over the k nearest, of distances in all eigenvectors.
    """
    backend = backend_of(every)
    with backend.active():
        _, near = backend.nearest(np.ascontiguousarray(every[:, members]), k)
        distances, _ = backend.nearest(every, k)
    within = np.maximum(np.median(distances, axis=1), 1e-15)
    return _spread(every, np.arange(len(every)), near) / within, near, within


def stretched(
    every: np.ndarray, members: list[int], within: np.ndarray, adjacency: Any, group: np.ndarray, k: int
) -> np.ndarray:
    """Collapse at the points of a group when the map of it and its neighbours is stretched to the same width all round.

    A linear change of coordinates loses nothing. Where a map is thin it undoes the collapse; where a map is folded, or
    shrinks to a point or a curve, it does not.
    """
    around = np.union1d(group, adjacency[group].indices)
    if len(around) <= k:
        return np.full(len(group), np.inf)
    local = every[around][:, members]
    white = np.linalg.svd(local - local.mean(axis=0), full_matrices=False)[0]
    backend = backend_of(white)
    with backend.active():
        _, near = backend.nearest(np.ascontiguousarray(white), k)
    return _spread(every, group, around[near[np.searchsorted(around, group)]]) / within[group]


def _spread(every: np.ndarray, points: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Median distance in all eigenvectors between each of the points and the points near it."""
    spread = np.empty(len(points))
    for block in backend_of(every).blocks(len(points), 24.0 * near.shape[1] * every.shape[1], "diagnosis"):
        with block as rows:
            apart = every[near[rows]] - every[points[rows]][:, None]
            spread[rows] = np.median(np.linalg.norm(apart, axis=2), axis=1)
    return spread


def scaled_jacobian(bases: np.ndarray, sigma: np.ndarray, eigenvalues: np.ndarray, members: list[int]) -> np.ndarray:
    """The map's Jacobian in an orthonormal tangent basis (n, s, d), each row over the root of its eigenvalue.

    ``H = U diag(sigma) U'`` is the co-metric of all coordinates, so ``U_S diag(sigma)^1/2`` is the Jacobian of S.
    """
    slopes = bases[:, members] * np.sqrt(np.maximum(sigma, 0.0))[:, None, :]
    return slopes / np.sqrt(np.maximum(eigenvalues[members], 1e-300))[None, :, None]


def _groups(adjacency: Any, marked: np.ndarray, least: int) -> list[np.ndarray]:
    """Connected groups of marked points, the largest first, without those smaller than ``least``."""
    points = np.flatnonzero(marked)
    if len(points) < least:
        return []
    _, labels = connected_components(adjacency[points][:, points], directed=False)
    order = np.argsort(labels, kind="stable")
    parts = np.split(points[order], np.cumsum(np.bincount(labels))[:-1])
    return sorted((part for part in parts if len(part) >= least), key=len, reverse=True)


def _adjacency(
    laplacian: Any, Y: np.ndarray, eigenvalues: np.ndarray, k: int, points: np.ndarray, some_left_out: bool
) -> tuple[Any, tuple[str, ...]]:
    """Which points are neighbours, as a CSR on the host, and what has to be said about it."""
    if laplacian is not None:
        laplacian = check_laplacian(laplacian)
        given = laplacian.shape[0]
        every = given > points.max() and (some_left_out or len(points) <= points.max())
        if given != len(Y) and not every:
            raise ValueError(f"laplacian is for {given} points, but the selection has {len(Y)}; make it from the same")
        if laplacian.operator.has_matrix:
            P = laplacian.transition
            P = P if isinstance(P.data, np.ndarray) else P.get()
            return P if given == len(Y) else P[points][:, points], ()
        note = "The graph is too dense to be looked at; neighbours in all eigenvectors stood in for it"
    else:
        note = "Without a laplacian, neighbours in all eigenvectors stood in for the graph"
    return knn_graph(Y / np.sqrt(np.maximum(eigenvalues, 1e-300)), n_neighbors=k), (note,)
