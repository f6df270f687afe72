"""The pages of a reproduction: files that other programs read, in the paper's order."""

from __future__ import annotations

import csv
from html.parser import HTMLParser

import numpy as np
import pytest

from benchmarks.paper.book import Book

VOID = {"meta", "img", "br", "hr"}


class Checker(HTMLParser):
    """Tags that open and close in pairs; headings, pictures and links in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.images, self.headings, self.links = [], [], [], []
        self.feed(page.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in VOID else [tag]
        self.images += [dict(attrs)["src"]] if tag == "img" else []
        self.links += [dict(attrs)["href"]] if tag == "a" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.headings += [data] if self.open and self.open[-1] == "h2" else []


@pytest.fixture
def book(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 2))
    book = Book(tmp_path / "new" / "folder", introduction="Words <here>.")
    book.table("late", "Sets & orders", ["set", "score"], [("{1, 7}", np.float64(-1 / 3)), ("a|b, <c>", None)],
               label="Table S3", note="One differs.")  # fmt: skip
    book.text("behind", "About the table", "One.\n\nTwo.")
    book.figure("early", "The strip", figure, label="Figure 1")
    return book


def test_the_page_is_whole_and_in_the_papers_order(book):
    page = book.write()
    checker, text = Checker(page), page.read_text(encoding="utf-8")
    assert checker.headings == ["The strip", "Sets & orders", "About the table"]
    assert checker.images == ["early.png"]
    targets = [link for link in checker.links if not link.startswith("#")]
    assert targets == ["late.csv", "late.md"]
    assert all((page.parent / name).is_file() for name in checker.images + targets)
    assert all(f'id="{link[1:]}"' in text for link in checker.links if link.startswith("#"))
    assert "http" not in text  # it opens offline
    again = Book(book.folder)  # takes the place of the older one
    again.text("new", "Something new", "Words.")
    assert "Something new" in again.write().read_text(encoding="utf-8")


def test_a_table_keeps_all_digits_for_machines_and_four_for_people(book):
    with open(book.folder / "late.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["set", "score"] and float(rows[1][1]) == -1 / 3 and rows[2] == ["a|b, <c>", ""]
    lines = [line for line in (book.folder / "late.md").read_text().splitlines() if line.startswith("|")]
    assert lines[2] == "| {1, 7} | -0.3333 |"
    assert lines[3].count("|") - lines[3].count("\\|") == 3  # a bar inside a cell parts nothing


@pytest.mark.parametrize("name", ["README.md", "index.html"])
def test_pages_of_others_are_not_replaced(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name} does not belong to a reproduction"):
        Book(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
