"""Panels that the figures of the paper share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ies_gpu.plot.style import label_axes, scatter


def label_sizes(axes: Any, sizes: Sequence[int]) -> None:
    """Ticks on a logarithmic axis at the numbers of points that were computed."""
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.set_xticks([], minor=True)
    axes.grid(True, which="major", color="0.9")


def add_map(
    figure: Any,
    place: tuple[int, int, int],
    Y: np.ndarray,
    labels: Sequence[str],
    colors: np.ndarray,
    cmap: str,
    **options: Any,
) -> tuple[Any, Any]:
    """A panel with coloured points, named axes and a colour bar; returns the axes and the bar."""
    axes = figure.add_subplot(*place, projection="3d" if Y.shape[1] == 3 else None)
    marks = scatter(axes, Y, colors, cmap, **options)
    label_axes(axes, labels)
    return axes, figure.colorbar(marks, ax=axes, shrink=0.7, pad=0.12 if Y.shape[1] == 3 else 0.02)
