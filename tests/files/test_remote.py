"""Files by URL, against servers on this machine that stand for Amazon's, Google's and any website."""

import json
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import cli, datasets, load
from ies_gpu.files import remote
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import check_output
from tests.comparison import assert_equal_selections
from tests.extras import needed
from tests.files.stores import serving, store  # noqa: F401 - a fixture
from tests.said import refused

pytestmark = [
    pytest.mark.usefixtures("plain_kernels"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the servers and their libraries
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),  # how gcsfs hands on a large object
]
HOPELESS = ["--bandwidth", "1e-9", "--quiet"]
FIT = ["-d", "2", "-s", "2", "--bandwidth", "0.6", "--quiet", "--json"]
both = pytest.mark.parametrize("store", ["s3", "gs"], indirect=True)
amazon = pytest.mark.parametrize("store", ["s3"], indirect=True)


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=1500).X


@pytest.mark.thorough
@both
def test_a_job_with_input_and_output_elsewhere(store, points, tmp_path, capsys):  # noqa: F811
    assert cli.main(["fit", store.url("in/points.npy"), *FIT, "-o", store.url("out/run.npz")]) == 0
    assert store.keys() == {"in/points.npy", "out/run.npz"}
    assert cli.main(["fit", str(tmp_path / "points.npy"), *FIT, "-o", str(tmp_path / "run.npz")]) == 0
    (tmp_path / "copy.npz").write_bytes(store.get("out/run.npz"))
    assert_equal_selections(load(tmp_path / "run.npz"), load(tmp_path / "copy.npz"))
    assert_equal_selections(load(store.url("out/run.npz")), load(tmp_path / "copy.npz"))
    assert cli.main(["show", store.url("out/run.npz").replace("gs:", "gcs:")]) == 0
    assert "<- chosen" in capsys.readouterr().out
    np.testing.assert_array_equal(read_points(store.url("in/points.npy")), points)


@both
def test_a_connection_that_breaks_while_reading(store, monkeypatch, tmp_path, capsys):  # noqa: F811
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    broken = store.cut("down", 20_000)
    assert cli.main(["fit", store.url("in/points.npy"), *FIT]) == 1
    err = capsys.readouterr().err
    assert broken.cut, "the connection was not cut: the test has shown nothing"
    assert err.startswith(f"ies-gpu: error: {store.url('in/points.npy')}: reading failed (") and err.count("\n") == 1


@both
def test_a_connection_that_breaks_while_writing(store, capsys):  # noqa: F811
    """The result of yesterday stays."""
    store.put("out/run.npz", before := b"the result of yesterday")
    broken = store.cut("up", 300_000)
    arguments = ["fit", store.url("in/points.npy"), *FIT, "-o", store.url("out/run.npz"), "--log-format", "json"]
    assert cli.main(arguments) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert broken.cut and [line for line in lines if line.get("stage") == "search"], "the upload was not reached"
    assert lines[-1]["message"].startswith(f"{store.url('out/run.npz')}: writing failed") and lines[-1]["status"] == 1
    assert store.keys() == {"in/points.npy", "out/run.npz"} and store.get("out/run.npz") == before


@both
def test_a_large_object_goes_up_as_a_whole_or_not_at_all(store, monkeypatch):  # noqa: F811
    """In parts to Amazon, in a session to Google."""
    if store.scheme == "s3":
        monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 << 20)  # the least that S3 allows
    content = np.random.default_rng(0).bytes(11 << 20)
    with remote.uploaded(store.url("out/whole.npz")) as local:
        local.write_bytes(content)
    assert store.get("out/whole.npz") == content
    with pytest.raises(ZeroDivisionError), remote.uploaded(store.url("out/run.npz")) as local:  # fails while it is made
        local.write_bytes(b"half")
        raise ZeroDivisionError
    broken = store.cut("up", 7 << 20)
    with refused("url.failed", ConnectionError), remote.uploaded(store.url("out/large.npz")) as local:
        local.write_bytes(content)
    assert broken.cut and store.keys() == {"in/points.npy", "out/whole.npz"}


THERE = "SCHEME://jobs/in/points.npy"
WRONG = [
    (["SCHEME://jobs/no.npy"], "SCHEME://jobs/no.npy does not exist; check the bucket and the path"),
    ([THERE, "-o", "SCHEME://nowhere/run.npz"], "SCHEME://nowhere does not exist"),
    ([THERE, "-o", "https://host/run.npz"], "can be read but not written"),
    (["ftp://jobs/in/points.npy"], "URLs must begin with one of s3://"),
    (["SCHEME:///points.npy"], "SCHEME:///points.npy has no bucket"),
    ([THERE, "-o", "SCHEME:///run.npz"], "SCHEME:///run.npz has no bucket"),
    ([THERE, "-o", "SCHEME://jobs/run.npz#token=x"], "must have no user, query or fragment"),
    (["SCHEME://jobs/in/bad.npy"], "SCHEME://jobs/in/bad.npy is cut short or damaged"),
]


@both
def test_what_is_wrong_is_said_before_the_work(store, capsys):  # noqa: F811
    """Which would end by another error."""
    store.put("in/bad.npy", b"no array")
    for arguments, words in WRONG:
        assert cli.main(["fit", *(part.replace("SCHEME", store.scheme) for part in arguments), *HOPELESS]) == 1
        err = capsys.readouterr().err
        assert words.replace("SCHEME", store.scheme) in err and err.count("\n") == 1, err


@amazon
def test_no_credentials_and_no_extra(store, monkeypatch, tmp_path):  # noqa: F811
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for use in (read_points, lambda url: check_output(url, ".npy")):
        with refused("url.failed", ConnectionError) as caught:
            use("s3://jobs/in/points.npy")
        assert "set AWS_ACCESS_KEY_ID" in str(caught.value)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with refused("url.extra", ImportError):
        read_points("s3://jobs/in/points.npy")


def test_a_bucket_that_may_not_be_looked_at_or_is_empty_is_a_place_for_results():
    """Who has the role of an object administrator at Google may list a bucket, but not ask about it."""

    def answer(found):
        if isinstance(found, Exception):
            raise found

    missing = FileNotFoundError("jobs")
    for about, listed, code in (
        (OSError("Forbidden: b/jobs"), None, ""), (PermissionError("Forbidden"), None, ""), (missing, [], ""),
        (missing, missing, "url.missing"), (OSError("Backend Error"), None, "url.failed"),
    ):  # fmt: skip
        system = SimpleNamespace(info=lambda _, about=about: answer(about), ls=lambda _, listed=listed: answer(listed))
        with refused(code, OSError) if code else nullcontext():
            remote.check_remote_output("gs://jobs/run.npz", lambda bucket, system=system: (system, bucket))


def test_points_from_the_web(points, tmp_path):
    for library, name in (("aiohttp", "points.npy"), ("fsspec", "cut.npy")):
        needed(library, "test-cloud")
        np.save(tmp_path / name, points)
    with serving(tmp_path) as website:
        np.testing.assert_array_equal(read_points(f"{website}/points.npy?signature=secret"), points)
        for name, kind, code in (
            ("cut.npy", ConnectionError, "url.failed"),
            ("no.npy", FileNotFoundError, "url.missing"),
            ("private.npy", ConnectionError, "url.failed"),
            ("points.xyz", ValueError, "file.ending"),  # not fetched: it is not there either
            ("folder/", ValueError, "file.ending"),
        ):
            with refused(code, kind) as caught:
                read_points(f"{website}/{name}?signature=secret")
            assert "secret" not in str(caught.value) and name in str(caught.value)


def test_urls_are_told_from_paths_and_refused_without_their_secrets(capsys):
    assert all(map(remote.is_remote, ("s3://bucket/key", "https://host/x.npy")))
    assert not any(map(remote.is_remote, ("points.npy", "C:\\points.npy", "C:/points.npy", "/a//b", None)))
    assert remote.shown("https://me:w@rd@host/a@b.npy?sig=1&b=2") == "https://host/a@b.npy"
    assert all(remote.shown(name) == name for name in ("s3://bucket/run#1/x.npy", "what?/me//a@b.npy"))
    for command in (
        "fit points.npy -o https://me:hush@host/run.npz?sig=hush",
        "fit points.npy --checkpoint https://me:hush@host/folder",
        "fit git+https://me:hush@host/x.npy#hush --plot a.png",
        "transform model.npz points.npy -o https://me:hush@host/phi.npy?sig=hush",
    ):
        assert cli.main(command.split()) in (1, 2)
    assert "hush" not in capsys.readouterr().err
