"""``show``, ``plot``, ``report`` and ``transform``, on a run of a table whose rows have names."""

import json
import re
import warnings

import numpy as np
import pytest

from ies_gpu import cli, load
from ies_gpu.cli.console import Console
from ies_gpu.cli.saved import PANELS, for_picture, read_colors
from ies_gpu.files.points import read_table
from tests.manifolds import rectangle
from tests.said import refused

pytestmark = [
    pytest.mark.usefixtures("plain_kernels"),
    pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning"),  # of two points that are left out
]
STRIP, _, EPS = rectangle(400, 3.1, degree=60)
POINTS = np.insert(STRIP, [100, 400], [[90.0] * 3, [-90.0] * 3], axis=0)  # rows 100 and 401 are far from all others
N = len(POINTS)
USED = np.setdiff1d(np.arange(N), [100, 401])
NAMES = tuple(f"cell {k}" for k in range(N))
FIT = ["-d", "2", "-s", "2", "--bandwidth", str(EPS), "-m", "8", "--disconnected", "largest", "-q"]
COLUMNS = ["--columns", "x,y,z"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and results: ``named.npz`` knows the names of the rows, ``plain.npz`` does not."""
    folder = tmp_path_factory.mktemp("saved")
    side = np.where(POINTS[:, 0] < 1, "left", "right")
    lines = [f"{NAMES[k]},{','.join(map(repr, row))},{side[k]}" for k, row in enumerate(POINTS.tolist())]
    (folder / "table.csv").write_text("id,x,y,z,side\n" + "\n".join(lines) + "\n")
    (folder / "mixed.csv").write_text("name,number\n" + "".join(f"{NAMES[k]},{k}\n" for k in reversed(range(N))))
    (folder / "short.csv").write_text("a\n1\n2\n")
    np.save(folder / "points.npy", POINTS)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("IES_GPU_KERNELS", "plain")
        warnings.simplefilter("ignore")
        for name, more, page in (("named", ["--index-col", "id"], ["--report"]), ("plain", [], [])):
            outputs = [f"--{kind}={folder / name}-{kind}.npz" for kind in ("output", "model")]
            outputs += [f"--coordinates={folder / name}-map.csv", *(f"{flag}={folder}/fit.html" for flag in page)]
            assert cli.main(["fit", str(folder / "table.csv"), *FIT, *COLUMNS, *more, *outputs]) == 0
    return folder


def run(folder, *words):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return cli.main([*words])


def test_show(folder, capsys):
    names = load(folder / "named-output.npz").names
    assert run(folder, "show", "named-output.npz") == 0
    out = capsys.readouterr().out
    assert re.search(rf"{', '.join(names)} +<- chosen", out) and "Best sets at zeta" in out
    assert run(folder, "show", "named-output.npz", "--json") == 0
    assert json.loads(capsys.readouterr().out)["names"] == list(names)


@pytest.mark.parametrize(("name", "more"), [("named", ["--index-col", "id"]), ("plain", [])])
@pytest.mark.parametrize("ending", ["csv", "npy"])
def test_row_i_of_coordinates_and_new_points_is_row_i_of_the_input(folder, name, more, ending):
    """Whatever was left out, and by its name where it has one."""
    new = f"new.{ending}"
    assert run(folder, "transform", f"{name}-model.npz", "table.csv", *COLUMNS, *more, "-o", new, "-q") == 0
    found, whole = load(folder / f"{name}-output.npz"), np.full((N, 2), np.nan)
    whole[USED] = found.embedding
    by_name = {"index_col": "name"} if name == "named" else {}
    written, moved = (read_table(folder / f, **by_name if f.endswith("csv") else {}) for f in (f"{name}-map.csv", new))
    np.testing.assert_array_equal(written.X, whole)
    np.testing.assert_allclose(moved.X, whole, atol=1e-7)
    assert written.rows == (NAMES if name == "named" else None) and written.columns == found.names
    assert ending == "npy" or (moved.rows, moved.columns) == (written.rows, found.names)
    if name == "named":
        assert found.index.tolist() == list(found.to_pandas().index) == [NAMES[k] for k in USED]


def test_new_points_without_neighbours(folder, capsys):
    np.save(folder / "far.npy", STRIP[:3] + 999)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(folder, "transform", "plain-model.npz", "far.npy", "-o", "far-map.npy", "--json") == 0
    out, err = capsys.readouterr()
    names = list(load(folder / "plain-output.npz").names)
    assert json.loads(out) == {"output": "far-map.npy", "names": names, "n_points": 3}
    assert "3 of 3 new points have no training point" in err and np.isnan(np.load(folder / "far-map.npy")).all()
    more = ["--isolated", "nearest", "-q"]
    assert run(folder, "transform", "plain-model.npz", "far.npy", "-o", "far-map.npy", *more) == 0
    assert np.isfinite(np.load(folder / "far-map.npy")).all()


def test_pictures(folder, capsys):
    assert run(folder, "plot", "plain-output.npz") == 0
    assert (folder / "plain-output.png").read_bytes().startswith(b"\x89PNG")
    assert "plain-output.png" in capsys.readouterr().out
    for kind, more in (("path", []), ("volumes", []), ("embedding", ["--color", "mixed.csv"])):
        assert run(folder, "plot", "named-output.npz", "--kind", kind, "-o", f"{kind}.svg", *more) == 0
        assert b"<svg" in (folder / f"{kind}.svg").read_bytes()


def test_a_table_colours_the_points_by_the_names_of_its_rows(folder):
    found, console = load(folder / "named-output.npz"), Console(None, "quiet")
    colors = for_picture(read_colors(str(folder / "mixed.csv"), found), console)
    assert list(colors) == ["number"]  # a class per point shows nothing
    np.testing.assert_array_equal(colors["number"], USED)
    whole = for_picture(read_colors(str(folder / "table.csv"), found), console)
    assert list(whole) == ["x", "y", "z", "side"]
    np.testing.assert_array_equal(whole["side"], np.where(whole["x"] < 1, "left", "right"))
    assert len(for_picture({f"{k}": np.arange(N) for k in range(20)}, console)) == PANELS
    with refused("file.ending"):
        read_colors(str(folder / "named-output.npz"), found)


def test_a_report_takes_points_colours_and_another_run(folder, capsys):
    """The points are read as ``fit`` reads them, and their file may have the colours too."""
    assert '"title":"table.csv"' in (folder / "fit.html").read_text()
    points = ["--points", "table.csv", *COLUMNS, "--index-col", "id", "--color", "table.csv"]
    more = ["--compare", "plain-output.npz", "--diagnose", "-o", "my report.html"]
    assert run(folder, "report", "named-output.npz", *points, *more) == 0
    page = folder / "my report.html"
    assert page.as_uri() in "".join(capsys.readouterr().out.split())
    text = page.read_text()
    assert text.startswith("<!doctype html>") and '"dimensions":3' in text
    assert '"name":"x"' in text and '"classes":["left","right"]' in text
    assert all(text.count(f'"name":"{name}-output.npz"') == 1 for name in ("named", "plain"))
    assert '"diagnosis":{"verdict"' in text and "graph of the run is not known" not in text  # the points give it
    assert run(folder, "report", "named-output.npz", "--diagnose", "-o", "my report.html") == 0
    assert "graph of the run is not known" in page.read_text()


def test_wrong_use_is_named_and_no_input_is_written_over(folder, capsys):
    (folder / "page.html").write_text("mine")
    before = sorted(folder.iterdir())
    for line, status, words in (
        ("plot plain-output.npz --color short.csv", 1, f"one value for each of {N - 2} points"),
        ("plot plain-output.npz --kind path --color a.csv", 2, "--color is for --kind embedding, got path"),
        ("report named-output.npz -o page.pdf", 2, "-o must end in .html"),
        ("report named-output.npz -o none/a.html", 1, "does not exist"),
        ("report named-output.npz --color points.npy", 1, "columns are read from .csv, .tsv"),
        ("report named-output.npz --points table.csv --columns x,y --index-col id", 1, "got 2; choose them as for"),
        ("report named-output.npz --columns a,b --key X", 2, "--key and --columns need --points, the file to read"),
        *((f"report named-output.npz -o page.html {option} page.html", 2, f"{option} and -o must be different files")
          for option in ("--points", "--color", "--compare")),
        ("transform named-model.npz table.csv --columns y,x,z -o out.npy", 1, "in another order"),
        ("transform named-model.npz table.csv --columns x,y -o out.npy", 1, "has other columns"),
        ("transform table.csv points.npy -o out.npy", 1, "is not an .npz file"),
        ("transform named-model.npz points.npy", 2, "required: -o"),
        ("transform named-model.npz points.npy -o points.npy", 2, "POINTS and -o must be different files"),
        ("show named-model.npz", 1, "holds a model, and a result is needed"),
        ("fit points.npy -o a.npz --model a.npz", 2, "-o and --model must be different files"),
    ):  # fmt: skip
        assert run(folder, *line.split()) == status
        assert words in " ".join(capsys.readouterr().err.split()), line
    assert sorted(folder.iterdir()) == before
    assert (folder / "page.html").read_text() == "mine" and np.load(folder / "points.npy").shape == (N, 3)
