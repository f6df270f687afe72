"""``fit --config`` and variables: a job in a file gives the same bits as its flags, which override both."""

from pathlib import Path

import numpy as np
import pytest

from ies_gpu import cli, datasets, load
from tests.comparison import assert_equal_selections

pytestmark = pytest.mark.usefixtures("plain_kernels")
JOB = """
points = "points.npy"
output = "file.npz"
intrinsic-dim = 2
subset_size = 2
bandwidth = 0.6
n-components = 12
no-untangle = true
resume = false
quiet = true
"""
FLAGS = ["points.npy", "-o", "flags.npz", "-d", "2", "-s", "2", "--bandwidth", "0.6", "-m", "12", "--no-untangle", "-q"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB)


def read(*words):
    return cli.build_parser("fit").parse_args(["fit", *words])


def test_a_file_and_flags_give_the_same_bits():
    np.save("points.npy", datasets.load("D1", n_samples=1000).X)
    for job in (["--config", "job.toml"], FLAGS):
        assert cli.main(["fit", *job]) == 0
    assert_equal_selections(load("file.npz"), load("flags.npz"))


def test_a_variable_overrides_the_file_and_a_flag_the_variable(monkeypatch, capsys):
    args = read("--bandwidth", "0.7", "--config=job.toml")
    assert (args.bandwidth, args.n_components, args.points) == (0.7, 12, "points.npy")
    for words in (["--config", "job.toml", "other.npy"], ["other.npy", "--config", "job.toml"]):
        assert read(*words).points == "other.npy"
    for setting in ("CONFIG=job.toml", "BANDWIDTH=0.8", "N_COMPONENTS=9", "JSON=true", "QUIET=false", "RADIUS="):
        monkeypatch.setenv(*f"IES_GPU_{setting}".split("="))
    args = read("--bandwidth", "0.7")
    assert (args.bandwidth, args.n_components, args.points) == (0.7, 9, "points.npy")
    assert args.json and not args.quiet
    monkeypatch.setenv("IES_GPU_JSON", "perhaps")
    assert cli.main(["fit"]) == 2
    assert "IES_GPU_JSON must be true or false" in " ".join(capsys.readouterr().err.split())


def test_a_wrong_file_is_a_usage_error(capsys):
    for text, words in (
        ("bandwith = 1", "job.toml: 'bandwith' is not an option; did you mean --bandwidth?"),
        ("bandwidth = 'wide'", "--bandwidth: must be a finite number"),
        ("[fit]\nbandwidth = 1", "job.toml: 'fit' is not an option"),
        ("bandwidth = true", "job.toml: bandwidth must not be true or false"),
        ("bandwidth = ", "job.toml is not a TOML file"),
        (None, "--config job.toml: No such file"),
    ):
        Path("job.toml").unlink() if text is None else Path("job.toml").write_text(text)
        assert cli.main(["fit", "points.npy", "--config", "job.toml"]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_the_example_of_the_documentation_is_valid():
    page = Path(__file__).parents[2] / "docs" / "jobs.md"
    Path("job.toml").write_text(page.read_text().partition("```toml\n")[2].partition("```")[0])
    args = read("--config", "job.toml")
    assert args.bandwidth == 0.25 and args.resume and args.points.startswith("s3://")
