"""Checkpoints: a resumed run has the same bits, and only what is whole and belongs to the job is taken."""

import errno
import json
import os
import shutil
import stat
from pathlib import PurePath

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import CheckpointWarning, select_coordinates
from ies_gpu.run.checkpoint import data_digest
from tests.comparison import assert_equal_selections, changed, resumed
from tests.said import refused, warned

from .conftest import OPTIONS, STAGES, forget

pytestmark = pytest.mark.usefixtures("plain_kernels")


@pytest.fixture(scope="module")
def finished(points, tmp_path_factory):
    """A folder with all stages, which no test changes."""
    folder = tmp_path_factory.mktemp("finished")
    select_coordinates(points, **OPTIONS, checkpoint=folder)
    return folder


def no_work(*_):
    pytest.fail("work began")


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def test_saving_changes_nothing_and_leaves_every_stage(points, uninterrupted, tmp_path):
    found = select_coordinates(points, **OPTIONS, checkpoint=tmp_path / "new" / "folder")
    assert_equal_selections(uninterrupted, found)
    assert resumed(found) == [] and found.diagnostics["checkpoint"]["notes"] == []
    names = sorted(os.listdir(tmp_path / "new" / "folder"))
    assert names == sorted([".lock", *(f"{stage}.npz" for stage in STAGES)])


@pytest.mark.parametrize("kept", range(len(STAGES) + 1))
def test_a_run_goes_on_from_wherever_it_was_killed(points, uninterrupted, folder, kept):
    forget(folder, kept)
    found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, found)
    # the matrix is read only while it is needed
    expected = {0: [], 1: ["graph"], 2: ["graph", "laplacian"], 3: ["graph", "eigenvectors", "laplacian"]}
    assert resumed(found) == expected.get(kept, ["graph", "eigenvectors", "tangents", "search"][: kept - 1])
    begun, taken = set(), ["graph", "eigenvectors", "tangents", "search"]
    again = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True, progress=lambda *of: begun.add(of[0]))
    assert_equal_selections(uninterrupted, again)
    assert resumed(again) == taken and set(again.diagnostics["seconds"]) >= {*taken, "resume tangents"}
    assert begun == {f"resume {name}" for name in taken} | {"untangle", "verdict", "result"}  # no more is computed


def flipped(content, place, by=1):
    content[place] ^= by
    return content


DAMAGES = {
    "cut": lambda content, _: content[: int(0.6 * len(content))],
    "flipped": lambda content, _: flipped(content, int(0.6 * len(content))),
    "empty": lambda *_: b"",
    "text": lambda *_: b"no archive at all",
    "array": lambda content, _: content,  # a sound archive, whose checksums agree, but with another number in it
    # one byte, and NumPy cannot read the first array's header
    "shape": lambda content, shape: flipped(content, content.index(b", }", shape) + 2, ord("}") ^ ord(" ")),
    "encrypted": lambda content, _: flipped(content, content.rindex(b"PK\x01\x02") + 8),  # in the list of members
    "grown": lambda content, shape: content[: shape + 9] + b"(9999999999999," + content[shape + 24 :],  # to no end
}


@pytest.mark.parametrize(("stage", "damage"), [
    pytest.param(stage, damage, marks=[] if stage == "tangents" or damage == "flipped" else pytest.mark.thorough)
    for stage in STAGES for damage in DAMAGES
])  # fmt: skip
def test_a_damaged_stage_is_told_of_and_computed_again(points, uninterrupted, folder, stage, damage):
    path = folder / f"{stage}.npz"
    content = bytearray(path.read_bytes())
    path.write_bytes(DAMAGES[damage](content, content.find(b"'shape': (")))
    if damage == "array":
        with changed(path) as members:
            name = next(name for name in members if name.endswith(".npy"))
            members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])
    if stage == "laplacian":  # of no use once the tangent bases are there
        (folder / "tangents.npz").unlink()
    with warned("checkpoint.damaged", CheckpointWarning):
        found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, found)
    if stage != "laplacian":  # everything behind it is as good as before, as the digests prove
        after = ["eigenvectors", "tangents", "search"]
        assert [s for s in after if s != stage] == [s for s in resumed(found) if s in after]
    assert_equal_selections(uninterrupted, select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True))


def test_a_stage_that_followed_from_another_one_is_not_taken_and_leftovers_are_removed(points, uninterrupted, folder):
    """Every file is sound and of this job, but the tangent bases were not computed from these eigenvectors."""
    (folder / ".tangents.npz.0123456789ab.tmp").write_bytes(b"half")  # of a process that was killed
    (folder / "notes.txt").write_text("mine")
    with changed(folder / "tangents.npz") as members:
        members["header.json"] = json.dumps(json.loads(members["header.json"]) | {"after": "0" * 64}).encode()
    found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, found)
    assert "tangents" not in resumed(found) and "search" in resumed(found)
    assert not list(folder.glob("*.tmp")) and (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(("change", "told"), [
    ({"bandwidth": 0.61}, "bandwidth 0.6 there, 0.61 here"), ({"zeta": 1.0}, "zeta auto there, 1.0 here"),
    ({"dtype": "float32"}, "dtype float64 there, float32 here"), ({}, "different data"), ({}, "format 3 there, 99"),
])  # fmt: skip
def test_another_jobs_checkpoint_is_told_of_and_replaced(points, folder, change, told, monkeypatch):
    X, options = points.copy(), OPTIONS | change
    if "data" in told:
        X[7, 1] = np.nextafter(X[7, 1], 9)  # a single bit of a single number
    if "format" in told:
        monkeypatch.setattr("ies_gpu.run.checkpoint.VERSION", 99)
    with warned("checkpoint.other_job", CheckpointWarning) as caught:
        found = select_coordinates(X, **options, checkpoint=folder, resume=True)
    assert told in caught[0].text and len(caught) == 1
    assert resumed(found) == [] and not any(stage.startswith("resume") for stage in found.diagnostics["seconds"])
    assert_equal_selections(select_coordinates(X, **options), found)
    assert resumed(select_coordinates(X, **options, checkpoint=folder, resume=True))


def test_a_folder_with_stages_is_not_written_over_unasked(points, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for X in (points, points[:-1]):
        with refused("checkpoint.there"):
            select_coordinates(X, **OPTIONS, checkpoint=folder, progress=no_work)
    (folder / "graph.npz").write_bytes(b"?")
    with refused("checkpoint.there"):
        select_coordinates(points, **OPTIONS, checkpoint=folder, progress=no_work)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before | {"graph.npz": b"?"}


def test_a_file_of_the_users_is_not_taken_for_a_stage(points, tmp_path):
    path = tmp_path / "graph.npz"
    scipy.sparse.save_npz(path, scipy.sparse.eye_array(3, format="csr"))
    before = path.read_bytes()
    for resume in (False, True):
        with refused("checkpoint.foreign_file"):
            select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=resume)
    assert path.read_bytes() == before
    path.unlink()
    select_coordinates(points, **OPTIONS, checkpoint=tmp_path)  # the lock was given back


def test_wrong_folders_are_refused_before_the_work(points, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for code, kind, given in (
        ("resume.checkpoint", ValueError, {"resume": True}),
        ("checkpoint.remote", ValueError, {"checkpoint": "s3://bucket/folder"}),
        ("checkpoint.remote", ValueError, {"checkpoint": PurePath("s3://user:secret@bucket/folder")}),
        ("checkpoint.file", NotADirectoryError, {"checkpoint": tmp_path / "file"}),
        ("", NotADirectoryError, {"checkpoint": tmp_path / "file" / "below"}),
    ):
        with refused(code, kind):
            select_coordinates(points, **OPTIONS, progress=no_work, **given)


@pytest.mark.skipif(os.name == "nt", reason="POSIX locks")
def test_two_runs_do_not_share_a_folder(points, folder):
    import fcntl

    with open(folder / ".lock", "rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with refused("checkpoint.in_use"):
            select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert resumed(select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_during_a_run_does_not_keep_the_folder(points, uninterrupted, tmp_path):
    """As the workers of a pool, which live on when the run has ended."""
    children = []
    wait, release = os.pipe()

    def fork_once(stage, done, total):
        if not children and stage == "eigenvectors":
            children.append(os.fork())
            if children[0] == 0:
                os.close(release)
                os.read(wait, 1)  # until the parent closes its end
                os._exit(0)

    select_coordinates(points, checkpoint=tmp_path / "saved", progress=fork_once, **OPTIONS)
    try:
        again = select_coordinates(points, checkpoint=tmp_path / "saved", resume=True, **OPTIONS)
    finally:
        os.close(release)
        os.close(wait)
        assert os.waitpid(children[0], 0)[1] == 0
    assert again.subset == uninterrupted.subset


def test_a_full_disk_is_told_of_and_earlier_stages_stay(points, uninterrupted, tmp_path, monkeypatch):
    """The disk is full from the third stage on."""
    written, sync = [], os.fsync

    def full(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # not the folder
            written.append(descriptor)
            if len(written) > 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch, warned("checkpoint.not_saved", CheckpointWarning) as caught:
        patch.setattr("os.fsync", full)
        found = select_coordinates(points, **OPTIONS, checkpoint=tmp_path)
    assert len(caught) == 3 and "'eigenvectors'" in caught[0].text
    assert found.diagnostics["warnings"] == ()
    assert_equal_selections(uninterrupted, found)
    assert sorted(os.listdir(tmp_path)) == [".lock", "graph.npz", "laplacian.npz"]
    again = select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=True)
    assert_equal_selections(uninterrupted, again)
    assert resumed(again) == ["graph", "laplacian"]


def test_equal_data_have_equal_digests(points):
    base = data_digest({"X": points})
    wide = np.zeros((len(points), 7))
    wide[:, 2:5] = points
    assert data_digest({"X": np.array(points)}) == base == data_digest({"X": wide[:, 2:5]})
    assert data_digest({"X": points.astype("float32")}) != base != data_digest({"X": points[::-1]})
    assert data_digest({"graph": points}) != base
    objects = points[:5].astype(object)
    assert data_digest({"X": objects}) == data_digest({"X": points[:5].astype(object)})
    assert data_digest({"X": points[:5].tolist()}) == data_digest({"X": points[:5]})
    matrix = scipy.sparse.random(40, 40, 0.2, random_state=0)
    assert data_digest({"graph": matrix}) == data_digest({"graph": matrix.tocsr()})
    changed = matrix.tocsr()
    changed.data[3] += 1
    assert data_digest({"graph": matrix}) != data_digest({"graph": changed})
