"""What the page shows of a result: the answer, sets with their numbers, columns of points, and words."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..analysis.diagnose import Diagnosis
from ..analysis.stability import Stability
from ..choice.criterion import share_near_zero
from ..choice.naming import in_symbols, page_text
from ..choice.regularization import TOLERANCE
from ..choice.relations import relations_text
from ..embedding.order import leading_axes, spatial_order
from ..findings import ASKED, Answer
from ..plot.colours import Colouring
from ..plot.figure import CYCLIC, on_host, styled
from ..plot.maps import colour_map, near
from ..results.selection import Selection, with_turned
from ..results.text import ON_PAGE, facts, reason_text, redundant

BYTES = 5_500_000  # of points in a page, before the third that base64 adds is counted
MOST = 30_000  # points that are shown
LISTED = 500  # sets in the table
BEST = 20  # of the ranking with volumes in the page, besides those on the path
CLASSES = 36  # of a column; the page has twelve colours and three marks
COLUMNS = 12  # of the input that can colour the points
FINDINGS = ("nothing found", "dependency", "knot", "crossing", "overlap")
MISSING = 65_535  # stands for a value that is not there
STEPS = MISSING - 1  # in which columns are stored
STOPS = 33  # colours that the page is given of a colour map
BINS = 50  # of a histogram of volumes
BOX = (5, 25, 50, 75, 95)  # percentiles of the regret
LEVELS = ("unchecked", "good", "fair", "bad")
LEVEL_OF = {None: "unchecked", "sure": "good", "likely": "fair", "doubtful": "bad"}  # by the verdict


def content_of(
    selection: Selection, name: str, rows: np.ndarray, points: np.ndarray | None, colours: list[Colouring],
    stability: Stability | None, diagnosis: Diagnosis | None, cmap: Any, note: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Return all that the page knows of a result, as values for JSON."""
    Y, numbers = with_turned(selection)[0], on_host(selection.points)
    n, m = Y.shape
    known = {label: [in_symbols(text) for text in texts] for label, texts in facts(selection).items()}
    verdict, why, answers = answers_of(selection, stability, diagnosis)
    left_out = "" if len(rows) == n else f"{len(rows):,} of {n:,} points are drawn, spread evenly over the map. "
    return {
        "name": name,
        "note": note,
        "subset": selection.subset,
        "verdict": verdict,
        "why": in_symbols(why),
        "answers": {name: answer._asdict() | {"text": in_symbols(answer.text)} for name, answer in answers.items()},
        "remarks": [[kind, text] for kind in ("doubt", "warning", "note") for text in known.get(kind, ())],
        "n": n,
        "m": m,
        "zeta": selection.zeta,
        "turned": selection.rotation is not None,  # the map; volumes are those of the eigenvectors
        "thinned": left_out and left_out + "Scores, regrets and histograms are of all points.",
        "rows": base64.b64encode(numbers[rows].astype("<u4").tobytes()).decode("ascii"),
        "coordinates": [pack_coordinate(column, rows) for column in Y.T],
        "eigenvalues": on_host(selection.eigenvalues),
        "percentile": selection.diagnostics.get("parameters", {}).get("percentile"),
        "path": _path(selection, rows),
        "ranking": {
            "total": len(selection.ranking.subsets),
            "sets": (sets := selection.ranking.subsets[:LISTED]),
            "losses": selection.ranking.losses[:LISTED],
            "scores": selection.ranking.scores[:LISTED],
            "penalties": on_host(selection.eigenvalues)[sets].sum(axis=1),
            "redundant": _relations_within(sets, redundant(selection)),
        },
        "volumes": _volumes(selection, rows),
        "columns": [_column(colouring.of(rows), ramp_of(colouring, cmap)) for colouring in colours],
        "input": None if points is None else _input(points, numbers, rows),
        "facts": [(label, text) for label in ON_PAGE for text in known.get(label, ())],
        "seconds": list((selection.diagnostics.get("seconds") or {}).items()),
        "stability": stability
        and {
            "verdict": in_symbols(stability.verdict),
            "number": stability.n_refits,
            "shares": [(page_text(s), share) for s, share in list(stability.refits.items())[:8]],
        },
        "diagnosis": diagnosis and _diagnosis(diagnosis, rows),
    }


def answers_of(
    selection: Selection, stability: Stability | None, diagnosis: Diagnosis | None
) -> tuple[str | None, str, dict[str, Answer]]:
    """Return the verdict, the reason, and the answers behind it, with what was found after the run."""
    answers = {name: selection.judgement[name] for name in ASKED}
    verdict, why = selection.verdict, reason_text(selection)
    later = {}
    if diagnosis is not None and diagnosis.subset == selection.subset:
        level = "unchecked" if diagnosis.undecided else "good" if diagnosis.clean else "bad"
        places = ", ".join(f"{kind} at {count:,} points" for kind, count in diagnosis.counts.items() if count)
        later["shape"] = Answer(level, float(sum(diagnosis.counts.values())), places or "nothing was found")
    if stability is not None and stability.confidence is not None:
        share = max(stability.confidence, stability.confidence_up_to_twins or 0.0)
        level = "good" if share > 0.9 else "fair" if share > 0.5 else "bad"
        text = f"at least {share:.0%} of fresh samples would choose it{' up to twins' * (share > stability.confidence)}"
        later["stable"] = Answer(level, share, text)
    for name, answer in later.items():
        if LEVELS.index(answer.level) < LEVELS.index(answers[name].level):
            continue  # what a run found is not taken back
        answers[name] = answer
        if verdict is not None and LEVELS.index(answer.level) > LEVELS.index(LEVEL_OF[verdict]):
            verdict = next(word for word, level in LEVEL_OF.items() if level == answer.level)
            why = f" ({name}): {answer.text}"
    return verdict, why, answers


def shown_rows(selection: Selection, columns: int, runs: int) -> np.ndarray:
    """Return the rows of points to draw: all, or as many as fit, spread evenly over the map."""
    n, m = selection.coordinates.shape
    each = 4 + 2 * (m + len(selection.path) * 2 + BEST + columns)
    most = min(MOST, int(0.75 * BYTES / each)) // runs
    if n <= most:
        return np.arange(n)
    # cells of this order hold equally many points: equal steps along it take as many from each
    order = on_host(spatial_order(np.ascontiguousarray(on_host(selection.embedding), dtype=float)))
    return np.sort(order[np.arange(most) * n // most])


def _relations_within(sets: np.ndarray, found: dict[int, tuple[int, ...]]) -> list[str]:
    """Say of each set which of its members are functions of its others."""
    members = [set(own) for own in sets.tolist()]
    within = [{k: others for k, others in found.items() if {k, *others} <= own} for own in members]
    return [in_symbols(relations_text(own)) for own in within]


def _path(selection: Selection, rows: np.ndarray) -> list[dict[str, Any]]:
    regrets, percentiles = on_host(selection.regrets), on_host(selection.regret_percentiles)
    return [
        asdict(segment) | {  # its high end is None in JSON when there is no upper end
            "regret": float(percentiles[k]),
            "passes": bool(percentiles[k] <= TOLERANCE),
            "box": np.percentile(regrets[:, k], BOX),
            "regrets": pack(regrets[rows, k]),
        }
        for k, segment in enumerate(selection.path)
    ]  # fmt: skip


def _volumes(selection: Selection, rows: np.ndarray) -> list[dict[str, Any]]:
    """Volumes of the chosen and the first set, of the path and the best sets; without bases of the chosen set alone."""
    sets = [selection.subset, tuple(range(len(selection.subset))), *(segment.subset for segment in selection.path)]
    sets += [tuple(subset) for subset in selection.ranking.subsets[:BEST].tolist()]
    found = []
    for subset in dict.fromkeys(sets if selection.bases is not None else sets[:1]):
        logs = on_host(selection.log_volumes if subset == selection.subset else selection.score(subset))
        # rounding may lift a volume above 1 by 1e-16
        counts, _ = np.histogram(np.minimum(np.exp(logs), 1.0), BINS, range=(0, 1))
        about = {"counts": counts, "near_zero": share_near_zero(logs), "values": pack(np.exp(logs[rows]), 0.0, 1.0)}
        found.append({"subset": subset, "mean": float(np.exp(logs).mean()), **about})
    return found


def _column(colouring: Colouring, ramp: Sequence[str] | None) -> dict[str, Any]:
    name, values = colouring.name or "colour", np.asarray(colouring.values)
    if colouring.classes is None:
        return {"name": name, "ramp": ramp, "values": pack(values)}
    last = float(max(1, len(colouring.classes) - 1))
    return {"name": name, "classes": colouring.classes, "joined": colouring.joined, "values": pack(values, 0.0, last)}


def ramp_of(colouring: Colouring, cmap: Any) -> Sequence[str] | None:
    """Return the colours for a column of numbers; None for those that the page has."""
    name = cmap.get(colouring.name) if isinstance(cmap, Mapping) else cmap
    if name is None:
        return CYCLIC if colouring.is_angle else None
    with styled():
        from matplotlib.colors import to_hex

        return [to_hex(tint) for tint in colour_map(name)(np.linspace(0, 1, STOPS))]


def _input(points: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """The points themselves: two or three columns, or the three principal components of more."""
    X = np.asarray(points[numbers[rows]], dtype=float)
    columns = [{"name": f"x{k + 1}", "values": pack(column)} for k, column in enumerate(X.T[:COLUMNS])]
    axes, names = X, [f"x{k + 1}" for k in range(X.shape[1])]
    if X.shape[1] > 3:
        axes = (X - X.mean(axis=0)) @ leading_axes(X, 3)
        names = [f"principal axis {k + 1}" for k in range(3)]
    axes = axes[:, :3]
    spread = np.ptp(axes, axis=0)
    if axes.shape[1] == 3 and spread[2] <= 0.1 * spread[:2].max():  # as in plot.points
        axes = axes[:, :2]
    every, half = np.arange(len(axes)), 0.5 * float(spread.max())
    if axes.shape[1] < 3:
        shown = [pack_coordinate(column, every) for column in axes.T]
    else:  # all have the same width, so that the picture is to scale
        middles = 0.5 * (axes.min(axis=0) + axes.max(axis=0))
        shown = [pack(column, c - half, c + half) for column, c in zip(axes.T, middles.tolist(), strict=True)]
    return {"axes": shown, "names": names[: len(shown)], "columns": columns, "dimensions": X.shape[1]}


def _diagnosis(found: Diagnosis, rows: np.ndarray) -> dict[str, Any]:
    kinds = np.zeros(len(found.collapse), dtype=int)
    groups = ((found.overlaps,), (found.crossings,), found.knots, found.dependencies)
    for kind, members in zip((4, 3, 2, 1), groups, strict=True):
        for each in members:
            kinds[each.astype(np.int64)] = kind
    return {
        "verdict": in_symbols(found.verdict),
        "subset": found.subset,
        "counts": found.counts,
        "clean": found.clean,
        "kinds": {"name": "finding", "classes": FINDINGS, "values": pack(kinds[rows], 0.0, len(FINDINGS) - 1.0)},
        "collapse": {"name": "collapse (log10)", "values": pack(np.log10(np.maximum(found.collapse[rows], 1e-3)))},
    }


def pack(values: np.ndarray, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """Return a column as 16-bit integers, steps between two values; those beyond are put on the border."""
    values = np.asarray(values, dtype=float)
    known = np.isfinite(values)
    some = values[known] if known.any() else np.zeros(1)
    low, high = float(some.min()) if low is None else low, float(some.max()) if high is None else high
    share = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    steps = np.where(known, np.rint(np.clip(share, 0.0, 1.0) * STEPS), MISSING).astype("<u2")
    return {"low": low, "high": high, "data": base64.b64encode(steps.tobytes()).decode("ascii")}


def pack_coordinate(column: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return some rows of a coordinate, with strays, which would spoil the picture, on the border and counted."""
    inside = near(column[:, None])
    low, high = float(column[inside].min()), float(column[inside].max())
    outside = int((~inside[rows]).sum())
    return {**pack(column[rows], low, high), "outside": outside}
