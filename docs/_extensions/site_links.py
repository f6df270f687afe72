"""Links that lead out of docs/: to a page of the site where there is one, else to the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SOURCE = "https://github.com/ies-gpu/ies-gpu/blob/main"  # of files; GitHub leads on to folders
LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


def on_site(file: Path) -> Path | str:
    """Return the page of the site that shows a file of the repository, or its address where there is none."""
    name = file.relative_to(ROOT).as_posix()
    if name == "README.md":
        return DOCS / "index.md"
    if name == "examples":
        return DOCS / "gallery" / "index.rst"
    if name.startswith("examples/") and file.suffix == ".py":
        return DOCS / "gallery" / file.parent.name / f"{file.stem}.rst"
    if name.startswith("docs/_lessons"):
        return DOCS / "lessons" / f"{file.stem}.rst"
    if file.is_relative_to(DOCS) or file.suffix == ".png":
        return file
    return f"{SOURCE}/{name}"


def site_links(text: str, page: Path) -> str:
    """Return the text of a page with its relative links as they must be on the site."""

    def moved(link: re.Match[str]) -> str:
        target = (page.parent / link["target"]).resolve()
        if not target.exists() and not target.is_relative_to(DOCS):
            raise FileNotFoundError(f"{page}: a link leads to {link['target']}, which does not exist")
        target = on_site(target)
        where = target if isinstance(target, str) else Path(os.path.relpath(target, page.parent)).as_posix()
        return f"]({where}{link['anchor'] or ''})"

    return LINK.sub(moved, text)


def read_source(app: Any, docname: str, content: list[str]) -> None:
    file = Path(app.env.doc2path(docname))
    if file.suffix == ".md":
        content[0] = site_links(content[0], file)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
