"""Whether points are those that a result was made from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import backend_of, to_host
from ..backend.array import Array
from ..findings import option, refusal
from ..run.fingerprint import points_digest
from .selection import Selection


def is_whole(selection: Selection) -> bool:
    """Whether all points of the input are in the map.

    A graph in one piece leaves no rows out, unless it was a part itself. Nor does a Laplacian, whose pieces are not
    counted.
    """
    about = selection.diagnostics
    in_pieces = (about.get("graph_components") or 1) > 1 or "part" in about
    return not in_pieces and int(selection.points[-1]) < len(selection.points)


def rows_by_name(selection: Selection, labels: Any) -> np.ndarray | None:
    """The rows with the names of the map's points, among rows with these labels; None if positions must do.

    They must if the result has no names, if names or labels occur twice, or if the labels are different ones.
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
    """Names of rows as a result holds them: bytes and objects as words."""
    return [label.decode() if isinstance(label, bytes) else str(label) for label in np.asarray(labels)]


def used_points(selection: Selection, X: Array, name: str = "X") -> Array:
    """The rows of an array X (n, D) that are in the map; an error if X is not what the result was made from.

    A result knows its points by a digest of some rows. Where there is none, as in an older file, only the number of
    rows is checked.
    """
    rows = to_host(selection.points)
    whole = is_whole(selection)
    if len(X) <= int(rows[-1]) or (whole and len(X) != len(rows)):
        wanted = f"{int(rows[-1]) + 1:,} rows" + ("" if whole else " or more")
        text = f"{option(name)} must be the points that the selection was made from, {wanted}, got {len(X):,} rows"
        raise refusal(f"{name}.rows", text)
    used = X if len(rows) == len(X) else X[backend_of(X).asarray(rows)]
    known = selection.diagnostics.get("points_digest")
    if known is not None and points_digest(used) != known:
        width = selection.diagnostics.get("n_features")
        if width is not None and width != X.shape[1]:
            text = (
                f"{option(name)} must be the points that the selection was made from, with {width} column"
                f"{'s' * (width != 1)}, got {X.shape[1]}"
            )
            raise refusal(f"{name}.columns", text, "pass the columns of the run")
        text = f"{option(name)} must be the points that the selection was made from, in the same order"
        advice = f"these are different points ({len(X):,} rows of {X.shape[1]} columns)"
        raise refusal(f"{name}.other_points", text, advice)
    return used
