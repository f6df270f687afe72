"""Pictures of what an automatic choice is based on: the scan of bandwidths, the local spectrum, the sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..parameters.dimension import DOUBTFUL, THRESHOLD
from .figure import new_figure, set_label, styled, tint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = {"scan": ("bandwidth", "lost"), "sizes": ("subset_size", "fvu")}


def logarithmic(axes: Any, values: Any) -> None:
    """A logarithmic axis with some of its values written out."""
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_xticks(values[:: max(1, len(values) // 5)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")


@styled()
def dimension_figure(estimate: Any) -> Figure:
    """Return the spectrum or curve behind a dimension."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    figure.suptitle(f"Intrinsic dimension {estimate.value} ({estimate.method})", fontsize=12)
    x, y, raw = estimate.scales, estimate.curve, estimate.raw
    if estimate.method == "local_pca":
        draw_spectrum(axes, y, estimate.value)
        return figure
    axes.plot(x, y, "o-", color=tint(0), markersize=3)
    logarithmic(axes, x)
    axes.axhline(raw, color=tint(1), linestyle="--", label=f"estimate {raw:.2f}")
    axes.set_ylim(bottom=0)
    axes.set(xlabel="neighbours $k$", ylabel="Levina-Bickel estimate")
    axes.legend(frameon=False)
    return figure


def draw_spectrum(axes: Any, spectrum: Any, dimension: int) -> None:
    """Draw the local spectrum with the threshold that a direction of the manifold reaches."""
    places = range(1, len(spectrum) + 1)
    axes.bar(places, spectrum, color=[tint(0) if k <= dimension else "0.7" for k in places])
    axes.axhspan(*DOUBTFUL, color=tint(1), alpha=0.15, linewidth=0, label="doubtful")
    axes.axhline(THRESHOLD, color=tint(1), linestyle="--", label=f"threshold {THRESHOLD}")
    axes.set(xticks=places, ylim=(0, 1.05 * max(1.0, *spectrum)))
    axes.set(xlabel="number of the local principal direction", ylabel="variance (1: a direction of the manifold)")
    axes.legend(frameon=False)


@styled()
def parameters_figure(found: Any) -> Figure:
    """Return what an automatic choice compared: bandwidths and directions, if they were looked for, and sizes."""
    basis, d, s = found.basis, found.intrinsic_dim, found.subset_size
    kinds = ["scan"] * (len(basis["scan"]) > 1) + ["spectrum"] * bool(basis["spectrum"]) + ["sizes"]
    figure = new_figure(4.6 * len(kinds), 4.0)
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        if kind == "spectrum":
            draw_spectrum(axes, basis["spectrum"], d)
            axes.set_title(f"Intrinsic dimension: {d}")
            continue
        rows, (name, measure) = basis[kind], COMPARED[kind]
        x, y = [row[name] for row in rows], [row[measure] for row in rows]
        if kind == "scan":
            axes.plot(x, y, "o-", color=tint(0))
            logarithmic(axes, x)
            fixed = not isinstance(found.bandwidth, str)
            if fixed:
                axes.axvline(found.bandwidth, color=tint(1), linestyle="--")
            axes.set_title(f"Bandwidth: {found.bandwidth:.4g}" if fixed else f"Bandwidth: {found.bandwidth}")
            axes.set(xlabel=r"bandwidth $\varepsilon$ (units of $X$)")
            axes.set_ylabel("variance lost along the worst local direction")
        else:
            axes.bar(x, y, color=[tint(0) if size == s else "0.7" for size in x], width=0.6)
            axes.set(title=f"Coordinates: {s}", xlabel="number of coordinates $s$", xticks=x)
            axes.set_ylabel("unexplained fraction of the variance of $X$")
        for place, row in zip(zip(x, y, strict=True), rows, strict=True):
            near = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "fontsize": 9}
            axes.annotate(set_label(row["subset"]), place, **near)
        axes.set_ylim(0, 1.15 * max(y))  # room for the names of sets
    return figure
