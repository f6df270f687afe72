"""Pictures of what an automatic choice is based on: the scan of bandwidths, the local spectrum, the sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..parameters.dimension import DOUBTFUL, THRESHOLD
from .panels import new_figure, set_label
from .style import COLORS, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSION_LABELS = {
    "local_pca": ("number of the local principal direction", "variance (1: a direction of the manifold)"),
    "levina_bickel": ("neighbours $k$", "Levina-Bickel estimate"),
    "two_nn": (r"$\log(r_2 / r_1)$", r"$-\log(1 - F)$, whose slope is the dimension"),
}
LOST = "variance lost along the worst local direction"
UNEXPLAINED = "unexplained fraction of the variance of $X$"


def logarithmic(axes: Any, values: Any) -> None:
    """A logarithmic axis with some of its values written out."""
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_xticks(values[:: max(1, len(values) // 5)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")


def name_sets(axes: Any, x: Any, y: Any, subsets: Any, lift: int) -> None:
    """Write each set, where there are any, a little above its point."""
    for place, subset in zip(zip(x, y, strict=True), subsets, strict=False):
        axes.annotate(set_label(subset), place, xytext=(0, lift), textcoords="offset points", ha="center", fontsize=9)


@drawing
def dimension_figure(estimate: Any) -> Figure:
    """The spectrum or curve behind a dimension."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    figure.suptitle(f"Intrinsic dimension {estimate.value} ({estimate.method})", fontsize=12)
    x, y = estimate.scales, estimate.curve
    if estimate.method == "local_pca":
        draw_spectrum(axes, y, estimate.value)
    else:
        axes.plot(x, y, "o-", color=COLORS[0], markersize=3)
        if estimate.method == "two_nn":
            axes.plot(x, estimate.raw * x, color=COLORS[1], linestyle="--", label=f"slope {estimate.raw:.2f}")
        else:
            logarithmic(axes, x)
            axes.axhline(estimate.raw, color=COLORS[1], linestyle="--", label=f"estimate {estimate.raw:.2f}")
        axes.set_ylim(bottom=0)
    label_x, label_y = DIMENSION_LABELS[estimate.method]
    axes.set(xlabel=label_x, ylabel=label_y)
    axes.legend(frameon=False)
    return figure


def draw_spectrum(axes: Any, spectrum: Any, dimension: int) -> None:
    """Draw the local spectrum with the threshold that a direction of the manifold reaches."""
    places = range(1, len(spectrum) + 1)
    axes.bar(places, spectrum, color=[COLORS[0] if k <= dimension else "0.7" for k in places])
    axes.axhspan(*DOUBTFUL, color=COLORS[1], alpha=0.15, linewidth=0, label="doubtful")
    axes.axhline(THRESHOLD, color=COLORS[1], linestyle="--", label=f"threshold {THRESHOLD}")
    axes.set_xticks(places)
    axes.set_ylim(0, 1.05 * max(1.0, *spectrum))


@drawing
def parameters_figure(found: Any) -> Figure:
    """What an automatic choice compared: bandwidths and directions, if they were looked for, and sizes."""
    panels = [draw_scan] * (len(found.basis["scan"]) > 1) + [draw_directions] * bool(found.basis["spectrum"])
    panels.append(draw_sizes)
    figure = new_figure(4.6 * len(panels), 4.0)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes, found)
    return figure


def draw_scan(axes: Any, found: Any) -> None:
    """Draw what the set chosen at each bandwidth loses of the worst direction, by which they are compared."""
    rows = found.basis["scan"]
    x, y = [row["bandwidth"] for row in rows], [row["lost"] for row in rows]
    axes.plot(x, y, "o-", color=COLORS[0])
    name_sets(axes, x, y, [row["subset"] for row in rows], 7)
    chosen = found.bandwidth
    if not isinstance(chosen, str):
        axes.axvline(chosen, color=COLORS[1], linestyle="--")
    logarithmic(axes, x)
    axes.set_ylim(0, 1.15 * max(y))  # room for the names of sets
    shown = chosen if isinstance(chosen, str) else f"{chosen:.4g}"
    axes.set(title=f"Bandwidth: {shown}", xlabel=r"bandwidth $\varepsilon$ (units of $X$)", ylabel=LOST)


def draw_directions(axes: Any, found: Any) -> None:
    """Draw the local spectrum behind the dimension."""
    draw_spectrum(axes, found.basis["spectrum"], found.intrinsic_dim)
    label_x, label_y = DIMENSION_LABELS["local_pca"]
    axes.set(title=f"Intrinsic dimension: {found.intrinsic_dim}", xlabel=label_x, ylabel=label_y)
    axes.legend(frameon=False)


def draw_sizes(axes: Any, found: Any) -> None:
    """Draw what the best set of each size leaves unexplained."""
    rows = found.basis["sizes"]
    x, y = [row["subset_size"] for row in rows], [row["fvu"] for row in rows]
    axes.bar(x, y, color=[COLORS[0] if s == found.subset_size else "0.7" for s in x], width=0.6)
    name_sets(axes, x, y, [row["subset"] for row in rows], 4)
    axes.set_xticks(x)
    axes.set_ylim(0, 1.15 * max(y))
    axes.set(title=f"Coordinates: {found.subset_size}", xlabel="number of coordinates $s$", ylabel=UNEXPLAINED)
