"""A result as one page to explore, by the template and scripts beside it, and as a small card; notebooks show both."""

import base64
import html
import importlib.util
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np

from .. import __version__
from ..analysis.diagnose import Diagnosis, diagnose
from ..analysis.stability import Stability
from ..backend.array import sample_rows
from ..choice.criterion import in_symbols, names_text, page_text, share_near_zero
from ..choice.regularization import TOLERANCE
from ..choice.relations import relations_text
from ..embedding.graph import leading_axes
from ..files.writing import check_output, whole_or_nothing
from ..findings import ASKED, Answer, refusal
from ..plot import style
from ..plot.maps import colour_map, embedding, flattened, near
from ..plot.style import Colouring, on_host
from ..results.selection import Selection, check_selection, used_points, with_turned
from ..results.text import ON_PAGE, PRINTED, facts, plain, reason_text, redundant, short
from ..validation import check_real_array

BYTES = 5_500_000  # of points in a page, before the third that base64 adds is counted
MOST = 30_000  # points that are shown, or diagnosed to mark what the run found
DRAWN = 4_000  # in the picture of a card
LISTED = 500  # sets in the table
BEST = 20  # of the ranking with volumes in the page, besides those on the path
CLASSES = 36  # of a column; the page has twelve colours and three marks
COLUMNS = 12  # of the input that can colour the points
MISSING = 65_535  # stands for a value that is not there
STEPS = MISSING - 1  # in which columns are stored
STOPS = 33  # colours that the page is given of a colour map
BINS = 50  # of a histogram of volumes
BOX = (5, 25, 50, 75, 95)  # percentiles of the regret
LEVELS = ("unchecked", "good", "fair", "bad")
LEVEL_OF = {None: "unchecked", "sure": "good", "likely": "fair", "doubtful": "bad"}  # by the verdict
# of the card: white words are read on each of them, and they are seen on white and on black; as in page.css
TINTS = {"good": "#1a7f45", "fair": "#9a6700", "bad": "#c2410c", "unchecked": "#6b7280"}


def write_report(selection: Selection, path: str | os.PathLike[str], **more: Any) -> None:
    """Write the page of a result to a file or URL, completely or not at all; arguments as for ``report_page``."""
    check_output(path, ".html")
    text = report_page(selection, **more)
    with whole_or_nothing(path) as file:
        file.write(text.encode("utf-8", "replace"))  # a file name need not be text


@dataclass
class Page:
    """A report to show in a notebook: the whole page as HTML, and the height of its frame in pixels."""

    text: str
    height: int

    def _repr_html_(self) -> str:
        # in a frame of its own, the page and the notebook cannot disturb each other
        page, look = html.escape(self.text), f"width:100%;height:{self.height}px;border:0"
        return f'<iframe title="ies-gpu report" sandbox="allow-scripts" srcdoc="{page}" style="{look}"></iframe>'


def report_page(
    selection: Selection, *, points: Any = None, colors: Any = None, compare: Selection | None = None,
    stability: Stability | None = None, diagnosis: Diagnosis | None = None, title: str | None = None,
    names: tuple[str, str] = ("first run", "second run"), cmap: Any = None,
) -> str:  # fmt: skip
    """Return the page of a result as text; ``Selection.to_html`` describes the arguments."""
    selections = [check_selection(each) for each in (selection, *([] if compare is None else [compare]))]
    title = style.heading(title, "Independent coordinates")
    check_found(selection, stability, diagnosis)
    X = None if points is None else on_host(check_real_array("points", points, 2))
    if X is not None:
        used_points(selection, X, "points")
    colours = style.colourings_of(colors, selection, CLASSES)
    width, several = 4 + len(colours) + (0 if X is None else min(COLUMNS, X.shape[1])), len(selections)
    rows = shown_rows(selection, width, several)
    runs = [content_of(selection, names[0], rows, X, colours, stability, diagnosis or marks_of(selection), cmap)]
    if compare is not None:
        same = np.array_equal(on_host(compare.points), on_host(selection.points))
        rows = rows if same else shown_rows(compare, width, several)
        note, digests = "", {each.diagnostics.get("points_digest") for each in selections} - {None}
        if not same or len(digests) > 1:
            given = " and ".join(name for name, value in (("input", X), ("colours", colors)) if value is not None)
            note = given and f"This run has other points, so it is shown without the first run's {given}."
            X, colours = None, []
        runs.append(content_of(compare, names[1], rows, X, colours, None, marks_of(compare), cmap, note))
    differ = differences(*selections) if several > 1 else []
    return fill_template(title, as_script({"title": title, "version": __version__, "differ": differ, "runs": runs}))


def differences(first: Selection, second: Selection) -> list[tuple[str, str, str]]:
    """Return label and both texts of all in which two results differ, the answer first."""
    each = []
    for selection in (first, second):
        known = {"set": [page_text(selection.subset)], **facts(selection)}
        known["eigenvectors"] = [str(selection.coordinates.shape[1])]
        settings = {name: [short(value)] for name, value in selection.diagnostics.get("parameters", {}).items()}
        each.append({label: in_symbols("; ".join(texts)) for label, texts in (known | settings).items()})
    rest = [label for label in {**each[0], **each[1]} if label not in {"settings", "features", *PRINTED, *ON_PAGE}]
    order = dict.fromkeys(["set", *PRINTED, "points", *rest])
    both = [(label, *(one.get(label, "none") for one in each)) for label in order]
    return [(label, a, b) for label, a, b in both if a != b]


def check_found(selection: Selection, stability: Stability | None, diagnosis: Diagnosis | None) -> None:
    """Raise where findings are those of another result."""
    if stability is not None:
        style.check_kind("stability", stability, Stability)
        if stability.subset != selection.subset:
            text = f"stability is of {names_text(stability.subset)}, not of {names_text(selection.subset)}"
            raise refusal("stability.other", text, "pass that of this selection")
    if diagnosis is not None:
        style.check_kind("diagnosis", diagnosis, Diagnosis)
        examined, members = style.unit_mean_square(on_host(diagnosis.embedding)), list(diagnosis.subset)
        mine = [style.unit_mean_square(on_host(Y)[:, members]) for Y in (selection.coordinates, with_turned(selection))]
        if len(examined) != len(selection.points) or not any(np.allclose(Y, examined, atol=1e-6) for Y in mine):
            text = "diagnosis is of other points or coordinates than the selection"
            raise refusal("diagnosis.other", text, "diagnose this selection")


def marks_of(selection: Selection) -> Diagnosis | None:
    """Return what to mark where the run found its map out of shape, and looking takes little time."""
    quick = selection.bases is not None and len(selection.points) <= MOST
    return diagnose(selection) if quick and selection.judgement["shape"].level in ("fair", "bad") else None


def fill_template(title: str, content: str) -> str:
    """Return the template with its style, its scripts and the content."""
    names = ("page.html", "page.css", "scatter.js", "charts.js", "page.js")
    page, css, *scripts = ((files(__package__) / name).read_text(encoding="utf-8") for name in names)
    scripts = [text.replace("</script", "<\\/script").replace("<!--", "<\\!--") for text in scripts]
    parts = {"title": html.escape(title), "style": css, "content": content}
    parts["scripts"] = "\n".join(f"<script>\n{script}</script>" for script in scripts)
    return re.sub("<!-- (title|style|content|scripts) -->", lambda mark: parts[mark[1]], page)


def as_script(content: Any) -> str:
    """Return JSON that can stand inside a script element, whatever the words in it are."""
    text = json.dumps(plain(content), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def content_of(
    selection: Selection, name: str, rows: np.ndarray, points: np.ndarray | None, colours: list[Colouring],
    stability: Stability | None, diagnosis: Diagnosis | None, cmap: Any, note: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Return all that the page knows of a result, as values for JSON."""
    Y, numbers = with_turned(selection), on_host(selection.points)
    n, m = Y.shape
    known = {label: [in_symbols(text) for text in texts] for label, texts in facts(selection).items()}
    verdict, why, answers = answers_of(selection, stability, diagnosis)
    related = redundant(selection)

    def within(members: set[int]) -> dict[int, tuple[int, ...]]:  # which of a set's members are functions of others
        return {k: others for k, others in related.items() if {k, *others} <= members}

    left_out = "" if len(rows) == n else f"{len(rows):,} of {n:,} points are shown, drawn at random. "
    return {
        "name": name,
        "note": note,
        "subset": selection.subset,
        "verdict": verdict,
        "why": in_symbols(why),
        "answers": {name: answer._asdict() | {"text": in_symbols(answer.text)} for name, answer in answers.items()},
        "remarks": [[kind, text] for kind in ("doubt", "warning", "note") for text in known.get(kind, ())],
        "n": n,
        "m": m,
        "zeta": selection.zeta,
        "turned": selection.rotation is not None,  # the map; volumes are those of the eigenvectors
        "thinned": left_out and left_out + "Scores, regrets and histograms are of all points.",
        "rows": base64.b64encode(numbers[rows].astype("<u4").tobytes()).decode("ascii"),
        "coordinates": [pack_coordinate(column, rows) for column in Y.T],
        "eigenvalues": on_host(selection.eigenvalues),
        "percentile": selection.diagnostics.get("parameters", {}).get("percentile"),
        "path": path_of(selection, rows),
        "ranking": {
            "total": len(selection.ranking.subsets),
            "sets": (sets := selection.ranking.subsets[:LISTED]),
            "losses": selection.ranking.losses[:LISTED],
            "scores": selection.ranking.scores[:LISTED],
            "penalties": on_host(selection.eigenvalues)[sets].sum(axis=1),
            "redundant": [in_symbols(relations_text(within(own))) for own in map(set, sets.tolist())],
        },
        "volumes": volumes_of(selection, rows),
        "columns": [column_of(each, rows, cmap) for each in colours if each.values is not None],
        "input": None if points is None else input_of(points, numbers, rows),
        "facts": [(label, text) for label in ON_PAGE for text in known.get(label, ())],
        "seconds": list((selection.diagnostics.get("seconds") or {}).items()),
        "stability": None if stability is None else {
            "verdict": in_symbols(stability.verdict), "number": stability.n_refits,
            "shares": [(page_text(s), share) for s, share in list(stability.refits.items())[:8]],
        },
        "diagnosis": diagnosis and diagnosis_of(diagnosis, rows),
    }  # fmt: skip


def answers_of(
    selection: Selection, stability: Stability | None, diagnosis: Diagnosis | None
) -> tuple[str | None, str, dict[str, Answer]]:
    """Return the verdict, the reason, and the answers behind it, with what was found after the run."""
    answers = {name: selection.judgement[name] for name in ASKED}
    verdict, why = selection.verdict, reason_text(selection)
    later = {}
    if diagnosis is not None and diagnosis.subset == selection.subset:
        level = "unchecked" if diagnosis.undecided else "good" if diagnosis.clean else "bad"
        places = ", ".join(f"{kind} at {count:,} points" for kind, count in diagnosis.counts.items() if count)
        later["shape"] = Answer(level, float(sum(diagnosis.counts.values())), places or "nothing was found")
    if stability is not None and stability.confidence is not None:
        share = max(stability.confidence, stability.confidence_up_to_twins or 0.0)
        level = "good" if share > 0.9 else "fair" if share > 0.5 else "bad"
        text = f"at least {share:.0%} of fresh samples would choose it{' up to twins' * (share > stability.confidence)}"
        later["stable"] = Answer(level, share, text)
    for name, answer in later.items():
        if LEVELS.index(answer.level) < LEVELS.index(answers[name].level):
            continue  # what a run found is not taken back
        answers[name] = answer
        if verdict is not None and LEVELS.index(answer.level) > LEVELS.index(LEVEL_OF[verdict]):
            verdict = next(word for word, level in LEVEL_OF.items() if level == answer.level)
            why = f" ({name}): {answer.text}"
    return verdict, why, answers


def shown_rows(selection: Selection, columns: int, runs: int) -> np.ndarray:
    """Return the rows of points to draw: all, or as many as fit, drawn at random."""
    n, m = selection.coordinates.shape
    each = 4 + 2 * (m + len(selection.path) * 2 + BEST + columns)
    return sample_rows(n, min(MOST, int(0.75 * BYTES / each)) // runs, 0)


def path_of(selection: Selection, rows: np.ndarray) -> list[dict[str, Any]]:
    columns = zip(selection.path, on_host(selection.regret_percentiles), on_host(selection.regrets).T, strict=True)
    return [
        asdict(segment)  # its high end is None in JSON when there is no upper end
        | {"regret": percentile, "passes": percentile <= TOLERANCE}
        | {"box": np.percentile(regrets, BOX), "regrets": pack(regrets[rows])}
        for segment, percentile, regrets in columns
    ]


def volumes_of(selection: Selection, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return volumes of the chosen and the first set, the path and the best sets; without bases of the chosen alone."""
    sets = [selection.subset, tuple(range(len(selection.subset))), *(segment.subset for segment in selection.path)]
    sets += [tuple(subset) for subset in selection.ranking.subsets[:BEST].tolist()]
    found = []
    for subset in dict.fromkeys(sets if selection.bases is not None else sets[:1]):
        logs = on_host(selection.log_volumes if subset == selection.subset else selection.score(subset))
        # rounding may lift a volume above 1 by 1e-16
        counts, _ = np.histogram(np.minimum(np.exp(logs), 1.0), BINS, range=(0, 1))
        about = {"counts": counts, "near_zero": share_near_zero(logs), "values": pack(np.exp(logs[rows]), 0.0, 1.0)}
        found.append({"subset": subset, "mean": float(np.exp(logs).mean()), **about})
    return found


def column_of(colouring: Colouring, rows: np.ndarray, cmap: Any) -> dict[str, Any]:
    """Return a column of the user's with its classes, or with its colours unless it has those of the page."""
    name, values = colouring.name or "colour", np.asarray(colouring.values)[rows]
    if colouring.classes is not None:
        last = float(max(1, len(colouring.classes) - 1))
        classes = {"classes": colouring.classes, "joined": colouring.joined}
        return {"name": name, **classes, "values": pack(values, 0.0, last)}
    ramp: Sequence[str] | None = style.CYCLIC if colouring.is_angle else None
    if (wanted := cmap.get(name) if isinstance(cmap, Mapping) else cmap) is not None:
        with style.styled():
            from matplotlib.colors import to_hex

            ramp = [to_hex(tint) for tint in colour_map(wanted)(np.linspace(0, 1, STOPS))]
    return {"name": name, "ramp": ramp, "values": pack(values)}


def input_of(points: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return the points themselves: two or three columns, or the three principal components of more."""
    X = np.asarray(points[numbers[rows]], dtype=float)
    columns = [{"name": f"x{k + 1}", "values": pack(column)} for k, column in enumerate(X.T[:COLUMNS])]
    has_many = X.shape[1] > 3
    axes = flattened((X - X.mean(axis=0)) @ leading_axes(X, 3) if has_many else X)
    names = [f"{'principal axis ' if has_many else 'x'}{k + 1}" for k in range(axes.shape[1])]
    if len(names) < 3:
        shown = [pack_coordinate(column, np.arange(len(axes))) for column in axes.T]
    else:  # all have the same width, so that the picture is to scale
        low, high = axes.min(axis=0), axes.max(axis=0)
        half, middles = 0.5 * float((high - low).max()), (0.5 * (low + high)).tolist()
        shown = [pack(column, c - half, c + half) for column, c in zip(axes.T, middles, strict=True)]
    return {"axes": shown, "names": names, "columns": columns, "dimensions": X.shape[1]}


def diagnosis_of(found: Diagnosis, rows: np.ndarray) -> dict[str, Any]:
    kinds = np.zeros(len(found.collapse), dtype=int)
    for kind, members in reversed([*enumerate(found.rows.values(), 1)]):  # the first ones count most
        kinds[members] = kind
    return {
        "verdict": in_symbols(found.verdict),
        "subset": found.subset,
        "counts": found.counts,
        "clean": found.clean,
        "kinds": {"name": "finding", "classes": ["nothing found", *found.rows], "values": pack(kinds[rows], 0.0, 4.0)},
        "collapse": {"name": "collapse (log10)", "values": pack(np.log10(np.maximum(found.collapse[rows], 1e-3)))},
    }


def pack(values: np.ndarray, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """Return a column as 16-bit integers, steps between two values; those beyond are put on the border."""
    values = np.asarray(values, dtype=float)
    known = np.isfinite(values)
    some = values[known] if known.any() else np.zeros(1)
    low, high = float(some.min()) if low is None else low, float(some.max()) if high is None else high
    share = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    steps = np.where(known, np.rint(np.clip(share, 0.0, 1.0) * STEPS), MISSING).astype("<u2")
    return {"low": low, "high": high, "data": base64.b64encode(steps.tobytes()).decode("ascii")}


def pack_coordinate(column: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return some rows of a coordinate, with strays, which would spoil the picture, on the border and counted."""
    inside = near(column[:, None])
    low, high = float(column[inside].min()), float(column[inside].max())
    return {**pack(column[rows], low, high), "outside": int((~inside[rows]).sum())}


def card(selection: Selection) -> str:
    """Return the set, the verdict with the answers behind it, doubts, warnings and a picture of the map as HTML."""
    known, verdict = facts(selection), selection.verdict
    shape, look = "border-radius:4px;padding:.05em .45em", "color:#fff;font-size:.9em;font-weight:600"

    def badge(word: str, level: str) -> str:
        return f'<span style="background:{TINTS[level]};{shape};{look}">{html.escape(word)}</span>'

    def safe(text: str) -> str:
        return html.escape(in_symbols(text))

    word = badge(verdict or "not judged", LEVEL_OF[verdict]) + safe(reason_text(selection))
    lines = [f"<strong>{page_text(selection.subset)}</strong> {word}"]
    lines += [badge(name, selection.judgement[name].level) + safe(f" {known[name][0]}") for name in ASKED]
    remarks = [f"{kind}: {text}" for kind in ("doubt", "warning") for text in known.get(kind, ())]
    lines += [f'<div style="border-left:3px solid #d55e00;padding-left:.6em">{safe(text)}</div>' for text in remarks]
    if importlib.util.find_spec("matplotlib"):
        rows = sample_rows(len(selection.points), DRAWN, 0)  # a million points take no longer
        few = {name: on_host(getattr(selection, name))[rows] for name in ("coordinates", "points")}
        data = base64.b64encode(style.as_png(embedding(replace(selection, **few)), dpi=75)).decode("ascii")
        lines += [f'<img alt="the map" style="max-width:100%;height:240px" src="data:image/png;base64,{data}">']
    frame = "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em .9em;max-width:52em;line-height:1.45"
    return f'<div style="{frame}">{"".join(f"<div style=margin:.2em>{line}</div>" for line in lines)}</div>'
