"""A picture of the volumes of sets over all points."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choice.naming import coordinate_numbers
from ..results.selection import check_selection
from ..validation import check_members
from .panels import check_axes, heading, new_figure, on_host, set_label
from .style import COLORS, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..results.selection import Selection


@styled()
def volumes(
    selection: Selection,
    subsets: Sequence[Any] | None = None,
    *,
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Draw histograms of ``exp R(S; i)``, the volume that the tangent vectors at a point span in the coordinates S.

    Near 0 the map has lost a dimension there; 1 is best. Other sets than the chosen one need the tangent bases.

    Parameters
    ----------
    selection : Selection
        The result of :func:`ies_gpu.select_coordinates`.
    subsets : sequence of sets, or one set, optional
        0-based numbers or names. By default the chosen set.
    title : str, optional
        By default "Volume of the tangent space in the embedding".
    ax : matplotlib.axes.Axes, optional
        Axes to draw into.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which belongs to no window. A notebook shows it.

    See Also
    --------
    ies_gpu.Selection.score : The numbers behind the picture.

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
    title = heading(title, "Volume of the tangent space in the embedding")
    if ax is not None:
        check_axes(ax, 2)
    sets = [coordinate_numbers(members, m) for members in (subsets if subsets is not None else [selection.subset])]
    axes: Any = new_figure(7, 4.2).subplots() if ax is None else ax
    edges = np.linspace(0, 1, 51)
    for number, chosen in enumerate(sets):
        logs = selection.log_volumes if chosen == selection.subset else selection.score(chosen)
        values, tint = np.exp(on_host(logs)), COLORS[number % len(COLORS)]
        label = f"{set_label(chosen)}: mean {values.mean():.2f}"
        share = np.full(len(values), 100 / len(values))
        axes.hist(values, edges, weights=share, color=tint, alpha=0.3 if len(sets) < 3 else 0.12)
        axes.hist(values, edges, weights=share, color=tint, histtype="step", linewidth=1.5, label=label)
    axes.set(xlim=(0, 1), ylim=(0, axes.get_ylim()[1] * (1.05 + 0.07 * len(sets))))  # room for the legend
    axes.set_xlabel(r"volume $\exp R(S; i)$ at a point (0: a dimension is lost, 1: best)")
    axes.set_ylabel("share of points (%)")
    axes.legend(frameon=False, loc="upper right")
    axes.set_title(title, fontsize=12)
    return axes.figure
