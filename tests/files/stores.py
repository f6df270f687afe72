"""Servers on this machine: Amazon's storage, Google's, and a website, over connections that break or hold."""

import asyncio
import contextlib
import functools
import http.server
import os
import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from tests.extras import needed


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """What it would print of a connection that was given up is not ours."""


class Site(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; those called ``cut`` end too early, and those called ``private`` are refused."""

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2] if "cut" in self.path else content)

    def send_head(self):
        return self.send_error(403) if "private" in self.path else super().send_head()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(folder):
    with Server(("127.0.0.1", 0), functools.partial(Site, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


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


class Bucket:
    """The bucket ``jobs`` on a server; ``client`` goes straight there, others through a proxy that may cut them off."""

    def __init__(self, scheme, address, variable, monkeypatch):
        self.scheme, self.address, self.variable, self.monkeypatch = scheme, address, variable, monkeypatch
        self.proxies = []
        monkeypatch.setenv(variable, "http://{}:{}".format(*address))

    def url(self, key):
        return f"{self.scheme}://jobs/{key}"

    def cut(self, direction, after):
        """Let everybody else go through a proxy from now on."""
        self.proxies.append(CuttingProxy(self.address, direction, after))
        self.monkeypatch.setenv(self.variable, self.proxies[-1].address)
        return self.proxies[-1]


@contextlib.contextmanager
def amazon(monkeypatch):
    needed("s3fs", "test-cloud")
    server = needed("moto.server", "test-cloud").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    known = {"ACCESS_KEY_ID": "testing", "SECRET_ACCESS_KEY": "testing", "DEFAULT_REGION": "us-east-1"}
    for name, value in (known | {"MAX_ATTEMPTS": "1", "EC2_METADATA_DISABLED": "true"}).items():  # s3fs tries again
        monkeypatch.setenv(f"AWS_{name}", value)
    bucket = Bucket("s3", server.get_host_and_port(), "AWS_ENDPOINT_URL", monkeypatch)
    client = needed("boto3", "test-cloud").client("s3")
    client.create_bucket(Bucket="jobs")
    bucket.put = lambda key, content: client.put_object(Bucket="jobs", Key=key, Body=content)
    bucket.get = lambda key: client.get_object(Bucket="jobs", Key=key)["Body"].read()
    bucket.keys = lambda: {entry["Key"] for entry in client.list_objects_v2(Bucket="jobs").get("Contents", [])}
    yield bucket
    for key in sorted(bucket.keys()):
        client.delete_object(Bucket="jobs", Key=key)
    client.delete_bucket(Bucket="jobs")
    server.stop()


class Whole:
    """What a client sends, or an error if it ends too early."""

    def __init__(self, file):
        self.readline, self.take, self.close = file.readline, file.read, file.close
        self.closed = False

    def read(self, size):
        if len(body := self.take(size)) < size:
            raise ConnectionError("the request was cut short")
        return body


@contextlib.contextmanager
def google(monkeypatch):
    gcsfs = needed("gcsfs", "test-cloud")
    emulator = needed("gcp_storage_emulator.server", "test-cloud")

    class Strict(emulator.RequestHandler):
        """The emulator, but that half a request makes no object, as at Google."""

        def setup(self):
            super().setup()
            self.rfile = Whole(self.rfile)

    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nobody")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr("gcsfs.retry.asyncio", SimpleNamespace(sleep=lambda _: asyncio.sleep(0)))  # without waiting
    storage = emulator.Storage(use_memory_fs=True)
    with Server(("127.0.0.1", 0), functools.partial(Strict, storage)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bucket = Bucket("gs", server.server_address, "STORAGE_EMULATOR_HOST", monkeypatch)
        address = f"http://127.0.0.1:{server.server_port}"
        client = gcsfs.core.GCSFileSystem(token="anon", endpoint_url=address, skip_instance_cache=True)
        client.mkdir("jobs")
        bucket.put = lambda key, content: client.pipe_file(f"jobs/{key}", content)
        bucket.get = lambda key: client.cat_file(f"jobs/{key}")
        bucket.keys = lambda: {key.removeprefix("jobs/") for key in client.find("jobs", refresh=True)}
        yield bucket
        server.shutdown()


@pytest.fixture
def store(request, monkeypatch, tmp_path, points):
    """A fresh bucket with points in it, of Amazon or of Google."""
    np.save(tmp_path / "points.npy", points)
    with {"s3": amazon, "gs": google}[request.param](monkeypatch) as bucket:
        bucket.put("in/points.npy", (tmp_path / "points.npy").read_bytes())
        yield bucket
        for proxy in bucket.proxies:
            proxy.close()
