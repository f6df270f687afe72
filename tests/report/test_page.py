"""What goes into the page: the numbers of the result, packed, and words that cannot become markup."""

import base64
import html
import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from ies_gpu import diagnose, load
from ies_gpu.analysis.stability import Stability
from ies_gpu.findings import warning
from ies_gpu.plot.style import CYCLIC
from ies_gpu.report.page import MISSING, STEPS, as_script, pack, report_page, write_report
from tests.report.conftest import HOSTILE
from tests.said import refused


def content(text):
    """What the page's scripts read."""
    return json.loads(re.search(r'id="content">(.*?)</script>', text, flags=re.DOTALL)[1])


def unpacked(column):
    steps = np.frombuffer(base64.b64decode(column["data"]), dtype="<u2")
    return np.where(steps == MISSING, np.nan, column["low"] + steps / STEPS * (column["high"] - column["low"]))


def test_columns_survive_packing_and_no_word_can_end_the_script():
    values = np.array([-3.0, 0.5, np.nan, 8.25, np.inf])
    found = unpacked(pack(values))
    np.testing.assert_allclose(found[[0, 1, 3]], values[[0, 1, 3]], atol=11.25 / STEPS)
    assert np.isnan(found[[2, 4]]).all()
    np.testing.assert_array_equal(unpacked(pack(np.full(3, 2.0))), 2.0)
    words = {"a": HOSTILE, "b": "</script><!-- & \u2028", "c": [float("nan"), np.inf, np.int64(3)]}
    text = as_script(words)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": HOSTILE, "b": words["b"], "c": [None, None, 3]}


def test_numbers_survive_the_way_through_file_and_page(strip, tmp_path):
    selection, X, colors = strip
    selection.save(tmp_path / "run.npz")
    path = tmp_path / "report.html"
    write_report(load(tmp_path / "run.npz"), path, points=X, colors=colors, title="caf\udce9.npz")  # no text
    text = path.read_text()
    run = content(text)["runs"][0]
    assert "caf?.npz" in text
    assert tuple(run["subset"]) == selection.subset and run["zeta"] == selection.zeta
    assert [s["score"] for s in run["path"]] == [s.score for s in selection.path]
    assert [s["regret"] for s in run["path"]] == selection.regret_percentiles.tolist()
    for k, segment in enumerate(run["path"]):
        regrets = selection.regrets[:, k]
        np.testing.assert_allclose(unpacked(segment["regrets"]), regrets, atol=np.ptp(regrets) / STEPS)
    for volumes in run["volumes"]:
        expected = np.exp(selection.score(volumes["subset"]))
        np.testing.assert_allclose(unpacked(volumes["values"]), expected, atol=1 / STEPS)
        assert volumes["near_zero"] == (expected < 0.1).mean()
    assert {tuple(v["subset"]) for v in run["volumes"]} >= {s.subset for s in selection.path}
    without = content(report_page(replace(selection, bases=None)))["runs"][0]
    assert [tuple(v["subset"]) for v in without["volumes"]] == [selection.subset]
    # the ranking says which members are functions of others: on a strip, the slow coordinates follow the first
    told = dict(zip(map(tuple, run["ranking"]["sets"]), run["ranking"]["redundant"], strict=True))
    assert told[0, 1] == "φ₂ follows φ₁" and told[selection.subset] == ""


@pytest.mark.thorough
def test_100_000_points_fit(strip):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 1000, 100_000)
    cut = ("coordinates", "regrets", "log_volumes", "bases", "singular_values")
    parts = {name: getattr(strip[0], name)[rows] for name in cut}
    known = strip[0].diagnostics | {"points_digest": None}
    selection = replace(strip[0], points=np.arange(100_000), diagnostics=known, rotation=None, **parts)
    columns = {f"column {k}": rng.random(100_000) for k in range(5)}
    text = report_page(selection, points=rng.random((100_000, 12)), colors=columns)
    assert len(text.encode()) < 8e6
    run = content(text)["runs"][0]
    assert "of 100,000 points are shown" in run["thinned"]
    assert sum(run["volumes"][0]["counts"]) == 100_000  # of all points


def test_the_page_names_what_does_not_fit(strip, tmp_path):
    selection, X, _ = strip
    for code, wrong in (
        ("points.rows", {"points": X[:-1]}),
        ("points.other_points", {"points": X[::-1]}),
        ("points.not_finite", {"points": X * np.nan}),
        ("points.*", {"points": X[:, :0]}),
        ("colors.shape", {"colors": np.arange(5.0)}),
        ("stability.type", {"stability": "sure"}),
        ("stability.other", {"stability": Stability((0, 1), {}, 0, 0, ())}),
        ("diagnosis.other", {"diagnosis": diagnose(replace(selection, coordinates=selection.coordinates[:, ::-1]))}),
        ("cmap.choice", {"colors": X[:, 0], "cmap": "none such"}),
        ("selection.type", {"compare": "run.npz"}),
        ("output.ending", {"path": tmp_path / "report.htm"}),
    ):
        with refused(code, (TypeError, ValueError)):
            selection.to_html(**{"path": tmp_path / "report.html"} | wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("cmap", "stops"), [(None, (10, 0)), ({"x": "magma"}, (10, 33)), ("magma", (33, 33))])
def test_angles_and_asked_columns_have_colours_of_their_own(strip, cmap, stops):
    """A column without values has none."""
    colors = {"angle": np.linspace(0, 360, 1000), "x": strip[1][:, 0], "nothing": None}
    ramps = [each["ramp"] for each in content(report_page(strip[0], colors=colors, cmap=cmap))["runs"][0]["columns"]]
    assert tuple(len(ramp or ()) for ramp in ramps) == stops
    assert (ramps[0] == list(CYCLIC)) == (cmap != "magma")


def test_what_differs_is_listed_the_answer_first(strip, torus):
    selection, X, colors = strip
    known = selection.diagnostics | {"verdict": "doubtful"}
    other = replace(selection, subset=(0, 5), rotation=None, diagnostics=known)
    rows = content(report_page(selection, compare=other))["differ"]
    assert rows[0] == ["set", "{φ₁, φ₇}", "{φ₁, φ₆}"] and rows[1][0] == "verdict" and rows[1][2].startswith("doubtful")
    assert all(first != second for _, first, second in rows)
    assert content(report_page(selection, compare=selection))["differ"] == []
    # a second run of other points shows neither input nor colours of the first
    other = replace(selection, diagnostics=selection.diagnostics | {"points_digest": "of others"})
    both = {"points": X, "colors": colors}
    for second, given, missing in (
        (selection, both, ""), (other, {}, ""), (other, {"points": X}, "input"),
        (other, {"colors": colors}, "colours"), (torus, both, "input and colours"),
    ):  # fmt: skip
        run = content(report_page(selection, compare=second, **given))["runs"][1]
        shared = bool(given) and not missing
        assert (run["input"] is not None) == shared and len(run["columns"]) == 2 * shared
        assert run["note"].rpartition("first run's ")[2] == (missing and f"{missing}.")


def test_a_notebook_shows_set_verdict_answers_warnings_and_map_and_the_page_in_a_frame(strip):
    selection = replace(strip[0], diagnostics=strip[0].diagnostics | {"findings": [asdict(warning("a.b", HOSTILE))]})
    card = selection._repr_html_()
    order = [card.index(word) for word in ("{φ₁, φ₇}", f">{selection.verdict}<", ">rank<", ">shape<", ">stable<")]
    assert order == sorted(order) and card.count("data:image/png") == 1
    assert html.escape(HOSTILE) in card and HOSTILE not in card
    assert "<style" not in card  # a notebook's own look stays as it is
    page = strip[0].explore(points=strip[1], height=700)
    frame = page._repr_html_()
    assert frame.startswith("<iframe") and "height:700px" in frame
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == page.text


def test_what_a_run_found_is_not_taken_back(strip):
    """A diagnosis beside the run can make the verdict worse, never better."""
    selection, X, _ = strip
    clean = diagnose(selection, X=X)
    knotted = replace(clean, knots=(np.arange(20),))
    bad = {"level": "bad", "figure": 0.1, "text": "folded"}
    for told, found, levels in (({}, knotted, ("doubtful", "bad")), ({"shape": bad}, clean, ("sure", "bad"))):
        run = replace(selection, diagnostics=selection.diagnostics | {"verdict": "sure", "judgement": told})
        told = content(report_page(run, diagnosis=found))["runs"][0]
        assert (told["verdict"], told["answers"]["shape"]["level"]) == levels
