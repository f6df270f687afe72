"""Names of columns: whether new points have the columns of the training points, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import first_few
from ..findings import refusal


def names_of(X: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns; None for arrays, and where a name is no text."""
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
