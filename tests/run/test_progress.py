"""``progress=True`` shows a bar per stage, says what is compiled, and leaves nothing behind."""

from __future__ import annotations

import sys

import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend.cpu import COMPILING
from ies_gpu.run import log as progress
from ies_gpu.run.log import Bar
from tests.said import refused

OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.2}
X = datasets.load("D1", n_samples=400).X


@pytest.fixture
def bars(monkeypatch):
    """What bars would show: one list of (total, done) per bar, by description, and lines written."""

    class Shown:
        made, lines = [], []

        def __init__(self, desc, **_):
            self.desc, self.total, self.n, self.open = desc, None, 0, True
            Shown.made.append(self)

        def update(self, more):
            self.n += more

        def close(self):
            self.open = False

        @classmethod
        def write(cls, line, file):
            assert file is sys.stderr
            cls.lines.append(line)

    monkeypatch.setattr(progress, "tqdm", lambda: Shown)
    return Shown


@pytest.mark.usefixtures("plain_kernels")
def test_a_bar_per_stage(bars):
    found = select_coordinates(X, **OPTIONS, progress=True)
    assert {"graph", "eigenvectors", "tangents", "search"} <= {bar.desc.strip() for bar in bars.made}
    assert not any(bar.open for bar in bars.made)
    assert any(bar.total and bar.n == bar.total for bar in bars.made) and bars.lines == []
    assert found.subset == select_coordinates(X, **OPTIONS, progress=False).subset


@pytest.mark.usefixtures("plain_kernels")
def test_a_run_that_fails_leaves_no_bar(bars):
    with refused("graph.all_pairs"):
        select_coordinates(X, **OPTIONS | {"bandwidth": 1e4}, progress=True)
    assert bars.made and not any(bar.open for bar in bars.made)


@pytest.mark.usefixtures("plain_kernels")
def test_what_is_compiled_is_said_once_and_only_where_it_is(bars, monkeypatch, caplog):
    caplog.set_level("INFO", "ies_gpu")
    told = f"ies_gpu: {COMPILING}"
    for first, shown in ((True, True), (True, False), (False, True)):
        monkeypatch.setattr("ies_gpu.backend.cpu.compiles_first", lambda first=first: first)
        select_coordinates(X, **OPTIONS, progress=shown)
        assert (bars.lines.count(told), caplog.messages.count(told)) == (int(first and shown), int(first and not shown))
        bars.lines.clear(), caplog.clear()


def test_the_real_bar_goes_to_the_error_stream(capsys):
    bar = Bar()
    for done, total in ((0, 0), (5, 10), (10, 10), (1, 1)):
        bar("eigenvectors", done, total)
    shown = capsys.readouterr()
    assert "eigenvectors" in shown.err and shown.out == "" and bar.bar is None
