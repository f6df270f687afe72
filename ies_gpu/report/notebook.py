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
from ..choice.naming import names_text, set_text
from ..plot.panels import drawn_rows, on_host
from ..results.selection import Selection
from .content import verdict_of
from .page import report_page

DRAWN = 4_000  # points in a small picture
BOX = "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em .9em;max-width:52em;line-height:1.45"
WARNING = "border-left:3px solid #d55e00;padding-left:.6em;margin:.3em 0"


class Page:
    """A report to show in a notebook.

    Attributes
    ----------
    text : str
        The whole page as HTML.
    height : int
        Of the frame, in pixels.
    """

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
    """The page of a result, for a notebook."""
    return Page(report_page(selection, **more), height)


def selection_card(selection: Selection) -> str:
    """Names, zeta, verdict, pictures and warnings of a result."""
    n, m = selection.coordinates.shape
    low, high = selection.zeta_interval
    until = "inf" if high is None else f"{high:.4g}"
    lines = [
        f"{n:,} points, {m} eigenvectors, device {selection.diagnostics.get('device', 'unknown')}",
        f"zeta {selection.zeta:.4g}, optimal from {low:.4g} to {until}",
    ]
    title = f"Selection of {names_text(selection.subset)}"
    pictures: list[Callable[[], Any]] = [lambda: _map(selection), lambda: _path(selection)]
    verdict, warned = verdict_of(selection)
    lines += [f"the choice is {verdict}"] * bool(verdict)
    return _card(title, lines, warned, pictures)


def stability_card(found: Stability) -> str:
    """The verdict, and how often each set was chosen."""
    lines = []
    for what, shares, count in (
        ("bootstrap", found.bootstrap, found.n_bootstrap),
        ("refits", found.refits, found.n_refits),
    ):
        if count:
            sets = "; ".join(f"{set_text(s)} {share:.0%}" for s, share in list(shares.items())[:4])
            lines.append(f"{what} ({count:,}): {sets}")
    pictures: list[Callable[[], Any]] = [lambda: _shares(found)] if lines else []
    return _card(f"Stability of {names_text(found.subset)}", [found.verdict, *lines], [], pictures)


def diagnosis_card(found: Diagnosis) -> str:
    """The verdict, and where on the map things were found."""
    pictures: list[Callable[[], Any]] = [lambda: _findings(found)] if len(found.subset) > 1 else []
    return _card(f"Diagnosis of {names_text(found.subset)}", [found.verdict], [], pictures)


def _card(title: str, lines: Iterable[str], warnings: Iterable[str], pictures: list[Callable[[], Any]]) -> str:
    parts = [f"<strong>{html.escape(title)}</strong>"]
    parts += [f"<div>{html.escape(line)}</div>" for line in lines]
    parts += [f'<div style="{WARNING}">warning: {html.escape(str(text))}</div>' for text in warnings]
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
    """The same with few points, so that a small picture of a million points takes no longer."""
    rows = drawn_rows(len(selection.points), DRAWN)
    cut = {
        name: on_host(getattr(selection, name))[rows] for name in ("coordinates", "points", "regrets", "log_volumes")
    }
    return replace(selection, **cut)


def _map(selection: Selection) -> Any:
    from ..plot import embedding

    return embedding(_thinned(selection))


def _path(selection: Selection) -> Any:
    from ..plot import path

    return path(_thinned(selection))


def _shares(found: Stability) -> Any:
    from ..plot import stability

    return stability(found)


def _findings(found: Diagnosis) -> Any:
    from ..plot import diagnosis

    return diagnosis(found)
