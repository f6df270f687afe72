"""The page as text and as a file."""

from __future__ import annotations

import html
import os
from importlib.resources import files
from typing import Any

import numpy as np

from .. import __version__
from ..analysis.diagnosis.diagnose import Diagnosis, diagnose
from ..analysis.stability.result import Stability
from ..choice.naming import in_symbols, names_text, page_text
from ..files.writing import check_output, whole_or_nothing
from ..plot.panels import check_kind, heading, on_host, unit_mean_square
from ..results.same_points import used_points
from ..results.selection import Selection, check_selection, with_turned
from ..results.text import ON_PAGE, PRINTED, facts, short
from ..validation import check_real_array
from .content import COLUMNS, colours_for, content_of, shown_rows
from .packing import as_script

DIAGNOSED = 30_000  # points at most that are diagnosed to mark what the run found
SCRIPTS = ("three.min.js", "scatter.js", "charts.js", "page.js")


def write_report(selection: Selection, path: str | os.PathLike[str], **more: Any) -> None:
    """Write the page of a result to a file or URL, completely or not at all; arguments as for ``report_page``."""
    check_output(path, ".html")
    text = report_page(selection, **more)
    with whole_or_nothing(path) as file:
        file.write(text.encode("utf-8", "replace"))  # a file name need not be text


def report_page(
    selection: Selection, *, points: Any = None, colors: Any = None, cmap: Any = None,
    compare: Selection | None = None, stability: Stability | None = None, diagnosis: Diagnosis | None = None,
    title: str | None = None, names: tuple[str, str] = ("first run", "second run"),
) -> str:  # fmt: skip
    """Return the page of a result as text; ``Selection.to_html`` describes the arguments."""
    selections = [check_selection(selection)] + ([] if compare is None else [check_selection(compare)])
    title = heading(title, "Independent coordinates")
    _check_same(selection, stability, diagnosis)
    X = None if points is None else check_rows("points", points, selection)
    if diagnosis is None and can_be_marked(selection):
        diagnosis = diagnose(selection)
    colours = colours_for(colors, selection)
    columns = 4 + len(colours) + (0 if X is None else min(COLUMNS, X.shape[1]))
    rows = shown_rows(selection, len(selections), columns)
    more: dict[str, Any] = {"stability": stability, "diagnosis": diagnosis, "cmap": cmap}
    runs = [content_of(selection, names[0], rows, points=X, colours=colours, **more)]
    if compare is not None:
        runs.append(_second(compare, selection, names[1], rows, columns, X, colors, cmap))
    differ = [] if compare is None else differences(selection, compare)
    return filled(title, as_script({"title": title, "version": __version__, "differ": differ, "runs": runs}))


def can_be_marked(selection: Selection) -> bool:
    """Return whether the run found its map out of shape, and looking where takes little time."""
    doubted = selection.judgement["shape"].level in ("fair", "bad")
    return doubted and selection.bases is not None and len(selection.points) <= DIAGNOSED


def differences(first: Selection, second: Selection) -> list[tuple[str, str, str]]:
    """Return label and both texts of all in which two results differ, the answer first."""
    each = []
    for selection in (first, second):
        known = {"set": [page_text(selection.subset)], **facts(selection)}
        known["eigenvectors"] = [str(selection.coordinates.shape[1])]
        settings = {name: [short(value)] for name, value in selection.diagnostics.get("parameters", {}).items()}
        each.append({label: in_symbols("; ".join(texts)) for label, texts in (known | settings).items()})
    left = {"settings", "features", *PRINTED, *ON_PAGE}
    rest = [label for label in {**each[0], **each[1]} if label not in left]
    order = dict.fromkeys(["set", *PRINTED, "points", *rest])
    both = [(label, *(one.get(label, "none") for one in each)) for label in order]
    return [(label, a, b) for label, a, b in both if a != b]


def filled(title: str, content: str) -> str:
    """Return the template with its style, its scripts and the content."""
    parts = {
        "<!-- title -->": html.escape(title),
        "<!-- style -->": _text("page.css"),
        "<!-- content -->": content,
        "<!-- scripts -->": "\n".join(f"<script>\n{_script(name)}</script>" for name in SCRIPTS),
    }
    pieces, rest = [], _text("page.html")
    for mark, text in parts.items():  # in the order of the template: what is filled in is not searched again
        before, _, rest = rest.partition(mark)
        pieces += [before, text]
    return "".join([*pieces, rest])


def _check_same(selection: Selection, stability: Stability | None, diagnosis: Diagnosis | None) -> None:
    """Raise where findings are those of another result."""
    if stability is not None:
        check_kind("stability", stability, Stability)
        own, found = names_text(selection.subset), names_text(stability.subset)
        if own != found:
            raise ValueError(f"stability is of {found}, but the selection is {own}; pass that of this selection")
    if diagnosis is None:
        return
    check_kind("diagnosis", diagnosis, Diagnosis)
    if len(diagnosis.collapse) != len(selection.points):
        raise ValueError(
            f"diagnosis is of {len(diagnosis.collapse):,} points, but the selection has {len(selection.points):,}; "
            "diagnose this selection"
        )
    examined, members = unit_mean_square(on_host(diagnosis.embedding)), list(diagnosis.subset)
    mine = (unit_mean_square(on_host(Y)[:, members]) for Y in (selection.coordinates, with_turned(selection)[0]))
    if not any(np.allclose(Y, examined, atol=1e-6) for Y in mine):
        raise ValueError("diagnosis is of other coordinates than the selection has; diagnose this selection")


def check_rows(name: str, points: Any, selection: Selection) -> np.ndarray:
    """Return the points of the run, as numbers on the host."""
    X = on_host(check_real_array(name, points, 2))
    if X.shape[1] < 1:
        raise ValueError(f"{name} must have columns, got shape {X.shape}")
    used_points(selection, X, name)
    return X


def _second(
    other: Selection,
    first: Selection,
    name: str,
    rows: np.ndarray,
    columns: int,
    X: np.ndarray | None,
    colors: Any,
    cmap: Any,
) -> dict[str, Any]:
    """Return the run beside the first. Where it has the same points, the same are drawn; of others, only the map."""
    notes, colours = [], []
    same = np.array_equal(on_host(other.points), on_host(first.points))
    digests = [selection.diagnostics.get("points_digest") for selection in (first, other)]
    if not same:
        rows = shown_rows(other, 2, columns)
    try:
        if X is not None:
            used_points(other, X, "points")
        elif same and all(digests) and digests[0] != digests[1]:
            raise ValueError("its points are others")
    except ValueError:
        what = " and ".join(name for name, given in (("input", X), ("colours", colors)) if given is not None)
        if what:
            verb = "is" if what == "input" else "are"
            notes.append(f"This run was made from other points: the {what} of the first run {verb} not shown here.")
        X = colors = None
    try:
        colours = colours_for(colors, other)
    except ValueError as error:
        notes.append(f"The colours are of the first run only: {error}.")
    diagnosis = diagnose(other) if can_be_marked(other) else None
    return content_of(other, name, rows, points=X, colours=colours, cmap=cmap, notes=notes, diagnosis=diagnosis)


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _script(name: str) -> str:
    return _text(name).replace("</script", "<\\/script").replace("<!--", "<\\!--")
