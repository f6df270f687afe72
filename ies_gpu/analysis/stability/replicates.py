"""How certain is the choice: would another sample of the same size have chosen the same coordinates?

There are two answers. A bootstrap over points keeps the eigenvectors and reweights the points: nearly free, but blind
to the variation of the eigenvectors themselves. Refits on subsamples see everything. Both are set up to vary as a
*fresh* sample does: this sample and the fresh one each have their own error, so the variance to imitate is twice that
of one sample. Half as many draws with replacement, or a third of the points without, have exactly that variance.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend import at_home, backend_of, device_near, get_backend, to_host
from ...backend.array import Array
from ...choice.criterion import Scores, log_volumes, score_pass
from ...choice.regularization import first_acceptable, places_among, regret_at, regularization_path, segment_at
from ...choice.stable import NEAR, near_pairs
from ...errors import DisconnectedGraphError, IESWarning, NotConvergedError
from ...findings import code_of, listen, option, refusal
from ...options import INPUTS
from ...results.same_points import used_points
from ...results.selection import Selection, bases_of
from ...select import select_coordinates
from ...validation import check_integer, check_number, check_points, check_seed
from .result import Stability

POOL = 5_000  # the bootstrap chooses among at most this many sets
MATCH = 0.5  # eigenvectors of two fits with a smaller correlation are not the same
KEPT = 0.9  # the share of a subsample that must lie in one connected part
OWN = {"disconnected", "keep_bases", "checkpoint", "resume", "progress"}  # of the first fit only, not of the refits
OPTIONS = (
    "bandwidth", "n_neighbors", "radius", "self_loops", "metric", "alpha", "n_components", "intrinsic_dim",
    "subset_size",
    "zeta", "percentile", "search", "dtype", "random_state", "tol",
)  # fmt: skip


@at_home
def selection_stability(
    selection_or_X: Any,
    *,
    X: Array = None,
    n_bootstrap: int = 200,
    n_refits: int = 20,
    share: float = 1 / 3,
    near: float = NEAR,
    random_state: Any = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Stability:
    """Estimate how often other samples would choose the same coordinates.

    Two sets count as the same if their eigenvectors match (by correlation on common points), whatever their numbers.

    Parameters
    ----------
    selection_or_X : Selection or ndarray of shape (n_samples, n_features)
        A result with its tangent bases, or points, which are then fitted first.
    X : ndarray of shape (n_samples, n_features), optional
        With a Selection: the points it was made from. Without them there are no refits and no confidence.
    n_bootstrap : int, default=200
        Resamples of the points with the eigenvectors kept.
    n_refits : int, default=20
        Fits of subsamples, from the graph on; 0 for none.
    share : float, default=1/3
        Size of a subsample. A third varies around this sample as a fresh sample of the full size would.
    near : float, default=0.05
        Neighbouring eigenvalues are reported if their relative difference is at most this.
    random_state : int, RandomState, Generator or None, default=0
        Seed for resamples and subsamples.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    **options
        Options of :func:`select_coordinates` for the fit of the points and for the refits (``device``,
        ``n_threads``, ...). With a Selection, its own parameters hold unless you give others.

    Returns
    -------
    Stability
        ``recurrence`` is the share of fresh samples of this size that would choose the same set, ``confidence`` a
        lower bound on it.

    Raises
    ------
    ValueError
        If the tangent bases were not kept, or a subsample would have too few points.

    Examples
    --------
    >>> from ies_gpu import datasets, select_coordinates, selection_stability
    >>> X = datasets.load("D1", n_samples=400).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> stability = selection_stability(selection, X=X, n_bootstrap=20, n_refits=3, share=0.5)
    >>> stability.bootstrap  # the eigenvectors are kept: a lower limit of the variation
    {(0, 6): 1.0}
    >>> sum(stability.refits.values())
    1.0
    """
    n_bootstrap = check_integer("n_bootstrap", n_bootstrap, low=0, high=1_000_000)
    n_refits = check_integer("n_refits", n_refits, low=0, high=100_000)
    share, near = check_number("share", share, high=1.0), check_number("near", near, high=1.0, closed=True)
    seed = check_seed(random_state)
    rng = np.random.default_rng(seed)
    allowed = set(inspect.signature(select_coordinates).parameters) - set(INPUTS)
    if unknown := set(options) - allowed:
        text = f"not options of select_coordinates for points: {', '.join(sorted(unknown))}"
        raise refusal("options.unknown", text, kind=TypeError)
    selection, X, options = _starting_point(selection_or_X, X, options)
    bases_of(selection)  # an error without them
    n_refits = 0 if X is None else n_refits
    size = round(share * len(selection.coordinates))
    least = check_integer("n_components", options.get("n_components", selection.coordinates.shape[1]), low=1) + 2
    if n_refits and size < least:
        text = (
            f"{option('share', share)} leaves {size} points, but {option('n_components', least - 2)} needs at least "
            f"{least}"
        )
        raise refusal("share.too_few", text, "use a larger share, or n_refits=0 for the bootstrap alone")
    chosen = bootstrap_choices(selection, n_bootstrap, rng, progress)
    refits, correlations, failed = _refitted(selection, X, n_refits, size, rng, options, progress)
    return Stability(
        subset=selection.subset,
        bootstrap=_shares(chosen),
        refits=_shares(refits),
        n_bootstrap=len(chosen),
        n_refits=len(refits),
        failed_refits=failed,
        match_correlations=np.array(correlations),
        near_pairs=near_pairs(to_host(selection.eigenvalues), near),
        points_known=selection.diagnostics.get("points_digest") is not None,
        random_state=seed,
    )


def _starting_point(given: Any, X: Array, options: dict[str, Any]) -> tuple[Selection, Any, dict[str, Any]]:
    """The selection to judge, the points it was made from (None when not known), and how to repeat it."""
    again = {name: value for name, value in options.items() if name not in OWN}
    if not isinstance(given, Selection):
        if X is not None:
            raise refusal("X.twice", "X is given twice", "pass the points once", TypeError)
        X = check_points(given)
        selection = select_coordinates(X, **options | {"keep_bases": True})
        used = selection.diagnostics["parameters"]  # refits repeat the fit, with what it found where that was automatic
        return selection, X[selection.points], again | {k: used[k] for k in OPTIONS if used.get(k) is not None}
    known = given.diagnostics.get("parameters", {})
    if "bandwidth" in again or again.get("n_neighbors") is not None:  # another bandwidth has another radius
        known = known | {"radius": None}
    if again.get("radius") is not None:  # nor do nearest neighbours go with a radius
        known = known | {"n_neighbors": None}
    again = {name: known[name] for name in OPTIONS if known.get(name) is not None} | again
    if X is not None:
        if known.get("entry", "X") != "X":
            text = f"refits need a selection made from X, but this one was made from a {known['entry']}"
            raise refusal("selection.entry", text, "leave X out")
        X = used_points(given, check_points(X))
    return given, X, again


def _shares(choices: list[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    return {subset: count / len(choices) for subset, count in Counter(choices).most_common()}


def bootstrap_choices(
    selection: Selection,
    count: int,
    rng: np.random.Generator,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[tuple[int, ...]]:
    """The set that each resample of the points chooses, with eigenvectors and tangent bases kept."""
    if count == 0:
        return []
    n = len(selection.coordinates)
    draws = max(2, n // 2)
    # as weights: a point that is drawn k times counts k times
    counts = np.empty((count, n), dtype=np.uint16)
    for row in counts:
        row[:] = np.bincount(rng.integers(0, n, draws), minlength=n)
    return weighted_choices(selection, counts, progress)


def weighted_choices(
    selection: Selection, counts: np.ndarray, progress: Callable[[str, int, int], None] | None = None
) -> list[tuple[int, ...]]:
    """The set that is chosen when point i occurs ``counts[b, i]`` times, for each b.

    The same as scoring the repeated points one by one: totals are sums over points, hence products with the counts.
    """
    bases = selection.bases
    backend = backend_of(bases)
    sets = _pool(selection)
    totals = _totals(bases, sets, counts)
    values = to_host(selection.eigenvalues)
    paths = [regularization_path(row / c.sum(), sets, values) for row, c in zip(totals, counts, strict=True)]
    on_paths = sorted({segment.subset for path in paths for segment in path})
    column = {subset: k for k, subset in enumerate(on_paths)}
    own = backend.to_host(log_volumes(bases, np.array(on_paths, dtype=np.int32)))
    places = places_among(np.array(on_paths), sets)
    scores = score_pass(bases, sets)
    best, best_scores = backend.to_host(scores.best), backend.to_host(scores.best_scores)
    parameters = selection.diagnostics.get("parameters", {})
    zeta, percentile = parameters.get("zeta", "auto"), parameters.get("percentile", 75.0)
    chosen = []
    for b, path in enumerate(paths):
        if progress is not None:
            progress("bootstrap", b + 1, len(paths))
        if zeta != "auto":
            chosen.append(path[segment_at(path, float(zeta))].subset)
            continue
        columns = [column[segment.subset] for segment in path]
        at, known = places[columns], Scores(totals[b], best, best_scores)
        regrets = regret_at(own[:, columns], totals[b][at], at, known, int(counts[b].sum()))
        found = first_acceptable(np.percentile(np.repeat(regrets, counts[b], axis=0), percentile, axis=0))
        chosen.append(path[len(path) - 1 if found is None else found].subset)
    return chosen


def _pool(selection: Selection) -> np.ndarray:
    """The sets to choose among, in lexicographic order: all, or the best ones and those on the path."""
    sets = selection.ranking.subsets
    if len(sets) > POOL:
        by_score = np.argsort(-selection.ranking.scores, kind="stable")[: POOL // 2]
        on_path = np.array([segment.subset for segment in selection.path])
        sets = np.unique(np.vstack([sets[: POOL // 2], sets[by_score], on_path]), axis=0)
    return np.ascontiguousarray(sets[np.lexsort(sets.T[::-1])], dtype=np.int32)


def _totals(bases: Array, sets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``sum_i counts[b, i] R(S; i)`` for every b and S, in blocks of points."""
    backend = backend_of(bases)
    totals = backend.xp.zeros((len(counts), len(sets)))
    with backend.active():
        for block in backend.blocks(len(bases), 24.0 * (len(sets) + len(counts)), "bootstrap"):
            with block as rows:
                weights = backend.asarray(counts[:, rows].astype(np.float64))
                share = weights @ log_volumes(bases[rows], sets)
                totals += share
    return backend.to_host(totals)


def _refitted(
    selection: Selection,
    X: Array,
    count: int,
    size: int,
    rng: np.random.Generator,
    options: dict[str, Any],
    progress: Callable[[str, int, int], None] | None,
) -> tuple[list[tuple[int, ...]], list[float], int]:
    """The sets that subsamples choose, numbered as in the full sample; correlations of the matches; failed fits."""
    chosen, correlations, failed = [], [], 0
    n = len(selection.coordinates)
    host = to_host(selection.coordinates)
    if count:  # found once, so that a word on the device comes once too
        near = device_near(backend_of(X), options.get("device", "auto"))
        options = options | {"device": get_backend(near).device}
    for k in range(count):
        rows = np.sort(rng.choice(n, size, replace=False))
        try:
            with listen(IESWarning):
                fit = select_coordinates(X[rows], **options | {"disconnected": "largest", "keep_bases": False})
        except (DisconnectedGraphError, NotConvergedError, np.linalg.LinAlgError):
            fit = None
        except ValueError as error:  # the largest part has fewer points than eigenvectors: the subsample has enough
            if code_of(error) != "points.too_few":
                raise
            fit = None
        points = None if fit is None else to_host(fit.points)
        if fit is None or points is None or len(points) < KEPT * len(rows):
            failed += 1
        else:
            subset, weakest = matched_subset(host[rows[points]], fit)
            chosen.append(subset)
            correlations.append(weakest)
        if progress is not None:
            progress("refits", k + 1, count)
    return chosen, correlations, failed


def matched_subset(coordinates: np.ndarray, fit: Selection) -> tuple[tuple[int, ...], float]:
    """A fit's chosen set, numbered as other eigenvectors at the same points, and the weakest correlation.

    Eigenvectors are paired one to one by their correlations; a member without a counterpart becomes -1.
    """
    from scipy.optimize import linear_sum_assignment

    other = to_host(fit.coordinates)
    correlation = np.abs(_unit(coordinates).T @ _unit(other))
    rows, columns = linear_sum_assignment(-correlation)
    partner = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    strengths = [float(correlation[partner[k], k]) if k in partner else 0.0 for k in fit.subset]
    members = [partner[k] if strength >= MATCH else -1 for k, strength in zip(fit.subset, strengths, strict=True)]
    return tuple(sorted(members)), min(strengths)


def _unit(columns: np.ndarray) -> np.ndarray:
    centred = columns - columns.mean(axis=0)
    return centred / np.maximum(np.linalg.norm(centred, axis=0), 1e-300)
