"""What this process holds, and what a limit on the address space leaves to it."""

from __future__ import annotations

import mmap
import subprocess
import sys

import pytest

from ies_gpu.backend.cpu import available_memory
from ies_gpu.system import memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc as on Linux")
def test_an_array_that_is_filled_is_held_and_the_peak_stays_when_it_is_gone():
    before = memory.resident_memory()
    with mmap.mmap(-1, 32 << 20) as fresh:  # of NumPy's memory, some may have been held before
        fresh.write(bytes(32 << 20))
        held = memory.resident_memory() - before
    assert held > 28 << 20 and memory.peak_memory() - before > 28 << 20  # Linux counts a little late


def test_the_command_line_may_ask_before_anything_is_loaded():
    """Below a tight limit, loading NumPy would end the process before it can say so."""
    code = "import sys; from ies_gpu.cli import address_space; address_space.check_address_space(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ies_gpu.system.cgroup" in loaded and "numpy" not in loaded


def test_threads_are_not_started_where_they_would_die(monkeypatch):
    monkeypatch.setattr(memory, "headroom", lambda: None)
    assert memory.room_for_threads(64)
    monkeypatch.setattr(memory, "headroom", lambda: 200 << 20)
    assert memory.room_for_threads(1) and not memory.room_for_threads(2)


def test_what_the_limit_leaves_is_what_is_free(monkeypatch):
    monkeypatch.setattr("ies_gpu.backend.cpu.headroom", lambda: 100 << 20)
    assert available_memory() == 100 << 20
