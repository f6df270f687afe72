"""``ies-gpu report`` and ``fit --report``."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import cli, datasets

pytestmark = pytest.mark.usefixtures("plain_kernels")
FIT = ["-d", "2", "-s", "2", "--bandwidth", "0.8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    X = datasets.load("D1", n_samples=900).X
    np.save(folder / "points.npy", X)
    side = np.where(X[:, 0] > 0, "right", "left")
    (folder / "columns.csv").write_text(
        "length,side\n" + "".join(f"{x},{s}\n" for x, s in zip(X[:, 0], side, strict=True))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        command = ["fit", str(folder / "points.npy"), *FIT, "-o", str(folder / "run.npz")]
        assert cli.main([*command, "--report", str(folder / "fit.html"), "--quiet"]) == 0
    return folder


def test_fit_ends_with_a_page(folder):
    text = (folder / "fit.html").read_text()
    assert text.startswith("<!doctype html>") and '"title":"points.npy"' in text


def test_report_takes_points_colours_and_another_run(folder, capsys):
    run, output = str(folder / "run.npz"), folder / "my report.html"
    more = ["--points", str(folder / "points.npy"), "--color", str(folder / "columns.csv"), "--compare", run]
    assert cli.main(["report", run, *more, "--diagnose", "-o", str(output)]) == 0
    assert output.as_uri() in "".join(capsys.readouterr().out.split())
    text = output.read_text()
    assert '"name":"length"' in text and '"classes":["left","right"]' in text and '"dimensions":3' in text
    assert text.count('"name":"run.npz"') == 2 and '"diagnosis":{"verdict"' in text
    assert "graph of the run is not known" not in text  # the points give it
    assert cli.main(["report", run, "--diagnose", "-o", str(output)]) == 0
    assert "graph of the run is not known" in output.read_text()


@pytest.fixture(scope="module")
def table(folder):
    """A table whose first column names the rows, and a run of it."""
    X = np.load(folder / "points.npy")
    lines = [f"cell{k},{','.join(map(repr, row.tolist()))}" for k, row in enumerate(X[:, :3])]
    (folder / "clean.csv").write_text("cell,a,b,c\n" + "\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        command = ["fit", str(folder / "clean.csv"), "--columns", "a,b", "--index-col", "cell", *FIT]
        assert cli.main([*command, "-o", str(folder / "cells.npz"), "--quiet"]) == 0
    return folder


def test_points_are_read_as_fit_reads_them_and_may_be_the_colours_too(table):
    clean = str(table / "clean.csv")
    both = ["report", str(table / "cells.npz"), "--points", clean, "--color", clean]
    assert cli.main([*both, "--columns", "a,b", "--index-col", "cell", "-o", str(table / "both.html"), "-q"]) == 0
    assert '"dimensions":2' in (table / "both.html").read_text()


def test_wrong_use_is_named_and_no_input_is_written_over(table, capsys):
    run, page, points = str(table / "cells.npz"), table / "page.html", str(table / "points.npy")
    page.write_text("mine")
    for command, status, words in (
        (["-o", "page.pdf"], 2, "-o must end in .html"),
        (["-o", str(table / "none" / "a.html")], 1, "does not exist"),
        (["--color", points], 1, "columns are read from .csv, .tsv"),
        (["--points", str(table / "clean.csv"), "--index-col", "cell"], 1, "2 columns, got 3; choose them as for"),
        (["--columns", "a,b", "--key", "X"], 2, "--key and --columns need --points, the file to read"),
        *((["-o", str(page), option, str(page)], 2, f"{option} and -o must be different files")
          for option in ("--points", "--color", "--compare")),
    ):  # fmt: skip
        assert cli.main(["report", run, *command]) == status
        assert words in " ".join(capsys.readouterr().err.split())
    assert page.read_text() == "mine"
