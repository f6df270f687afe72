"""What all pictures are made of: fonts and colours, figures, labels, documentation, and what colours their points."""

from __future__ import annotations

import io
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..backend import to_host
from ..findings import brief, refusal
from ..options import documented
from ..results.selection import Selection, is_whole, rows_by_name
from ..validation import LARGEST, check_array, check_text

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
GREY = "0.75"
PLAIN: tuple[tuple[type, Any], ...] = ((bool, bool | np.bool_), (int, numbers.Integral), (float, numbers.Real))
ENDS = 0.02  # of a turn that angles may leave free at both ends
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


# --- what colours points: numbers with a colour bar, or classes with a legend ---


@dataclass(frozen=True)
class Colouring:
    """Values or classes of n points under one name, which may be empty."""

    name: str = ""
    values: np.ndarray | None = None  # (n,), or the numbers of the classes; NaN is unknown; None: one colour for all
    classes: tuple[str, ...] | None = None  # their names; None for numbers
    joined: int = 0  # classes that the last one stands for, where there were too many

    @property
    def missing(self) -> int:
        """How many points have no value."""
        return 0 if self.values is None else int(np.isnan(self.values).sum())

    @property
    def is_angle(self) -> bool:
        """Whether the numbers fill one turn, in radians or degrees, from 0 or from minus half of it."""
        if self.values is None or self.classes is not None:
            return False
        low, high = float(np.nanmin(self.values)), float(np.nanmax(self.values))
        turns = ((start * whole, whole) for whole in (2 * np.pi, 360.0) for start in (0.0, -0.5))
        return any(max(abs(low - start), abs(high - start - whole)) < ENDS * whole for start, whole in turns)

    def tint(self, code: int) -> str:
        """Return the colour of a class; what is joined is grey."""
        return GREY if self.joined and code == len(self.classes or ()) - 1 else tint(code)


def colourings(colors: Any, n: int, rows: np.ndarray | None = None, most: int = len(COLORS)) -> list[Colouring]:
    """Return a colouring per column of a frame, member of a dict, or array, cut to ``rows``; surplus classes joined."""
    names = list(colors) if isinstance(colors, Mapping) else getattr(colors, "columns", None)  # of pandas or polars
    if names is None:
        return [_colouring("", colors, n, rows, most)]
    return [_colouring(str(name), colors[name], n, rows, most) for name in names] or [Colouring()]


def colourings_of(colors: Any, selection: Selection, most: int = len(COLORS)) -> list[Colouring]:
    """Return the colourings of the points in a map; values of all of the input do too, by name in any order."""
    if isinstance(colors, Mapping):
        colors = {name: _in_order(values, selection) for name, values in colors.items()}
    colors = _in_order(colors, selection)
    rows = None if is_whole(selection) else on_host(selection.points)
    return colourings(colors, len(selection.points), rows, most)


def _in_order(values: Any, selection: Selection) -> Any:
    """Return what pandas names the rows of in the order of the points, and anything else as it is."""
    of_pandas = any(kind.__module__.partition(".")[0] == "pandas" for kind in type(values).__mro__)
    rows = rows_by_name(selection, values.index) if of_pandas and hasattr(values, "iloc") else None
    return values if rows is None else values.iloc[rows]


def _colouring(name: str, values: Any, n: int, rows: np.ndarray | None, most: int) -> Colouring:
    what = f"colors[{name!r}]" if name else "colors"
    label = name or str(getattr(values, "name", None) or "")
    if values is None:
        return Colouring(label)
    found, classes, joined = _numbers_or_classes(what, values, most)
    if rows is not None and found.ndim == 1 and len(found) > rows[-1]:
        found = found[rows]
    if found.shape != (n,):
        more = "" if rows is None else f" in the map, or for each of the input ({rows[-1] + 1} or more)"
        text = f"{what} must have one value for each of {n} points{more}, got shape {found.shape}"
        raise refusal("colors.shape", text)
    if classes is None and np.isnan(found).all():
        classes = ()  # a bar would have no ends; a legend says that all are missing
    if classes is None and max(abs(np.nanmin(found)), abs(np.nanmax(found))) > LARGEST:
        text = f"{what} has values beyond {LARGEST:.0e}, too large for a scale"
        raise refusal("colors.range", text, "divide by a constant")
    return Colouring(label, found, classes, joined)


def _numbers_or_classes(what: str, values: Any, most: int) -> tuple[np.ndarray, tuple[str, ...] | None, int]:
    """Return values as floats and, of classes, their names and how many the last one stands for."""
    array = getattr(values, "array", values)  # of a pandas.Series
    if hasattr(array, "codes") and hasattr(array, "categories"):  # pandas.Categorical: the order is the user's
        codes = np.asarray(array.codes, dtype=float)
        return _used(np.where(codes < 0, np.nan, codes), [str(name) for name in array.categories], most)
    if isinstance(values, np.ma.MaskedArray):
        values = np.array(values.tolist(), dtype=object)  # None where it is masked
    members = array = on_host(values, what)
    known, found = np.ones(array.shape, dtype=bool), np.full(array.shape, np.nan)
    if array.dtype.kind == "O":
        known = np.array([not is_missing(value) for value in array.flat], dtype=bool).reshape(array.shape)
        own = list(array[known])
        plain = next((plain for plain, like in PLAIN if all(isinstance(value, like) for value in own)), str)
        try:
            members = np.array([plain(value) for value in own], dtype=object if plain is str else plain)
        except Exception:  # integers beyond any dtype, and objects that cannot say what they are
            members = np.empty(0, dtype=np.void)
    if members.dtype.kind not in "fbiuOUS":
        raise refusal("colors.type", f"{what} must hold numbers or classes, got dtype {array.dtype}", kind=TypeError)
    members, kind = members.ravel(), members.dtype.kind
    if kind == "f" or (kind in "iu" and len(np.unique(members)) > len(COLORS)):  # measures; counts, years, rows
        found[known] = np.where(np.isfinite(members), members, np.nan)
        return found, None, 0
    names, codes = np.unique(members, return_inverse=True)
    order = range(len(names)) if kind in "biu" else sorted(range(len(names)), key=lambda k: _natural(str(names[k])))
    found[known] = np.argsort(order)[codes]
    return _used(found, [str(names[k]) for k in order], most)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or what pandas puts in their place."""
    missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(value, float) and value != value)


def _natural(word: str) -> list[tuple[float, str]]:
    """Return a key that sorts digits in words by size ("c2" before "c10"), and before letters."""
    return [(float(part), "") if part.isdecimal() else (np.inf, part) for part in re.split(r"(\d+)", word) if part]


def _used(codes: np.ndarray, names: list[str], most: int) -> tuple[np.ndarray, tuple[str, ...], int]:
    """Return the classes that have members; of too many the largest, and the rest together."""
    known = ~np.isnan(codes)
    counts = np.bincount(codes[known].astype(int), minlength=len(names))
    kept = np.flatnonzero(counts)
    joined = 0 if len(kept) <= most else len(kept) - most + 1
    if joined:
        kept = np.sort(np.argsort(-counts, kind="stable")[: most - 1])
    number = np.full(len(names), len(kept), dtype=float)  # of the others
    number[kept] = np.arange(len(kept))
    found = codes.copy()
    found[known] = number[codes[known].astype(int)]
    return found, (*(names[k] for k in kept), *([f"{joined:,} others"] if joined else [])), joined
