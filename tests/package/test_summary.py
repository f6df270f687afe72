"""What the summary of the tests says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("backend", ["cuda", "plain"])
def test_the_summary_says_how_much_of_the_cuda_path_was_skipped(backend, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/choice/test_rmetric.py", "-k", backend],
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},  # where there is no compiler
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1]
    skipped = int(last.split(" skipped")[0].split()[-1]) if " skipped" in last else 0
    said = [line for line in done.stdout.splitlines() if line.startswith("The CUDA path was not exercised")]
    assert done.returncode == 0, done.stdout
    if backend == "cuda":
        assert skipped > 0 and len(said) == 1 and f" {skipped} of its tests" in said[0]
    else:
        assert not said
