"""What all pictures are made of: fonts and colours, figures, panels with points in them, labels, documentation."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..backend import to_host
from ..findings import brief, refusal
from ..options import documented
from ..validation import check_array, check_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Owner = TypeVar("Owner")
STYLE: dict[Any, Any] = dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), 10)
STYLE |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9)
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 100}
# Okabe and Ito's seven, then five that differ from them and from each other for every kind of colour vision
COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
    "#B45AFF", "#E1004B", "#5A3C00", "#1E2D96", "#A6D854",
)  # fmt: skip
ON_DARK = {"#000000": "#BFFFDF", "#5A3C00": "#FFFF00", "#1E2D96": "#00FF9F"}  # those that cannot be seen there
# for angles: ends where it begins, and is as light everywhere, so that it is seen on paper and on a dark page
CYCLIC = (
    "#A8780D", "#D6494A", "#DD32A0", "#B53FDE", "#7069EE", "#338CC2", "#28999A", "#1CA05A", "#6E980D", "#A8780D",
)  # fmt: skip
# what the docstrings of pictures share
TEXTS = {
    "selection": """selection : Selection
    The result of :func:`ies_gpu.select_coordinates`.""",
    "colors": """colors : array, pandas.Series, pandas.DataFrame or dict, optional
    What colours the points, with one value per point of the input or of the picture. Strings, booleans,
    ``pandas.Categorical`` and integers with at most 12 different values are classes and get a legend; other numbers
    get a colour bar. Missing values are grey. A frame or a dict gives one panel per column. The name of a Series or
    column is the label.""",
    "cmap": """cmap : str, optional
    Matplotlib's name of the colour map for numbers, by default "viridis", and a cyclic one for angles that
    fill a turn.""",
    "ax": """ax : matplotlib.axes.Axes, optional
    Axes to draw into.""",
    "ax_of_points": """ax : matplotlib.axes.Axes, optional
    Axes to draw into, for one way to colour the points and two or three columns. Three need axes with
    ``projection="3d"``.""",
    "returns": """Returns
-------
matplotlib.figure.Figure
    The figure, which belongs to no window. A notebook shows it.""",
    "examples": """Examples
--------
>>> from ies_gpu import datasets, plot, select_coordinates
>>> X = datasets.load("D1", n_samples=500).X
>>> known = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.2}
>>> selection = select_coordinates(X, **known)""",
}


def picture(function: Owner) -> Owner:
    """Decorator: a function draws in our style, and its docstring is filled from the texts that pictures share."""
    drawn: Any = styled()
    return documented(drawn(function), TEXTS)


@contextmanager
def styled() -> Iterator[None]:
    """Use our fonts and lines while a figure is built. The ink is that of the user's style."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'ies-gpu[plot]'") from None
    paper = {} if is_dark() else dict.fromkeys(("figure.facecolor", "axes.facecolor"), "white")
    with matplotlib.rc_context(STYLE | paper):
        yield


def is_dark() -> bool:
    """Return whether the background of pictures is dark."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgba

    red, green, blue, opacity = to_rgba(rcParams["figure.facecolor"])
    return opacity > 0.5 and 0.3 * red + 0.59 * green + 0.11 * blue < 0.4


def ink() -> str:
    """Return the colour of lines and words in the picture that is being drawn."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def tint(number: int) -> str:
    """Return the colour of a class, or of one of several sets, in the picture that is being drawn."""
    colour = COLORS[number % len(COLORS)]
    return ON_DARK.get(colour, colour) if is_dark() else colour


def set_label(subset: Iterable[int]) -> str:
    """Return a set of coordinates as the paper writes it, in Matplotlib's notation for formulas."""
    return r"$\{" + r",\, ".join(rf"\phi_{{{k + 1}}}" for k in subset) + r"\}$"


def axis_labels(numbers: Iterable[int], symbol: str = r"\phi", more: str = "") -> list[str]:
    """Return names for axes, counted from 1: of coordinates, or of columns of the input by another symbol."""
    return [f"${symbol}_{{{k + 1}}}${more}" for k in numbers]


def as_written(name: str) -> str:
    """Return a name from the data for Matplotlib, which would take what is between two dollars as a formula."""
    return name.replace("$", r"\$")


def label_axes(axes: Any, labels: Sequence[str]) -> None:
    """Name the two or three axes that there are."""
    names = ("x", "y", "z") if axes.name == "3d" else ("x", "y")
    axes.set(**{f"{axis}label": label for axis, label in zip(names, labels, strict=False)})


def on_host(array: Any, name: str = "values") -> np.ndarray:
    """Return an array of any device, or what becomes one, as NumPy's."""
    return np.asarray(to_host(check_array(name, array)))


def heading(title: str | None, usual: str = "") -> str:
    """Return the user's title, or the usual one."""
    return usual if title is None else check_text("title", title) or usual


def check_kind(name: str, value: Any, kind: type) -> None:
    """Raise unless a value is one of our results."""
    if not isinstance(value, kind):
        raise refusal(f"{name}.type", f"{name} must be a {kind.__name__}, got {brief(value)}", kind=TypeError)


def unit_mean_square(Y: np.ndarray) -> np.ndarray:
    """Return coordinates (n, s) with mean square 1, whatever their scale in the result."""
    return Y / np.maximum(np.sqrt((Y * Y).mean(axis=0)), np.finfo(float).tiny)


def as_png(figure: Figure, **options: Any) -> bytes:
    """Return a figure as a file."""
    figure.savefig(file := io.BytesIO(), format="png", **options)
    return file.getvalue()


def new_figure(width: float, height: float, *, wspace: float | None = None) -> Figure:
    """Return a figure of no window, which notebooks show; ``wspace`` is the room between columns, of their width."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(wspace=wspace))
    figure._repr_png_ = partial(as_png, figure)  # type: ignore[attr-defined]
    return figure


def check_axes(ax: Any, dimensions: int) -> Any:
    """Return ``ax`` if they are axes of Matplotlib for two or three dimensions."""
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        text = f"ax must be axes of Matplotlib, such as figure.subplots() makes, got {brief(ax)}"
        raise refusal("ax.type", text, kind=TypeError)
    if (dimensions == 3) != (ax.name == "3d"):
        way = 'make it with projection="3d"' if dimensions == 3 else 'make it without projection="3d"'
        raise refusal("ax.projection", f"ax does not fit {dimensions} coordinates", way)
    return ax


def mark_size(n: int) -> float:
    """Return the area of a mark where n are drawn; there may be none."""
    return float(np.clip(2e4 / max(n, 1), 0.5, 12))


def scatter(axes: Any, Y: np.ndarray, colors: Any = None, cmap: Any = None, **options: Any) -> Any:
    """Draw points (n, 2) or (n, 3), in one colour or coloured by values."""
    coloured = {"c": COLORS[0]} if colors is None else {"c": colors, "cmap": cmap}
    # rasterised: 10,000 marks as vectors make a PDF that no viewer likes
    marks = {"s": mark_size(len(Y)), "linewidths": 0, "rasterized": True}
    return axes.scatter(*Y.T, **coloured | marks | options)
