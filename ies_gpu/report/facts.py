"""What ran, in words: device, seconds, residuals, graph, versions."""

from __future__ import annotations

from typing import Any

from ..findings import render
from ..parameters.verdict import automatic_line
from ..results.selection import Selection

NAMES = {"ies_gpu": "ies-gpu"}


def facts_of(selection: Selection) -> list[tuple[str, str]]:
    """Label and text of each line; lines about which the result says nothing are left out."""
    known = selection.diagnostics
    search = known.get("search") or {}
    lines = [
        ("device", _device(known)),
        ("points", f"{len(selection.points):,} used" + _parts(known)),
        ("mean degree", _number(known.get("mean_degree"), ".0f")),
        ("eigenvectors", _residuals(known)),
        ("found", automatic_line(known["automatic"]) if known.get("automatic") else ""),
        ("search", _search(search)),
        ("approximations", "; ".join(map(str, known.get("approximations") or [])) or "none"),
        ("settings", _listed(known.get("parameters"))),
        ("audit", _audit(known.get("audit"))),
        ("versions", ", ".join(f"{NAMES.get(k, k)} {v}" for k, v in (known.get("versions") or {}).items())),
    ]
    return [(label, text) for label, text in lines if text]


def seconds_of(selection: Selection) -> list[tuple[str, float]]:
    """Stages and their seconds, in the order in which they ran."""
    return [(str(stage), float(taken)) for stage, taken in (selection.diagnostics.get("seconds") or {}).items()]


def _device(known: dict[str, Any]) -> str:
    reason = render(known.get("device_reason") or "")
    return f"{known.get('device', 'unknown')}" + (f" ({reason})" if reason else "")


def _parts(known: dict[str, Any]) -> str:
    parts = known.get("graph_components")
    return f"; the graph has {parts:,} part{'s' * (parts != 1)}" if parts else ""


def _residuals(known: dict[str, Any]) -> str:
    residuals = known.get("residuals") or []
    return f"residuals at most {max(residuals):.1e}" if residuals else ""


def _search(search: dict[str, Any]) -> str:
    if not search:
        return ""
    scored, total = search.get("sets_scored"), search.get("sets_total")
    share = f", {scored:,} of {total:,} sets scored" if scored and total else ""
    return f"{search.get('method', 'exhaustive')}{share}"


def _audit(found: dict[str, float] | None) -> str:
    return f"sampled rows agree with plain code to {max(found.values()):.1e}" if found else ""


def _listed(values: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in (values or {}).items() if value is not None)


def _short(value: Any) -> str:
    return _number(value, ".4g") if isinstance(value, float) else str(value)


def _number(value: Any, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
