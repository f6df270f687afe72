"""The reproduction: its pages, end to end on a small sample, and at the paper's size."""

import csv
import re

import numpy as np
import pytest

from benchmarks.paper.__main__ import main
from benchmarks.paper.book import Book
from benchmarks.paper.published import PUBLISHED
from ies_gpu import datasets


def rows_of(folder, name):
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_printed_table_fits_the_data_sets():
    assert tuple(PUBLISHED) == datasets.names()
    for name, paper in PUBLISHED.items():
        data = datasets.load(name, n_samples=10)
        assert paper.best[0] == tuple(k + 1 for k in data.reference_subset)
        assert len(paper.best) == len(set(paper.best)) == 5
        assert all(len(s) == data.subset_size and s[0] == 1 and sorted(set(s)) == list(s) for s in paper.best)
        assert len(paper.greedy) == len(set(paper.greedy)) == len(paper.llr) == len(set(paper.llr)) == 7


@pytest.mark.thorough
def test_a_small_reproduction_has_all_its_pages_with_sound_numbers(tmp_path):
    """One data set, few points: the whole way to the page."""
    from benchmarks.paper.synthetic import fill
    from benchmarks.paper.synthetic_cases import Plan

    book, parts = Book(tmp_path), []
    plan = Plan(
        ("D1",), points=1200, llr_points=200, limit_sizes=(300, 600), limit_seeds=(0,), time_sizes=(300, 600),
        slow_sizes=(100, 200), dimension_points=200, lemma_cells=(5, 10),
    )  # fmt: skip
    fill(book, plan, lambda stage, done, total: parts.append((stage, done, total)))
    book.write()
    names = {item.name for item in book.items}
    assert {"strip", "d1", "size-rule", "results", "agreement", "verification", "lemma-2", "limit", "runtime"} <= names
    for item in book.items:
        made = [f"{item.name}.png"] if item.image else [f"{item.name}.csv", f"{item.name}.md"]
        assert all((book.folder / name).stat().st_size > 0 for name in made)
        assert item.label or item.name == "seconds"  # all others answer to something in the paper
    assert ("D1", 1, 1) in parts
    ours, paper = rows_of(book.folder, "results")
    assert ours["1"].startswith("{1, ") and paper["1"] == "{1, 7}"
    for row in rows_of(book.folder, "verification-table"):
        assert 0 <= float(row["least M²"]) <= float(row["its M²"]) <= 1
        assert -1 <= float(row["rank and M²"]) <= 1
    for row in rows_of(book.folder, "limit-table"):
        assert float(row["limit R(S, M)"]) <= 0
    assert all(float(row["seconds"]) > 0 for row in rows_of(book.folder, "runtime-table"))


def test_wrong_use_is_refused_before_a_folder_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arguments, named in (
        ("--only nothing", "nothing"), ("--data no/such/folder", "no/such/folder"), ("--only real", "--data"),
        ("--only real --data .", "ethanol_sgdml_md.npz"),
    ):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            main(["-o", "out", *arguments.split()])
        assert stopped.value.code == 2 and named in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_papers_sets_and_orders(tmp_path):
    """D1 to D12 at their size: the chosen sets, greedy's first s, and what LLR takes."""
    from benchmarks.paper.parts import Parts
    from benchmarks.paper.synthetic_cases import Plan, compute

    cases = [compute(name, Plan(()), Parts()) for name in datasets.names()[:12]]
    chosen = {case.data.name: case.selection.subset for case in cases}
    assert sum(chosen[case.data.name] == case.data.reference_subset for case in cases) >= 11
    assert sum(set(case.greedy[: len(case.selection.subset)]) == set(case.selection.subset) for case in cases) >= 11
    taken = {case.data.name: set(np.array(case.llr.order[: len(case.selection.subset)]) + 1) for case in cases}
    assert sum(taken[name] == set(PUBLISHED[name].llr[: len(chosen[name])]) for name in taken) >= 10


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
    for name in ("README.md", "index.html"):  # pages of others are not replaced
        (mine := book.folder.parent / name).write_text("mine")
        with pytest.raises(ValueError, match="does not belong"):
            Book(mine.parent)
        assert mine.read_text() == "mine"
        mine.unlink()
