"""Tables of text: headers with quotes, row names without a name, names that are there twice."""

from __future__ import annotations

import numpy as np
import pytest

from ies_gpu.errors import IESWarning
from ies_gpu.files.points import read_table


@pytest.fixture
def table(tmp_path):
    def read(text: str, ending: str = ".csv", **choice):
        path = tmp_path / f"table{ending}"
        path.write_text(text)
        return read_table(path, **choice)

    return read


PLACES = '"place, city",x,y,z\n"A, B",1,2,3\nC,4,5,6\n'


def test_a_quoted_comma_in_the_header_does_not_shift_columns(table):
    found = table(PLACES, columns=("x", "y"))
    assert found.columns == ("x", "y") and found.X.tolist() == [[1, 2], [4, 5]]
    for name in ("0", "place, city"):
        found = table(PLACES, index_col=name)
        assert found.rows == ("A, B", "C") and found.X.tolist() == [[1, 2, 3], [4, 5, 6]]
    found = table('"place, city" x y\n"A B" 1 2\nC 4 5\n', ".txt", columns=("y",))  # no comma separates these
    assert found.X.tolist() == [[2], [5]]


@pytest.mark.parametrize(("ending", "mark"), [(".txt", " "), (".csv", ","), (".tsv", "\t")])
def test_the_row_names_of_r_have_no_name_of_their_own(table, ending, mark):
    text = '"x" "y"\n"1" 10 20\n"2" 30 40\n'.replace(" ", mark)
    found = table(text, ending)
    assert found.rows == ("1", "2") and found.columns == ("x", "y") and found.X.tolist() == [[10, 20], [30, 40]]
    found = table(text, ending, columns=("x",))
    assert found.X.tolist() == [[10], [30]] and found.rows == ("1", "2")
    plain = text.replace('"', "")
    with pytest.raises(ValueError, match=r"2 names \(x, y\), but .* 3 cells; if the first column .* --index-col 0"):
        table(plain, ending)
    assert table(plain, ending, index_col="0").X.tolist() == [[10, 20], [30, 40]]


@pytest.mark.parametrize("text", ["x,y\n1,2,\n3,4,\n", "x,y,z\n1,2\n3,4\n", "x,y\n1,2,3,4\n5,6,7,8\n"])
def test_a_header_of_another_width_is_refused(table, text):
    with pytest.raises(ValueError, match=r"the header has \d names"):
        table(text)


def test_names_with_a_number_sign(table):
    assert table("a#1,a#2\n1,2\n3,4\n").columns == ("a#1", "a#2")
    assert table("x,y # in metres\n1,2 # here\n3,4\n").columns == ("x", "y")
    found = table('id,x\n"A#1",2\n"B#2",4\n', index_col="id")
    assert found.rows == ("A#1", "B#2") and found.X.tolist() == [[2], [4]]
    with pytest.raises(ValueError, match="1 cell before the '#', which begins a comment unless it is in quotes"):
        table("id,x\nA#1,2\nB#2,4\n", index_col="id")
    assert table("# x y\n1 2\n3 4\n", ".txt").columns is None


def test_a_name_that_is_there_twice_is_not_guessed(table):
    text = "x,y,x\n1,2,3\n4,5,6\n"
    with pytest.raises(ValueError, match="2 columns called 'x'; choose one by its number, 0 or 2"):
        table(text, columns=("x", "y"))
    assert np.array_equal(table(text, columns=("2", "y")).X, [[3, 2], [6, 5]])


GENES = "cell,g0,g1,age,g2\n7,1,2,3,4\n8,5,6,7,8\n"


@pytest.mark.parametrize(
    ("columns", "index", "wanted"),
    [
        (("g0-g2",), None, ("g0", "g1", "age", "g2")),  # as they stand in the file
        (("g1-g1",), None, ("g1",)),
        (("1-2", "g2"), None, ("g0", "g1", "g2")),
        (("g1 - 4",), None, ("g1", "age", "g2")),
        (("0-2",), "cell", ("g0", "g1")),  # what names the rows is no coordinate
    ],
)
def test_a_range_of_columns(table, columns, index, wanted):
    found = table(GENES, columns=columns, index_col=index)
    assert found.columns == wanted
    np.testing.assert_array_equal(found.X, np.hstack([table(GENES, columns=(name,)).X for name in wanted]))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("g0-g9", "no column 'g9', an end of 'g0-g9'; its columns are cell, g0, g1, age, g2"),
        ("h0-g1", "no column 'h0', an end of 'h0-g1'"),
        ("0-5", "no column '5', an end of '0-5'"),
        ("h0-h1", "no column 'h0-h1'"),
        ("g0-", "no column '', an end of 'g0-'"),
        ("g2-g0", "'g2-g0' is the wrong way round.*write g0-g2"),
    ],
)
def test_a_range_with_a_wrong_end_is_refused(table, asked, words):
    with pytest.raises(ValueError, match=words):
        table(GENES, columns=(asked,))


def test_a_wide_header_is_shown_with_its_end(table):
    names = ["cell", *(f"g{k}" for k in range(30)), "age"]
    with pytest.raises(
        ValueError, match=r"no column 'g30', an end of 'g0-g30'; its columns are cell, g0, .* g29, age$"
    ):
        table(f"{','.join(names)}\n{','.join('1' * 32)}\n", columns=("g0-g30",))


def test_a_name_with_a_dash_is_a_name(table):
    text = "a,b,a-b,b-c,c\n1,2,3,4,5\n6,7,8,9,0\n"
    assert table(text, columns=("a-b",)).columns == ("a-b",)
    assert table(text, columns=("a-b-b-c",)).columns == ("a-b", "b-c")
    assert table(text, columns=("b-a-b",)).columns == ("b", "a-b")
    with pytest.raises(ValueError, match="'a-b-c' may be any of several ranges"):  # a to b-c, or a-b to c
        table(text, columns=("a-b-c",))
    years = "2019,2019-2020\n1.5,2.5\n3.5,4.5\n"
    assert table(years, columns=("2019-2020",)).X.tolist() == [[2.5], [4.5]]


def test_a_range_of_numbers_needs_no_header(table):
    assert table("1,2,3\n4,5,6\n", columns=("1-2",)).X.tolist() == [[2, 3], [5, 6]]


@pytest.mark.parametrize("above", ["", "# made by pandas\n", "\n"])
@pytest.mark.parametrize("name", ["cell", ""])
def test_the_numbered_header_of_pandas_is_no_point(table, above, name):
    text = f"{above}{name},0,1,2\nA,1.5,2.5,3.5\nB,4.5,5.5,6.5\n"
    for index in {"0", name} - {""}:  # never the column called 0
        found = table(text, index_col=index)
        assert found.rows == ("A", "B") and found.X.tolist() == [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]
        assert found.columns == ("0", "1", "2")
    assert table(text, index_col="0", columns=("0", "2")).X.tolist() == [[1.5, 3.5], [4.5, 6.5]]
    assert table(text, columns=("1",)).X.tolist() == [[2.5], [5.5]]
    with pytest.raises(ValueError, match=r"numbers the columns after the first, .* pass --index-col 0 to keep"):
        table(text)
    with pytest.raises(ValueError, match="the header has 4 names"):
        table(f"{name},0,1,2\nA,1.5,2.5\n", index_col="0")


def test_a_numbered_header_that_may_be_a_point_warns(table):
    with pytest.warns(IESWarning, match="the first line, A, 0, 1, is read as the names of the columns; if it is a"):
        assert table("A,0,1\nB,2,3\n", index_col="0").rows == ("B",)


@pytest.mark.parametrize(
    ("text", "index"), [("gene,2019,2020\nA,1.5,2\nB,2.5,3\n", "0"), ("2019,2020\n1.5,2\n2.5,3\n", None)]
)
def test_a_header_of_years_warns(table, text, index):
    with pytest.warns(IESWarning, match=r"the first line, .*2019, 2020, is read as a point; if it names the columns"):
        assert len(table(text, index_col=index).X) == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["3,4\n5,6\n1.5,2\n", "0,0\n0.5,0.25\n", "3,4\n", "7\n0.5\n"])
def test_whole_numbers_alone_do_not_warn(table, text):
    assert len(table(text).X) == text.count("\n")


def test_columns_of_words_are_named_with_a_way_out(table):
    text = "cell,x,cluster\nAAAC-1,1,T\nAAAC-2,2,B\n"
    with pytest.raises(ValueError, match="holds words") as caught:
        table(text)
    assert "column 'cell' holds words such as 'AAAC-1'; pass --index-col cell" in str(caught.value)
    assert "names. Column 'cluster' holds words such as 'T'; leave it out with --columns" in str(caught.value)
    with pytest.raises(
        ValueError, match=r"csv: column 'cluster' holds words such as 'T'; leave it out with --columns$"
    ):
        table(text, index_col="cell")
    with pytest.raises(ValueError, match=r"csv: column 1 holds words such as 'a'; pass --index-col 0 to keep"):
        table("a,1,2\nb,3,4\n")
    with pytest.raises(
        ValueError, match=r"column 3 holds words such as 'u'; leave it out with --columns, which counts"
    ):
        table("1,2,u\n3,4,v\n")

    with pytest.raises(ValueError, match=r"names\. Column 2 .* Column 3 .*, which counts from 0\. So do 2 more$"):
        table("a,b,b,b,b\nf,g,h,i,j\nk,l,m,n,o\n")


@pytest.mark.parametrize("cell", ["word", "NA", ""])
def test_a_single_odd_cell_names_its_line(table, cell):
    with pytest.raises(ValueError, match=r"line 2, column 2: .*; correct it or remove the row"):
        table(f"x,y\n1,{cell}\n3,4\n")
    with pytest.raises(ValueError, match=r"line 3, column 2: .*; correct it or remove the row"):
        table(f"x,y\n1,2\n3,{cell}\n")
