"""Results for other programs: strict JSON and pandas. ``Selection`` imports this module, not the other way round."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..choice.naming import coordinate_names
from ..findings import Words, in_python, render

BEST = 5  # sets of the ranking that are shown


def best_sets(selection: Any) -> list[tuple[list[int], float, float]]:
    """The first sets of the ranking with loss and score."""
    subsets, losses, scores = (part[:BEST].tolist() for part in selection.ranking)
    return list(zip(subsets, losses, scores, strict=True))


def as_plain(selection: Any, words: Words = in_python, **more: Any) -> dict[str, Any]:
    """Return a result without its per-point arrays as JSON values; ``words`` write the options in its findings.

    Sets are 0-based; names count from 1 as in the paper.
    """
    findings = [
        asdict(finding) | {"text": render(finding.text, words), "advice": render(finding.advice, words)}
        for finding in selection.findings
    ]
    ranking = [
        {"subset": subset, "names": coordinate_names(subset), "loss": loss, "score": score}
        for subset, loss, score in best_sets(selection)
    ]
    n, m = selection.coordinates.shape
    result = {
        "subset": selection.subset,
        "names": selection.names,
        "zeta": selection.zeta,
        "zeta_interval": selection.zeta_interval,
        "zeta_dimensionless": selection.zeta_dimensionless,
        "n_points": n,
        "n_components": m,
        "ranking": ranking,
        "eigenvalues": selection.eigenvalues,
        "laplace_beltrami_eigenvalues": selection.laplace_beltrami_eigenvalues,
        "verdict": selection.verdict,
        "judgement": {name: answer._asdict() for name, answer in selection.judgement.items()},
        "findings": findings,
        "diagnostics": {name: value for name, value in selection.diagnostics.items() if name != "findings"},
        **more,
    }
    return plain(result)


def plain(value: Any) -> Any:
    """A value as strict JSON: arrays become lists, and numbers that are not finite become null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def in_input_rows(selection: Any, n: int) -> Any:
    """The chosen coordinates (n, s), one row per point of the input; those that were left out are NaN."""
    import numpy as np

    from ..backend import to_host

    Y = to_host(selection.embedding)
    whole = np.full((n, Y.shape[1]), np.nan)
    whole[to_host(selection.points)] = Y
    return whole


def as_frame(selection: Any, every: bool) -> Any:
    """The coordinates as a ``pandas.DataFrame``, rows named as in the input, or by their numbers there."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas") from None
    from ..backend import to_host

    Y = selection.coordinates if every else selection.embedding
    names = coordinate_names(range(Y.shape[1])) if every else selection.names
    index = selection.index
    if index is None:
        index = pandas.Index(to_host(selection.points), name="point")
    return pandas.DataFrame(to_host(Y), index=index, columns=list(names))
