"""The pages of a reproduction: tables (CSV, Markdown), figures (PNG), and one page that shows them all."""

from __future__ import annotations

import csv
import html
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ies_gpu.files.writing import whole_or_nothing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ies_gpu import Selection

# what is recomputed, in the paper's order, which is the order of the page; numbers with S are in its supplement
LABELS = (
    "Figure 1", "Figure 2", "Lemma 2", "Theorem 3", "Figure 3", "Figure 4", "Table 1", "Figure S1", "Figure S2",
    "Table S3", "Figure S3", "Figure S4", "Figure S5", "Figure S6", "Figure S7", "Figure S8",
)  # fmt: skip
PAGES = ("index.html", "README.md")
DPI = 100
RIGHT = ' class="number"'

STYLE = """
body { max-width: 100ch; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a;
       background: #fff; }
h1 { line-height: 1.2; } h2 { margin: 3rem 0 .3rem; border-top: 1px solid #ccc; padding-top: 1.2rem; }
p { max-width: 85ch; } img { max-width: 100%; height: auto; display: block; }
.result { font-size: 1.25rem; font-weight: 600; margin: .6rem 0; }
.label { color: #555; font-size: 14px; margin: 0 0 .6rem; } .note { border-left: 3px solid #0072b2;
  padding-left: .8rem; } .wide { overflow-x: auto; } nav { columns: 2; font-size: 14px; } nav a { display: block; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .2rem .6rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; } .number { text-align: right; } td.number { white-space: nowrap; }
"""


class Item(NamedTuple):
    """One thing on the page: ``columns`` and ``rows`` for tables, ``image`` for pictures, ``page`` to explore it."""

    name: str
    title: str
    label: str
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    image: str = ""
    page: str = ""


class Book:
    """Collect tables, figures and paragraphs. Each file is written when it is added, the page by ``write``.

    Parameters
    ----------
    folder : path
        Where everything goes; created if necessary.
    title, introduction : str
        Title and first paragraph of the page.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, title: str = "The paper, computed again", introduction: str = ""
    ) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{self.folder} is a file; give the path of a folder, which is created if necessary")
        for name in PAGES:
            page = self.folder / name
            if page.exists() and not (page.is_file() and title.encode() in page.read_bytes()):
                raise ValueError(
                    f"{page} does not belong to a reproduction and would be replaced; choose another folder"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.title, self.introduction = title, introduction
        self.items: list[Item] = []
        self.results: list[str] = []

    def result(self, sentence: str) -> None:
        """Add a sentence to those with which the page begins."""
        self.results.append(sentence)

    def table(
        self,
        name: str,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        label: str = "",
        note: str = "",
    ) -> None:
        """Write ``NAME.csv`` (all digits) and ``NAME.md`` (four digits), and show the table on the page.

        Parameters
        ----------
        name : str
            Name of the files: lower-case letters, digits and hyphens.
        title : str
        columns : sequence of str
        rows : sequence of sequences
            Numbers, words, or None for an empty cell.
        label : str
            The matching table or figure of the paper, one of ``LABELS``.
        note : str
            How it differs from the paper's version.
        """
        cells = tuple(tuple(row) for row in rows)
        wrong = [row for row in cells if len(row) != len(columns)]
        if wrong:
            raise ValueError(f"each row of {name!r} must have {len(columns)} cells, got {wrong[0]}")
        item = self._added(Item(name, title, label, note, tuple(columns), cells))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if cell is None else cell for cell in map(_plain, row)] for row in cells])
        self._write(f"{name}.csv", text.getvalue())
        self._write(f"{name}.md", _markdown(item))

    def figure(self, name: str, title: str, figure: Figure, *, label: str = "", note: str = "") -> None:
        """Write ``NAME.png`` and show it on the page; arguments as for ``table``."""
        self._added(Item(name, title, label, note, image=f"{name}.png"))
        with whole_or_nothing(self.folder / f"{name}.png") as file:
            figure.savefig(file, format="png", dpi=DPI)

    def report(self, selection: Selection, **more: Any) -> None:
        """Write a page to explore the result behind the item that was added last, and link it there."""
        last = self.items[-1]
        page = f"{last.name}-explore.html"
        selection.to_html(self.folder / page, title=last.title, **more)
        self.items[-1] = last._replace(page=page)

    def text(self, name: str, title: str, text: str) -> None:
        """Add text with a heading; empty lines separate paragraphs."""
        self._added(Item(name, title, "", text))

    def write(self) -> Path:
        """Write ``index.html`` and ``README.md`` in the paper's order; returns the path of the page."""
        items = self._in_order()
        self._write("index.html", _page(self.title, self.results, self.introduction, items))
        words = [f"{words}\n" for words in (*(f"**{line}**" for line in self.results), self.introduction) if words]
        self._write("README.md", "\n".join([f"# {self.title}\n", *words, *map(_markdown, items)]))
        return self.folder / "index.html"

    def _added(self, item: Item) -> Item:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", item.name):
            raise ValueError(f"name must be lower-case letters, digits and hyphens, got {item.name!r}")
        if item.name in {other.name for other in self.items}:
            raise ValueError(f"the book already has an item {item.name!r}; choose another name")
        if item.label and item.label not in LABELS:
            raise ValueError(f"label must be one of {', '.join(LABELS)}, got {item.label!r}")
        self.items.append(item)
        return item

    def _in_order(self) -> list[Item]:
        """By label as in the paper; items without a label stay behind the one they were added after."""
        places, last = [], -1
        for item in self.items:
            last = LABELS.index(item.label) if item.label else last
            places.append(last)
        return [self.items[k] for k in np.argsort(places, kind="stable")]

    def _write(self, name: str, text: str) -> None:
        with whole_or_nothing(self.folder / name) as file:
            file.write(text.encode("utf-8"))


def _plain(cell: Any) -> Any:
    """NumPy scalars as Python ones, which print as numbers."""
    return cell.item() if isinstance(cell, np.generic) else cell


def _is_number(cell: Any) -> bool:
    return isinstance(_plain(cell), int | float) and not isinstance(_plain(cell), bool)


def shown(cell: Any) -> str:
    """A cell for people: numbers with four digits."""
    cell = _plain(cell)
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _markdown(item: Item) -> str:
    label = f" (the paper's {item.label})" if item.label else ""
    parts = [f"## {item.title}{label}\n"]
    if item.image:
        parts.append(f"![{item.title}]({item.image})\n")
    if item.page:
        parts.append(f"[Explore it in a browser]({item.page})\n")
    if item.columns:
        lines = [item.columns, ["---"] * len(item.columns), *item.rows]
        parts.append("\n".join("| " + " | ".join(shown(c).replace("|", "\\|") for c in line) + " |" for line in lines))
        parts.append("")
    if item.text:
        parts.append(f"{item.text}\n")
    return "\n".join(parts)


def _page(title: str, results: list[str], introduction: str, items: list[Item]) -> str:
    links = "\n".join(f'<a href="#{item.name}">{html.escape(item.title)}</a>' for item in items)
    return "\n".join([
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        f"<h1>{html.escape(title)}</h1>",
        _paragraphs("\n\n".join(results), "result"),
        _paragraphs(introduction, ""),
        f"<nav>\n{links}\n</nav>",
        *map(_section, items),
        "</body>\n</html>\n",
    ])  # fmt: skip


def _section(item: Item) -> str:
    parts = [f'<section id="{item.name}">\n<h2>{html.escape(item.title)}</h2>']
    files = [f'<a href="{item.name}.csv">csv</a>', f'<a href="{item.name}.md">md</a>'] if item.columns else []
    files += [f'<a href="{item.page}">explore</a>'] if item.page else []
    head = [f"the paper's {item.label}"] if item.label else []
    if head or files:
        parts.append(f'<p class="label">{" · ".join(head + files)}</p>')
    if item.image:
        parts.append(f'<img src="{item.image}" alt="{html.escape(item.title)}" loading="lazy">')
    if item.columns:
        parts.append(_table(item))
    parts.append(_paragraphs(item.text, "note" if item.image or item.columns else ""))
    return "\n".join([part for part in parts if part] + ["</section>"])


def _table(item: Item) -> str:
    def cell(value: Any) -> str:
        return f"<td{RIGHT if _is_number(value) else ''}>{html.escape(shown(value))}</td>"

    right = [bool(item.rows) and all(_is_number(row[k]) for row in item.rows) for k in range(len(item.columns))]
    names = zip(item.columns, right, strict=True)
    head = "".join(f"<th{RIGHT if number else ''}>{html.escape(column)}</th>" for column, number in names)
    body = "\n".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in item.rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _paragraphs(text: str, kind: str) -> str:
    mark = f' class="{kind}"' if kind else ""
    return "\n".join(f"<p{mark}>{html.escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip())
