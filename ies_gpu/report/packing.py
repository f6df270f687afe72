"""Numbers for the page: columns as 16-bit integers in base64, and JSON that HTML cannot misread."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from ..plot.clouds import near
from ..results.text import plain

MISSING = 65_535  # stands for a value that is not there
STEPS = MISSING - 1


def packed(values: np.ndarray, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """A column between two values in 65,535 steps; values beyond them are put on the border."""
    values = np.asarray(values, dtype=float)
    known = np.isfinite(values)
    some = values[known] if known.any() else np.zeros(1)
    low, high = float(some.min()) if low is None else low, float(some.max()) if high is None else high
    share = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    steps = np.where(known, np.rint(np.clip(share, 0.0, 1.0) * STEPS), MISSING).astype("<u2")
    return {"low": low, "high": high, "data": base64.b64encode(steps.tobytes()).decode("ascii")}


def packed_coordinate(column: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Some rows of a coordinate. Strays, which would spoil the picture, are put on the border and counted."""
    inside = near(column[:, None])
    low, high = float(column[inside].min()), float(column[inside].max())
    outside = int((~inside[rows]).sum())
    return {**packed(column[rows], low, high), "outside": outside}


def packed_integers(values: np.ndarray) -> str:
    """Numbers of rows as 32-bit integers."""
    return base64.b64encode(np.asarray(values).astype("<u4").tobytes()).decode("ascii")


def as_script(content: Any) -> str:
    """JSON that can stand inside a script element, whatever the words in it are."""
    text = json.dumps(plain(content), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
