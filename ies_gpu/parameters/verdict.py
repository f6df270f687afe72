"""What an automatic choice is based on, as plain values and in words."""

from __future__ import annotations

from typing import Any

from ..backend.array import Array
from ..choice.naming import names_text
from ..run.options import Options
from .dimension import DimensionEstimate
from .scan import FALL, Scan, Trial, can_search, largest_size

FLAT = 0.1  # ratio of singular values of the co-metric; the median on D1 to D12 is .27 or more where m suffices
CROWDED = 0.2  # share of stray coordinates that is worth a warning in any case
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
) -> dict[str, Any]:
    """Everything the choice is based on, as plain values; ``doubts`` are sentences to warn with."""
    names = ("bandwidth", "intrinsic_dim", "subset_size")
    values = (chosen.bandwidth, d, s)
    near, union = chosen.near_zero(s)
    rows = [
        {
            "bandwidth": t.bandwidth,
            "mean_degree": t.graph.mean_degree,
            "share": t.share,
            "subset": t.search(s).subset,
            "fvu": t.fvu(s),
        }
        for t in tried.trials
    ]
    confidence, doubts = in_words(tried, dimension, d, s, asked)
    if carried is not None and not carried["holds"]:
        doubts.append(
            f"the bandwidth found on {sample_size:,} points does not suit all points: the chosen coordinates leave "
            f"{chosen.fvu(s):.3f} of the variance unexplained instead of {carried['sample_fvu']:.3f}; try other values"
        )
    return {
        "chosen": {name: value for name, value in zip(names, values, strict=True) if name in asked},
        **dict(zip(names, values, strict=True)),
        "fvu": chosen.fvu(s),
        "scan": rows,
        "left_out": [{"bandwidth": eps, "reason": reason} for eps, reason in sorted(tried.left_out.items())],
        "degree_bandwidth": tried.centre if "bandwidth" in asked else None,
        "spectrum": None if dimension is None else dimension.curve.tolist(),
        "spectrum_bandwidth": None if dimension is None else dimension.bandwidth,
        "sizes": [size_row(tried.best(k), k) for k in sorted(set.intersection(*(set(t.found) for t in tried.trials)))],
        "near_zero": near,
        "near_zero_union": union,
        "sample_size": sample_size,
        "carried": carried,
        "confidence": confidence,
        "doubts": doubts,
    }


def in_words(
    tried: Scan, dimension: DimensionEstimate | None, d: int, s: int, asked: list[str]
) -> tuple[dict[str, str], list[str]]:
    """How sure each automatic value is, and warnings for those that are not."""
    confidence, doubts = {}, []
    if "bandwidth" in asked:
        confidence["bandwidth"], doubt = bandwidth_words(tried, s)
        doubts += [doubt] if doubt else []
    if dimension is not None:
        confidence["intrinsic_dim"] = dimension.confidence
        if dimension.doubtful or dimension.confidence.startswith("low"):
            doubts.append(f"intrinsic_dim={d} is uncertain ({dimension.confidence}); compare with one more or less")
    if "subset_size" in asked:
        confidence["subset_size"], doubt = size_words(tried, d, s)
        doubts += [doubt] if doubt else []
    return confidence, doubts


def size_row(best: Trial, s: int) -> dict[str, Any]:
    """The best set of a size over the bandwidths tried."""
    return {"subset_size": s, "fvu": best.fvu(s), "bandwidth": best.bandwidth, "subset": best.search(s).subset}


def bandwidth_words(tried: Scan, s: int) -> tuple[str, str]:
    """How sure the bandwidth is, and a warning where it is not."""
    best, worst = tried.best(s), tried.beside(s)
    if len(tried.trials) == 1:
        words = "no other bandwidth gave a connected graph to compare with"
        return f"low: {words}", f"bandwidth={best.bandwidth:.4g} is uncertain: {words}; check the result with care"
    facts = f"neighbouring bandwidths leave up to {worst:.2f} times as much unexplained ({best.fvu(s):.3g})"
    if not tried.is_narrow(s):
        return f"high: {facts}", ""
    doubt = (
        f"bandwidth={best.bandwidth:.4g} is a narrow choice: {facts}; look at diagnostics['automatic']['scan'] and "
        "try values near it"
    )
    return f"fair: a narrow choice, {facts}", doubt


def size_words(tried: Scan, d: int, s: int) -> tuple[str, str]:
    """How sure the number of coordinates is, and a warning where the search for it ended early."""
    best = tried.best(s)
    if not can_search(len(best.embedding.eigenvalues), s + 1):
        return f"low: sets of {s + 1} are too many to enumerate, and were not compared", ""
    gain, error, _ = tried.gain(s)
    facts = f"one more coordinate would explain {gain:.3f} more of the variance (threshold {FALL}, error {error:.3f})"
    if s == largest_size(d, len(best.embedding.eigenvalues)) and tried.pays(s, 1):
        doubt = f"subset_size={s} is the largest that was tried, and {facts}; give a larger subset_size to compare"
        return f"low: the largest size tried, and {facts}", doubt
    if gain + 2 * error > FALL:
        return f"fair: {facts}", ""
    return f"high: {facts}", ""


def automatic_line(report: dict[str, Any]) -> str:
    """What was found, for people."""
    values = ", ".join(f"{name} {value:.4g}" for name, value in report["chosen"].items())
    return f"{values}; the chosen coordinates explain {1 - report['fvu']:.1%} of the variance of X"


def thin_points(singular_values: Array) -> float:
    """Share of points at which the coordinates hardly vary along the last of d dimensions: (n, d) -> float."""
    return float((singular_values[:, -1] < FLAT * singular_values[:, 0]).mean())


def doubts_of(facts: dict[str, Any], subset: tuple[int, ...], n: int, options: Options) -> list[str]:
    """Warnings that hold for given parameters too: a graph of nearly all pairs, a dimension that is missing, strays.

    ``facts`` are the diagnostics of the result. A graph that was given, unlike one of points, may be meant to be
    complete. Stray coordinates count where the chosen set passes over them.
    """
    found = []
    entry, d, m = options.entry, options.intrinsic_dim, options.n_components
    share, thin = (facts["mean_degree"] or 0) / n, facts["thin_points"]
    if entry == "X" and share > COMPLETE:
        found.append(
            f"the bandwidth connects {share:.0%} of all pairs of points, so little shape is left to see; "
            "lower it, or try bandwidth='auto'"
        )
    if thin > 0.5:
        found.append(
            f"at {thin:.0%} of the points phi1..phi{m} hardly vary along {d} dimensions (along the last one less than "
            f"{FLAT} of the first, as squares); raise n_components, or lower intrinsic_dim"
        )
    stray, rows = facts["stray_coordinates"], facts["stray_points"]
    if any(k < max(subset) for k in stray) or len(stray) > CROWDED * m:
        ways = ["set self_loops=False"] if options.self_loops and entry in ("X", "graph") else []
        ways += ["raise bandwidth"] if entry == "X" else []
        names = names_text(stray[:5]) + (", ..." if len(stray) > 5 else "")
        found.append(
            f"{len(stray)} of phi1..phi{m} live on a few stray points each ({len(rows)} in all) and are no candidates: "
            f"{names}. They leave less room for the shape: {', '.join([*ways, ''])}{'or ' if ways else ''}leave out "
            "the rows in diagnostics['stray_points']"
        )
    return found
