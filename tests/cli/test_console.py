"""The error stream: progress, warnings and errors as text, as a bar and as JSON."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from datetime import datetime

import numpy as np
import pytest

from ies_gpu import cli
from ies_gpu.cli.console import Console
from ies_gpu.cli.output import say
from ies_gpu.files.writing import write_array
from tests.thorough import first_of

from .commands import FIT

pytestmark = pytest.mark.usefixtures("plain_kernels")


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
        "read", "checks", "neighbours", "order", "graph", "kernel", "components", "products", "laplacian",
        "eigenvectors", "tangents", "search", "result",
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


def test_warnings_are_one_line_in_text_and_json(points, tmp_path, capsys):
    X = np.vstack([np.load(points), [[90.0, 0, 0], [90.1, 0, 0]]])
    write_array(tmp_path / "parts.npy", X)
    arguments = ["fit", str(tmp_path / "parts.npy"), *FIT, "--quiet", "-o", str(tmp_path / "parts.npz")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.filters", [("default", None, Warning, None, 0)])  # pytest turns warnings into errors
        assert cli.main([*arguments, "--disconnected", "largest"]) == 0
        err = capsys.readouterr().err
        assert err.startswith("ies-gpu: warning: the graph has 2 parts") and err.count("\n") == 1
        assert cli.main([*arguments, "--disconnected", "largest", "--log-format", "json"]) == 0
        said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert any(line.get("level") == "warning" and "2 parts" in line["message"] for line in said)
    assert cli.main(arguments) == 1
    assert "pass --disconnected largest" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk, on Linux")
@pytest.mark.parametrize("how", first_of("json", "text"))
def test_a_log_on_a_full_disk_does_not_stop_the_work(points, tmp_path, how):
    fit = [sys.executable, "-m", "ies_gpu", "fit", points, *FIT, "-o", str(tmp_path / "run.npz"), "--log-format", how]
    with open("/dev/full", "w") as full:
        assert subprocess.run(fit, stderr=full, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_terminal_gets_a_bar_with_rate_and_time_left(columns):
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
    assert re.search(r"tangents .*\d+%\|.*\[\d\d:\d\d<\d\d:\d\d, .*points/s\]", shown)
    assert re.search(r"eigenvectors .*\d+ ?steps \[\d\d:\d\d, .*steps/s\]", shown)
    assert not re.search(r"eigenvectors .*%", shown)
    assert re.search(r"tangents +\d+\.\d+ s\n", shown)
    assert shown.rstrip().endswith("ies-gpu: warning: two lines")
    assert max(len(part) for part in re.split(r"[\r\n]", shown)) <= 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, without what the environment of the tests says of colours."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("WT_SESSION", "1")  # a terminal of Windows that takes colours
    return Terminal()


MESSAGE = "the file /a/path/that/is/longer/than/a/line/and/stays/whole/so/that/it/can/be/copied.npy has " + 30 * "word "


@pytest.mark.parametrize("columns", ["50", "80", "120", ""])
def test_messages_are_folded_at_words(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "__stdout__", io.StringIO())  # not a terminal: nobody knows how wide it is
    stream = io.StringIO()
    Console(stream, "lines").error(MESSAGE)
    lines = stream.getvalue().splitlines()
    assert " ".join(stream.getvalue().split()) == f"ies-gpu: error: {MESSAGE.strip()}"
    limit = int(columns or 80)
    assert all(len(line) <= limit or line.split() == [MESSAGE.split()[2]] for line in lines)
    assert max(len(line) for line in lines if ".npy" not in line) > limit - len(" words")


def test_json_is_never_folded_nor_coloured(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("FORCE_COLOR", "1")
    Console(terminal, "json").error(MESSAGE)
    assert json.loads(terminal.getvalue())["message"] == MESSAGE.strip()


def test_a_terminal_gets_colours(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    console = Console(terminal, "lines")
    console.error("no")
    console.warning("perhaps")
    say("Title\ntext", heading=True)
    red, yellow, bold, plain = terminal.getvalue().splitlines()
    assert red == "\x1b[31mies-gpu: error:\x1b[0m no"
    assert yellow == "\x1b[33mies-gpu: warning:\x1b[0m perhaps"
    assert (bold, plain) == ("\x1b[1mTitle\x1b[0m", "text")


@pytest.mark.parametrize(
    ("environment", "stream", "expected"),
    [
        ({}, Terminal, True),
        ({}, io.StringIO, False),
        ({"NO_COLOR": "1"}, Terminal, False),
        ({"NO_COLOR": ""}, Terminal, True),  # as if it were not there
        ({"TERM": "dumb"}, Terminal, False),
        ({"FORCE_COLOR": "1"}, io.StringIO, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, io.StringIO, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal, False),
    ],
)
def test_the_environment_decides_about_colours(terminal, monkeypatch, environment, stream, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = stream()
    Console(made, "lines").error("no")
    assert ("\x1b" in made.getvalue()) == expected
