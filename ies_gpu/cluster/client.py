"""A client for a running scheduler, or for workers of this machine that end with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..errors import ClusterError
from ..findings import refusal

SETTINGS = {
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
def connected(*, scheduler: str | None = None, workers: int | None = None, memory: int | None = None) -> Iterator[Any]:
    """Yield a client of a scheduler, or of new workers here, each with one thread and at most ``memory`` bytes."""
    with ExitStack() as stack:
        try:
            import dask

            if scheduler is None:
                stack.enter_context(dask.config.set(SETTINGS))
            from distributed import Client, LocalCluster
        except ImportError:
            raise ImportError("a cluster needs Dask; install it with: pip install 'ies-gpu[dask]'") from None
        if scheduler is None:
            local = LocalCluster(
                n_workers=workers, threads_per_worker=1, memory_limit=memory or "auto", dashboard_address=":0",
                scheduler_port=0,
            )  # fmt: skip
            scheduler = stack.enter_context(local).scheduler_address
        try:
            client = stack.enter_context(Client(scheduler, timeout="10s"))
        except (OSError, ValueError) as error:  # a timeout is an OSError
            text = f"no Dask scheduler answers at {scheduler} ({error})"
            advice = "start one with 'dask scheduler', or check the address"
            raise refusal("cluster.no_scheduler", text, advice, ClusterError) from None
        yield client
