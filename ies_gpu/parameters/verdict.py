"""What an automatic choice is based on, as plain values and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..backend.array import Array
from ..choice.collapse import SMALLEST
from ..choice.naming import coordinate_names, names_text
from ..errors import first_few
from ..options import LOCAL, Options
from .dimension import THRESHOLD, DimensionEstimate
from .scan import FALL, SHEETS, Scan, can_search, largest_size
from .trial import Trial

# ratio of singular values of the co-metric, which are local variances; the median on D1 to D12 is .27 or more where m
# suffices. The warning says "a tenth"
FLAT = 0.1
CROWDED = 0.2  # share of stray coordinates that is worth a warning in any case
UNEXPLAINED = 0.1, 0.4  # of the variance of X: above the first a choice is not sure, above the second doubtful
FEW = 1000  # points, below which nothing is sure
LIGHT = 2  # reasons that leave a choice likely; more make it doubtful
NO_BETTER = 0.75  # of what the first coordinates leave: on strips, rolls and tori the chosen leave .6 of it or less
TOUCH = "nearly touch"  # a reason that warns even if the choice is not doubtful
DOUBTFUL = "the automatic choice is doubtful:"
# a dimension seen in the points below this share of the given one: on D1 to D12 it is .91 or more, on a curve .5 for
# two dimensions. Beyond four dimensions the estimate itself falls short
FEWER, MOST_DIMS = 0.7, 4
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
    hints: list[Reason],
) -> dict[str, Any]:
    """Everything the choice is based on, as plain values."""
    names = ("bandwidth", "intrinsic_dim", "subset_size")
    values = (LOCAL if tried.is_local else chosen.bandwidth, d, s)
    near, union = chosen.near_zero(s)
    fixed, local = (tried.rival, tried) if tried.is_local else (tried, tried.rival)
    confidence = in_words(tried, dimension, d, s, asked)
    reasons = reasons_to_doubt(tried, dimension, d, s, chosen, asked)
    if carried is not None and not carried["holds"]:
        reasons.append(Reason(True, f"the bandwidth found on {sample_size:,} points does not suit all of them"))
    reasons += hints
    reasons.sort(key=lambda reason: not reason.grave)
    return {
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
        "confidence": confidence,
        "verdict": verdict_of(reasons),
        "reasons": [reason.words for reason in reasons],
    }


def trial_row(t: Trial, s: int) -> dict[str, Any]:
    """One bandwidth: the neighbours it gives, and how well its set of s coordinates explains the points."""
    facts = {"bandwidth": t.bandwidth, "mean_degree": t.graph.mean_degree, "share": t.share}
    return facts | {"subset": t.search(s).subset, "fvu": t.fvu(s)}


class Reason(NamedTuple):
    """A reason to doubt an automatic choice: whether it alone makes the choice doubtful, and in words."""

    grave: bool
    words: str


def verdict_of(reasons: list[Reason]) -> str:
    """One word for an automatic choice: "sure", "likely" or "doubtful"."""
    if any(reason.grave for reason in reasons) or len(reasons) > LIGHT:
        return "doubtful"
    return "likely" if reasons else "sure"


def reasons_to_doubt(
    tried: Scan, dimension: DimensionEstimate | None, d: int, s: int, chosen: Trial, asked: list[str]
) -> list[Reason]:
    """What speaks against the choice, the gravest first."""
    found = []
    left, overlap = chosen.fvu(s), chosen.overlap(s)
    if left > UNEXPLAINED[1]:
        found.append(Reason(True, f"the chosen coordinates explain {share_words(1 - left, 0)} of the variance of X"))
    if overlap > SHEETS:
        found.append(Reason(True, f"at {overlap:.0%} of the points, the map has several sheets on top of each other"))
    if not chosen.search(s).passed:
        found.append(Reason(True, "no set passes the regret test"))
    found += dimension_reasons(dimension) if dimension is not None else []
    found += bandwidth_reasons(tried, s) if "bandwidth" in asked else []
    if "subset_size" in asked:
        confidence = size_words(tried, d, s)
        if confidence.startswith("low: the largest"):
            found.append(Reason(True, f"even {s} coordinates, the most that were tried, may be too few"))
        elif not confidence.startswith("high"):
            found.append(Reason(False, f"{s + 1} coordinates may be better than {s}"))
    if len(chosen.X) < FEW:
        found.append(Reason(False, f"only {len(chosen.X)} points"))
    first = chosen.first(s)
    if first != chosen.search(s).subset and left > NO_BETTER * chosen.left_by_first(s):
        explain, them = ("explains", "it") if s == 1 else ("explain", "them")
        words = f"the leading {names_text(first)} {explain} X just as well (for trees and clusters, prefer {them})"
        found.append(Reason(True, words))
    touching = chosen.touching(s)
    if touching >= SMALLEST:
        words = f"at {touching:.1%} of the points, parts that are far apart in X {TOUCH} in the map"
        found.append(Reason(False, words))
    if UNEXPLAINED[0] < left <= UNEXPLAINED[1]:
        found.append(Reason(False, f"the chosen coordinates explain {1 - left:.0%} of the variance of X"))
    return sorted(found, key=lambda reason: not reason.grave)


def share_words(share: float, digits: int) -> str:
    """A share as per cent; a share of nothing, or less (a prediction worse than the mean), is none."""
    return f"only {share:.{digits}%}" if round(100 * share, digits) > 0 else "none"


def bandwidth_reasons(tried: Scan, s: int) -> list[Reason]:
    """What speaks against a bandwidth that was found."""
    fixed = tried.rival if tried.is_local else tried
    if fixed is None:
        return [Reason(False, "no fixed bandwidth keeps the points together, only one that follows their density")]
    if len(fixed.trials) == 1:
        return [Reason(not tried.is_local, "only one bandwidth keeps the points together")]
    if not tried.is_local and tried.is_narrow(s):
        return [Reason(False, f"other bandwidths near {tried.best(s).bandwidth:.4g} explain visibly less")]
    return []


def worth_a_warning(report: dict[str, Any]) -> list[str]:
    """The reasons that become warnings: all of a doubtful choice, and always parts of the map that nearly touch."""
    if report["verdict"] == "doubtful":
        return [f"{DOUBTFUL} {'; '.join(report['reasons'])}. Try your own values and compare"]
    return [
        f"{reason}, so neighbours in the map need not be neighbours in X. ies_gpu.diagnose(selection).collapse shows "
        "where: it is above 3 there"
        for reason in report["reasons"]
        if TOUCH in reason
    ]


def dimension_reasons(dimension: DimensionEstimate) -> list[Reason]:
    """The dimensions that are nearly as good as the one found."""
    if dimension.confidence.startswith("low"):
        return [Reason(True, "no direction stands out from the noise around a point, so the dimension is a guess")]
    d = dimension.value
    others = sorted({d - 1 if value >= THRESHOLD else d + 1 for value in dimension.doubtful} - {0})
    return [Reason(False, f"the dimension may be {other} instead of {d}") for other in others]


def in_words(tried: Scan, dimension: DimensionEstimate | None, d: int, s: int, asked: list[str]) -> dict[str, str]:
    """How sure each automatic value is."""
    confidence = {}
    if "bandwidth" in asked:
        confidence["bandwidth"] = bandwidth_words(tried, s)
    if dimension is not None:
        confidence["intrinsic_dim"] = dimension.confidence
    if "subset_size" in asked:
        confidence["subset_size"] = size_words(tried, d, s)
    return confidence


def size_row(best: Trial, s: int) -> dict[str, Any]:
    """The best set of a size over the bandwidths tried."""
    return {"subset_size": s, "fvu": best.fvu(s), "bandwidth": best.bandwidth, "subset": best.search(s).subset}


def bandwidth_words(tried: Scan, s: int) -> str:
    """How sure the bandwidth is."""
    best, worst = tried.best(s), tried.beside(s)
    if tried.is_local:
        left = None if tried.rival is None else tried.rival.best(s).fvu(s)
        facts = "none gives a connected graph" if left is None else f"the best leaves {left:.3g} unexplained"
        return f"high: the density is uneven; following it leaves {best.fvu(s):.3g}, of the fixed bandwidths {facts}"
    if len(tried.trials) == 1:
        return "low: no other bandwidth gave a connected graph to compare with"
    facts = f"neighbouring bandwidths leave up to {worst:.2f} times as much unexplained ({best.fvu(s):.3g})"
    return f"fair: a narrow choice, {facts}" if tried.is_narrow(s) else f"high: {facts}"


def size_words(tried: Scan, d: int, s: int) -> str:
    """How sure the number of coordinates is."""
    m = len(tried.best(s).embedding.eigenvalues)
    if not can_search(m, s + 1):
        return f"low: sets of {s + 1} are too many to enumerate, and were not compared"
    gain, error, _ = tried.gain(s)
    facts = f"one more coordinate would explain {gain:.3f} more of the variance (threshold {FALL}, error {error:.3f})"
    if s == largest_size(d, m) and tried.pays(s, 1):
        return f"low: the largest size tried, and {facts}"
    return f"{'fair' if gain + 2 * error > FALL else 'high'}: {facts}"


def verdict_and_warnings(report: dict[str, Any], warnings: Sequence[str]) -> tuple[list[str], list[str]]:
    """For people: the lines of the verdict, with each reason once, and the warnings that say something else.

    A reason that is also a warning of its own stands there with its advice.
    """
    word, reasons = report.get("verdict", ""), report.get("reasons", [])  # not in files of earlier versions
    others = [text for text in warnings if not text.startswith(DOUBTFUL)]
    own = [next((text for text in others if text.startswith(reason)), reason) for reason in reasons]
    others = [text for text in others if text not in own]
    if len(own) < 2:
        return [": ".join([word, *own])], others
    return [f"{word}:", *(f"- {reason}" for reason in own)], others


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
) -> list[str]:
    """Warnings that hold for given parameters too: a graph of nearly all pairs, a dimension that is missing, strays.

    ``facts`` are the diagnostics of the result. A graph that was given, unlike one of points, may be meant to be
    complete. Stray coordinates count where the chosen set passes over them. ``found_here`` says that the bandwidth is
    the automatic one.
    """
    found = []
    entry, d, m = options.entry, options.intrinsic_dim, options.n_components
    share, thin = (facts["mean_degree"] or 0) / n, facts["thin_points"]
    if entry == "X" and share > COMPLETE:
        way = "lower it" if options.n_neighbors else "lower it, or try bandwidth='auto'"
        way = "pass a smaller one, or more points" if found_here else way
        who = f"n_neighbors={options.n_neighbors}" if options.n_neighbors else "the bandwidth"
        found.append(f"{who} connects {share:.0%} of all pairs of points, which leaves little shape to see; {way}")
    if thin > 0.5:
        found.append(
            f"at {thin:.0%} of the points, phi1..phi{m} hardly vary along one of the {d} dimensions (less than a tenth "
            "of the variance along the first); raise n_components, or lower intrinsic_dim"
        )
    seen = facts.get("seen_dimension")
    if seen is not None and d <= MOST_DIMS and seen < FEWER * d:
        found.append(
            f"the points look like a shape of dimension {seen:.1f} by their nearest neighbours, so intrinsic_dim={d} "
            "may be too large: the chosen coordinates then follow bends and noise; lower it (see estimate_dimension)"
        )
    stray = facts["stray_coordinates"]
    if any(k < max(subset) for k in stray) or len(stray) > CROWDED * m:
        found.append(stray_words(stray, len(facts["stray_points"]), subset, options))
    return found


def stray_words(stray: list[int], rows: int, subset: tuple[int, ...], options: Options) -> str:
    """The warning about coordinates on a few points: what became of them, and what helps."""
    m, entry = options.n_components, options.entry
    looped = options.self_loops and entry in ("X", "graph") and options.bandwidth != LOCAL
    ways = ["set self_loops=False"] if looped else []
    ways += ["raise n_neighbors" if options.n_neighbors else "raise bandwidth"] if entry == "X" else []
    ways += ["leave out the rows in diagnostics['stray_points']"] if rows else []
    advice = " or ".join(filter(None, (", ".join(ways[:-1]), *ways[-1:]))) or "leave out these points"
    one, many = len(stray) == 1, "all" if len(stray) == m else f"{len(stray)}"
    are, each, in_all = "is" if one else "are", "" if one else " each", f" ({rows} in all)" if rows else ""
    who = f"{many} of phi1..phi{m} {are} concentrated on a few stray points{each}{in_all}"
    if set(stray) & set(subset):  # too few others for a set
        return f"{who}, so none could be excluded; the choice is doubtful: {advice}"
    left = "was excluded" if one else "were excluded"
    leaves = "It leaves" if one else "They leave"
    names = first_few(coordinate_names(stray))
    return f"{who} and {left}: {names}. {leaves} less room for the shape: {advice}"
