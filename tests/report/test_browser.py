"""The page in a real browser: it opens offline, and slider, table and marks do what they say."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from ies_gpu import diagnose, laplacian_of_points, select_coordinates
from ies_gpu.analysis.stability import Stability
from ies_gpu.choice.criterion import coordinate_names, in_symbols
from ies_gpu.findings import grave, light
from ies_gpu.report.page import write_report
from tests.report.conftest import HOSTILE

TOLD = {
    "verdict": "doubtful",
    "judgement": {"shape": {"level": "bad", "figure": 2.0, "text": "one reason"}},
    "findings": [asdict(grave("shape.knot", "one reason")), asdict(light("choice.other", "another"))],
}
pytestmark = pytest.mark.usefixtures("plain_kernels")

READY = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(true)))"
# three bytes per pixel of the map, thinned: what is seen
PIXELS = """
const { context, canvas } = report.runs[0].map;
report.runs[0].map.render();
const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
let sum = 0; for (let i = 0; i < data.length; i++) sum = (31 * sum + data[i]) % 1000000007; return sum"""


def shown(browser, folder, selection, **more):
    """The browser with the page of a result, which it shows without a complaint."""
    write_report(selection, folder / "report.html", **more)
    browser.get_log("browser")
    browser.get((folder / "report.html").as_uri())
    browser.execute_async_script(READY)
    assert browser.get_log("browser") == []
    return browser


def run_of(browser, number=0):
    return browser.find_elements("css selector", ".run")[number]


def current_set(run):
    return tuple(int(k) for k in run.get_attribute("data-set").split(","))


@pytest.fixture(scope="module")
def diagnosis(strip):
    """The first two coordinates, of which the second is a function of the first."""
    selection, X, _ = strip
    return diagnose(selection, laplacian=laplacian_of_points(X, bandwidth=0.6), subset=(0, 1))


@pytest.fixture(scope="module")
def page(browser, strip, diagnosis, tmp_path_factory):
    selection, X, colors = strip
    stability = Stability(selection.subset, {selection.subset: 0.7, (0, 1): 0.3}, 100, 0, ())
    more = {"points": X, "colors": colors, "title": HOSTILE, "diagnosis": diagnosis, "stability": stability}
    return shown(browser, tmp_path_factory.mktemp("page"), selection, **more)


@pytest.fixture
def fresh(page):
    page.refresh()
    page.execute_async_script(READY)
    return page


def slide(browser, number):
    browser.execute_script(
        "const s = document.querySelector('input.zeta'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        number,
    )
    browser.execute_async_script(READY)


def test_it_loads_nothing_and_names_are_words_never_markup(page):
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.execute_script("return report.runs[0].map.n") == 1000
    page.execute_async_script(
        "const done = arguments[0]; const image = new Image(); image.onerror = image.onload = () => done(true);"
        "image.src = 'http://127.0.0.1:9/x.png'"
    )
    assert any("Content Security Policy" in line["message"] for line in page.get_log("browser"))
    assert page.find_element("id", "title").text == page.title == HOSTILE
    options = page.find_elements("css selector", ".colours option")
    assert HOSTILE in [option.get_attribute("textContent") for option in options]
    assert page.find_elements("css selector", ".key b, .key script, option script, h1 script") == []
    page.execute_script("const r = report.runs[0]; r.colour = r.colours.find(c => c.label === 'side'); r.paint()")
    key = [item.text for item in page.find_elements("css selector", ".colours .key li")]
    assert key == [HOSTILE, "left & <b>bold</b>"]


def test_numbers_are_those_of_the_selection(fresh, strip):
    selection = strip[0]
    run = run_of(fresh)
    assert current_set(run) == selection.subset
    values = [cell.get_attribute("data-value") for cell in run.find_elements("css selector", ".numbers dd")]
    chosen = next(k for k, segment in enumerate(selection.path) if segment.subset == selection.subset)
    assert float(values[1]) == selection.zeta
    assert float(values[2]) == selection.path[chosen].score
    assert float(values[4]) == selection.regret_percentiles[chosen]
    lines = run.find_elements("css selector", "tbody tr")
    for line, subset, loss, score in zip(lines, *selection.ranking, strict=False):
        assert line.get_attribute("data-set") == ",".join(map(str, subset))
        cells = [cell.get_attribute("data-value") for cell in line.find_elements("css selector", "td")]
        assert float(cells[2]) == score
        assert float(cells[4]) == pytest.approx(loss, abs=1e-12)
    counts = fresh.execute_script("return report.runs[0].volumes().counts")
    np.testing.assert_array_equal(counts, np.histogram(np.exp(selection.log_volumes), 50, range=(0, 1))[0])
    drawn = fresh.execute_script(
        "const c = report.runs[0].coordinates[6]; return Array.from(c.values, (_, i) => valueOf(c, i))"
    )
    column = selection.embedding[:, selection.subset.index(6)]
    np.testing.assert_allclose(drawn, column, atol=np.ptp(column) / 65_000)


def test_the_slider_walks_the_path(fresh, strip):
    selection = strip[0]
    before = fresh.execute_script(PIXELS)
    run = run_of(fresh)
    for number, segment in ((1000, selection.path[0]), (0, selection.path[-1])):
        slide(fresh, number)
        assert current_set(run) == segment.subset
        assert segment.low <= float(run.get_attribute("data-zeta")) <= segment.high
        axes = run.find_element("css selector", ".map .view").get_attribute("data-axes")
        assert axes == " ".join(in_symbols(name) for name in coordinate_names(segment.subset))
        first = run.find_element("css selector", "tbody tr").get_attribute("data-set")
        assert first == ",".join(map(str, segment.subset))
    slide(fresh, 1000)
    assert selection.path[0].subset != selection.subset
    assert fresh.execute_script(PIXELS) != before


def test_a_click_and_the_arrow_keys_choose_a_set(fresh, strip):
    from selenium.webdriver.common.keys import Keys

    subsets = strip[0].ranking.subsets
    before, run = fresh.execute_script(PIXELS), run_of(fresh)
    run.find_elements("css selector", "tbody tr")[2].click()
    assert current_set(run) == tuple(subsets[2])
    fresh.execute_async_script(READY)
    assert fresh.execute_script(PIXELS) != before
    fresh.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert current_set(run) == tuple(subsets[3])
    slider = run.find_element("css selector", "input.zeta")
    zeta = float(run.get_attribute("data-zeta"))
    slider.send_keys(Keys.ARROW_RIGHT)
    assert float(run.get_attribute("data-zeta")) > zeta
    fresh.find_element("css selector", "th[data-key=score] button").click()  # sorts the table
    shown = [float(cell.get_attribute("data-value")) for cell in fresh.find_elements("css selector", "td:nth-child(3)")]
    assert shown == sorted(strip[0].ranking.scores, reverse=True)


def drag(browser, panel, tool, steps):
    from selenium.webdriver import ActionChains

    view = browser.find_element("css selector", f"{panel} .view")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", view)
    browser.find_element("css selector", f"{panel} [data-tool={tool}]").click()
    width, height = view.size["width"], view.size["height"]
    chain = ActionChains(browser, duration=20)
    for k, (x, y) in enumerate(steps):
        chain.move_to_element_with_offset(view, round((x - 0.5) * width), round((y - 0.5) * height))
        if k == 0:
            chain.click_and_hold()
    chain.release().perform()
    browser.execute_async_script(READY)


def marked_rows(browser):
    text = browser.find_element("id", "marked-rows").get_property("value")
    return np.array([int(word) for word in text.split(",")]) if text else np.array([], dtype=int)


@pytest.mark.parametrize(
    ("tool", "steps"),
    [("box", [(0.05, 0.02), (0.53, 0.99)]), ("lasso", [(0.05, 0.02), (0.53, 0.02), (0.53, 0.99), (0.05, 0.99)])],
)
def test_what_is_marked_in_one_view_is_marked_in_all(fresh, strip, tool, steps):
    X = strip[1]
    fresh.find_element("css selector", ".first option[value=input]").click()
    fresh.execute_async_script(READY)
    drag(fresh, ".first", tool, steps)  # half of the strip
    rows = marked_rows(fresh)
    left = np.flatnonzero(X[:, 0] < np.median(X[:, 0]))
    assert len(rows) > 300
    assert set(rows) <= set(np.flatnonzero(X[:, 0] < 2.0)) and len(set(rows) & set(left)) > 0.85 * len(left)
    for panel in (".map", ".first"):
        assert int(fresh.find_element("css selector", f"{panel} .view").get_attribute("data-marked")) == len(rows)
    shown = fresh.execute_script("const run = report.runs[0]; return run.marks.map(i => run.rows[i])")
    np.testing.assert_array_equal(shown, rows)
    assert fresh.find_elements("css selector", ".of-marked rect")
    fresh.find_element("id", "copy").click()
    assert fresh.find_element("id", "copy").text in ("Copied", "Selected: press Ctrl+C")
    fresh.find_element("id", "clear").click()
    assert not fresh.find_element("id", "marked").is_displayed()


def test_lamps_lead_to_what_was_found(fresh, diagnosis, strip):
    for line in fresh.find_elements("css selector", ".stable .bar-line"):  # a share of all, not of the largest
        fill = line.find_element("css selector", "i").get_attribute("style").removeprefix("width: ").removesuffix("%;")
        assert float(fill) == pytest.approx(float(line.text.split()[-1].removesuffix("%")), abs=0.51)
    lamps = fresh.find_elements("css selector", ".lamps button")
    levels = [*(strip[0].judgement[name].level for name in ("rank", "shape")), "fair"]  # 70 of 100 refits
    assert [lamp.get_attribute("data-level") for lamp in lamps] == levels
    lamps[2].click()
    assert "pointed" in fresh.find_element("css selector", ".stable").get_attribute("class")
    run = run_of(fresh)
    assert "other" not in run.get_attribute("class").split()
    fresh.find_element("css selector", ".shape button").click()
    assert current_set(run) == (0, 1)
    assert "other" in run.get_attribute("class").split()  # what is said of the chosen set is dimmed
    kinds = fresh.execute_script(
        "const c = report.runs[0].colour.of(); return Array.from(c.values, (_, i) => Math.round(valueOf(c, i)))"
    )
    np.testing.assert_array_equal(np.flatnonzero(np.array(kinds) == 1), np.sort(np.concatenate(diagnosis.dependencies)))


def test_the_input_is_drawn_to_scale(fresh, strip):
    """A unit of length has as many pixels along the strip as across it."""
    fresh.find_element("css selector", ".first option[value=input]").click()
    fresh.execute_async_script(READY)
    pixels = fresh.execute_script(
        "const view = report.runs[0].first; return view.axes.map((axis, k) => "
        "(k ? view.height : view.width) / view.reach[k] / (axis.high - axis.low))"
    )
    assert fresh.execute_script("return report.runs[0].first.axes.map((axis) => axis.name)") == ["x1", "x2"]
    assert len(pixels) == 2 and pixels[0] == pytest.approx(pixels[1], rel=1e-6)
    assert fresh.execute_script("return report.runs[0].map.toScale") is False  # coordinates have no common unit


def test_a_zoom_keeps_the_place_under_the_mouse(fresh):
    """And moving by some pixels moves every point by these."""
    script = """const map = report.runs[0].map, at = (i) => Array.from(map.projected()[0].slice(2 * i, 2 * i + 2));
    const before = at(7), other = at(8);
    map.zoom(2.5, before);
    const zoomed = at(7), apart = at(8);
    map.move(30, -20);
    return [before, other, zoomed, apart, at(7)]"""
    before, other, zoomed, apart, moved = np.array(fresh.execute_script(script))
    np.testing.assert_allclose(zoomed, before, atol=0.01)
    np.testing.assert_allclose(apart - zoomed, 2.5 * (other - before), atol=0.01)
    np.testing.assert_allclose(moved - zoomed, [30, -20], atol=0.01)


def test_the_mouse_turns_a_map_in_space(browser, torus, tmp_path):
    """Turned points keep their distances, seen from any side, and the nearest are drawn last."""
    shown(browser, tmp_path, torus)
    script = """const map = report.runs[0].map, [at, depth] = map.projected(), [wide, tall] = map.reach;
    const order = Array.from(fromBackToFront(depth)), half = [map.width / 2 / wide, map.height / 2 / tall];
    return [Array.from(at, (p, i) => p / half[i % 2]), Array.from(depth), order]"""
    distances = []
    for _ in range(2):
        at, depth, order = (np.array(part) for part in browser.execute_script(script))
        assert sorted(order) == list(range(len(depth)))
        assert (np.diff(depth[order]) > -2 * 3.48 / 4096).all()
        seen = np.column_stack([at.reshape(-1, 2), depth])
        distances.append(np.linalg.norm(seen[1:] - seen[:-1], axis=1))
        drag(browser, ".map", "move", [(0.3, 0.5), (0.6, 0.4)])
        after = np.array(browser.execute_script(script)[0])
        assert np.abs(after - at).max() > 0.1
    np.testing.assert_allclose(*distances, atol=1e-4)


def test_two_runs_side_by_side_share_slider_and_marks(browser, strip, torus, tmp_path):
    shown(browser, tmp_path, torus, compare=strip[0], names=("first.npz", HOSTILE))
    assert [current_set(run_of(browser, k)) for k in (0, 1)] == [torus.subset, strip[0].subset]
    assert browser.find_elements("css selector", ".run-name")[1].text == HOSTILE
    differ = browser.find_element("id", "differ")
    assert differ.location["y"] < run_of(browser).location["y"] and differ.find_element("css selector", "td").text
    slide(browser, 900)
    free = [run_of(browser, k).get_attribute("data-zeta") for k in (0, 1)]
    values = [float(zeta) * found.eigenvalues[0] for zeta, found in zip(free, (torus, strip[0]), strict=True)]
    assert values[0] == pytest.approx(values[1])  # sliders are linked where zeta has no unit
    browser.execute_script("report.marked.set([1, 5, 800], false)")  # the torus has only 700 points
    assert browser.execute_script("return report.runs.map(r => r.marks.length)") == [2, 3]


def test_one_and_four_coordinates_have_a_picture(browser, tmp_path):
    t = np.linspace(0, 1, 300)[:, None]
    for s, axes in ((1, 2), (4, 3)):
        known = {"intrinsic_dim": 1, "subset_size": s, "bandwidth": 0.05, "n_components": 6}
        shown(browser, tmp_path, select_coordinates(np.hstack([t, 0.3 * t**2]), **known))
        assert browser.execute_script("return report.runs[0].map.axes.length") == axes


def test_nothing_sticks_out_at_any_width(browser, torus, tmp_path):
    shown(browser, tmp_path, torus)  # sets of three are wider than those of two
    hidden = "const e = document.querySelector('.ranking .scroll'); return e.scrollWidth - e.clientWidth"
    for width in (400, 1300):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_async_script(READY)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(hidden) <= 0
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_answer_is_the_heading(browser, strip, tmp_path):
    shown(browser, tmp_path, replace(strip[0], diagnostics=strip[0].diagnostics | TOLD))
    lines = browser.find_element("css selector", ".answer").text.splitlines()
    assert lines[0] == "{φ₁, φ₇} doubtful"
    assert "(shape): one reason" in lines[1] and "Not checked: rank, stable" in lines[1]
    assert any("another" in line for line in lines)
    squares = [view.rect for view in browser.find_elements("css selector", ".square .view")]
    assert all(view["width"] == pytest.approx(view["height"], abs=1) for view in squares)
    assert squares[0]["width"] == squares[1]["width"]
    assert browser.execute_script("return report.runs[0].colour.key") == "volume"  # which is no axis


def test_the_theme_follows_the_reader_and_paper_crops_nothing_and_is_white(fresh):
    """A page narrower than the window scales the points, the axes and the charts alike."""
    theme = "return document.documentElement.dataset.theme"
    before, seen = fresh.execute_script(theme), fresh.execute_script(PIXELS)
    fresh.find_element("id", "theme").click()
    assert {before, fresh.execute_script(theme)} == {"light", "dark"} and fresh.execute_script(PIXELS) != seen
    fresh.execute_script("document.documentElement.dataset.theme = 'dark'; dispatchEvent(new Event('beforeprint'))")
    fresh.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    fresh.execute_script("document.body.style.width = '700px'")
    cropped = """return [...document.querySelectorAll('.view canvas, .view svg, .chart svg')].filter((part) => {
      const box = part.getBoundingClientRect(), panel = part.closest('.panel').getBoundingClientRect();
      return box.right > panel.right + 1 || box.bottom > panel.bottom + 1 }).length"""
    assert fresh.execute_script(cropped) == 0
    paper = "return [...report.runs[0].map.context.getImageData(0, 0, 1, 1).data]"
    assert fresh.execute_script(paper) == [255, 255, 255, 255]
    fresh.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    fresh.execute_script("dispatchEvent(new Event('afterprint'))")
    assert fresh.execute_script(theme) == "dark"


def test_joined_classes_and_columns_without_values_are_grey(browser, strip, tmp_path):
    names, nothing = [f"cell{k}" for k in range(1000)], np.full(1000, np.nan)
    shown(browser, tmp_path, strip[0], colors={"cell": names, "empty": nothing})
    paint = "const run = report.runs[0]; run.colour = run.colours.find((c) => c.label === arguments[0]); run.paint();"
    key = "return [...run.root.querySelectorAll('.key svg *')].at(-1).getAttribute('fill')"
    grey = browser.execute_script("return `rgb(${hexBytes(GREY).join(' ')})`")
    assert browser.execute_script(paint + key, "cell") == grey
    assert "no value" in browser.execute_script(paint + "return run.part('.key').textContent", "empty")
