"""``python -m benchmarks.golden`` runs a tree, agrees with itself, and notices one changed bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
CASE = "fit --json"


def golden(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.golden", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_a_tree_agrees_with_itself_and_not_with_another_result(tmp_path):
    before = tmp_path / "before.json"
    assert golden(ROOT, "-o", before, "--only", CASE).returncode == 0
    found = json.loads(before.read_text())
    assert found[CASE]["status"] == 0 and found[CASE]["subset"] == [0, 6]
    assert golden(before, ROOT, "--only", CASE).returncode == 0
    found[CASE]["zeta"] = float.hex(np.nextafter(float.fromhex(found[CASE]["zeta"]), 0))
    before.write_text(json.dumps(found))
    done = golden(before, ROOT, "--only", CASE)
    assert done.returncode == 1 and f"{CASE}: zeta" in done.stdout
