"""Writing: checked before the work, then written completely or not at all, whichever system call fails."""

import builtins
import errno
import io
import os
import tempfile
import types
import warnings
from contextlib import closing
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import datasets, load, select_coordinates
from ies_gpu.cli.saved import draw
from ies_gpu.files import writing
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import check_output, whole_or_nothing, write_table
from ies_gpu.findings import CheckpointWarning
from ies_gpu.run.checkpoint import Checkpoint
from tests.said import refused

POINTS = np.random.default_rng(0).normal(size=(40, 3))
OPTIONS = {"bandwidth": 1.0, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
CALLS = ("fsync", "replace")  # of the module os; opening and writing are counted as well


@pytest.fixture(scope="module")
def results():
    X = datasets.load("D1", n_samples=300).X
    return [(selection := select_coordinates(X[:n], **OPTIONS), selection.model(X[:n])) for n in (300, 290)]


def stage(path, number):
    with closing(Checkpoint(path.parent, True, {"n": 1}, ["graph"])) as checkpoint:
        checkpoint.write("graph", "", {}, {"data": np.arange(5000.0 + number)})


WRITERS = {
    "run.npz": lambda path, results, k: results[k][0].save(path),
    "model.npz": lambda path, results, k: results[k][1].save(path),
    "points.npy": lambda path, results, k: write_table(path, np.arange(9000.0 + k)),
    "table.csv": lambda path, results, k: write_table(path, results[k][0].embedding, results[k][0].names),
    "map.svg": lambda path, results, k: draw(results[k][0], str(path)),
    "graph.npz": lambda path, results, k: stage(path, k),
}


class Faults:
    """Counts the system calls of the writing module; number ``at`` fails, and with a full disk all behind it."""

    def __init__(self, at=None, code=errno.EIO):
        self.at, self.code, self.count = at, code, 0

    def call(self):
        self.count += 1
        full = self.code == errno.ENOSPC and self.at is not None and self.count > self.at
        if self.count == self.at or full:
            raise OSError(self.code, os.strerror(self.code))

    def open(self, path, mode, opener=None):
        if "x" not in mode:
            return builtins.open(path, mode)
        self.call()
        faults = self

        class File(io.FileIO):
            def write(self, data):
                try:
                    faults.call()
                except OSError:
                    super().write(bytes(data)[: len(data) // 2])  # half of it arrives
                    raise
                return super().write(data)

        return io.BufferedWriter(File(path, mode, opener=opener))

    def of(self, function):
        def called(*args, **options):
            self.call()
            return function(*args, **options)

        return called

    def installed(self, monkeypatch):
        names = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
        system = types.SimpleNamespace(**names | {name: self.of(getattr(os, name)) for name in CALLS})
        monkeypatch.setattr(writing, "os", system)
        monkeypatch.setattr(writing, "open", self.open, raising=False)


# one code is like another to all of them: the second and the third show it for one
@pytest.mark.parametrize(("name", "code"), [*product(WRITERS, ["ENOSPC"]), ("run.npz", "EIO"), ("run.npz", "EACCES")])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_at_every_call(name, code, results, tmp_path, monkeypatch):
    path, write = tmp_path / name, WRITERS[name]
    write(path, results, 1)
    new = path.read_bytes()
    write(path, results, 0)
    old = path.read_bytes()
    assert name == "map.svg" or new != old
    beside = set(os.listdir(tmp_path))  # a checkpoint has its lock
    with monkeypatch.context() as patch:
        counted = Faults()
        counted.installed(patch)
        write(path, results, 0)
    assert counted.count >= 4  # opened, written, flushed to disk, renamed
    for at in range(1, counted.count + 1):
        with monkeypatch.context() as patch:
            faults = Faults(at, getattr(errno, code))
            faults.installed(patch)
            failed = told(write, path, results)
        content = path.read_bytes()
        assert content in (old, new) or (name == "map.svg" and content.endswith(b"</svg>\n"))
        assert failed or content == new or name == "map.svg"
        assert set(os.listdir(tmp_path)) == beside, (at, code)
        path.write_bytes(old)
    (load if name in ("run.npz", "model.npz") else np.shape)(path)


def told(write, path, results):
    """Whether the fault was reported: by an error that names the file, or by the warning of a checkpoint."""
    if path.name == "graph.npz":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CheckpointWarning)
            write(path, results, 1)
        assert all("'graph' was not saved in" in str(each.message) for each in caught)
        return bool(caught)
    try:
        write(path, results, 1)
    except OSError as error:
        assert "could not be written" in str(error) and path.name in str(error)
        return True
    return False


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
    (path := own_folder / "points.csv").write_text("1,2")
    path.chmod(0)
    with refused("file.permission", PermissionError):
        read_points(path)
    own_folder.chmod(0o500)
    with refused("output.permission", PermissionError):
        check_output(own_folder / "run.npz", ".npz")
    own_folder.chmod(0o700)


def test_output_is_checked_before_work(tmp_path):
    assert check_output(tmp_path / "run.npz", ".npz", ".npy") == ".npz"
    (tmp_path / "folder.npz").mkdir()
    for name, code in (("run.txt", "ending"), ("no/run.npz", "no_folder"), ("folder.npz", "special")):
        with refused(f"output.{code}", (ValueError, FileNotFoundError)):
            check_output(tmp_path / name, ".npz")
    with refused("output.ending"):
        write_table(tmp_path / "map.xlsx", POINTS, ["a", "b", "c"])


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    write_table(path := tmp_path / "points.npy", POINTS)
    before = path.read_bytes()
    for error in (RuntimeError("stop"), KeyboardInterrupt(), OSError(28, "No space left on device")):
        with pytest.raises(type(error)), whole_or_nothing(path) as file:
            file.write(b"half of")
            raise error
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["points.npy"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_replacing_keeps_links(tmp_path):
    (real := tmp_path / "data" / "points.npy").parent.mkdir()
    (link := tmp_path / "link.npy").symlink_to(real)
    write_table(link, POINTS)
    assert link.is_symlink()
    np.testing.assert_array_equal(read_points(real), POINTS)
