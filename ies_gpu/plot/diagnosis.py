"""A picture of a diagnosis: where the map fails, in the map and, if the points are given, in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _style, set_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..analysis.diagnosis.diagnose import Diagnosis

COLORS = {"dependency": "#D55E00", "knot": "#CC79A7", "crossing": "#0072B2", "overlap": "#009E73"}
PAIRS = 200  # lines between crossing points that are drawn


def plot_diagnosis(found: Diagnosis, *, points: Any = None, labels: tuple[str, ...] | None = None) -> Figure:
    """The map with what was found in colour; crossing points are joined to their partners.

    Parameters
    ----------
    found : Diagnosis
    points : array (n, 2) or (n, 3), optional
        The data, or its true parameters, for a second panel; without it the second panel shows the collapse.
    labels : tuple of str, optional
        Of the columns of ``points``.
    """
    if len(found.subset) < 2:
        raise ValueError(f"subset must have 2 members or more to be drawn, got {found.subset}")
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 4.8), layout="constrained")
        Y = found.embedding * np.sqrt(len(found.embedding))
        names = [rf"$\phi_{{{k + 1}}}$ (root mean square 1)" for k in found.subset]
        left = figure.add_subplot(1, 2, 1, projection="3d" if Y.shape[1] > 2 else None)
        _draw(left, Y[:, :3], names, found)
        left.set_title(f"The map by {set_label(found.subset)}")
        if points is None:
            _histogram(figure.add_subplot(1, 2, 2), found)
        else:
            data = np.asarray(points, dtype=float)
            if data.ndim != 2 or data.shape[0] != len(Y) or data.shape[1] < 2:
                raise ValueError(f"points must have {len(Y)} rows and 2 or 3 columns, got shape {data.shape}")
            right = figure.add_subplot(1, 2, 2, projection="3d" if data.shape[1] > 2 else None)
            _draw(right, data[:, :3], list(labels or [f"$x_{{{k + 1}}}$" for k in range(3)]), found)
            right.set_title("The same points in the data")
        handles, texts = left.get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside lower center", ncols=len(texts), frameon=False, markerscale=3)
        figure.suptitle(
            "Nothing found" if found.clean else ", ".join(k for k, v in found.counts.items() if v), fontsize=12
        )
    return figure


def _draw(axes: Any, Y: np.ndarray, names: list[str], found: Diagnosis) -> None:
    groups = {
        "dependency": np.concatenate([*found.dependencies, np.empty(0, dtype=np.int64)]),
        "knot": np.concatenate([*found.knots, np.empty(0, dtype=np.int64)]),
        "crossing": np.unique(found.crossings),
        "overlap": np.unique(found.overlaps),
    }
    size = float(np.clip(2e4 / len(Y), 0.5, 10))
    fine = np.setdiff1d(np.arange(len(Y)), np.concatenate(list(groups.values())).astype(np.int64))
    mark: dict[str, Any] = {"linewidths": 0, "rasterized": True}
    axes.scatter(*Y[fine].T, s=size, c="0.6", alpha=0.4 if Y.shape[1] > 2 else 1.0, label="nothing found", **mark)
    for name, rows in groups.items():
        if len(rows):
            rows = rows.astype(np.int64)
            axes.scatter(*Y[rows].T, s=3 * size, c=COLORS[name], label=f"{name} ({len(rows):,})", zorder=3, **mark)
    for a, b in found.crossings[:PAIRS]:
        axes.plot(*Y[[a, b]].T, color=COLORS["crossing"], linewidth=0.5, alpha=0.5)
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    if Y.shape[1] > 2:
        axes.set_zlabel(names[2])


def _histogram(axes: Any, found: Diagnosis) -> None:
    top = max(4.0, float(np.quantile(found.collapse, 0.999)))
    edges = np.geomspace(0.5, top, 60)
    axes.hist(np.clip(found.collapse, 0.5, top), edges, color="0.6")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.axvline(1.0, color="0.2", linestyle=":", linewidth=1)
    ticks = [t for t in (0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200) if t <= top]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("collapse: spread of the nearest points in the map (1: kept together)")
    axes.set_ylabel("points")
    axes.set_title("How far the map throws points together")
