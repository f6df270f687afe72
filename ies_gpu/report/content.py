"""What the page shows of one result: sets with their numbers, columns of points, and words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis.diagnosis.diagnose import Diagnosis
from ..analysis.stability.result import Stability
from ..analysis.volumes import volume_histogram
from ..choice.naming import set_text
from ..choice.regularization import TOLERANCE
from ..embedding.order import leading_axes, spatial_order
from ..plot.colours import Colouring, colourings_of
from ..plot.panels import on_host
from ..results.selection import Selection
from ..results.summary import verdict_and_warnings
from .facts import facts_of, seconds_of
from .packing import packed, packed_coordinate, packed_integers

BYTES = 5_500_000  # of points in a page, before the third that base64 adds is counted
MOST = 30_000  # points that are shown
LISTED = 500  # sets in the table
BEST = 20  # of the ranking with volumes in the page, besides those on the path
CLASSES = 36  # of a column; the page has twelve colours and three marks
COLUMNS = 12  # of the input that can colour the points
FINDINGS = ("nothing found", "dependency", "knot", "crossing", "overlap")
BOX = (5, 25, 50, 75, 95)  # percentiles of the regret


def content_of(
    selection: Selection, name: str, rows: np.ndarray, *, points: np.ndarray | None, colours: list[Colouring],
    stability: Stability | None, diagnosis: Diagnosis | None, notes: list[str],
) -> dict[str, Any]:  # fmt: skip
    """All that the page knows of a result, as values for JSON."""
    Y = on_host(selection.coordinates)
    n, m = Y.shape
    verdict, warned = verdict_of(selection)
    numbers = on_host(selection.points)
    left_out = "" if len(rows) == n else f"{len(rows):,} of {n:,} points are drawn, spread evenly over the map. "
    return {
        "name": name,
        "n": n,
        "m": m,
        "subset": selection.subset,
        "zeta": selection.zeta,
        "thinned": left_out and left_out + "Scores, regrets and histograms are of all points.",
        "notes": notes,
        "rows": packed_integers(numbers[rows]),
        "coordinates": [packed_coordinate(column, rows) for column in Y.T],
        "eigenvalues": on_host(selection.eigenvalues),
        "percentile": selection.diagnostics.get("parameters", {}).get("percentile"),
        "path": _path(selection, rows),
        "ranking": _ranking(selection),
        "volumes": _volumes(selection, rows),
        "columns": [_column(colouring.of(rows)) for colouring in colours],
        # names of points say nothing in colours
        "opened": next((k for k, colouring in enumerate(colours) if not colouring.all_differ), 0),
        "input": None if points is None else _input(points, numbers, rows),
        "facts": facts_of(selection),
        "seconds": seconds_of(selection),
        "verdict": verdict,
        "doubtful": selection.verdict == "doubtful",
        "warnings": warned,
        "stability": None if stability is None else _stability(stability),
        "diagnosis": None if diagnosis is None else _diagnosis(diagnosis, rows),
    }


def verdict_of(selection: Selection) -> tuple[str, list[str]]:
    """The word on an automatic choice with its reasons, empty for given parameters, and the other warnings."""
    lines, others = verdict_and_warnings(selection)
    return " ".join([lines[0], "; ".join(line.removeprefix("- ") for line in lines[1:])]).strip(), others


def shown_rows(selection: Selection, runs: int, columns: int) -> np.ndarray:
    """The rows of points to draw: all, or as many as fit, spread evenly over the map."""
    n, m = selection.coordinates.shape
    each = 4 + 2 * (m + len(selection.path) * 2 + BEST + columns)
    most = min(MOST, int(0.75 * BYTES / each)) // runs
    if n <= most:
        return np.arange(n)
    # cells of this order hold equally many points: equal steps along it take as many from each
    order = on_host(spatial_order(np.ascontiguousarray(on_host(selection.embedding), dtype=float)))
    return np.sort(order[np.arange(most) * n // most])


def _path(selection: Selection, rows: np.ndarray) -> list[dict[str, Any]]:
    regrets = on_host(selection.regrets)
    percentiles = on_host(selection.regret_percentiles)
    return [
        {
            "subset": segment.subset,
            "low": segment.low,
            "high": segment.high,  # None in JSON when there is no upper end
            "score": segment.score,
            "penalty": segment.penalty,
            "regret": float(percentiles[k]),
            "passes": bool(percentiles[k] <= TOLERANCE),
            "box": np.percentile(regrets[:, k], BOX),
            "regrets": packed(regrets[rows, k]),
        }
        for k, segment in enumerate(selection.path)
    ]


def _ranking(selection: Selection) -> dict[str, Any]:
    subsets, losses, scores = selection.ranking
    values = on_host(selection.eigenvalues)
    first = subsets[:LISTED]
    return {
        "total": len(subsets),
        "sets": first,
        "losses": losses[:LISTED],
        "scores": scores[:LISTED],
        "penalties": values[first].sum(axis=1),
    }


def _volumes(selection: Selection, rows: np.ndarray) -> list[dict[str, Any]]:
    """Volumes of the chosen set, of the path and of the best sets; of the chosen set alone without tangent bases."""
    sets = [selection.subset, *(segment.subset for segment in selection.path)]
    sets += [tuple(subset) for subset in selection.ranking.subsets[:BEST].tolist()]
    found = []
    for subset in dict.fromkeys(sets if selection.bases is not None else sets[:1]):
        chosen = subset == selection.subset
        logs = on_host(selection.log_volumes if chosen else selection.score(subset))
        histogram = volume_histogram(selection, subset)
        found.append(
            {
                "subset": subset,
                "counts": histogram.counts,
                "near_zero": histogram.share_near_zero,
                "mean": float(np.exp(logs).mean()),
                "values": packed(np.exp(logs[rows]), 0.0, 1.0),
            }
        )
    return found


def _column(colouring: Colouring) -> dict[str, Any]:
    name, values = colouring.name or "colour", np.asarray(colouring.values)
    if colouring.classes is None:
        return {"name": name, "values": packed(values)}
    last = max(1, len(colouring.classes) - 1)
    about = {"name": name, "classes": colouring.classes, "joined": colouring.joined}
    return {**about, "values": packed(values, 0.0, float(last))}


def _input(points: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """The points themselves: two or three columns, or the three principal components of more."""
    X = np.asarray(points[numbers[rows]], dtype=float)
    columns = [{"name": f"x{k + 1}", "values": packed(column)} for k, column in enumerate(X.T[:COLUMNS])]
    axes, names = X, [f"x{k + 1}" for k in range(X.shape[1])]
    if X.shape[1] > 3:
        axes = (X - X.mean(axis=0)) @ leading_axes(X, 3)
        names = [f"principal axis {k + 1}" for k in range(3)]
    axes = axes[:, :3]
    spread = np.ptp(axes, axis=0)
    if axes.shape[1] == 3 and spread[2] <= 0.1 * spread[:2].max():  # as in plot.points
        axes = axes[:, :2]
    shown = [_axis(column, spread.max() if axes.shape[1] == 3 else None) for column in axes.T]
    return {"axes": shown, "names": names[: len(shown)], "columns": columns, "dimensions": X.shape[1]}


def _axis(column: np.ndarray, width: float | None) -> dict[str, Any]:
    """An axis of the input; in 3-D all have the same width, so that the picture is to scale."""
    if width is None:
        return packed_coordinate(column, np.arange(len(column)))
    middle = 0.5 * float(column.min() + column.max())
    return packed(column, middle - 0.5 * float(width), middle + 0.5 * float(width))


def _stability(found: Stability) -> dict[str, Any]:
    def shares(of: dict[tuple[int, ...], float]) -> list[Any]:
        return [{"set": set_text(subset), "subset": subset, "share": share} for subset, share in list(of.items())[:8]]

    return {
        "verdict": found.verdict,
        "bootstrap": shares(found.bootstrap),
        "refits": shares(found.refits),
        "n_bootstrap": found.n_bootstrap,
        "n_refits": found.n_refits,
    }


def _diagnosis(found: Diagnosis, rows: np.ndarray) -> dict[str, Any]:
    kinds = np.zeros(len(found.collapse), dtype=int)
    groups = (found.overlaps.ravel(), found.crossings.ravel(), _joined(found.knots), _joined(found.dependencies))
    for kind, members in zip((4, 3, 2, 1), groups, strict=True):
        kinds[members.astype(np.int64)] = kind
    return {
        "verdict": found.verdict,
        "subset": found.subset,
        "counts": found.counts,
        "clean": found.clean,
        "kinds": {"name": "finding", "classes": FINDINGS, "values": packed(kinds[rows], 0.0, len(FINDINGS) - 1.0)},
        "collapse": {"name": "collapse (log10)", "values": packed(np.log10(np.maximum(found.collapse[rows], 1e-3)))},
    }


def _joined(groups: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.concatenate([*groups, np.empty(0, dtype=np.int64)])


def colours_for(colors: Any, selection: Selection) -> list[Colouring]:
    """The user's columns, at the points that were used."""
    if colors is None:
        return []
    return [colouring for colouring in colourings_of(colors, selection, CLASSES) if colouring.values is not None]
