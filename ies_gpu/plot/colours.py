"""What colours points: numbers with a colour bar, or classes with a legend."""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..findings import refusal
from ..results.selection import Selection, is_whole, rows_by_name
from ..validation import LARGEST
from .style import COLORS, on_host, tint

GREY = "0.75"
PLAIN: tuple[tuple[type, Any], ...] = ((bool, bool | np.bool_), (int, numbers.Integral), (float, numbers.Real))
ENDS = 0.02  # of a turn that angles may leave free at both ends


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
    """Return one colouring for each column of a frame, member of a dict, or array, cut to the ``rows`` that were used.

    Of more than ``most`` classes the smallest are joined.
    """
    if colors is None:
        return [Colouring()]
    if isinstance(colors, Mapping):
        named = [(str(name), values) for name, values in colors.items()]
    elif hasattr(colors, "columns"):  # a frame of pandas or polars
        named = [(str(name), colors[name]) for name in colors.columns]
    else:
        named = [("", colors)]
    return [_colouring(name, values, n, rows, most) for name, values in named] or [Colouring()]


def colourings_of(colors: Any, selection: Selection, most: int = len(COLORS)) -> list[Colouring]:
    """Return the colourings of the points in a map; where some were left out, values for all of the input do too.

    A Series or frame with the names of the points in another order is put into theirs.
    """
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
        values, hidden = values.data.astype(object), np.ma.getmaskarray(values)
        values[hidden] = None
    array = on_host(values, what)
    known, found = np.ones(array.shape, dtype=bool), np.full(array.shape, np.nan)
    members = array
    if array.dtype.kind == "O":
        known = np.array([not is_missing(value) for value in array.flat], dtype=bool).reshape(array.shape)
        own = list(array[known])
        plain = next((plain for plain, like in PLAIN if all(isinstance(value, like) for value in own)), str)
        try:
            members = np.array([plain(value) for value in own], dtype=object if plain is str else plain)
        except Exception:  # integers beyond any dtype, and objects that cannot say what they are
            members = np.empty(0, dtype=np.void)
    if members.dtype.kind not in "fbiuOUS":
        text = f"{what} must hold numbers or classes, got dtype {array.dtype}"
        raise refusal("colors.type", text, kind=TypeError)
    members = members.ravel()
    kind = members.dtype.kind
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
    rest = [f"{joined:,} others"] if joined else []
    return found, (*(names[k] for k in kept), *rest), joined
