"""Launches, waits, uploads, bytes and peaks of one run by stage, and texts compiled, counted beneath CuPy on the CPU.

``python -m benchmarks.device_counts 2000 20000`` prints a table for each n: a strip with about ``--degree`` neighbours
per point and the bandwidth given, or nothing with ``--automatic``. The installed CuPy runs, and what it asks of CUDA is
counted; nothing here ran on a GPU. With ``--nvrtc`` each text goes to NVRTC as well, once: give one n, since CuPy keeps
what was compiled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from ies_gpu import select_coordinates
from ies_gpu.run.run import Log
from tests import real_cupy
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


@dataclass
class Texts:
    """What CuPy has compiled, and NVRTC's processor seconds for it, in all and between two messages of progress."""

    known: set[str] = field(default_factory=set)
    seconds: float = 0.0
    silent: float = 0.0
    heard: float = 0.0

    def hear(self, *_: Any) -> None:
        self.heard = self.seconds

    def __str__(self) -> str:
        times = f", NVRTC {self.seconds:.1f} s, {self.silent:.1f} s of them silent" if self.seconds else ""
        return f"{len(self.known)} texts{times}"


@contextmanager
def texts_seen(by_nvrtc: bool) -> Iterator[Texts]:
    """Context in which texts are counted, and compiled for sm_80 as well."""
    from cupy.cuda import compiler

    texts, original = Texts(), compiler._compile_using_nvrtc_no_warning

    def compiled(source: str, options: Any, arch: Any, name: str, *more: Any) -> Any:  # the name tells texts apart
        if by_nvrtc and name not in texts.known:
            begin = time.process_time()
            real_cupy.by_nvrtc(source, options, "80", name, *more)
            texts.seconds += time.process_time() - begin
            texts.silent = max(texts.silent, texts.seconds - texts.heard)
        texts.known.add(name)
        return original(source, options, arch, name, *more)

    with patch.object(compiler, "_compile_using_nvrtc_no_warning", compiled):
        yield texts


def counted(n: int, degree: float, automatic: bool = False, **options: Any) -> tuple[Machine, Any]:
    """A run of n points, and what was counted."""
    X, bandwidth = strip(n, degree)
    given = {} if automatic else {"bandwidth": bandwidth, "intrinsic_dim": 2, "subset_size": 2}
    with plugged_in(limit=64 << 30, pool=False) as machine, stages_named(machine):
        return machine, select_coordinates(X, device="cuda", **given, **options)


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
    parser.add_argument("--automatic", action="store_true", help="parameters are found")
    parser.add_argument("--nvrtc", action="store_true", help="time NVRTC")
    given = parser.parse_args()
    if missing():
        parser.error(missing())
    install()
    for n in given.n:
        begin = time.perf_counter()
        with texts_seen(given.nvrtc) as texts:
            machine, found = counted(n, given.degree, given.automatic, dtype=given.dtype, progress=texts.hear)
        solver, took = found.diagnostics["solver"], f"{time.perf_counter() - begin:.0f} s on this machine"
        print(f"\nn = {n:,}, {solver['method']}, {texts}, {took}\n\n{table(machine)}", flush=True)


if __name__ == "__main__":
    main()
