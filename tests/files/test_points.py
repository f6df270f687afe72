"""Reading the user's points: what is accepted, and one clear sentence for everything else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from ies_gpu.errors import IESWarning
from ies_gpu.files import points as reading
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import check_output, whole_or_nothing, write_array

POINTS = np.random.default_rng(0).normal(size=(40, 3))


def text(tmp_path, content, name="points.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    return path


def test_a_large_npy_is_mapped_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "READ_BYTES", 0)
    write_array(tmp_path / "points.npy", POINTS)
    found = read_points(tmp_path / "points.npy")
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, POINTS)


def test_a_small_npy_is_read_so_that_nobody_can_cut_it_short(tmp_path):
    """A mapped one would end the process, by SIGBUS."""
    write_array(tmp_path / "points.npy", POINTS)
    found = read_points(tmp_path / "points.npy")
    os.truncate(tmp_path / "points.npy", 0)
    assert not isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, POINTS)


def test_a_mapped_file_that_changes_under_a_run_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "READ_BYTES", 0)
    path = tmp_path / "points.npy"
    np.save(path, POINTS)
    found = read_points(path)
    with reading.unchanged(found):
        pass
    with reading.unchanged(found):  # a new file in its place: the mapped one stays as it was
        write_array(path, POINTS + 1)
    np.save(path, POINTS)
    found = read_points(path)
    with pytest.raises(ValueError, match="was changed while it was read"), reading.unchanged(found):
        os.utime(path, ns=(0, 0))
    with reading.unchanged(np.zeros((3, 2))):  # not mapped
        pass


@pytest.mark.parametrize("dtype", ["float16", "float32", ">f8", "int32", "uint8", "bool"])
def test_npy_of_any_real_dtype(tmp_path, dtype):
    np.save(tmp_path / "points.npy", POINTS.astype(dtype))
    found = read_points(str(tmp_path / "points.npy"))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, POINTS.astype(dtype))


@pytest.mark.parametrize(
    "arrays",
    [
        {"anything": POINTS},
        {"X": POINTS, "y": POINTS * 2},
        {"points": POINTS, "labels": np.arange(40)},
        {"cloud": POINTS, "labels": np.arange(40), "name": np.array("strip")},
        {"R": POINTS, "E": POINTS[:, :1]},
    ],
)
def test_npz_with_one_possible_array(tmp_path, arrays):
    np.savez_compressed(tmp_path / "points.npz", **arrays)
    np.testing.assert_array_equal(read_points(tmp_path / "points.npz"), POINTS)


def test_npz_with_several_possible_arrays_lists_them(tmp_path):
    np.savez(tmp_path / "points.npz", a=POINTS, b=POINTS)
    with pytest.raises(ValueError, match=r"points.npz must contain one array .* it has a \(40, 3\), b \(40, 3\)"):
        read_points(tmp_path / "points.npz")


@pytest.mark.parametrize("header", ["", "x,y,z\n", "# made by hand\n\nx,y,z\n", '"a b","c","d"\r\n', "\ufeffx,y,z\n"])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_text_with_and_without_header(tmp_path, header, separator):
    rows = "\n".join(separator.join(map(repr, row)) for row in POINTS.tolist())
    name = "points.csv" if separator == "," else "points.tsv"
    found = read_points(text(tmp_path, header.replace(",", separator) + rows + "\n", name))
    np.testing.assert_array_equal(found, POINTS)  # repr gives every bit back


def test_one_row_and_one_column_keep_two_axes(tmp_path):
    assert read_points(text(tmp_path, "1,2,3\n")).shape == (1, 3)
    assert read_points(text(tmp_path, "x\n1\n2\n")).shape == (2, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,y\n1,2\n\n3,abc\n", r"line 4, column 2: 'abc' is not a number"),
        ("1,2\n3,\n", r"line 2, column 2: the cell is empty"),
        ("1,2\n3,4,5\n", r"line 2: 3 cells, but 2 in the lines above"),
        ("1,2\nNA,3\n", r"line 2, column 1: 'NA' is not a number"),
        ("1.5,abc\n2,3\n", r"line 1, column 2: 'abc' is not a number"),
        ("x;y\n1,5;2,5\n", r"line 2, column 2: '5;2' is not a number; separate cells with commas"),
        (",x,y\n0,1,2\n1,3,4\n", r"index=False"),
        ("x,y\n", r"contains no points"),
        ("# nothing\n\n", r"contains no lines of numbers"),
    ],
)
def test_bad_text_names_the_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_points(text(tmp_path, content))
    assert "points.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_a_header_of_column_numbers_warns(tmp_path):
    with pytest.warns(IESWarning, match="if it numbers the columns, delete it"):
        assert read_points(text(tmp_path, "0,1,2\n5,6,7\n")).shape == (2, 3)


def damaged(tmp_path, kind):
    """A file that is wrong in one way."""
    path = tmp_path / f"points{kind[kind.index('.') :]}"
    whole = tmp_path / f"whole{path.suffix}"
    if path.suffix == ".npz":
        np.savez(whole, X=POINTS)
    else:
        np.save(tmp_path / "whole.npy", POINTS)
    if kind.startswith("half"):
        path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    elif kind.startswith("start"):
        path.write_bytes(whole.read_bytes()[:20])
    elif kind.startswith("shape"):  # a bracket that nothing closes
        path.write_bytes(whole.read_bytes().replace(b", }", b",  "))
    elif kind.startswith("objects"):
        odd = np.array([[1, "a"], [None, 2]], dtype=object)
        (np.savez if path.suffix == ".npz" else np.save)(path, odd)
    elif kind.startswith("noise"):
        path.write_bytes(os.urandom(500))
    elif kind.startswith("latin"):
        path.write_bytes("größe,y\n1,2\n".encode("latin-1"))
    elif kind.startswith("swapped"):
        np.savez(whole.with_suffix(".npz"), X=POINTS)
        path.write_bytes(whole.with_suffix(".npz").read_bytes())
    else:
        odd = {"empty": b"", "flat": np.arange(4.0), "cube": POINTS[None], "none": POINTS[:0]}
        odd |= {"text": np.array([["a"]]), "complex": POINTS + 1j}
        value = odd[kind.split(".")[0]]
        path.write_bytes(value) if isinstance(value, bytes) else np.save(path, value)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("half.npy", "cut short or damaged"),
        ("start.npy", "cut short or damaged"),
        ("half.npz", "cut short or damaged"),
        ("shape.npy", "cut short or damaged"),
        ("shape.npz", "cut short or damaged"),
        ("noise.npy", "is not an .npy file"),
        ("noise.npz", "is not an .npz file"),
        ("noise.csv", "UTF-8|no number|no lines|cells"),
        ("latin.csv", "UTF-8"),
        ("swapped.npy", "rename it to points.npz"),
        ("objects.npy", "Python objects"),
        ("objects.npz", "Python objects"),
        ("empty.npy", "is empty"),
        ("empty.npz", "is empty"),
        ("empty.csv", "is empty"),
        ("flat.npy", r"shape \(4,\)"),
        ("cube.npy", r"shape \(1, 40, 3\)"),
        ("none.npy", "no points"),
        ("text.npy", "not real numbers"),
        ("complex.npy", "not real numbers"),
    ],
)
def test_wrong_files_say_what_is_wrong(tmp_path, kind, message):
    path = damaged(tmp_path, kind)
    with pytest.raises(ValueError, match=message) as caught:
        read_points(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_missing_folder_and_unknown_suffix(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; check the path"):
        read_points(tmp_path / "no.npy")
    with pytest.raises(ValueError, match="is a folder"):
        read_points(tmp_path)
    with pytest.raises(ValueError, match=r"are read from .npy, .npz, .csv, .* files, not from '.xlsx'"):
        read_points(text(tmp_path, "1,2", "points.xlsx"))


@pytest.fixture
def own_folder():
    """A folder of somebody who is not root and may not read and write everything."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)  # nobody, who may become root again
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    finally:
        if root:
            os.setresuid(0, 0, 0)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions(own_folder):
    tmp_path = own_folder
    path = text(tmp_path, "1,2")
    path.chmod(0)
    with pytest.raises(PermissionError, match="cannot be read"):
        read_points(path)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written"):
        check_output(tmp_path / "run.npz", ".npz")
    tmp_path.chmod(0o700)


def test_output_is_checked_before_work(tmp_path):
    assert check_output(tmp_path / "run.npz", ".npz") == tmp_path / "run.npz"
    with pytest.raises(ValueError, match=r"must be a .npz file, e.g. .*run.npz"):
        check_output(tmp_path / "run.txt", ".npz")
    with pytest.raises(FileNotFoundError, match="create it first"):
        check_output(tmp_path / "no" / "run.npz", ".npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        check_output(tmp_path / "folder.npz", ".npz")


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "points.npy"
    write_array(path, POINTS)
    before = path.read_bytes()
    with pytest.raises(type(error)), whole_or_nothing(path) as file:
        file.write(b"half of")
        raise error
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["points.npy"]


def test_a_full_disk_is_told_with_the_path(tmp_path):
    with (
        pytest.raises(OSError, match=r"could not be written: No space left.*run.npz"),
        whole_or_nothing(tmp_path / "run.npz"),
    ):
        raise OSError(28, "No space left on device")


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_replacing_keeps_permissions_and_links(tmp_path):
    (tmp_path / "data").mkdir()
    real, link = tmp_path / "data" / "points.npy", tmp_path / "link.npy"
    write_array(real, POINTS)
    real.chmod(0o640)
    link.symlink_to(real)
    write_array(link, 2 * POINTS)
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    np.testing.assert_array_equal(read_points(real), 2 * POINTS)


def test_objects_are_not_written(tmp_path):
    with pytest.raises(TypeError, match="Python objects"):
        write_array(tmp_path / "points.npy", np.array([[{}]], dtype=object))
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_million_rows_of_text_in_seconds(tmp_path):
    points = np.random.default_rng(0).normal(size=(1_000_000, 3))
    np.savetxt(tmp_path / "points.csv", points, delimiter=",", header="x,y,z", comments="")
    begin = time.process_time()
    found = read_points(tmp_path / "points.csv")
    assert time.process_time() - begin < 20
    np.testing.assert_array_equal(found, points)


WRITER = """
import sys, time
from ies_gpu.files.writing import whole_or_nothing
with whole_or_nothing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print(file.name, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL and locks are POSIX")
def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(tmp_path):
    target = tmp_path / "run.npy"
    command = [sys.executable, "-c", WRITER, str(target)]
    killed, living = (subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2))
    others = [".run.npy.mine.tmp", ".run.npy.0123456789ab.tmp.old", ".other.npy.0123456789ab.tmp", "run.npy.tmp"]
    try:
        dead, alive = (Path(process.stdout.readline().strip()) for process in (killed, living))
        killed.kill()
        killed.wait()
        for name in others:
            (tmp_path / name).write_bytes(b"not of a run that was killed")
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        new = tmp_path / ".run.npy.fedcba987654.tmp"
        new.write_bytes(b"of somebody who began just now")
        write_array(target, POINTS)
        assert dead.name.startswith(".run.npy.") and living.poll() is None
        assert {path.name for path in tmp_path.iterdir()} == {"run.npy", alive.name, new.name, *others}
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="other systems count characters, not bytes")
@pytest.mark.parametrize("letter", ["a", "\N{GREEK SMALL LETTER PHI}"])
def test_the_longest_name_that_a_system_allows_is_written(tmp_path, letter):
    path = tmp_path / (letter * (251 // len(letter.encode())) + ".npy")
    write_array(path, np.arange(6.0).reshape(3, 2))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    np.testing.assert_array_equal(np.load(path), np.arange(6.0).reshape(3, 2))
