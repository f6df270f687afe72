"""What every run is asked: does its map keep every direction, is it whole, would another sample choose it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backend import at_home, backend_of, step, to_device
from ..backend.array import Array, column_means, column_units, sample_rows
from ..choice.criterion import coordinate_names, names_text
from ..choice.faults import SMALLEST, Sample, ground_of_graph, ground_of_points, shape_of_map
from ..choice.search import SearchResult, recurrence
from ..findings import Answer, Finding, answer_on, first_few, grave, light, note, option, tell, warning
from ..options import LOCAL, Options
from ..validation import check_integer, check_real_array
from .dimension import THRESHOLD, local_spectrum
from .distances import degree_bandwidth, sampled_distances

if TYPE_CHECKING:
    from ..run.run import Fit

LOST = 0.15, 0.3  # of the worst local direction: above the first a map is not sure, above the second doubtful
LOST_OF_GRAPH = 0.42, 0.7  # the same where random functions on a graph stand in for the points
# steps of the local spectrum of a graph: of the last dimension, below which it is none, and of the next, above which it
# is one. Random functions have something of the next in any case: beyond three dimensions that is left open
LAST, NEXT = (0.2, 0.15), {1: (0.3, 0.45), 2: (0.3, 0.45), 3: (0.4, 0.5)}
OPEN = 0.0, 1.0
HIDDEN, MOST_HIDDEN = 0.7, 3  # the same of a direction that all coordinates together do not tell, of so many
FEW, FEW_OF_GRAPH = 500, 600  # points, below which nothing is sure
SEEN_FROM = 10, 30  # points whose neighbours are looked at for the dimension: more if few leave it unclear
CLOSE = 0.1  # of the local spectrum: as near to the threshold, the dimension may be another
AS_GOOD = 0.02  # of a direction that the leading coordinates may lose more than the chosen ones
FOLDED = 0.025, 0.05  # of the area of a map, on its other side; poor tangents at an edge have shown 0.02
STABLE = 0.9, 0.6  # of other samples that choose the same set: below the first another is likely, below the second more
# points at most by which shape and stability are judged: knots are seen as well by half of them, but walls that nearly
# touch are not; a run that did not search for its dimension ends too soon to look at more
LOOKED, LOOKED_SHORTLY = 1_000, 500
CROWDED = 0.2  # share of stray coordinates that is worth a warning in any case
COMPLETE = 0.8  # share of all pairs that makes a graph nearly complete; the published one of D13 has 0.54


class Judgement(NamedTuple):
    """The answers to the questions about a map, and the reasons to doubt it."""

    answers: dict[str, Answer]
    findings: list[Finding]


@step("verdict")
def judge(
    fit: Fit, found: SearchResult, X: Array | None, laplacian: Any = None, n: int | None = None, *,
    has_given_dimension: bool = True, weights: np.ndarray | None = None,
) -> Judgement:  # fmt: skip
    """Judge a map by its points (n, D), in the order of the input, or by the graph of its Laplacian.

    The fit has all n points, or some. Whether they have the dimension that the map was made for is looked at where the
    user gave that.
    """
    d, subset = fit.tangents.bases.shape[2], found.subset
    first = tuple(np.unique(found.subsets)[: len(subset)].tolist())  # of the candidates
    with backend_of(fit.embedding.vectors).active():  # X may be on another device
        sample = some_of(fit, LOOKED_SHORTLY if has_given_dimension else LOOKED)
        Y = fit.laplacian.rows.to_user(fit.embedding.vectors)
        chosen = Y[:, list(subset)] if weights is None else Y @ backend_of(Y).asarray(weights)
        simplest = Y[:, list(first)]
    if X is not None:
        ground, of, limits, few = ground_of_points(X, d), "the variance", LOST, FEW
        others = dimension_findings(ground.values, d) if has_given_dimension else []
    else:
        ground, of = ground_of_graph(laplacian, d), "random functions on the graph"
        limits, few = LOST_OF_GRAPH, FEW_OF_GRAPH
        others = graph_findings(ground.steps, d)
    lost = ground.lost(chosen, by_planes=True)
    along = "the local direction" if d == 1 else f"the worst of {d} local directions"  # not of more than were asked for
    text = f"the map loses {min(lost, 1.0):.0%} of {of} along {along}"
    doubts = lost_findings(lost, limits, text)
    if len(Y) < few:
        doubts.append(light("choice.few_points", f"only {len(Y)} points"))
    elif lost > limits[1] and d <= MOST_HIDDEN and ground.hidden(Y) > HIDDEN:
        which = "their only dimension" if d == 1 else f"one of the {d} dimensions"
        said = f"all of phi1..phi{Y.shape[1]} together lose {which}, so no set of them keeps it"
        tell(warning("dimension.missing", said, f"raise {option('n_components')}, or lower {option('intrinsic_dim')}"))
    doubts += others
    if not found.passed:
        doubts.append(grave("choice.regret", "no set passes the regret test"))
    answers = {"rank": answer_on("rank", lost, text, doubts)}
    looked, n = len(sample.bases), n or len(Y)
    where = "" if looked == n else f" (looked at {looked:,} of {n:,} points)"
    seen = sample if weights is None else sample.turned(subset, weights)
    answers["shape"], found_there = shape_of(seen, subset, where)
    share = recurrence(sample.bases, n, found, sample.eigenvalues)
    # eigenvectors of another sample differ too, so that draws of scores refute a choice but never confirm it
    level = "unchecked" if share >= STABLE[0] else "fair" if share >= STABLE[1] else "bad"
    text = f"nothing was refitted; of resamples with the same eigenvectors, {share:.0%} choose it or a twin"
    answers["stable"] = Answer(level, share, text)
    doubts += found_there
    if share < STABLE[1]:
        text = f"another sample may choose another set (this one in {share:.0%} of draws)"
        doubts.append(light("stable.rivals", text))
    behind = 0.0 if subset == first else ground.lost(simplest, by_planes=True) - lost
    answers["needed"], notes = needed(lost + behind, behind, subset, first)
    return Judgement(answers, doubts + notes)


def some_of(fit: Fit, most: int = LOOKED_SHORTLY) -> Sample:
    """Return at most so many rows of a map on the host."""
    order, backend = fit.laplacian.rows.order, backend_of(fit.embedding.vectors)
    places = backend.asarray(np.argsort(order)[sample_rows(len(order), most, 0)])
    Y, bases, sigma = (backend.to_host(array[places]).astype(float) for array in (fit.embedding.vectors, *fit.tangents))
    return Sample(Y, bases, sigma, fit.embedding.eigenvalues)


def lost_findings(share: float, limits: tuple[float, float], text: str) -> list[Finding]:
    """Return what speaks against a map that loses so much of its worst local direction."""
    if share <= limits[0]:
        return []
    if share <= limits[1]:
        return [light("choice.lost_direction", text)]
    advice = f"add points, or raise {option('subset_size')} or {option('n_components')}"
    return [grave("choice.lost_direction", text, advice)]


def graph_findings(steps: np.ndarray, d: int) -> list[Finding]:
    """Return whether the steps of a graph's local spectrum show another dimension than the one given."""
    found, values = [], [1.0, *steps.tolist()]
    for value, limits, other in ((values[d - 1], LAST, d - 1), (values[d], NEXT.get(d, OPEN), d + 1)):
        passed = [value < limit if other < d else value > limit for limit in limits]
        if passed[0]:
            say, have = (grave, "seems to have") if passed[1] else (light, "may have")
            text = f"the graph {have} {dimensions(other)}, not {d}"
            found.append(say("dimension.other", text, f"try {option('intrinsic_dim', other)}"))
    return found


def dimension_findings(X: np.ndarray, d: int) -> list[Finding]:
    """Return whether the local spectrum of some points (q, D) counts another dimension than the one given."""
    for queries in SEEN_FROM:
        distances = sampled_distances(X, queries=queries)
        try:
            curve = [*local_spectrum(X, distances, degree_bandwidth(distances)), 0.0]
        except ValueError:  # copies of one point
            return []
        last, following = curve[min(d, len(curve)) - 1], curve[min(d, len(curve) - 1)]
        if last > THRESHOLD + CLOSE and following < THRESHOLD - CLOSE:
            return []
    seen = max(1, sum(bool(value >= THRESHOLD) for value in curve))
    if seen == d or len(curve) <= d:
        return []
    say = grave if following >= THRESHOLD + CLOSE or last < THRESHOLD - CLOSE else light
    text, advice = f"the points seem to have {dimensions(seen)}, not {d}", f"try {option('intrinsic_dim', seen)}"
    if say is grave and seen < d:  # the chosen coordinates follow bends and noise
        tell(warning("dimension.other", text, advice))
    return [say("dimension.other", text, advice)]


def dimensions(d: int) -> str:
    return "1 dimension" if d == 1 else f"{d} dimensions"


def shape_of(sample: Sample, subset: tuple[int, ...], where: str) -> tuple[Answer, list[Finding]]:
    """Return whether a map is turned over somewhere, or brings distant parts together, and reasons to doubt it."""
    touching, folds = shape_of_map(sample, subset)
    found = []
    if folds is not None and folds.share > FOLDED[0]:
        say = grave if folds.share > FOLDED[1] else light
        text = f"the map is folded or knotted: {folds.share:.1%} of its area is turned over"
        found.append(say("shape.folded", text, "ies_gpu.diagnose(selection).knots shows where"))
    if touching >= SMALLEST:
        text = f"at {touching:.1%} of the points, parts that are far apart nearly touch in the map"
        text += ", so neighbours in the map need not be neighbours"
        advice = "ies_gpu.diagnose(selection).collapse shows where: it is above 3 there"
        found.append(light("choice.nearly_touch", text, advice))
    if found:
        text = "; ".join(finding.text for finding in found)
    elif folds is not None:
        text = "no fold, knot or overlap found"
    elif len(subset) > sample.bases.shape[2]:
        text = "no overlap or crossing was found; knots are not looked for with more coordinates than dimensions"
    else:
        text = "no overlap was found; folds were not checked, since the tangent planes have no common orientation"
    answer = answer_on("shape", max(touching, 0.0 if folds is None else folds.share), text + where, found)
    seen = found or folds is not None or len(subset) > sample.bases.shape[2]
    return answer if seen else answer._replace(level="unchecked"), found


def is_folded(fit: Fit, subset: tuple[int, ...]) -> bool:
    """Return whether a map is so folded that it is doubtful."""
    folds = shape_of_map(some_of(fit), subset)[1]
    return folds is not None and folds.share > FOLDED[1]


def needed(lost: float, more: float, subset: tuple[int, ...], first: tuple[int, ...]) -> tuple[Answer, list[Finding]]:
    """Return whether the leading coordinates lose more than the chosen ones, and a note if they do not."""
    if subset == first:
        return Answer("good", 0.0, "the chosen coordinates are the leading ones"), []
    if more >= AS_GOOD:
        text = f"the leading {names_text(first)} lose {min(lost, 1.0):.0%} along their worst direction"
        return Answer("good", more, text), []
    level, word = ("fair", "as good") if more > -AS_GOOD else ("bad", "better")
    are, lose, them = ("is", "loses", "it") if len(first) == 1 else ("are", "lose", "them")
    text = f"the leading {names_text(first)} {are} {word}, and {lose} {min(lost, 1.0):.0%} along the worst direction"
    text += f"; for trees and clusters, prefer {them}"
    return Answer(level, more, text), [note("choice.leading_as_good", text)]


def graph_warnings(facts: dict[str, Any], subset: tuple[int, ...], n: int, options: Options) -> list[Finding]:
    """Return warnings on the graph, by the ``facts`` of a result: nearly all pairs, coordinates of strays.

    A graph that was given may be meant to be complete. Stray coordinates count where the chosen set passes over them.
    """
    found, share = [], (facts["mean_degree"] or 0) / n
    if options.entry == "X" and share > COMPLETE:
        who = option("n_neighbors", options.n_neighbors) if options.n_neighbors else "the bandwidth"
        text = f"{who} connects {share:.0%} of all pairs of points, which leaves little shape to see"
        way = "lower it" if options.n_neighbors else f"lower it, or try {option('bandwidth', 'auto')}"
        found.append(warning("graph.complete", text, way))
    stray = facts["stray_coordinates"]
    if any(k < max(subset) for k in stray) or len(stray) > CROWDED * options.n_components:
        found.append(stray_finding(stray, len(facts["stray_points"]), subset, options))
    return found


def stray_finding(stray: list[int], rows: int, subset: tuple[int, ...], options: Options) -> Finding:
    """The warning about coordinates on a few points: what became of them, and what helps."""
    looped = options.self_loops and options.entry in ("X", "graph") and options.bandwidth != LOCAL
    ways = [f"set {option('self_loops', False)}"] if looped else []
    ways += [f"raise {option('n_neighbors' if options.n_neighbors else 'bandwidth')}"] if options.entry == "X" else []
    listed = "the rows listed as stray_points in the diagnostics" if rows else "these points"  # a cluster lists none
    advice = ", or ".join([*ways, f"leave out {listed}"])
    who = f"coordinates that live on a few stray points{f' ({rows} in all)' * bool(rows)}: "
    who += first_few(coordinate_names(stray))
    if set(stray) & set(subset):
        text = f"{who}. Without them too few are left for a set, so they were not excluded, and the choice is doubtful"
        return warning("stray.kept", text, advice)
    return warning("stray.excluded", f"{who}. They were excluded, which leaves less room for the shape", advice)


@at_home
def unexplained_variance(X: Array, coordinates: Array, *, n_neighbors: int = 10, blur: float = 0.0) -> float:
    """Return the fraction of the variance of X (n, D) that coordinates (n, s) leave unexplained.

    Each point is predicted as the mean of its nearest neighbours in the coordinates, which are scaled to unit standard
    deviation. 0 means that the coordinates tell where a point is; 1, or a little more, that they tell nothing. ``blur``
    is noise to add to the coordinates, in standard deviations: what 0.01 of it hides, no picture shows.
    """
    X = check_real_array("X", X, 2)
    Y = to_device(check_real_array("coordinates", coordinates, 2), backend_of(X))
    k = check_integer("n_neighbors", n_neighbors, low=1, high=len(X) - 1, why=f" for {len(X)} points")
    backend = backend_of(X)
    xp = backend.xp
    X = X - column_means(X)
    X = X / (float(xp.abs(X).max()) or 1.0)  # squares neither overflow nor vanish
    unit = column_units(Y)
    with backend.active():
        Y = Y / unit
        if blur > 0:
            Y = Y + blur * backend.asarray(np.random.default_rng(0).normal(size=Y.shape))
        neighbours = backend.nearest(Y, k)[1]
        left = 0.0
        for block in backend.blocks(len(X), 8.0 * (k + 2) * X.shape[1], "scan"):
            with block as rows:
                error = X[rows] - sum(X[near] for near in neighbours[rows].T) / k  # quicker than a mean
                left += float((error * error).sum())
    total = float((X * X).sum())
    return left / total if total > 0 else 1.0
