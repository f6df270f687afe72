"""Fonts, lines and colours of all our pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    # a light picture whatever the user's style is: some of our marks are black
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "black"),
}
# Okabe and Ito's seven, then five that differ from them and from each other for every kind of colour vision
COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
    "#B45AFF", "#E1004B", "#5A3C00", "#1E2D96", "#A6D854",
)  # fmt: skip


@contextmanager
def styled() -> Iterator[None]:
    """Our fonts and lines while a figure is built, whatever the user's settings are."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'ies-gpu[plot]'") from None
    with matplotlib.rc_context(STYLE):
        yield
