"""Signals as exceptions. What a whole command does with them is in test_processes.py."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from ies_gpu.cli import signals

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="POSIX signals")


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    """Python's own handlers, as in a shell, and those of the tests afterwards."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGALRM
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(signals.again, "__defaults__", (0.05,))
    yield
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class Dropped:
    """Raises a signal where Python drops its exception."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, signals.Terminated)]
)
def test_an_exception_that_python_dropped_comes_again(number, error, capfd):
    with pytest.raises(error), signals.stopped_once():
        Dropped(number)
        for _ in range(20_000):
            time.sleep(0.001)
        pytest.fail("nothing came")
    assert capfd.readouterr().err == ""


def test_what_a_library_says_of_a_dropped_exception_counts_as_the_signal():
    """Numba finds no compiled object where the exception was raised in its callback."""
    with pytest.raises(KeyboardInterrupt), signals.stopped_once():
        Dropped(signal.SIGINT)
        raise RuntimeError("no compiled object yet")


def test_other_errors_and_other_dropped_exceptions_are_told_as_ever(capfd):
    class Broken:
        def __del__(self):
            raise OSError("a destructor failed")

    with pytest.raises(ValueError, match="of its own"), signals.stopped_once():
        Broken()
        raise ValueError("of its own")
    assert "a destructor failed" in capfd.readouterr().err


def test_neither_another_signal_nor_the_timer_breaks_into_cleaning_up():
    cleaned = []
    with pytest.raises(KeyboardInterrupt), signals.stopped_once():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            try:
                raise OSError("an error of its own while it cleans up")
            except OSError:
                signal.raise_signal(signal.SIGTERM)
                time.sleep(0.2)  # the timer looks several times
            cleaned.append(True)
    assert cleaned
    signal.raise_signal(signal.SIGINT)  # nor into what follows, which says how it ended


def test_without_a_signal_all_handlers_are_as_before():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)
    with signals.stopped_once():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert (
        signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGTERM),
        signal.getsignal(signal.SIGALRM),
    ) == before


@pytest.mark.parametrize("module", ["ies_gpu.cli", "ies_gpu.cli.fit", "argparse"])
def test_ctrl_c_while_the_command_line_is_imported(module):
    """The program begins in a module that imports nothing, and ends without a traceback."""
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ies-gpu: stopped by Ctrl-C\n")


def test_the_installed_command_begins_there():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"ies-gpu": "ies_gpu.__main__:program"}
