"""Every system call of every write fails once: the old file stays or the new one is whole, with nothing beside it."""

from __future__ import annotations

import builtins
import errno
import io
import os
import types
import warnings

import numpy as np
import pytest

from ies_gpu import datasets, load, load_model, model_of, save, save_model, select_coordinates
from ies_gpu.cli.plot import draw
from ies_gpu.cli.show import write_csv
from ies_gpu.errors import CheckpointWarning
from ies_gpu.files import writing
from ies_gpu.run.checkpoint import Checkpoint

OPTIONS = {"bandwidth": 1.0, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
CODES = {"disk full": errno.ENOSPC, "I/O error": errno.EIO, "no permission": errno.EACCES}
CALLS = ("fsync", "replace")  # of the module os; opening and writing are counted as well


@pytest.fixture(scope="module")
def results():
    X = datasets.load("D1", n_samples=300).X
    return [(selection := select_coordinates(X[:n], **OPTIONS), model_of(selection, X[:n])) for n in (300, 290)]


def stage(path, number):
    with Checkpoint(path.parent, True, {"n": 1}, ["graph"]) as checkpoint:
        checkpoint.write("graph", "", {}, {"data": np.arange(5000.0 + number)})


WRITERS = {
    "run.npz": lambda path, results, k: save(results[k][0], path),
    "model.npz": lambda path, results, k: save_model(results[k][1], path),
    "points.npy": lambda path, results, k: writing.write_array(path, np.arange(9000.0 + k)),
    "table.csv": lambda path, results, k: write_csv(results[k][0], str(path)),
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

    def open(self, path, mode):
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

        return io.BufferedWriter(File(path, mode))

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


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in WRITERS for kind in CODES if name != "map.svg" or kind == "disk full"]
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_at_every_call(name, kind, results, tmp_path, monkeypatch):
    path, write = tmp_path / name, WRITERS[name]
    contents = []
    for k in (1, 0):
        write(path, results, k)
        contents.append(path.read_bytes())
    new, old = contents
    assert name == "map.svg" or new != old
    beside = set(os.listdir(tmp_path))  # a checkpoint has its lock
    with monkeypatch.context() as patch:
        counted = Faults()
        counted.installed(patch)
        write(path, results, 0)
    assert counted.count >= 4  # opened, written, flushed to disk, renamed
    for at in range(1, counted.count + 1):
        with monkeypatch.context() as patch:
            faults = Faults(at, CODES[kind])
            faults.installed(patch)
            failed = told(write, path, results)
        content = path.read_bytes()
        assert content in (old, new) or (name == "map.svg" and content.endswith(b"</svg>\n"))
        assert failed or content == new or name == "map.svg"
        assert set(os.listdir(tmp_path)) == beside, (at, kind)
        path.write_bytes(old)
    print(f"{name}, {kind}: {counted.count} faults")
    {"run.npz": load, "model.npz": load_model}.get(name, np.shape)(path)


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
