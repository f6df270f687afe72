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
# what the square beside a title shows: points and their colours, in the names of the script
SQUARES = {
    "tutorial.py": ("selection.embedding", "across"),
    "reading.py": ("selection.embedding", "strip.truth[:, 0]"),
    "when_not_to_use_it.py": ("tree", "arm"),
    "strip.py": ("selection.embedding", "strip.truth[:, 1]"),
    "swiss_roll.py": ("X", "along"),
    "torus.py": ("selection.embedding", "abs(torus.colors['alpha'] - np.pi)"),
    "ethanol.py": ("selection.embedding", "abs(colors['OH torsion'])"),
    "spectra.py": ("selection.embedding", "depth[selection.points]"),
    "cells.py": ("selection.embedding", "cells.obs['bulk_labels'].cat.codes"),
    "own_graph.py": ("selection.embedding", "places[:, 0]"),
    "pipeline.py": ("placed.to_numpy()", "along_test"),
}
SQUARE_FOLDER = Path(__file__).parents[1] / "_build" / "squares"


def libraries(script: Path) -> list[str]:
    """Return the packages that a script imports when it runs, in its order; its functions may need more."""
    found = []
    for node in ast.parse(script.read_text()).body:
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
            if script.name in SQUARES:
                square = f"# sphinx_gallery_thumbnail_path = '_build/squares/{script.stem}.png'"
                script.write_text(f"{script.read_text()}\n{square}\n")
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


def draw_square(name: str, found: dict[str, Any]) -> None:
    """Draw the picture beside the title of a script, once it has what the picture shows."""
    import numpy as np  # the tests read this file without it
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    try:
        points, colors = (eval(code, dict(found)) for code in SQUARES[name])
    except NameError:
        return
    space = points.shape[1] == 3
    points = points[:, :3] if space else points[:, :2]
    points = points if name == "swiss_roll.py" else points / points.std(axis=0)
    seen = (
        colormaps["tab10"] if name == "cells.py" else ListedColormap(colormaps["viridis"](np.linspace(0.2, 0.95, 99)))
    )
    figure = Figure(figsize=(3, 3))
    axes = figure.add_axes((0, 0, 1, 1), projection="3d" if space else None)
    axes.scatter(*points.T, c=colors, s=5, cmap=seen)
    axes.set_axis_off()
    axes.margins(0.06)
    if space:
        axes.set_box_aspect(None, zoom=1.5)
    SQUARE_FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(SQUARE_FOLDER / f"{Path(name).stem}.png", dpi=100, transparent=True)  # on light and on dark


def written_pictures(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Show the pictures that a block has written into its folder."""
    from sphinx_gallery.scrapers import figure_rst  # the tests read this file without it

    script = Path(variables["src_file"])
    if script.name in SQUARES:
        draw_square(script.name, variables["example_globals"])
    shown, titles = [], []
    for picture in sorted(script.parent.glob("*.png"), key=lambda file: file.stat().st_mtime_ns):
        titles.append(picture.stem.replace("-", " "))
        shown.append(next(variables["image_path_iterator"]))
        shutil.move(picture, shown[-1])
    return figure_rst(shown, settings["src_dir"], ", ".join(titles))
