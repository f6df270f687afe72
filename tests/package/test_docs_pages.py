"""Code blocks of the pages run, and all links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.extras import needed
from tests.thorough import first_of

DOCS = Path(__file__).parents[2] / "docs"
# not real-data.md, which needs files that are not ours to ship, nor umap.md, which takes a minute
PAGES = ["diagnosis.md", "method.md", "new-points.md", "plots.md", "report.md", "scikit-learn.md", "stability.md"]


@pytest.mark.parametrize("page", first_of(*PAGES))
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})


@pytest.mark.filterwarnings("ignore")  # of scanpy
def test_the_page_for_biologists(tmp_path, monkeypatch):
    """One block goes on where the other ends, and scanpy draws what it finds."""
    needed("scanpy", "test-all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda *_, **__: None)
    names: dict[str, Any] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```", (DOCS / "anndata.md").read_text(), flags=re.MULTILINE | re.DOTALL
    ):
        exec(compile(block, "anndata.md", "exec"), names)
    assert names["new"].obsm["X_ies"].shape == (350, 2)


@pytest.mark.parametrize("page", sorted([*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")]), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
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


def test_the_index_names_every_page():
    index = (DOCS / "index.md").read_text()
    assert all(f"]({page.name})" in index for page in DOCS.glob("*.md") if page.name != "index.md")
