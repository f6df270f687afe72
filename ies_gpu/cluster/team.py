"""The workers of a Dask cluster as one team: tasks by block of points, sums over blocks, and what they cost.

Every task is a pure function of other tasks' results, so a block that is lost with its worker is computed again from
the input. Nothing is scattered from the client and nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ..backend import Backend, get_backend
from ..errors import ClusterError, brief

COARSE = 1 / 6  # of the memory of all blocks that the coarse level takes
# Headers of .npy files are parsed, and Python 3.11 sometimes fails at that in two threads at a time ("AST constructor
# recursion depth mismatch"): the threads of a worker take turns
PARSING = Lock()
MUST_MATCH = ("ies_gpu", "numpy", "scipy", "numba")


class Several(tuple):
    """Arguments of one task, as many as there are."""


class Item(NamedTuple):
    """One of several results of a task, taken where it is used: a task of its own would cost more than it does."""

    future: Any
    number: int


class Team:
    """The workers behind a Dask client.

    Parameters
    ----------
    client : distributed.Client
    device : str
        The device on each worker, as for :func:`get_backend`.

    Attributes
    ----------
    tasks, rounds : int
        Tasks submitted so far, and how often the client waited for results.
    near : list of list of int
        The blocks that each block exchanges rows with; set once the graph is known.
    outgoing : list of Future
        Which rows each block sends to which other.
    workers : list of str
        Their addresses at the start.
    """

    def __init__(self, client: Any, device: str) -> None:
        if not (callable(getattr(client, "submit", None)) and callable(getattr(client, "nthreads", None))):
            raise TypeError(f"client must be a dask.distributed.Client, got {brief(client)}")
        if getattr(client, "asynchronous", False):
            raise TypeError("client must not be asynchronous; create it with Client(..., asynchronous=False)")
        self.client, self.device = client, device
        self.name = uuid4().hex  # two runs on one cluster must not take each other's results
        self.tasks = self.rounds = 0
        self.near: list[list[int]] = []
        self.outgoing: list[Any] = []
        self.workers = sorted(client.nthreads())
        self.places = self.workers

    def settle(self, count: int) -> None:
        """Give each of ``count`` blocks a worker: runs of blocks, which are near each other, to the same one.

        The first worker, one with the most memory, solves the coarse level, and gets fewer blocks for it.
        """
        limits = self.memory_limits()
        self.workers = sorted(self.workers, key=lambda worker: (-limits.get(worker, 0), worker))
        share = (1 + COARSE) * count / max(1, len(self.workers))
        ends = np.rint(np.cumsum(np.full(len(self.workers), share)) - COARSE * count).clip(1, count)
        self.places = [self.workers[int(i)] for i in np.searchsorted(ends, np.arange(count), side="right")]

    def check_versions(self) -> None:
        """Refuse workers whose versions differ: their results would, too."""
        own, others = versions(), self.client.run(versions)
        if not others or not self.workers:
            raise ClusterError("the cluster has no workers; start some, or wait with client.wait_for_workers(1)")
        for address, theirs in others.items():
            wrong = [
                f"{name} {theirs.get(name)} instead of {own[name]}"
                for name in MUST_MATCH
                if theirs.get(name) != own[name]
            ]
            if wrong:
                raise ClusterError(f"worker {address} has {', '.join(wrong)}; install the same versions everywhere")

    def n_threads(self) -> int:
        """Threads of all workers together."""
        return sum(self.client.nthreads().values())

    def memory_limits(self) -> dict[str, int]:
        """Bytes that each worker may use; one without a limit counts as having much."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {address: about["memory_limit"] or 1 << 62 for address, about in workers.items()}

    def least_memory(self) -> int:
        """Bytes that a thread of the smallest worker may use."""
        threads = self.client.nthreads()
        return min((most // max(1, threads.get(w, 1)) for w, most in self.memory_limits().items()), default=1 << 62)

    def submit(self, function: Callable[..., Any], *arguments: Any, block: int | None = None) -> Any:
        """A future for ``function(backend, *arguments)``; futures and items of them among the arguments are resolved.

        What belongs to a block stays on one worker, as long as that lives.
        """
        self.tasks += 1
        key = f"{function.__name__}-ies-{self.name}-{self.tasks}"  # Dask groups tasks by what comes before the "-"
        place = {} if block is None else {"workers": [self.places[block % len(self.places)]]}
        items = {k: a.number for k, a in enumerate(arguments) if isinstance(a, Item)}
        own = (a.future if isinstance(a, Item) else a for a in arguments)
        return self.client.submit(
            here, function, self.device, items, *own, key=key, pure=False, allow_other_workers=bool(place), **place
        )

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """One task per block; lists are spread out, everything else goes to every block."""
        count = next(len(a) for a in arguments if isinstance(a, list))
        futures = []
        for i in range(count):
            own: list[Any] = []
            for a in arguments:
                value = a[i] if isinstance(a, list) else a
                own += value if isinstance(value, Several) else [value]
            futures.append(self.submit(function, *own, block=i))
        return futures

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """The results, on the client; they should be small."""
        self.rounds += 1
        return self.client.gather(list(futures))

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait for results that stay where they are; raise the error of a task that failed."""
        from distributed import wait

        self.rounds += 1
        wait(list(futures))
        for future in futures:
            if future.status == "error":
                future.result()

    def bytes_sent(self) -> int:
        """Bytes that workers have sent so far, to each other and to the client."""
        return sum(self.client.run(outgoing_bytes).values())

    def total(self, futures: Sequence[Any]) -> Any:
        """The sum over blocks of arrays or tuples of arrays, always in the order of the blocks."""
        results = self.gather(futures)
        if isinstance(results[0], tuple):
            return tuple(sum(parts[1:], parts[0]) for parts in zip(*results, strict=True))
        return sum(results[1:], results[0])

    def exchanged(self, pieces: list[Any]) -> list[Several]:
        """For each block the rows of other blocks that its own rows have as neighbours, for the end of :meth:`map`."""
        return [
            Several(self.submit(sent, pieces[j], self.outgoing[j], i, block=j) for j in self.near[i])
            for i in range(len(pieces))
        ]


def here(function: Callable[..., Any], device: str, items: dict[int, int], *arguments: Any) -> Any:
    """Run a task on the worker's own backend, in one thread: a worker runs as many tasks at a time as it has.

    ``items`` says of which arguments, which are results of several values, only one is meant.
    """
    backend = _backend(device)
    with backend.active():
        return function(backend, *(a[items[k]] if k in items else a for k, a in enumerate(arguments)))


@cache
def _backend(device: str) -> Backend:
    return get_backend(device, n_threads=1)


def outgoing_bytes(dask_worker: Any) -> int:
    """Bytes that a worker has sent."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def versions() -> dict[str, str]:
    """What must be the same on all workers."""
    from importlib import import_module

    return {name: str(import_module(name).__version__) for name in MUST_MATCH}


def sent(backend: Backend, own: Any, outgoing: dict[int, Any], to: int) -> Any:
    """The rows of a block that another one needs."""
    index = outgoing[to]
    return own[backend.to_host(index) if isinstance(own, np.ndarray) else index]  # labels are exchanged on the host


def joined(backend: Backend, own: Any, *others: Any) -> Any:
    """A block's rows, and those of others that it needs, in the order of its columns."""
    return backend.xp.concatenate([own, *others]) if others else own


class Pieces:
    """A tall array, one piece per block on some worker; offers what the eigensolver asks of a tall array.

    Attributes
    ----------
    parts : list of Future
    shape : tuple of int
    """

    def __init__(self, team: Team, parts: list[Any], shape: tuple[int, ...]) -> None:
        self.team, self.parts, self.shape = team, parts, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: tuple[slice, slice]) -> Pieces:
        columns = index[1]
        width = len(range(*columns.indices(self.shape[1])))
        return self._of(self.team.map(taken_columns, self.parts, columns), width)

    def __setitem__(self, index: tuple[slice, slice], other: Pieces) -> None:
        self.parts = self.team.map(put_columns, self.parts, index[1], other.parts)

    def __sub__(self, other: Pieces) -> Pieces:
        return self._of(self.team.map(subtracted, self.parts, other.parts), self.shape[1])

    def __mul__(self, factors: np.ndarray) -> Pieces:
        return self._of(self.team.map(scaled, self.parts, factors), self.shape[1])

    def _of(self, parts: list[Any], width: int) -> Pieces:
        return Pieces(self.team, parts, (self.shape[0], width))


def item(backend: Backend, values: Any, i: int) -> Any:
    """One of several results of a task."""
    return values[i]


def taken_columns(backend: Backend, V: Any, columns: slice) -> Any:
    """Some columns, as an array of their own."""
    return backend.xp.ascontiguousarray(V[:, columns])


def put_columns(backend: Backend, V: Any, columns: slice, other: Any) -> Any:
    """A copy with other columns in the place of some."""
    V = V.copy()
    V[:, columns] = other
    return V


def subtracted(backend: Backend, V: Any, other: Any) -> Any:
    """The difference."""
    return V - other


def scaled(backend: Backend, V: Any, factors: np.ndarray) -> Any:
    """Each column times its factor."""
    return V * backend.asarray(factors)
