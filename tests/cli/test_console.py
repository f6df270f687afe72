"""The error stream: progress, warnings and errors as text, as a bar and as JSON."""

import io
import json
import re
import time
import warnings
from datetime import datetime

import numpy as np
import pytest

from ies_gpu import cli
from ies_gpu.cli.console import Console

from .conftest import FIT

pytestmark = pytest.mark.usefixtures("plain_kernels")
JSON = ["--log-format", "json"]
MESSAGE = "the file /a/path/that/is/longer/than/a/line/and/stays/whole/so/that/it/can/be/copied.npy has " + 30 * "word "


def log_of(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_json_log_lines(points, capsys):
    assert cli.main(["fit", points, *FIT, *JSON]) == 0
    *progress, end = lines = log_of(capsys)
    always = {"time", "level", "bytes", "peak_bytes"}
    assert all(set(line) == always | {"stage", "done", "total", "seconds"} for line in progress)
    assert all(0 < line["bytes"] <= line["peak_bytes"] and line["level"] == "info" for line in lines)
    assert set(end) == always | {"message", "status"} and (end["message"], end["status"]) == ("done", 0)
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times) and times[0].tzinfo is not None
    stages = {line["stage"]: line["done"] == line["total"] for line in progress}
    assert list(stages)[:2] == ["read", "checks"] and all(stages.values())  # the last line of each is its end
    for status, arguments in (
        (2, ["fit", *JSON]),
        (1, ["fit", "nowhere.npy", *FIT, "--log-format=json"]),
        (1, ["fit", "points.npy", *FIT, *JSON, "-o", "no/run.npz"]),
    ):
        assert cli.main(arguments) == status
        last = log_of(capsys)[-1]
        assert last["level"] == "error" and last["status"] == status and last["message"]


def test_warnings_are_one_line_in_text_and_json(points, tmp_path, capsys):
    np.save(tmp_path / "parts.npy", np.vstack([np.load(points), [[90.0, 0, 0], [90.1, 0, 0]]]))
    arguments = ["fit", str(tmp_path / "parts.npy"), *FIT, "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # pytest turns warnings into errors
        assert cli.main([*arguments, "--disconnected", "largest"]) == 0
        err = capsys.readouterr().err
        assert err.startswith("ies-gpu: warning: the graph has 2 parts") and err.count("\n") == 1
        assert cli.main([*arguments, "--disconnected", "largest", *JSON]) == 0
        assert "graph.left_out" in [line.get("code") for line in log_of(capsys)]
    assert cli.main([*arguments, *JSON]) == 1
    assert log_of(capsys)[-1]["code"] == "graph.disconnected"


def test_a_terminal_gets_a_bar_with_rate_and_time_left(columns):
    stream = io.StringIO()
    console = Console(stream, "bar")
    for stage, total in (("tangents", 1000), ("eigenvectors", 0)):  # of which nobody knows how many steps they take
        console(stage, 0, 0)
        for done in range(100, 1001, 100):
            time.sleep(0.02)
            console(stage, done, total)
        console(stage, 1, 1)
    shown = stream.getvalue()
    assert re.search(r"tangents .*\d+%\|.*\[\d\d:\d\d<\d\d:\d\d, .*points/s\]", shown)
    assert re.search(r"eigenvectors .*steps \[\d\d:\d\d, .*steps/s\]", shown)
    assert re.search(r"tangents +\d+\.\d+ s\n", shown)
    assert max(len(part) for part in re.split(r"[\r\n]", shown)) <= 80


@pytest.mark.parametrize("width", [50, 80])
def test_messages_are_folded_at_words_and_json_is_not(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    stream, log = io.StringIO(), io.StringIO()
    Console(stream, "lines").say("error", MESSAGE)
    lines = stream.getvalue().splitlines()
    assert " ".join(stream.getvalue().split()) == f"ies-gpu: error: {MESSAGE.strip()}"
    assert all(len(line) <= width or line.split() == [MESSAGE.split()[2]] for line in lines)
    assert max(len(line) for line in lines if ".npy" not in line) > width - len(" words")
    Console(log, "json").say("error", MESSAGE)
    assert json.loads(log.getvalue())["message"] == MESSAGE.strip()


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"NO_COLOR": ""}, True, True),
     ({"TERM": "dumb"}, True, False)],
)  # fmt: skip
def test_terminal_and_environment_decide_about_colours(monkeypatch, environment, terminal, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm-256color"} | environment).items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    Console(stream, "lines").say("error", "no")
    red, end = ("\x1b[31m", "\x1b[0m") if coloured else ("", "")
    assert stream.getvalue() == f"{red}ies-gpu: error:{end} no\n"
