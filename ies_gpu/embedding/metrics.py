"""Distances other than the Euclidean ones: Euclidean between other points, or given by the user."""

from __future__ import annotations

from typing import Any

from ..backend import backend_of
from ..backend.array import Array
from ..constraints import Metric
from ..findings import first_few, option, refusal
from ..options import METRICS

SPHERICAL = ("cosine", "correlation")  # chords between rows of unit length: the Euclidean code serves, on any device
PRECOMPUTED, AFFINITY = GIVEN = ("precomputed", "precomputed_affinity")  # of the estimators: X is a matrix of pairs


def check_metric(metric: Any, *more: str) -> str:
    return Metric(*METRICS, *more).check("metric", metric)


def to_euclidean(X: Array, metric: str) -> Array:
    """Return checked points whose Euclidean distances are those of the metric; others stay as they are.

    The chord between rows u and v of unit length is ``sqrt(2 - 2 cos(u, v))``; "correlation" centres each row first.
    """
    if metric not in SPHERICAL:
        return X
    backend = backend_of(X)
    xp = backend.xp
    rows = X - X.mean(axis=1, keepdims=True) if metric == "correlation" else X
    largest = abs(X).max(axis=1, keepdims=True)
    small = abs(rows).max(axis=1, keepdims=True)
    bad = small <= 1e-14 * largest  # nothing but rounding is left
    if bool(bad.any()):
        rows = backend.to_host(xp.nonzero(bad[:, 0])[0])
        shown = first_few(rows)
        what = "all zeros" if metric == "cosine" else "constant"
        those = (
            f"row {shown} is {what}; drop it" if len(rows) == 1 else f"{len(rows):,} are {what} ({shown}); drop them"
        )
        text = f"{option('metric', metric)} needs a direction for every row of X, but {those}"
        raise refusal("metric.direction", text)
    rows = rows / small
    return rows / xp.linalg.norm(rows, axis=1, keepdims=True)
