"""The workers of a Dask cluster as one team: tasks by block of points, sums over blocks, and what they cost.

Every task is a pure function of other tasks' results, so a block that is lost with its worker is computed again from
the input. Nothing is scattered from the client and nothing is changed in place.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ..backend import Backend, get_backend
from ..errors import ClusterError, brief, first_few, first_line
from ..findings import refusal
from ..run.fingerprint import versions

BYTES_PER_POINT = 2_000  # of a block, with 60 neighbours and 20 coordinates
SHARE = 10  # a block takes at most 1/SHARE of the memory that a worker's thread has
COARSE = 1 / 6  # of the memory of all blocks that the coarse levels take on the first worker
# Headers of .npy files are parsed, and Python 3.11 sometimes fails at that in two threads at a time ("AST constructor
# recursion depth mismatch"): the threads of a worker take turns
PARSING = Lock()
LOOK = 5.0  # seconds between two looks at the workers
FILLED = 0.6  # of a worker's memory, beyond which Dask moves results to the disk
LIBRARIES = 400_000_000  # bytes that a worker takes with its libraries and compiled kernels (400 to 412 MB measured)
MUST_MATCH = ("ies_gpu", "numpy", "scipy", "numba")


class Several(tuple):
    """Arguments of one task, as many as there are."""


class Call(NamedTuple):
    """``function(backend, *arguments)`` within the tasks that use it, where a task of its own would cost more."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Given(NamedTuple):
    """The result of another task, by its place among those that a task gets."""

    place: int


class Team:
    """The workers behind a Dask client.

    Parameters
    ----------
    client : distributed.Client
    device : str
        The device on each worker, as for :func:`get_backend`.
    patience : float
        Seconds for which nothing happens before we give up.

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
    data : int
        Bytes that all blocks take together, as far as they are known.
    limits : dict of str to int
        Bytes that each worker may use, at the start.
    """

    def __init__(self, client: Any, device: str, patience: float = 30.0) -> None:
        if not (callable(getattr(client, "submit", None)) and callable(getattr(client, "nthreads", None))):
            text = f"client must be a dask.distributed.Client, got {brief(client)}"
            raise refusal("client.type", text, kind=TypeError)
        if getattr(client, "asynchronous", False):
            text, advice = "client must not be asynchronous", "create it with Client(..., asynchronous=False)"
            raise refusal("client.asynchronous", text, advice, TypeError)
        self.client, self.device, self.patience = client, device, patience
        self.name = uuid4().hex  # two runs on one cluster must not take each other's results
        self.tasks = self.rounds = 0
        self.near: list[list[int]] = []
        self.outgoing: list[Any] = []
        self.workers = sorted(client.nthreads())
        self.places = self.workers
        self.data = 0
        self.limits = self.memory_limits()

    def assign_workers(self, count: int) -> None:
        """Give each of ``count`` blocks a worker: runs of blocks, which are near each other, to the same one.

        The first worker, one with the most memory, solves the coarse levels, and gets fewer blocks for it.
        """
        limits = self.memory_limits()
        self.workers = sorted(self.workers, key=lambda worker: (-limits.get(worker, 0), worker))
        each = (1 + COARSE) * count / max(1, len(self.workers))
        ends = np.rint(np.cumsum(np.full(len(self.workers), each)) - COARSE * count).clip(1, count)
        self.places = [self.workers[int(i)] for i in np.searchsorted(ends, np.arange(count), side="right")]

    def check_versions(self) -> None:
        """Refuse workers whose versions differ: their results would, too."""
        own, others = versions(), self.everywhere(versions)
        if not others or not self.workers:
            raise no_workers()
        for address, theirs in others.items():
            wrong = [
                f"{name} {theirs.get(name)} instead of {own.get(name)}"
                for name in MUST_MATCH
                if theirs.get(name) != own.get(name)
            ]
            if wrong:
                text = f"worker {address} has {', '.join(wrong)}"
                raise refusal("cluster.versions", text, "install the same versions everywhere", ClusterError)

    def memory_limits(self) -> dict[str, int]:
        """Bytes that each worker may use; one without a limit counts as having much."""
        # not client.scheduler_info: every two seconds the client replaces what that returns by one without workers
        workers = self.client.sync(self.client.scheduler.identity)["workers"]
        return {address: about["memory_limit"] or 1 << 62 for address, about in workers.items()}

    def memory_of(self, block: int) -> int:
        """Bytes that the worker of a block may use; those of the smallest one if it is lost."""
        limits = self.memory_limits()
        return limits.get(self.place(block), min(limits.values(), default=1 << 62))

    def block_count(self, n: int) -> int:
        """A power of two: at least one block per thread, and small enough that what comes and goes with it is, too."""
        threads = self.client.nthreads()
        if not threads:
            raise no_workers()
        each = (limit // max(1, threads.get(worker, 1)) for worker, limit in self.memory_limits().items())
        wanted = max(sum(threads.values()), n * BYTES_PER_POINT * SHARE // min(each, default=1 << 62))
        return 1 << (int(wanted) - 1).bit_length()

    def submit(
        self, function: Callable[..., Any], *arguments: Any, block: int | None = None, alone: bool = False
    ) -> Any:
        """A future for ``function(backend, *arguments)``; futures and calls among the arguments are resolved.

        What belongs to a block stays on one worker, as long as that lives. A task that all others wait for runs
        ``alone``: it may take the threads of all workers of its machine.
        """
        self.tasks += 1
        # Dask groups tasks by what comes before the "-"
        key = f"{function.__name__.strip('<>')}-ies-{self.name}-{self.tasks}"
        place = {} if block is None else {"workers": [self.place(block)]}
        futures: list[Any] = []
        call = prepared(Call(function, arguments), futures)
        work = Work(call, self.device, self.threads_beside(block or 0) if alone else 1)
        return self.client.submit(
            run_task, work, *futures, key=key, pure=False, allow_other_workers=bool(place), **place
        )

    def threads_beside(self, block: int) -> int:
        """Threads of all workers on the machine of a block."""
        from distributed.comm.addressing import get_address_host

        threads = self.client.nthreads()
        host = get_address_host(self.place(block))
        return max(1, sum(count for worker, count in threads.items() if get_address_host(worker) == host))

    def send(self, function: Callable[..., Any], *arguments: Any, at: int, to: int) -> Any:
        """What a task of one block needs from another: a task there, and only where both are on one worker a call."""
        if self.place(at) == self.place(to):
            return Call(function, arguments)
        return self.submit(function, *arguments, block=at)

    def place(self, block: int) -> str:
        """The worker of a block."""
        return self.places[block % len(self.places)]

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
        self.until_done(futures)
        return self.client.gather(list(futures))

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait for results that stay where they are; raise the error of a task that failed."""
        self.rounds += 1
        self.until_done(futures)
        for future in futures:
            if future.status == "error":
                future.result()

    def until_done(self, futures: Sequence[Any]) -> None:
        """Wait until tasks have ended, unless nothing happens any more: Dask says nothing of workers without memory."""
        from distributed import wait

        since, seen = monotonic(), None
        while True:
            try:
                wait(list(futures), timeout=min(LOOK, self.patience / 2))
                return
            except TimeoutError:
                workers = self.client.sync(self.client.scheduler.identity)["workers"]
            counts: Counter[str] = Counter(done=sum(future.done() for future in futures))
            for about in workers.values():
                counts.update(about["metrics"].get("task_counts", {}))
            if counts != seen or any(counts[state] for state in ("executing", "long-running", "flight")):
                since, seen = monotonic(), counts
            elif monotonic() - since >= self.patience:
                raise self.stuck(workers)

    def stuck(self, workers: dict[str, dict[str, Any]]) -> Exception:
        """Return the error that says which worker keeps a run from going on, what it has and what it needs."""
        needed = f"{(LIBRARIES + self.data / max(1, len(self.workers))) / FILLED / 1e6:,.0f} MB"
        way, idle = (
            f"give each worker about {needed}, or start fewer of them",
            f"nothing has run for {self.patience:g} s",
        )
        for address, about in workers.items():
            if about["status"] == "paused":
                used = about["metrics"].get("memory", 0) / 1e6
                has = f"has paused worker {address}, which uses {used:,.0f} MB of its {self.had(address)}"
                return refusal("cluster.paused", f"{idle}, because Dask {has}", way, ClusterError)
        lost = [f"{address} ({self.had(address)})" for address in self.workers if address not in workers]
        if lost:
            text = f"{idle}; workers were lost, probably for want of memory: {first_few(lost)}"
            return refusal("cluster.workers_lost", text, way, ClusterError)
        return refusal("cluster.idle", idle, "look at the scheduler's dashboard and start again", ClusterError)

    def had(self, address: str) -> str:
        """Return the memory of a worker, for messages."""
        limit = self.limits.get(address, 1 << 62)
        return "memory without a limit" if limit == 1 << 62 else f"{limit / 1e6:,.0f} MB"

    def everywhere(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Run a function on every worker, outside of its tasks."""
        try:
            return self.client.run(function)
        except OSError as error:
            workers = first_few(f"{address} has {self.had(address)}" for address in self.workers)
            advice = (
                f"if it has too little memory for the libraries, which take {LIBRARIES / 1e6:,.0f} MB, give it more: "
            )
            text = f"a worker did not answer ({first_line(error)})"
            raise refusal("cluster.no_answer", text, advice + workers, ClusterError) from None

    def bytes_sent(self) -> int:
        """Bytes that workers have sent so far, to each other and to the client."""
        return sum(self.everywhere(outgoing_bytes).values())

    def total(self, futures: Sequence[Any]) -> Any:
        """The sum over blocks of arrays or tuples of arrays, always in the order of the blocks."""
        results = self.gather(futures)
        if isinstance(results[0], tuple):
            return tuple(sum(parts[1:], parts[0]) for parts in zip(*results, strict=True))
        return sum(results[1:], results[0])

    def exchanged(self, pieces: list[Any]) -> list[Several]:
        """Return for each block the rows of others that its own have as neighbours, for the end of :meth:`map`."""
        return [
            Several(self.send(sent, pieces[j], self.outgoing[j], i, at=j, to=i) for j in self.near[i])
            for i in range(len(pieces))
        ]

    def rows_exchanged(self) -> int:
        """Rows that travel from one worker to another whenever a tall array is exchanged."""
        counts = self.gather(self.map(lambda _, rows: {i: len(own) for i, own in rows.items()}, self.outgoing))
        pairs = ((i, j, n) for j, own in enumerate(counts) for i, n in own.items())
        return sum(n for i, j, n in pairs if self.place(i) != self.place(j))


def no_workers() -> Exception:
    text, advice = "the cluster has no workers", "start some, or wait with client.wait_for_workers(1)"
    return refusal("cluster.no_workers", text, advice, ClusterError)


@dataclass(frozen=True)
class Work:
    """What a task does, on which device and in how many threads: for Dask one thing that it need not look into."""

    call: Call
    device: str
    threads: int


def run_task(work: Work, *given: Any) -> Any:
    """Run a task on the worker's own backend, mostly in one thread: a worker runs as many tasks at a time as it has."""
    backend = _backend(work.device, work.threads)
    with backend.active():
        return result_of(work.call, backend, given)


# Not functions within those above: one that calls itself is a cycle, and would keep what it sees until Python looks for
# cycles, such as arrays of a block.


def prepared(argument: Any, futures: list[Any]) -> Any:
    """An argument with the places of its futures, which are added to the list, instead of these."""
    from distributed import Future

    if isinstance(argument, Call):
        return Call(argument.function, tuple(prepared(part, futures) for part in argument.arguments))
    if not isinstance(argument, Future):
        return argument
    futures.append(argument)
    return Given(len(futures) - 1)


def result_of(part: Any, backend: Backend, given: tuple[Any, ...]) -> Any:
    """The value of an argument on the worker."""
    if isinstance(part, Call):
        return part.function(backend, *(result_of(argument, backend, given) for argument in part.arguments))
    return given[part.place] if isinstance(part, Given) else part


@cache
def _backend(device: str, threads: int) -> Backend:
    return get_backend(device, n_threads=min(threads, os.cpu_count() or 1))


def outgoing_bytes(dask_worker: Any) -> int:
    """Bytes that a worker has sent."""
    return int(dask_worker.transfer_outgoing_bytes_total)


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
    parts : list of Future or Call
    shape : tuple of int
    """

    def __init__(self, team: Team, parts: list[Any], shape: tuple[int, ...]) -> None:
        self.team, self.parts, self.shape = team, parts, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: tuple[slice, Any]) -> Pieces:
        columns = index[1]
        width = len(range(self.shape[1])[columns] if isinstance(columns, slice) else columns)
        return self._of([Call(taken_columns, (part, columns)) for part in self.parts], width)

    def __setitem__(self, index: tuple[slice, slice], other: Pieces) -> None:
        self.parts = self.team.map(put_columns, self.parts, index[1], other.parts)

    def __sub__(self, other: Pieces) -> Pieces:
        pairs = zip(self.parts, other.parts, strict=True)
        return self._of([Call(subtracted, pair) for pair in pairs], self.shape[1])

    def __mul__(self, factors: np.ndarray) -> Pieces:
        return self._of([Call(scaled, (part, factors)) for part in self.parts], self.shape[1])

    def astype(self, dtype: str) -> Pieces:
        """A copy of its own, for arrays that many tasks use."""
        return self._of(self.team.map(converted, self.parts, dtype), self.shape[1])

    def _of(self, parts: list[Any], width: int) -> Pieces:
        return Pieces(self.team, parts, (self.shape[0], width, *self.shape[2:]))


def item(backend: Backend, values: Any, i: int) -> Any:
    """One of several results of a task."""
    return values[i]


def member(backend: Backend, record: Any, name: str) -> Any:
    """A part of a task's result, by name."""
    return getattr(record, name)


def as_it_is(backend: Backend, value: Any) -> Any:
    """A result, moved to the worker of the task."""
    return value


def taken_columns(backend: Backend, V: Any, columns: Any) -> Any:
    """Some columns, as an array of their own."""
    return backend.xp.ascontiguousarray(V[:, columns if isinstance(columns, slice) else backend.asarray(columns)])


def converted(backend: Backend, V: Any, dtype: str) -> Any:
    """The same numbers in another type."""
    return V.astype(dtype)


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
