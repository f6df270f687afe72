"""Files with a bit flipped or an end cut off: an error of ours, or the content that was written."""

from __future__ import annotations

import json
import os
import warnings
import zipfile

import numpy as np
import pytest

from ies_gpu import datasets, load, load_model, model_of, save, save_model, select_coordinates
from ies_gpu.errors import CheckpointWarning
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import write_array
from ies_gpu.run.checkpoint import Checkpoint
from tests.comparison import assert_same
from tests.validation.hostile import judged

POINTS = datasets.load("D1", n_samples=300).X
OPTIONS = {"bandwidth": 1.0, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
CHECKED = ("run.npz", "model.npz", "graph.npz", "points.npz")  # their bytes have checksums: nothing else may be read


def write_stage(path):
    with Checkpoint(path.parent, True, {"n": 1}, ["graph"]) as checkpoint:
        checkpoint.write("graph", "", {"seconds": {}}, {"data": POINTS, "order": np.arange(300), "words": ["a", 0.5]})


def read_stage(path):
    with Checkpoint(path.parent, True, {"n": 1}, ["graph"]) as checkpoint:
        return checkpoint.read("graph", "")


def fields_of(record):
    return {name: value for name, value in vars(record).items() if not name.startswith("_")}


@pytest.fixture(scope="module")
def selection():
    return select_coordinates(POINTS, **OPTIONS)


WRITE = {
    "run.npz": lambda path, selection: save(selection, path),
    "model.npz": lambda path, selection: save_model(model_of(selection, POINTS), path),
    "graph.npz": lambda path, selection: write_stage(path),
    "points.npz": lambda path, selection: np.savez_compressed(path, X=POINTS),
    "points.npy": lambda path, selection: write_array(path, POINTS),
    "points.csv": lambda path, selection: np.savetxt(path, POINTS[:40], delimiter=",", header="x,y,z", comments=""),
    "points.tsv": lambda path, selection: np.savetxt(path, POINTS[:40], delimiter="\t"),
}
READ = {
    "run.npz": lambda path: fields_of(load(path)),
    "model.npz": lambda path: fields_of(load_model(path)),
    "graph.npz": read_stage,
}


def damages(content, count, rng):
    """Flipped bits, among them many in the first and last bytes, where the structure is; and cuts."""
    places = [*range(0, min(120, len(content))), *range(max(0, len(content) - 120), len(content))]
    places = [*rng.choice(places, count // 2), *rng.integers(0, len(content), count // 2)]
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        yield bytes(changed)
    for length in rng.integers(0, len(content), count // 3):
        yield content[: int(length)]


def check(name, count, selection, tmp_path):
    path = tmp_path / name
    WRITE[name](path, selection)
    content, read = path.read_bytes(), READ.get(name, read_points)
    expected = np.array(read(path)) if read is read_points else read(path)  # a mapped file would change with its path
    refused = same = other = 0
    for damaged in damages(content, count, np.random.default_rng(len(content))):
        path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read(path)
        except CheckpointWarning:
            raise
        except Exception as error:
            assert judged(error) == "refused", (name, repr(error))
            refused += 1
            continue
        if found is None:  # a stage that is computed again
            refused += 1
            continue
        try:
            assert_same(expected, np.array(found) if read is read_points else found)
            same += 1
        except AssertionError:
            assert name not in CHECKED, name
            other += 1
    print(f"{name}: {refused} refused, {same} the same, {other} other content")
    assert refused


@pytest.mark.parametrize("name", WRITE)
def test_damage(name, selection, tmp_path):
    check(name, 60, selection, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITE)
def test_much_damage(name, selection, tmp_path):
    check(name, 1500, selection, tmp_path)


# --- files made to do harm -------------------------------------------------------------------------------------------


def header_of(shape, dtype="<f8"):
    """The header of an ``.npy`` file that claims any shape."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("shape", [(10**12, 3), (10**18, 3), (1 << 40, 1 << 40), (-1, 3)])
def test_an_array_that_claims_more_than_its_file_holds_is_refused(shape, tmp_path):
    path = tmp_path / "points.npy"
    path.write_bytes(header_of(shape) + bytes(240))
    with pytest.raises(ValueError, match=r"points\.npy"):
        read_points(path)
    path = tmp_path / "points.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", header_of(shape) + bytes(240))
    with pytest.raises(ValueError, match=r"points\.npz"):
        read_points(path)


@pytest.mark.parametrize("dtype", [",", "(", "f8,", "<f8,<f8", "99999999999V", "O", "<M8[s]"])
def test_an_array_of_an_odd_type_is_refused(dtype, tmp_path):
    """A comma for a dtype is a SyntaxError in NumPy: a flipped bit found it."""
    (tmp_path / "points.npy").write_bytes(header_of((10, 3), dtype) + bytes(240))
    with zipfile.ZipFile(tmp_path / "points.npz", "w") as archive:
        archive.writestr("X.npy", header_of((10, 3), dtype) + bytes(240))
    for name in ("points.npy", "points.npz"):
        with pytest.raises(ValueError, match=name):
            read_points(tmp_path / name)


@pytest.mark.parametrize("read", [load, load_model, read_points])
def test_devices_and_pipes_are_not_read(read, tmp_path):
    """One has no end, and the other may never begin."""
    os.mkfifo(tmp_path / "pipe.npz")
    os.symlink("/dev/zero", tmp_path / "zero.npz")
    for name in ("pipe.npz", "zero.npz"):
        with pytest.raises(ValueError, match="is a device or a pipe; give the path of a file"):
            read(tmp_path / name)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    """64 MB of zeros in 64 kB, on a machine that has 32 MB free."""
    path = tmp_path / "points.npz"
    np.savez_compressed(path, X=np.zeros((1 << 22, 2)))
    assert path.stat().st_size < 100_000
    assert read_points(path).shape == (1 << 22, 2)
    monkeypatch.setattr("ies_gpu.files.points.available_memory", lambda: 32 << 20)
    monkeypatch.setattr("numpy.load", None)
    with pytest.raises(ValueError, match=r"holds an array of 0\.1 GB, and 0\.0 GB of memory are free"):
        read_points(path)


@pytest.mark.parametrize("member", ["header.json", "coordinates.npy"])
def test_results_are_never_unpacked(member, selection, tmp_path):
    """We do not compress, so a compressed member is not ours: a few bytes could become gigabytes."""
    path, changed = tmp_path / "run.npz", tmp_path / "changed.npz"
    save(selection, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for info in old.infolist():
            kind = zipfile.ZIP_DEFLATED if info.filename == member else zipfile.ZIP_STORED
            new.writestr(info.filename, old.read(info), compress_type=kind)
    with pytest.raises(ValueError, match=r"changed\.npz is (damaged|not an \.npz file)"):
        load(changed)


def test_names_of_members_are_no_paths(selection, tmp_path):
    """Nothing is extracted: a member that names a place elsewhere is only a name."""
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "run.npz"
    save(selection, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../outside.npy", b"here")
        archive.writestr("/tmp/ies-gpu-outside.npy", b"here")
    assert load(path).subset == selection.subset
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["inner", "run.npz"]


def test_nothing_is_unpickled(tmp_path):
    class Harm:
        def __reduce__(self):
            return open, (str(tmp_path / "executed"), "w")

    harm = np.array([[Harm()]], dtype=object)
    np.save(tmp_path / "points.npy", harm, allow_pickle=True)
    np.savez(tmp_path / "points.npz", X=harm)
    header = {"format": "ies_gpu selection", "version": 1, "fields": {"subset": {"@array": "harm"}}}
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        with archive.open("harm.npy", "w") as member:
            np.lib.format.write_array(member, harm, allow_pickle=True)
    for name, read in (
        ("points.npy", read_points),
        ("points.npz", read_points),
        ("run.npz", load),
        ("run.npz", load_model),
    ):
        with pytest.raises(ValueError, match=name.partition(".")[0]):
            read(tmp_path / name)
    assert not (tmp_path / "executed").exists()
