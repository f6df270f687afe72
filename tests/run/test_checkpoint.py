"""Checkpoints: a resumed run has the same bits, and only what is whole and belongs to the job is taken."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from ies_gpu import CheckpointWarning, IESWarning, datasets, load, radius_graph, select_coordinates
from ies_gpu.backend.kernels import plain
from ies_gpu.embedding.laplacian import gaussian_kernel, graph_laplacian
from ies_gpu.run.fingerprint import data_digest
from ies_gpu.run.stage import Run
from ies_gpu.select import STAGES as SAVED
from tests.comparison import assert_equal_selections, resumed, stored_as

pytestmark = pytest.mark.usefixtures("plain_kernels")

OPTIONS = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.6}

STAGES = [stage.name for stage in SAVED if stage.name != "automatic"]


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=900).X


@pytest.fixture(scope="module")
def uninterrupted(points):
    return select_coordinates(points, **OPTIONS)


@pytest.fixture(scope="module")
def finished(points, tmp_path_factory):
    """A folder with all stages, which no test changes."""
    folder = tmp_path_factory.mktemp("finished")
    select_coordinates(points, **OPTIONS, checkpoint=folder)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "run")


def test_saving_changes_nothing_and_leaves_every_stage(points, uninterrupted, tmp_path):
    found = select_coordinates(points, **OPTIONS, checkpoint=tmp_path / "new" / "folder")
    assert_equal_selections(uninterrupted, found)
    assert resumed(found) == [] and found.diagnostics["checkpoint"]["notes"] == []
    names = sorted(os.listdir(tmp_path / "new" / "folder"))
    assert names == sorted([".lock", *(f"{stage}.npz" for stage in STAGES)])


@pytest.mark.parametrize("kept", range(len(STAGES) + 1))
def test_a_run_goes_on_from_wherever_it_was_killed(points, uninterrupted, folder, kept):
    for stage in STAGES[kept:]:
        (folder / f"{stage}.npz").unlink()
    found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, found)
    # the matrix is read only while it is needed
    expected = {0: [], 1: ["graph"], 2: ["graph", "laplacian"], 3: ["graph", "eigenvectors", "laplacian"]}
    assert resumed(found) == expected.get(kept, ["graph", "eigenvectors", "tangents", "search"][: kept - 1])
    again = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, again)
    assert resumed(again) == ["graph", "eigenvectors", "tangents", "search"]


def test_stages_that_are_taken_are_not_computed(points, folder, monkeypatch):
    original = Run._computed

    def computed(run, stage, inputs):
        assert stage.name == "result", "computed again"
        return original(run, stage, inputs)

    monkeypatch.setattr(Run, "_computed", computed)
    found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert set(found.diagnostics["seconds"]) >= {"graph", "eigenvectors", "tangents", "search", "resume tangents"}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "array", "shape", "encrypted", "grown"])
def test_a_damaged_stage_is_told_of_and_computed_again(points, uninterrupted, folder, stage, damage):
    path = folder / f"{stage}.npz"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: int(0.6 * len(content))]
    elif damage == "flipped":
        content[int(0.6 * len(content))] ^= 1
    elif damage == "empty":
        content = b""
    elif damage == "text":
        content = b"no archive at all"
    elif damage == "shape":  # one byte, and NumPy cannot read the first array's header
        content[content.index(b", }", content.index(b"'shape': (")) + 2] = ord(" ")
    elif damage == "encrypted":  # one bit in the list of members
        content[content.rindex(b"PK\x01\x02") + 8] ^= 1
    elif damage == "grown":  # more than any memory holds
        begin = content.index(b"'shape': (")
        content[begin + 9 : begin + 24] = b"(9999999999999,"
    path.write_bytes(content)
    if damage == "array":  # a sound archive, whose checksums agree, but with another number in it
        change_first_array(path)
    if stage == "laplacian":  # of no use once the tangent bases are there
        (folder / "tangents.npz").unlink()
    with pytest.warns(CheckpointWarning, match=rf"{stage}\.npz is damaged; the stage is recomputed"):
        found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, found)
    if stage != "laplacian":  # everything behind it is as good as before, as the digests prove
        after = ["eigenvectors", "tangents", "search"]
        assert [s for s in after if s != stage] == [s for s in resumed(found) if s in after]
    assert_equal_selections(uninterrupted, select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True))


def change_first_array(path):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith(".npy"))
    members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_stage_that_followed_from_another_one_is_not_taken(points, uninterrupted, folder):
    """Every file is sound and of this job, but the tangent bases were not computed from these eigenvectors."""
    path = folder / "tangents.npz"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    members["header.json"] = json.dumps(header | {"after": "0" * 64}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert_equal_selections(uninterrupted, found)
    assert "tangents" not in resumed(found) and "search" in resumed(found)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bandwidth": 0.61}, "bandwidth 0.6 there, 0.61 here"),
        ({"subset_size": 3}, "subset_size 2 there, 3 here"),
        ({"random_state": 5}, "random_state 0 there, 5 here"),
        ({"zeta": 1.0}, "zeta auto there, 1 here"),
        ({"tol": 1e-9}, "tol 1e-08 there, 1e-09 here"),
        ({"dtype": "float32"}, "dtype float64 there, float32 here"),
        ({"X": 1}, "different data"),
    ],
)
def test_another_jobs_checkpoint_is_told_of_and_replaced(points, folder, change, told):
    X = points.copy()
    if "X" in change:
        X[7, 1] = np.nextafter(X[7, 1], 9)  # a single bit of a single number
    options = OPTIONS | {name: value for name, value in change.items() if name != "X"}
    with pytest.warns(CheckpointWarning, match="holds a checkpoint of another job") as caught:
        found = select_coordinates(X, **options, checkpoint=folder, resume=True)
    assert told in str(caught[0].message) and len(caught) == 1
    assert resumed(found) == []
    assert_equal_selections(select_coordinates(X, **options), found)
    assert resumed(select_coordinates(X, **options, checkpoint=folder, resume=True))


def test_stages_in_another_format_are_another_jobs(points, uninterrupted, folder, monkeypatch):
    monkeypatch.setattr("ies_gpu.run.checkpoint.VERSION", 2)
    with pytest.warns(CheckpointWarning, match=r"another job \(format 1 there, 2 here\)"):
        found = select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert resumed(found) == []
    assert_equal_selections(uninterrupted, found)


def test_a_folder_with_stages_is_not_written_over_unasked(points, folder, monkeypatch):
    monkeypatch.setattr("ies_gpu.run.stage.Run._computed", lambda *_: pytest.fail("work began"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"holds a checkpoint of this job .*pass resume=True to continue"):
        select_coordinates(points, **OPTIONS, checkpoint=folder)
    with pytest.raises(ValueError, match="holds a checkpoint of another job"):
        select_coordinates(points[:-1], **OPTIONS, checkpoint=folder)
    (folder / "graph.npz").write_bytes(b"?")
    with pytest.raises(ValueError, match="holds a checkpoint of this job"):
        select_coordinates(points, **OPTIONS, checkpoint=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before | {"graph.npz": b"?"}


@pytest.mark.parametrize("resume", [False, True])
def test_a_file_of_the_users_is_not_taken_for_a_stage(points, tmp_path, resume):
    path = tmp_path / "graph.npz"
    scipy.sparse.save_npz(path, scipy.sparse.eye_array(3, format="csr"))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"graph\.npz is not part of a checkpoint.*; choose another folder"):
        select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=resume)
    assert path.read_bytes() == before
    path.unlink()
    select_coordinates(points, **OPTIONS, checkpoint=tmp_path)  # the lock was given back


def test_wrong_folders_are_refused_before_the_work(points, tmp_path, monkeypatch):
    monkeypatch.setattr("ies_gpu.run.stage.Run._computed", lambda *_: pytest.fail("work began"))
    with pytest.raises(ValueError, match="resume=True needs checkpoint"):
        select_coordinates(points, **OPTIONS, resume=True)
    with pytest.raises(ValueError, match="must be a local folder"):
        select_coordinates(points, **OPTIONS, checkpoint="s3://bucket/folder")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="must be a folder"):
        select_coordinates(points, **OPTIONS, checkpoint=tmp_path / "file")
    with pytest.raises(OSError, match="cannot create"):
        select_coordinates(points, **OPTIONS, checkpoint=tmp_path / "file" / "below")


@pytest.mark.skipif(os.name == "nt", reason="POSIX locks")
def test_two_runs_do_not_share_a_folder(points, folder):
    import fcntl

    with open(folder / ".lock", "rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="is in use by another run"):
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

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(CheckpointWarning, match=r"was not saved in .*No space left") as caught:
        found = select_coordinates(points, **OPTIONS, checkpoint=tmp_path)
    assert len(caught) == 3 and "'eigenvectors'" in str(caught[0].message)
    assert found.diagnostics["warnings"] == ()
    assert_equal_selections(uninterrupted, found)
    assert sorted(os.listdir(tmp_path)) == [".lock", "graph.npz", "laplacian.npz"]
    monkeypatch.undo()
    monkeypatch.setenv("IES_GPU_KERNELS", "plain")
    again = select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=True)
    assert_equal_selections(uninterrupted, again)
    assert resumed(again) == ["graph", "laplacian"]


def test_leftovers_of_a_killed_process_are_removed(points, folder):
    (folder / ".tangents.npz.0123456789ab.tmp").write_bytes(b"half")
    (folder / "notes.txt").write_text("mine")
    select_coordinates(points, **OPTIONS, checkpoint=folder, resume=True)
    assert not list(folder.glob("*.tmp")) and (folder / "notes.txt").read_text() == "mine"


def test_warnings_are_given_again(points, tmp_path):
    X = np.vstack([points, [[90.0, 0, 0], [90.1, 0, 0]]])
    with pytest.warns(IESWarning, match="2 parts"):
        first = select_coordinates(X, **OPTIONS, components="largest", checkpoint=tmp_path)
    with pytest.warns(IESWarning, match="2 parts") as caught:
        again = select_coordinates(X, **OPTIONS, components="largest", checkpoint=tmp_path, resume=True)
    assert len(caught) == 1
    assert_equal_selections(first, again)
    assert len(again.points) == 900


def test_a_run_that_fell_back_to_plain_code_stays_there(points, tmp_path, monkeypatch):
    """An audit that failed before the run was killed counts for what comes after it."""
    fused = pytest.importorskip("ies_gpu.backend.kernels.fused")
    monkeypatch.setenv("IES_GPU_KERNELS", "")

    class Wrong:
        """Numba's kernels, but for a product that is off."""

        def __getattr__(self, name):
            return getattr(fused, name)

        def spmm(self, *arguments):
            return 1.001 * fused.spmm(*arguments)

    monkeypatch.setattr("ies_gpu.backend.cpu.load_kernels", Wrong)
    with pytest.warns(IESWarning, match="spmm differs from plain code"):
        first = select_coordinates(points, **OPTIONS, checkpoint=tmp_path)
    assert first.diagnostics["kernels"] == plain.NAME
    for stage in STAGES[2:]:
        (tmp_path / f"{stage}.npz").unlink()
    with pytest.warns(IESWarning, match="spmm differs from plain code"):
        again = select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=True)
    assert resumed(again) == ["graph", "laplacian"]
    assert_equal_selections(first, again)


def entries(points):
    graph = radius_graph(points, radius=1.8)
    kernel = gaussian_kernel(graph, bandwidth=0.6)
    found = select_coordinates(kernel=kernel, bandwidth=0.6, intrinsic_dim=2, subset_size=2)
    embedding = {"coordinates": found.coordinates, "eigenvalues": found.eigenvalues}
    return {
        "graph": {"graph": graph, "bandwidth": 0.6},
        "kernel": {"kernel": kernel, "bandwidth": 0.6},
        "laplacian": {"laplacian": graph_laplacian(kernel, bandwidth=0.6), **embedding},
        "matrix": {"laplacian": graph_laplacian(kernel).matrix, **embedding},
    }


@pytest.mark.parametrize("entry", ["graph", "kernel", "laplacian", "matrix"])
def test_every_entry_can_be_resumed(points, tmp_path, entry):
    given = entries(points)[entry] | {"intrinsic_dim": 2, "subset_size": 3}
    first = select_coordinates(**given, checkpoint=tmp_path)
    (tmp_path / "search.npz").unlink()
    again = select_coordinates(**given, checkpoint=tmp_path, resume=True)
    assert_equal_selections(first, again)
    assert resumed(again) == (["tangents"] if "laplacian" in given else ["graph", "eigenvectors", "tangents"])


@pytest.mark.parametrize("storage", ["tiles", "recomputed", "file"])
def test_graphs_without_a_matrix_keep_their_eigenvectors(tmp_path, monkeypatch, storage):
    """A kernel in tiles or in a file is computed again; what was computed with it is not."""
    X = datasets.load("D1", n_samples=600).X
    options = OPTIONS | {"bandwidth": 1.2}
    stored_as(monkeypatch, storage)
    first = select_coordinates(X, **options, checkpoint=tmp_path)
    assert bool(first.diagnostics["approximations"]) == (storage != "file")
    assert not (tmp_path / "laplacian.npz").exists()
    for kept, expected in ((4, ["graph", "eigenvectors", "tangents"]), (3, ["graph", "eigenvectors"]), (2, ["graph"])):
        for stage in STAGES[kept:]:
            (tmp_path / f"{stage}.npz").unlink(missing_ok=True)
        again = select_coordinates(X, **options, checkpoint=tmp_path, resume=True)
        assert_equal_selections(first, again)
        assert resumed(again) == expected


def test_the_memory_budget_belongs_to_the_job(points, tmp_path, monkeypatch):
    """Block lengths decide about the order of sums: a machine that is fuller after the restart must not matter."""
    monkeypatch.setattr("ies_gpu.backend.cpu.available_memory", lambda: 400 << 20)
    first = select_coordinates(points, **OPTIONS, checkpoint=tmp_path)
    for stage in STAGES[2:]:
        (tmp_path / f"{stage}.npz").unlink()
    monkeypatch.setattr("ies_gpu.backend.cpu.available_memory", lambda: 100 << 20)
    assert_equal_selections(first, select_coordinates(points, **OPTIONS, checkpoint=tmp_path, resume=True))


def test_a_run_on_the_device_goes_on(cupy, points, tmp_path):
    first = select_coordinates(points, **OPTIONS, device="cuda")
    saved = select_coordinates(points, **OPTIONS, device="cuda", checkpoint=tmp_path)
    assert saved.diagnostics["device"] == "cuda:0"
    assert_equal_selections(first, saved)
    for kept, expected in ((4, ["graph", "eigenvectors", "tangents"]), (3, ["graph", "eigenvectors", "laplacian"])):
        for stage in STAGES[kept:]:
            (tmp_path / f"{stage}.npz").unlink(missing_ok=True)
        again = select_coordinates(points, **OPTIONS, device="cuda", checkpoint=tmp_path, resume=True)
        assert resumed(again) == expected
        assert_equal_selections(first, again)
    on_device = select_coordinates(cupy.asarray(points), **OPTIONS, checkpoint=tmp_path, resume=True)
    assert resumed(on_device)[-1] == "search" and isinstance(on_device.coordinates, cupy.ndarray)


def test_a_checkpoint_of_another_device_is_not_taken(cupy, points, tmp_path):
    select_coordinates(points, **OPTIONS, device="cpu", checkpoint=tmp_path)
    with pytest.warns(CheckpointWarning, match="device cpu there, cuda here"):
        found = select_coordinates(points, **OPTIONS, device="cuda", checkpoint=tmp_path, resume=True)
    assert resumed(found) == []


def test_equal_data_have_equal_digests(points):
    base = data_digest({"X": points, "graph": None})
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


def job(folder, *more):
    """The command, in a process of its own."""
    command = [sys.executable, "-m", "ies_gpu", "fit", str(folder / "points.npy"), "-o", str(folder / "run.npz")]
    return [*command, "-d", "2", "-s", "2", "--checkpoint", str(folder / "saved"), "--resume", "--quiet", *more]


KILLER = """
import json, os, random, shutil, signal, sys, time
import numpy as np
from ies_gpu import load, save, select_coordinates
from tests.comparison import assert_equal_selections, resumed
folder, kills, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
X, chance = np.load(folder + "/points.npy"), random.Random(0)
reference = select_coordinates(X, **options)  # uninterrupted; loads all kernels too
save(reference, folder + "/reference.npz")
reference = load(folder + "/reference.npz")

def child(saved):
    number = os.fork()
    if number == 0:
        found = select_coordinates(X, **options, checkpoint=f"{folder}/{saved}", resume=True)
        save(found, folder + "/run.npz")
        os._exit(0)
    return number

begin = time.perf_counter()
assert os.waitpid(child("first"), 0)[1] == 0
duration, stages = time.perf_counter() - begin, []
while len(stages) < kills:
    os.unlink(folder + "/run.npz")
    number = child("saved")
    # a random time after the start, or after a stage
    behind = chance.choice(["", "laplacian", "eigenvectors", "tangents"])
    patience = time.perf_counter() + duration
    while behind and not os.path.exists(f"{folder}/saved/{behind}.npz") and time.perf_counter() < patience:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.2 * duration))
    os.kill(number, signal.SIGKILL)
    killed = os.waitpid(number, 0)[1] == signal.SIGKILL
    if killed:  # a copy is resumed to its end; the job itself is killed again, a little further on
        os.makedirs(folder + "/saved", exist_ok=True)
        shutil.copytree(folder + "/saved", folder + "/copy")
        assert os.waitpid(child("copy"), 0)[1] == 0
        shutil.rmtree(folder + "/copy")
    else:
        shutil.rmtree(folder + "/saved")
    found = load(folder + "/run.npz")
    assert_equal_selections(reference, found)
    if killed:
        stages.append(" ".join(resumed(found)))
print(json.dumps({stage: stages.count(stage) for stage in sorted(set(stages))}))
"""


def killed_and_resumed(folder, kills, options, **environment):
    """Processes that are forked once all is loaded, killed at random times, resumed, and compared with a whole run.

    Returns how many were resumed behind which stages.
    """
    # of Numba's ways to use threads the one that survives a fork
    environment = os.environ | {"NUMBA_THREADING_LAYER": "workqueue", "PYTHONPATH": os.getcwd()} | environment
    command = [sys.executable, "-c", KILLER, str(folder), str(kills), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX")
def test_sigkill_at_random_times(points, tmp_path):
    np.save(tmp_path / "points.npy", points)
    found = killed_and_resumed(tmp_path, 6, OPTIONS)
    assert sum(found.values()) == 6
    assert set(found) - {""}, "no run was killed behind a finished stage: the test has shown nothing"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX")
def test_a_hundred_sigkills(tmp_path):
    """n = 20,000, degree about 100, Numba's kernels."""
    np.save(tmp_path / "points.npy", datasets.load("D1", n_samples=20_000).X)
    options = {"intrinsic_dim": 2, "subset_size": 2, "bandwidth": 0.14, "n_components": 6, "n_threads": 1}
    found = killed_and_resumed(tmp_path, 100, options, IES_GPU_KERNELS="")
    assert sum(found.values()) == 100
    assert any("tangents" in stages for stages in found), f"the kills fell into too few stages: {found}"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_the_checkpoint_intact(points, uninterrupted, tmp_path, number, status):
    np.save(tmp_path / "points.npy", points)
    # more eigenvectors, so that the signal comes while they are computed
    command = job(tmp_path, "--bandwidth", "0.6", "-m", "40", "--log-format", "json")
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # a shell starts background jobs with SIGINT ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while '"eigenvectors"' not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    err = process.communicate(timeout=30)[1]
    assert process.returncode == status and "Traceback" not in err
    assert json.loads(err.splitlines()[-1])["status"] == status
    assert not (tmp_path / "run.npz").exists()
    assert sorted(os.listdir(tmp_path / "saved")) == [".lock", "graph.npz", "laplacian.npz"]
    subprocess.run(job(tmp_path, "--bandwidth", "0.6", "-m", "40"), check=True)
    assert resumed(load(tmp_path / "run.npz")) == ["graph", "laplacian"]


def test_the_command_line_says_what_to_do(points, folder, tmp_path, capsys):
    from ies_gpu import cli

    np.save(tmp_path / "points.npy", points)
    arguments = ["fit", str(tmp_path / "points.npy"), "-d", "2", "-s", "2", "--bandwidth", "0.6", "--json"]
    assert cli.main([*arguments, "--checkpoint", str(folder)]) == 1
    assert "holds a checkpoint of this job" in (err := capsys.readouterr().err) and "pass --resume" in err
    assert cli.main([*arguments, "--checkpoint", str(folder), "--resume"]) == 0
    assert cli.main([*arguments, "--resume"]) == 2
    assert "--resume needs --checkpoint" in capsys.readouterr().err
    (folder / "search.npz").write_bytes(b"damaged")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert cli.main([*arguments, "--checkpoint", str(folder), "--resume"]) == 0
    assert "ies-gpu: warning: " in (err := capsys.readouterr().err) and "search.npz is damaged" in err


@pytest.mark.parametrize("kernels", ["plain", ""])
def test_what_was_found_automatically_is_saved_too(tmp_path, monkeypatch, kernels):
    """The scan is not repeated, and the result is that of a run without a folder."""
    monkeypatch.setenv("IES_GPU_KERNELS", kernels)
    X = datasets.load("D1", n_samples=1200).X
    asked = {"intrinsic_dim": "auto", "bandwidth": "auto", "n_components": 12}  # and the size: several are searched
    usual = select_coordinates(X, **asked)
    first = select_coordinates(X, **asked, checkpoint=tmp_path)
    again = select_coordinates(X, **asked, checkpoint=tmp_path, resume=True)
    assert resumed(first) == [] and resumed(again)[0] == "automatic"
    for found in (first, again):
        assert_equal_selections(usual, found)


def test_the_documented_stages_are_those_of_a_job(tmp_path, capsys):
    """Of an automatic job and its repetition, together."""
    from ies_gpu import cli

    page = Path(__file__).parents[2] / "docs" / "jobs.md"
    np.save(tmp_path / "points.npy", datasets.load("D1", n_samples=900).X)
    files = ["-o", str(tmp_path / "run.npz"), "--checkpoint", str(tmp_path / "saved"), "--resume"]
    for _ in range(2):
        assert cli.main(["fit", str(tmp_path / "points.npy"), "-m", "10", *files, "--log-format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    sentences = page.read_text().partition("Stages are ")[2].partition("\n\n")[0]
    named = {line["stage"].split()[0] for line in lines if "stage" in line}  # "resume graph" is documented in general
    assert named == set(re.findall(r"`(\w+)(?: STAGE)?`", sentences))
    assert {"checkpoint graph", "resume graph"} <= {line.get("stage") for line in lines}


def test_stages_of_an_automatic_run_do_not_hide_those_of_this_job(tmp_path):
    """The file of what was found stays behind when the numbers are given next; the job's own stages are taken."""
    X = datasets.load("D1", n_samples=900).X
    select_coordinates(X, bandwidth="auto", intrinsic_dim=2, subset_size=2, n_components=10, checkpoint=tmp_path)
    given = {"bandwidth": 1.0, "intrinsic_dim": 2, "subset_size": 2, "n_components": 10}
    with pytest.warns(CheckpointWarning, match="another job"):
        select_coordinates(X, **given, checkpoint=tmp_path, resume=True)
    again = select_coordinates(X, **given, checkpoint=tmp_path, resume=True)
    assert again.diagnostics["checkpoint"]["resumed"] == ["graph", "eigenvectors", "tangents", "search"]
    assert not again.diagnostics["checkpoint"]["notes"]


def test_stages_of_another_job_are_not_said_to_be_resumed(tmp_path):
    X = datasets.load("D1", n_samples=300).X
    select_coordinates(X, checkpoint=tmp_path, **OPTIONS | {"bandwidth": 0.9})
    with pytest.warns(CheckpointWarning):
        again = select_coordinates(X, checkpoint=tmp_path, resume=True, **OPTIONS | {"bandwidth": 1.0})
    assert not [stage for stage in again.diagnostics["seconds"] if stage.startswith("resume")]
