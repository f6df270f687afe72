"""Results on disk: equal after a round trip, refused when damaged, and never half written."""

import dataclasses
import json
import os
import random
import signal
import sys
import time
import zipfile

import numpy as np
import pytest

import ies_gpu
from ies_gpu import datasets, load, select_coordinates
from ies_gpu.choice.regularization import Segment
from ies_gpu.results.selection import Ranking
from tests.comparison import assert_equal_selections, changed
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


def test_odd_values_survive(selection, tmp_path):
    odd = {
        "inf": np.inf, "nan": np.nan, "minus": -np.inf, "none": None, "deep": {"a": [1, (2.5, None)], "b": ()},
        "@tuple": "a key like a mark", "numbers": {1: "a", 2: "b"}, "array": np.arange(6.0).reshape(2, 3), "yes": True,
        "empty": {}, "text": "größer than \u221e",
    }  # fmt: skip
    numbers = {"count": np.int64(3), "ok": np.bool_(True), "x": np.float32(0.5)}
    other = dataclasses.replace(
        selection, bases=None, laplace_beltrami_eigenvalues=None, zeta_interval=(0.5, None), diagnostics=odd,
        singular_values=np.asfortranarray(selection.singular_values.astype("float32")),
    )  # fmt: skip
    other.save(tmp_path / "run.npz")
    assert_equal_selections(other, load(tmp_path / "run.npz"), ignored=())
    dataclasses.replace(selection, diagnostics=numbers).save(tmp_path / "run.npz")
    assert load(tmp_path / "run.npz").diagnostics == {"count": 3, "ok": True, "x": 0.5}


def test_the_file_is_plain_and_an_older_name_of_an_option_is_read(selection, saved, tmp_path):
    with zipfile.ZipFile(saved) as archive:
        header = json.loads(archive.read("header.json"), parse_constant=pytest.fail)  # strict: no NaN, no Infinity
    assert header["format"] == "ies_gpu selection" and header["version"] == 2
    assert header["written_by"] == f"ies_gpu {ies_gpu.__version__}"
    with np.load(saved, allow_pickle=False) as arrays:
        assert arrays["coordinates"].shape == (1500, 20)
    parameters = dict(selection.diagnostics["parameters"])
    parameters["components"] = parameters.pop("disconnected")
    older = dataclasses.replace(selection, diagnostics=selection.diagnostics | {"parameters": parameters})
    older.save(tmp_path / "older.npz")
    assert load(tmp_path / "older.npz").diagnostics["parameters"] == selection.diagnostics["parameters"]


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
    with changed(saved) as members:
        header = json.loads(members["header.json"])
        change(header)
        members["header.json"] = json.dumps(header).encode()
    with refused(code) as caught:
        load(saved)
    assert str(saved) in str(caught.value) and "\n" not in str(caught.value)


def test_foreign_missing_and_wrong(selection, tmp_path):
    np.savez(tmp_path / "foreign.npz", X=np.ones((3, 2)))
    np.save(tmp_path / "array.npy", np.ones(3))
    for name, code in (("foreign.npz", "file.kind"), ("array.npy", "file.kind"), ("no.npz", "file.missing")):
        with refused(code, (ValueError, FileNotFoundError)):
            load(tmp_path / name)
    with refused("output.ending"):
        selection.save(tmp_path / "run.pkl")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names are bytes")
def test_names_may_have_odd_characters_but_none_that_harms_a_terminal_or_fits_no_file_system(selection, tmp_path):
    for name in ("shot 10.00\u202fAM.npz", "a\xa0b.npz", os.fsdecode(b"M\xfcller.npz")):
        selection.save(tmp_path / name)
        assert load(tmp_path / name).subset == selection.subset
    for name in ("a\nb.npz", "a\x1b[31m.npz", "half \ud800.npz", "\u00fc" * 130 + ".npz"):
        with pytest.raises(ValueError, match="a name that a file can have"):
            selection.save(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads: the child only writes
def test_sigkill_while_saving_leaves_a_whole_file(selection, saved):
    """Forty processes that save over and over, killed at a random time or as soon as a file has been begun."""
    whole, chance = saved.read_bytes(), random.Random(0)
    for k in range(40):
        before = unfinished = set(saved.parent.glob("*.tmp"))
        if (child := os.fork()) == 0:
            try:
                while True:
                    selection.save(saved)
            finally:
                os._exit(1)
        while unfinished == before and k % 2:
            unfinished = set(saved.parent.glob("*.tmp"))
        time.sleep(0 if k % 2 else chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert saved.read_bytes() == whole
    assert unfinished, "no process was killed while it wrote: the test has shown nothing"
