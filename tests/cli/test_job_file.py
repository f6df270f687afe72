"""One job by file, by environment and by flags: the same bits, in rising priority, and the result says from where."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import cli, datasets, load
from ies_gpu.cli import build_parser
from tests.comparison import assert_equal_selections

JOB = {"intrinsic-dim": 2, "subset-size": 2, "bandwidth": 0.6, "n-components": 12, "percentile": 70.0, "seed": 3}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder with points, and no settings but those of the test."""
    for name in list(os.environ):
        if name.startswith("IES_GPU_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("IES_GPU_KERNELS", "plain")
    monkeypatch.setenv("IES_GPU_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", datasets.load("D1", n_samples=1000).X)


def written(content, name="job.toml"):
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in content.items()]  # numbers, text, true: TOML as well
    Path(name).write_text("".join(lines))
    return name


def flags(content):
    return [word for key, value in content.items() for word in (f"--{key}", str(value))]


def resolved(*arguments):
    return build_parser("fit").parse_args(["fit", *arguments])


def test_file_environment_and_flags_give_the_same_bits(monkeypatch):
    job = JOB | {"output": "file.npz", "points": "points.npy", "quiet": True}
    assert cli.main(["fit", "--config", written(job)]) == 0
    assert cli.main(["fit", "points.npy", "-o", "flags.npz", "--quiet", *flags(JOB)]) == 0
    for key, value in (job | {"output": "environment.npz"}).items():
        monkeypatch.setenv("IES_GPU_" + key.upper().replace("-", "_"), str(value))
    assert cli.main(["fit"]) == 0
    a, b, c = (load(f"{name}.npz") for name in ("file", "environment", "flags"))
    assert a.coordinates.shape == (1000, 12)
    assert_equal_selections(a, b)
    assert_equal_selections(a, c)
    sources = [found.diagnostics["configuration"]["bandwidth"] for found in (a, b, c)]
    assert sources == [{"value": 0.6, "from": where} for where in ("file job.toml", "environment", "flag")]
    assert a.diagnostics["configuration"]["tol"] == {"value": 1e-8, "from": "default"}
    assert a.diagnostics["configuration"]["device"] == {"value": "cpu", "from": "environment"}
    assert "IES_GPU_DEVICE=cpu" in a.diagnostics["device_reason"]


def test_priority_rises_from_file_to_environment_to_flags(monkeypatch):
    path = written(JOB | {"points": "points.npy", "zeta": 5, "tol": 1e-7, "resume": True, "checkpoint": "saved"})
    monkeypatch.setenv("IES_GPU_ZETA", "6")
    monkeypatch.setenv("IES_GPU_TOL", "1e-6")
    monkeypatch.setenv("IES_GPU_BANDWIDTH", "")  # counts as not set
    args = resolved("--config", path, "--zeta", "7")
    assert (args.zeta, args.tol, args.bandwidth, args.disconnected) == (7.0, 1e-6, 0.6, "auto")
    told = {key: args.configuration[key]["from"] for key in ("zeta", "tol", "bandwidth", "disconnected")}
    assert list(told.values()) == ["flag", "environment", "file job.toml", "default"]
    assert resolved("--config", path, "--zeta", "auto").zeta == "auto"  # a flag that repeats the default is a flag
    monkeypatch.setenv("IES_GPU_CONFIG", path)
    assert resolved().resume is True and resolved().config == "job.toml"
    monkeypatch.setenv("IES_GPU_RESUME", "no")
    assert resolved().resume is False


def test_the_device_variable_keeps_its_meaning(monkeypatch):
    path = written({"intrinsic_dim": 2, "bandwidth": "0.7", "points": "points.npy", "device": "cuda:1"})
    args = resolved("--config", path)
    assert (args.intrinsic_dim, args.bandwidth) == (2, 0.7)
    # stronger than the file; it is still the variable that decides, and is told as the reason
    assert args.device == "auto" and args.configuration["device"]["value"] == "cpu"
    assert resolved("--config", path, "--device", "cuda").device == "cuda"
    monkeypatch.delenv("IES_GPU_DEVICE")
    assert resolved("--config", path).device == "cuda:1"


def test_secrets_in_urls_are_not_stored():
    args = resolved(*flags(JOB), "https://user:word@host/points.npy?X-Amz-Signature=abc")
    assert args.points.endswith("abc")
    assert args.configuration["points"]["value"] == "https://host/points.npy"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("bandwith = 0.6", "did you mean 'bandwidth'?"),
        ("qqq = 1", "valid options are points, intrinsic-dim"),
        ("[fit]\nbandwidth = 0.6", "[fit] is a table"),
        ("bandwidth = -1", "job.toml: bandwidth: must be"),
        ("bandwidth = true", "job.toml: bandwidth: must be"),
        ("bandwidth = [1]", "got '[1]'"),
        ("bandwidth = nan", "got nan"),
        ("intrinsic-dim = 2.5", "got '2.5'"),
        ("intrinsic-dim = 2\nintrinsic_dim = 2", "is given twice"),
        ("dtype = 'float16'", "job.toml: dtype: 'float16'"),
        ("resume = 'perhaps'", "resume must be true or false"),
        ("config = 'other.toml'", "'config' is not an option"),
        ("bandwidth = = 3", "job.toml is not a TOML file"),
        ("", "required: POINTS"),
    ],
)
def test_a_wrong_file_is_wrong_use(content, named, capsys):
    Path("job.toml").write_text(content)
    assert cli.main(["fit", "--config", "job.toml"]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert named in err and err.startswith("ies-gpu: error: ")


@pytest.mark.parametrize(
    ("variable", "value", "status", "named"),
    [
        ("IES_GPU_TOL", "small", 2, "IES_GPU_TOL: must be"),
        ("IES_GPU_RESUME", "perhaps", 2, "IES_GPU_RESUME must be true or false"),
        ("IES_GPU_BANDWITH", "1", 2, "did you mean IES_GPU_BANDWIDTH?"),
        ("IES_GPU_DEVICE", "tpu", 2, "IES_GPU_DEVICE: must be"),
        ("IES_GPU_CONFIG", "nowhere.toml", 2, "nowhere.toml: No such file"),
        ("IES_GPU_KERNELS", "fast", 1, "IES_GPU_KERNELS must be"),  # of the library, which tells of it itself
        ("IES_GPU_SHARED_DATA", "somewhere", 0, ""),  # of something else
    ],
)
def test_wrong_variables_are_named(variable, value, status, named, monkeypatch, capsys):
    monkeypatch.setenv(variable, value)
    assert cli.main(["fit", "points.npy", *flags(JOB), "--json"]) == status
    assert named in " ".join(capsys.readouterr().err.split())


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="open files as paths")
def test_a_job_that_comes_through_a_pipe_is_read(capsys):
    """As ``--config <(command)`` gives it: a second look finds nothing."""
    out, into = os.pipe()
    os.write(into, b"bandwith = 1")
    os.close(into)
    try:
        assert cli.main(["fit", "points.npy", "--config", f"/dev/fd/{out}"]) == 2
    finally:
        os.close(out)
    assert "'bandwith' is not an option" in capsys.readouterr().err


def test_the_example_of_the_documentation_is_valid():
    page = Path(__file__).parents[2] / "docs" / "jobs.md"
    Path("job.toml").write_text(page.read_text().partition("```toml\n")[2].partition("```")[0])
    args = resolved("--config", "job.toml")
    assert args.bandwidth == 0.25 and args.resume and args.points.startswith("s3://")
