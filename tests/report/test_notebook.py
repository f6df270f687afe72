"""Results in a notebook: cards with words and pictures, and the page in a frame."""

from __future__ import annotations

import html
import re
from dataclasses import asdict, replace

from ies_gpu import diagnose, selection_stability
from ies_gpu.choice.naming import in_symbols
from ies_gpu.findings import warning
from tests.report.conftest import HOSTILE


def test_a_selection_shows_its_names_warnings_and_pictures(strip):
    selection = replace(strip[0], diagnostics=strip[0].diagnostics | {"findings": [asdict(warning("a.b", HOSTILE))]})
    card = selection._repr_html_()
    order = [card.index(word) for word in ("{φ₁, φ₇}", f">{selection.verdict}<", ">rank<", ">shape<", ">stable<")]
    assert order == sorted(order) and f"zeta {selection.zeta:.4g}" in card
    assert html.escape(HOSTILE) in card and HOSTILE not in card
    assert card.count("data:image/png") == 2
    assert "<style" not in card  # a notebook's own look stays as it is


def test_stability_and_diagnosis_show_their_verdicts(strip):
    stability = selection_stability(strip[0], n_bootstrap=10, n_refits=0)
    assert html.escape(in_symbols(stability.verdict)) in stability._repr_html_()
    diagnosis = diagnose(strip[0])
    assert html.escape(in_symbols(diagnosis.verdict)) in diagnosis._repr_html_()
    assert "data:image/png" in diagnosis._repr_html_()


def test_explore_puts_the_whole_page_into_a_frame(strip):
    page = strip[0].explore(points=strip[1], height=700)
    frame = page._repr_html_()
    assert frame.startswith("<iframe") and "height:700px" in frame
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == page.text
    assert "to_html" in repr(page)
