"""Every kind of file that points come in and go out as: the same numbers and names, and nothing unpickled."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import scipy.io

from ies_gpu import datasets, load, select_coordinates
from ies_gpu.cli import main
from ies_gpu.files.points import READERS, read_points, read_table
from ies_gpu.files.writing import write_table
from tests.files.test_damage import damages
from tests.validation.hostile import judged

NAMES = [f"cell{k}" for k in range(40)]


@pytest.fixture
def points(rng):
    return rng.normal(size=(40, 3))


@pytest.fixture
def frame(points):
    return pandas.DataFrame(points, columns=["a", "b", "c"], index=pandas.Index(NAMES, name="cell"))


def write_numbers(path, frame):
    """Numbers alone, by the libraries that own the formats."""
    X, ending = frame.to_numpy(), "".join(path.suffixes)
    if ending == ".npy":
        np.save(path, X)
    elif ending == ".npz":
        np.savez(path, X=X, other=np.zeros((2, 2)))
    elif ending.startswith((".csv", ".tsv", ".txt")):
        separator = {".csv": ",", ".tsv": "\t", ".txt": " "}[ending[:4]]
        frame.to_csv(path, sep=separator, index=False, float_format="%.17g")
    elif ending == ".mat":
        scipy.io.savemat(path, {"X": X, "cells": np.array(NAMES, dtype=object)})
    elif ending in (".parquet", ".feather"):
        pytest.importorskip("pyarrow", reason="pip install pyarrow")
        getattr(frame.reset_index(drop=True), f"to_{ending[1:]}")(path)
    elif ending in (".h5", ".hdf5"):
        with pytest.importorskip("h5py", reason="pip install h5py").File(path, "w") as file:
            file["run/X"], file["names"] = X, NAMES
    elif ending == ".h5ad":
        anndata = pytest.importorskip("anndata", reason="pip install anndata")
        anndata.AnnData(obs=pandas.DataFrame(index=NAMES), obsm={"X_pca": X}).write_h5ad(path)
    elif ending == ".zarr":
        zarr = pytest.importorskip("zarr", reason="pip install zarr")
        zarr.open_group(str(path), mode="w").create_array("X", data=X)
    else:
        table = pytest.importorskip("astropy.table", reason="pip install astropy")
        table.Table(X, names=list(frame.columns)).write(path, format="fits")


@pytest.mark.parametrize("ending", READERS)
def test_every_kind_of_file(frame, tmp_path, ending):
    path = tmp_path / f"points{ending}"
    write_numbers(path, frame)
    np.testing.assert_array_equal(read_points(path), frame.to_numpy())


@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".txt", ".parquet", ".feather", ".fits"])
def test_names_of_rows_and_chosen_columns(frame, tmp_path, ending):
    path = tmp_path / f"points{ending}"
    if ending in (".parquet", ".feather"):
        pytest.importorskip("pyarrow", reason="pip install pyarrow")
    write = {".parquet": "to_parquet", ".feather": "to_feather"}.get(ending)
    if ending == ".fits":
        table = pytest.importorskip("astropy.table", reason="pip install astropy")
        table.Table.from_pandas(frame, index=True).write(path)
    elif write:
        getattr(frame.reset_index(), write)(path)
    else:
        frame.to_csv(path, sep={".csv": ",", ".tsv.gz": "\t", ".txt": " "}[ending], float_format="%.17g")
    found = read_table(path, index_col="cell")
    np.testing.assert_array_equal(found.X, frame.to_numpy())
    assert found.rows == tuple(NAMES) and found.columns == ("a", "b", "c")
    some = read_table(path, index_col="0", columns=("c", "a"))
    np.testing.assert_array_equal(some.X, frame[["c", "a"]].to_numpy())
    assert some.rows == tuple(NAMES) and some.columns == ("c", "a")
    with pytest.raises(ValueError, match="has no column 'd'; its columns are cell, a, b, c"):
        read_table(path, columns=("d",))


def test_the_index_of_pandas_comes_back(frame, tmp_path):
    pytest.importorskip("pyarrow", reason="pip install pyarrow")
    frame.to_parquet(tmp_path / "points.parquet")
    found = read_table(tmp_path / "points.parquet")
    assert found.rows == tuple(NAMES) and found.columns == ("a", "b", "c")


def test_a_column_of_words_is_named(frame, tmp_path):
    path = tmp_path / "points.csv"
    frame.to_csv(path)
    with pytest.raises(ValueError, match="column 'cell' holds words such as 'cell0'; pass --index-col cell"):
        read_points(path)
    frame.rename_axis(None).to_csv(path)
    with pytest.raises(ValueError, match="pass --index-col 0 to keep them as names"):
        read_points(path)
    pytest.importorskip("pyarrow", reason="pip install pyarrow")
    frame.reset_index().to_parquet(tmp_path / "points.parquet")
    with pytest.raises(ValueError, match=r"column 'cell' holds no numbers .* --index-col cell"):
        read_points(tmp_path / "points.parquet")


def test_an_array_by_its_key(points, tmp_path):
    np.savez(tmp_path / "several.npz", first=points, second=2 * points)
    np.testing.assert_array_equal(read_points(tmp_path / "several.npz", key="second"), 2 * points)
    with pytest.raises(ValueError, match=r"it has first \(40, 3\), second \(40, 3\). Choose one with --key"):
        read_points(tmp_path / "several.npz")
    with pytest.raises(ValueError, match="has no array 'third'; it has first"):
        read_points(tmp_path / "several.npz", key="third")
    with pytest.raises(ValueError, match=r"--columns is for \.csv"):
        read_points(tmp_path / "several.npz", columns=("a",))


def test_objects_are_never_loaded(tmp_path):
    """Whoever opens these may run any code; a marker would tell."""
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    zarr = pytest.importorskip("zarr", reason="pip install zarr")
    numcodecs = pytest.importorskip("numcodecs", reason="pip install numcodecs")
    packed = numcodecs.Pickle().encode(np.array([[Evil()]], dtype=object))
    folder = tmp_path / "evil.zarr"
    folder.mkdir()
    for dtype, codec in (("|O", [{"id": "pickle", "protocol": 5}]), ("<f8", [{"id": "pickle", "protocol": 5}])):
        meta = {"zarr_format": 2, "shape": [1, 1], "chunks": [1, 1], "dtype": dtype, "compressor": None,
                "fill_value": None if dtype == "|O" else 0.0, "order": "C", "filters": codec}  # fmt: skip
        (folder / ".zarray").write_text(json.dumps(meta))
        (folder / "0.0").write_bytes(packed)
        with pytest.raises(ValueError, match=r"evil\.zarr"):
            read_points(folder)
    assert zarr and not marker.exists()


@pytest.mark.parametrize("zero", [None, 2**31])
def test_an_integer_of_fits_that_means_none_is_not_a_coordinate(tmp_path, zero):
    fits = pytest.importorskip("astropy.io.fits")
    counts = np.array([7, -999 + (zero or 0), 9], dtype="i4" if zero is None else "u4")
    columns = [fits.Column("a", "J", array=counts, null=-999, bzero=zero), fits.Column("b", "D", array=np.arange(3.0))]
    fits.BinTableHDU.from_columns(columns).writeto(tmp_path / "counts.fits")
    np.testing.assert_array_equal(read_points(tmp_path / "counts.fits"), [[7, 0], [np.nan, 1], [9, 2]])


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".h5", ".h5ad", ".zarr", ".mat", ".fits", ".csv.gz"])
def test_damaged_files_are_said_to_be(tmp_path, ending):
    path = tmp_path / f"points{ending}"
    for library in {".parquet": ["pyarrow"], ".feather": ["pyarrow"], ".h5": ["h5py"], ".h5ad": ["anndata"],
                    ".zarr": ["zarr"], ".fits": ["astropy"]}.get(ending, []):  # fmt: skip
        pytest.importorskip(library, reason=f"pip install {library}")
    path.write_bytes(b"this is no such file" * 50)
    with pytest.raises(ValueError, match=f"points{ending}"):
        read_points(path)


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".h5", ".h5ad", ".mat", ".fits", ".csv.gz", ".txt"])
@pytest.mark.filterwarnings("ignore")  # of the libraries, about what they find
def test_flipped_bits_and_cuts(frame, tmp_path, ending):
    """An error of ours, or numbers; these formats have few checksums."""
    path = tmp_path / f"points{ending}"
    write_numbers(path, frame)
    refused = 0
    for damaged in damages(path.read_bytes(), 60, np.random.default_rng(1)):
        path.write_bytes(damaged)
        try:
            read_points(path)
        except Exception as error:
            assert judged(error) == "refused", repr(error)
            refused += 1
    assert refused


@pytest.mark.parametrize(("library", "ending"), [("pyarrow", ".parquet"), ("h5py", ".h5"), ("zarr", ".zarr")])
def test_what_is_missing_is_said(tmp_path, monkeypatch, library, ending):
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / f"points{ending}").write_bytes(b"x")
    with pytest.raises(ImportError, match=rf"needs {library}: pip install 'ies-gpu\[files\]'"):
        read_points(tmp_path / f"points{ending}")


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet", ".h5ad"])
def test_what_is_written_is_read_again(points, tmp_path, ending):
    if ending in (".parquet", ".h5ad"):
        pytest.importorskip({".parquet": "pyarrow", ".h5ad": "anndata"}[ending], reason="pip install pyarrow anndata")
    path = tmp_path / f"map{ending}"
    write_table(path, points, ["phi1", "phi2", "phi7"], rows=NAMES, obsm="X_ies")
    options = {".npy": {}, ".h5ad": {"key": "X_ies"}}.get(ending, {"index_col": "name"})
    found = read_table(path, **options)
    np.testing.assert_array_equal(found.X, points)
    assert ending == ".npy" or found.rows == tuple(NAMES)
    assert ending not in (".csv", ".parquet") or found.columns == ("phi1", "phi2", "phi7")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"the output must be a \.npy, \.csv, \.parquet or \.h5ad file"):
        write_table(tmp_path / "map.xlsx", points, ["a", "b", "c"])
    with pytest.raises((ValueError, TypeError, IndexError)):  # fails while writing: the old file stays
        write_table(path, np.array([[object()]]), ["a"], rows=["x"], obsm="X_ies")
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("plain_kernels")
def test_names_go_through_the_command_line(tmp_path, capsys):
    strip = datasets.load("D1", n_samples=300)
    names = [f"p{k}" for k in range(300)]
    frame = pandas.DataFrame(strip.X, columns=["x", "y", "z"], index=pandas.Index(names, name="who"))
    frame.assign(note="text").to_csv(tmp_path / "points.csv")
    arguments = ["--columns", "x,y,z", "--index-col", "who", "-q"]
    fit = [str(tmp_path / "points.csv"), "-d", "2", "-s", "2", "--bandwidth", "1.5", "-m", "10", *arguments]
    outputs = ["-o", "run.npz", "--model", "model.npz", "--coordinates", "map.csv"]
    assert main(["fit", *fit, *(str(tmp_path / name) if "." in name else name for name in outputs)]) == 0
    run = load(tmp_path / "run.npz")
    assert run.index.tolist() == names and list(run.to_pandas().index) == names
    written = pandas.read_csv(tmp_path / "map.csv", index_col="name", dtype=str)  # its own floats lose last digits
    np.testing.assert_array_equal(written.to_numpy().astype(float), run.embedding)
    assert list(written.columns) == list(run.names) and list(written.index) == names
    moved = ["transform", str(tmp_path / "model.npz"), str(tmp_path / "points.csv"), *arguments]
    assert main([*moved, "-o", str(tmp_path / "new.csv")]) == 0
    again = pandas.read_csv(tmp_path / "new.csv", index_col="name")
    assert list(again.index) == names
    np.testing.assert_allclose(again.to_numpy(), run.embedding, atol=1e-7)


def test_standard_input(points, tmp_path, monkeypatch):
    texts = [as_bytes(np.savetxt, points, delimiter=mark, fmt="%.17g") for mark in ", \t"]
    for content in (as_bytes(np.save, points), *texts):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        np.testing.assert_array_equal(read_points("-"), points)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a,b\n1,x\n")))
    with pytest.raises(ValueError, match="standard input, line 2, column 2: 'x' is not a number"):
        read_points("-")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(ValueError, match="nothing came through standard input"):
        read_points("-")


def as_bytes(save, X, **options):
    file = io.BytesIO()
    save(file, X, **options)
    return file.getvalue()


def test_a_compressed_file_that_is_cut_short(points, tmp_path):
    whole = gzip.compress(as_bytes(np.savetxt, points, delimiter=","))
    (tmp_path / "points.csv.gz").write_bytes(whole[:-40])
    with pytest.raises(ValueError, match=r"points\.csv\.gz is not compressed by gzip, or is cut short"):
        read_points(tmp_path / "points.csv.gz")


@pytest.mark.usefixtures("plain_kernels")
def test_a_frame_keeps_its_index():
    strip = datasets.load("D1", n_samples=300)
    known = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 1.5, "n_components": 10}
    days = pandas.date_range("2026-01-01", periods=300)
    for index in (days, pandas.Index([f"p{k}" for k in range(300)])):
        found = select_coordinates(pandas.DataFrame(strip.X, index=index), **known).to_pandas()
        assert (found.index == index).all()
    plain = select_coordinates(pandas.DataFrame(strip.X), **known).to_pandas()
    assert plain.index.name == "point" and plain.index[5] == 5


def test_completion():
    pytest.importorskip("argcomplete", reason="pip install argcomplete")
    line = "ies-gpu fit --metr"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SUPPRESS_SPACE": "0"}
    program = "import os, sys; sys.argv = ['ies-gpu']; from ies_gpu.cli import program; program()"
    run = subprocess.run(
        ["bash", "-c", f'exec 8>&1; exec {sys.executable} -c "{program}"'],
        env=os.environ | asked | {"IFS": "\n", "_ARGCOMPLETE_IFS": "\n"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.stdout.split() == ["--metric"]
