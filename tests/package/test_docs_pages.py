"""Code blocks of the pages run, and all links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.extras import needed
from tests.thorough import first_of

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
# blocks that need more than the package: a library, or points of the reader's own
ELSEWHERE = {"scanpy": "test-all", "umap": "umap", "dask": "dask", "dask_cuda": "", "select_coordinates(X)": ""}


def blocks(page: str) -> list[str]:
    return BLOCK.findall((DOCS / page).read_text())


def needs(block: str) -> list[str]:
    return [word for word in ELSEWHERE if re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", block)]


PAGES = sorted(page.name for page in DOCS.glob("*.md") if any(not needs(block) for block in blocks(page.name)))


@pytest.mark.parametrize("page", first_of(*PAGES))
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if not needs(block):
            exec(compile(block, page, "exec"), {})


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_the_block_for_biologists(tmp_path, monkeypatch):
    """Scanpy draws what it finds."""
    needed("scanpy", "test-all")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    (block,) = (block for block in blocks("pipelines.md") if "scanpy" in needs(block))
    exec(compile(block, "pipelines.md", "exec"), names)
    assert names["cells"].obsm["X_ies"].shape == (700, 2)


@pytest.mark.parametrize(
    "page", sorted([*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md"), *RESULTS.glob("*.md")]), ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    if page.relative_to(DOCS.parent).parts[:2] == ("docs", "_build"):
        pytest.skip("made by a build of the site")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_anchors_are_headings(page):
    """As GitHub and the site make them from the headings; the site knows no others."""
    for target, anchor in re.findall(r"\]\(([^):#]*)#([^)]+)\)", page.read_text()):
        file = page.parent / target if target else page
        if file.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, anchor
