"""``ies-gpu fit``: its options, what it writes and prints, and what it checks before the work."""

import json
import re

import numpy as np
import pytest

from ies_gpu import cli, load

from .conftest import FIT

pytestmark = pytest.mark.usefixtures("plain_kernels")


def test_fit_saves_and_prints_a_summary(points, tmp_path, capsys):
    outputs = ["-o", str(tmp_path / "run.npz"), "--plot", str(tmp_path / "map.pdf")]
    assert cli.main(["fit", points, *FIT, *outputs]) == 0
    out, err = capsys.readouterr()
    assert (tmp_path / "map.pdf").read_bytes().startswith(b"%PDF")
    selection = load(tmp_path / "run.npz")
    assert ", ".join(selection.names) in out and "run.npz" in out
    # one plain line for each stage, with its seconds, as stderr is no terminal
    stages = re.findall(r"(\w+) +\d+\.\d\d s\n", err)
    assert stages == ["read", *selection.diagnostics["seconds"], "write"] and err.count("\n") == len(stages)


def test_options_reach_the_selection_and_json_is_one_object(points, tmp_path, capsys):
    path = str(tmp_path / "run.npz")
    more = ["-m", "12", "--zeta", "5.5", "--radius", "2", "--dtype", "float32", "--device", "cpu", "--threads", "1"]
    more += ["--memory-limit", "500M", "--seed", "3", "--tol", "2e-8", "--percentile", "60", "--search", "greedy", "-q"]
    assert cli.main(["fit", points, *FIT, *more, "-o", path, "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and err == ""  # one strict object, and quiet is silent
    told, found = json.loads(out, parse_constant=pytest.fail), load(path)
    assert told["names"] == [f"phi{k + 1}" for k in told["subset"]] == list(found.names)
    assert {"zeta", "zeta_interval", "eigenvalues", "diagnostics"} <= set(told) and len(told["eigenvalues"]) == 12
    assert found.zeta == 5.5 and found.coordinates.shape == (1500, 12) and found.bases.dtype == np.float32
    assert found.diagnostics["parameters"]["radius"] == 2.0 and found.diagnostics["n_threads"] == 1


@pytest.mark.filterwarnings("ignore::ies_gpu.IESWarning")  # of so few points the choice is doubtful
def test_without_numbers_they_are_found(points, tmp_path, capsys):
    arguments = ["fit", points, "-o", str(tmp_path / "run.npz")]
    assert cli.main([*arguments, "-s", "2"]) == 0
    out, err = capsys.readouterr()
    found = load(tmp_path / "run.npz").diagnostics["automatic"]["chosen"]
    assert set(found) == {"bandwidth", "intrinsic_dim"}
    assert f"automatic       bandwidth {found['bandwidth']:.4g}, intrinsic_dim 2;" in out
    stages = list(dict.fromkeys(line.split()[0] for line in err.splitlines()))  # a close choice is scanned again
    assert stages == ["read", "checks", "dimension", "scan", "untangle", "verdict", "result", "write"]
