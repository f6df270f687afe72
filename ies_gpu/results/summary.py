"""A result in a few lines for people. ``Selection`` imports this module, not the other way round."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from ..choice.naming import coordinate_names, names_text
from ..findings import DOUBTS, Finding, option
from ..parameters.verdict import automatic_line

HANG = 18 * " "  # under the values
ONE_DIMENSION = Finding(
    "search.one_dimension",
    "note",
    f"with {option('intrinsic_dim', 1)} all scores are 0, so the first coordinates are chosen",
)


def summary(selection: Any, say: Callable[[Finding], str] = str) -> str:
    """Return what ``print(selection)`` shows, folded to 80 columns; ``say`` puts findings into words."""
    d = selection.diagnostics
    n, m = selection.coordinates.shape
    low, high = selection.zeta_interval
    upper = "inf)" if high is None else f"{high:.4g}]"
    quiet = d.get("device_code") == "not-installed"  # nobody asked for CUDA
    device = "" if quiet else f" ({say(Finding('device', 'note', d['device_reason']))})"
    verdict, warned = verdict_and_warnings(selection, say)
    lines = [
        f"Selection of {', '.join(selection.names)} from phi1..phi{m} ({n:,} points)",
        f"  features        {d['features']}" if d.get("features") else "",
        f"  zeta            {selection.zeta:.4g}, optimal on [{low:.4g}, {upper}",
        f"  mean score      {selection.ranking.scores[_rank(selection)]:.3f} ({_first_score(selection)})",
        f"  runners-up      {_runners_up(selection)}",
        _search_line(selection),
        *(f"  note            {say(finding)}" for finding in selection.findings if finding.severity == "note"),
        f"  note            {say(ONE_DIMENSION)}" if d.get("parameters", {}).get("intrinsic_dim") == 1 else "",
        f"  mean degree     {d['mean_degree']:.0f}",
        f"  automatic       {automatic_line(d['automatic'])}" if d.get("automatic") else "",
        *((f"  verdict         {verdict[0]}", *(HANG + reason for reason in verdict[1:])) if selection.verdict else ()),
        f"  residuals       at most {max(d['residuals']):.1e}" if d["residuals"] else "",
        f"  device          {d['device']}{device}",
        *(f"  warning         {message}" for message in warned),
    ]
    return "\n".join(_folded(line) for line in lines if line)


def verdict_and_warnings(selection: Any, say: Callable[[Finding], str] = str) -> tuple[list[str], list[str]]:
    """Return the lines of the verdict, each reason with its advice, and the warnings that say something else."""
    findings = selection.findings
    own, others = (
        [say(finding) for finding in findings if finding.severity in kinds] for kinds in (DOUBTS, ("warning",))
    )
    word = selection.verdict or ""
    return ([": ".join([word, *own])] if len(own) < 2 else [f"{word}:", *(f"- {reason}" for reason in own)]), others


def _folded(line: str) -> str:
    hang = HANG + "  " if line.startswith(f"{HANG}- ") else HANG
    return textwrap.fill(line, width=80, subsequent_indent=hang, break_long_words=False)


def _rank(selection: Any) -> int:
    return int(np.flatnonzero((selection.ranking.subsets == selection.subset).all(axis=1))[0])


def _first_score(selection: Any) -> str:
    """The score of as many first coordinates, or why there is none."""
    s = len(selection.subset)
    first = range(s)
    scores = selection.ranking.scores[(selection.ranking.subsets == np.arange(s)).all(axis=1)]
    if len(scores):
        found = f"{scores[0]:.3f}"
    elif stray := [k for k in selection.diagnostics.get("stray_coordinates", ()) if k in first]:
        found = f"not scored, because {names_text(stray)} {'is' if len(stray) == 1 else 'are'} excluded"
    else:
        how = selection.diagnostics.get("search", {}).get("method", "exhaustive").replace("_", " ")
        found = "not scored" if how == "exhaustive" else f"not scored by the {how} search"
    return f"first coordinate: {found}" if s == 1 else f"first {s} coordinates: {found}"


def _search_line(selection: Any) -> str:
    how = selection.diagnostics.get("search", {})  # not in files of earlier versions
    if how.get("method", "exhaustive") == "exhaustive":
        return ""
    share = f"{how['sets_scored']:,} of {how['sets_total']:,} sets"
    return f"  search          {how['method']}, {share}: {how['guarantee']}"


def _runners_up(selection: Any) -> str:
    others = [s for s in selection.ranking.subsets[:4].tolist() if tuple(s) != selection.subset][:3]
    return "; ".join(", ".join(coordinate_names(s)) for s in others) or "none"
