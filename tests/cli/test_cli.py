"""The command line: what it prints where, its exit status, and one line for every error."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import cli, datasets, load, save
from ies_gpu.cli.console import Console
from ies_gpu.cli.options import count, size
from ies_gpu.cli.wording import SENTENCES, as_options, in_bytes
from ies_gpu.files.writing import write_array
from ies_gpu.run.options import CHOICES

pytestmark = pytest.mark.usefixtures("plain_kernels")

FIT = ["-d", "2", "-s", "2", "--bandwidth", "0.6"]
COMMANDS = ("fit", "show", "data", "demo", "doctor", "estimate")


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("kernels", ["plain", ""])
def test_whether_kernels_are_still_to_be_compiled(kernels, tmp_path):
    """In an empty cache all Numba kernels are missing; the plain ones are never compiled."""
    code = "from ies_gpu.backend.cpu import compiles_first; print(compiles_first())"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "IES_GPU_KERNELS": kernels}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(kernels == "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Points and a result that no test changes."""
    folder = tmp_path_factory.mktemp("cli")
    write_array(folder / "points.npy", datasets.load("D1", n_samples=1500).X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IES_GPU_KERNELS", "plain")
        assert cli.main(["fit", str(folder / "points.npy"), *FIT, "-o", str(folder / "run.npz"), "--quiet"]) == 0
    return folder


@pytest.fixture
def points(folder):
    return str(folder / "points.npy")


@pytest.fixture
def run(folder):
    return str(folder / "run.npz")


def ies_gpu(*arguments, **options):
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ies_gpu", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_fit_saves_and_prints_a_summary(points, tmp_path, capsys):
    assert cli.main(["fit", points, *FIT, "-o", str(tmp_path / "run.npz")]) == 0
    out, err = capsys.readouterr()
    selection = load(tmp_path / "run.npz")
    assert ", ".join(selection.names) in out and "run.npz" in out
    assert selection.coordinates.shape == (1500, 20)
    # one plain line for each stage, with its seconds, as stderr is no terminal
    lines = err.splitlines()
    assert [line.split()[0] for line in lines] == ["read", *selection.diagnostics["seconds"], "write"]
    assert all(re.fullmatch(r"\w+ +\d+\.\d\d s", line) for line in lines)


def test_options_reach_the_selection(points, tmp_path):
    path = str(tmp_path / "run.npz")
    more = ["-m", "12", "--zeta", "5.5", "--radius", "2", "--dtype", "float32", "--device", "cpu", "--threads", "1"]
    more += ["--memory-limit", "500M", "--seed", "3", "--tol", "1e-9", "--percentile", "60", "--quiet"]
    assert cli.main(["fit", points, *FIT, *more, "-o", path]) == 0
    found = load(path)
    assert found.zeta == 5.5 and found.coordinates.shape == (1500, 12) and found.bases.dtype == np.float32
    assert found.diagnostics["parameters"]["radius"] == 2.0 and found.diagnostics["n_threads"] == 1


@pytest.mark.parametrize("search", CHOICES["search"])
def test_every_search_is_an_option(points, search, capsys):
    assert cli.main(["fit", points, *FIT, "--search", search]) == 0
    out, _ = capsys.readouterr()
    assert (search in out) == (search != "exhaustive")


def test_without_numbers_they_are_found(points, tmp_path, capsys):
    small = tmp_path / "small.npy"
    write_array(small, np.load(points)[:700])
    arguments = ["fit", str(small), "-m", "10", "-o", str(tmp_path / "run.npz")]
    assert cli.main([*arguments, "-s", "2"]) == 0
    out, err = capsys.readouterr()
    found = load(tmp_path / "run.npz").diagnostics["automatic"]["chosen"]
    assert set(found) == {"bandwidth", "intrinsic_dim"}
    assert f"automatic       bandwidth {found['bandwidth']:.4g}, intrinsic_dim 2;" in out
    assert [line.split()[0] for line in err.splitlines()] == ["read", "checks", "dimension", "scan", "result", "write"]


def test_json_is_one_strict_object(points, capsys):
    assert cli.main(["fit", points, *FIT, "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out, parse_constant=pytest.fail)
    assert out.count("\n") == 1 and err == ""
    assert found["names"] == [f"phi{k + 1}" for k in found["subset"]]
    assert {"zeta", "zeta_interval", "eigenvalues", "diagnostics"} <= set(found)
    assert len(found["ranking"]) == 5 and found["ranking"][0]["subset"] == found["subset"]
    assert len(found["eigenvalues"]) == 20


def test_quiet_is_silent(points, tmp_path, capsys):
    assert cli.main(["fit", points, *FIT, "-o", str(tmp_path / "run.npz"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_json_log_lines(points, capsys):
    assert cli.main(["fit", points, *FIT, "--log-format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    *progress, end = lines
    always = {"time", "level", "bytes", "peak_bytes"}
    assert all(set(line) == always | {"stage", "done", "total", "seconds"} for line in progress)
    assert all(0 < line["bytes"] <= line["peak_bytes"] and line["level"] == "info" for line in lines)
    assert set(end) == always | {"message", "status"} and (end["message"], end["status"]) == ("done", 0)
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times) and times[0].tzinfo is not None
    ends = [line["stage"] for line in progress if line["done"] == line["total"]]
    assert list(dict.fromkeys(ends)) == [
        "read", "checks", "order", "graph", "kernel", "components", "laplacian", "eigenvectors", "tangents", "search",
            "result",
    ]  # fmt: skip


def test_errors_are_objects_in_a_json_log(points, tmp_path, capsys, monkeypatch):
    """Whatever goes wrong, each line of the log is an object, and the last has the exit status."""
    told = ["--log-format", "json"]
    cases = {
        2: [["fit", *told], ["fit", points, *FIT, "--log-format=json", "--zeta", "-1"], ["fit", *told, "--no"]],
        1: [["fit", "nowhere.npy", *FIT, *told], ["fit", points, *FIT, *told, "-o", str(tmp_path / "no" / "run.npz")]],
    }
    for status, commands in cases.items():
        for arguments in commands:
            assert cli.main(arguments) == status
            last = [json.loads(line) for line in capsys.readouterr().err.splitlines()][-1]
            assert last["level"] == "error" and last["status"] == status and last["message"]
    monkeypatch.setenv("IES_GPU_LOG_FORMAT", "json")
    assert cli.main(["fit"]) == 2
    assert json.loads(capsys.readouterr().err)["status"] == 2
    assert cli.main(["fit", "--log-format", "text"]) == 2  # the flag wins
    assert capsys.readouterr().err.startswith("ies-gpu: error: ")


@pytest.mark.parametrize("wrong", ["bandwith = 1", "intrinsic-dim = 3\nsubset-size = 2"])
def test_the_file_decides_how_wrong_use_is_told(wrong, tmp_path, capsys, monkeypatch):
    job = tmp_path / "my job.toml"
    job.write_text(f'log_format = "json"\n{wrong}\n')
    assert cli.main(["fit", "points.npy", f"--config={job}"]) == 2
    assert json.loads(capsys.readouterr().err)["status"] == 2
    monkeypatch.setenv("IES_GPU_CONFIG", str(job))
    assert cli.main(["fit", "points.npy"]) == 2
    assert json.loads(capsys.readouterr().err)["status"] == 2


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


def test_exit_status_is_in_the_help(capsys):
    assert cli.main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{status} " in text for status in (0, cli.FAILED, cli.WRONG_USE, cli.INTERRUPTED, cli.TERMINATED))


def test_warnings_are_one_line_in_text_and_json(points, tmp_path, capsys):
    X = np.vstack([np.load(points), [[90.0, 0, 0], [90.1, 0, 0]]])
    write_array(tmp_path / "parts.npy", X)
    arguments = ["fit", str(tmp_path / "parts.npy"), *FIT, "--quiet", "-o", str(tmp_path / "parts.npz")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.filters", [("default", None, Warning, None, 0)])  # pytest turns warnings into errors
        assert cli.main([*arguments, "--components", "largest"]) == 0
        err = capsys.readouterr().err
        assert err.startswith("ies-gpu: warning: the graph has 2 parts") and err.count("\n") == 1
        assert cli.main([*arguments, "--components", "largest", "--log-format", "json"]) == 0
        said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert any(line.get("level") == "warning" and "2 parts" in line["message"] for line in said)
    assert cli.main(arguments) == 1
    assert "pass --components largest" in capsys.readouterr().err


def test_show(run, capsys):
    assert cli.main(["show", run]) == 0
    out = capsys.readouterr().out
    names = ", ".join(load(run).names)
    assert re.search(rf"{names} +<- chosen", out) and "Best sets at zeta" in out
    assert cli.main(["show", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == list(load(run).names)


def test_show_writes_the_chosen_coordinates_as_csv(run, tmp_path, capsys):
    assert cli.main(["show", run, "--csv", str(tmp_path / "map.csv")]) == 0
    assert f"{tmp_path / 'map.csv'}: 1,500 rows" in " ".join(capsys.readouterr().out.split())
    selection = load(run)
    assert (tmp_path / "map.csv").read_text().splitlines()[0] == ",".join(["row", *selection.names])
    saved = np.loadtxt(tmp_path / "map.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(saved, np.column_stack([selection.points, selection.embedding]))
    assert cli.main(["show", run, "--csv", str(tmp_path / "map.txt")]) == 2


def test_show_writes_times_that_name_the_rows_as_times(run, tmp_path):
    selection = load(run)
    times = np.datetime64("2026-11-17T10:00", "ns") + np.arange(len(selection.points)) * np.timedelta64(1, "s")
    save(replace(selection, index=times), tmp_path / "named.npz")
    assert cli.main(["show", str(tmp_path / "named.npz"), "--csv", str(tmp_path / "map.csv"), "--json"]) == 0
    assert (tmp_path / "map.csv").read_text().splitlines()[2].split(",")[1].startswith("2026-11-17T10:00:01")


def test_data_lists_writes_and_names_the_next_command(tmp_path, capsys):
    assert cli.main(["data"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in datasets.names())
    path = tmp_path / "d1.npy"
    assert cli.main(["data", "d1", "-o", str(path), "--n", "1500", "--seed", "4"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    np.testing.assert_array_equal(np.load(path), datasets.load("D1", n_samples=1500, random_state=4).X)
    assert command[:3] == ["ies-gpu", "fit", str(path)]
    assert cli.main([*command[1:], "--quiet"]) == 0  # the command that was printed works as it stands
    assert load(tmp_path / "d1-run.npz").coordinates.shape == (1500, 20)


def test_the_papers_bandwidth_is_printed_for_the_papers_size(capsys):
    assert cli.main(["data", "D6"]) == 0
    assert "-d 3 -s 3 --bandwidth 0.5 -o d6-run.npz" in capsys.readouterr().out


def test_doctor_tells_the_device_and_why(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["device"] and facts["device_reason"] and facts["cores"] >= facts["threads"] >= 1
    assert facts["versions"]["numpy"] == np.__version__ and facts["memory_free"] > 1 << 20
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert facts["device"] in out
    assert "has not been run on a GPU" in facts["gpu_status"] and facts["gpu_status"] in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["frobnicate"], 2, "invalid choice: 'frobnicate'"),
        (["fit"], 2, "required: POINTS"),
        (["fit", "{points}", "-d", "21"], 2, "-d must be at most -m (20), got 21"),
        (["fit", "{points}", "--radius", "2"], 2, "--radius needs --bandwidth"),
        (["fit", "{points}", *FIT, "--bandwidth", "-1"], 2, "--bandwidth: must be a number greater than 0"),
        (
            ["fit", "{points}", *FIT, "--bandwidth", "wide"],
            2,
            "must be a number, got 'wide'; or auto, fixed or local",
        ),
        (["fit", "{points}", *FIT, "-d", "0"], 2, "-d/--intrinsic-dim: must be a whole number, 1 or more"),
        (["fit", "{points}", *FIT, "-d", "3"], 2, "-s must be at least -d (3) and at most -m (20), got 2"),
        (["fit", "{points}", *FIT, "-m", "1"], 2, "-s must be at least -d (2) and at most -m (1), got 2"),
        (["fit", "{points}", *FIT, "--zeta", "-1"], 2, "--zeta: must be auto or a number, 0 or more"),
        (["fit", "{points}", *FIT, "--percentile", "101"], 2, "must be between 0 and 100"),
        (["fit", "{points}", *FIT, "--device", "tpu"], 2, "must be auto, cpu, cuda or cuda:N"),
        (["fit", "{points}", *FIT, "--memory-limit", "4X"], 2, "must be a size such as 4G or 500M"),
        (["fit", "{points}", *FIT, "--memory-limit", "12"], 2, "must be 1M or more"),
        (["fit", "{points}", *FIT, "--seed", "-1"], 2, "--seed"),
        (["fit", "{points}", *FIT, "-o", "run.txt"], 2, "-o must name an .npz file"),
        (["fit", "{points}", *FIT, "-o", "no/such/run.npz"], 1, "does not exist; create it first"),
        (["fit", "nowhere.npy", *FIT], 1, "nowhere.npy does not exist"),
        (["fit", "{points}", *FIT, "--bandwidth", "0.001"], 1, "have no neighbour within radius=0.003"),
        (["fit", "{points}", *FIT, "--bandwidth", "1000"], 1, "connects every sampled point to all 1500 points"),
        (["fit", "{points}", *FIT, "--bandwidth", "1e300"], 1, "bandwidth must be between 1e-153 and 1e+153"),
        (["fit", "{points}", *FIT, "-m", "1499"], 1, "too few for -m 1499, which may be 1498 at most"),
        (["show", "{points}"], 1, "is not an .npz file"),
        (["show", "nowhere.npz"], 1, "does not exist"),
        (["data", "D99"], 2, "there is no data set 'D99'"),
        (["data", "-o", "x.npy"], 2, "put its NAME"),
        (["data", "D1", "-o", "x.xls"], 2, "-o must name a .npy, .csv, .parquet or .h5ad file"),
    ],
)
def test_errors_are_one_line_and_have_a_status(arguments, status, message, points, capsys):
    arguments = [argument.format(points=points) for argument in arguments]
    assert cli.main([*arguments]) == status
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith("ies-gpu: error: ") and message in err[-1]
    assert "Traceback" not in "".join(err)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a folder in use is not deleted")
def test_a_current_folder_that_was_deleted_is_said_to_be(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.main(["fit", "points.npy", "-o", "run.npz"]) == 1
    assert "the current folder no longer exists" in capsys.readouterr().err


def test_another_search_is_proposed_as_an_option(points, capsys):
    assert cli.main(["fit", points, "-d", "2", "-s", "10", "-m", "100", "--bandwidth", "0.6"]) == 1
    assert "or use --search greedy" in capsys.readouterr().err


def test_unexpected_errors_name_their_kind_and_debug_raises(points, monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cli.fit, "select", broken)
    assert cli.main(["fit", points, *FIT]) == 1
    assert "ZeroDivisionError: division by zero (unexpected; --debug shows the traceback)" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        cli.main(["fit", points, *FIT, "--debug"])
    assert "--memory-limit" in cli.sentence(MemoryError())


def test_the_output_is_checked_before_the_work(points, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.fit, "select", lambda *_: pytest.fail("work began"))
    assert cli.main(["fit", points, *FIT, "-o", str(tmp_path / "no" / "run.npz")]) == 1
    (tmp_path / "folder.npz").mkdir()
    assert cli.main(["fit", points, *FIT, "-o", str(tmp_path / "folder.npz")]) == 1


def test_help_for_those_who_type_nothing_or_help(capsys):
    for words in ([], ["help"]):
        assert cli.main(words) == 0
        assert "usage: ies-gpu [-h]" in capsys.readouterr().out
    assert cli.main(["help", "show"]) == 0
    assert "usage: ies-gpu show" in capsys.readouterr().out
    assert cli.main(["help", "nothing"]) == 2


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        ("", [7], "in 1 row (7) and 1 column (2); remove these rows (counted from 0) from the file"),
        ("a,b,c", [7], "points.csv contains NaN or infinite values in 1 row (7) and 1 column ('c'); remove these rows"),
        ("a,b,c", range(50), "and 1 column ('c'); leave them out with --columns"),
    ],
)
def test_what_is_no_number_is_named_without_python(header, rows, words, tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[list(rows), 2] = np.nan
    np.savetxt(tmp_path / "points.csv", X, delimiter=",", header=header, comments="")
    assert cli.main(["fit", str(tmp_path / "points.csv"), "--bandwidth", "1", "-d", "1", "-s", "1"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert words in told and "[" not in told


def test_a_bandwidth_that_joins_all_points_is_named_as_such(points, capsys):
    """And not by the number of neighbours in the estimate of the time."""
    assert cli.main(["fit", str(points), "-d", "2", "-s", "2", "--bandwidth", "1000"]) == 1
    assert "connects every sampled point" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("python", "here"),
    [
        ("try n_neighbors=15, or fewer columns", "try --neighbors 15, or fewer columns"),
        ("or try bandwidth='auto'", "or try --bandwidth auto"),
        ("install one, or use device='cpu'", "install one, or use --device cpu"),
        ("raise n_components, or lower intrinsic_dim", "raise -m, or lower -d"),
        ("with intrinsic_dim=1 all scores are 0", "with -d 1 all scores are 0"),
        ("bandwidth 0.6, intrinsic_dim 2; the chosen", "bandwidth 0.6, intrinsic_dim 2; the chosen"),
        ("selection.points has the rows that were used", "'ies-gpu show --csv' lists the rows that were used"),
        ("memory_limit=1073741824 is too little", "--memory-limit 1G is too little"),
        ("memory_limit=5650000000 would avoid it", "--memory-limit 5.27G would avoid it"),
        ("at least 83300000 bytes are needed. Raise memory_limit", "at least 83.3 MB are needed. Raise --memory-limit"),
    ],
)
def test_messages_speak_the_language_of_the_command_line(python, here):
    assert as_options(python) == here


def test_a_command_is_not_told_of_options_that_it_does_not_have():
    assert as_options("install one, or use device='cpu'", {"-o"}) == "install one, or set IES_GPU_DEVICE=cpu"
    assert as_options("install one, or use device='cpu'", {"--device"}) == "install one, or use --device cpu"
    assert as_options("n_samples and degree") == as_options("n_samples and degree", {"-o"}) == "n_samples and degree"
    assert as_options("degree must be below 5", {"--degree"}) == "--degree must be below 5"


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (["demo", "-n", "5"], 2, "-n must be 22 or more, got 5"),
        (["data", "D1", "-n", "1", "-o", "d1.npy"], 1, "-n must be between 2 and"),
        (["estimate", "-n", "100", "--dim", "3", "--degree", "1e9"], 1, "error: --degree must be"),
        (["show", "points.npz"], 1, "give a file that 'ies-gpu fit -o' wrote"),
        (["transform", "points.npz", "points.npy", "-o", "phi.npy"], 1, "give a file that 'ies-gpu fit --model' wrote"),
    ],
)
def test_errors_name_what_the_command_has(command, status, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("points.npz", X=np.zeros((3, 2)))
    np.save("points.npy", np.zeros((3, 2)))
    assert cli.main(command) == status
    assert words in " ".join(capsys.readouterr().err.split())


def test_no_advice_is_left_in_python(monkeypatch):
    """What the sentences that are replaced as a whole say is what the package says."""
    source = " ".join(
        re.sub(r'"\n\s*f?"', "", file.read_text())
        for file in Path(cli.__file__).parents[1].rglob("*.py")
        if file.name != "wording.py"
    )
    assert [sentence for sentence in SENTENCES if sentence not in source] == []


def test_a_missing_file_is_reported_before_a_missing_output(capsys):
    assert cli.main(["fit", "nowhere.npy", *FIT]) == 1
    assert "no -o" not in capsys.readouterr().err


def test_sizes_of_files():
    assert [in_bytes(n) for n in (900, 48_200, 5.2e6, 3e9)] == ["0.9 kB", "48.2 kB", "5.2 MB", "3.00 GB"]


def test_whole_numbers_may_have_an_exponent():
    assert [count(text) for text in ("7", "1e6", "2.5E3")] == [7, 10**6, 2500]
    for text in ("1.5", "1e-3", "2.55e1", "1e999", "0", "-3"):
        with pytest.raises(ArgumentTypeError, match="whole number"):
            count(text)


def test_sizes():
    assert [size(text) for text in ("4G", "500M", "1.5GiB", "2097152")] == [4 << 30, 500 << 20, 3 << 29, 2 << 20]


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_80_columns(command, capsys):
    assert cli.main([*([command] if command else []), "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: ies-gpu" in out and max(map(len, out.splitlines())) <= 80


def test_all_other_output_fits_80_columns(run, capsys):
    for arguments in (["show", run], ["data"], ["doctor"]):
        assert cli.main(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        # a word that is longer, such as a path, cannot be folded
        assert all(len(line) <= 80 or len(line.split()) <= 2 for line in lines), arguments


def test_help_answers_at_once_and_loads_nothing_heavy():
    code = "import sys, ies_gpu.cli as c; c.main(['--help']); print(*{m.partition('.')[0] for m in sys.modules})"
    begin = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert time.perf_counter() - begin < 2  # 0.1 s on an idle machine
    assert not {"numpy", "scipy", "numba", "tqdm", "matplotlib"} & set(out.splitlines()[-1].split())


def test_module_and_version():
    done = ies_gpu("--version")
    assert done.returncode == 0 and re.fullmatch(r"ies-gpu \d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_cleanly(points, tmp_path, number, status):
    output = tmp_path / "run.npz"
    output.write_bytes(b"the old file")
    process = subprocess.Popen(
        # more eigenvectors and log lines, so that the signal comes in the middle
        [sys.executable, "-m", "ies_gpu", "fit", points, *FIT, "-m", "300", "-o", str(output), "--log-format", "json"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # a shell starts background jobs with SIGINT ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while '"eigenvectors"' not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == status
    assert "Traceback" not in err and out == ""
    assert output.read_bytes() == b"the old file" and os.listdir(tmp_path) == ["run.npz"]


STUCK = """
import sys, threading
from ies_gpu.cli import program
threading.Thread(target=threading.Event().wait).start()  # Python waits for its end before it ends itself
program()
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_many_signals_are_one_and_no_thread_is_waited_for(points, tmp_path):
    """Schedulers send SIGTERM to the group and once more to each member."""
    command = [sys.executable, "-c", STUCK, "fit", points, *FIT, "-m", "300", "-o", str(tmp_path / "run.npz")]
    process = subprocess.Popen([*command, "--log-format", "json"], stderr=subprocess.PIPE, text=True)
    try:
        while '"eigenvectors"' not in process.stderr.readline():
            assert process.poll() is None
        deadline = time.perf_counter() + 30
        while process.poll() is None and time.perf_counter() < deadline:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
        last = process.communicate(timeout=5)[1].splitlines()[-1]
    finally:
        process.kill()
    assert process.returncode == 143 and json.loads(last)["message"] == "stopped by SIGTERM"
    assert os.listdir(tmp_path) == []


TWICE = """
import os, signal, sys
from ies_gpu.cli import fit, program
def run(args, console):
    try:
        signal.raise_signal(int(sys.argv[2]))
    finally:  # what is half written is removed here
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        print("cleaned up")
fit.run = run
program()
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    ("number", "status", "how"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_second_signal_does_not_break_into_the_end(number, status, how):
    done = subprocess.run(
        [sys.executable, "-c", TWICE, "fit", str(int(number))],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout) == (status, "cleaned up\n")
    assert done.stderr == f"ies-gpu: stopped by {how}\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
def test_a_closed_pipe_is_no_error(run):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ies_gpu", "show", run]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b"" and done.returncode == 141


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_a_job_without_streams_does_its_work(points, tmp_path):
    fit = [sys.executable, "-m", "ies_gpu", "fit", points, *FIT, "-o", str(tmp_path / "run.npz")]
    assert subprocess.run(["sh", "-c", f"exec {shlex.join(fit)} >&- 2>&-"], check=False).returncode == 0
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_name_that_stdout_cannot_show_does_not_fail_the_job(points, tmp_path):
    fit = [sys.executable, "-m", "ies_gpu", "fit", points, *FIT, "-o", str(tmp_path / "größe.npz")]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(fit, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 and "gr\\xf6\\xdfe.npz" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk, on Linux")
@pytest.mark.parametrize("how", ["text", "json"])
def test_a_log_on_a_full_disk_does_not_stop_the_work(points, tmp_path, how):
    fit = [sys.executable, "-m", "ies_gpu", "fit", points, *FIT, "-o", str(tmp_path / "run.npz"), "--log-format", how]
    with open("/dev/full", "w") as full:
        assert subprocess.run(fit, stderr=full, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_terminal_gets_a_bar_with_rate_and_time_left():
    stream = io.StringIO()
    console = Console(stream, "bar")
    console.progress("tangents", 0, 0)
    for done in range(0, 1001, 100):
        time.sleep(0.02)
        console.progress("tangents", done, 1000)
    console.progress("tangents", 1, 1)
    console.progress("eigenvectors", 0, 0)
    for done in range(10, 200, 10):
        time.sleep(0.01)
        console.progress("eigenvectors", done, 0)  # nobody knows how many it takes
    console.warning("two\nlines")
    console.close()
    shown = stream.getvalue()
    assert re.search(r"tangents .*\d+%\|.*\[00:00<00:00, .*points/s\]", shown)
    assert re.search(r"eigenvectors .*\d+ ?steps \[00:00, .*steps/s\]", shown)
    assert not re.search(r"eigenvectors .*%", shown)
    assert re.search(r"tangents +0\.\d\d s\n", shown)
    assert shown.rstrip().endswith("ies-gpu: warning: two lines")
    assert max(len(part) for part in re.split(r"[\r\n]", shown)) <= 80


def test_pictures_of_a_fit_and_of_a_saved_run(points, tmp_path, capsys):
    target = tmp_path / "run.npz"
    assert cli.main(["fit", points, *FIT, "-o", str(target), "--plot", str(tmp_path / "map.pdf"), "-q"]) == 0
    assert (tmp_path / "map.pdf").read_bytes().startswith(b"%PDF")
    assert cli.main(["plot", str(target)]) == 0
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "run.png") in capsys.readouterr().out
    for kind in ("path", "volumes"):
        assert cli.main(["plot", str(target), "--kind", kind, "-o", str(tmp_path / f"{kind}.svg")]) == 0
        assert b"<svg" in (tmp_path / f"{kind}.svg").read_bytes()


def test_a_picture_that_cannot_be_written_is_found_before_the_run(points, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ies_gpu.cli.fit.select", lambda *_: pytest.fail("the run began"))
    assert cli.main(["fit", points, *FIT, "--plot", "map.txt"]) == 2
    assert "--plot must name a .png, .pdf or .svg file, got map.txt" in capsys.readouterr().err
    assert cli.main(["fit", points, *FIT, "--plot", str(tmp_path / "nowhere" / "map.png")]) == 1
    assert "does not exist" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["fit", points, *FIT, "--plot", str(tmp_path / "map.png")]) == 1
    assert "ies-gpu[plot]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["fit", "x.npy", "--bandwith", "3"], "unknown option --bandwith; did you mean --bandwidth?"),
        (["fit", "x.npy", "--subset_size=3"], "unknown option --subset_size; did you mean --subset-size?"),
        (["show", "run.npz", "--cvs", "a.csv"], "unknown option --cvs; did you mean --csv?"),
        (["fit", "--", "x.npy", "-d", "2"], "-d comes after '--', where options end; put it before"),
        (["fit", "x.npy", "--xyz"], "unknown option --xyz (see 'ies-gpu fit --help')"),
        (["fti", "x.npy"], "'fti' is unknown; did you mean 'fit'?"),
        (["plot", "run.npz", "--kind", "volums"], "'volums' is unknown; did you mean 'volumes'?"),
        (["fit", "x.npy", "y.npy"], "unrecognized arguments: y.npy"),
    ],
)
def test_misspelt_options_get_a_suggestion(words, meant, capsys):
    assert cli.main(words) == 2
    assert meant in capsys.readouterr().err


@pytest.mark.usefixtures("plain_kernels")
def test_long_work_is_announced(tmp_path, monkeypatch, capsys):
    from ies_gpu.cli import fit

    np.save(tmp_path / "points.npy", datasets.load("D1", n_samples=300).X)
    command = ["fit", str(tmp_path / "points.npy"), "-d", "2", "-s", "2", "--bandwidth", "1.5", "-m", "10", "--json"]
    assert cli.main(command) == 0
    assert "expect about" not in capsys.readouterr().err
    monkeypatch.setattr(fit, "LONG", 0.1)
    assert cli.main(command) == 0
    assert "expect about" in capsys.readouterr().err
