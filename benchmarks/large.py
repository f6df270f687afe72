"""``python -m benchmarks.large [N] [--degree 60] [--dtype mixed] [--memory 16e9]``: one large strip, as JSON.

Time and memory by stage, and the set that was chosen beside the one that the strip calls for.

Not part of ``python -m benchmarks``: ten million points take tens of minutes, and more memory than most machines have.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from typing import Any

from ies_gpu import select_coordinates

from .problems import strip


def expected_set() -> tuple[str, str]:
    """The first function of each side of the strip, by the eigenvalues ``(pi a / 8 pi)^2 + (pi b / 4)^2`` of its sides.

    Coordinates along the long side come first, until the short side has one: it is the 7th.
    """
    sides = 8 * math.pi, 4.0
    modes = sorted((a, b) for a in range(40) for b in range(8) if a or b)
    modes.sort(key=lambda mode: sum((k / side) ** 2 for k, side in zip(mode, sides, strict=True)))
    return f"phi{modes.index((1, 0)) + 1}", f"phi{modes.index((0, 1)) + 1}"


def large(n: int, degree: float, dtype: str, threads: int, memory: float) -> dict[str, Any]:
    """Points to zeta* of a strip of ``n`` points: seconds of the clock and the processor, and peaks of memory."""
    options: dict[str, Any] = {"intrinsic_dim": 2, "subset_size": 2, "device": "cpu", "dtype": dtype}
    options |= {"n_threads": threads, "keep_bases": False, "memory_limit": int(memory)}
    X, bandwidth = strip(20_000, degree)
    select_coordinates(X, bandwidth=bandwidth, **options)  # compiles
    X, bandwidth = strip(n, degree)
    begin, worked = time.perf_counter(), time.process_time()
    found = select_coordinates(X, bandwidth=bandwidth, **options)
    info = found.diagnostics
    return {
        "n": n,
        "dtype": dtype,
        "mean_degree": info["mean_degree"],
        "chosen": found.names,
        "expected": expected_set(),
        "storage": info["storage"],
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - worked,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "seconds_by_stage": {stage: round(seconds, 2) for stage, seconds in info["seconds"].items()},
        "peak_by_stage": {stage: round(peak / 1e9, 2) for stage, peak in info["peak_bytes"].items()},
        "solver": info["solver"],
        "warnings": info["warnings"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks.large")
    parser.add_argument("n", nargs="?", type=int, default=10_000_000, help="points")
    parser.add_argument("--degree", type=float, default=60.0, help="about how many neighbours a point has")
    parser.add_argument("--dtype", default="mixed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=float, default=16e9, help="memory_limit in bytes")
    given = parser.parse_args()
    measured = large(given.n, given.degree, given.dtype, given.threads, given.memory)
    print(json.dumps(measured, indent=1, default=str))


if __name__ == "__main__":
    main()
