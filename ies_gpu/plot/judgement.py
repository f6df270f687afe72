"""Pictures of how far a map can be trusted: where it fails, and how often other samples choose its set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.diagnosis.diagnose import Diagnosis
from ..analysis.stability.result import Stability
from ..validation import check_real_array
from .figure import (
    add_axes,
    axis_labels,
    check_kind,
    ink,
    label_axes,
    mark_size,
    new_figure,
    on_host,
    scatter,
    set_label,
    styled,
    tint,
    unit_mean_square,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = 200  # lines between crossing points that are drawn
SETS = 6  # rivals in the picture of a stability
TINTS = ("#56B4E9", "#0072B2")  # of resamples and of refits


@styled()
def diagnosis(found: Diagnosis, *, points: Any = None) -> Figure:
    """Draw where a map fails. Crossing points are joined to their partners.

    Parameters
    ----------
    found : Diagnosis
        The result of :func:`ies_gpu.diagnose`.
    points : array of shape (n, D), optional
        The data, or its true parameters, for a second panel, which shows the first 3 columns. Without it the second
        panel shows the collapse.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    Examples
    --------
    >>> from ies_gpu import datasets, diagnose, plot, select_coordinates
    >>> X = datasets.load("D1", n_samples=500).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> figure = plot.diagnosis(diagnose(selection), points=X[:, :2])
    """
    check_kind("found", found, Diagnosis)
    if len(found.subset) < 2:
        raise ValueError(f"subset must have 2 members or more to be drawn, got {found.subset}")
    Y = unit_mean_square(found.embedding)[:, :3]
    figure = new_figure(11, 4.8)
    left = add_axes(figure, (1, 2, 1), Y.shape[1])
    _draw(left, Y, axis_labels(found.subset, more=" (root mean square 1)"), found)
    left.set_title(f"The map by {set_label(found.subset)}")
    if points is None:
        _histogram(figure.add_subplot(1, 2, 2), found)
    else:
        data = on_host(check_real_array("points", points, 2))
        columns = data.shape[1]
        if data.shape[0] != len(Y) or columns < 2:
            raise ValueError(f"points must have {len(Y)} rows, and 2 columns or more, got shape {data.shape}")
        data = data[:, :3]
        right = add_axes(figure, (1, 2, 2), data.shape[1])
        _draw(right, data, axis_labels(range(3), "x"), found)
        of_more = f" (the first 3 of {columns} columns)" if columns > 3 else ""
        right.set_title(f"The same points in the data{of_more}")
    handles, texts = left.get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=len(texts), frameon=False, markerscale=3)
    seen = ", ".join(kind for kind, count in found.counts.items() if count)
    figure.suptitle("Nothing found" if found.clean else seen or "Not decided: too few points", fontsize=12)
    return figure


@styled()
def stability(found: Stability) -> Figure:
    """Draw how often resamples and subsamples choose each set.

    Parameters
    ----------
    found : Stability
        The result of :func:`ies_gpu.selection_stability`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    Examples
    --------
    >>> from ies_gpu import datasets, plot, select_coordinates, selection_stability
    >>> X = datasets.load("D1", n_samples=500).X
    >>> selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    >>> figure = plot.stability(selection_stability(selection))
    """
    check_kind("found", found, Stability)
    kinds = {"resamples": (found.bootstrap, found.n_bootstrap), "subsamples, refitted": (found.refits, found.n_refits)}
    made = {name: shares for name, (shares, count) in kinds.items() if count}
    highest = {s: max(shares.get(s, 0.0) for shares in made.values()) for shares in made.values() for s in shares}
    sets = sorted({found.subset, *highest}, key=lambda s: (s != found.subset, -highest.get(s, 0.0)))[:SETS]
    figure = new_figure(7, 1.4 + 0.45 * max(len(sets), 3))
    axes: Any = figure.subplots()
    places = np.arange(len(sets))
    for number, (name, shares) in enumerate(made.items()):
        widths, shift = [100 * shares.get(s, 0.0) for s in sets], (number - 0.5 * (len(made) - 1)) * 0.36
        look = {"color": TINTS[number], "label": f"{name} ({kinds[name][1]:,})"}
        axes.bar_label(axes.barh(places + shift, widths, 0.34, **look), fmt="%.0f %%", padding=2)
    names = ["a set with no counterpart" if -1 in s else set_label(s) for s in sets]
    axes.set_yticks(places, [f"{names[0]} (chosen)", *names[1:]])
    axes.set_ylim(max(len(sets), 3) - 0.5, -0.5)  # thin bars, and room for the legend
    axes.set(xlim=(0, 112), xticks=range(0, 101, 25), xlabel="share that chooses the set (%)")
    axes.set_title("Would another sample choose the same set?", fontsize=12)
    axes.legend(frameon=False, loc="lower right")
    return figure


def _draw(axes: Any, Y: np.ndarray, labels: Sequence[str], found: Diagnosis) -> None:
    parts = (found.dependencies, found.knots, (found.crossings,), (found.overlaps,))
    groups = [np.unique(np.concatenate([*map(np.ravel, part), []])).astype(np.int64) for part in parts]
    fine, size = np.setdiff1d(np.arange(len(Y)), np.concatenate(groups)), mark_size(len(Y))
    scatter(axes, Y[fine], s=size, c="0.6", alpha=0.4 if Y.shape[1] > 2 else 1.0, label="nothing found")
    for number, (name, rows) in enumerate(zip(found.counts, groups, strict=True)):
        if len(rows):
            scatter(axes, Y[rows], s=3 * size, c=tint(number), label=f"{name} ({len(rows):,})", zorder=3)
    for a, b in found.crossings[:PAIRS]:
        axes.plot(*Y[[a, b]].T, color=tint(2), linewidth=0.5, alpha=0.5)
    label_axes(axes, labels[: Y.shape[1]])


def _histogram(axes: Any, found: Diagnosis) -> None:
    top = max(4.0, float(np.quantile(found.collapse, 0.999)))
    axes.hist(np.clip(found.collapse, 0.5, top), np.geomspace(0.5, top, 60), color="0.6")
    axes.axvline(1.0, color=ink(), linestyle=":", linewidth=1)
    axes.set(xscale="log", yscale="log", ylabel="points", title="How far the map throws points together")
    ticks = [t for t in (0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200) if t <= top]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("collapse: spread of the nearest points in the map (1: kept together)")
