"""How results show themselves in a notebook: small cards, and the page inside a frame."""

from __future__ import annotations

import base64
import html
import importlib.util
import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..analysis.diagnosis.diagnose import Diagnosis
from ..analysis.stability.result import Stability
from ..backend.sampling import sample_rows
from ..choice.naming import in_symbols, page_text
from ..plot.panels import on_host
from ..results.selection import Selection
from ..results.text import ASKED, facts, reason_text
from .page import report_page

DRAWN = 4_000  # points in a small picture
BOX = "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em .9em;max-width:52em;line-height:1.45"
WARNING = "border-left:3px solid #d55e00;padding-left:.6em;margin:.3em 0"
# white words are read on each of them, and they are seen on white and on black; as in page.css
TINTS = {"good": "#1a7f45", "fair": "#9a6700", "bad": "#c2410c", "unchecked": "#6b7280"}
LEVELS = {"sure": "good", "likely": "fair", "doubtful": "bad", None: "unchecked"}


class Page:
    """A report to show in a notebook: the whole page as HTML, and the height of its frame in pixels."""

    def __init__(self, text: str, height: int) -> None:
        self.text, self.height = text, height

    def _repr_html_(self) -> str:
        # in a frame of its own, the page and the notebook cannot disturb each other
        return (
            f'<iframe title="ies-gpu report" sandbox="allow-scripts" srcdoc="{html.escape(self.text)}" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        size = len(self.text.encode()) / 1e6
        return f"Report ({size:.1f} MB): a notebook shows it; to_html writes it to a file"


def explored(selection: Selection, height: int, **more: Any) -> Page:
    """Return the page of a result, for a notebook."""
    return Page(report_page(selection, **more), height)


def selection_card(selection: Selection) -> str:
    """Return the set, the verdict with the answers behind it, warnings, zeta and pictures of a result."""
    from .. import plot

    n, m = selection.coordinates.shape
    known, few = facts(selection), _thinned(selection)
    lines = [_badge(selection.verdict or "not judged", LEVELS[selection.verdict]) + _escaped(reason_text(selection))]
    for name in ASKED:
        answer = known[name][0]
        lines.append(_badge(name, selection.judgement[name].level) + _escaped(f" {answer}"))
    lines += [f'<div style="{WARNING}">{_escaped(text)}</div>' for text in known.get("doubt", [])]
    lines += [f'<div style="{WARNING}">warning: {_escaped(text)}</div>' for text in known.get("warning", [])]
    lines += [_escaped(f"zeta {known['zeta'][0]}; {n:,} points, {m} eigenvectors, device {known['device'][0]}")]
    return _card(page_text(selection.subset), lines, [lambda: plot.embedding(few), lambda: plot.path(few)])


def stability_card(found: Stability) -> str:
    """Return the verdict, and how often each set was chosen."""
    from ..plot import stability

    made = found.n_bootstrap or found.n_refits
    return _card(
        f"Stability of {page_text(found.subset)}", [_escaped(found.verdict)], [lambda: stability(found)][:made]
    )


def diagnosis_card(found: Diagnosis) -> str:
    """Return the verdict, and where on the map things were found."""
    from ..plot import diagnosis

    pictures = [lambda: diagnosis(found)] if len(found.subset) > 1 else []
    return _card(f"Diagnosis of {page_text(found.subset)}", [_escaped(found.verdict)], pictures)


def _escaped(text: str) -> str:
    return html.escape(in_symbols(text))


def _badge(word: str, level: str) -> str:
    look = f"background:{TINTS[level]};color:#fff;border-radius:4px;padding:.05em .45em;font-size:.9em;font-weight:600"
    return f'<span style="{look}">{html.escape(word)}</span>'


def _card(title: str, lines: Iterable[str], pictures: list[Callable[[], Any]]) -> str:
    parts = [f"<strong>{html.escape(title)}</strong>", *(f'<div style="margin:.15em 0">{line}</div>' for line in lines)]
    if pictures and importlib.util.find_spec("matplotlib") is not None:
        images = "".join(_image(draw()) for draw in pictures)
        parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:.5em;margin-top:.4em">{images}</div>')
    return f'<div style="{BOX}">{"".join(parts)}</div>'


def _image(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=75)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    style = "max-width:100%;height:190px;background:#fff;border-radius:4px"
    return f'<img alt="" style="{style}" src="data:image/png;base64,{data}">'


def _thinned(selection: Selection) -> Selection:
    """Return the same with few points, so that a small picture of a million points takes no longer."""
    rows = sample_rows(len(selection.points), DRAWN, 0)
    names = ("coordinates", "points", "regrets", "log_volumes")
    return replace(selection, **{name: on_host(getattr(selection, name))[rows] for name in names})
