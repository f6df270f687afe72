"""``python -m benchmarks.large [N] [--workers 4] [--dtype mixed] [--memory 16e9]``: one large strip, as JSON.

Time and memory by stage, and the set that was chosen beside the one that the strip calls for. In this process, or with
``--workers`` on processes of this machine: then the processor time is that of all processes together, and the memory is
for each worker. Not part of ``python -m benchmarks``: ten million points take tens of minutes, and much memory.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ies_gpu import select_coordinates

from .problems import strip

SETTINGS = {  # as docs/jobs.md recommends
    # tasks stay with their blocks: one that is stolen takes its share of the matrix along
    "distributed.scheduler.work-stealing": False,
    # what a worker frees it takes again soon: with Dask's own setting each temporary array of a kernel comes anew from
    # the system, page by page, and that took as long as the arithmetic; larger arrays come in large pages, and go back
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 4 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 16 << 20,
    # looking at every thread a hundred times a second costs a few per cent of a processor in each process
    "distributed.worker.profile.enabled": False,
    "distributed.comm.offload": False,
    "distributed.nanny.pre-spawn-environ.DASK_DISTRIBUTED__COMM__OFFLOAD": "False",  # read when it is imported
    # shares of a worker's memory at which Dask moves results to the disk: later than usual, as nearly all are needed
    "distributed.worker.memory.target": 0.65,
    "distributed.worker.memory.spill": 0.8,
    "distributed.worker.memory.pause": 0.9,
}


@contextmanager
def workers_here(count: int, memory: int) -> Iterator[Any]:
    """Yield a client of workers of this machine, each with one thread and so many bytes."""
    import dask

    with dask.config.set(SETTINGS):
        from distributed import Client, LocalCluster

        limits = {"n_workers": count, "threads_per_worker": 1, "memory_limit": memory}
        with LocalCluster(**limits, dashboard_address=":0", scheduler_port=0) as cluster, Client(cluster) as client:
            yield client


def expected_set() -> tuple[str, str]:
    """The first function of each side of the strip, by the eigenvalues ``(pi a / 8 pi)^2 + (pi b / 4)^2`` of its sides.

    Coordinates along the long side come first, until the short side has one: it is the 7th.
    """
    sides = 8 * math.pi, 4.0
    modes = sorted((a, b) for a in range(40) for b in range(8) if a or b)
    modes.sort(key=lambda mode: sum((k / side) ** 2 for k, side in zip(mode, sides, strict=True)))
    return f"phi{modes.index((1, 0)) + 1}", f"phi{modes.index((0, 1)) + 1}"


def used() -> tuple[float, float]:
    """Seconds of the processor, and the peak of memory in GB."""
    return time.process_time(), round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)


def used_by_all(client: Any) -> dict[str, tuple[float, float]]:
    return {"client": used()} if client is None else client.run(used) | {"client": used()}


def large(given: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Points to zeta* of a strip, after a small one that compiles."""
    options: dict[str, Any] = {"intrinsic_dim": 2, "subset_size": 2, "device": "cpu", "dtype": given.dtype}
    options |= {"keep_bases": False, "n_components": given.components}
    memory = int(given.memory)
    with workers_here(given.workers, memory) if given.workers else nullcontext() as client:
        options |= {"client": client} if client else {"n_threads": given.threads, "memory_limit": memory}
        for n in (20_000, given.n):
            X: Any
            X, bandwidth = strip(n, given.degree)
            if client:
                path = Path(folder, f"{n}.npy")
                np.save(path, X)
                X = path
            begin, before = time.perf_counter(), used_by_all(client)
            found = select_coordinates(X, bandwidth=bandwidth, **options)
            seconds, after = time.perf_counter() - begin, used_by_all(client)
    info = found.diagnostics
    by_process = {who: after[who][0] - before.get(who, (0.0, 0.0))[0] for who in after}
    return {
        "n": given.n,
        "dtype": given.dtype,
        "mean_degree": info["mean_degree"],
        "chosen": found.names,
        "expected": expected_set(),
        "eigenvalues": found.eigenvalues.tolist(),
        "storage": info.get("storage"),
        "seconds": seconds,
        "processor_seconds": sum(by_process.values()),
        "by_process": by_process,
        "peak_gigabytes": {who: peak for who, (_, peak) in after.items()},
        "seconds_by_stage": {stage: round(took, 2) for stage, took in info["seconds"].items()},
        "peak_by_stage": {stage: round(peak / 1e9, 2) for stage, peak in info["peak_bytes"].items()},
        "cluster": info.get("cluster"),
        "solver": info["solver"],
        "warnings": info["warnings"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="python -m benchmarks.large")
    parser.add_argument("n", nargs="?", type=int, default=10_000_000, help="points")
    parser.add_argument("--degree", type=float, default=60.0, help="about how many neighbours a point has")
    parser.add_argument("--dtype", default="mixed")
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2, help="of this process")
    parser.add_argument("--workers", type=int, help="run on so many worker processes instead")
    parser.add_argument("--memory", type=float, default=16e9, help="bytes for this process, or for each worker")
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(large(parser.parse_args(), folder), indent=1, default=str))


if __name__ == "__main__":
    main()
