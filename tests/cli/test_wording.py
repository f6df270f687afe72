"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ies_gpu import cli
from ies_gpu.cli.wording import SENTENCES, as_options, in_bytes

pytestmark = pytest.mark.usefixtures("plain_kernels", "columns")


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


def test_sizes_of_files():
    assert [in_bytes(n) for n in (900, 48_200, 5.2e6, 3e9)] == ["0.9 kB", "48.2 kB", "5.2 MB", "3.00 GB"]
