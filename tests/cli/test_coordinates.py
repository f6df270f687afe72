"""``fit --coordinates`` and ``transform``: a row for every point of the input, by its name, whatever was left out."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from ies_gpu import load
from ies_gpu.cli import main
from ies_gpu.files.points import read_table
from tests.manifolds import rectangle

STRIP, _, EPS = rectangle(600, 3.1, degree=60)
FAR = np.full((1, 3), 90.0)
POINTS = np.vstack([STRIP[:100], FAR, STRIP[100:], -FAR])  # rows 100 and 601 are far from all others
USED = np.setdiff1d(np.arange(len(POINTS)), [100, 601])
NAMES = tuple(f"cell {k}" for k in range(len(POINTS)))


@pytest.mark.parametrize(("ending", "named"), [("npy", False), ("csv", False), ("csv", True)])
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_row_i_of_the_file_is_row_i_of_the_input(tmp_path, monkeypatch, ending, named):
    monkeypatch.chdir(tmp_path)
    with open("points.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "note", "x", "y", "z"])
        writer.writerows([[NAMES[k], "text", *row] for k, row in enumerate(POINTS.tolist())])
    columns = ["--columns", "x,y,z", *(["--index-col", "id"] if named else []), "-q"]
    fit = ["-d", "2", "-s", "2", "--bandwidth", str(EPS), "-m", "8", "--disconnected", "largest", *columns]
    outputs = ["-o", "run.npz", "--model", "model.npz", "--coordinates", f"map.{ending}"]
    assert main(["fit", "points.csv", *fit, *outputs]) == 0
    assert main(["transform", "model.npz", "points.csv", *columns, "-o", f"new.{ending}"]) == 0
    run, whole = load("run.npz"), np.full((len(POINTS), 2), np.nan)
    whole[USED] = run.embedding
    found, moved = (read_table(f"{name}.{ending}", index_col="name" if named else None) for name in ("map", "new"))
    np.testing.assert_array_equal(found.X, whole)
    np.testing.assert_allclose(moved.X, whole, atol=1e-7)
    assert found.rows == moved.rows == (NAMES if named else None)
    assert found.columns == (None if ending == "npy" else run.names)
    if named:
        assert run.index.tolist() == list(run.to_pandas().index) == [NAMES[k] for k in USED]
