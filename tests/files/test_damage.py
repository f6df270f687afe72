"""Files with a bit flipped or an end cut off: an error of ours, or the content that was written."""

import io
import json
import os
import warnings
import zipfile
from contextlib import closing
from functools import partial
from itertools import product

import numpy as np
import pytest

from ies_gpu import datasets, load, select_coordinates
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import write_table
from ies_gpu.findings import CheckpointWarning
from ies_gpu.run.checkpoint import Checkpoint
from tests.comparison import assert_same
from tests.extras import needed
from tests.files.test_reading import write_points
from tests.said import refused
from tests.validation.hostile import judged

POINTS = datasets.load("D1", n_samples=300).X
OPTIONS = {"bandwidth": 1.0, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
CHECKED = ("run.npz", "model.npz", "graph.npz", "points.npz")  # their bytes have checksums: nothing else may be read


def write_stage(path):
    with closing(Checkpoint(path.parent, True, {"n": 1}, ["graph"])) as checkpoint:
        checkpoint.write("graph", "", {"seconds": {}}, {"data": POINTS, "order": np.arange(300), "words": ["a", 0.5]})


def read_stage(path):
    with closing(Checkpoint(path.parent, True, {"n": 1}, ["graph"])) as checkpoint:
        return checkpoint.read("graph")


def fields_of(record):
    return {name: value for name, value in vars(record).items() if not name.startswith("_")}


@pytest.fixture(scope="module")
def selection():
    return select_coordinates(POINTS, **OPTIONS)


WRITE = {
    "run.npz": lambda path, selection: selection.save(path),
    "model.npz": lambda path, selection: selection.model(POINTS).save(path),
    "graph.npz": lambda path, selection: write_stage(path),
    "points.npz": lambda path, selection: np.savez_compressed(path, X=POINTS),
    "points.npy": lambda path, selection: write_table(path, POINTS),
    **{f"points{ending}": lambda path, selection: write_points(path) for ending in (".csv", ".tsv", ".txt", ".h5")},
}
READ = {"graph.npz": read_stage} | dict.fromkeys(("run.npz", "model.npz"), lambda path: fields_of(load(path)))


def damages(content, count, rng):
    """Flipped bits, among them many in the first and last bytes, where the structure is; and cuts."""
    ends = [*range(0, min(120, len(content))), *range(max(0, len(content) - 120), len(content))]
    for place in (*rng.choice(ends, count // 2), *rng.integers(0, len(content), count // 2)):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        yield bytes(changed)
    for length in rng.integers(0, len(content), count // 3):
        yield content[: int(length)]


@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WRITE)
def test_damage(name, count, selection, tmp_path):
    path = tmp_path / name
    WRITE[name](path, selection)
    content, read = path.read_bytes(), READ.get(name, read_points)
    expected = np.array(read(path)) if read is read_points else read(path)  # a mapped file would change with its path
    refused = 0
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
            found = None
        if found is None:  # or a stage that is computed again
            refused += 1
        elif name in CHECKED:
            assert_same(expected, np.array(found) if read is read_points else found)
    assert refused


def header_of(shape, dtype="<f8"):
    """The header of an ``.npy`` file that claims any shape."""
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("shape", "dtype", "code"),
    [
        *((shape, "<f8", "damaged") for shape in ((10**12, 3), (10**18, 3), (1 << 40, 1 << 40), (-1, 3))),
        # a comma for a dtype is a SyntaxError in NumPy: a flipped bit found it
        *(((10, 3), dtype, "*") for dtype in (",", "(", "f8,", "<f8,<f8", "99999999999V", "O", "<M8[s]")),
    ],
)
def test_an_array_that_claims_more_than_its_file_holds_is_refused(shape, dtype, code, tmp_path):
    """And one of an odd type."""
    (tmp_path / "points.npy").write_bytes(header_of(shape, dtype) + bytes(240))
    with zipfile.ZipFile(tmp_path / "points.npz", "w") as archive:
        archive.writestr("X.npy", header_of(shape, dtype) + bytes(240))
    for name in ("points.npy", "points.npz"):
        with refused(f"file.{code}"):
            read_points(tmp_path / name)


def test_devices_and_pipes_are_not_read(tmp_path):
    """One has no end, and the other may never begin."""
    os.mkfifo(tmp_path / "pipe.npz")
    os.symlink("/dev/zero", tmp_path / "zero.npz")
    for read, name in product((load, read_points), ("pipe.npz", "zero.npz")):
        with refused("file.special"):
            read(tmp_path / name)


@pytest.mark.parametrize("kind", ["npz", "h5", "h5 of one chunk"])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, kind):
    """64 MB in some kilobytes, on a machine that has 32 MB free."""
    n, path = 1 << 22, tmp_path / f"points.{kind[:3].strip()}"
    if kind == "npz":
        np.savez_compressed(path, X=np.zeros((n, 2)))
    else:
        one = kind != "h5"
        with needed("h5py", "files").File(path, "w") as file:
            about = {"dtype": "f8", "compression": "gzip", "maxshape": (None, 2)}
            file.create_dataset("X", shape=(10 if one else n, 2), chunks=(n if one else 1 << 15, 2), **about)
    assert path.stat().st_size < 200_000
    monkeypatch.setattr("ies_gpu.files.points.available_memory", lambda: 32 << 20)
    with refused("file.memory"):
        read_points(path)


@pytest.mark.parametrize("kind", ["storage", "link", "link behind a link", "view"])
def test_data_in_another_file_are_not_read(tmp_path, kind):
    """They could name any file that this user may read."""
    h5py, secret = needed("h5py", "files"), tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["X"] = np.arange(20.0).reshape(10, 2)
    with h5py.File(tmp_path / "points.h5", "w") as file:
        if kind == "storage":
            file.create_dataset("X", shape=(10, 2), dtype="f8", external=[(str(secret), 0, 160)])
        elif kind == "link":
            file["X"] = h5py.ExternalLink(str(secret), "X")
        elif kind == "link behind a link":
            file["elsewhere"] = h5py.ExternalLink(str(secret), "/")
            file["X"] = h5py.SoftLink("/elsewhere/X")
        else:
            layout = h5py.VirtualLayout(shape=(10, 2), dtype="f8")
            layout[:] = h5py.VirtualSource(str(secret), "X", shape=(10, 2))
            file.create_virtual_dataset("X", layout)
    with refused("file.elsewhere"):
        read_points(tmp_path / "points.h5")


def test_results_are_never_unpacked_and_names_of_members_are_no_paths(selection, tmp_path):
    """We do not compress, so a compressed member is not ours: a few bytes could become gigabytes."""
    (path := tmp_path / "inner" / "run.npz").parent.mkdir()
    selection.save(path)
    with zipfile.ZipFile(path, "a") as archive:  # nothing is extracted: a place elsewhere is only a name
        for name in ("../../outside.npy", "/tmp/ies-gpu-outside.npy"):
            archive.writestr(name, b"here")
    assert load(path).subset == selection.subset
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["inner", "run.npz"]
    for member in ("header.json", "coordinates.npy"):
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "changed.npz", "w") as new:
            for info in old.infolist():
                kind = zipfile.ZIP_DEFLATED if info.filename == member else zipfile.ZIP_STORED
                new.writestr(info.filename, old.read(info), compress_type=kind)
        with refused("file.damaged"):
            load(tmp_path / "changed.npz")


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
    for name, read in (("points.npy", read_points), ("points.npz", read_points), ("run.npz", load)):
        with refused("file.*"):
            read(tmp_path / name)
    assert not (tmp_path / "executed").exists()


def saved(write, *args, **arrays):
    write(file := io.BytesIO(), *args, **arrays)
    return file.getvalue()


npy, npz = partial(saved, np.save), partial(saved, np.savez)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("points.npy", npy(POINTS)[:20], "damaged"),
        ("points.npy", npy(POINTS).replace(b", }", b",  "), "damaged"),  # a bracket that nothing closes
        ("points.npy", npz(X=POINTS), "damaged"),
        *(("points.npy", npy(X), "shape") for X in (np.arange(4.0), POINTS[None])),
        ("points.npy", npy(POINTS[:0]), "empty"),
        *(("points.npy", npy(X), "dtype") for X in (np.array([[1, "a"]], object), np.array([["a"]]), POINTS + 1j)),
        ("points.npz", npz(X=POINTS).replace(b", }", b",  "), "damaged"),
        ("points.csv", "größe,y\n1,2\n".encode("latin-1"), "damaged"),
        ("points.csv", b"", "empty"),
        *((f"points{ending}", text, "damaged") for ending in (".npy", ".npz", ".h5") for text in (b"", b"noise" * 100)),
    ],
)
def test_wrong_files_say_what_is_wrong(tmp_path, name, content, code):
    (tmp_path / name).write_bytes(content)
    if name.endswith(".h5"):
        needed("h5py", "files")
    with refused(f"file.{code}") as caught:
        read_points(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)
