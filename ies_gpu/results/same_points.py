"""Whether points, and their rows and columns by name, are those that a result was made from."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import at_home, backend_of, to_host
from ..backend.array import Array, spaced_rows
from ..errors import first_few
from ..findings import option, refusal

if TYPE_CHECKING:
    from .selection import Selection

SIX_DIGITS = 2.0**20
ROWS = 64  # of points that tell whether they are the same; so few come from a device at no cost


def is_whole(selection: Selection) -> bool:
    """Return whether all points of the input are in the map; a given Laplacian leaves none out."""
    about = selection.diagnostics
    in_pieces = (about.get("graph_components") or 1) > 1 or "part" in about
    return not in_pieces and int(selection.points[-1]) < len(selection.points)


def rows_by_name(selection: Selection, labels: Any) -> np.ndarray | None:
    """Return the rows with the names of the map's points, among rows with these labels.

    None if positions must do: the result has no names, names or labels occur twice, or the labels are different ones.
    """
    if selection.index is None:
        return None
    names, labels = as_words(selection.index), as_words(labels)
    if len(labels) < len(names) or (is_whole(selection) and len(labels) != len(names)):
        return None
    places = {label: row for row, label in enumerate(labels)}
    if len(places) < len(labels) or len(set(names)) < len(names) or not places.keys() >= set(names):
        return None
    return np.array([places[name] for name in names], dtype=np.int64)


def as_words(labels: Any) -> list[str]:
    """Return names of rows as a result holds them: bytes and objects as words."""
    return [label.decode() if isinstance(label, bytes) else str(label) for label in np.asarray(labels)]


def used_points(selection: Selection, X: Array, name: str = "X") -> Array:
    """Return the rows of an array X (n, D) that are in the map; raise if X is not what the result was made from.

    A result knows its points by a digest of some rows. Where there is none, as in an older file, only the number of
    rows is checked.
    """
    rows, whole = to_host(selection.points), is_whole(selection)
    must = f"{option(name)} must be the points that the selection was made from"
    if len(X) <= int(rows[-1]) or (whole and len(X) != len(rows)):
        wanted = f"{int(rows[-1]) + 1:,} rows" + ("" if whole else " or more")
        raise refusal(f"{name}.rows", f"{must}, {wanted}, got {len(X):,} rows")
    used = X if len(rows) == len(X) else X[backend_of(X).asarray(rows)]
    known, width = (selection.diagnostics.get(key) for key in ("points_digest", "n_features"))
    if known is None or points_digest(used) == known:
        return used
    if width is not None and width != X.shape[1]:
        text = f"{must}, with {width} column{'s' * (width != 1)}, got {X.shape[1]}"
        raise refusal(f"{name}.columns", text, "pass the columns of the run")
    advice = f"these are different points ({len(X):,} rows of {X.shape[1]} columns)"
    raise refusal(f"{name}.other_points", f"{must}, in the same order", advice)


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns; None for arrays, and where a name is no text."""
    try:
        names = tuple(getattr(X, "columns", ()))
    except TypeError:  # no list of names at all
        return None
    return names if names and all(isinstance(name, str) for name in names) else None


def check_names(wanted: Sequence[str] | None, found: Sequence[str] | None, what: str, way: str) -> None:
    """Raise if both have names that differ or come in another order; ``way`` says how to go on."""
    if wanted is None or found is None or tuple(found) == tuple(wanted):
        return
    missing = [name for name in wanted if name not in found]
    if missing:
        why = f"has no column{'s' * (len(missing) > 1)} {first_few(missing, 8)}, which the training points have"
        way = "rename its columns if they are the same"
    elif len(found) != len(wanted):
        why = f"has {len(found)} columns, but the training points have {len(wanted)}: {first_few(wanted, 8)}"
    else:
        why = f"has its columns in another order than the training points, {first_few(wanted, 8)}"
    raise refusal("columns.names", f"{what} {why}", way)


@at_home
def points_digest(X: Array) -> str:
    """Return the digest of some rows of points (n, D), evenly spaced, whatever their type and device."""
    return digest_of_rows(X.shape, to_host(X[backend_of(X).asarray(digest_rows(len(X)))]))


def digest_rows(n: int) -> np.ndarray:
    """Return which of n rows are in the digest of points."""
    return spaced_rows(n, ROWS)


def digest_of_rows(shape: tuple[int, ...], some: np.ndarray) -> str:
    """Return the digest of points from their shape and those rows, to six digits: programs differ in the last ones."""
    mantissa, exponent = np.frexp(some.astype(np.float64))
    rounded = np.ldexp(np.round(mantissa * SIX_DIGITS) / SIX_DIGITS, exponent) + 0.0  # -0.0 is 0.0
    return sha256(f"{shape}".encode() + rounded.tobytes()).hexdigest()
