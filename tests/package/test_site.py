"""The documentation site: every page and every public name is in it, and what was built needs nothing from elsewhere.

The second half looks at pages that were built into the folder ``IES_GPU_SITE``, as ``.ci/run`` does.
"""

import ast
import inspect
import os
import re
import runpy
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

import ies_gpu
from ies_gpu.parameters import judgement
from ies_gpu.results.text import PRINTED
from tests.files.stores import serving
from tests.findings.source import codes
from tests.package.test_docstrings import MORE
from tests.report.conftest import browser  # noqa: F401, a fixture

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXTENSIONS = DOCS / "_extensions"
SITE = Path(os.environ.get("IES_GPU_SITE", ""))
built = pytest.mark.skipif("IES_GPU_SITE" not in os.environ, reason="IES_GPU_SITE names no folder with the built site")


def test_the_site_has_24_pages_beside_the_front_page_the_examples_and_the_api():
    """Sphinx fails if no toctree names one of them."""
    made = {"_build", "_lessons", "_templates", "api", "gallery", "lessons"}
    files = [file.relative_to(DOCS) for end in ("md", "rst") for file in DOCS.rglob(f"*.{end}")]
    pages = {str(file.with_suffix("")) for file in files if file.parts[0] not in made}
    lessons = list((DOCS / "_lessons").glob("*.py"))
    assert len(pages - {"index", "reference", "messages"}) + len(lessons) == 24


def test_every_public_name_is_in_the_reference_and_every_option_under_a_subhead():
    named = set(re.findall(r"^   ([\w.]+)$", (DOCS / "reference.rst").read_text(), flags=re.MULTILINE))
    modules = {"anndata", "datasets", "plot"}
    wanted = set(ies_gpu.__all__) - modules - {"__version__"} | set(MORE)
    wanted |= {f"{module}.{name}" for module in modules for name in getattr(ies_gpu, module).__all__}
    assert named == wanted
    pytest.importorskip("docutils")
    groups = runpy.run_path(str(EXTENSIONS / "reference.py"))["PLACE"]
    assert set(inspect.signature(ies_gpu.select_coordinates).parameters) <= set(groups)


def test_every_example_is_in_the_gallery():
    known = runpy.run_path(str(EXTENSIONS / "gallery_runs.py"))
    scripts = {file.name: file for folder in ("examples", "docs/_lessons") for file in (ROOT / folder).rglob("*.py")}
    assert set(scripts) == set(known["RUN"])
    for section, names in known["SECTIONS"].items():
        assert {file.name for file in (ROOT / "examples" / section).glob("*.py")} == set(names)
    for name, file in scripts.items():
        text = ast.get_docstring(ast.parse(file.read_text()))
        title, rule = text.splitlines()[:2]
        assert rule == "=" * len(title), f"{name} needs a title, underlined with ="


def test_every_line_of_a_result_and_every_warning_is_explained():
    lesson = (DOCS / "_lessons" / "reading.py").read_text()
    assert [label for label in PRINTED if f"# **{label}**" not in lesson] == []
    page = (DOCS / "messages.md").read_text()
    terms = re.findall(r'^\| (?:`([\w.]+)`)? *\| "(.*?)" \|', page, flags=re.MULTILINE)
    every = ""  # the strings of the package, those with gaps as a whole
    for node in (node for file in (ROOT / "ies_gpu").rglob("*.py") for node in ast.walk(ast.parse(file.read_text()))):
        parts = getattr(node, "values", [node]) if isinstance(node, ast.Constant | ast.JoinedStr) else []
        every += "\1" + "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in parts)
    patterns = {term: "[^\1]*".join(re.escape(part.strip()) for part in term.split("...")) for _, term in terms}
    assert [term for term in patterns if not re.search(patterns[term], every)] == [], "no longer said"
    known = codes("warning", "light", "grave", "note", "say") | {"choice.doubtful"}
    assert {code for code, _ in terms if code} == known


def test_the_install_page_names_every_extra_for_users():
    """Those of pyproject.toml that are not for developers, astronomers of one example, or empty."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    inside = {"lint", "security", "astro"}
    users = {name for name, needs in extras.items() if needs and not name.startswith("test") and name not in inside}
    rows = re.findall(r"^\| (`[a-z0-9`, ]+`) \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert {word for row in rows for word in re.findall("`([a-z0-9]+)`", row)} == users


def test_the_limits_of_the_verdict_are_those_of_the_code():
    page = (DOCS / "judging.md").read_text()
    rows = {row[0]: row[1:] for row in re.findall(r"^\| (\w+) \| .* \| (.*?) \| (.*?) ?\|$", page, re.MULTILINE)}
    said = {name: [float(value) / 100 for value in re.findall(r"([\d.]+)%", " ".join(rows[name]))] for name in rows}
    assert said["rank"] == list(judgement.LOST)
    assert said["shape"] == list(judgement.FOLDED) and said["stable"] == [judgement.STABLE[1]]


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") not in ("next", "prev", "index", "search"):
            self.loads.append(given["href"])
        self.loads += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]


@built
def test_nothing_is_loaded_from_elsewhere():
    pages = [file for file in sorted(SITE.rglob("*.html")) if "_static" not in file.parts]
    assert len(pages) > 50
    for file in pages:
        for target in Page(file.read_text()).loads:
            assert not urlsplit(target).netloc and not target.startswith("//"), (file.name, target)
            if not target.startswith("data:"):
                assert (file.parent / unquote(urlsplit(target).path)).exists(), (file.name, target)
    for kind, elsewhere in (
        ("css", r"""(?:@import|url\()\s*["']?(?:https?:)?//"""),
        ("js", r"""(?:fetch|import|src\s*=)\s*\(?\s*["']https?://"""),
    ):
        files = list(SITE.rglob(f"*.{kind}"))
        assert files and not [file for file in files if re.search(elsewhere, file.read_text())]


# what people look for, and the page that must come first
SEARCHES = {
    "bandwidth": "parameters",
    "how many eigenvectors": "parameters",
    "disconnected graph": "faq",
    "install": "lessons/tutorial",
    "start": "lessons/tutorial",
    "new points": "new-points",
    "verdict": "judging",
    "gpu": "speed",
    "memory": "jobs",
    "anndata": "pipelines",
    "spectral embedding converge": "spectral-embedding-hangs",
    "diffusion components": "which-diffusion-components",
    "gradients order": "gradients-swap-their-order",
    "megaman": "coming-from",
    "report": "report",
}
FIRST = "#search-results ul.search li > a"


@built
def test_the_page_that_answers_comes_first_in_a_search(browser):  # noqa: F811
    from selenium.webdriver.support.wait import WebDriverWait

    found = {}
    with serving(SITE) as address:  # a browser searches in nothing that it reads from disk
        for query in SEARCHES:
            browser.get(f"{address}/search.html?q={quote(query)}")
            link = WebDriverWait(browser, 60).until(lambda page: page.find_elements("css selector", FIRST))[0]
            found[query] = urlsplit(link.get_attribute("href")).path.removeprefix("/").removesuffix(".html")
    assert found == SEARCHES
