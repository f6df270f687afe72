"""What all pictures are made of: figures, panels with points in them, labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import to_host
from ..errors import brief
from ..validation import check_array, check_integer, check_members, check_text
from .style import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def set_label(subset: Iterable[int]) -> str:
    r"""Write a set of coordinates as the paper does, for Matplotlib.

    Parameters
    ----------
    subset : iterable of int
        0-based numbers.

    Returns
    -------
    str
        Counted from 1, in Matplotlib's notation for formulas.

    Examples
    --------
    >>> from ies_gpu import plot
    >>> print(plot.set_label((0, 6)))
    $\{\phi_{1},\, \phi_{7}\}$
    """
    numbers = [check_integer("subset", k, low=0) for k in check_members("subset", subset, "numbers such as (0, 6)")]
    return r"$\{" + r",\, ".join(rf"\phi_{{{k + 1}}}" for k in numbers) + r"\}$"


def axis_labels(numbers: Iterable[int], symbol: str = r"\phi", more: str = "") -> list[str]:
    """The names of coordinates, or of columns of the input by another symbol, for axes; counted from 1."""
    return [f"${symbol}_{{{k + 1}}}${more}" for k in numbers]


def as_written(name: str) -> str:
    """A name from the data for Matplotlib, which would take what is between two dollars as a formula."""
    return name.replace("$", r"\$")


def label_axes(axes: Any, labels: Sequence[str]) -> None:
    """Name two or three axes."""
    axes.set(**{f"{axis}label": label for axis, label in zip("xyz", labels, strict=False)})


def on_host(array: Any, name: str = "values") -> np.ndarray:
    """An array of any device, or what becomes one, as NumPy's."""
    return np.asarray(to_host(check_array(name, array)))


def heading(title: str | None, usual: str = "") -> str:
    """The user's title, or the usual one."""
    return usual if title is None else check_text("title", title) or usual


def check_kind(name: str, value: Any, kind: type) -> None:
    """Raise unless a value is one of our results."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {brief(value)}")


def check_axes(ax: Any, dimensions: int) -> None:
    """Raise unless ``ax`` are axes of Matplotlib for two or three dimensions."""
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be axes of Matplotlib, such as figure.subplots() makes, got {brief(ax)}")
    if (dimensions == 3) != (ax.name == "3d"):
        way = 'make it with projection="3d"' if dimensions == 3 else 'make it without projection="3d"'
        raise ValueError(f"ax does not fit {dimensions} coordinates: {way}")


def unit_mean_square(Y: np.ndarray) -> np.ndarray:
    """Coordinates (n, s) with mean square 1, whatever their scale in the result."""
    return Y / np.maximum(np.sqrt((Y * Y).mean(axis=0)), np.finfo(float).tiny)


def new_figure(width: float, height: float, *, wspace: float | None = None) -> Figure:
    """A figure that belongs to no window; ``wspace`` is the room between columns as a share of their width."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from .figure import Picture

    return Picture(figsize=(width, height), layout=ConstrainedLayoutEngine(wspace=wspace))


def add_axes(figure: Any, place: tuple[int, int, int], dimensions: int) -> Any:
    """Axes at a place of a grid (rows, columns, number from 1 on), in 2-D or 3-D."""
    return figure.add_subplot(*place, projection="3d" if dimensions == 3 else None)


def mark_size(n: int) -> float:
    """The area of a mark where n are drawn; there may be none."""
    return float(np.clip(2e4 / max(n, 1), 0.5, 12))


def scatter(axes: Any, Y: np.ndarray, colors: Any = None, cmap: str | None = None, **options: Any) -> Any:
    """Points (n, 2) or (n, 3), in one colour or coloured by values."""
    coloured = {"c": COLORS[0]} if colors is None else {"c": colors, "cmap": cmap}
    # rasterised: 10,000 marks as vectors make a PDF that no viewer likes
    marks = {"s": mark_size(len(Y)), "linewidths": 0, "rasterized": True}
    return axes.scatter(*Y.T, **coloured | marks | options)
