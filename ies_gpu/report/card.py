"""The small card that a notebook shows for a result at the end of a cell."""

from __future__ import annotations

import base64
import html
import importlib.util
import io
from dataclasses import replace

from ..backend.array import sample_rows
from ..choice.naming import in_symbols, page_text
from ..findings import ASKED
from ..plot import embedding
from ..plot.figure import on_host
from ..results.selection import Selection
from ..results.text import facts, reason_text
from .content import LEVEL_OF

DRAWN = 4_000  # points in the picture
BOX = "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em .9em;max-width:52em;line-height:1.45"
REMARK = "border-left:3px solid #d55e00;padding-left:.6em"
# white words are read on each of them, and they are seen on white and on black; as in page.css
TINTS = {"good": "#1a7f45", "fair": "#9a6700", "bad": "#c2410c", "unchecked": "#6b7280"}


def card(selection: Selection) -> str:
    """Return the set, the verdict with the answers behind it, doubts, warnings and a picture of the map as HTML."""
    known, verdict = facts(selection), selection.verdict
    word = _badge(verdict or "not judged", LEVEL_OF[verdict]) + _safe(reason_text(selection))
    lines = [f"<strong>{page_text(selection.subset)}</strong> {word}"]
    lines += [_badge(name, selection.judgement[name].level) + _safe(f" {known[name][0]}") for name in ASKED]
    remarks = [f"{kind}: {text}" for kind in ("doubt", "warning") for text in known.get(kind, ())]
    lines += [f'<div style="{REMARK}">{_safe(text)}</div>' for text in remarks]
    lines += [_picture(selection)] if importlib.util.find_spec("matplotlib") else []
    return f'<div style="{BOX}">{"".join(f"<div style=margin:.2em>{line}</div>" for line in lines)}</div>'


def _safe(text: str) -> str:
    return html.escape(in_symbols(text))


def _badge(word: str, level: str) -> str:
    look = f"background:{TINTS[level]};color:#fff;border-radius:4px;padding:.05em .45em;font-size:.9em;font-weight:600"
    return f'<span style="{look}">{html.escape(word)}</span>'


def _picture(selection: Selection) -> str:
    """Return a picture of the map with few points, so that a million take no longer."""
    rows = sample_rows(len(selection.points), DRAWN, 0)
    few = {name: on_host(getattr(selection, name))[rows] for name in ("coordinates", "points")}
    file = io.BytesIO()
    embedding(replace(selection, **few)).savefig(file, format="png", dpi=75)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="the map" style="max-width:100%;height:240px" src="data:image/png;base64,{data}">'
