"""``--color``: the columns that colour the pictures of ``fit`` and ``plot``."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import cli, datasets, plot

pytestmark = pytest.mark.usefixtures("plain_kernels")
N = 300
FIT = ["-d", "2", "-s", "2", "--bandwidth", "1.2", "-m", "8", "-q"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colours")
    X = datasets.load("D1", n_samples=N).X
    lines = [f"c{k},{','.join(map(repr, row.tolist()))},{'left' if row[0] < 0 else 'right'}" for k, row in enumerate(X)]
    (folder / "table.csv").write_text("cell,x,y,z,side\n" + "\n".join(lines) + "\n")
    (folder / "mixed.csv").write_text("name,number\n" + "".join(f"c{k},{k}\n" for k in range(N - 1, -1, -1)))
    np.save(folder / "points.npy", X)
    return folder


@pytest.fixture
def drawn(monkeypatch):
    """What the pictures were coloured by."""
    found, draw = [], plot.embedding

    def embedding(selection, **options):
        found.append(options.get("colors"))
        return draw(selection, **options)

    monkeypatch.setattr(plot, "embedding", embedding)
    return found


def fit(folder, *more, table="table.csv"):
    chosen = ["--columns", "x,y,z", "--index-col", "cell"] if table == "table.csv" else []
    return cli.main(["fit", str(folder / table), *chosen, *FIT, "-o", str(folder / "run.npz"), *more])


def test_columns_of_the_table_colour_the_picture(folder, drawn):
    assert fit(folder, "--plot", str(folder / "map.png"), "--color", "side,x,y") == 0
    assert list(drawn[0]) == ["side", "x", "y"]
    x = np.load(folder / "points.npy")[:, 0]
    np.testing.assert_array_equal(drawn[0]["side"], np.where(x < 0, "left", "right"))
    np.testing.assert_array_equal(drawn[0]["x"], x)


def test_a_file_colours_the_picture_by_the_names_of_the_rows(folder, drawn):
    assert fit(folder, "--plot", str(folder / "map.png"), "--color", str(folder / "mixed.csv")) == 0
    assert list(drawn[0]) == ["number"]  # a class per point shows nothing
    np.testing.assert_array_equal(drawn[0]["number"], np.arange(N))
    again = ["plot", str(folder / "run.npz"), "-o", str(folder / "again.png"), "--color", str(folder / "mixed.csv")]
    assert cli.main(again) == 0
    np.testing.assert_array_equal(drawn[1]["number"], np.arange(N))


def test_the_report_has_the_same_columns(folder):
    assert fit(folder, "--report", str(folder / "page.html"), "--color", "side") == 0
    assert '"classes":["left","right"]' in (folder / "page.html").read_text()
    points = ["--points", str(folder / "table.csv"), "--columns", "x,y,z", "--index-col", "cell", "--color", "side"]
    (folder / "page.html").unlink()
    assert cli.main(["report", str(folder / "run.npz"), *points, "-o", str(folder / "page.html"), "-q"]) == 0
    assert '"classes":["left","right"]' in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("table", "color", "status", "words"),
    [
        ("table.csv", "size", 1, "has no column 'size'; it has 5 columns: cell, x, y, z, side"),
        ("points.npy", "side", 1, "points.npy has no columns to colour by; give a table with one row per point"),
        ("table.csv", "short.csv", 1, "has 2 rows, but there are 300 points; give one row per point"),
        ("table.csv", "map.csv", 2, "--color and --coordinates must be different files"),
        ("table.csv", None, 2, "--color is for the pictures of --plot and --report"),
    ],
)
def test_wrong_colours_are_found_before_the_run(folder, table, color, status, words, no_run, capsys):
    (folder / "short.csv").write_text("a\n1\n2\n")
    path = str(folder / color) if color and color.endswith(".csv") else color or "side"
    more = ["--plot", str(folder / "map.png"), "--coordinates", str(folder / "map.csv")] if color else []
    assert fit(folder, "--color", path, *more, table=table) == status
    assert words in " ".join(capsys.readouterr().err.split())


def test_only_the_map_has_colours(folder, capsys):
    assert cli.main(["plot", "run.npz", "--kind", "path", "--color", "a.csv"]) == 2
    assert "--color is for --kind embedding, got path" in capsys.readouterr().err
