"""The command as a process: how it starts, and how signals, pipes and closed streams end it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from ies_gpu.cli import Terminated, stopped_once

from .conftest import FIT

pytestmark = [
    pytest.mark.usefixtures("plain_kernels"),
    pytest.mark.skipif(os.name == "nt", reason="POSIX signals and pipes"),
]
SIGNALS = [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_help_answers_at_once_and_loads_nothing_heavy():
    code = "import sys, time, ies_gpu.cli as c; c.main(['--help']); print(time.process_time(), *sys.modules)"
    seconds, *modules = python("-c", code).stdout.splitlines()[-1].split()
    assert float(seconds) < 1  # of processor time; 0.1 on an idle machine
    assert not {"numpy", "scipy", "numba", "cupy", "tqdm", "matplotlib"} & set(modules)  # nor does "import ies_gpu"


@pytest.mark.parametrize("module", ["ies_gpu.cli", "ies_gpu.cli.fit"])
def test_ctrl_c_while_the_command_line_is_imported(module):
    """The program begins in a module that imports nothing, and ends without a traceback."""
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"ies-gpu": "ies_gpu.__main__:program"}
    assert re.fullmatch(r"ies-gpu \d+\.\d+\.\d+\S*\n", python("-m", "ies_gpu", "--version").stdout)
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from ies_gpu.__main__ import program
program()
"""
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ies-gpu: stopped by Ctrl-C\n")


STUCK = """
import sys, threading
from ies_gpu.cli import program
threading.Thread(target=threading.Event().wait).start()  # Python waits for its end before it ends itself
program()
"""


@pytest.mark.parametrize(("number", "status", "how"), SIGNALS)
def test_many_signals_end_a_run_once_and_leave_nothing_half_written(points, tmp_path, number, status, how):
    """Schedulers send SIGTERM to the group and once more to each member; no thread is waited for."""
    output = tmp_path / "run.npz"
    output.write_bytes(b"the old file")
    # more eigenvectors and log lines, so that the signal comes in the middle
    command = [sys.executable, "-c", STUCK, "fit", points, *FIT, "-m", "300", "-o", str(output)]
    process = subprocess.Popen([*command, "--log-format", "json"], stderr=subprocess.PIPE, text=True)
    try:
        while '"eigenvectors"' not in process.stderr.readline():
            assert process.poll() is None
        deadline = time.perf_counter() + 600  # a process that waits for its thread never ends
        while process.poll() is None and time.perf_counter() < deadline:
            process.send_signal(number)
            time.sleep(0.001)
        assert process.poll() is not None
        last = process.communicate()[1].splitlines()[-1]
    finally:
        process.kill()
    assert process.returncode == status and json.loads(last)["message"] == f"stopped by {how}"
    assert output.read_bytes() == b"the old file" and os.listdir(tmp_path) == ["run.npz"]


@pytest.fixture
def handlers():
    """The handlers of the tests, which they get back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield before
    for number, handler in before.items():
        signal.signal(number, handler)


class Dropped:
    """Raises a signal where Python drops its exception."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_that_python_dropped_comes_with_the_next_signal_or_error(handlers):
    with pytest.raises(Terminated), stopped_once():
        Dropped()
        signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), stopped_once():
        Dropped()
        raise RuntimeError("no compiled object yet")  # as Numba says, whose callback did not do its work


def test_another_signal_does_not_break_into_cleaning_up(handlers):
    with pytest.raises(ZeroDivisionError), stopped_once():  # without a signal, handlers and errors are as before
        assert signal.getsignal(signal.SIGTERM) != handlers[signal.SIGTERM]
        raise ZeroDivisionError
    assert all(signal.getsignal(number) == handler for number, handler in handlers.items())
    cleaned = []
    with pytest.raises(KeyboardInterrupt), stopped_once():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            try:
                raise OSError("an error of its own while it cleans up")
            except OSError:
                signal.raise_signal(signal.SIGTERM)
            cleaned.append(True)
    assert cleaned
    signal.raise_signal(signal.SIGINT)  # nor into what follows, which says how it ended


def test_a_closed_pipe_is_no_error(run):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "ies_gpu", "show", run], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == b"" and done.returncode == 141


def test_a_job_without_streams_or_with_a_full_disk_does_its_work(points, tmp_path):
    fit = [sys.executable, "-m", "ies_gpu", "fit", points, *FIT, "-o", str(tmp_path / "run.npz")]
    full = "2>/dev/full" if os.path.exists("/dev/full") else "2>&-"
    for streams in (">&- 2>&-", f">/dev/null {full}"):
        line = f"exec {shlex.join(fit)} --log-format json {streams}"
        assert subprocess.run(["sh", "-c", line], check=False).returncode == 0
        assert os.listdir(tmp_path) == ["run.npz"]
