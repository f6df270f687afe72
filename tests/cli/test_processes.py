"""The command as a process: how it starts, and how signals, pipes and closed streams end it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from ies_gpu import cli

from .commands import FIT

pytestmark = pytest.mark.usefixtures("plain_kernels")


def ies_gpu(*arguments, **options):
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ies_gpu", *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("kernels", ["plain", ""])
def test_whether_kernels_are_still_to_be_compiled(kernels, tmp_path):
    """In an empty cache all Numba kernels are missing; the plain ones are never compiled."""
    code = "from ies_gpu.backend.cpu import compiles_first; print(compiles_first())"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "IES_GPU_KERNELS": kernels}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(kernels == "")


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


def test_help_answers_at_once_and_loads_nothing_heavy():
    code = (
        "import sys, time, ies_gpu.cli as c; c.main(['--help'])\n"
        "print(time.process_time(), *{m.partition('.')[0] for m in sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, *modules = out.splitlines()[-1].split()
    assert float(seconds) < 1  # of processor time; 0.1 on an idle machine
    assert not {"numpy", "scipy", "numba", "tqdm", "matplotlib"} & set(modules)


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
    )
    while '"eigenvectors"' not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate()
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
        deadline = time.perf_counter() + 600  # a process that waits for its thread never ends
        while process.poll() is None and time.perf_counter() < deadline:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
        assert process.poll() is not None
        last = process.communicate()[1].splitlines()[-1]
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
