"""Named columns of numbers and words from text files."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.files.columns import read_columns
from tests.extras import needed


def test_columns_have_the_kinds_of_their_cells(tmp_path):
    path = tmp_path / "columns.csv"
    path.write_text('\ufeffage,weight,"cell, type"\n3,1.5,T\n4,,"B ""x"""\n5,2e3,NA\n', encoding="utf-8")
    found = read_columns(path)
    assert list(found) == ["age", "weight", "cell, type"]
    assert found["age"].dtype.kind == "i" and found["age"].tolist() == [3, 4, 5]
    np.testing.assert_array_equal(found["weight"], [1.5, np.nan, 2000.0])
    assert found["cell, type"].tolist() == ["T", 'B "x"', None]
    path = tmp_path / "columns.tsv"
    path.write_text("a\tb\n1\tx,y\n")
    assert read_columns(path)["b"].tolist() == ["x,y"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "a\n1\n", "not from '.txt'"),
        ("a.csv", "a,b\n1\n", "line 2: 1 cells, but there are 2 names"),
        ("a.csv", "a,a\n1,2\n", "same name"),
        ("a.csv", "a\n", "got 1 lines"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        read_columns(tmp_path / name)


def test_an_underscore_makes_a_label(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1_0,1_0.5\n10,10.5\n")
    found = read_columns(tmp_path / "a.csv")
    assert found["a"].tolist() == ["1_0", "10"] and found["b"].tolist() == ["1_0.5", "10.5"]


def test_the_row_names_of_r_have_no_name_of_their_own(tmp_path):
    (tmp_path / "a.csv").write_text('"age","type"\n"A",3,"T"\n"B",4,"C"\n')
    found = read_columns(tmp_path / "a.csv")
    assert {name: values.tolist() for name, values in found.items()} == {
        "": ["A", "B"],
        "age": [3, 4],
        "type": ["T", "C"],
    }


def test_an_empty_cell_of_a_single_column_keeps_its_row(tmp_path):
    (tmp_path / "a.csv").write_text("\ntype\nT\n\nB\n\n\n")
    assert read_columns(tmp_path / "a.csv")["type"].tolist() == ["T", None, "B"]
    (tmp_path / "a.csv").write_text("a,b\n1,2\n\n3,4\n")
    assert read_columns(tmp_path / "a.csv")["a"].tolist() == [1, 3]


@pytest.mark.parametrize("ending", ["parquet", "feather", "h5ad", "fits"])
def test_other_tables_have_columns_too(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    pandas = needed("pandas", "test")
    frame = pandas.DataFrame({"age": [3, 4, 5], "weight": [1.5, np.nan, 2000.0], "type": ["T", "B", "T"]})
    if ending == "h5ad":
        cells = needed("anndata", "anndata").AnnData(X=np.zeros((3, 1)), obs=frame.set_index(pandas.Index(list("abc"))))
        cells.write_h5ad(path)
    elif ending == "fits":
        needed("astropy", "astro")
        from astropy.table import Table

        Table.from_pandas(frame).write(path)
    else:
        needed("pyarrow", "files")
        getattr(frame, f"to_{ending}")(path)
    found = read_columns(path)
    assert list(found)[-3:] == ["age", "weight", "type"]
    assert found["age"].dtype.kind == "i" and found["age"].tolist() == [3, 4, 5]
    np.testing.assert_array_equal(found["weight"], [1.5, np.nan, 2000.0])
    assert found["type"].tolist() == ["T", "B", "T"]
    assert ending != "h5ad" or found["name"].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".h5ad"])
def test_only_the_columns_that_are_picked_are_made(tmp_path, monkeypatch, ending):
    """Of a table with many columns, one that colours the points takes no longer than itself."""
    import ies_gpu.files.columns as module

    table = needed("pandas", "test").DataFrame({"a": [1, 2], "type": ["T", "B"], "c": [0.5, 1.5]}, index=["x", "y"])
    path = tmp_path / f"t{ending}"
    if ending == ".csv":
        table.to_csv(path)
    elif ending == ".parquet":
        needed("pyarrow", "files")
        table.to_parquet(path)
    else:
        needed("anndata", "anndata").AnnData(np.zeros((2, 1)), obs=table).write_h5ad(path)
    whole, made = read_columns(path), []
    for name in ("_typed", "_plain_column"):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda cells, original=original: made.append(1) or original(cells))
    found = read_columns(path, lambda names: [name for name in names if name == "type"])
    assert len(whole) == 4 and len(made) == 1
    assert list(found) == ["type"] and found["type"].tolist() == whole["type"].tolist() == ["T", "B"]
