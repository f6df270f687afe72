"""The pages of a reproduction: files that other programs read, in the paper's order."""

import re

import numpy as np
import pytest

from benchmarks.paper.book import Book


@pytest.fixture
def book(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 2))
    book = Book(tmp_path / "new" / "folder", introduction="Words <here>.")
    book.table("late", "Sets & orders", ["set", "score"], [("{1, 7}", np.float64(-1 / 3)), ("a|b, <c>", None)],
               label="Table S3", note="One differs.")  # fmt: skip
    book.text("behind", "About the table", "One.\n\nTwo.")
    book.figure("early", "The strip", figure, label="Figure 1")
    return book


def test_the_page_is_in_the_papers_order_and_opens_offline(book):
    page = book.write()
    text = page.read_text(encoding="utf-8")
    assert re.findall("<h2[^>]*>(.*?)</h2>", text) == ["The strip", "Sets &amp; orders", "About the table"]
    assert "http" not in text and all((page.parent / name).is_file() for name in ("early.png", "late.csv", "late.md"))
    again = Book(book.folder)  # takes the place of the older one
    again.text("new", "Something new", "Words.")
    assert "Something new" in again.write().read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "index.html"])
def test_pages_of_others_are_not_replaced(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match="does not belong"):
        Book(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
