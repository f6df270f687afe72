"""``ies-gpu fit --dry-run``: what a job will need, told before anything is computed."""

import io
import json
import os

import numpy as np
import pytest

from ies_gpu import cli, radius_graph
from ies_gpu.cli.console import Console
from ies_gpu.cli.dry_run import say_how_long
from ies_gpu.resources import estimate_resources

from .conftest import FIT

pytestmark = pytest.mark.usefixtures("plain_kernels")


@pytest.fixture
def dry(points, capsys):
    """Run ``fit --dry-run --json`` and return what it prints; the points are read, and nothing is computed."""

    def running(*arguments):
        assert cli.main(["fit", points, "--dry-run", "--json", *arguments]) == 0
        out, err = capsys.readouterr()
        assert [line.split()[0] for line in err.splitlines()] == ["read"]
        return json.loads(out)

    return running


def test_it_is_the_estimate_for_these_points(dry, points):
    found = dry(*FIT, "--threads", "1")
    X = np.load(points)
    assert (found["n"], found["dim"]) == X.shape and found["degree_known"]
    degree = radius_graph(X, radius=1.8).nnz / len(X)
    assert found["degree"] == pytest.approx(degree, rel=0.1)  # counted on a sample
    same = estimate_resources(n=len(X), dim=3, degree=found["degree"], intrinsic_dim=2, subset_size=2)
    assert (found["peak_bytes"], found["request_bytes"]) == (same.peak_bytes, same.request_bytes)
    assert found["seconds"] == pytest.approx(same.seconds)


def test_an_automatic_run_includes_the_scan_and_a_limit_is_heeded(dry, points):
    found = dry()
    assert not found["degree_known"]
    assert found["peak_bytes"] >= found["stages"]["scan"] and found["request_bytes"] >= 1.24 * found["peak_bytes"]
    assert dry(*FIT)["peak_bytes"] > dry(*FIT, "--memory-limit", "9M")["peak_bytes"]
    assert cli.main(["fit", points, *FIT, "--dry-run", "--memory-limit", "1M"]) == 1


def test_it_writes_nothing_and_fits_80_columns(points, tmp_path, capsys):
    out = str(tmp_path / "run.npz")
    for more in ([], ["--device", "cuda"], ["--memory-limit", "1G"]):
        assert cli.main(["fit", points, *FIT, "--dry-run", "-o", out, "--checkpoint", str(tmp_path / "c"), *more]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80 and any("request" in line for line in lines)
        assert ("never compared with a real GPU" in " ".join(lines)) == ("cuda" in more)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("seconds", [3600.0, 1.0, None])
def test_long_work_is_announced(seconds):
    stream = io.StringIO()
    say_how_long(seconds, Console(stream, "lines"))
    assert ("expect about 60 min" in stream.getvalue()) == (seconds == 3600)
