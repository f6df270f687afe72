"""Tables with named columns: the index that pandas wrote."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.cluster.source import Parquet
from ies_gpu.files.points import read_table

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def test_every_level_of_an_index_names_the_rows(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    index = pandas.MultiIndex.from_arrays([["a", "a", "b"], [1, 2, 1]], names=["group", "number"])
    path = tmp_path / "levels.parquet"
    pandas.DataFrame(X, columns=["x", "y"], index=index).to_parquet(path)
    found = read_table(path)
    assert found.columns == ("x", "y") and np.array_equal(found.X, X)
    assert found.rows == ("a, 1", "a, 2", "b, 1")
    assert Parquet(str(path)).columns == ["x", "y"]
    found = read_table(path, index_col="number")  # one level instead of all; no other becomes a coordinate
    assert found.columns == ("x", "y") and found.X.shape == (3, 2)


def test_whole_numbers_of_an_index_stay_whole(tmp_path):
    path = tmp_path / "numbers.parquet"
    pandas.DataFrame({"x": [1.0, 2.0]}, index=pandas.Index([30, 40], name="cell")).to_parquet(path)
    assert read_table(path).rows == ("30", "40")
