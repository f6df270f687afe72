"""Files outside of docs/ that are pages of the site too, and links that lead out of docs/."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SOURCE = "https://github.com/ies-gpu/ies-gpu/blob/main"  # of files; GitHub leads on to folders
PAGES = {"CONTRIBUTING.md": "contributing"}
LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


def on_site(file: Path) -> Path | str:
    """The page of the site that shows a file of the repository, or its address where there is none."""
    name = file.relative_to(ROOT).as_posix()
    if name in PAGES:
        return DOCS / "project" / f"{PAGES[name]}.md"
    if name == "README.md":
        return DOCS / "index.md"
    if name == "examples":
        return DOCS / "gallery" / "index.rst"
    if name.startswith("examples/") and file.suffix == ".py":
        return DOCS / "gallery" / file.parent.name / f"{file.stem}.rst"
    if name.startswith("docs/_lessons"):
        return DOCS / "lessons" / (f"{file.stem}.rst" if file.suffix else "index.rst")
    if file.is_relative_to(DOCS) or file.suffix == ".png":
        return file
    return f"{SOURCE}/{name}"


def site_links(text: str, file: Path, page: Path) -> str:
    """Relative links in the text of a file, as they must be on its page."""

    def moved(link: re.Match[str]) -> str:
        target = (file.parent / link["target"]).resolve()
        if not target.exists() and not target.is_relative_to(DOCS):
            raise FileNotFoundError(f"{file}: a link leads to {link['target']}, which does not exist")
        target = on_site(target)
        where = target if isinstance(target, str) else Path(os.path.relpath(target, page.parent)).as_posix()
        return f"]({where}{link['anchor'] or ''})"

    return LINK.sub(moved, text)


def write_pages(app: Any) -> None:
    folder = DOCS / "project"
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        text = site_links((ROOT / name).read_text(), ROOT / name, folder / f"{page}.md")
        if not (folder / f"{page}.md").exists() or (folder / f"{page}.md").read_text() != text:
            (folder / f"{page}.md").write_text(text)


def read_source(app: Any, docname: str, content: list[str]) -> None:
    file = Path(app.env.doc2path(docname))
    if file.suffix == ".md" and file.parent != DOCS / "project":
        content[0] = site_links(content[0], file, file)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
