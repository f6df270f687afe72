"""Pictures of the evidence for a choice: path, regret, volumes, diagnosis."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.diagnose import Diagnosis
from ..choice.criterion import coordinate_numbers
from ..choice.regularization import TOLERANCE
from ..findings import refusal
from ..results.selection import Selection, check_selection
from ..validation import check_members, check_real_array
from . import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BOXES = len(style.COLORS)  # sets of the path that are shown
PAIRS = 200  # lines between crossing points that are drawn


@style.picture
def path(selection: Selection, *, ax: Any = None) -> Figure:
    """Draw the regularization path, and box plots of the leave-one-out regret of each set on it.

    Left: the lines ``R(S) - zeta * sum of eigenvalues`` of the sets, thick where a set is the best; dotted breakpoints;
    the chosen interval shaded. Right: the first set from the left whose percentile (marked) is not positive is chosen.

    Parameters
    ----------
    {selection}
    ax : pair of matplotlib.axes.Axes, optional
        Axes to draw the path and the regrets into, such as ``figure.subplots(1, 2)`` makes.

    {returns}

    {examples}
    >>> figure = plot.path(selection)
    """
    sets = shown_sets(check_selection(selection))
    if ax is None:
        figure, count, total = style.new_figure(10.5, 4.6), len(selection.path[sets]), len(selection.path)
        ax = figure.subplots(1, 2, width_ratios=(1.25, 1))
        more = f" ({count} of {total} sets)" if count < total else ""
        figure.suptitle(f"Regularization path: {style.set_label(selection.subset)} is chosen{more}", fontsize=12)
    pair = [style.check_axes(axes, 2) for axes in check_members("ax", ax, "two axes")]
    if len(pair) != 2:
        raise refusal("ax.number", f"ax must be two axes, for the path and for the regrets, got {len(pair)}")
    draw_path(pair[0], selection, sets)
    draw_regrets(pair[1], selection, sets)
    return pair[0].figure


def shown_sets(selection: Selection, most: int = MAX_BOXES) -> slice:
    """Return which sets of the path to show, with the chosen one among them."""
    chosen = next(k for k, segment in enumerate(selection.path) if segment.subset == selection.subset)
    first = max(0, chosen + 2 - most)
    return slice(first, first + most)


def draw_path(axes: Any, selection: Selection, shown: slice) -> None:
    """Draw the loss of each set that is shown as a line over zeta, and the chosen interval."""
    segments = selection.path[shown]
    breaks = [segment.low for segment in segments if segment.low > 0]
    end = min(max([1.6 * value for value in breaks] + [1.3 * selection.zeta]) or 1.0, segments[0].high)
    low, high = selection.zeta_interval
    axes.axvspan(low, end if high is None else high, color="0.5", alpha=0.15, linewidth=0)
    for number, segment in enumerate(segments):
        whole, best = np.array([0, end]), np.array([segment.low, min(segment.high, end)])
        look: dict[str, Any] = {"linewidth": 3, "label": style.set_label(segment.subset)}
        axes.plot(whole, segment.score - whole * segment.penalty, color=style.tint(number), linewidth=0.8, alpha=0.6)
        axes.plot(best, segment.score - best * segment.penalty, color=style.tint(number), **look)
    for value in breaks:
        axes.axvline(value, color="0.5", linewidth=0.8, linestyle=":")
    axes.axvline(selection.zeta, color=style.ink(), linewidth=1.0, linestyle="--")
    name, place = rf"$\zeta_* = {selection.zeta:.4g}$", (selection.zeta, 0.02)
    axes.annotate(name, place, xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points")
    # the envelope falls and is convex: with the frame drawn around it the corner of the legend is free
    top, bottom = max(s.score for s in segments), segments[0].score - end * segments[0].penalty
    room = max(top - bottom, 1e-9)
    axes.set(xlim=(0, end), ylim=(bottom - 0.3 * room, top + 0.05 * room))
    axes.set(title="Path (thick: best set; shaded: chosen interval)", xlabel=r"$\zeta$, the weight of the penalty")
    axes.set_ylabel(r"loss $\ell_\zeta(S) = R(S) - \zeta \sum_{k \in S} \lambda_k$")
    axes.legend(frameon=False, loc="upper right", ncols=2 if len(segments) > 5 else 1)


def draw_regrets(axes: Any, selection: Selection, shown: slice) -> None:
    """Draw a box plot of the regret per set that is shown, with the percentile that decides."""
    regrets = style.on_host(selection.regrets)[:, shown]
    percentiles = style.on_host(selection.regret_percentiles)[shown]
    spots = np.arange(1, len(percentiles) + 1)
    boxes = axes.boxplot(
        regrets, positions=spots, widths=0.55, patch_artist=True, whis=(5, 95), showfliers=False,
        medianprops={"color": style.ink(), "linewidth": 1.5},
    )  # fmt: skip
    for number, box in enumerate(boxes["boxes"]):
        box.set(facecolor=style.tint(number), alpha=0.45, edgecolor=style.tint(number))
    axes.axhline(0, color=style.ink(), linewidth=1.0)
    alpha = selection.diagnostics.get("parameters", {}).get("percentile")
    name = "deciding percentile" if alpha is None else f"percentile {alpha:g}"
    passed = percentiles <= TOLERANCE
    for ok, fill, verdict in ((~passed, "none", "positive: fails"), (passed, style.ink(), "not positive: passes")):
        if ok.any():
            mark = {"s": 36, "facecolors": fill, "marker": "D", "edgecolors": style.ink()}
            axes.scatter(spots[ok], percentiles[ok], zorder=5, label=f"{name} {verdict}", **mark)
    names = [style.set_label(segment.subset) for segment in selection.path[shown]]
    crowded = len(names) * len(selection.subset) > 10
    axes.set_xticks(spots, names, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.set(title="Regret (box: quartiles, whiskers: 5 to 95%)", ylabel=r"leave-one-out regret $D(S, i)$")
    axes.set_xlabel(r"set on the path, from $\zeta = \infty$ down")
    if abs(regrets).max(initial=0) <= TOLERANCE:  # with d = 1 all are 0 or rounding errors, which must not set the axis
        axes.set_ylim(-1, 1)
    axes.set_ylim(top=axes.get_ylim()[1] + 0.2 * np.ptp(axes.get_ylim()))  # room for the legend above the boxes
    axes.legend(frameon=False, loc="upper right")


@style.picture
def volumes(selection: Selection, subsets: Sequence[Any] | None = None, *, ax: Any = None) -> Figure:
    """Draw histograms of ``exp R(S; i)``, the volume that the tangent vectors at a point span in the coordinates S.

    Near 0 the map has lost a dimension there; 1 is best. Other sets than the chosen one need the tangent bases.

    Parameters
    ----------
    {selection}
    subsets : sequence of sets, or one set, optional
        0-based numbers or names. By default the chosen set.
    {ax}

    {returns}

    {examples}
    >>> figure = plot.volumes(selection, [("phi1", "phi2"), selection.subset])
    """
    m = check_selection(selection).coordinates.shape[1]
    given = [selection.subset] if subsets is None else check_members("subsets", subsets, "sets of coordinates")
    if given and all(isinstance(member, numbers.Integral | str) for member in given):
        given = [given]  # one set alone
    sets = [coordinate_numbers(members, m) for members in given]
    axes: Any = style.new_figure(7, 4.2).subplots() if ax is None else style.check_axes(ax, 2)
    edges = np.linspace(0, 1, 51)
    for number, chosen in enumerate(sets):
        logs = selection.log_volumes if chosen == selection.subset else selection.score(chosen)
        values = np.exp(style.on_host(logs))
        look = {"weights": np.full(len(values), 100 / len(values)), "color": style.tint(number)}
        label = f"{style.set_label(chosen)}: mean {values.mean():.2f}"
        axes.hist(values, edges, alpha=0.3 if len(sets) < 3 else 0.12, **look)
        axes.hist(values, edges, histtype="step", linewidth=1.5, label=label, **look)
    axes.set(xlim=(0, 1), ylim=(0, axes.get_ylim()[1] * (1.05 + 0.07 * len(sets))))  # room for the legend
    axes.set(xlabel=r"volume $\exp R(S; i)$ at a point (0: a dimension is lost, 1: best)", ylabel="share of points (%)")
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("Volume of the tangent space in the embedding", fontsize=12)
    return axes.figure


@style.picture
def diagnosis(found: Diagnosis, *, points: Any = None, ax: Any = None) -> Figure:
    """Draw where a map fails. Crossing points are joined to their partners.

    Parameters
    ----------
    found : Diagnosis
        The result of :func:`ies_gpu.diagnose`.
    points : array of shape (n, D), optional
        The data, or its true parameters, for a second panel, which shows the first 3 columns.
    ax : matplotlib.axes.Axes, optional
        Axes to draw the map into, without a second panel; with ``projection="3d"`` for three coordinates.

    {returns}

    {examples}
    >>> from ies_gpu import diagnose
    >>> figure = plot.diagnosis(diagnose(selection), points=X[:, :2])
    """
    style.check_kind("found", found, Diagnosis)
    if len(found.subset) < 2:
        raise refusal("subset.size", f"subset must have 2 members or more to be drawn, got {found.subset}")
    Y = style.unit_mean_square(found.embedding)[:, :3]
    if ax is not None:
        draw_findings(style.check_axes(ax, Y.shape[1]), Y, found)
        ax.legend(markerscale=3)
        return ax.figure
    data = None if points is None else style.on_host(check_real_array("points", points, 2))
    figure = style.new_figure(6.5 if data is None else 11, 4.8)
    left = figure.add_subplot(1, 1 if data is None else 2, 1, projection="3d" if Y.shape[1] == 3 else None)
    draw_findings(left, Y, found)
    if data is not None:
        if data.shape[0] != len(Y) or data.shape[1] < 2:
            text = f"points must have {len(Y)} rows, and 2 columns or more, got shape {data.shape}"
            raise refusal("points.shape", text)
        right = figure.add_subplot(1, 2, 2, projection="3d" if data.shape[1] > 2 else None)
        draw_findings(right, data[:, :3], found, style.axis_labels(range(3), "x"))
        of_more = f" (the first 3 of {data.shape[1]} columns)" if data.shape[1] > 3 else ""
        right.set_title(f"The same points in the data{of_more}")
    handles, texts = left.get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=len(texts), frameon=False, markerscale=3)
    seen = ", ".join(kind for kind, count in found.counts.items() if count)
    figure.suptitle("Nothing found" if found.clean else seen or "Not decided: too few points", fontsize=12)
    return figure


def draw_findings(axes: Any, Y: np.ndarray, found: Diagnosis, labels: Sequence[str] = ()) -> None:
    """Draw points with what was found at them, and lines between those that cross; without labels, the map."""
    fine, size = np.setdiff1d(np.arange(len(Y)), np.concatenate([*found.rows.values()])), style.mark_size(len(Y))
    style.scatter(axes, Y[fine], s=size, c="0.6", alpha=0.4 if Y.shape[1] > 2 else 1.0, label="nothing found")
    for number, (name, rows) in enumerate(found.rows.items()):
        if len(rows):
            style.scatter(axes, Y[rows], s=3 * size, c=style.tint(number), label=f"{name} ({len(rows):,})", zorder=3)
    for a, b in found.crossings[:PAIRS]:
        axes.plot(*Y[[a, b]].T, color=style.tint(2), linewidth=0.5, alpha=0.5)
    style.label_axes(axes, labels or style.axis_labels(found.subset, more=" (root mean square 1)"))
    if not labels:
        axes.set_title(f"The map by {style.set_label(found.subset)}")
