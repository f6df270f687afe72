"""``fit --coordinates``: a row for every point of the input, whatever was left out."""

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
FIT = ["-d", "2", "-s", "2", "--bandwidth", str(EPS), "-m", "8", "-q"]


@pytest.mark.parametrize(("ending", "named"), [("npy", False), ("csv", False), ("csv", True)])
@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")
def test_row_i_of_the_file_is_row_i_of_the_input(tmp_path, ending, named):
    source, output, run = (tmp_path / name for name in ("points.csv", f"map.{ending}", "run.npz"))
    names = [f"cell {k}" for k in range(len(POINTS))]
    with open(source, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "x", "y", "z"] if named else ["x", "y", "z"])
        writer.writerows([[names[k]] * named + row for k, row in enumerate(POINTS.tolist())])
    command = ["fit", str(source), *FIT, "--disconnected", "largest", "-o", str(run), "--coordinates", str(output)]
    assert main([*command, *(["--index-col", "id"] if named else [])]) == 0
    whole = np.full((len(POINTS), 2), np.nan)
    whole[np.setdiff1d(np.arange(len(POINTS)), [100, 601])] = load(run).embedding
    found = read_table(output, index_col="name" if named else None)
    np.testing.assert_array_equal(found.X, whole)
    assert found.rows == (tuple(names) if named else None)
