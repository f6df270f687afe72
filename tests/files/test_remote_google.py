"""``gs://`` against an emulator of Google's storage on this machine, over connections that break or hold."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from ies_gpu import cli, load
from ies_gpu.files import remote
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import check_output
from tests.comparison import assert_equal_selections
from tests.extras import needed
from tests.files.test_remote import FIT, CuttingProxy, Server, points  # noqa: F401 - fixtures

gcsfs = needed("gcsfs", "test-cloud")
emulator = needed("gcp_storage_emulator.server", "test-cloud")
# of aiohttp, which does not like how gcsfs hands it a large object
pytestmark = [
    pytest.mark.usefixtures("plain_kernels"),
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]
# what Google answers to those who may not: nobody in particular, and somebody
REFUSALS = {
    "closed": (401, "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object."),
    "private": (403, "job@project does not have storage.objects.get access to the Google Cloud Storage object."),
    "busy": (503, "Backend Error"),
}


class Strict(emulator.Router):
    """The emulator, but for what Google does otherwise: half a request makes no object, and some are refused."""

    def handle(self, method):
        name = self._request_handler.path.partition("/b/")[2].partition("/")[0].partition("?")[0]
        if name not in REFUSALS:
            return super().handle(method)
        status, message = REFUSALS[name]
        response = emulator.Response(self._request_handler)
        response.status = emulator.HTTPStatus(status)
        response.json({"error": {"code": status, "message": message, "errors": []}})
        response.close()


def whole_body(handler, read=emulator._read_raw_data):
    body = read(handler)
    if len(body or b"") < int(handler.headers.get("Content-Length", 0)):
        raise ConnectionError("the request was cut short")
    return body


@pytest.fixture(scope="module")
def server():
    storage = emulator.Storage(use_memory_fs=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulator, "Router", Strict)
        patch.setattr(emulator, "_read_raw_data", whole_body)
        with Server(("127.0.0.1", 0), functools.partial(emulator.RequestHandler, storage)) as made:
            made.storage = storage
            threading.Thread(target=made.serve_forever, daemon=True).start()
            yield made
            made.shutdown()


@pytest.fixture
def store(server, monkeypatch, points, tmp_path):  # noqa: F811
    """A client that goes straight to a fresh bucket with points in it; retries do not wait."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    monkeypatch.setattr("gcsfs.retry.asyncio", SimpleNamespace(sleep=lambda _: asyncio.sleep(0)))
    server.storage.wipe()
    system = gcsfs.core.GCSFileSystem(token="anon", endpoint_url=address, skip_instance_cache=True)
    system.mkdir("jobs")
    np.save(tmp_path / "points.npy", points)
    system.put_file(str(tmp_path / "points.npy"), "jobs/in/points.npy")
    return system


def keys(store):
    return set(store.find("jobs", refresh=True))


@pytest.fixture
def proxy(server, monkeypatch):
    made = []

    def make(direction, after):
        made.append(CuttingProxy(server.server_address, direction, after))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", made[-1].address)
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_job_with_input_and_output_elsewhere(store, points, tmp_path, capsys):  # noqa: F811
    assert cli.main(["fit", "gs://jobs/in/points.npy", *FIT, "-o", "gs://jobs/out/run.npz"]) == 0
    assert capsys.readouterr().err == ""
    assert keys(store) == {"jobs/in/points.npy", "jobs/out/run.npz"}
    assert cli.main(["fit", str(tmp_path / "points.npy"), *FIT, "-o", str(tmp_path / "run.npz")]) == 0
    store.get_file("jobs/out/run.npz", str(tmp_path / "copy.npz"))
    assert_equal_selections(load(tmp_path / "run.npz"), load(tmp_path / "copy.npz"))
    assert_equal_selections(load("gs://jobs/out/run.npz"), load(tmp_path / "copy.npz"))
    assert cli.main(["show", "gcs://jobs/out/run.npz"]) == 0
    assert "<- chosen" in capsys.readouterr().out
    np.testing.assert_array_equal(read_points("gs://jobs/in/points.npy"), points)


def test_a_connection_that_breaks_while_reading(store, proxy, capsys):
    broken = proxy("down", 20_000)
    assert cli.main(["fit", "gs://jobs/in/points.npy", *FIT]) == 1
    err = capsys.readouterr().err
    assert broken.cut, "the connection was not cut: the test has shown nothing"
    assert err.startswith("ies-gpu: error: gs://jobs/in/points.npy: reading failed (") and err.count("\n") == 1


@pytest.mark.parametrize("before", [None, b"the result of yesterday"])
def test_a_connection_that_breaks_while_writing(store, proxy, capsys, before):
    if before is not None:
        store.pipe_file("jobs/out/run.npz", before)
    broken = proxy("up", 300_000)
    arguments = ["fit", "gs://jobs/in/points.npy", *FIT, "-o", "gs://jobs/out/run.npz", "--log-format", "json"]
    assert cli.main(arguments) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert broken.cut and [line for line in lines if line.get("stage") == "search"], "the upload was not reached"
    assert lines[-1]["message"].startswith("gs://jobs/out/run.npz: writing failed") and lines[-1]["status"] == 1
    assert keys(store) - {"jobs/in/points.npy"} == (set() if before is None else {"jobs/out/run.npz"})
    if before is not None:
        assert store.cat_file("jobs/out/run.npz") == before


def test_a_large_object_goes_up_in_one_session_or_not_at_all(store, proxy):
    content = np.random.default_rng(0).bytes(6 << 20)  # from 5 MB on a session is opened first
    with remote.uploaded("gs://jobs/out/whole.npz") as local:
        local.write_bytes(content)
    assert store.cat_file("jobs/out/whole.npz") == content
    broken = proxy("up", 3 << 20)
    with pytest.raises(ConnectionError, match="writing failed"), remote.uploaded("gs://jobs/out/large.npz") as local:
        local.write_bytes(content)
    assert broken.cut and keys(store) == {"jobs/in/points.npy", "jobs/out/whole.npz"}


def test_what_is_wrong_is_said_before_the_work(store, monkeypatch, capsys):
    monkeypatch.setattr(cli.fit, "select", lambda *_: pytest.fail("work began"))
    there = "gs://jobs/in/points.npy"
    for arguments, message in (
        (["gs://jobs/no.npy"], "gs://jobs/no.npy does not exist; check the bucket and the path"),
        (["gs://nowhere/points.npy"], "gs://nowhere/points.npy does not exist; check the bucket and the path"),
        ([there, "-o", "gs://nowhere/run.npz"], "gs://nowhere does not exist; check the bucket and the path"),
        (["gs://closed/points.npy"], "gs://closed/points.npy: no credentials were found; set GOOGLE_APPLICATION_"),
        ([there, "-o", "gs://closed/run.npz"], "gs://closed: no credentials were found; set GOOGLE_APPLICATION_"),
        (["gs://private/points.npy"], "gs://private/points.npy: access was refused (Forbidden"),
        (["gs://busy/points.npy"], "gs://busy/points.npy: reading failed (HttpError: Backend Error"),
        ([there, "-o", "gs://busy/run.npz"], "gs://busy: the place for the result was not found (HttpError"),
    ):
        assert cli.main(["fit", *arguments, *FIT]) == 1
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1, err
    check_output("gs://private/run.npz", ".npz")  # may be written, though not looked at


def test_an_empty_bucket_is_a_place_for_results(store, monkeypatch):
    """Who has the role of an object administrator may list the bucket, but not ask about it."""
    store.rm_file("jobs/in/points.npy")
    usual, asked = gcsfs.core.GCSFileSystem._call, []

    async def call(self, method, path, *arguments, **options):
        if path == "b/jobs":
            asked.append(path)
            raise OSError("Forbidden: b/jobs")
        return await usual(self, method, path, *arguments, **options)

    monkeypatch.setattr(gcsfs.core.GCSFileSystem, "_call", call)
    check_output("gs://jobs/run.npz", ".npz")
    assert asked
    with pytest.raises(FileNotFoundError, match="gs://nowhere does not exist"):
        check_output("gs://nowhere/run.npz", ".npz")


def test_a_job_of_its_own_says_only_what_it_means(store):
    """In a process without anybody's handlers for logs, where gcsfs would print the tracebacks of its attempts."""
    command = [sys.executable, "-m", "ies_gpu", "fit", "gs://closed/points.npy", *FIT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no credentials were found" in done.stderr
