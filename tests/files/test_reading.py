"""Points, names and colours from every kind of file: the same numbers, and one clear sentence for everything else."""

import os
import sys

import numpy as np
import pandas
import pytest

from ies_gpu.files.points import READ_BYTES, READERS, TABLES, read_columns, read_points, read_table
from ies_gpu.files.writing import WRITTEN, write_table
from tests.extras import needed
from tests.said import refused, warned

NAMES = [f"cell{k}" for k in range(40)]
POINTS = np.random.default_rng(0).normal(size=(40, 3))
FRAME = pandas.DataFrame(POINTS, columns=["a", "b", "c"], index=pandas.Index(NAMES, name="cell"))
SEPARATOR = {".csv": ",", ".tsv": "\t", ".txt": " "}


def write_points(path, frame=FRAME):
    """Write numbers alone, by the library that owns the format."""
    X, ending = frame.to_numpy(), path.suffix
    if ending == ".npy":
        np.save(path, X)
    elif ending == ".npz":
        np.savez_compressed(path, X=X, other=np.zeros((2, 2)), words=np.array(["a"], dtype=object))
    elif ending in SEPARATOR:
        frame.to_csv(path, sep=SEPARATOR[ending], index=False, float_format="%.17g")
    else:
        h5py = needed("h5py", "files")
        with h5py.File(path, "w") as file:
            file["run/X"], file["names"], file["soft"] = X, NAMES, h5py.SoftLink("/run/X")


@pytest.mark.parametrize("ending", READERS)
def test_every_kind_of_file(tmp_path, ending):
    write_points(path := tmp_path / f"points{ending}")
    np.testing.assert_array_equal(read_points(path), POINTS)


def test_the_principal_components_of_cells_are_their_points(tmp_path):
    anndata = needed("anndata", "anndata")
    counts, other = np.ones((len(POINTS), 4)), np.zeros((len(POINTS), 2))
    cells = anndata.AnnData(counts, obsm={"X_umap": other, "X_pca": POINTS})
    cells.write_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(read_points(tmp_path / "cells.h5ad"), POINTS)
    np.testing.assert_array_equal(read_points(tmp_path / "cells.h5ad", key="obsm/X_umap"), other)


@pytest.mark.parametrize("dtype", ["float16", ">f8", "int32", "bool"])
def test_npy_of_any_real_dtype_is_read_if_small_and_mapped_if_large(tmp_path, dtype):
    """A mapped file that somebody cuts short ends the process, by SIGBUS."""
    path, values = tmp_path / "points.npy", POINTS.astype(dtype)
    np.save(path, values)
    found = read_points(str(path))
    os.truncate(path, 0)
    shape = READ_BYTES // values[0].nbytes + 1, 3
    large = np.lib.format.open_memmap(path, "w+", dtype, shape)  # sparse
    large[: len(values)] = values
    mapped = read_points(path)
    assert not isinstance(found, np.memmap) and isinstance(mapped, np.memmap)
    assert found.dtype == mapped.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(mapped[: len(values)], values)


def test_the_array_that_can_be_the_points(tmp_path):
    for arrays, key in (
        ({"anything": POINTS}, None),
        ({"X": POINTS, "y": POINTS * 2}, None),
        ({"cloud": POINTS, "labels": np.arange(40), "name": np.array("strip")}, None),
        ({"R": POINTS, "E": POINTS[:, :1]}, None),
        ({"first": POINTS * 2, "second": POINTS}, "second"),
    ):
        np.savez_compressed(tmp_path / "points.npz", **arrays)
        np.testing.assert_array_equal(read_points(tmp_path / "points.npz", key=key), POINTS)


@pytest.mark.parametrize("ending", TABLES)
def test_names_of_rows_and_chosen_columns(tmp_path, ending):
    path = tmp_path / f"points{ending}"
    FRAME.to_csv(path, sep=SEPARATOR[ending], float_format="%.17g")
    for names, columns, wanted in (("cell", None, "abc"), ("0", ("c", "a"), "ca"), ("cell", ("3", "1"), "ca")):
        found = read_table(path, index_col=names, columns=columns)
        np.testing.assert_array_equal(found.X, FRAME[list(wanted)].to_numpy())
        assert found.rows == tuple(NAMES) and found.columns == tuple(wanted)
    for choice, code in (({"columns": ("d",)}, "no_column"), ({}, "not_a_number"), ({"key": "X"}, "option")):
        with refused(f"file.{code}"):
            read_table(path, **choice)
    found = read_columns(path)
    assert list(found) == ["cell", "a", "b", "c"] and found["cell"].tolist() == NAMES
    np.testing.assert_array_equal(found["b"], POINTS[:, 1])


@pytest.fixture
def table(tmp_path):
    def read(text, ending=".csv", read=read_table, **choice):
        path = tmp_path / f"table{ending}"
        path.write_text(text)
        return read(path, **choice)

    return read


def test_text_gives_every_bit_back_and_a_first_line_that_counts_is_taken_for_names(table):
    with warned("table.header"):  # as pandas writes columns without names; it may be a point all the same
        found = table("0,1,2\n5,6,7\n")
    assert found.X.tolist() == [[5, 6, 7]] and found.columns == ("0", "1", "2")
    lines = "".join(",".join(map(repr, row)) + "\n" for row in POINTS.tolist())
    for ending, mark in ((".csv", ","), (".tsv", "\t"), (".txt", " "), (".csv", "\t")):
        for header in ("", "x,y,z\n", "\ufeff# by hand\n\nx,y,z\n", '"a","c","d"\r\n'):
            np.testing.assert_array_equal(table((header + lines).replace(",", mark), ending).X, POINTS)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("text", "choice", "columns", "rows"),
    [
        ("# by hand\n  # twice\na#1,a#2\n1,2\n3,4\n", {}, ("a#1", "a#2"), None),  # a # within a line begins no comment
        ('id,x,y\n"A #1",1,2\nB#2,3,4\n', {"index_col": "id"}, ("x", "y"), ("A #1", "B#2")),
        (",x,y\n0,1,2\n1,3,4\n", {}, ("x", "y"), ("0", "1")),  # as pandas writes them
        ('"x","y"\n"A",1,2\n"B",3,4\n', {}, ("x", "y"), ("A", "B")),  # as R's write.table does
        ('"p,q",x,y\n"A,B",1,2\nC,3,4\n', {"index_col": "p,q"}, ("x", "y"), ("A,B", "C")),
        ("x,z,x,y\n1,0,0,2\n3,0,0,4\n", {"columns": ("0", "y")}, ("x", "y"), None),
        ("c,0,1\nA,1,2.0\nB,3,4\n", {"index_col": "0"}, ("0", "1"), ("A", "B")),  # never the column called 0
        ("c,0,1\nA,1,2.0\nB,3,4\n", {"columns": ("0", "1")}, ("0", "1"), None),
        ("2019,2020\n1,2\n3,4\n", {"columns": ("2019", "2020")}, ("2019", "2020"), None),
        ("1,2\n3,4\n", {}, None, None),
    ],
)
def test_headers_and_names_in_text(table, text, choice, columns, rows):
    found = table(text, **choice)
    assert found.X.tolist() == [[1, 2], [3, 4]] and found.columns == columns and found.rows == rows


@pytest.mark.parametrize(("mark", "ending"), [(" ", ".txt"), ("\t", ".txt"), ("\t", ".csv")])
def test_what_stands_in_quotes_separates_nothing(table, mark, ending):
    lines = (['"x, mm"', '"y, mm"'], ['"A"', "1", "2"], ['"B"', "3", "4"])
    found = table("".join(f"{mark.join(line)}\n" for line in lines), ending)
    assert found.X.tolist() == [[1, 2], [3, 4]] and found.columns == ("x, mm", "y, mm") and found.rows == ("A", "B")


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("x,y\n1,2\n\n3,abc\n", "not_a_number", "line 4, column 'y'"),
        ("1,2\n3,\n", "not_a_number", "line 2, column 2"),
        ("1,2\nNA,3\n", "not_a_number", "--index-col"),
        ("x;y\n1.5;2\n", "not_a_number", "'1.5;2' is not"),
        ("1,5;2,5\n3,5;4,5\n", "not_a_number", "decimal points"),
        ("1,2\n3,4,5\n", "cells", "line 2"),
        ("x;y\n1,5;2,5\n", "header", "commas"),
        ("x,y\n1,2,3,4\n4,5,6,7\n", "header", "give every column a name"),
        ("x,y,z\n1,2\n3,4\n", "header", "3 names"),
        ("x,y\n", "empty", "no points"),
        ("# nothing\n\n", "empty", "no lines"),
        ("x,word,x\n1,a,2\n", "column_repeated", "0 or 2"),
        (f"{','.join('abcdefghijkl')}\n{','.join('1' * 12)}\n", "no_column", "a, b"),
    ],
)
def test_bad_text_names_the_place(table, text, code, place):
    with refused(f"file.{code}") as caught:
        table(text, columns=("x",) if "column" in code else None)
    told = str(caught.value)
    assert "table.csv" in told and place in told and "\n" not in told


def test_colours_have_the_kinds_of_their_cells(table):
    text = '\ufeffage,weight,"cell, type",label\n3,1.5,T,1_0\n4,,"B ""x""",10\n5,2e3,NA,11\n'
    found = table(text, read=read_columns)
    assert found["age"].dtype.kind == "i" and found["age"].tolist() == [3, 4, 5]
    np.testing.assert_array_equal(found["weight"], [1.5, np.nan, 2000.0])
    assert found["cell, type"].tolist() == ["T", 'B "x"', None]
    assert found["label"].tolist() == ["1_0", "10", "11"]  # which is ten in Python only
    long = table(f"c\n{'9' * 5000}\n3\n", read=read_columns)  # more digits than Python converts
    assert long["c"].tolist() == [np.inf, 3.0]
    assert table("1\n2\n", ".txt", read=read_columns)["0"].tolist() == [1, 2]
    for text, ending, code in (("a,a\n1,2\n", ".csv", "column_repeated"), ("", ".npy", "ending")):
        with refused(f"file.{code}"):
            table(text, ending, read=read_columns)


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    (tmp_path / "points.csv.gz").write_bytes(b"x")
    np.savez(tmp_path / "several.npz", a=POINTS, b=POINTS)
    for name, key, code in (
        ("no.npy", None, "missing"), ("", None, "special"), ("points.csv.gz", None, "ending"),
        ("several.npz", None, "no_array"), ("several.npz", "third", "no_array"),
    ):  # fmt: skip
        with refused(f"file.{code}", (ValueError, FileNotFoundError)):
            read_points(tmp_path / name, key=key)
    write_points(tmp_path / "points.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"needs h5py: pip install 'ies-gpu\[files\]'"):
        read_points(tmp_path / "points.h5")


@pytest.mark.parametrize("ending", WRITTEN)
def test_what_is_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"map{ending}"
    write_table(path, POINTS, ["phi1", "phi2", "phi7"], rows=NAMES)
    found = read_table(path, **({} if ending == ".npy" else {"index_col": "name"}))
    np.testing.assert_array_equal(found.X, POINTS)
    assert ending == ".npy" or (found.rows, found.columns) == (tuple(NAMES), ("phi1", "phi2", "phi7"))
    before = path.read_bytes()
    with pytest.raises((ValueError, TypeError)):  # the old file stays
        write_table(path, np.array([[object()]]), ["a"], rows=["x"])
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
