"""Pictures of a result: the embedding, the regularization path with the regret, the volumes.

Each function returns a ``matplotlib.figure.Figure`` that belongs to no window and no global state: use
``figure.savefig("name.png", dpi=150)``, or let a notebook show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import backend_of
from ..choice.naming import coordinate_numbers
from ..choice.regularization import TOLERANCE
from .style import COLORS
from .style import styled as _style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results.selection import Selection

MAX_BOXES = len(COLORS)  # sets of the path that are shown


def embedding(
    selection: Selection,
    subset: Sequence[int] | None = None,
    *,
    colors: Any = None,
    title: str | None = None,
    cmap: str = "viridis",
) -> Figure:
    """Points in the chosen coordinates, or in any others.

    Parameters
    ----------
    selection : Selection
    subset : sequence of int or str, optional
        0-based numbers or names such as ``phi7``; the chosen set unless given. Two are drawn flat, three in space, more
        as pairs.
    colors : array (n,), or dict of such arrays by name
        Values that colour the points: one panel for each. Rows as in the input or as in ``selection.points``.
    """
    Y = _host(selection.coordinates)
    chosen = selection.subset if subset is None else coordinate_numbers(subset, Y.shape[1])
    if len(chosen) < 2:
        raise ValueError(f"subset must have 2 members or more to be drawn, got {chosen}")
    by_name = _by_name(colors, selection)
    labels = [rf"$\phi_{{{k + 1}}}$" for k in chosen]
    # unit vectors have entries like 1e-2: shown times sqrt(n), so that the mean square is 1
    scaled = Y[:, list(chosen)] * np.sqrt(len(Y))
    labels = [f"{label} (root mean square 1)" if len(chosen) == 2 else label for label in labels]
    with _style():
        draw = _pairs if len(chosen) > 3 else _panels
        figure = draw(scaled, labels, by_name, cmap)
        figure.suptitle(title or f"Embedding by {set_label(chosen)}", fontsize=12)
    return figure


def points(X: Any, *, colors: Any = None, title: str | None = None, cmap: str = "viridis") -> Figure:
    """The input: its first two columns, to scale, where the rest is thin (a tenth or less); else three in space."""
    X = _host(X)
    if X.ndim != 2 or X.shape[1] < 2:
        raise ValueError(f"X must have 2 columns or more to be drawn, got shape {X.shape}")
    spread = X.max(axis=0) - X.min(axis=0)
    flat = X.shape[1] == 2 or spread[2] <= 0.1 * spread[:2].max()
    by_name = _checked_colors(colors, len(X))
    with _style():
        labels = [f"$x_{{{k + 1}}}$" for k in range(2 if flat else 3)]
        figure = _panels(X[:, : len(labels)], labels, by_name, cmap, to_scale=True)
        if title:
            figure.suptitle(title, fontsize=12)
    return figure


def path(selection: Selection, *, title: str | None = None) -> Figure:
    """The regularization path, and box plots of the leave-one-out regret of each set on it.

    Left: the lines ``R(S) - zeta * sum of eigenvalues`` of the sets, thick where a set is the best; dotted breakpoints;
    the chosen interval shaded. Right: the first set from the left whose percentile (marked) is not positive is chosen.
    """
    chosen = next(k for k, segment in enumerate(selection.path) if segment.subset == selection.subset)
    first = max(0, chosen + 2 - MAX_BOXES)  # a long path is cut so that the chosen set stays in sight
    shown = slice(first, first + MAX_BOXES)
    count = len(selection.path[shown])
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.5, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_path(left, selection, shown)
        _draw_regrets(right, selection, shown)
        more = f" ({count} of {len(selection.path)} sets)" if count < len(selection.path) else ""
        figure.suptitle((title or f"Regularization path: {set_label(selection.subset)} is chosen") + more, fontsize=12)
    return figure


def volumes(
    selection: Selection, subsets: Sequence[Sequence[int]] | None = None, *, title: str | None = None
) -> Figure:
    """Histograms of ``exp R(S; i)``, the volume that the tangent vectors at a point span in the coordinates S.

    Near 0 the map has lost a dimension there; 1 is best. Other sets than the chosen one need the tangent bases.

    Parameters
    ----------
    selection : Selection
    subsets : sequence of sets, or one set, optional
        0-based numbers or names. The chosen set unless given.
    """
    m = selection.coordinates.shape[1]
    if subsets is not None and all(isinstance(member, int | str) for member in subsets):
        subsets = [subsets]  # type: ignore[list-item]  # one set alone
    sets = [coordinate_numbers(s, m) for s in (subsets if subsets is not None else [selection.subset])]
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes: Any = figure.subplots()
        edges = np.linspace(0, 1, 51)
        for number, chosen in enumerate(sets):
            logs = selection.log_volumes if chosen == selection.subset else selection.score(chosen)
            values, tint = np.exp(_host(logs)), COLORS[number % len(COLORS)]
            label = f"{set_label(chosen)}: mean {values.mean():.2f}"
            share = np.full(len(values), 100 / len(values))
            axes.hist(values, edges, weights=share, color=tint, alpha=0.3 if len(sets) < 3 else 0.12)
            axes.hist(values, edges, weights=share, color=tint, histtype="step", linewidth=1.5, label=label)
        axes.set(xlim=(0, 1), ylim=(0, axes.get_ylim()[1] * (1.05 + 0.07 * len(sets))))  # room for the legend
        axes.set_xlabel(r"volume $\exp R(S; i)$ at a point (0: a dimension is lost, 1: best)")
        axes.set_ylabel("share of points (%)")
        axes.legend(frameon=False, loc="upper right")
        axes.set_title(title or "Volume of the tangent space in the embedding", fontsize=12)
    return figure


def set_label(subset: Sequence[int]) -> str:
    """The paper's way to write a set, counted from 1: ``{phi1, phi7}``."""
    return r"$\{" + r",\, ".join(rf"\phi_{{{k + 1}}}" for k in subset) + r"\}$"


def _host(array: Any) -> np.ndarray:
    return np.asarray(backend_of(array).to_host(array))


def _by_name(colors: Any, selection: Selection) -> dict[str, np.ndarray | None]:
    rows = _host(selection.points)
    found = _as_dict(colors)
    # values for all rows of the input, of which only some were connected
    whole = {name: v[rows] if v is not None and v.ndim == 1 and len(v) > rows[-1] else v for name, v in found.items()}
    return _checked_colors(whole, len(rows))


def _as_dict(colors: Any) -> dict[str, np.ndarray | None]:
    if colors is None:
        return {"": None}
    if isinstance(colors, Mapping):
        return {str(name): _host(values) for name, values in colors.items()}
    return {"": _host(colors)}


def _checked_colors(colors: Any, n: int) -> dict[str, np.ndarray | None]:
    found = _as_dict(colors) if not isinstance(colors, dict) or not colors else dict(colors)
    for name, values in found.items():
        if values is not None and values.shape != (n,):
            what = f"colors[{name!r}]" if name else "colors"
            raise ValueError(f"{what} must have one value for each of {n} points, got shape {values.shape}")
    return found


def _panels(
    Y: np.ndarray, labels: list[str], colors: dict[str, np.ndarray | None], cmap: str, *, to_scale: bool = False
) -> Figure:
    """One scatter for each way to colour the points: side by side, or one above the other when they are wide."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    count, spread = len(colors), Y.max(axis=0) - Y.min(axis=0)
    wide = to_scale and Y.shape[1] == 2 and spread[0] > 2 * spread[1]
    rows, columns = (count, 1) if wide else (1, count)
    size = (9.0, (7.5 * spread[1] / spread[0] + 0.9) * count + 0.4) if wide else (4.8 * count + 0.4, 4.4)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.06))
    space = {"projection": "3d"} if Y.shape[1] == 3 else {}
    grid = figure.subplots(rows, columns, squeeze=False, subplot_kw=space)
    for axes, (name, values) in zip(grid.flat, colors.items(), strict=True):
        drawn = _scatter(axes, Y, values, cmap)
        if to_scale:
            axes.set_aspect("equal")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        if Y.shape[1] == 3:
            axes.set_zlabel(labels[2])
        if values is not None and Y.shape[1] == 2:  # a bar inside the axes' frame keeps their height, to scale or not
            figure.colorbar(drawn, cax=axes.inset_axes((1.02, 0, 0.02 if wide else 0.04, 1))).set_label(name)
        elif values is not None:
            figure.colorbar(drawn, ax=axes, shrink=0.7, pad=0.14).set_label(name)
    return figure


def _pairs(Y: np.ndarray, labels: list[str], colors: dict[str, np.ndarray | None], cmap: str) -> Figure:
    """Every pair of coordinates in a row, and a row for each way to colour the points."""
    from matplotlib.figure import Figure

    pairs = list(combinations(range(Y.shape[1]), 2))
    figure = Figure(figsize=(2.4 * len(pairs) + 1, 2.4 * len(colors) + 0.4), layout="constrained")
    grid = figure.subplots(len(colors), len(pairs), squeeze=False)
    for row, (name, values) in zip(grid, colors.items(), strict=True):
        for axes, (a, b) in zip(row, pairs, strict=True):
            drawn = _scatter(axes, Y[:, [a, b]], values, cmap)
            axes.set_xlabel(labels[a])
            axes.set_ylabel(labels[b])
        if values is not None:
            figure.colorbar(drawn, ax=row.tolist(), shrink=0.9).set_label(name)
    return figure


def _scatter(axes: Any, Y: np.ndarray, values: np.ndarray | None, cmap: str) -> Any:
    size = float(np.clip(2e4 / len(Y), 0.5, 12))
    coloured = {"c": COLORS[0]} if values is None else {"c": values, "cmap": cmap}
    # rasterised: 10,000 marks as vectors make a PDF that no viewer likes
    return axes.scatter(*Y.T, s=size, linewidths=0, rasterized=True, **coloured)


def _draw_path(axes: Any, selection: Selection, shown: slice) -> None:
    segments = selection.path[shown]
    breaks = [segment.low for segment in segments if segment.low > 0]
    end = min(max([1.6 * value for value in breaks] + [1.3 * selection.zeta]) or 1.0, segments[0].high)
    low, high = selection.zeta_interval
    axes.axvspan(low, end if high is None else high, color="0.5", alpha=0.15, linewidth=0)
    where = np.array([0, end])
    for segment, tint in zip(segments, COLORS, strict=False):
        axes.plot(where, segment.score - where * segment.penalty, color=tint, linewidth=0.8, alpha=0.6)
        best = np.array([segment.low, min(segment.high, end)])
        label = set_label(segment.subset)
        axes.plot(best, segment.score - best * segment.penalty, color=tint, linewidth=3, label=label)
    for value in breaks:
        axes.axvline(value, color="0.4", linewidth=0.8, linestyle=":")
    axes.axvline(selection.zeta, color="0.2", linewidth=1.0, linestyle="--")
    name, place = rf"$\zeta_* = {selection.zeta:.4g}$", (selection.zeta, 0.02)
    axes.annotate(name, place, xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points")
    # the envelope falls and is convex: with the frame drawn around it the corner of the legend is free
    top, bottom = max(s.score for s in segments), segments[0].score - end * segments[0].penalty
    room = max(top - bottom, 1e-9)
    axes.set(xlim=(0, end), ylim=(bottom - 0.3 * room, top + 0.05 * room))
    axes.set_title("Path (thick: best set; shaded: chosen interval)")
    axes.set_xlabel(r"$\zeta$, the weight of the penalty")
    axes.set_ylabel(r"loss $\ell_\zeta(S) = R(S) - \zeta \sum_{k \in S} \lambda_k$")
    axes.legend(frameon=False, loc="upper right", ncols=2 if len(segments) > 5 else 1)


def _draw_regrets(axes: Any, selection: Selection, shown: slice) -> None:
    regrets = _host(selection.regrets)[:, shown]
    percentiles = _host(selection.regret_percentiles)[shown]
    spots = np.arange(1, len(percentiles) + 1)
    boxes = axes.boxplot(
        regrets, positions=spots, widths=0.55, patch_artist=True, whis=(5, 95), showfliers=False,
        medianprops={"color": "black", "linewidth": 1.5},
    )  # fmt: skip
    for box, tint in zip(boxes["boxes"], COLORS, strict=False):
        box.set(facecolor=tint, alpha=0.45, edgecolor=tint)
    axes.axhline(0, color="0.2", linewidth=1.0)
    alpha = selection.diagnostics.get("parameters", {}).get("percentile")
    name = "deciding percentile" if alpha is None else f"percentile {alpha:g}"
    passed = percentiles <= TOLERANCE
    for ok, fill, verdict in ((~passed, "white", "positive: fails"), (passed, "black", "not positive: passes")):
        if ok.any():
            label = f"{name} {verdict}"
            mark = {"s": 36, "c": fill, "marker": "D", "edgecolors": "black"}
            axes.scatter(spots[ok], percentiles[ok], zorder=5, label=label, **mark)
    names = [set_label(segment.subset) for segment in selection.path[shown]]
    crowded = len(names) * len(selection.subset) > 10
    axes.set_xticks(spots, names, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.set_xlabel(r"set on the path, from $\zeta = \infty$ down")
    axes.set_ylabel(r"leave-one-out regret $D(S, i)$")
    axes.set_title("Regret (box: quartiles, whiskers: 5 to 95 %)")
    axes.set_ylim(top=axes.get_ylim()[1] + 0.2 * np.ptp(axes.get_ylim()))  # room for the legend above the boxes
    axes.legend(frameon=False, loc="upper right")
