"""``--color``: the table that colours the pictures of ``plot`` and ``report``."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu import cli, datasets, load
from ies_gpu.cli.console import Console
from ies_gpu.cli.saved import PANELS, for_picture, read_colors
from tests.said import refused

pytestmark = pytest.mark.usefixtures("plain_kernels")
N = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colours")
    X = datasets.load("D1", n_samples=N).X
    lines = [f"c{k},{','.join(map(repr, row.tolist()))},{'left' if row[0] < 0 else 'right'}" for k, row in enumerate(X)]
    (folder / "table.csv").write_text("cell,x,y,z,side\n" + "\n".join(lines) + "\n")
    (folder / "mixed.csv").write_text("name,number\n" + "".join(f"c{k},{k}\n" for k in range(N - 1, -1, -1)))
    chosen = ["--columns", "x,y,z", "--index-col", "cell", "-d", "2", "-s", "2", "--bandwidth", "1.2", "-m", "8", "-q"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        assert cli.main(["fit", str(folder / "table.csv"), *chosen, "-o", str(folder / "run.npz")]) == 0
    return folder


def test_a_table_colours_the_points_by_the_names_of_its_rows(folder, capsys):
    run, console = load(folder / "run.npz"), Console(None, "quiet")
    colors = for_picture(read_colors(str(folder / "mixed.csv"), run), console)
    assert list(colors) == ["number"]  # a class per point shows nothing
    np.testing.assert_array_equal(colors["number"], np.arange(N))
    whole = for_picture(read_colors(str(folder / "table.csv"), run), console)
    assert list(whole) == ["x", "y", "z", "side"]
    np.testing.assert_array_equal(whole["side"], np.where(whole["x"] < 0, "left", "right"))
    assert len(for_picture({f"{k}": np.arange(N) for k in range(20)}, console)) == PANELS
    picture = ["plot", str(folder / "run.npz"), "-o", str(folder / "map.png"), "--color", str(folder / "mixed.csv")]
    assert cli.main(picture) == 0
    assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_has_the_same_columns(folder):
    points = ["--points", str(folder / "table.csv"), "--columns", "x,y,z", "--index-col", "cell"]
    page = ["-o", str(folder / "page.html"), "--color", str(folder / "table.csv"), "-q"]
    assert cli.main(["report", str(folder / "run.npz"), *points, *page]) == 0
    assert '"classes":["left","right"]' in (folder / "page.html").read_text()


def test_wrong_colours_are_refused(folder, capsys):
    (folder / "short.csv").write_text("a\n1\n2\n")
    assert cli.main(["plot", str(folder / "run.npz"), "--color", str(folder / "short.csv")]) == 1
    assert "one value for each of 300 points" in " ".join(capsys.readouterr().err.split())
    with refused("file.ending"):
        read_colors(str(folder / "run.npz"), load(folder / "run.npz"))
    assert cli.main(["plot", "run.npz", "--kind", "path", "--color", "a.csv"]) == 2
    assert "--color is for --kind embedding, got path" in capsys.readouterr().err
