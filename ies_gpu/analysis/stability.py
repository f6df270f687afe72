"""How certain is the choice: would another sample of the same size have chosen the same coordinates?

There are two answers. A bootstrap over points keeps the eigenvectors and reweights the points: nearly free, but blind
to the variation of the eigenvectors themselves. Refits on subsamples see everything. Both are set up to vary as a
*fresh* sample does: this sample and the fresh one each have their own error, so the variance to imitate is twice that
of one sample. Half as many draws with replacement, or a third of the points without, have exactly that variance.
"""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from ..backend import at_home, backend_of, device_near, get_backend, to_host
from ..backend.array import Array
from ..choice.criterion import Scores, log_volumes, score_pass
from ..choice.naming import coordinate_names, names_text
from ..choice.regularization import first_acceptable, places_among, regret_at, regularization_path, segment_at
from ..choice.stable import NearPair, near_pairs, same_up_to_twins
from ..errors import DisconnectedGraphError, IESWarning, NotConvergedError
from ..findings import code_of, listen, option, refusal
from ..options import INPUTS
from ..results.same_points import used_points
from ..results.selection import Selection, bases_of
from ..validation import check_integer, check_number, check_points, check_seed

POOL = 5_000  # the bootstrap chooses among at most this many sets
MATCH = 0.5  # eigenvectors of two fits with a smaller correlation are not the same
KEPT = 0.9  # the share of a subsample that must lie in one connected part
OWN = {"disconnected", "keep_bases", "checkpoint", "resume", "progress"}  # of the first fit only, not of the refits
OPTIONS = (
    "bandwidth", "n_neighbors", "radius", "self_loops", "metric", "alpha", "n_components", "intrinsic_dim",
    "subset_size", "zeta", "percentile", "search", "dtype", "random_state", "tol",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """How certain a choice is, as found by :func:`selection_stability`.

    Attributes
    ----------
    subset : tuple of int
        The set that was judged, 0-based.
    bootstrap, refits : dict of {tuple of int: float}
        The share of resamples, and of subsamples, that chose each set, most frequent first. Sets of subsamples are
        numbered by the matching eigenvectors of the full sample; -1 stands for one without a match.
    n_bootstrap, n_refits, failed_refits : int
        How many there were. A refit fails if the graph of its subsample falls apart.
    near_pairs : tuple of NearPair
        Neighbouring eigenvalues that nearly coincide.
    random_state : int
        The seed that was used.
    """

    subset: tuple[int, ...]
    bootstrap: dict[tuple[int, ...], float]
    refits: dict[tuple[int, ...], float]
    n_bootstrap: int
    n_refits: int
    failed_refits: int
    near_pairs: tuple[NearPair, ...]
    random_state: int = 0

    @property
    def recurrence(self) -> float | None:
        """The estimated share of fresh samples that would choose the same set; None without refits.

        The smaller of the bootstrap's and the refits' share, each with half a success and half a failure added
        (Jeffreys), because 20 out of 20 is not certainty.
        """
        return self._judged({self.subset}, bound=False)

    @property
    def confidence(self) -> float | None:
        """A lower bound on this share that holds with probability 90%, given the number of refits."""
        return self._judged({self.subset}, bound=True)

    @property
    def confidence_up_to_twins(self) -> float | None:
        """The same bound if members may be exchanged for nearly degenerate twins."""
        every = (*self.bootstrap, *self.refits)
        return self._judged({s for s in every if same_up_to_twins(self.subset, s, self.near_pairs)}, bound=True)

    def _judged(self, sets: set[tuple[int, ...]], *, bound: bool) -> float | None:
        if self.n_refits == 0:
            return None
        found = []
        for shares, count in ((self.refits, self.n_refits), (self.bootstrap, self.n_bootstrap)):
            hits = count * sum(shares.get(s, 0.0) for s in sets) + 0.5
            rest = count + 1 - hits
            found.append(float(betaincinv(hits, rest, 0.1)) if bound else hits / (count + 1))
        return min(found[: 2 if self.n_bootstrap else 1])

    @property
    def verdict(self) -> str:
        """The findings in a few sentences."""
        chosen = names_text(self.subset)
        parts = []
        if self.confidence is None:
            share = self.bootstrap.get(self.subset, 0.0)
            if self.n_bootstrap:
                parts.append(f"{{{chosen}}} wins in {share:.0%} of the resamples, with the eigenvectors kept fixed.")
            if not self.failed_refits:
                parts.append("Refits are needed to see how much the eigenvectors vary (pass X, and n_refits above 0).")
        else:
            word = "sure" if self.confidence > 0.9 else "likely" if self.confidence > 0.5 else "uncertain"
            parts.append(
                f"The choice {{{chosen}}} is {word}: about {self.recurrence:.0%} of fresh samples of this size would "
                f"choose it (at least {self.confidence:.0%}, with 90% confidence)."
            )
            wide = self.confidence_up_to_twins
            if wide is not None and wide > self.confidence + 0.05:
                parts.append(f"Allowing swaps of nearly degenerate twins, at least {wide:.0%} would.")
        parts += self._doubts()
        rivals = [s for s in {**self.refits, **self.bootstrap} if s != self.subset]
        if rivals:
            parts.append("Rivals: " + "; ".join(map(names_text, rivals[:3])) + ".")
        named = [p for p in self.near_pairs if p.first in self.subset or p.second in self.subset]
        for pair in named:
            names = " and ".join(coordinate_names(pair[:2]))
            parts.append(f"The eigenvalues of {names} differ by only {pair.difference:.1%}, so the sample mixes them.")
        if named:
            parts.append("That alone does not make the map wrong.")
        return " ".join(parts)

    def _doubts(self) -> list[str]:
        """Reasons to doubt the refits themselves."""
        doubts = []
        if self.failed_refits:
            doubts.append(
                f"The graph of {self.failed_refits} of {self.failed_refits + self.n_refits} subsamples fell apart; "
                "they are not counted. Use a larger share or bandwidth."
            )
        lost = sum(share for subset, share in self.refits.items() if -1 in subset)
        if lost >= 0.5:
            doubts.append(
                f"In {lost:.0%} of the subsamples a chosen eigenvector has no counterpart: they have too few points "
                f"for the bandwidth. Use a larger share or bandwidth."
            )
        return doubts

    def __repr__(self) -> str:
        lines = [f"Stability of {names_text(self.subset)}"]
        for what, shares, count in (
            ("bootstrap", self.bootstrap, self.n_bootstrap),
            ("refits", self.refits, self.n_refits),
        ):
            listed = "; ".join(f"{names_text(s)} {share:.0%}" for s, share in list(shares.items())[:4]) or "none"
            lines.append(f"  {what:<14}{listed} (of {count})")
        lines.append(f"  {self.verdict}")
        return "\n".join(textwrap.fill(line, width=80, subsequent_indent=16 * " ") for line in lines)


@at_home
def selection_stability(
    selection: Selection,
    *,
    X: Array = None,
    n_bootstrap: int = 200,
    n_refits: int = 20,
    share: float = 1 / 3,
    random_state: Any = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Stability:
    """Estimate how often other samples would choose the same coordinates.

    Two sets count as the same if their eigenvectors match (by correlation on common points), whatever their numbers.

    Parameters
    ----------
    selection : Selection
        A result with its tangent bases.
    X : ndarray of shape (n_samples, n_features), optional
        The points it was made from. Without them there are no refits and no confidence.
    n_bootstrap : int, default=200
        Resamples of the points with the eigenvectors kept.
    n_refits : int, default=20
        Fits of subsamples, from the graph on; 0 for none.
    share : float, default=1/3
        Size of a subsample. A third varies around this sample as a fresh sample of the full size would.
    random_state : int, RandomState, Generator or None, default=0
        Seed for resamples and subsamples.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    **options
        Options of :func:`select_coordinates` for the refits, such as ``device``. The parameters of the selection hold
        unless you give others.

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
    if not isinstance(selection, Selection):
        text = f"selection_stability takes a Selection from select_coordinates, got {type(selection).__name__}"
        raise refusal("selection.type", text, kind=TypeError)
    from .. import select  # pictures of a Stability need no run

    n_bootstrap = check_integer("n_bootstrap", n_bootstrap, low=0, high=1_000_000)
    n_refits = check_integer("n_refits", n_refits, low=0, high=100_000)
    share = check_number("share", share, high=1.0)
    seed = check_seed(random_state)
    rng = np.random.default_rng(seed)
    allowed = set(inspect.signature(select.select_coordinates).parameters) - set(INPUTS)
    if unknown := set(options) - allowed:
        text = f"not options of select_coordinates for points: {', '.join(sorted(unknown))}"
        raise refusal("options.unknown", text, kind=TypeError)
    bases_of(selection)  # an error without them
    X, options = _starting_point(selection, X, options)
    n_refits = 0 if X is None else n_refits
    size = round(share * len(selection.coordinates))
    least = check_integer("n_components", options.get("n_components", selection.coordinates.shape[1]), low=1) + 2
    if n_refits and size < least:
        text = f"{option('share', share)} leaves {size} points, but {option('n_components', least - 2)} needs {least}"
        raise refusal("share.too_few", text, "use a larger share, or n_refits=0 for the bootstrap alone")
    n = len(selection.coordinates)
    counts = np.empty((n_bootstrap, n), dtype=np.uint16)  # a point that is drawn k times counts k times
    for row in counts:
        row[:] = np.bincount(rng.integers(0, n, max(2, n // 2)), minlength=n)
    chosen = weighted_choices(selection, counts, progress) if n_bootstrap else []
    refits, failed = _refitted(selection, X, n_refits, size, rng, options, progress)
    return Stability(
        subset=selection.subset,
        bootstrap=_shares(chosen),
        refits=_shares(refits),
        n_bootstrap=len(chosen),
        n_refits=len(refits),
        failed_refits=failed,
        near_pairs=near_pairs(to_host(selection.eigenvalues)),
        random_state=seed,
    )


def _starting_point(given: Selection, X: Array, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the points that a selection was made from, if they are known, and how to repeat it."""
    again = {name: value for name, value in options.items() if name not in OWN}
    known = given.diagnostics.get("parameters", {})
    if "bandwidth" in again or again.get("n_neighbors") is not None:  # another bandwidth has another radius
        known = known | {"radius": None}
    if again.get("radius") is not None:  # nor do nearest neighbours go with a radius
        known = known | {"n_neighbors": None}
    if X is not None:
        if known.get("entry", "X") != "X":
            text = f"refits need a selection made from X, but this one was made from a {known['entry']}"
            raise refusal("selection.entry", text, "leave X out")
        X = used_points(given, check_points(X))
    return X, {name: known[name] for name in OPTIONS if known.get(name) is not None} | again


def _shares(choices: list[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    return {subset: count / len(choices) for subset, count in Counter(choices).most_common()}


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
) -> tuple[list[tuple[int, ...]], int]:
    """Return the sets that subsamples choose, numbered as in the full sample, and how many fits failed."""
    from .. import select

    chosen, failed = [], 0
    n = len(selection.coordinates)
    host = to_host(selection.coordinates)
    if count:  # found once, so that a word on the device comes once too
        near = device_near(backend_of(X), options.get("device", "auto"))
        options = options | {"device": get_backend(near).device}
    for k in range(count):
        rows = np.sort(rng.choice(n, size, replace=False))
        try:
            with listen(IESWarning):
                fit = select.select_coordinates(X[rows], **options | {"disconnected": "largest", "keep_bases": False})
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
            chosen.append(matched_subset(host[rows[points]], fit))
        if progress is not None:
            progress("refits", k + 1, count)
    return chosen, failed


def matched_subset(coordinates: np.ndarray, fit: Selection) -> tuple[int, ...]:
    """Return a fit's chosen set, numbered as other eigenvectors at the same points.

    Eigenvectors are paired one to one by their correlations; a member without a counterpart becomes -1.
    """
    from scipy.optimize import linear_sum_assignment

    other = to_host(fit.coordinates)
    correlation = np.abs(_unit(coordinates).T @ _unit(other))
    rows, columns = linear_sum_assignment(-correlation)
    partner = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    matched = (k in partner and correlation[partner[k], k] >= MATCH for k in fit.subset)
    return tuple(sorted(partner[k] if same else -1 for k, same in zip(fit.subset, matched, strict=True)))


def _unit(columns: np.ndarray) -> np.ndarray:
    centred = columns - columns.mean(axis=0)
    return centred / np.maximum(np.linalg.norm(centred, axis=0), 1e-300)
