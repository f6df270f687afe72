"""What an automatic choice is based on, and what speaks against it."""

from __future__ import annotations

from typing import Any

from ..backend.array import Array
from ..choice.naming import coordinate_names
from ..errors import first_few
from ..findings import Finding, Judged, grave, light, option, warning
from ..options import LOCAL, Options
from .dimension import THRESHOLD, DimensionEstimate
from .judgement import CLOSE
from .scan import FALL, Scan, can_search, largest_size
from .trial import Trial

# ratio of singular values of the co-metric, which are local variances; the median on D1 to D12 is .27 or more where m
# suffices. The warning says "a tenth"
FLAT = 0.1
CROWDED = 0.2  # share of stray coordinates that is worth a warning in any case
THIN = 0.35  # of the spectrum at twice the scale: below it, the last dimension is hardly there
# a dimension seen in the points below this share of the given one: on D1 to D12 it is .91 or more, on a curve .5 for
# two dimensions. Beyond four dimensions the estimate itself falls short
FEWER, MOST_DIMS = 0.7, 4
ONLY_ONE = "only one bandwidth keeps the points together"
MOST_SEEN = 5  # dimensions that points can show
COMPLETE = 0.8  # share of all pairs that makes a graph nearly complete; the published one of D13 has 0.54


def describe(
    tried: Scan,
    dimension: DimensionEstimate | None,
    d: int,
    s: int,
    chosen: Trial,
    carried: dict[str, Any] | None,
    asked: list[str],
    sample_size: int,
    hints: list[Finding],
) -> tuple[dict[str, Any], list[Finding]]:
    """Return everything the choice is based on, as plain values, and what speaks against its values."""
    names = ("bandwidth", "intrinsic_dim", "subset_size")
    values = (LOCAL if tried.is_local else chosen.bandwidth, d, s)
    near, union = chosen.near_zero(s)
    fixed, local = (tried.rival, tried) if tried.is_local else (tried, tried.rival)
    judged = judge(tried, dimension, d, s, asked)
    reasons = [doubt for each in judged.values() for doubt in each.doubts] + hints
    if carried is not None and not carried["holds"]:
        text = f"the bandwidth found on {sample_size:,} points does not suit all of them"
        reasons.append(grave("choice.not_carried", text))
    report = {
        "chosen": {name: value for name, value in zip(names, values, strict=True) if name in asked},
        "bandwidth": chosen.bandwidth,
        "intrinsic_dim": d,
        "subset_size": s,
        "fvu": chosen.fvu(s),
        "lost": chosen.lost(s),
        "scan": [] if fixed is None else [trial_row(t, s) for t in fixed.trials],
        "local": None if local is None else trial_row(local.trials[0], s) | {"taken": tried.is_local},
        "left_out": [{"bandwidth": eps, "reason": reason} for eps, reason in sorted((fixed or tried).left_out.items())],
        "degree_bandwidth": tried.centre if "bandwidth" in asked else None,
        "spectrum": None if dimension is None else dimension.curve.tolist(),
        "spectrum_bandwidth": None if dimension is None else dimension.bandwidth,
        "sizes": [size_row(tried.best(k), k) for k in sorted(set.intersection(*(set(t.found) for t in tried.trials)))],
        "near_zero": near,
        "near_zero_union": union,
        "sample_size": sample_size,
        "carried": carried,
        "confidence": {name: {"level": each.level, "facts": each.facts} for name, each in judged.items()},
    }
    return report, reasons


def trial_row(t: Trial, s: int) -> dict[str, Any]:
    """One bandwidth: the neighbours it gives, and how well its set of s coordinates explains the points."""
    facts = {"bandwidth": t.bandwidth, "mean_degree": t.graph.mean_degree, "share": t.share}
    return facts | {"subset": t.search(s).subset, "fvu": t.fvu(s), "lost": t.lost(s)}


def size_row(best: Trial, s: int) -> dict[str, Any]:
    """The best set of a size over the bandwidths tried."""
    return {
        "subset_size": s,
        "fvu": best.fvu(s),
        "lost": best.lost(s),
        "bandwidth": best.bandwidth,
        "subset": best.search(s).subset,
    }


def judge(tried: Scan, dimension: DimensionEstimate | None, d: int, s: int, asked: list[str]) -> dict[str, Judged]:
    """Return how sure each automatic value is."""
    found = {}
    if "bandwidth" in asked:
        found["bandwidth"] = judge_bandwidth(tried, s)
    if dimension is not None:
        found["intrinsic_dim"] = judge_dimension(dimension)
    if "subset_size" in asked:
        found["subset_size"] = judge_size(tried, d, s)
    return found


def judge_bandwidth(tried: Scan, s: int) -> Judged:
    """Return how sure the bandwidth is."""
    best, worst = tried.best(s), tried.beside(s)
    if tried.is_local:
        return judge_local(tried, s)
    if len(tried.trials) == 1:
        text = "no other bandwidth gave a connected graph to compare with"
        return Judged("low", text, (light("bandwidth.only_one", ONLY_ONE),))
    facts = f"neighbouring bandwidths lose up to {worst:.2f} times as much of a direction ({best.lost(s):.3g})"
    return Judged("fair", f"a narrow choice, {facts}") if tried.is_narrow(s) else Judged("high", facts)


def judge_local(tried: Scan, s: int) -> Judged:
    """Return how sure a bandwidth is that follows the density."""
    doubts: tuple[Finding, ...] = ()
    if tried.rival is None:
        text = "no fixed bandwidth keeps the points together, only one that follows their density"
        doubts, rest = (light("bandwidth.only_local", text),), "none gives a connected graph"
    else:
        rest = f"the best loses {tried.rival.best(s).lost(s):.3g}"
        if len(tried.rival.trials) == 1:
            doubts = (light("bandwidth.only_one", ONLY_ONE),)
    lost = tried.best(s).lost(s)
    facts = f"the density is uneven; following it loses {lost:.3g} of a direction, of the fixed bandwidths {rest}"
    return Judged("high", facts, doubts)


def judge_dimension(dimension: DimensionEstimate) -> Judged:
    """Return how sure the dimension is: what is nearly as good as the one found."""
    d, found, doubts = dimension.value, dimension.confidence, []
    curve, wider = [*dimension.curve, 0.0], [*(dimension.curve if dimension.wider is None else dimension.wider), 0.0]
    if found.level == "low":
        text = "no direction stands out from the noise around a point, so the dimension is a guess"
        doubts.append(grave("dimension.guess", text))
    if d > MOST_SEEN:
        doubts.append(grave("dimension.many", f"{d} dimensions are more than points like these can show"))
    if d > 1 and wider[d - 1] < THIN:
        doubts.append(
            light("dimension.last", f"the last of {d} dimensions is thin: at twice the scale it is hardly there")
        )
    elif d > 1 and curve[d - 1] < THRESHOLD + CLOSE:
        doubts.append(light("dimension.close", f"the dimension may be {d - 1} instead of {d}"))
    if THRESHOLD - CLOSE < curve[min(d, len(curve) - 1)] < THRESHOLD:
        doubts.append(light("dimension.close", f"the dimension may be {d + 1} instead of {d}"))
    return found._replace(doubts=tuple(doubts))


def judge_size(tried: Scan, d: int, s: int) -> Judged:
    """Return how sure the number of coordinates is."""
    m = len(tried.best(s).embedding.eigenvalues)
    if not can_search(m, s + 1):
        return Judged("fair", f"sets of {s + 1} are too many to enumerate, and were not compared")
    gain, error, _ = tried.gain(s)
    facts = f"one more coordinate would explain {gain:.3f} more of the variance (threshold {FALL}, error {error:.3f})"
    if s == largest_size(d, m) and tried.pays(s, 1):
        text = f"even {s} coordinates, the most that were tried, may be too few"
        return Judged("low", f"the largest size tried, and {facts}", (grave("size.largest_tried", text),))
    return Judged("fair" if gain + 2 * error > FALL else "high", facts)


def is_thin(singular_values: Array) -> Array:
    """Whether the coordinates hardly vary at a point along the last of d dimensions: (n, d) -> (n,)."""
    return singular_values[:, -1] < FLAT * singular_values[:, 0]


def doubts_of(
    facts: dict[str, Any], subset: tuple[int, ...], n: int, options: Options, found_here: bool = False
) -> list[Finding]:
    """Warnings that hold for given parameters too: a graph of nearly all pairs, a dimension that is missing, strays.

    ``facts`` are the diagnostics of the result. A graph that was given, unlike one of points, may be meant to be
    complete. Stray coordinates count where the chosen set passes over them. ``found_here`` says that the bandwidth is
    the automatic one.
    """
    found = []
    entry, d, m = options.entry, options.intrinsic_dim, options.n_components
    share, thin = (facts["mean_degree"] or 0) / n, facts["thin_points"]
    if entry == "X" and share > COMPLETE:
        way = "lower it" if options.n_neighbors else f"lower it, or try {option('bandwidth', 'auto')}"
        way = "pass a smaller one, or more points" if found_here else way
        who = option("n_neighbors", options.n_neighbors) if options.n_neighbors else "the bandwidth"
        text = f"{who} connects {share:.0%} of all pairs of points, which leaves little shape to see"
        found.append(warning("graph.complete", text, way))
    if thin > 0.5:
        text = f"at {thin:.0%} of the points, phi1..phi{m} hardly vary along one of the {d} dimensions (by less than a "
        advice = f"raise {option('n_components')}, or lower {option('intrinsic_dim')}"
        found.append(warning("dimension.thin", f"{text}tenth of the variance along the first)", advice))
    seen = facts.get("seen_dimension")
    if seen is not None and d <= MOST_DIMS and seen < FEWER * d:
        text = f"the points look like a shape of dimension {seen:.1f} by their nearest neighbours, so "
        text += f"{option('intrinsic_dim', d)} may be too large: the chosen coordinates then follow bends and noise"
        found.append(warning("dimension.too_large", text, "lower it (see estimate_dimension)"))
    stray = facts["stray_coordinates"]
    if any(k < max(subset) for k in stray) or len(stray) > CROWDED * m:
        found.append(stray_finding(stray, len(facts["stray_points"]), subset, options))
    return found


def stray_finding(stray: list[int], rows: int, subset: tuple[int, ...], options: Options) -> Finding:
    """The warning about coordinates on a few points: what became of them, and what helps."""
    m, entry = options.n_components, options.entry
    looped = options.self_loops and entry in ("X", "graph") and options.bandwidth != LOCAL
    ways = [f"set {option('self_loops', False)}"] if looped else []
    ways += [f"raise {option('n_neighbors' if options.n_neighbors else 'bandwidth')}"] if entry == "X" else []
    ways += ["leave out the rows listed as stray_points in the diagnostics"] if rows else []
    advice = " or ".join(filter(None, (", ".join(ways[:-1]), *ways[-1:]))) or "leave out these points"
    one, many = len(stray) == 1, "all" if len(stray) == m else f"{len(stray)}"
    are, each, in_all = "is" if one else "are", "" if one else " each", f" ({rows} in all)" if rows else ""
    who = f"{many} of phi1..phi{m} {are} concentrated on a few stray points{each}{in_all}"
    if set(stray) & set(subset):  # too few others for a set
        return warning("stray.kept", f"{who}, so none could be excluded; the choice is doubtful", advice)
    left = "was excluded" if one else "were excluded"
    names = first_few(coordinate_names(stray))
    text = f"{who} and {left}: {names}. {'It leaves' if one else 'They leave'} less room for the shape"
    return warning("stray.excluded", text, advice)
