"""The workers of a Dask cluster as one team: tasks by block of points, and sums over blocks.

Tasks are pure functions of others' results: what is lost with a worker is computed again, and nothing is scattered.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np

from ..backend import Backend, get_backend
from ..findings import ClusterError, brief, first_few, one_line, refusal

BYTES_PER_POINT = 2_000  # of a block, with 60 neighbours and 20 coordinates
SHARE = 10  # a block takes at most 1/SHARE of the memory that a worker's thread has
COARSE = 1 / 6  # of the memory of all blocks that the coarse levels take on the first worker
# Headers of .npy files are parsed, and Python 3.11 sometimes fails at that in two threads at a time ("AST constructor
# recursion depth mismatch"): the threads of a worker take turns
PARSING = Lock()
LOOK = 5.0  # seconds between two looks at the workers
MUCH = 1 << 62  # bytes that a worker without a limit may use
MUST_MATCH = ("ies_gpu", "numpy", "scipy", "numba")


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


@dataclass(frozen=True)  # and no tuple, into which Dask would look
class Call:
    """``function(backend, *arguments)`` within the tasks that use it, where a task of its own would cost more."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def calls(function: Callable[..., Any], *arguments: Any) -> list[Call]:
    """Return one call per block; lists among the arguments are spread out, everything else goes to every block."""
    count = next(len(a) for a in arguments if isinstance(a, list))
    return [Call(function, tuple(a[i] if isinstance(a, list) else a for a in arguments)) for i in range(count)]


@dataclass(frozen=True)
class Given:
    """The result of another task, by its place among those that a task gets."""

    place: int


class Team:
    """The workers behind a Dask client, each with one device; after ``patience`` seconds of nothing we give up."""

    def __init__(self, client: Any, device: str, patience: float = 30.0) -> None:
        is_client = all(callable(getattr(client, name, None)) for name in ("submit", "nthreads"))
        if not is_client or getattr(client, "asynchronous", False):
            text = f"client must be a dask.distributed.Client that is not asynchronous, got {brief(client)}"
            raise refusal("client.type", text, kind=TypeError)
        self.client, self.device, self.patience = client, device, patience
        self.name = uuid4().hex  # two runs on one cluster must not take each other's results
        self.tasks = self.rounds = 0  # submitted so far, and how often the client waited
        self.near: list[list[int]] = []  # the blocks that each exchanges rows with, once the graph is known
        self.outgoing: list[Any] = []  # which rows each block sends to which other
        self.workers = self.places = sorted(client.nthreads())  # at the start, and by block

    def check_versions(self) -> None:
        """Refuse workers that do not answer, or whose versions differ: their results would, too."""
        from ..run.run import versions

        try:
            own, others = versions(), self.client.run(versions)
        except OSError as error:
            text = f"one of the workers {first_few(self.workers)} did not answer ({one_line(error)})"
            raise refusal("cluster.no_answer", text, "see whether it has enough memory", ClusterError) from None
        if not others or not self.workers:
            text, advice = "the cluster has no workers", "start some, or wait with client.wait_for_workers(1)"
            raise refusal("cluster.no_workers", text, advice, ClusterError)
        for address, theirs in others.items():
            differ = [name for name in MUST_MATCH if theirs.get(name) != own.get(name)]
            if differ:
                wrong = ", ".join(f"{name} {theirs.get(name)} instead of {own.get(name)}" for name in differ)
                text = f"worker {address} has {wrong}"
                raise refusal("cluster.versions", text, "install the same versions everywhere", ClusterError)

    def known(self) -> dict[str, dict[str, Any]]:
        """Return what the scheduler knows of each worker."""
        # not client.scheduler_info: every two seconds the client replaces what that returns by one without workers
        return self.client.sync(self.client.scheduler.identity)["workers"]

    def memory_limits(self) -> dict[str, int]:
        return {address: about["memory_limit"] or MUCH for address, about in self.known().items()}

    def memory_of_first(self) -> int:
        """Return the bytes that the worker of the first block may use; those of the smallest one if it is lost."""
        limits = self.memory_limits()
        return limits.get(self.place(0), min(limits.values(), default=MUCH))

    def block_count(self, n: int) -> int:
        """Return a power of two: at least one block per thread, and each small for the memory of a thread."""
        threads = self.client.nthreads()
        each = (limit // max(1, threads.get(worker, 1)) for worker, limit in self.memory_limits().items())
        wanted = max(1, sum(threads.values()), n * BYTES_PER_POINT * SHARE // min(each, default=MUCH))
        return 1 << (int(wanted) - 1).bit_length()

    def assign_workers(self, count: int) -> None:
        """Give each of ``count`` blocks a worker: runs of blocks, which are near each other, to the same one."""
        # the first, one with the most memory, solves the coarse levels, and gets fewer blocks for it
        limits = self.memory_limits()
        self.workers = sorted(self.workers, key=lambda worker: (-limits.get(worker, 0), worker))
        each = (1 + COARSE) * count / max(1, len(self.workers))
        ends = np.rint(np.cumsum(np.full(len(self.workers), each)) - COARSE * count).clip(1, count)
        self.places = [self.workers[int(i)] for i in np.searchsorted(ends, np.arange(count), side="right")]

    def place(self, block: int) -> str:
        return self.places[block % len(self.places)]

    def submit(
        self, function: Callable[..., Any], *arguments: Any, block: int | None = None, alone: bool = False
    ) -> Any:
        """Return a future for ``function(backend, *arguments)``; futures and calls among the arguments are resolved.

        What belongs to a block stays on one worker, as long as that lives. ``alone`` it may take all threads there.
        """
        self.tasks += 1
        # Dask groups tasks by what comes before the "-"
        key = f"{function.__name__.strip('<>')}-ies-{self.name}-{self.tasks}"
        place = {} if block is None else {"workers": [self.place(block)], "allow_other_workers": True}
        futures: list[Any] = []
        call = prepared(Call(function, arguments), futures)
        threads = None if alone else 1
        return self.client.submit(run_task, call, self.device, threads, *futures, key=key, pure=False, **place)

    def send(self, function: Callable[..., Any], *arguments: Any, at: int, to: int) -> Any:
        """Return what a task of one block needs from another: a task there, or a call where both are on one worker."""
        if self.place(at) == self.place(to):
            return Call(function, arguments)
        return self.submit(function, *arguments, block=at)

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Submit one task per block, as :func:`calls` spreads the arguments."""
        return [self.submit(function, *call.arguments, block=i) for i, call in enumerate(calls(function, *arguments))]

    def exchanged(self, pieces: list[Any]) -> list[tuple[Any, ...]]:
        """Return for each block the rows of others that its own have as neighbours."""
        send, outgoing = self.send, self.outgoing
        near = enumerate(self.near)
        return [tuple(send(sent, pieces[j], outgoing[j], i, at=j, to=i) for j in own) for i, own in near]

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results, on the client; they should be small."""
        self.until_done(futures)
        return self.client.gather(list(futures))

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait for results that stay where they are; raise the error of a task that failed."""
        self.until_done(futures)
        for future in futures:
            if future.status == "error":
                future.result()

    def total(self, futures: Sequence[Any]) -> Any:
        """Return the sum over blocks of arrays or tuples of arrays, always in the order of the blocks."""
        results = self.gather(futures)
        if isinstance(results[0], tuple):
            return tuple(sum(parts[1:], parts[0]) for parts in zip(*results, strict=True))
        return sum(results[1:], results[0])

    def until_done(self, futures: Sequence[Any]) -> None:
        """Wait until tasks have ended, unless nothing happens any more: Dask says nothing of workers without memory."""
        from distributed import wait

        self.rounds += 1
        since, seen = monotonic(), None
        while True:
            try:
                wait(list(futures), timeout=min(LOOK, self.patience / 2))
                return
            except TimeoutError:
                workers = self.known()
            counts: Counter[str] = Counter(done=sum(future.done() for future in futures))
            for about in workers.values():
                counts.update(about["metrics"].get("task_counts", {}))
            if counts != seen or any(counts[state] for state in ("executing", "long-running", "flight")):
                since, seen = monotonic(), counts
            elif monotonic() - since >= self.patience:
                gone = [worker for worker in self.workers if workers.get(worker, {}).get("status") != "running"]
                text = f"nothing has run for {self.patience:g} s; paused or lost: {first_few(gone) or 'no worker'}"
                advice = "give workers more memory, or start fewer of them; the scheduler's dashboard says more"
                raise refusal("cluster.idle", text, advice, ClusterError)


# --- on a worker -----------------------------------------------------------------------------------------------------


def run_task(call: Call, device: str, threads: int | None, *given: Any) -> Any:
    """Run a task on the worker's own backend, mostly in one thread: a worker runs as many tasks at a time as it has."""
    backend = _backend(device, threads)
    with backend.active():
        return result_of(call, backend, given)


def prepared(argument: Any, futures: list[Any]) -> Any:
    """Return an argument with the places of its futures, which are added to the list, instead of these."""
    # not within another function: one that calls itself is a cycle, which would keep arrays of a block alive
    from distributed import Future

    if isinstance(argument, Call):
        return Call(argument.function, prepared(argument.arguments, futures))
    if type(argument) is tuple:
        return tuple(prepared(part, futures) for part in argument)
    if not isinstance(argument, Future):
        return argument
    futures.append(argument)
    return Given(len(futures) - 1)


def result_of(part: Any, backend: Backend, given: tuple[Any, ...]) -> Any:
    if isinstance(part, Call):
        return part.function(backend, *result_of(part.arguments, backend, given))
    if type(part) is tuple:
        return tuple(result_of(each, backend, given) for each in part)
    return given[part.place] if isinstance(part, Given) else part


@cache
def _backend(device: str, threads: int | None) -> Backend:
    return get_backend(device, n_threads=threads)


def sent(backend: Backend, own: Any, outgoing: dict[int, Any], to: int) -> Any:
    index = outgoing[to]
    return own[backend.to_host(index) if isinstance(own, np.ndarray) else index]  # labels are exchanged on the host


def joined(backend: Backend, own: Any, others: tuple[Any, ...]) -> Any:
    """Return a block's rows, and those of others that it needs, in the order of its columns."""
    return backend.xp.concatenate([own, *others]) if others else own


def item(backend: Backend, values: Any, i: int) -> Any:
    return values[i]
