"""Results on disk: equal after a round trip, refused when damaged, and never half written."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import ies_gpu
from ies_gpu import datasets, load, select_coordinates
from ies_gpu.choice.regularization import Segment
from ies_gpu.results.selection import Ranking
from tests.comparison import assert_equal_selections
from tests.said import refused

pytestmark = pytest.mark.usefixtures("plain_kernels")


@pytest.fixture(scope="module")
def selection(plain_kernels):
    data = datasets.load("D1", n_samples=1500)
    return select_coordinates(data.X, intrinsic_dim=2, subset_size=2, bandwidth=0.6)


@pytest.fixture
def saved(selection, tmp_path):
    selection.save(tmp_path / "run.npz")
    return tmp_path / "run.npz"


def test_a_round_trip_keeps_every_field(selection, saved):
    whole = saved.read_bytes()
    again = load(saved.rename(saved.with_suffix(".dat")))  # its name does not matter
    assert_equal_selections(selection, again, ignored=())
    assert np.isinf(again.path[0].high) and isinstance(again.path[0], Segment)
    assert isinstance(again.ranking, Ranking) and isinstance(again.diagnostics["warnings"], tuple)
    assert repr(again) == repr(selection)
    np.testing.assert_array_equal(again.score((0, 2)), selection.score((0, 2)))
    again.save(saved)
    assert saved.read_bytes() == whole


def test_an_older_name_of_an_option_is_read(selection, tmp_path):
    """``disconnected`` was called ``components``."""
    parameters = dict(selection.diagnostics["parameters"])
    parameters["components"] = parameters.pop("disconnected")
    older = dataclasses.replace(selection, diagnostics=selection.diagnostics | {"parameters": parameters})
    older.save(tmp_path / "older.npz")
    assert load(tmp_path / "older.npz").diagnostics["parameters"] == selection.diagnostics["parameters"]


def test_odd_values_survive(selection, tmp_path):
    odd = {
        "inf": np.inf, "nan": np.nan, "minus": -np.inf, "none": None, "deep": {"a": [1, (2.5, None)], "b": ()},
        "@tuple": "a key like a mark", "numbers": {1: "a", 2: "b"}, "array": np.arange(6.0).reshape(2, 3), "yes": True,
        "empty": {}, "text": "größer than \u221e",
    }  # fmt: skip
    numbers = {"count": np.int64(3), "ok": np.bool_(True), "x": np.float32(0.5)}
    changed = dataclasses.replace(
        selection, bases=None, laplace_beltrami_eigenvalues=None, zeta_interval=(0.5, None), diagnostics=odd,
        singular_values=np.asfortranarray(selection.singular_values.astype("float32")),
    )  # fmt: skip
    changed.save(tmp_path / "run.npz")
    assert_equal_selections(changed, load(tmp_path / "run.npz"), ignored=())
    dataclasses.replace(selection, diagnostics=numbers).save(tmp_path / "run.npz")
    assert load(tmp_path / "run.npz").diagnostics == {"count": 3, "ok": True, "x": 0.5}


def test_the_file_is_plain(saved):
    with zipfile.ZipFile(saved) as archive:
        header = json.loads(archive.read("header.json"), parse_constant=pytest.fail)  # strict: no NaN, no Infinity
    assert header["format"] == "ies_gpu selection" and header["version"] == 2
    assert header["written_by"] == f"ies_gpu {ies_gpu.__version__}"
    with np.load(saved, allow_pickle=False) as arrays:
        assert arrays["coordinates"].shape == (1500, 20)


def rewritten(path, change):
    """The same file with a changed header."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda h: h.update(version=99, written_by="ies_gpu 7.1"), "file.newer"),
        (lambda h: h.update(format="other"), "file.kind"),
        (lambda h: h.pop("version"), "file.kind"),
        (lambda h: h["fields"].pop("path"), "file.damaged"),
        (lambda h: h["fields"].update(bases={"@array": "nowhere"}), "file.damaged"),
        (lambda h: h["fields"].update(bases={"@unknown": 1}), "file.damaged"),
        (lambda h: h.update(fields=[]), "file.damaged"),
    ],
)
def test_headers_of_others_are_refused(saved, change, code):
    rewritten(saved, change)
    with refused(code) as caught:
        load(saved)
    assert str(saved) in str(caught.value) and "\n" not in str(caught.value)


def test_foreign_missing_and_wrong(selection, tmp_path):
    np.savez(tmp_path / "foreign.npz", X=np.ones((3, 2)))
    np.save(tmp_path / "array.npy", np.ones(3))
    missing = (("foreign.npz", "file.kind"), ("array.npy", "file.kind"), ("no.npz", "file.missing"))
    for name, code in missing:
        with refused(code, (ValueError, FileNotFoundError)):
            load(tmp_path / name)
    with refused("output.ending"):
        selection.save(tmp_path / "run.pkl")


@pytest.mark.parametrize("name", ["shot 10.00\u202fAM.npz", "a\xa0b.npz", os.fsdecode(b"M\xfcller.npz")])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names are bytes")
def test_names_may_have_characters_that_are_not_printable_or_utf_8(selection, tmp_path, name):
    selection.save(tmp_path / name)
    assert load(tmp_path / name).subset == selection.subset


@pytest.mark.parametrize("name", ["a\nb.npz", "a\x1b[31m.npz", "half \ud800.npz", "\u00fc" * 130 + ".npz"])
def test_names_that_would_harm_a_terminal_or_fit_no_file_system(selection, tmp_path, name):
    with pytest.raises(ValueError, match="a name that a file can have"):
        selection.save(tmp_path / name)


KILLER = """
import glob, os, random, signal, sys, time
from ies_gpu import load
source, target = sys.argv[1:]
selection, chance, leftovers = load(source), random.Random(0), 0
selection.save(target)
whole = open(target, "rb").read()
unfinished = os.path.join(os.path.dirname(target), ".target.npz.*.tmp")
for k in range(40):
    before = set(glob.glob(unfinished))
    child = os.fork()
    while child == 0:
        selection.save(target)
    if k % 2:
        time.sleep(chance.uniform(0, 0.03))
    else:
        while not set(glob.glob(unfinished)) - before:
            time.sleep(0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert open(target, "rb").read() == whole
    load(target)
print(len(glob.glob(unfinished)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX")
def test_sigkill_while_saving_leaves_a_whole_file(saved, tmp_path):
    """Forty processes that save over and over, killed at a random time or as soon as a file has been begun."""
    command = [sys.executable, "-c", KILLER, str(saved), str(tmp_path / "target.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "no process was killed while it wrote: the test has shown nothing"
