"""Pictures of why a set was chosen: the path, the leave-one-out regret of its sets, and volumes."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choice.naming import coordinate_numbers
from ..choice.regularization import TOLERANCE
from ..results.selection import check_selection
from ..validation import check_members
from .figure import COLORS, ink, new_figure, on_host, set_label, styled, tint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results.selection import Selection

MAX_BOXES = len(COLORS)  # sets of the path that are shown


@styled()
def path(selection: Selection) -> Figure:
    """Draw the regularization path, and box plots of the leave-one-out regret of each set on it.

    Left: the lines ``R(S) - zeta * sum of eigenvalues`` of the sets, thick where a set is the best; dotted breakpoints;
    the chosen interval shaded. Right: the first set from the left whose percentile (marked) is not positive is chosen.

    Parameters
    ----------
    selection : Selection
        The result of :func:`ies_gpu.select_coordinates`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    Examples
    --------
    >>> from ies_gpu import datasets, plot, select_coordinates
    >>> X = datasets.load("D1", n_samples=500).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> figure = plot.path(selection)
    """
    sets = shown_sets(check_selection(selection), MAX_BOXES)
    figure = new_figure(10.5, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    draw_path(left, selection, sets)
    draw_regrets(right, selection, sets)
    count, total = len(selection.path[sets]), len(selection.path)
    more = f" ({count} of {total} sets)" if count < total else ""
    figure.suptitle(f"Regularization path: {set_label(selection.subset)} is chosen{more}", fontsize=12)
    return figure


def shown_sets(selection: Selection, most: int) -> slice:
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
    where = np.array([0, end])
    for number, segment in enumerate(segments):
        colour = tint(number)
        axes.plot(where, segment.score - where * segment.penalty, color=colour, linewidth=0.8, alpha=0.6)
        best, look = np.array([segment.low, min(segment.high, end)]), {"color": colour, "linewidth": 3}
        axes.plot(best, segment.score - best * segment.penalty, label=set_label(segment.subset), **look)
    for value in breaks:
        axes.axvline(value, color="0.5", linewidth=0.8, linestyle=":")
    axes.axvline(selection.zeta, color=ink(), linewidth=1.0, linestyle="--")
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
    regrets, percentiles = on_host(selection.regrets)[:, shown], on_host(selection.regret_percentiles)[shown]
    spots = np.arange(1, len(percentiles) + 1)
    boxes = axes.boxplot(
        regrets, positions=spots, widths=0.55, patch_artist=True, whis=(5, 95), showfliers=False,
        medianprops={"color": ink(), "linewidth": 1.5},
    )  # fmt: skip
    for number, box in enumerate(boxes["boxes"]):
        box.set(facecolor=tint(number), alpha=0.45, edgecolor=tint(number))
    axes.axhline(0, color=ink(), linewidth=1.0)
    alpha = selection.diagnostics.get("parameters", {}).get("percentile")
    name = "deciding percentile" if alpha is None else f"percentile {alpha:g}"
    passed = percentiles <= TOLERANCE
    for ok, fill, verdict in ((~passed, "none", "positive: fails"), (passed, ink(), "not positive: passes")):
        if ok.any():
            mark = {"s": 36, "facecolors": fill, "marker": "D", "edgecolors": ink()}
            axes.scatter(spots[ok], percentiles[ok], zorder=5, label=f"{name} {verdict}", **mark)
    names = [set_label(segment.subset) for segment in selection.path[shown]]
    crowded = len(names) * len(selection.subset) > 10
    axes.set_xticks(spots, names, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.set(title="Regret (box: quartiles, whiskers: 5 to 95 %)", ylabel=r"leave-one-out regret $D(S, i)$")
    axes.set_xlabel(r"set on the path, from $\zeta = \infty$ down")
    if abs(regrets).max(initial=0) <= TOLERANCE:  # with d = 1 all are 0 or rounding errors, which must not set the axis
        axes.set_ylim(-1, 1)
    axes.set_ylim(top=axes.get_ylim()[1] + 0.2 * np.ptp(axes.get_ylim()))  # room for the legend above the boxes
    axes.legend(frameon=False, loc="upper right")


@styled()
def volumes(selection: Selection, subsets: Sequence[Any] | None = None) -> Figure:
    """Draw histograms of ``exp R(S; i)``, the volume that the tangent vectors at a point span in the coordinates S.

    Near 0 the map has lost a dimension there; 1 is best. Other sets than the chosen one need the tangent bases.

    Parameters
    ----------
    selection : Selection
        The result of :func:`ies_gpu.select_coordinates`.
    subsets : sequence of sets, or one set, optional
        0-based numbers or names. By default the chosen set.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    Examples
    --------
    >>> from ies_gpu import datasets, plot, select_coordinates
    >>> X = datasets.load("D1", n_samples=500).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> figure = plot.volumes(selection, [("phi1", "phi2"), selection.subset])
    """
    m = check_selection(selection).coordinates.shape[1]
    if subsets is not None:
        subsets = check_members("subsets", subsets, "sets of coordinates")
    if subsets and all(isinstance(member, numbers.Integral | str) for member in subsets):
        subsets = [subsets]  # one set alone
    sets = [coordinate_numbers(members, m) for members in (subsets if subsets is not None else [selection.subset])]
    figure = new_figure(7, 4.2)
    axes: Any = figure.subplots()
    edges = np.linspace(0, 1, 51)
    for number, chosen in enumerate(sets):
        logs = selection.log_volumes if chosen == selection.subset else selection.score(chosen)
        values, colour = np.exp(on_host(logs)), tint(number)
        label = f"{set_label(chosen)}: mean {values.mean():.2f}"
        share = np.full(len(values), 100 / len(values))
        axes.hist(values, edges, weights=share, color=colour, alpha=0.3 if len(sets) < 3 else 0.12)
        axes.hist(values, edges, weights=share, color=colour, histtype="step", linewidth=1.5, label=label)
    axes.set(xlim=(0, 1), ylim=(0, axes.get_ylim()[1] * (1.05 + 0.07 * len(sets))))  # room for the legend
    axes.set_xlabel(r"volume $\exp R(S; i)$ at a point (0: a dimension is lost, 1: best)")
    axes.set_ylabel("share of points (%)")
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("Volume of the tangent space in the embedding", fontsize=12)
    return figure
