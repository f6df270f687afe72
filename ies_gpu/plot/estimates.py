"""Pictures of what an automatic choice is based on: the scan of bandwidths, the local spectrum, the sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..choice.naming import set_text
from .panels import new_figure
from .style import COLORS, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSION_LABELS = {
    "local_pca": ("number of the local principal direction", "variance (1: a direction of the manifold)"),
    "levina_bickel": ("neighbours $k$", "Levina-Bickel estimate"),
    "two_nn": (r"$\log(r_2 / r_1)$", r"$-\log(1 - F)$, whose slope is the dimension"),
    "slope": (r"bandwidth $\varepsilon$", r"slope of $\log \sum K$ in $\log \varepsilon$"),
}
BANDWIDTH_LABELS = {
    "fvu": "unexplained fraction of the variance of $X$",
    "degree": r"mean degree within $3 \varepsilon$",
    "slope": r"slope of $\log \sum K$ in $\log \varepsilon$",
    "consistency": "mean distance of the co-metric from the identity",
}


def titled_axes(title: str) -> tuple[Figure, Any]:
    """One pair of axes."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    figure.suptitle(title, fontsize=12)
    return figure, axes


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
        axes.annotate(set_text(subset), place, xytext=(0, lift), textcoords="offset points", ha="center", fontsize=9)


@styled()
def dimension_figure(estimate: Any, threshold: float, doubtful: tuple[float, float]) -> Figure:
    """The spectrum or curve behind a dimension."""
    figure, axes = titled_axes(f"Intrinsic dimension {estimate.value} ({estimate.method})")
    x, y = estimate.scales, estimate.curve
    label_x, label_y = DIMENSION_LABELS[estimate.method]
    if estimate.method == "local_pca":
        tints = [COLORS[0] if k < estimate.value else "0.7" for k in range(len(x))]
        axes.bar(x, y, color=tints)
        axes.axhspan(*doubtful, color=COLORS[1], alpha=0.15, linewidth=0, label="doubtful")
        axes.axhline(threshold, color=COLORS[1], linestyle="--", label=f"threshold {threshold}")
        axes.set_xticks(x)
        axes.set_ylim(0, max(1.05, 1.05 * float(y.max())))
    else:
        axes.plot(x, y, "o-", color=COLORS[0], markersize=3)
        if estimate.method == "two_nn":
            axes.plot(x, estimate.raw * x, color=COLORS[1], linestyle="--", label=f"slope {estimate.raw:.2f}")
        else:
            logarithmic(axes, x)
            axes.axhline(estimate.raw, color=COLORS[1], linestyle="--", label=f"estimate {estimate.raw:.2f}")
        axes.set_ylim(bottom=0)
    axes.set(xlabel=label_x, ylabel=label_y)
    axes.legend(frameon=False)
    return figure


@styled()
def bandwidth_figure(estimate: Any) -> Figure:
    """The curve behind a bandwidth."""
    figure, axes = titled_axes(rf"Bandwidth $\varepsilon = {estimate.value:.4g}$ ({estimate.method})")
    axes.plot(estimate.bandwidths, estimate.curve, "o-", color=COLORS[0])
    name_sets(axes, estimate.bandwidths, estimate.curve, estimate.subsets, 7)
    axes.axvline(estimate.value, color=COLORS[1], linestyle="--", label=f"chosen: {estimate.value:.4g}")
    logarithmic(axes, estimate.bandwidths)
    axes.set_ylim(0, 1.25 * float(estimate.curve.max()))  # room for the names of sets and the legend
    axes.set(xlabel=r"bandwidth $\varepsilon$ (units of $X$)", ylabel=BANDWIDTH_LABELS[estimate.method])
    axes.legend(frameon=False)
    return figure


@styled()
def size_figure(estimate: Any) -> Figure:
    """What sets of each size leave unexplained."""
    figure, axes = titled_axes(f"Coordinates to choose: {estimate.value}")
    tints = [COLORS[0] if s == estimate.value else "0.7" for s in estimate.sizes]
    axes.bar(estimate.sizes, estimate.unexplained, color=tints, width=0.6)
    name_sets(axes, estimate.sizes, estimate.unexplained, estimate.subsets, 4)
    axes.set_xticks(estimate.sizes)
    axes.set_ylim(0, 1.15 * float(max(estimate.unexplained)))
    axes.set(xlabel="number of coordinates $s$", ylabel=BANDWIDTH_LABELS["fvu"])
    return figure
