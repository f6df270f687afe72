"""A result in words: the answer comes first, and each thing is said once."""

import json
import re
import textwrap
from dataclasses import asdict, replace

import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.cli.parser import in_flags, say_in_flags
from ies_gpu.findings import grave, light, option, warning
from ies_gpu.results.text import as_plain, redundant, redundant_text, summary

ANSWERS = {
    "rank": {"level": "bad", "figure": 0.6, "text": "it loses 60%"},
    "shape": {"level": "good", "figure": 0.0, "text": "no knot"},
}
SAID = [
    grave("choice.lost_direction", "it loses 60%", f"raise {option('bandwidth')}"),
    light("choice.few_points", "only 400 points", "add some"),
    warning("graph.left_out", "a part was left out, " + 30 * "as it happens, "),
]


@pytest.fixture(scope="module")
def found():
    X = datasets.load("D1", n_samples=400).X
    selection = select_coordinates(X, intrinsic_dim=2, subset_size=2, bandwidth=1.2)
    told = {"verdict": "doubtful", "judgement": ANSWERS, "findings": [asdict(finding) for finding in SAID]}
    return replace(selection, diagnostics=selection.diagnostics | told)


def test_the_answer_is_printed_first_and_nothing_twice(found):
    lines = repr(found).splitlines()
    assert lines[0] == "Selection of phi1, phi7 from phi1..phi20 (400 points)"
    assert [line.split() for line in lines[1:6]] == [
        ["verdict", "doubtful", "(rank):", "it", "loses", "60%;", "raise", "bandwidth"],
        ["rank", "bad"],
        ["shape", "good:", "no", "knot"],
        ["stable", "not", "checked"],
        ["doubt", "only", "400", "points;", "add", "some"],
    ]
    assert max(map(len, lines)) <= 80
    assert "raise --bandwidth" in summary(found, say_in_flags)


def test_redundant_coordinates_are_told_with_those_that_they_follow(found):
    """On D1 the first six go along the strip; few points tell nothing."""
    told = as_plain(found)["redundant"]
    assert all(told[name] == ["phi1"] for name in ("phi2", "phi3", "phi4"))
    assert "phi7" not in told and all(len(own) == 1 or "phi7" in own for own in told.values())
    (line,) = [line for line in repr(found).splitlines() if line.startswith("  redundant ")]
    assert line.split()[1:4] == ["phi2,", "phi3,", "phi4,"]
    many = redundant_text({k: (0,) if k % 2 else (0, 1) for k in range(2, 40)})
    assert len(textwrap.wrap(many, 62)) == 2 and re.search(r"; and \d+ more$", many)
    assert redundant(replace(found, coordinates=found.coordinates[:100])) == {}


def test_programs_read_the_answer_first_and_a_title_is_text_in_the_page(found, tmp_path):
    plain = as_plain(found, in_flags)
    assert list(plain)[:5] == ["subset", "names", "verdict", "judgement", "findings"]
    assert plain["judgement"]["shape"] == ANSWERS["shape"] and plain["judgement"]["stable"]["figure"] is None
    assert [finding["code"] for finding in plain["findings"]] == [finding.code for finding in SAID]
    assert json.loads(found.to_json()) == as_plain(found)
    found.to_html(tmp_path / "page.html", title="a <b> & c")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "a &lt;b&gt; &amp; c" in text and "<b> & c" not in text.replace("\\u003c", "")
