"""How the scripts of the gallery and the lessons are run: in which order, and their pictures."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from pathlib import Path
from typing import Any

LESSONS = ("tutorial.py", "reading.py", "when_not_to_use_it.py")
# the sections of the gallery and their scripts, in its order
SECTIONS = {
    "shapes": ("strip.py", "swiss_roll.py", "torus.py"),
    "fields": ("ethanol.py", "spectra.py", "cells.py"),
    "programs": ("own_graph.py", "pipeline.py"),
}
RUN = [*LESSONS, *(name for section in SECTIONS.values() for name in section)]


def libraries(script: Path) -> list[str]:
    """Return the packages that a script imports, in its order."""
    found = []
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return list(dict.fromkeys(name.partition(".")[0] for name in found))


def prepare(folder: Path) -> list[str]:
    """Return the scripts of a folder that can be run, and let the text of the others say which library is missing."""
    able = []
    for script in sorted(folder.rglob("*.py")):
        missing = [name for name in libraries(script) if importlib.util.find_spec(name) is None]
        if missing:
            start, text, rest = script.read_text().split('"""', 2)
            reason = f"**Not run here**: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed."
            script.write_text(f'{start}"""{text.rstrip()}\n\n{reason}\n"""{rest}')
        else:
            able.append(script.name)
    return able


def section_order(folder: str) -> int:
    """Return the place of a section in the gallery."""
    return list(SECTIONS).index(Path(folder).name)


class Order:
    """The order of scripts in their section; a script that is not named above is an error."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> int:
        return RUN.index(name)


def written_pictures(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Show the pictures that a block has written into its folder."""
    from sphinx_gallery.scrapers import figure_rst  # the tests read this file without it

    shown, titles = [], []
    for picture in sorted(Path(variables["src_file"]).parent.glob("*.png"), key=lambda file: file.stat().st_mtime_ns):
        titles.append(picture.stem.replace("-", " "))
        shown.append(next(variables["image_path_iterator"]))
        shutil.move(picture, shown[-1])
    return figure_rst(shown, settings["src_dir"], ", ".join(titles))
