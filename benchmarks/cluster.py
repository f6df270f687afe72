"""``python -m benchmarks.cluster N [--workers 4] [--memory 3e9]``: a strip on worker processes of one machine, as JSON.

Processor time is that of all processes together, and peaks are those of each worker. ``--alone`` runs one process on as
many threads instead.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ies_gpu import select_coordinates
from ies_gpu.cluster.client import connected

from .problems import strip


def used() -> tuple[float, float]:
    """Seconds of the processor, and the peak of memory in GB."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def told(stage: str, done: int, total: int) -> None:
    print(time.strftime("%H:%M:%S"), stage, done, total, file=sys.stderr, flush=True)


def on_workers(path: Path, given: argparse.Namespace, options: dict[str, Any], small: float) -> dict[str, Any]:
    """The run on a cluster, after a small one that compiles."""
    with connected(workers=given.workers, memory=int(given.memory) if given.memory else None) as client:
        X, width = strip(20_000, given.degree)
        first = path.with_name("first.npy")
        np.save(first, X)
        select_coordinates(first, bandwidth=width, client=client, **options)
        before = client.run(used) | {"client": used()}
        begin = time.perf_counter()
        found = select_coordinates(path, bandwidth=small, client=client, progress=told, **options)
        seconds = time.perf_counter() - begin
        after = client.run(used) | {"client": used()}
    return {
        "seconds": seconds,
        "processor_seconds": sum(after[who][0] - before.get(who, (0,))[0] for who in after),
        "by_process": {who: round(after[who][0] - before.get(who, (0,))[0], 1) for who in after},
        "peak_gigabytes": {who: round(peak, 2) for who, (_, peak) in after.items()},
        "cluster": found.diagnostics["cluster"],
    } | facts(found)


def alone(path: Path, given: argparse.Namespace, options: dict[str, Any], small: float) -> dict[str, Any]:
    """The same in this process."""
    options = options | {"n_threads": given.workers, "memory_limit": int(given.memory) if given.memory else None}
    X, width = strip(20_000, given.degree)
    select_coordinates(X, bandwidth=width, **options)
    begin, worked = time.perf_counter(), time.process_time()
    found = select_coordinates(np.load(path, mmap_mode="r"), bandwidth=small, progress=told, **options)
    seconds, worked = time.perf_counter() - begin, time.process_time() - worked
    return {"seconds": seconds, "processor_seconds": worked, "peak_gigabytes": used()[1]} | facts(found)


def facts(found: Any) -> dict[str, Any]:
    info = found.diagnostics
    return {
        "chosen": found.names,
        "mean_degree": info["mean_degree"],
        "eigenvalues": found.eigenvalues.tolist(),
        "seconds_by_stage": {stage: round(seconds, 2) for stage, seconds in info["seconds"].items()},
        "solver": info["solver"],
        "warnings": info["warnings"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks.cluster")
    parser.add_argument("n", type=int, help="points")
    parser.add_argument("--degree", type=float, default=60.0, help="about how many neighbours a point has")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--memory", type=float, help="bytes that each worker may use")
    parser.add_argument("--alone", action="store_true", help="one process with as many threads")
    given = parser.parse_args()
    options: dict[str, Any] = {"intrinsic_dim": 2, "subset_size": 2, "device": "cpu", "dtype": given.dtype}
    options |= {"keep_bases": False, "n_components": given.components}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "points.npy")
        X, bandwidth = strip(given.n, given.degree)
        np.save(path, X)
        del X
        run = alone if given.alone else on_workers
        print(json.dumps({"n": given.n} | run(path, given, options, bandwidth), indent=1, default=str))


if __name__ == "__main__":
    main()
