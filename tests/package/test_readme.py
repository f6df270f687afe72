"""Every code block of the README does what it says. The installing lines are run as written by ``.ci/run``."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)
    out = capsys.readouterr().out
    (shown,) = blocks("text")
    assert out.splitlines()[:2] == shown.splitlines()[:2]  # the set and the verdict
    answers = [[line.split()[:2] for line in text.splitlines()[2:8] if line[2:3].strip()][:3] for text in (out, shown)]
    assert answers[0] == answers[1]


def test_command_lines_run(tmp_path):
    lines = [line for block in blocks("bash") for line in block.splitlines() if line]
    installing = [line for line in lines if line.startswith("python3 -m venv")]
    commands = [line for line in lines if line.startswith("ies-gpu ")]
    assert len(installing) == 3
    assert len(commands) + len(installing) == len(lines)
    for line in commands:
        command = [sys.executable, "-m", "ies_gpu", *shlex.split(line)[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "run.npz").exists()


def test_no_claim_of_a_gpu_run():
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = path.read_text().lower()
        for claim in ("tested on gpu", "tested on a gpu", "measured on a gpu", "timed on a gpu"):
            assert claim not in text, (path, claim)
