"""What is wrong with a map: functional dependencies, knots, crossings and overlaps, found without knowing the truth.

Two numbers are computed at each point. *Collapse*: the distance, in all m eigenvectors, to the point's nearest
neighbours in the map, divided by the distance to its nearest neighbours in all eigenvectors. It is about 1 where the
map keeps neighbourhoods, and large where the map throws distant points together, whatever the reason. The flat ends of
every cosine do not count, because all eigenvectors are flat there. *Flatness*: the ratio of the smallest to the largest
singular value of the map's Jacobian. It is zero where the volume vanishes, and tells the reasons apart. A flat region
counts only if neighbourhoods still fall together when the map is stretched there: a region can be thin and still keep
all points apart. With as many coordinates as dimensions, the map's volume has a sign, which a knot changes.

    collapsed and flat, a connected region of many points     functional dependency
    turned over at a line, or collapsed and flat, few points  knot
    collapsed, not flat, two sheets at an angle               crossing (needs s > d)
    collapsed, not flat, two sheets on top of each other      overlap
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from ..backend import at_home, backend_of, to_host
from ..backend.array import Array
from ..choice import faults
from ..choice.criterion import check_spanning, coordinate_numbers, log_volumes, names_text
from ..choice.faults import Sample
from ..embedding.laplacian import Laplacian, check_laplacian
from ..embedding.local import knn_graph
from ..embedding.parts import parts_of
from ..embedding.points import laplacian_of_points
from ..findings import refusal
from ..parameters.judgement import FOLDED
from ..results.selection import Selection, bases_of, check_selection, used_points
from ..validation import check_points

Groups = tuple[np.ndarray, ...]
REGION = 0.1  # of the points: a flat, collapsed region of as many is a dependency, a smaller one a knot
ANGLE = 30.0  # degrees between tangent planes, from which on sheets cross
ENTRY = 45  # bytes per entry that making a Laplacian takes, as measured
COPY = 1e-6  # of the largest coordinate: points this close in all eigenvectors are one point
MOSTLY = 0.75  # of the points flat: D1..D13 with 400 to 1,500 points are up to 66% if chosen, from 93% if dependent
SHARE = 0.2  # of a neighbourhood that a second sheet must hold
CONFIRMED = 0.05  # of a flat region must stay collapsed when the map is stretched there; otherwise it is only thin


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What :func:`diagnose` found.

    Points are numbered by their rows in ``selection.coordinates``.

    Attributes
    ----------
    subset : tuple of int
        The set that was examined, 0-based.
    embedding : ndarray of shape (n_samples, s)
        Its coordinates.
    collapse : ndarray of shape (n_samples,)
        How far apart the neighbours of each point in the map really are, as a multiple of the usual distance.
    flatness : ndarray of shape (n_samples,)
        The ratio of the smallest to the largest singular value of the map's Jacobian.
    volumes : ndarray of shape (n_samples,)
        ``exp R(S; i)``.
    dependencies, knots : tuple of ndarray of int
        The points of each connected region, largest region first.
    crossings, overlaps : ndarray of shape (n_pairs, 2)
        Pairs of points that are close in the map but lie on different sheets: at an angle, or on top of each other.
    angles : ndarray of shape (n_crossings,)
        Between the two tangent planes, in degrees.
    notes : tuple of str
        What could not be examined.
    undecided : bool
        Whether the map is flat nearly everywhere, but neighbourhoods are too wide to tell thin from folded.
    knots_checked : bool
        Whether knots were looked for: with as many coordinates as dimensions, or by the graph of the run.
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
    undecided: bool = False
    knots_checked: bool = True

    @property
    def rows(self) -> dict[str, np.ndarray]:
        """The points in each kind of finding."""
        kinds = {"dependency": self.dependencies, "knot": self.knots}
        kinds |= {"crossing": (self.crossings,), "overlap": (self.overlaps,)}
        return {kind: np.unique(np.concatenate([*map(np.ravel, own), []]).astype(int)) for kind, own in kinds.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of points in each kind of finding."""
        return {kind: len(rows) for kind, rows in self.rows.items()}

    @property
    def clean(self) -> bool:
        """Whether nothing was found, and nothing is left undecided."""
        return not self.undecided and not any(self.counts.values())

    @property
    def verdict(self) -> str:
        """The findings in words."""
        count, places = self.counts, f"{len(self.knots)} place{'s' * (len(self.knots) > 1)}"
        told = {
            "dependency": f"functionally dependent at {count['dependency'] / len(self.collapse):.0%} of the points, "
            "where they do not span the tangent space; choose another set",
            "knot": f"knotted in {places} ({count['knot']:,} points), where a dimension vanishes",
            "crossing": f"crossing: {count['crossing']:,} points on sheets that pass through each other (median angle "
            f"{np.median(self.angles) if len(self.angles) else 0:.0f} degrees); another coordinate would separate them",
            "overlap": f"overlapping: {count['overlap']:,} points on sheets that lie on top of each other",
        }
        kinds = "dependency, knot, crossing" if self.knots_checked else "dependency, crossing"
        nothing = "not decided" if self.undecided else f"no {kinds} or overlap found"
        found = "; ".join(text for kind, text in told.items() if count[kind])
        return ". ".join([f"{names_text(self.subset)}: {found or nothing}", *self.notes]) + "."

    def __repr__(self) -> str:
        return f"Diagnosis of {self.verdict}"


@at_home
def diagnose(
    selection: Selection, *, X: Array = None, laplacian: Any = None, subset: Sequence[int | str] | None = None
) -> Diagnosis:
    """Look for places where the chosen coordinates fail to be a map.

    It finds functional dependencies and knots, where the map loses a dimension, and crossings and overlaps, where
    sheets of the map meet. It does not need to know the truth.

    Parameters
    ----------
    selection : Selection
        A result with its tangent bases.
    X : array-like of shape (n_samples, n_features), optional
        The points of the run. They give its graph, which says which points are connected. Without a graph, the nearest
        points in all eigenvectors stand in.
    laplacian : Laplacian or sparse matrix of shape (n_samples, n_samples), optional
        The Laplacian (or ``I - P``) of the points in the map, for runs from a graph or kernel of your own.
    subset : sequence of int or str, optional
        The set to examine, as 0-based numbers or names such as "phi7"; the chosen set by default.

    Returns
    -------
    Diagnosis
        What was found, in numbers and in words.

    Examples
    --------
    >>> from ies_gpu import datasets, diagnose, select_coordinates
    >>> X = datasets.load("D1", n_samples=1000).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=0.6)
    >>> diagnose(selection, X=X).clean
    True
    >>> diagnose(selection, X=X, subset=("phi1", "phi2")).counts["dependency"] > 100
    True
    """
    check_selection(selection)
    sample = sample_of(selection, turned=subset is None)
    (n, m), k = sample.coordinates.shape, min(faults.AROUND, len(sample.coordinates) - 1)
    chosen = tuple(sorted(coordinate_numbers(selection.subset if subset is None else subset, m)))
    volumes = np.exp(log_volumes(sample.bases, check_spanning([chosen], sample.bases, "subset"))[:, 0])
    if X is not None:
        X = used_points(selection, check_points(X))
        laplacian = laplacian_of_run(selection, X) if laplacian is None else laplacian
    adjacency, has_graph, notes = _adjacency(laplacian, sample.coordinates, sample.eigenvalues, k)
    every, jacobian = sample.commute, sample.jacobian(chosen)
    found = faults.collapse(every, chosen, k)
    folds = faults.find_folds(sample.bases, jacobian, found.in_all)
    if folds is None and not has_graph:
        notes += ("Knots were not checked, which takes the points: diagnose(selection, X=X)",)
    copied = float((found.within < COPY).mean())
    if copied > faults.SMALLEST:
        notes += (f"At {copied:.0%} of the points most neighbours are copies, which hide all else; remove them",)
    flat, planes = faults.flatness(jacobian)
    collapsed = found.ratio > faults.COLLAPSED
    least = max(10, int(faults.SMALLEST * n))
    groups = _groups(adjacency, collapsed & (flat < faults.FLAT), least)
    ratios = [stretched(every, chosen, found, adjacency, group) for group in groups]
    groups = [g for g, ratio in zip(groups, ratios, strict=True) if (ratio > faults.COLLAPSED).mean() >= CONFIRMED]
    large = [group for group in groups if len(group) >= REGION * n]
    share = float((flat < faults.FLAT).mean())
    undecided = share >= MOSTLY and not large
    if undecided:
        text = f"The map is flat at {share:.0%} of the points, but neighbourhoods of {k} among {n:,} are too wide to "
        text += f"tell thin from folded; use more points{', or pass X' if laplacian is None and X is None else ''}"
        notes = (text, *notes)
    knots = [group for group in groups if len(group) < REGION * n]
    if folds is not None:  # the lines at which the map is turned over
        knots = [] if large or folds.share <= FOLDED[0] else _groups(adjacency, folds.at(found.in_all), least)
    pairs, angles = find_sheets(every, found, np.flatnonzero(collapsed & (flat >= faults.FLAT)), planes)
    crossing = angles >= ANGLE
    crossing, overlapping = (part if part.sum() >= least else part & False for part in (crossing, ~crossing))  # chance
    return Diagnosis(
        subset=chosen, embedding=sample.coordinates[:, list(chosen)], collapse=found.ratio, flatness=flat,
        volumes=volumes, dependencies=tuple(large), knots=tuple(knots), crossings=pairs[crossing],
        overlaps=pairs[overlapping], angles=angles[crossing], notes=notes, undecided=undecided,
        knots_checked=has_graph or folds is not None,
    )  # fmt: skip


def sample_of(selection: Selection, turned: bool) -> Sample:
    """Return all points of a map on the host, with coordinates of length 1, the chosen ones turned if asked for."""
    Y, bases, sigma = selection.coordinates, bases_of(selection), selection.singular_values
    Y, bases, sigma, values = (to_host(array).astype(float) for array in (Y, bases, sigma, selection.eigenvalues))
    lengths = np.maximum(np.linalg.norm(Y, axis=0), 1e-300)
    found = Sample(Y / lengths, bases, sigma, values)
    if selection.rotation is None or not turned:
        return found
    weights = to_host(selection.rotation) * lengths[:, None] / lengths[list(selection.subset)]
    return found.turned(selection.subset, weights)


def laplacian_of_run(selection: Selection, points: Array) -> Laplacian | None:
    """Return the Laplacian of a run from these points within a radius; None of another, or if memory is too small."""
    used = selection.diagnostics.get("parameters", {})
    if used.get("entry") != "X" or used.get("n_neighbors") is not None or not isinstance(used.get("bandwidth"), float):
        return None
    degree = selection.diagnostics.get("mean_degree") or 0.0
    if ENTRY * len(points) * (degree + 1) > backend_of(points).memory_budget():  # the run may have been in tiles
        return None
    known = ("bandwidth", "radius", "self_loops", "metric", "alpha")
    return laplacian_of_points(points, **{name: used[name] for name in known if used.get(name) is not None})


def stretched(every: Array, subset: tuple[int, ...], found: faults.Collapse, adjacency: Array, group: Array) -> Array:
    """Return the collapse at the points of a group after the map is stretched there to one width in all directions.

    Where the map is only thin, that undoes the collapse; where it is folded, or shrinks to a point or a curve, not.
    """
    around, k = np.union1d(group, adjacency[group].indices), found.in_all.shape[1]
    if len(around) <= k:
        return np.full(len(group), np.inf)
    local = every[around][:, list(subset)]
    white = np.linalg.svd(local - local.mean(axis=0), full_matrices=False)[0]
    near = around[faults.nearest(np.ascontiguousarray(white), k)[np.searchsorted(around, group)]]
    return np.median(faults.distances_to(every, group, near), axis=1) / found.within[group]


def _groups(adjacency: Array, marked: np.ndarray, least: int) -> list[np.ndarray]:
    """Connected groups of marked points, the largest first, without those smaller than ``least``."""
    points = np.flatnonzero(marked)
    if len(points) < least:
        return []
    _, labels = connected_components(adjacency[points][:, points], directed=False)
    return [part for part in parts_of(points, labels) if len(part) >= least]


def _adjacency(laplacian: Any, Y: np.ndarray, eigenvalues: np.ndarray, k: int) -> tuple[Any, bool, tuple[str, ...]]:
    """Return which points are neighbours, as a CSR on the host, whether by the graph of the run, and notes."""
    why = "of the run is not known, or too large"
    if laplacian is not None:
        laplacian = check_laplacian(laplacian)
        if laplacian.shape[0] != len(Y):
            text = f"laplacian is for {laplacian.shape[0]} points, but the selection has {len(Y)}"
            raise refusal("laplacian.rows", text, "use the same points")
        if laplacian.operator.has_matrix:
            P = laplacian.transition
            return P if isinstance(P.data, np.ndarray) else P.get(), True, ()
        why = "is too dense to examine"
    note = f"The graph {why}, so nearest neighbours in all eigenvectors were used instead"
    return knn_graph(Y / np.sqrt(np.maximum(eigenvalues, 1e-300)), n_neighbors=k), False, (note,)


def find_sheets(every: Array, found: faults.Collapse, centres: Array, planes: Array) -> tuple[Array, Array]:
    """Return pairs (p, 2) of points near in the map and far in all eigenvectors, and angles of its planes (n, s, d)."""
    near = found.in_map[centres]
    foreign = faults.distances_to(every, centres, near) > faults.COLLAPSED * found.within[centres][:, None]
    own = 1 + (~foreign).sum(axis=1)  # of a neighbourhood, either sheet must hold enough
    two = (foreign.sum(axis=1) >= SHARE * near.shape[1]) & (own >= max(2, SHARE * near.shape[1]))
    pairs = np.column_stack([centres, near[range(len(near)), foreign.argmax(axis=1)]])[two]
    cosines = np.linalg.svd(planes[pairs[:, 0]].transpose(0, 2, 1) @ planes[pairs[:, 1]], compute_uv=False)
    return pairs, np.degrees(np.arccos(np.clip(cosines.min(axis=1, initial=1.0), -1.0, 1.0)))
