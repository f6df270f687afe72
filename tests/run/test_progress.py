"""``progress=True`` shows a bar per stage, says what is compiled, and leaves nothing behind."""

from io import StringIO

import pytest

from ies_gpu import datasets, select_coordinates
from ies_gpu.backend.cpu import COMPILING
from ies_gpu.run.progress import Bar
from tests.said import refused

pytestmark = pytest.mark.usefixtures("plain_kernels")
OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.2}
X = datasets.load("D1", n_samples=400).X


def test_a_bar_per_stage_and_none_after_a_run_that_fails():
    bar = Bar(StringIO())
    select_coordinates(X, **OPTIONS, progress=bar)
    shown = bar.stream.getvalue()
    assert all(stage in shown for stage in ("graph", "eigenvectors", "tangents", "search")) and bar.bar is None
    with refused("graph.all_pairs"):
        select_coordinates(X, **OPTIONS | {"bandwidth": 1e4}, progress=bar)
    assert len(bar.stream.getvalue()) > len(shown) and bar.bar is None


def test_what_is_compiled_is_said_once_and_only_where_it_is(monkeypatch, caplog, capsys):
    caplog.set_level("INFO", "ies_gpu")
    told = f"ies_gpu: {COMPILING}"
    for first, shown in ((True, True), (True, False), (False, True)):
        monkeypatch.setattr("ies_gpu.backend.cpu.compiles_first", lambda first=first: first)
        select_coordinates(X, **OPTIONS, progress=shown)
        output = capsys.readouterr()
        assert output.out == "" and ("eigenvectors" in output.err) == shown
        assert (output.err.count(told), caplog.messages.count(told)) == (first and shown, first and not shown)
        caplog.clear()
