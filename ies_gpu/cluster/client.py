"""A client for a running scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..findings import ClusterError, refusal


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """Yield a client of the scheduler at an address."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a cluster needs Dask; install it with: pip install 'ies-gpu[dask]'") from None
    try:
        client = Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:  # a timeout is an OSError
        text = f"no Dask scheduler answers at {scheduler} ({error})"
        advice = "start one with 'dask scheduler', or check the address"
        raise refusal("cluster.no_scheduler", text, advice, ClusterError) from None
    with client:
        yield client
