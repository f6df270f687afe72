"""Files by URL, against a local S3-compatible server and a local web server, over connections that break or hold."""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading

import numpy as np
import pytest

from ies_gpu import cli, datasets, load, save
from ies_gpu.files import remote
from ies_gpu.files.points import read_points
from ies_gpu.files.writing import check_output
from tests.comparison import assert_equal_selections
from tests.extras import needed

pytestmark = [
    pytest.mark.usefixtures("plain_kernels"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the server and its libraries
]
FIT = ["-d", "2", "-s", "2", "--bandwidth", "0.6", "--quiet", "--json"]


@pytest.fixture(scope="module")
def points():
    return datasets.load("D1", n_samples=1500).X


@pytest.fixture(scope="module")
def server():
    """The address of an S3-compatible server on this machine."""
    needed("s3fs", "test-cloud")
    server = needed("moto.server", "test-cloud").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture
def bucket(server, monkeypatch, points, tmp_path):
    """A client of a fresh bucket with points in it; it goes straight to the server."""
    boto3 = needed("boto3", "test-cloud")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # s3fs tries again by itself
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server))
    client = boto3.client("s3")
    client.create_bucket(Bucket="jobs")
    np.save(tmp_path / "points.npy", points)
    client.upload_file(str(tmp_path / "points.npy"), "jobs", "in/points.npy")
    yield client
    for entry in client.list_objects_v2(Bucket="jobs").get("Contents", []):
        client.delete_object(Bucket="jobs", Key=entry["Key"])
    client.delete_bucket(Bucket="jobs")


def keys(client):
    return {entry["Key"] for entry in client.list_objects_v2(Bucket="jobs").get("Contents", [])}


class CuttingProxy:
    """Passes bytes on to a server until so many went up or down, then drops every connection, new ones too."""

    def __init__(self, target, direction, after):
        self.target, self.direction, self.left, self.cut = target, direction, after, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if self.cut:
                    near.close()
                    continue
                far = socket.create_connection(self.target)
                for way, source, sink in (("up", near, far), ("down", far, near)):
                    threading.Thread(target=self.carry, args=(way, source, sink), daemon=True).start()

    def carry(self, way, source, sink):
        with contextlib.suppress(OSError), source, sink:
            while (data := source.recv(4096)) and not self.cut:
                if way == self.direction:
                    self.left -= len(data)
                    if self.left < 0:
                        self.cut = True
                        for side in (source, sink):
                            side.shutdown(socket.SHUT_RDWR)
                        return
                sink.sendall(data)

    def close(self):
        self.cut = True
        self.listener.close()


@pytest.fixture
def proxy(server):
    made = []

    def make(direction, after):
        made.append(CuttingProxy(server, direction, after))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.thorough
def test_a_job_with_input_and_output_elsewhere(bucket, points, tmp_path, capsys):
    assert cli.main(["fit", "s3://jobs/in/points.npy", *FIT, "-o", "s3://jobs/out/run.npz"]) == 0
    assert keys(bucket) == {"in/points.npy", "out/run.npz"}
    assert cli.main(["fit", str(tmp_path / "points.npy"), *FIT, "-o", str(tmp_path / "run.npz")]) == 0
    bucket.download_file("jobs", "out/run.npz", str(tmp_path / "copy.npz"))
    assert_equal_selections(load(tmp_path / "run.npz"), load(tmp_path / "copy.npz"))
    assert_equal_selections(load("s3://jobs/out/run.npz"), load(tmp_path / "copy.npz"))
    assert cli.main(["show", "s3://jobs/out/run.npz"]) == 0
    assert "<- chosen" in capsys.readouterr().out
    np.testing.assert_array_equal(read_points("s3://jobs/in/points.npy"), points)


@pytest.mark.thorough
def test_every_command_writes_to_a_bucket(bucket, tmp_path, capsys):
    assert cli.main(["data", "D1", "--n", "300", "-o", "s3://jobs/in/d1.npy"]) == 0
    assert "-o s3://jobs/in/d1-run.npz" in capsys.readouterr().out
    outputs = ["-o", "s3://jobs/run.npz", "--model", "s3://jobs/model.npz"]
    assert cli.main(["fit", "s3://jobs/in/points.npy", *FIT, *outputs]) == 0
    assert cli.main(["transform", "s3://jobs/model.npz", "s3://jobs/in/points.npy", "-o", "s3://jobs/phi.npy"]) == 0
    assert cli.main(["show", "s3://jobs/run.npz", "--csv", "s3://jobs/map.csv"]) == 0
    assert cli.main(["show", "s3://jobs/run.npz", "--csv", str(tmp_path / "map.csv")]) == 0
    assert bucket.get_object(Bucket="jobs", Key="map.csv")["Body"].read() == (tmp_path / "map.csv").read_bytes()
    assert keys(bucket) >= {"in/d1.npy", "run.npz", "model.npz", "phi.npy", "map.csv"}


def test_a_connection_that_breaks_while_reading(bucket, proxy, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    broken = proxy("down", 20_000)
    monkeypatch.setenv("AWS_ENDPOINT_URL", broken.address)
    assert cli.main(["fit", "s3://jobs/in/points.npy", *FIT]) == 1
    err = capsys.readouterr().err
    assert broken.cut, "the connection was not cut: the test has shown nothing"
    assert err.startswith("ies-gpu: error: s3://jobs/in/points.npy: reading failed (") and err.count("\n") == 1


@pytest.mark.parametrize("before", [None, b"the result of yesterday"])
def test_a_connection_that_breaks_while_writing(bucket, proxy, points, monkeypatch, tmp_path, capsys, before):
    if before is not None:
        bucket.put_object(Bucket="jobs", Key="out/run.npz", Body=before)
    broken = proxy("up", 300_000)
    monkeypatch.setenv("AWS_ENDPOINT_URL", broken.address)
    arguments = ["fit", "s3://jobs/in/points.npy", *FIT, "-o", "s3://jobs/out/run.npz", "--log-format", "json"]
    assert cli.main(arguments) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert broken.cut and [line for line in lines if line.get("stage") == "search"], "the upload was not reached"
    assert lines[-1]["message"].startswith("s3://jobs/out/run.npz: writing failed") and lines[-1]["status"] == 1
    assert keys(bucket) - {"in/points.npy"} == (set() if before is None else {"out/run.npz"})
    if before is not None:
        assert bucket.get_object(Bucket="jobs", Key="out/run.npz")["Body"].read() == before


def test_an_upload_in_parts_that_breaks_leaves_no_object(bucket, proxy, monkeypatch):
    import s3fs.core

    monkeypatch.setattr(s3fs.core, "calculate_chunksize", lambda *_, **__: 5 << 20)  # the least that S3 allows
    broken = proxy("up", 7 << 20)
    monkeypatch.setenv("AWS_ENDPOINT_URL", broken.address)
    with pytest.raises(ConnectionError, match="writing failed"), remote.uploaded("s3://jobs/out/large.npz") as local:
        local.write_bytes(bytes(11 << 20))
    assert broken.cut and keys(bucket) == {"in/points.npy"}


def test_what_is_wrong_is_said_before_the_work(bucket, monkeypatch, capsys):
    monkeypatch.setattr(cli.fit, "select", lambda *_: pytest.fail("work began"))
    for arguments, status, message in (
        (["s3://jobs/no.npy", *FIT], 1, "s3://jobs/no.npy does not exist; check the bucket and the path"),
        (["s3://jobs/in/points.npy", *FIT, "-o", "s3://nowhere/run.npz"], 1, "s3://nowhere does not exist"),
        (["s3://jobs/in/points.npy", *FIT, "-o", "https://host/run.npz"], 1, "can be read but not written"),
        (["s3://jobs/in/points.npy", *FIT, "-o", "s3://jobs/run.txt"], 2, "-o must name an .npz file"),
        (["ftp://jobs/in/points.npy", *FIT], 1, "URLs must begin with one of s3://"),
        (["s3:///points.npy", *FIT], 1, "s3:///points.npy has no bucket"),
        (["s3://jobs/in/points.npy", *FIT, "-o", "s3:///run.npz"], 1, "s3:///run.npz has no bucket"),
        (
            ["s3://jobs/in/points.npy", *FIT, "--checkpoint", "s3://jobs/saved"],
            2,
            "--checkpoint must be a local folder",
        ),
    ):
        assert cli.main(["fit", *arguments]) == status
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1, err
    bucket.put_object(Bucket="jobs", Key="in/bad.npy", Body=b"no array")
    assert cli.main(["fit", "s3://jobs/in/bad.npy", *FIT]) == 1
    assert "error: s3://jobs/in/bad.npy is not an .npy file" in capsys.readouterr().err


def test_no_credentials(bucket, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(PermissionError, match=r"s3://jobs/in/points.npy: no credentials were found; set AWS_ACCESS"):
        read_points("s3://jobs/in/points.npy")
    with pytest.raises(PermissionError, match="no credentials were found"):
        check_output("s3://jobs/out/run.npz", ".npz")


def test_without_the_extra(monkeypatch, capsys):
    real = builtins.__import__

    def missing(name, *arguments):
        if name.partition(".")[0] == "fsspec":
            raise ImportError("No module named 'fsspec'")
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert cli.main(["fit", "s3://jobs/in/points.npy", *FIT]) == 1
    assert "s3://jobs/in/points.npy needs the extra cloud" in (err := capsys.readouterr().err)
    assert "pip install 'ies-gpu[cloud]'" in err


class Site(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; those called ``cut`` end too early, and those called ``private`` are refused."""

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2] if "cut" in self.path else content)

    def send_head(self):
        if "private" in self.path:
            self.send_error(403)
            return None
        return super().send_head()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """What it would print of a connection that was given up is not ours."""


@contextlib.contextmanager
def serving(folder, context=None):
    needed("aiohttp", "test-cloud")
    needed("fsspec", "test-cloud")
    with Server(("127.0.0.1", 0), functools.partial(Site, directory=folder)) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def website(tmp_path):
    with serving(tmp_path) as address:
        yield address


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificate, is not on the PATH")
def test_a_job_with_points_over_tls(points, tmp_path):
    """In processes of their own, as certificates are loaded once."""
    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "cut.npy", points)
    made = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test", *made]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def fit(file, certificates):
        command = [sys.executable, "-m", "ies_gpu", "fit", f"{address}/{file}?signature=secret", *FIT]
        environment = os.environ | {"SSL_CERT_FILE": str(certificates)}
        command += ["-o", str(tmp_path / "run.npz")]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    with serving(tmp_path, context) as address:
        done = fit("points.npy", tmp_path / "cert.pem")
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert load(tmp_path / "run.npz").diagnostics["configuration"]["points"]["value"] == f"{address}/points.npy"
        (tmp_path / "run.npz").unlink()
        (tmp_path / "none.pem").touch()
        for file, certificates in (("cut.npy", "cert.pem"), ("points.npy", "none.pem")):
            done = fit(file, tmp_path / certificates)
            assert done.returncode == 1 and done.stderr.count("\n") == 1
            assert f"{address}/{file}: reading failed (" in done.stderr and "secret" not in done.stderr
        assert "CERTIFICATE_VERIFY_FAILED" in done.stderr and not (tmp_path / "run.npz").exists()


def test_points_from_the_web(website, points, tmp_path):
    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "cut.npy", points)
    np.testing.assert_array_equal(read_points(f"{website}/points.npy?signature=secret"), points)
    with pytest.raises(ConnectionError, match=r"cut.npy: reading failed .*try again") as caught:
        read_points(f"{website}/cut.npy?signature=secret")
    assert "secret" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"no.npy does not exist"):
        read_points(f"{website}/no.npy")
    with pytest.raises(PermissionError, match=r"private.npy: access was refused") as caught:
        read_points(f"{website}/private.npy?signature=secret")
    assert "secret" not in str(caught.value)


def test_a_kind_that_is_not_read_is_not_fetched(website):
    """It is not there either, but nobody has asked."""
    for path in ("points.xyz", "folder/", ""):
        with pytest.raises(ValueError, match=r"points are read from .npy"):
            read_points(f"{website}/{path}")


def test_a_full_temporary_folder_is_told_from_a_broken_connection(monkeypatch):
    class Full:
        def get_file(self, *_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(remote, "file_system", lambda url: (Full(), url))
    with pytest.raises(
        OSError, match=r"s3://jobs/points.npy: the temporary folder .* is full; free some space, or set TMPDIR"
    ):
        read_points("s3://jobs/points.npy")


def test_a_server_that_is_not_there(monkeypatch):
    needed("aiohttp", "test-cloud")
    needed("fsspec", "test-cloud")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ConnectionError, match="reading failed"):
        read_points(f"http://127.0.0.1:{port}/points.npy")


def test_urls_are_told_from_paths():
    assert remote.is_remote("s3://bucket/key") and remote.is_remote("https://host/x.npy")
    assert not any(map(remote.is_remote, ("points.npy", "C:\\points.npy", "C:/points.npy", "/a//b", None)))
    assert remote.shown("https://me:w@rd@host/a@b.npy?sig=1&b=2") == "https://host/a@b.npy"
    assert remote.shown("what?/me//a@b.npy") == "what?/me//a@b.npy"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "points.npy", "-o", "https://me:word@host/run.npz?sig=word"],
        ["fit", "points.npy", "-o", "s3://jobs/run.npz?sig=word"],
        ["fit", "points.npy", "-o", "s3://jobs/run.txt?sig=word"],
        ["fit", "points.npy", "--checkpoint", "https://me:word@host/folder"],
        ["transform", "model.npz", "points.npy", "-o", "https://me:word@host/phi.npy?sig=word"],
        ["show", "run.npz", "--csv", "https://me:word@host/map.tsv?sig=word"],
    ],
)
def test_secrets_in_urls_are_not_told_when_they_are_refused(arguments, capsys):
    assert cli.main(arguments) in (1, 2)
    assert "word" not in capsys.readouterr().err


def test_what_fails_while_it_is_made_is_not_uploaded(bucket):
    with pytest.raises(TypeError, match="takes a Selection"):
        save({"no": "selection"}, "s3://jobs/out/run.npz")
    with pytest.raises(ZeroDivisionError), remote.uploaded("s3://jobs/out/run.npz") as local:
        local.write_bytes(b"half")
        raise ZeroDivisionError
    assert keys(bucket) == {"in/points.npy"}
