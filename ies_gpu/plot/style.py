"""Fonts, lines and colours of all our pictures, on light and on dark backgrounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
}
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
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
Drawing = TypeVar("Drawing", bound=Callable[..., Any])


@contextmanager
def styled(ax: Any = None) -> Iterator[None]:
    """Use our fonts and lines while a figure is built, and ink that is seen on the axes, or in the user's style."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'ies-gpu[plot]'") from None
    from matplotlib.axes import Axes

    given = next((axes for axes in getattr(ax, "flat", [ax]) if isinstance(axes, Axes)), None)
    dark = _is_dark(matplotlib.rcParams["figure.facecolor"] if given is None else given.get_facecolor())
    paper = {} if dark else dict.fromkeys(("figure.facecolor", "axes.facecolor"), "white")
    with matplotlib.rc_context(STYLE | paper | dict.fromkeys(INKED, "white" if dark else "black")):
        yield


def drawing(function: Drawing) -> Drawing:
    """Draw a picture :func:`styled`, for the axes that it is given if there are any."""

    @wraps(function)
    def drawn(*args: Any, **more: Any) -> Any:
        with styled(more.get("ax")):
            return function(*args, **more)

    return drawn  # type: ignore[return-value]


def _is_dark(colour: Any) -> bool:
    from matplotlib.colors import to_rgba

    red, green, blue, opacity = to_rgba(colour)
    return opacity > 0.5 and 0.3 * red + 0.59 * green + 0.11 * blue < 0.4


def ink() -> str:
    """Return the colour of lines and words in the picture that is being drawn."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def tint(number: int) -> str:
    """Return the colour of a class, or of one of several sets, in the picture that is being drawn."""
    colour = COLORS[number % len(COLORS)]
    return ON_DARK.get(colour, colour) if ink() == "white" else colour
