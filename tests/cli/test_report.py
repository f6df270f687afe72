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


def test_wrong_use_is_named_before_any_work(folder, capsys):
    run = str(folder / "run.npz")
    assert cli.main(["report", run, "-o", str(folder / "page.pdf")]) == 2
    assert "-o must end in .html" in capsys.readouterr().err
    assert cli.main(["fit", str(folder / "points.npy"), *FIT, "--report", str(folder / "none" / "a.html")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert cli.main(["report", run, "--color", str(folder / "points.npy")]) == 1
    assert "columns are read from .csv, .tsv" in capsys.readouterr().err


@pytest.fixture(scope="module")
def table(folder):
    """A table whose first column names the rows, a run of it, and its points."""
    X = np.load(folder / "points.npy")
    lines = [f"cell{k},{','.join(map(repr, row.tolist()))}" for k, row in enumerate(X[:, :3])]
    (folder / "clean.csv").write_text("cell,a,b,c\n" + "\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        command = ["fit", str(folder / "clean.csv"), "--columns", "a,b", "--index-col", "cell", *FIT]
        assert cli.main([*command, "-o", str(folder / "cells.npz"), "--quiet"]) == 0
    return folder


def test_points_are_read_as_fit_reads_them_and_may_be_the_colours_too(table, capsys):
    clean = str(table / "clean.csv")
    both = ["report", str(table / "cells.npz"), "--points", clean, "--color", clean]
    assert cli.main([*both, "--index-col", "cell"]) == 1
    assert "with 2 columns, got 3; choose them as for 'ies-gpu fit', with --columns" in error_of(capsys)
    assert cli.main([*both, "--columns", "a,b", "--index-col", "cell", "-o", str(table / "both.html"), "-q"]) == 0
    assert '"dimensions":2' in (table / "both.html").read_text()
    assert cli.main([*both[:2], "--columns", "a,b", "--key", "X"]) == 2
    assert "--key and --columns need --points, the file to read" in error_of(capsys)


def test_no_input_is_written_over(table, capsys):
    (table / "page.html").write_text("mine")
    command = ["report", str(table / "cells.npz"), "-o", str(table / "page.html")]
    for option in ("--points", "--color", "--compare"):
        assert cli.main([*command, option, str(table / "page.html")]) == 2
        assert f"{option} and -o must be different files" in error_of(capsys)
    assert (table / "page.html").read_text() == "mine"


def error_of(capsys):
    return " ".join(capsys.readouterr().err.split())
