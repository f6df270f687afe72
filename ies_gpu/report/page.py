"""The page as text, as a file, and in a frame of a notebook."""

from __future__ import annotations

import html
import json
import os
from importlib.resources import files
from typing import Any

import numpy as np

from .. import __version__
from ..analysis.diagnose import Diagnosis, diagnose
from ..analysis.stability import Stability
from ..choice.naming import in_symbols, names_text, page_text
from ..files.writing import check_output, whole_or_nothing
from ..findings import refusal
from ..plot.colours import Colouring, colourings_of
from ..plot.figure import check_kind, heading, on_host, unit_mean_square
from ..results.same_points import used_points
from ..results.selection import Selection, check_selection, with_turned
from ..results.text import ON_PAGE, PRINTED, facts, plain, short
from ..validation import check_real_array
from .content import CLASSES, COLUMNS, content_of, shown_rows

DIAGNOSED = 30_000  # points at most that are diagnosed to mark what the run found
SCRIPTS = ("scatter.js", "charts.js", "page.js")


def write_report(selection: Selection, path: str | os.PathLike[str], **more: Any) -> None:
    """Write the page of a result to a file or URL, completely or not at all; arguments as for ``report_page``."""
    check_output(path, ".html")
    text = report_page(selection, **more)
    with whole_or_nothing(path) as file:
        file.write(text.encode("utf-8", "replace"))  # a file name need not be text


class Page:
    """A report to show in a notebook: the whole page as HTML, and the height of its frame in pixels."""

    def __init__(self, text: str, height: int) -> None:
        self.text, self.height = text, height

    def _repr_html_(self) -> str:
        # in a frame of its own, the page and the notebook cannot disturb each other
        return (
            f'<iframe title="ies-gpu report" sandbox="allow-scripts" srcdoc="{html.escape(self.text)}" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )


def report_page(
    selection: Selection, *, points: Any = None, colors: Any = None, cmap: Any = None,
    compare: Selection | None = None, stability: Stability | None = None, diagnosis: Diagnosis | None = None,
    title: str | None = None, names: tuple[str, str] = ("first run", "second run"),
) -> str:  # fmt: skip
    """Return the page of a result as text; ``Selection.to_html`` describes the arguments."""
    selections = [check_selection(each) for each in (selection, *([] if compare is None else [compare]))]
    title = heading(title, "Independent coordinates")
    _check_same(selection, stability, diagnosis)
    X = None if points is None else on_host(check_real_array("points", points, 2))
    if X is not None:
        used_points(selection, X, "points")
    colours = columns_of(colors, selection)
    width, several = 4 + len(colours) + (0 if X is None else min(COLUMNS, X.shape[1])), len(selections)
    rows = shown_rows(selection, width, several)
    found = stability, diagnosis or marks_of(selection)
    runs = [content_of(selection, names[0], rows, X, colours, *found, cmap)]
    if compare is not None:
        same = np.array_equal(on_host(compare.points), on_host(selection.points))
        rows = rows if same else shown_rows(compare, width, several)
        digests = {each.diagnostics.get("points_digest") for each in selections} - {None}
        X, colours, note = share_input(compare, X, colors, same and len(digests) > 1)
        runs.append(content_of(compare, names[1], rows, X, colours, None, marks_of(compare), cmap, note))
    differ = differences(*selections) if several > 1 else []
    return fill_template(title, as_script({"title": title, "version": __version__, "differ": differ, "runs": runs}))


def columns_of(colors: Any, selection: Selection) -> list[Colouring]:
    """Return the user's columns, at the points that were used."""
    return [each for each in colourings_of(colors, selection, CLASSES) if each.values is not None]


def marks_of(selection: Selection) -> Diagnosis | None:
    """Return what to mark where the run found its map out of shape, and looking takes little time."""
    doubted = selection.judgement["shape"].level in ("fair", "bad")
    quick = selection.bases is not None and len(selection.points) <= DIAGNOSED
    return diagnose(selection) if doubted and quick else None


def share_input(
    other: Selection, X: np.ndarray | None, colors: Any, differ: bool
) -> tuple[np.ndarray | None, list[Colouring], str]:
    """Return input and colours of the first run if they hold for the other too, otherwise a word on it."""
    try:
        if X is not None:
            used_points(other, X, "points")
        if X is not None or not differ:
            return X, columns_of(colors, other), ""
    except ValueError:
        pass
    given = " and ".join(name for name, value in (("input", X), ("colours", colors)) if value is not None)
    return None, [], given and f"This run has other points, so it is shown without the first run's {given}."


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


def fill_template(title: str, content: str) -> str:
    """Return the template with its style, its scripts and the content."""
    scripts = (_text(name).replace("</script", "<\\/script").replace("<!--", "<\\!--") for name in SCRIPTS)
    parts = {
        "<!-- title -->": html.escape(title),
        "<!-- style -->": _text("page.css"),
        "<!-- content -->": content,
        "<!-- scripts -->": "\n".join(f"<script>\n{script}</script>" for script in scripts),
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
            text = f"stability is of {found}, but the selection is {own}"
            raise refusal("stability.other", text, "pass that of this selection")
    if diagnosis is None:
        return
    check_kind("diagnosis", diagnosis, Diagnosis)
    examined, members = unit_mean_square(on_host(diagnosis.embedding)), list(diagnosis.subset)
    mine = [unit_mean_square(on_host(Y)[:, members]) for Y in (selection.coordinates, with_turned(selection)[0])]
    if len(examined) != len(selection.points) or not any(np.allclose(Y, examined, atol=1e-6) for Y in mine):
        text = "diagnosis is of other points or coordinates than the selection"
        raise refusal("diagnosis.other", text, "diagnose this selection")


def as_script(content: Any) -> str:
    """Return JSON that can stand inside a script element, whatever the words in it are."""
    text = json.dumps(plain(content), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
