"""Launches, waits, uploads, bytes and peaks of one run by stage, counted beneath CuPy on the CPU.

``python -m benchmarks.device_counts 2000 20000`` prints a table for each n: a strip with about ``--degree`` neighbours
per point and the bandwidth given. The installed CuPy runs, and what it asks of CUDA is counted; nothing here ran on a
GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ies_gpu import select_coordinates
from ies_gpu.run.run import Log
from tests.real_cupy import install, missing, plugged_in
from tests.real_cupy.machine import Machine

from .problems import strip

COLUMNS = {
    "launches": "launches", "library calls": "libraries", "waits": "syncs", "uploads": "uploads",
    "MB up": "up", "MB down": "down", "MB moved": "moved", "MB peak": "peak", "fewest blocks": "fewest blocks",
}  # fmt: skip


@contextmanager
def stages_named(machine: Machine) -> Iterator[None]:
    """Context in which the machine knows the stage of a run."""
    original = Log.stage

    @contextmanager
    def named(self: Log, name: str) -> Iterator[Any]:
        before, machine.stage = machine.stage, name
        machine.by_stage[name]["peak"] = max(machine.by_stage[name]["peak"], machine.used)
        with original(self, name) as report:
            yield report
        machine.stage = before

    machine.stage = "result"  # what no stage does: the way in and out
    with patch.object(Log, "stage", named):
        yield


def counted(n: int, degree: float, **options: Any) -> tuple[Machine, Any]:
    """A run of n points, and what was counted."""
    X, bandwidth = strip(n, degree)
    with plugged_in(limit=64 << 30, pool=False) as machine, stages_named(machine):
        arguments: dict[str, Any] = {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2, "device": "cuda"}
        return machine, select_coordinates(X, **arguments | options)


def table(machine: Machine) -> str:
    """Markdown: one row per stage, and the sum, or the extreme where a sum means nothing."""
    rows = {stage: [counts[key] for key in COLUMNS.values()] for stage, counts in machine.by_stage.items() if stage}
    columns = list(zip(*rows.values(), strict=True))
    blocks = [few for few in columns[-1] if few]
    rows["all"] = [*map(sum, columns[:-2]), max(columns[-2]), min(blocks, default=0)]
    lines = ["| stage | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for stage, values in rows.items():
        cells = [
            (f"{value / 1e6:,.1f}" if "MB" in name else f"{value:,}" if value or name != "fewest blocks" else "")
            for name, value in zip(COLUMNS, values, strict=True)
        ]
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="+", help="number of points")
    parser.add_argument("--degree", type=float, default=60, help="neighbours of an inner point")
    parser.add_argument("--dtype", default="float64", choices=("float64", "mixed", "float32"))
    given = parser.parse_args()
    if missing():
        parser.error(missing())
    install()
    for n in given.n:
        begin = time.perf_counter()
        machine, found = counted(n, given.degree, dtype=given.dtype)
        solver, texts = found.diagnostics["solver"], sum(name.startswith("kernel ") for name in machine.counts)
        took = f"{time.perf_counter() - begin:.0f} s on this machine"
        print(f"\nn = {n:,}, {solver['method']}, {texts} texts, {took}\n\n{table(machine)}", flush=True)


if __name__ == "__main__":
    main()
