"""What an automatic choice is based on, and what speaks against it."""

from __future__ import annotations

from typing import Any

from ..backend.array import Array
from ..choice.collapse import SMALLEST
from ..choice.naming import coordinate_names, names_text
from ..errors import first_few
from ..findings import Finding, Judged, grave, light, option, verdict_on, warning
from ..run.options import LOCAL, Options
from .dimension import THRESHOLD, DimensionEstimate
from .scan import FALL, SHEETS, Scan, can_search, largest_size
from .trial import Trial

# ratio of singular values of the co-metric, which are local variances; the median on D1 to D12 is .27 or more where m
# suffices. The warning says "a tenth"
FLAT = 0.1
CROWDED = 0.2  # share of stray coordinates that is worth a warning in any case
UNEXPLAINED = 0.1, 0.4  # of the variance of X: above the first a choice is not sure, above the second doubtful
FEW = 1000  # points, below which nothing is sure
NO_BETTER = 0.75  # of what the first coordinates leave: on strips, rolls and tori the chosen leave .6 of it or less
# a dimension seen in the points below this share of the given one: on D1 to D12 it is .91 or more, on a curve .5 for
# two dimensions. Beyond four dimensions the estimate itself falls short
FEWER, MOST_DIMS = 0.7, 4
ONLY_ONE = "only one bandwidth keeps the points together"
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
    """Return everything the choice is based on, as plain values, and what speaks against it, the gravest first."""
    names = ("bandwidth", "intrinsic_dim", "subset_size")
    values = (LOCAL if tried.is_local else chosen.bandwidth, d, s)
    near, union = chosen.near_zero(s)
    fixed, local = (tried.rival, tried) if tried.is_local else (tried, tried.rival)
    judged = judge(tried, dimension, d, s, asked)
    reasons = [doubt for each in judged.values() for doubt in each.doubts] + reasons_to_doubt(s, chosen) + hints
    if carried is not None and not carried["holds"]:
        text = f"the bandwidth found on {sample_size:,} points does not suit all of them"
        reasons.append(grave("choice.not_carried", text))
    reasons.sort(key=lambda reason: reason.severity != "grave")
    report = {
        "chosen": {name: value for name, value in zip(names, values, strict=True) if name in asked},
        "bandwidth": chosen.bandwidth,
        "intrinsic_dim": d,
        "subset_size": s,
        "fvu": chosen.fvu(s),
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
        "verdict": verdict_on(reasons),
    }
    return report, reasons


def trial_row(t: Trial, s: int) -> dict[str, Any]:
    """One bandwidth: the neighbours it gives, and how well its set of s coordinates explains the points."""
    facts = {"bandwidth": t.bandwidth, "mean_degree": t.graph.mean_degree, "share": t.share}
    return facts | {"subset": t.search(s).subset, "fvu": t.fvu(s)}


def size_row(best: Trial, s: int) -> dict[str, Any]:
    """The best set of a size over the bandwidths tried."""
    return {"subset_size": s, "fvu": best.fvu(s), "bandwidth": best.bandwidth, "subset": best.search(s).subset}


def reasons_to_doubt(s: int, chosen: Trial) -> list[Finding]:
    """Return what the chosen map itself says against the choice."""
    found, left, overlap, touching = [], chosen.fvu(s), chosen.overlap(s), chosen.touching(s)
    if left > UNEXPLAINED[0]:
        say = grave if left > UNEXPLAINED[1] else light
        share = share_words(1 - left, 0) if left > UNEXPLAINED[1] else f"{1 - left:.0%}"
        found.append(say("choice.unexplained", f"the chosen coordinates explain {share} of the variance of X"))
    if overlap > SHEETS:
        text = f"at {overlap:.0%} of the points, the map has several sheets on top of each other"
        found.append(grave("choice.sheets", text))
    if not chosen.search(s).passed:
        found.append(grave("choice.regret", "no set passes the regret test"))
    if len(chosen.X) < FEW:
        found.append(light("choice.few_points", f"only {len(chosen.X)} points"))
    first = chosen.first(s)
    if first != chosen.search(s).subset and left > NO_BETTER * chosen.left_by_first(s):
        explain, them = ("explains", "it") if s == 1 else ("explain", "them")
        words = f"the leading {names_text(first)} {explain} X just as well (for trees and clusters, prefer {them})"
        found.append(grave("choice.leading_as_good", words))
    if touching >= SMALLEST:
        text = f"at {touching:.1%} of the points, parts that are far apart in X nearly touch in the map"
        text += ", so neighbours in the map need not be neighbours in X"
        advice = "ies_gpu.diagnose(selection).collapse shows where: it is above 3 there"
        found.append(light("choice.nearly_touch", text, advice))
    return found


def share_words(share: float, digits: int) -> str:
    """A share as per cent; a share of nothing, or less (a prediction worse than the mean), is none."""
    return f"only {share:.{digits}%}" if round(100 * share, digits) > 0 else "none"


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
        return Judged("low", text, (grave("bandwidth.only_one", ONLY_ONE),))
    facts = f"neighbouring bandwidths leave up to {worst:.2f} times as much unexplained ({best.fvu(s):.3g})"
    if not tried.is_narrow(s):
        return Judged("high", facts)
    text = f"other bandwidths near {best.bandwidth:.4g} explain visibly less"
    return Judged("fair", f"a narrow choice, {facts}", (light("bandwidth.narrow", text),))


def judge_local(tried: Scan, s: int) -> Judged:
    """Return how sure a bandwidth is that follows the density."""
    doubts: tuple[Finding, ...] = ()
    if tried.rival is None:
        text = "no fixed bandwidth keeps the points together, only one that follows their density"
        doubts, rest = (light("bandwidth.only_local", text),), "none gives a connected graph"
    else:
        rest = f"the best leaves {tried.rival.best(s).fvu(s):.3g} unexplained"
        if len(tried.rival.trials) == 1:
            doubts = (light("bandwidth.only_one", ONLY_ONE),)
    left = tried.best(s).fvu(s)
    facts = f"the density is uneven; following it leaves {left:.3g}, of the fixed bandwidths {rest}"
    return Judged("high", facts, doubts)


def judge_dimension(dimension: DimensionEstimate) -> Judged:
    """Return how sure the dimension is: what is nearly as good as the one found."""
    d, found = dimension.value, dimension.confidence
    if found.level == "low":
        text = "no direction stands out from the noise around a point, so the dimension is a guess"
        return found._replace(doubts=(grave("dimension.guess", text),))
    others = sorted({d - 1 if value >= THRESHOLD else d + 1 for value in dimension.doubtful} - {0})
    doubts = (light("dimension.close", f"the dimension may be {other} instead of {d}") for other in others)
    return found._replace(doubts=tuple(doubts))


def judge_size(tried: Scan, d: int, s: int) -> Judged:
    """Return how sure the number of coordinates is."""
    m = len(tried.best(s).embedding.eigenvalues)
    more = light("size.one_more", f"{s + 1} coordinates may be better than {s}")
    if not can_search(m, s + 1):
        return Judged("low", f"sets of {s + 1} are too many to enumerate, and were not compared", (more,))
    gain, error, _ = tried.gain(s)
    facts = f"one more coordinate would explain {gain:.3f} more of the variance (threshold {FALL}, error {error:.3f})"
    if s == largest_size(d, m) and tried.pays(s, 1):
        text = f"even {s} coordinates, the most that were tried, may be too few"
        return Judged("low", f"the largest size tried, and {facts}", (grave("size.largest_tried", text),))
    return Judged("fair", facts, (more,)) if gain + 2 * error > FALL else Judged("high", facts)


def automatic_line(report: dict[str, Any]) -> str:
    """What was found, for people."""
    chosen = report["chosen"].items()
    values = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:.4g}'}" for name, value in chosen)
    share = 1 - report["fvu"]
    explained = f"{share:.1%}" if share >= 0.0005 else "none"
    return f"{values}; the chosen coordinates explain {explained} of the variance of X"


def thin_points(singular_values: Array) -> float:
    """Share of points at which the coordinates hardly vary along the last of d dimensions: (n, d) -> float."""
    return float((singular_values[:, -1] < FLAT * singular_values[:, 0]).mean())


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
